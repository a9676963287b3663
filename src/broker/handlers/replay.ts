import { REBALANCE_TIMEOUT_MS_MAX } from '../../base/limits.ts';
import { isGroupId } from '../../base/limits.ts';
import { missingPartition } from '../../core/metadata/commits.ts';
import {
  decodeRequest,
  encodeResponse,
  type ReplayRequest,
  type ReplayTarget,
} from '../../protocol/operations/replay.v1.ts';
import type { Failure } from '../../protocol/failure.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { failureOf, refusedElsewhere } from '../groups/refusals.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export function replay(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  if (refusedElsewhere(node, call)) return;
  const request = decoded.value;
  const { group: groupId, targets, pause, create } = request;
  const fault = requestFault(request);
  if (fault !== undefined) {
    call.refuse(fault);
    return;
  }
  const failures = targets.map((target) => targetFault(node, target));
  if (failures.some((failure) => failure !== undefined)) {
    const generation = node.metadata.image().groups.get(groupId)?.generation ?? 0;
    call.answer(
      encodeResponse({
        done: false,
        generation,
        partitions: targets.map(({ topicId, partition }, index) => ({
          topicId,
          partition,
          failure: failures[index],
          before: undefined,
        })),
      }),
    );
    return;
  }
  const offsets = targets.map((target) => ({ ...target, metadata: '' }));
  const timeoutMs = Math.min(request.timeoutMs, REBALANCE_TIMEOUT_MS_MAX);
  node.groups.ask({ kind: 'replay', groupId, pause, create, timeoutMs, offsets }, (answer) => {
    if (!answer.ok) call.refuse(failureOf(node, answer));
    else if (answer.kind === 'replayed') {
      const { generation, before } = answer;
      call.answer(
        encodeResponse({
          done: true,
          generation,
          partitions: targets.map(({ topicId, partition }, index) => ({
            topicId,
            partition,
            failure: undefined,
            before: before[index],
          })),
        }),
      );
    }
  });
}

function requestFault({ group, targets }: ReplayRequest): Failure | undefined {
  if (!isGroupId(group)) return refusal('INVALID_ARGUMENT', 'a group id has 1 to 255 bytes, and no control characters');
  if (targets.length === 0) return refusal('INVALID_ARGUMENT', 'no partition is named');
  const places = new Set(targets.map(({ topicId, partition }) => `${topicId}/${String(partition)}`));
  return places.size === targets.length ? undefined : refusal('INVALID_ARGUMENT', 'a partition is named twice');
}

/** Inside of what can be read, where this node knows what that is. */
function targetFault(node: BrokerNode, { topicId, partition, offset }: ReplayTarget): Failure | undefined {
  const missing = missingPartition(node.metadata.image(), topicId, partition);
  if (missing !== undefined) return refusal(missing.code, missing.message);
  const held = node.replicas.find(topicId, partition);
  if (!held.ok) return held.code === 'NOT_LEADER' ? undefined : refusal(held.code);
  const { highWatermark, logStartOffset: logStart } = held.replica;
  if (offset < logStart) return refusal('OFFSET_EXPIRED', undefined, { logStart, highWatermark });
  return offset > highWatermark ? refusal('COMMIT_BEYOND_END', undefined, { logStart, highWatermark }) : undefined;
}
