import type { NodeId } from '../../base/brands.ts';
import { DecodeError } from '../../base/bytes.ts';
import { type Decoded, type Pieces, decode, encode, readNodeId } from '../wire.ts';

/** Between nodes: an entry for the metadata log, handed on to whoever leads it. */
export interface ProposeRequest {
  readonly from: NodeId;
  readonly entry: Uint8Array;
}
/** Where the entry stands. Whether it stays there, and what it did, is seen by applying the log: every node gets the same outcome. */
export interface ProposeResponse {
  readonly index: number;
  readonly term: number;
}

export const ENTRY_BYTES_MAX: number = 4 * 1024 * 1024;

// request = node id i32, entry blob
export function encodeRequest(request: ProposeRequest): Pieces {
  return [encode((sink) => sink.i32(request.from).blob(request.entry))];
}
export function decodeRequest(body: Uint8Array): Decoded<ProposeRequest> {
  return decode(body, (reader) => ({ from: readNodeId(reader), entry: reader.blob(ENTRY_BYTES_MAX) }));
}

// response = index i64, term i64
export function encodeResponse(response: ProposeResponse): Pieces {
  return [encode((sink) => sink.i64(response.index).i64(response.term))];
}
export function decodeResponse(body: Uint8Array): Decoded<ProposeResponse> {
  return decode(body, (reader) => {
    const index = reader.i64();
    const term = reader.i64();
    if (index < 0 || term < 0) throw new DecodeError('a negative number', 0);
    return { index, term };
  });
}
