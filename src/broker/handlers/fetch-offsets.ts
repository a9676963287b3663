import { NO_EPOCH, NO_TIMESTAMP, type TopicId } from '../../base/brands.ts';
import type { CommittedOffset } from '../../base/group.ts';
import { committedOffset } from '../../core/metadata/commits.ts';
import { REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import { decodeRequest, encodeResponse, type FetchedOffset } from '../../protocol/operations/fetch-offsets.v1.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { refusedElsewhere } from '../groups/refusals.ts';
import { answerIfItFits } from '../groups/sized-answer.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export function fetchOffsets(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  if (refusedElsewhere(node, call)) return;
  const { group, topics } = decoded.value;
  const image = node.metadata.image();
  if (!image.groups.has(group)) {
    call.refuse(refusal('UNKNOWN_GROUP', `there is no group "${group}"`));
    return;
  }
  const asked = topics?.reduce((sum, { partitions }) => sum + partitions.length, 0) ?? 0;
  if (asked > REQUEST_PARTITIONS_MAX) {
    call.refuse(refusal('INVALID_ARGUMENT', `${String(asked)} partitions, at most ${String(REQUEST_PARTITIONS_MAX)}`));
    return;
  }
  const offsets =
    topics === undefined
      ? Array.from(image.offsets.get(group) ?? []).flatMap(([topicId, partitions]) =>
          Array.from(partitions, ([partition, committed]) => listed(topicId, partition, committed)),
        )
      : topics.flatMap(({ topicId, partitions }) =>
          partitions.map((partition) => listed(topicId, partition, committedOffset(image, group, topicId, partition))),
        );
  if (topics === undefined)
    offsets.sort((left, right) =>
      left.topicId === right.topicId ? left.partition - right.partition : left.topicId < right.topicId ? -1 : 1,
    );
  answerIfItFits(call, encodeResponse({ offsets }));
}

function listed(topicId: TopicId, partition: number, committed: CommittedOffset | undefined): FetchedOffset {
  if (committed === undefined)
    return { topicId, partition, offset: undefined, leaderEpoch: NO_EPOCH, committedAt: NO_TIMESTAMP, metadata: '' };
  const { offset, leaderEpoch, at, metadata } = committed;
  return { topicId, partition, offset, leaderEpoch, committedAt: at, metadata };
}
