import { groupStateOf } from '../../core/group/membership.ts';
import { offsetsOf } from '../../core/metadata/image.ts';
import { decodeRequest, encodeResponse } from '../../protocol/operations/list-groups.v1.ts';
import type { Call } from '../call.ts';
import { refusedElsewhere } from '../groups/refusals.ts';
import { answerIfItFits } from '../groups/sized-answer.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export function listGroups(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  if (refusedElsewhere(node, call)) return;
  const image = node.metadata.image();
  const groups = Array.from(image.groups.values(), (group) => ({
    group: group.groupId,
    state: groupStateOf(group),
    generation: group.generation,
    members: group.members.size,
    offsets: offsetsOf(image, group.groupId),
  })).sort((left, right) => (left.group < right.group ? -1 : 1));
  answerIfItFits(call, encodeResponse({ groups }));
}
