import {
  type Membership,
  NO_GENERATION,
  type TopicPartitions,
  readGeneration,
  readGroupId,
  readMemberId,
  readMembership,
  readTopicPartitions,
  writeMembership,
  writeTopicPartitions,
} from '../group-fields.ts';
import { type Decoded, type Pieces, decode, encode } from '../wire.ts';

export interface HeartbeatRequest {
  readonly group: string;
  readonly memberId: string;
  /** Of the last answer that was acted on; NO_GENERATION: none yet. */
  readonly generation: number;
  /** Answer when the membership is no longer as in `generation`, or after this long. 0: at once. */
  readonly waitMs: number;
  /** Stopped and committed: the member will not touch them before they are assigned to it again. */
  readonly released: readonly TopicPartitions[];
}
export interface HeartbeatResponse {
  readonly membership: Membership;
}

// request = group string, member id string, generation i64 (−1: none yet), wait ms u32, released topics
// topics  = count u32, count × (topic id 16 bytes, count u32, count × partition u32)
export function encodeRequest(request: HeartbeatRequest): Pieces {
  return [
    encode((sink) => {
      sink.string(request.group).string(request.memberId).i64(request.generation).u32(request.waitMs);
      writeTopicPartitions(sink, request.released);
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<HeartbeatRequest> {
  return decode(body, (reader) => ({
    group: readGroupId(reader),
    memberId: readMemberId(reader),
    generation: readGeneration(reader, NO_GENERATION),
    waitMs: reader.u32(),
    released: readTopicPartitions(reader),
  }));
}

// response   = membership
// membership = generation i64, state u8 (0: stable, 1: revoking, 2: waiting, 3: paused), heartbeat ms u32,
//              assigned topics, topics to release
export function encodeResponse(response: HeartbeatResponse): Pieces {
  return [
    encode((sink) => {
      writeMembership(sink, response.membership);
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<HeartbeatResponse> {
  return decode(body, (reader) => ({ membership: readMembership(reader) }));
}
