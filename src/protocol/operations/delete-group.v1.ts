import { readGroupId } from '../group-fields.ts';
import { type Decoded, type Pieces, decode, encode } from '../wire.ts';

export interface DeleteGroupRequest {
  /** Without members: its committed offsets go. */
  readonly group: string;
}
export interface DeleteGroupResponse {
  /** Committed offsets that are gone. */
  readonly offsets: number;
}

// request = group string
export function encodeRequest(request: DeleteGroupRequest): Pieces {
  return [encode((sink) => sink.string(request.group))];
}
export function decodeRequest(body: Uint8Array): Decoded<DeleteGroupRequest> {
  return decode(body, (reader) => ({ group: readGroupId(reader) }));
}

// response = committed offsets that are gone u32
export function encodeResponse(response: DeleteGroupResponse): Pieces {
  return [encode((sink) => sink.u32(response.offsets))];
}
export function decodeResponse(body: Uint8Array): Decoded<DeleteGroupResponse> {
  return decode(body, (reader) => ({ offsets: reader.u32() }));
}
