import { decodeRequest, encodeResponse } from '../../protocol/operations/delete-topic.v1.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';
import { badName, findTopic } from '../topics.ts';

export async function deleteTopic(node: BrokerNode, call: Call, body: Uint8Array): Promise<void> {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  const { name, topicId } = decoded.value;
  const nameFault = badName(name);
  if (nameFault !== undefined) {
    call.refuse(nameFault);
    return;
  }
  const topic = findTopic(node.metadata.image(), name);
  if (topic === undefined || (topicId !== undefined && topic.topicId !== topicId)) {
    call.refuse(refusal('UNKNOWN_TOPIC'));
    return;
  }
  const outcome = await node.metadata.propose({ kind: 'DeleteTopic', topicId: topic.topicId });
  if (outcome.ok) call.answer(encodeResponse({ topicId: topic.topicId }));
  else call.refuse(refusal(outcome.code, outcome.message));
}
