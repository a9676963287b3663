import type { LeaderEpoch, Offset, TopicId } from '../../base/brands.ts';
import { DecodeError } from '../../base/bytes.ts';
import { REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import { type Failure, readFailure, writeFailure } from '../failure.ts';
import {
  type Decoded,
  type Pieces,
  decode,
  encode,
  readLeaderEpoch,
  readList,
  readOffset,
  readOptionalOffset,
  readReserved,
  readTopicId,
  writeList,
  writeTopicId,
} from '../wire.ts';

export interface FetchPartition {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly fetchOffset: Offset;
  /** As the client knows it; −1: it does not. */
  readonly currentLeaderEpoch: LeaderEpoch;
  /** Of the last batch that the client has of this partition; −1: none. By it the broker finds out that the logs parted. */
  readonly lastFetchedEpoch: LeaderEpoch;
  /** Soft: the first batch comes whole. */
  readonly maxBytes: number;
}
export interface FetchRequest {
  /** How long the broker may wait for `minBytes`. */
  readonly waitMs: number;
  /** 0: answer at once, whatever there is. */
  readonly minBytes: number;
  /** Of all partitions together; soft in the same way. */
  readonly maxBytes: number;
  /** Served in this order while `maxBytes` lasts. */
  readonly partitions: readonly FetchPartition[];
}
export interface FetchedPartition {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly failure: Failure | undefined;
  /** Undefined: not told. [log start, high watermark) is what can be read now. */
  readonly logStart: Offset | undefined;
  readonly highWatermark: Offset | undefined;
  /** Of the leader that answered; −1: not told. */
  readonly leaderEpoch: LeaderEpoch;
  /** Whole record batches, the first of which holds the fetch offset. Decoded: at most one view of the received frame. */
  readonly batches: Pieces;
}
export interface FetchResponse {
  readonly throttleMs: number;
  /** In the order of the request. */
  readonly partitions: readonly FetchedPartition[];
}

interface Heading extends Omit<FetchedPartition, 'batches'> {
  readonly bytes: number;
}

// request   = wait ms u32, min bytes u32, max bytes u32, isolation u8 (0), count u32, count × partition
// partition = topic id 16 bytes, partition u32, fetch offset i64, current leader epoch i32 (−1: not known),
//             last fetched epoch i32 (−1: none), max bytes u32
export function encodeRequest(request: FetchRequest): Pieces {
  return [
    encode((sink) => {
      sink.u32(request.waitMs).u32(request.minBytes).u32(request.maxBytes).u8(0);
      writeList(sink, request.partitions, (item) => {
        writeTopicId(sink, item.topicId);
        sink
          .u32(item.partition)
          .i64(item.fetchOffset)
          .i32(item.currentLeaderEpoch)
          .i32(item.lastFetchedEpoch)
          .u32(item.maxBytes);
      });
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<FetchRequest> {
  return decode(body, (reader) => {
    const waitMs = reader.u32();
    const minBytes = reader.u32();
    const maxBytes = reader.u32();
    readReserved(reader, 'isolation');
    const partitions = readList(reader, { elementBytesMin: 40, countMax: REQUEST_PARTITIONS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
      fetchOffset: readOffset(reader),
      currentLeaderEpoch: readLeaderEpoch(reader),
      lastFetchedEpoch: readLeaderEpoch(reader),
      maxBytes: reader.u32(),
    }));
    return { waitMs, minBytes, maxBytes, partitions };
  });
}

// response  = throttle ms u32, count u32, count × partition, record batches of the partitions one after the other
// partition = topic id 16 bytes, partition u32, error, log start offset i64 (−1: not told), high watermark i64 (−1: not told),
//             leader epoch i32 (−1: not told), bytes u32 (of its record batches)
export function encodeResponse(response: FetchResponse): Pieces {
  const heading = encode((sink) => {
    sink.u32(response.throttleMs);
    writeList(sink, response.partitions, (item) => {
      writeTopicId(sink, item.topicId);
      sink.u32(item.partition);
      writeFailure(sink, item.failure);
      sink
        .i64(item.logStart ?? -1)
        .i64(item.highWatermark ?? -1)
        .i32(item.leaderEpoch);
      let bytes = 0;
      for (const piece of item.batches) bytes += piece.length;
      sink.u32(bytes);
    });
  });
  const pieces: Uint8Array[] = [heading];
  for (const item of response.partitions) for (const piece of item.batches) pieces.push(piece);
  return pieces;
}
export function decodeResponse(body: Uint8Array): Decoded<FetchResponse> {
  return decode(body, (reader) => {
    const throttleMs = reader.u32();
    const headings = readList<Heading>(reader, { elementBytesMin: 46, countMax: REQUEST_PARTITIONS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
      failure: readFailure(reader),
      logStart: readOptionalOffset(reader),
      highWatermark: readOptionalOffset(reader),
      leaderEpoch: readLeaderEpoch(reader),
      bytes: reader.u32(),
    }));
    let promised = 0;
    for (const heading of headings) promised += heading.bytes;
    if (promised !== reader.remaining) {
      throw new DecodeError(
        `${String(promised)} bytes of batches announced, ${String(reader.remaining)} present`,
        reader.at,
      );
    }
    const partitions = headings.map(({ bytes, ...rest }) => ({
      ...rest,
      batches: bytes === 0 ? [] : [reader.raw(bytes)],
    }));
    return { throttleMs, partitions };
  });
}
