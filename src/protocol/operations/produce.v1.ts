import type { LeaderEpoch, Offset, TopicId } from '../../base/brands.ts';
import { ByteWriter, DecodeError } from '../../base/bytes.ts';
import {
  type Decoded,
  type Pieces,
  decode,
  readChoice,
  readLeaderEpoch,
  readOffset,
  readTopicId,
  writeTopicId,
} from '../wire.ts';

/** When the answer leaves. leader: appended at the leader, may still be lost. committed: as replication and fsync policy say. */
export type RequiredAcks = 'leader' | 'committed';

export interface ProduceRequest {
  readonly topicId: TopicId;
  readonly partition: number;
  /** As the client knows it; −1: it does not. */
  readonly leaderEpoch: LeaderEpoch;
  readonly acks: RequiredAcks;
  /** How long the broker waits for the commit before it answers COMMIT_TIMEOUT. */
  readonly timeoutMs: number;
  /** One or more whole record batches. Decoded: a view of the received frame. */
  readonly batches: Uint8Array;
}
export interface ProduceResponse {
  readonly baseOffset: Offset;
  readonly lastOffset: Offset;
  readonly leaderEpoch: LeaderEpoch;
  readonly logStart: Offset;
  /** How long the broker will not read from this connection because of a quota; 0: no quota was hit. */
  readonly throttleMs: number;
  /** The batches were in the log already, from an earlier attempt; the offsets are theirs. */
  readonly duplicate: boolean;
}

const ACKS: readonly (RequiredAcks | undefined)[] = [undefined, 'leader', 'committed'];
const REQUEST_BYTES = 29;
const RESPONSE_BYTES = 33;

// request = topic id 16 bytes, partition u32, leader epoch i32 (−1: not known), acks u8 (1: leader, 2: committed),
//           timeout ms u32, record batches (all bytes that follow; at least one batch)
export function encodeRequest(request: ProduceRequest): Pieces {
  const writer = new ByteWriter(REQUEST_BYTES);
  writeTopicId(writer, request.topicId);
  writer.u32(request.partition).i32(request.leaderEpoch).u8(ACKS.indexOf(request.acks)).u32(request.timeoutMs);
  return [writer.finish(), request.batches];
}
export function decodeRequest(body: Uint8Array): Decoded<ProduceRequest> {
  return decode(body, (reader) => {
    const topicId = readTopicId(reader);
    const partition = reader.u32();
    const leaderEpoch = readLeaderEpoch(reader);
    const acks = readChoice(reader, 'acks', ACKS);
    const timeoutMs = reader.u32();
    if (reader.remaining === 0) throw new DecodeError('no record batch', reader.at);
    return { topicId, partition, leaderEpoch, acks, timeoutMs, batches: reader.raw(reader.remaining) };
  });
}

// response = base offset i64, last offset i64, leader epoch i32, log start offset i64, throttle ms u32, duplicate bool
export function encodeResponse(response: ProduceResponse): Pieces {
  const writer = new ByteWriter(RESPONSE_BYTES);
  writer.i64(response.baseOffset).i64(response.lastOffset).i32(response.leaderEpoch).i64(response.logStart);
  return [writer.u32(response.throttleMs).bool(response.duplicate).finish()];
}
export function decodeResponse(body: Uint8Array): Decoded<ProduceResponse> {
  return decode(body, (reader) => ({
    baseOffset: readOffset(reader),
    lastOffset: readOffset(reader),
    leaderEpoch: readLeaderEpoch(reader),
    logStart: readOffset(reader),
    throttleMs: reader.u32(),
    duplicate: reader.bool(),
  }));
}
