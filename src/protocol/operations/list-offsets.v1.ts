// ListOffsets: where a partition begins, where it ends, and which offset a time has.
import type { TopicId } from '../../base/brands.ts';
import { REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import { array, i32, i64, is, struct, topicIdField, u16, u32, type Field } from '../fields.ts';
import type { Operation } from '../operation.ts';

/** Values of `timestamp` that are not times. */
export const LATEST = -1;
export const EARLIEST = -2;

export interface OffsetQuery {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly currentLeaderEpoch: number;
  readonly timestamp: number;
}
export interface ListOffsetsRequest {
  readonly partitions: readonly OffsetQuery[];
}
export interface OffsetAnswer {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly errorCode: number;
  readonly offset: number;
  readonly timestamp: number;
  readonly leaderEpoch: number;
}
export interface ListOffsetsResponse {
  readonly partitions: readonly OffsetAnswer[];
}

const query: Field<OffsetQuery> = struct<OffsetQuery>({
  topicId: is(topicIdField, 'Topic.'),
  partition: is(u32, 'Partition.'),
  currentLeaderEpoch: is(i32, 'Leader epoch that the client knows; −1: unknown.'),
  timestamp: is(i64, '−2: the log start. −1: the high watermark. Else the first batch with a record at or after this time (ms since 1970).'),
});
const answer: Field<OffsetAnswer> = struct<OffsetAnswer>({
  topicId: is(topicIdField, 'Topic.'),
  partition: is(u32, 'Partition.'),
  errorCode: is(u16, '0, or the error of this partition.'),
  offset: is(i64, 'Offset; for a time: first offset of a batch whose largest timestamp is at or after it (look inside), or the high watermark when there is none.'),
  timestamp: is(i64, 'Largest timestamp of that batch; −1 when not asked by time or none found.'),
  leaderEpoch: is(i32, 'Epoch of the leader that answers.'),
});

export const listOffsets: Operation<ListOffsetsRequest, ListOffsetsResponse> = {
  code: 5,
  name: 'ListOffsets',
  version: 1,
  about: 'Earliest, latest, or by time.',
  beforeHello: false,
  changesState: false,
  request: struct<ListOffsetsRequest>({ partitions: is(array(query, REQUEST_PARTITIONS_MAX), 'What is asked.') }),
  response: struct<ListOffsetsResponse>({ partitions: is(array(answer, REQUEST_PARTITIONS_MAX), 'Answers in the order of the request.') }),
  requestPayload: undefined,
  responsePayload: undefined,
};
