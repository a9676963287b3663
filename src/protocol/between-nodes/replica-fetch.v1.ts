import type { LeaderEpoch, NodeId, Offset, TopicId } from '../../base/brands.ts';
import { type ByteReader, DecodeError } from '../../base/bytes.ts';
import { errorCode, type ErrorName, errorName } from '../../base/errors.ts';
import { REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import {
  type Decoded,
  type Pieces,
  type Sink,
  LABEL_BYTES_MAX,
  decode,
  encode,
  readLeaderEpoch,
  readList,
  readNodeId,
  readOffset,
  readTopicId,
  writeList,
  writeTopicId,
} from '../wire.ts';

export interface ReplicaFetchPartition {
  readonly topicId: TopicId;
  readonly partition: number;
  /** In which it follows. */
  readonly leaderEpoch: LeaderEpoch;
  /** The end of its log. */
  readonly fetchOffset: Offset;
  /** Of its last batch; −1: the log is empty. */
  readonly lastEpoch: LeaderEpoch;
  readonly written: Offset;
  readonly synced: Offset;
  readonly highWatermark: Offset;
  /** Soft: the first batch comes whole. */
  readonly maxBytes: number;
}
/** Between nodes: a follower asks for what comes behind the end of its logs. It names the start of itself that asks. */
export interface ReplicaFetchRequest {
  readonly from: NodeId;
  readonly diskId: string;
  readonly incarnation: number;
  readonly waitMs: number;
  readonly minBytes: number;
  /** Of all partitions together; soft in the same way. */
  readonly maxBytes: number;
  readonly partitions: readonly ReplicaFetchPartition[];
}

export type ReplicaFetchAnswer =
  /** Log start above the fetch offset: the follower goes on from there, with a log of its own that begins there. */
  | { readonly kind: 'ok'; readonly highWatermark: Offset; readonly logStart: Offset; readonly batches: Pieces }
  /** The logs part: the leader's ends at `endOffset` in the last epoch, up to the follower's, that it knows (−1: it retains none). */
  | { readonly kind: 'diverged'; readonly epoch: LeaderEpoch; readonly endOffset: Offset }
  | { readonly kind: 'refused'; readonly code: ErrorName };

export interface ReplicaFetchEntry {
  /** Which partition of the request. */
  readonly index: number;
  readonly answer: ReplicaFetchAnswer;
}
/** Only partitions of which there is something to say, ascending. Decoded: batches are at most one view of the received frame. */
export interface ReplicaFetchResponse {
  readonly entries: readonly ReplicaFetchEntry[];
}

const PARTITION_BYTES_MIN = 64;
const ENTRY_BYTES_MIN = 7;
const OK = 0;
const DIVERGED = 1;
const REFUSED = 2;

// request   = node id i32, disk id string, incarnation i64, wait ms u32, min bytes u32, max bytes u32, count u32, count × partition
// partition = topic id, partition u32, leader epoch i32, fetch offset i64, last epoch i32 (−1: none), written i64, synced i64,
//             high watermark i64, max bytes u32
export function encodeRequest(request: ReplicaFetchRequest): Pieces {
  return [
    encode((sink) => {
      sink.i32(request.from).string(request.diskId).i64(request.incarnation);
      sink.u32(request.waitMs).u32(request.minBytes).u32(request.maxBytes);
      writeList(sink, request.partitions, (item) => {
        writeTopicId(sink, item.topicId);
        sink.u32(item.partition).i32(item.leaderEpoch).i64(item.fetchOffset).i32(item.lastEpoch);
        sink.i64(item.written).i64(item.synced).i64(item.highWatermark).u32(item.maxBytes);
      });
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<ReplicaFetchRequest> {
  return decode(body, (reader) => ({
    from: readNodeId(reader),
    diskId: reader.string(LABEL_BYTES_MAX),
    incarnation: readOffset(reader),
    waitMs: reader.u32(),
    minBytes: reader.u32(),
    maxBytes: reader.u32(),
    partitions: readList(reader, { elementBytesMin: PARTITION_BYTES_MIN, countMax: REQUEST_PARTITIONS_MAX }, () =>
      readPartition(reader),
    ),
  }));
}

function readPartition(reader: ByteReader): ReplicaFetchPartition {
  const { at } = reader;
  const partition = {
    topicId: readTopicId(reader),
    partition: reader.u32(),
    leaderEpoch: readLeaderEpoch(reader),
    fetchOffset: readOffset(reader),
    lastEpoch: readLeaderEpoch(reader),
    written: readOffset(reader),
    synced: readOffset(reader),
    highWatermark: readOffset(reader),
    maxBytes: reader.u32(),
  };
  const { fetchOffset, written, synced, highWatermark } = partition;
  if (synced > written || written > fetchOffset || highWatermark > fetchOffset)
    throw new DecodeError('offsets of a log out of order', at);
  return partition;
}

// response = count u32, count × entry, record batches of the entries one after the other
// entry    = index u32, kind u8, and by kind: 0: high watermark i64, log start i64, bytes u32 (of its record batches)
//            · 1: epoch i32 (−1: none), end offset i64 · 2: error code u16
export function encodeResponse(response: ReplicaFetchResponse): Pieces {
  const heading = encode((sink) => {
    writeList(sink, response.entries, ({ index, answer }) => {
      sink.u32(index);
      writeAnswer(sink, answer);
    });
  });
  const pieces: Uint8Array[] = [heading];
  for (const { answer } of response.entries) if (answer.kind === 'ok') pieces.push(...answer.batches);
  return pieces;
}

function writeAnswer(sink: Sink, answer: ReplicaFetchAnswer): void {
  switch (answer.kind) {
    case 'ok':
      sink.u8(OK).i64(answer.highWatermark).i64(answer.logStart);
      sink.u32(answer.batches.reduce((sum, piece) => sum + piece.length, 0));
      break;
    case 'diverged':
      sink.u8(DIVERGED).i32(answer.epoch).i64(answer.endOffset);
      break;
    case 'refused':
      sink.u8(REFUSED).u16(errorCode(answer.code));
      break;
  }
}

interface Heading {
  readonly index: number;
  readonly answer: ReplicaFetchAnswer;
  readonly bytes: number;
}

export function decodeResponse(body: Uint8Array): Decoded<ReplicaFetchResponse> {
  return decode(body, (reader) => {
    let last = -1;
    const headings = readList(reader, { elementBytesMin: ENTRY_BYTES_MIN, countMax: REQUEST_PARTITIONS_MAX }, () => {
      const { at } = reader;
      const heading = readHeading(reader);
      if (heading.index <= last) throw new DecodeError(`entry ${String(heading.index)} behind ${String(last)}`, at);
      last = heading.index;
      return heading;
    });
    let promised = 0;
    for (const { bytes } of headings) promised += bytes;
    if (promised !== reader.remaining) {
      throw new DecodeError(
        `${String(promised)} bytes of batches announced, ${String(reader.remaining)} present`,
        reader.at,
      );
    }
    return {
      entries: headings.map(({ index, answer, bytes }) => ({
        index,
        answer: answer.kind === 'ok' && bytes > 0 ? { ...answer, batches: [reader.raw(bytes)] } : answer,
      })),
    };
  });
}

function readHeading(reader: ByteReader): Heading {
  const index = reader.u32();
  const { at } = reader;
  const kind = reader.u8();
  if (kind === OK) {
    const highWatermark = readOffset(reader);
    const logStart = readOffset(reader);
    return { index, answer: { kind: 'ok', highWatermark, logStart, batches: [] }, bytes: reader.u32() };
  }
  if (kind === DIVERGED) {
    const epoch = readLeaderEpoch(reader);
    return { index, answer: { kind: 'diverged', epoch, endOffset: readOffset(reader) }, bytes: 0 };
  }
  if (kind !== REFUSED) throw new DecodeError(`answer of kind ${String(kind)}`, at);
  const code = reader.u16();
  if (code === 0) throw new DecodeError('a refusal without an error', at);
  // Of a newer node, perhaps: not known is refused all the same.
  return { index, answer: { kind: 'refused', code: errorName(code) ?? 'INTERNAL' }, bytes: 0 };
}
