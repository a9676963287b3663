import type { LeaderEpoch, Offset, TimestampMs, TopicId } from '../../base/brands.ts';
import { type ByteReader, DecodeError } from '../../base/bytes.ts';
import { COMMIT_METADATA_BYTES_MAX } from '../../base/limits.ts';
import { type TopicPartitions, readGroupId, readTopicPartitions, writeTopicPartitions } from '../group-fields.ts';
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

export interface FetchOffsetsRequest {
  readonly group: string;
  /** Undefined: all that are committed. */
  readonly topics: readonly TopicPartitions[] | undefined;
}
export interface FetchedOffset {
  readonly topicId: TopicId;
  readonly partition: number;
  /** The next offset to read; undefined: nothing is committed. */
  readonly offset: Offset | undefined;
  /** As it was committed. */
  readonly leaderEpoch: LeaderEpoch;
  readonly committedAt: TimestampMs;
  readonly metadata: string;
}
export interface FetchOffsetsResponse {
  /** Those asked for in the order of the request; all: by topic id and partition. */
  readonly offsets: readonly FetchedOffset[];
}

const SELECT_ALL = 0;
const SELECT_LISTED = 1;
const OFFSETS_MAX = 1_000_000;

// request   = group string, selection
// selection = 0 u8 (all that are committed) | 1 u8, topics
// topics    = count u32, count × (topic id 16 bytes, count u32, count × partition u32)
export function encodeRequest(request: FetchOffsetsRequest): Pieces {
  return [
    encode((sink) => {
      sink.string(request.group);
      if (request.topics === undefined) sink.u8(SELECT_ALL);
      else writeTopicPartitions(sink.u8(SELECT_LISTED), request.topics);
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<FetchOffsetsRequest> {
  return decode(body, (reader) => ({ group: readGroupId(reader), topics: readSelection(reader) }));
}
function readSelection(reader: ByteReader): TopicPartitions[] | undefined {
  const at = reader.at;
  const kind = reader.u8();
  if (kind === SELECT_ALL) return undefined;
  if (kind === SELECT_LISTED) return readTopicPartitions(reader);
  throw new DecodeError(`selection is ${String(kind)}`, at);
}

// response = count u32, count × offset
// offset   = topic id 16 bytes, partition u32, offset i64 (the next to read; −1: nothing is committed), leader epoch i32,
//            committed at i64 (−1: nothing is), metadata string
export function encodeResponse(response: FetchOffsetsResponse): Pieces {
  return [
    encode((sink) => {
      writeList(sink, response.offsets, (item) => {
        writeTopicId(sink, item.topicId);
        sink
          .u32(item.partition)
          .i64(item.offset ?? -1)
          .i32(item.leaderEpoch);
        sink.i64(item.committedAt).string(item.metadata);
      });
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<FetchOffsetsResponse> {
  return decode(body, (reader) => ({
    offsets: readList(reader, { elementBytesMin: 42, countMax: OFFSETS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
      offset: readOptionalOffset(reader),
      leaderEpoch: readLeaderEpoch(reader),
      committedAt: readTimestamp(reader),
      metadata: reader.string(COMMIT_METADATA_BYTES_MAX),
    })),
  }));
}
