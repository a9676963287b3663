// `<offset>.snapshot`: what the log's owner knew of everything below that offset. Opaque here:
//
//   magic u32 "RVOS" · CRC32C u32 of what follows · the owner's bytes
import { readU32, writeU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import type { Decoded } from './decoded.ts';

const MAGIC = 0x5256_4f53;
const HEAD_BYTES = 8;
/** A larger file is no snapshot: it is not read. */
export const OWNER_SNAPSHOT_BYTES_MAX: number = 64 * 1024 * 1024;

export function encodeOwnerSnapshot(content: Uint8Array, crc32c: Crc32c): Uint8Array<ArrayBuffer> {
  const file = new Uint8Array(HEAD_BYTES + content.length);
  file.set(content, HEAD_BYTES);
  writeU32(file, 0, MAGIC);
  writeU32(file, 4, crc32c(content));
  return file;
}

/** The owner's bytes, a view of the file's. */
export function decodeOwnerSnapshot(file: Uint8Array, crc32c: Crc32c): Decoded<Uint8Array> {
  if (file.length < HEAD_BYTES) return { ok: false, reason: `${String(file.length)} bytes` };
  if (readU32(file, 0) !== MAGIC) return { ok: false, reason: 'not a snapshot' };
  const content = file.subarray(HEAD_BYTES);
  const found = crc32c(content);
  const stored = readU32(file, 4);
  if (found !== stored)
    return { ok: false, reason: `checksum of the bytes ${found.toString(16)}, the file says ${stored.toString(16)}` };
  return { ok: true, value: content };
}
