import { decodeRequest, encodeResponse } from '../../protocol/operations/leave-group.v1.ts';
import type { Call } from '../call.ts';
import { failureOf, refusedElsewhere } from '../groups/refusals.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export function leaveGroup(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  if (refusedElsewhere(node, call)) return;
  const { group: groupId, memberId } = decoded.value;
  node.groups.ask({ kind: 'leave', groupId, memberId }, (answer) => {
    if (!answer.ok) call.refuse(failureOf(node, answer));
    else if (answer.kind === 'left') call.answer(encodeResponse({ left: answer.left }));
  });
}
