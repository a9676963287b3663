import { producerId as asProducerId } from '../../base/brands.ts';
import { utf8Size } from '../../base/bytes.ts';
import { TOPIC_NAME_BYTES_MAX } from '../../base/limits.ts';
import { decodeRequest, encodeResponse, type InitProducerRequest } from '../../protocol/operations/init-producer.v1.ts';
import type { Failure } from '../../protocol/failure.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export async function initProducer(node: BrokerNode, call: Call, body: Uint8Array): Promise<void> {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  const { name } = decoded.value;
  const fault = nameFault(name) ?? fenced(node, decoded.value);
  if (fault !== undefined) {
    call.refuse(fault);
    return;
  }
  const outcome = await node.metadata.propose({ kind: 'InitProducer', name });
  if (!outcome.ok) call.refuse(refusal(outcome.code, outcome.message));
  else if (outcome.value.kind !== 'InitProducer')
    call.refuse(refusal('INTERNAL', `an InitProducer gave a ${outcome.value.kind}`));
  else
    call.answer(
      encodeResponse({
        producerId: asProducerId(outcome.value.producerId),
        producerEpoch: outcome.value.producerEpoch,
      }),
    );
}

/** What the metadata log can hold: an entry that it cannot read back must never get in. */
function nameFault(name: string | undefined): Failure | undefined {
  if (name === undefined || utf8Size(name) <= TOPIC_NAME_BYTES_MAX) return undefined;
  return refusal('INVALID_ARGUMENT', `a producer name has at most ${String(TOPIC_NAME_BYTES_MAX)} bytes`);
}

/** A session that goes on with what it holds has lost when the name belongs to a newer one. */
function fenced(node: BrokerNode, { name, producerId, producerEpoch }: InitProducerRequest): Failure | undefined {
  if (name === undefined || producerId === -1) return undefined;
  const current = node.metadata.image().producers.get(name);
  if (current === undefined || (current.producerId === producerId && current.epoch <= producerEpoch)) return undefined;
  return refusal('PRODUCER_FENCED', undefined, { producerEpoch: current.epoch });
}
