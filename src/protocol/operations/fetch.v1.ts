// Fetch: read from any number of partitions; waits on the server until there is something or the time is over.
import type { TopicId } from '../../base/brands.ts';
import { REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import { array, i32, i64, is, struct, topicIdField, u16, u32, type Field } from '../fields.ts';
import type { Operation } from '../operation.ts';

export interface FetchPartition {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly fetchOffset: number;
  readonly currentLeaderEpoch: number;
  readonly lastFetchedEpoch: number;
  readonly maxBytes: number;
}
export interface FetchRequest {
  readonly waitMs: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly partitions: readonly FetchPartition[];
}
export interface FetchedPartition {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly errorCode: number;
  readonly logStartOffset: number;
  readonly highWatermark: number;
  readonly leaderEpoch: number;
  readonly resumeOffset: number;
  readonly resumeEpoch: number;
  readonly payloadBytes: number;
}
export interface FetchResponse {
  readonly throttleMs: number;
  readonly partitions: readonly FetchedPartition[];
}

const asked: Field<FetchPartition> = struct<FetchPartition>({
  topicId: is(topicIdField, 'Topic.'),
  partition: is(u32, 'Partition.'),
  fetchOffset: is(i64, 'First offset wanted.'),
  currentLeaderEpoch: is(i32, 'Leader epoch that the client knows; −1: unknown.'),
  lastFetchedEpoch: is(i32, 'Leader epoch of the batch read before this offset; −1: none. Lets the broker tell LOG_TRUNCATED.'),
  maxBytes: is(u32, 'At most so many bytes of this partition; the first batch comes whole even when it is larger.'),
});
const fetched: Field<FetchedPartition> = struct<FetchedPartition>({
  topicId: is(topicIdField, 'Topic.'),
  partition: is(u32, 'Partition.'),
  errorCode: is(u16, '0, or the error of this partition; then there is no payload.'),
  logStartOffset: is(i64, 'First offset that is retained; −1: unknown.'),
  highWatermark: is(i64, 'End of what may be read; −1: unknown.'),
  leaderEpoch: is(i32, 'Epoch of the leader that answers; −1: unknown.'),
  resumeOffset: is(i64, 'DAMAGED_RANGE: first offset behind the damage. LOG_TRUNCATED: where the logs part. Else −1.'),
  resumeEpoch: is(i32, 'LOG_TRUNCATED: the last epoch both logs share. Else −1.'),
  payloadBytes: is(u32, 'Bytes of this partition in the payload.'),
});

export const fetch: Operation<FetchRequest, FetchResponse> = {
  code: 4,
  name: 'Fetch',
  version: 1,
  about: 'Whole batches from the one that holds the offset on, up to the high watermark.',
  beforeHello: false,
  changesState: false,
  request: struct<FetchRequest>({
    waitMs: is(u32, 'How long the broker may wait for minBytes.'),
    minBytes: is(u32, 'Answer at once when so many bytes are there; 0: always at once.'),
    maxBytes: is(u32, 'At most so many bytes in all; the first batch comes whole even when it is larger.'),
    partitions: is(array(asked, REQUEST_PARTITIONS_MAX), 'What is wanted, in order of preference.'),
  }),
  response: struct<FetchResponse>({
    throttleMs: is(u32, 'The broker will not read from this client for so long; 0: not throttled.'),
    partitions: is(array(fetched, REQUEST_PARTITIONS_MAX), 'Answers in the order of the request.'),
  }),
  requestPayload: undefined,
  responsePayload: 'the batches of each partition, in the order of the answers, back to back',
};
