// How the image lies in LMDB: each value behind the CRC32C of its key and itself, and one record that says up to which
// entry of the log the image goes, how many entries it has, and a digest of all of them. So a lost, stale or foreign entry
// is found like a changed one.
import { assert } from '../base/assert.ts';
import { readI64, readU32, utf8Decode, writeI64, writeU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';

/** LMDB takes up to 1978 bytes with pages of 4 KiB. */
const KEY_BYTES_MAX = 1900;
const ENTRY_PREFIX = 'e';
/** Sorts before all entries. */
export const HEAD_KEY: Buffer = Buffer.from('a');
const HEAD_BYTES = 24;

export interface ImageHead {
  readonly appliedIndex: number;
  readonly entryCount: number;
  readonly digest: Digest;
}

/** Of a set of checksums, whatever their order; entries are added and taken out one by one. */
export class Digest {
  private exclusive = 0;
  private sum = 0;
  add(crc: number): void {
    this.exclusive = (this.exclusive ^ crc) >>> 0;
    this.sum = (this.sum + crc) >>> 0;
  }
  remove(crc: number): void {
    this.exclusive = (this.exclusive ^ crc) >>> 0;
    this.sum = (this.sum - crc) >>> 0;
  }
  equals(other: Digest): boolean {
    return this.exclusive === other.exclusive && this.sum === other.sum;
  }
  write(bytes: Uint8Array, at: number): void {
    writeU32(bytes, at, this.exclusive);
    writeU32(bytes, at + 4, this.sum);
  }
  static read(bytes: Uint8Array, at: number): Digest {
    const digest = new Digest();
    digest.exclusive = readU32(bytes, at);
    digest.sum = readU32(bytes, at + 4);
    return digest;
  }
}

export function entryKey(key: string): Buffer {
  const bytes = Buffer.from(ENTRY_PREFIX + key);
  assert(bytes.length <= KEY_BYTES_MAX && key.isWellFormed(), `a metadata key of ${String(bytes.length)} bytes`);
  return bytes;
}

/** Undefined when it is not the key of an entry. */
export function entryName(key: Uint8Array): string | undefined {
  try {
    const text = utf8Decode(key);
    return text.startsWith(ENTRY_PREFIX) ? text.slice(ENTRY_PREFIX.length) : undefined;
  } catch {
    return undefined;
  }
}

export function sealValue(
  crc32c: Crc32c,
  key: Uint8Array,
  value: Uint8Array,
): { readonly bytes: Buffer; readonly crc: number } {
  const crc = crc32c(value, crc32c(key));
  const bytes = Buffer.allocUnsafe(4 + value.length);
  writeU32(bytes, 0, crc);
  bytes.set(value, 4);
  return { bytes, crc };
}

/** A copy of the value; undefined when its checksum does not hold. */
export function openValue(
  crc32c: Crc32c,
  key: Uint8Array,
  sealed: Uint8Array,
): { readonly value: Uint8Array; readonly crc: number } | undefined {
  if (sealed.length < 4) return undefined;
  const value = sealed.slice(4);
  const crc = crc32c(value, crc32c(key));
  return crc === readU32(sealed, 0) ? { value: new Uint8Array(value), crc } : undefined;
}

export function encodeHead(head: ImageHead): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES);
  writeI64(bytes, 0, head.appliedIndex);
  writeI64(bytes, 8, head.entryCount);
  head.digest.write(bytes, 16);
  return bytes;
}

export function decodeHead(bytes: Uint8Array): ImageHead | undefined {
  if (bytes.length !== HEAD_BYTES) return undefined;
  const appliedIndex = readI64(bytes, 0);
  const entryCount = readI64(bytes, 8);
  if (appliedIndex === undefined || entryCount === undefined) return undefined;
  return { appliedIndex, entryCount, digest: Digest.read(bytes, 16) };
}
