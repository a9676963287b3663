import type { LeaderEpoch, Offset, TimestampMs, TopicId } from '../../base/brands.ts';
import { type ByteReader, DecodeError } from '../../base/bytes.ts';
import { REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import { type Failure, readFailure, writeFailure } from '../failure.ts';
import {
  type Decoded,
  type Pieces,
  decode,
  encode,
  readLeaderEpoch,
  readList,
  readOptionalOffset,
  readTimestamp,
  readTopicId,
  writeList,
  writeTopicId,
} from '../wire.ts';

export type OffsetTarget =
  /** The log start offset. */
  | { readonly kind: 'earliest' }
  /** The high watermark: what the next committed record gets. */
  | { readonly kind: 'latest' }
  /** The first batch with a record at or after the time: earlier records of that batch are for the client to skip. */
  | { readonly kind: 'timestamp'; readonly timestamp: TimestampMs };

export interface ListOffsetsPartition {
  readonly topicId: TopicId;
  readonly partition: number;
  /** As the client knows it; −1: it does not. */
  readonly currentLeaderEpoch: LeaderEpoch;
  readonly target: OffsetTarget;
}
export interface ListOffsetsRequest {
  readonly partitions: readonly ListOffsetsPartition[];
}
export interface ListedOffset {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly failure: Failure | undefined;
  /** Undefined with a failure only. By time, with no record that late: the high watermark. */
  readonly offset: Offset | undefined;
  /** By time: the largest of the batch found; −1 otherwise, and when no record is that late. */
  readonly timestamp: TimestampMs;
  readonly leaderEpoch: LeaderEpoch;
}
export interface ListOffsetsResponse {
  /** In the order of the request. */
  readonly partitions: readonly ListedOffset[];
}

const KINDS: readonly OffsetTarget['kind'][] = ['earliest', 'latest', 'timestamp'];

// request   = count u32, count × partition
// partition = topic id 16 bytes, partition u32, current leader epoch i32 (−1: not known),
//             kind u8 (0: earliest, 1: latest, 2: by time), timestamp i64 (ms since 1970; −1 unless by time)
export function encodeRequest(request: ListOffsetsRequest): Pieces {
  return [
    encode((sink) => {
      writeList(sink, request.partitions, ({ topicId, partition, currentLeaderEpoch, target }) => {
        writeTopicId(sink, topicId);
        sink.u32(partition).i32(currentLeaderEpoch).u8(KINDS.indexOf(target.kind));
        sink.i64(target.kind === 'timestamp' ? target.timestamp : -1);
      });
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<ListOffsetsRequest> {
  return decode(body, (reader) => ({
    partitions: readList(reader, { elementBytesMin: 33, countMax: REQUEST_PARTITIONS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
      currentLeaderEpoch: readLeaderEpoch(reader),
      target: readTarget(reader),
    })),
  }));
}
function readTarget(reader: ByteReader): OffsetTarget {
  const at = reader.at;
  const kind = KINDS[reader.u8()];
  const timestamp = readTimestamp(reader);
  if (kind === 'timestamp') return { kind, timestamp };
  if (kind === undefined) throw new DecodeError('kind of offset is not known', at);
  if (timestamp !== -1) throw new DecodeError(`timestamp given with ${kind}`, at + 1);
  return { kind };
}

// response  = count u32, count × partition
// partition = topic id 16 bytes, partition u32, error, offset i64 (−1 with an error), timestamp i64 (−1: not by time, or no
//             record that late), leader epoch i32
export function encodeResponse(response: ListOffsetsResponse): Pieces {
  return [
    encode((sink) => {
      writeList(sink, response.partitions, (item) => {
        writeTopicId(sink, item.topicId);
        sink.u32(item.partition);
        writeFailure(sink, item.failure);
        sink
          .i64(item.offset ?? -1)
          .i64(item.timestamp)
          .i32(item.leaderEpoch);
      });
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<ListOffsetsResponse> {
  return decode(body, (reader) => ({
    partitions: readList(reader, { elementBytesMin: 42, countMax: REQUEST_PARTITIONS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
      failure: readFailure(reader),
      offset: readOptionalOffset(reader),
      timestamp: readTimestamp(reader),
      leaderEpoch: readLeaderEpoch(reader),
    })),
  }));
}
