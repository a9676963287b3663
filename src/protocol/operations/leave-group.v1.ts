import { readGroupId, readMemberId } from '../group-fields.ts';
import { type Decoded, type Pieces, decode, encode } from '../wire.ts';

export interface LeaveGroupRequest {
  readonly group: string;
  /** It has stopped and committed: everything that it owns is free at once. */
  readonly memberId: string;
}
export interface LeaveGroupResponse {
  /** False: it was no member (any more), as when the request is repeated. */
  readonly left: boolean;
}

// request = group string, member id string
export function encodeRequest(request: LeaveGroupRequest): Pieces {
  return [encode((sink) => sink.string(request.group).string(request.memberId))];
}
export function decodeRequest(body: Uint8Array): Decoded<LeaveGroupRequest> {
  return decode(body, (reader) => ({ group: readGroupId(reader), memberId: readMemberId(reader) }));
}

// response = left bool
export function encodeResponse(response: LeaveGroupResponse): Pieces {
  return [encode((sink) => sink.bool(response.left))];
}
export function decodeResponse(body: Uint8Array): Decoded<LeaveGroupResponse> {
  return decode(body, (reader) => ({ left: reader.bool() }));
}
