import { decodeRequest, encodeResponse } from '../../protocol/operations/delete-group.v1.ts';
import type { Call } from '../call.ts';
import { failureOf, refusedElsewhere } from '../groups/refusals.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export function deleteGroup(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  if (refusedElsewhere(node, call)) return;
  node.groups.ask({ kind: 'delete', groupId: decoded.value.group }, (answer) => {
    if (!answer.ok) call.refuse(failureOf(node, answer));
    else if (answer.kind === 'deleted') call.answer(encodeResponse({ offsets: answer.offsets }));
  });
}
