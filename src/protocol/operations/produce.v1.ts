// Produce: append batches to one partition. The payload is stored as it is; the broker stamps base offset and leader epoch.
import type { TopicId } from '../../base/brands.ts';
import { bool, i32, i64, is, struct, topicIdField, u32, u8, within, type Field } from '../fields.ts';
import type { Operation } from '../operation.ts';

/** Answer when the leader has appended: may still be lost. */
export const ACKS_LEADER = 1;
/** Answer when committed under the partition's replication and fsync policy. */
export const ACKS_COMMITTED = 2;

export interface ProduceRequest {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly leaderEpoch: number;
  readonly acks: number;
  readonly timeoutMs: number;
}
export interface ProduceResponse {
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly leaderEpoch: number;
  readonly logStartOffset: number;
  readonly duplicate: boolean;
  readonly throttleMs: number;
}

const request: Field<ProduceRequest> = struct<ProduceRequest>({
  topicId: is(topicIdField, 'Topic.'),
  partition: is(u32, 'Partition.'),
  leaderEpoch: is(i32, 'Epoch that the client knows; −1: any.'),
  acks: is(within(u8, ACKS_LEADER, ACKS_COMMITTED), '1: answer when the leader has appended. 2: answer when committed.'),
  timeoutMs: is(u32, 'How long to wait for the commit; then COMMIT_TIMEOUT, outcome unknown.'),
});

export const produce: Operation<ProduceRequest, ProduceResponse> = {
  code: 3,
  name: 'Produce',
  version: 1,
  about: 'Appends one or more record batches to one partition: all of them or none.',
  beforeHello: false,
  changesState: true,
  request,
  response: struct<ProduceResponse>({
    baseOffset: is(i64, 'Offset of the first record.'),
    lastOffset: is(i64, 'Offset of the last record.'),
    leaderEpoch: is(i32, 'Epoch they were appended in.'),
    logStartOffset: is(i64, 'First offset that is retained.'),
    duplicate: is(bool, 'True: these batches were in the log already, at these offsets.'),
    throttleMs: is(u32, 'The broker will not read from this client for so long; 0: not throttled.'),
  }),
  requestPayload: 'record batches, magic 2, back to back; producer id, epoch and sequence are in their headers; base offset and leader epoch are ignored',
  responsePayload: undefined,
};
