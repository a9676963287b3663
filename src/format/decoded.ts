// What a decoder of a file gives: the value, or why there is none. A file is never half believed.
import { ByteReader, DecodeError, readU32, writeU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';

export type Decoded<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly reason: string };

/** Runs one decoder; what it throws as DecodeError becomes a reason. Every byte must have been read. */
export function decodeWhole<Value>(bytes: Uint8Array, decode: (reader: ByteReader) => Value): Decoded<Value> {
  return decodePart(bytes, (reader) => {
    const value = decode(reader);
    reader.end();
    return { ok: true, value };
  });
}

/** As `decodeWhole`, but the decoder judges itself what it has not read. */
export function decodePart<Value>(bytes: Uint8Array, decode: (reader: ByteReader) => Decoded<Value>): Decoded<Value> {
  try {
    return decode(new ByteReader(bytes));
  } catch (error) {
    if (error instanceof DecodeError) return { ok: false, reason: error.message };
    throw error;
  }
}

/** For decoders: a field has a value that none of ours has. */
export function need(holds: boolean, what: string, at: number): void {
  if (!holds) throw new DecodeError(what, at);
}

const CHECKSUM_BYTES = 4;

/** The last four bytes become the CRC32C of all bytes before them. */
export function seal32(bytes: Uint8Array, crc32c: Crc32c): void {
  const at = bytes.length - CHECKSUM_BYTES;
  writeU32(bytes, at, crc32c(bytes.subarray(0, at)));
}

/** The bytes before the checksum, or why they cannot be believed. */
export function unseal32(bytes: Uint8Array, crc32c: Crc32c): Decoded<Uint8Array> {
  const at = bytes.length - CHECKSUM_BYTES;
  if (at < 0) return { ok: false, reason: `${String(bytes.length)} bytes` };
  const body = bytes.subarray(0, at);
  const found = crc32c(body);
  const stored = readU32(bytes, at);
  if (found !== stored)
    return { ok: false, reason: `checksum of the bytes ${found.toString(16)}, the file says ${stored.toString(16)}` };
  return { ok: true, value: body };
}
