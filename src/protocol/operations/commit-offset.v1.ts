import type { LeaderEpoch, Offset, TopicId } from '../../base/brands.ts';
import { COMMIT_METADATA_BYTES_MAX, REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import { type Failure, readFailure, writeFailure } from '../failure.ts';
import { NO_GENERATION, readGeneration, readGroupId, readMemberId } from '../group-fields.ts';
import {
  type Decoded,
  type Pieces,
  decode,
  encode,
  readLeaderEpoch,
  readList,
  readOffset,
  readTopicId,
  writeList,
  writeTopicId,
} from '../wire.ts';

export interface OffsetToCommit {
  readonly topicId: TopicId;
  readonly partition: number;
  /** The next offset to read: everything below it is done. */
  readonly offset: Offset;
  /** Of the batch read last before it; −1: not known. */
  readonly leaderEpoch: LeaderEpoch;
  /** For people and for the application. */
  readonly metadata: string;
}
export interface CommitOffsetRequest {
  readonly group: string;
  readonly memberId: string;
  readonly generation: number;
  readonly offsets: readonly OffsetToCommit[];
}
export interface CommittedResult {
  readonly topicId: TopicId;
  readonly partition: number;
  /** Undefined: durable, or it was committed there before. */
  readonly failure: Failure | undefined;
}
export interface CommitOffsetResponse {
  /** In the order of the request. */
  readonly results: readonly CommittedResult[];
}

// request = group string, member id string, generation i64, count u32, count × commit
// commit  = topic id 16 bytes, partition u32, offset i64 (the next to read), leader epoch i32 (−1: not known), metadata string
export function encodeRequest(request: CommitOffsetRequest): Pieces {
  return [
    encode((sink) => {
      sink.string(request.group).string(request.memberId).i64(request.generation);
      writeList(sink, request.offsets, (item) => {
        writeTopicId(sink, item.topicId);
        sink.u32(item.partition).i64(item.offset).i32(item.leaderEpoch).string(item.metadata);
      });
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<CommitOffsetRequest> {
  return decode(body, (reader) => ({
    group: readGroupId(reader),
    memberId: readMemberId(reader),
    generation: readGeneration(reader, NO_GENERATION),
    offsets: readList(reader, { elementBytesMin: 34, countMax: REQUEST_PARTITIONS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
      offset: readOffset(reader),
      leaderEpoch: readLeaderEpoch(reader),
      metadata: reader.string(COMMIT_METADATA_BYTES_MAX),
    })),
  }));
}

// response = count u32, count × result
// result   = topic id 16 bytes, partition u32, error
export function encodeResponse(response: CommitOffsetResponse): Pieces {
  return [
    encode((sink) => {
      writeList(sink, response.results, ({ topicId, partition, failure }) => {
        writeTopicId(sink, topicId);
        writeFailure(sink.u32(partition), failure);
      });
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<CommitOffsetResponse> {
  return decode(body, (reader) => ({
    results: readList(reader, { elementBytesMin: 22, countMax: REQUEST_PARTITIONS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
      failure: readFailure(reader),
    })),
  }));
}
