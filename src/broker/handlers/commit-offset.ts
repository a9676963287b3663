import type { GroupMember } from '../../base/group.ts';
import { committedOffset, judgeCommit } from '../../core/metadata/commits.ts';
import {
  decodeRequest,
  encodeResponse,
  type CommitOffsetRequest,
  type OffsetToCommit,
} from '../../protocol/operations/commit-offset.v1.ts';
import type { Failure } from '../../protocol/failure.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { refusedElsewhere } from '../groups/refusals.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export function commitOffset(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  if (refusedElsewhere(node, call)) return;
  const request = decoded.value;
  const stranger = refuseStranger(node, request);
  if (stranger !== undefined) {
    call.refuse(stranger);
    return;
  }
  const failures: (Failure | undefined)[] = [];
  /** Places in the request of what is written. */
  const places: number[] = [];
  for (const [place, item] of request.offsets.entries()) {
    const judged = judge(node, request, item);
    failures.push(judged === 'write' ? undefined : judged);
    if (judged === 'write') places.push(place);
  }
  const answer = (): void => {
    call.answer(
      encodeResponse({
        results: request.offsets.map(({ topicId, partition }, place) => ({
          topicId,
          partition,
          failure: failures[place],
        })),
      }),
    );
  };
  if (places.length === 0) {
    answer();
    return;
  }
  const { group: groupId, memberId, generation } = request;
  const offsets = places.flatMap((place) => request.offsets[place] ?? []);
  node.groups.commits.add({ groupId, memberId, generation, offsets }, (outcome) => {
    if (!outcome.ok) {
      call.refuse(refusal(outcome.code, outcome.message));
      return;
    }
    for (const { offset, code, message, facts } of outcome.refused)
      failures[places[offset] ?? 0] = refusal(code, message, facts);
    answer();
  });
}

function refuseStranger(node: BrokerNode, { group, memberId }: CommitOffsetRequest): Failure | undefined {
  const members: ReadonlyMap<string, GroupMember> =
    node.metadata.image().groups.get(group)?.members ?? new Map<string, GroupMember>();
  if (members.has(memberId)) return undefined;
  const replaced = Array.from(members.values()).some(({ replaces }) => replaces === memberId);
  return refusal(replaced ? 'INSTANCE_FENCED' : 'UNKNOWN_MEMBER');
}

/** Undefined: it is committed there already. */
function judge(node: BrokerNode, request: CommitOffsetRequest, item: OffsetToCommit): Failure | 'write' | undefined {
  const { group: groupId, memberId, generation } = request;
  const image = node.metadata.image();
  const verdict = judgeCommit(image, { groupId, memberId, generation }, item);
  if (verdict.kind === 'same') return undefined;
  if (verdict.kind === 'refused') return refusal(verdict.code, verdict.message, verdict.facts);
  const held = node.replicas.find(item.topicId, item.partition);
  // Its end is known to the node that leads it, which reads were answered by.
  if (!held.ok) return held.code === 'NOT_LEADER' ? 'write' : refusal(held.code);
  const { highWatermark, logStartOffset: logStart } = held.replica;
  if (item.offset > highWatermark) return refusal('COMMIT_BEYOND_END', undefined, { highWatermark, logStart });
  const before = committedOffset(image, groupId, item.topicId, item.partition);
  // A higher epoch goes back only when what was committed is not there any more.
  if (before !== undefined && item.offset < before.offset && before.offset <= highWatermark) {
    const message = `${String(before.offset)} is committed`;
    return refusal('COMMIT_BACKWARDS', message, { committedOffset: before.offset });
  }
  return 'write';
}
