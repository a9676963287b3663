import type { NodeId } from '../../base/brands.ts';
import { DecodeError } from '../../base/bytes.ts';
import { type Decoded, type Pieces, decode, encode, readNodeId } from '../wire.ts';

/** Between nodes: a part of a snapshot of the metadata, for a node that is behind the start of the metadata log. */
export interface InstallSnapshotRequest {
  readonly from: NodeId;
  readonly term: number;
  /** Of the last entry that it covers. */
  readonly index: number;
  readonly indexTerm: number;
  /** Bytes of the whole. */
  readonly size: number;
  readonly at: number;
  readonly part: Uint8Array;
}
export interface InstallSnapshotResponse {
  /** Bytes that it has from the start on: where to go on. At `size` the snapshot is installed. */
  readonly have: number;
}

export const SNAPSHOT_PART_BYTES_MAX: number = 1024 * 1024;

// request = node id i32, term i64, index i64, term of the index i64, size i64, at i64, part blob
export function encodeRequest(request: InstallSnapshotRequest): Pieces {
  return [
    encode((sink) =>
      sink
        .i32(request.from)
        .i64(request.term)
        .i64(request.index)
        .i64(request.indexTerm)
        .i64(request.size)
        .i64(request.at)
        .blob(request.part),
    ),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<InstallSnapshotRequest> {
  return decode(body, (reader) => {
    const from = readNodeId(reader);
    const { at: place } = reader;
    const [term, index, indexTerm, size, at] = [reader.i64(), reader.i64(), reader.i64(), reader.i64(), reader.i64()];
    const part = reader.blob(SNAPSHOT_PART_BYTES_MAX);
    if (Math.min(term, index, indexTerm, size, at) < 0 || at + part.length > size)
      throw new DecodeError('not a part of a snapshot', place);
    return { from, term, index, indexTerm, size, at, part };
  });
}

// response = bytes that it has i64
export function encodeResponse(response: InstallSnapshotResponse): Pieces {
  return [encode((sink) => sink.i64(response.have))];
}
export function decodeResponse(body: Uint8Array): Decoded<InstallSnapshotResponse> {
  return decode(body, (reader) => {
    const have = reader.i64();
    if (have < 0) throw new DecodeError('a negative number', 0);
    return { have };
  });
}
