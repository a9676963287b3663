// InitProducer: an identity by which retries are recognised.
import { i64, is, optional, string, struct, u16 } from '../fields.ts';
import type { Operation } from '../operation.ts';

export interface InitProducerRequest {
  readonly name: string | undefined;
}
export interface InitProducerResponse {
  readonly producerId: number;
  readonly producerEpoch: number;
}

export const initProducer: Operation<InitProducerRequest, InitProducerResponse> = {
  code: 6,
  name: 'InitProducer',
  version: 1,
  about: 'Gives a producer id and epoch. With a name: the same id again with the next epoch, which fences the older session.',
  beforeHello: false,
  changesState: true,
  request: struct<InitProducerRequest>({ name: is(optional(string(249)), 'Durable name of the producer; absent: a fresh identity.') }),
  response: struct<InitProducerResponse>({
    producerId: is(i64, 'Goes into the header of each batch.'),
    producerEpoch: is(u16, 'Goes into the header of each batch (0 to 32767).'),
  }),
  requestPayload: undefined,
  responsePayload: undefined,
};
