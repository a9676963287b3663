import { decodeRequest, encodeResponse } from '../../protocol/operations/describe-group.v1.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { describe } from '../groups/describe.ts';
import { refusedElsewhere } from '../groups/refusals.ts';
import { answerIfItFits } from '../groups/sized-answer.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export async function describeGroup(node: BrokerNode, call: Call, body: Uint8Array): Promise<void> {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  if (refusedElsewhere(node, call)) return;
  const group = node.metadata.image().groups.get(decoded.value.group);
  if (group === undefined) call.refuse(refusal('UNKNOWN_GROUP', `there is no group "${decoded.value.group}"`));
  else answerIfItFits(call, encodeResponse(await describe(node, group)));
}
