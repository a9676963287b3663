import { decodeRequest, encodeResponse } from '../../protocol/operations/join-group.v1.ts';
import type { Call } from '../call.ts';
import { failureOf, refusedElsewhere } from '../groups/refusals.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export function joinGroup(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  if (refusedElsewhere(node, call)) return;
  const { group: groupId, memberId = newMemberId(node), ...terms } = decoded.value;
  node.groups.ask({ kind: 'join', groupId, memberId, ...terms }, (answer) => {
    if (!answer.ok) call.refuse(failureOf(node, answer));
    else if (answer.kind === 'membership') call.answer(encodeResponse({ memberId, membership: answer.membership }));
  });
}

function newMemberId(node: BrokerNode): string {
  return Array.from(node.ports.random.bytes(16), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
