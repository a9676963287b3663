// `snapshot-<index>` beside the metadata log: the image of the cluster's metadata after the entry of that index, as rows.
//
//   magic u32 "RVMS" · version u8 = 1 · CRC32C u32 of what follows · index i64 · row count u32
//   rows: key string · value length u32, value
import { blobSize, ByteWriter, readU32, stringSize, writeU32, type ByteReader } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { decodeWhole, need, type Decoded } from './decoded.ts';

const MAGIC = 0x5256_4d53;
const VERSION = 1;
const CRC_AT = 5;
const HEAD_BYTES = 9;
const ROW_BYTES_MIN = 6;
const ROW_VALUE_BYTES_MAX: number = 16 * 1024 * 1024;
/** A larger file is no snapshot: it is not read. */
export const METADATA_SNAPSHOT_BYTES_MAX: number = 512 * 1024 * 1024;

export type MetadataRows = ReadonlyMap<string, Uint8Array>;

export interface MetadataSnapshot {
  readonly index: number;
  /** Values are views of the file's bytes. */
  readonly rows: MetadataRows;
}

export function encodeMetadataSnapshot(index: number, rows: MetadataRows, crc32c: Crc32c): Uint8Array<ArrayBuffer> {
  let size = HEAD_BYTES + 8 + 4;
  for (const [key, value] of rows) size += stringSize(key) + blobSize(value);
  const writer = new ByteWriter(size).u32(MAGIC).u8(VERSION).u32(0).i64(index).u32(rows.size);
  for (const [key, value] of rows) writer.string(key).blob(value);
  const bytes = writer.finish();
  writeU32(bytes, CRC_AT, crc32c(bytes.subarray(HEAD_BYTES)));
  return bytes;
}

export function decodeMetadataSnapshot(bytes: Uint8Array, crc32c: Crc32c): Decoded<MetadataSnapshot> {
  if (bytes.length < HEAD_BYTES) return { ok: false, reason: `${String(bytes.length)} bytes` };
  if (readU32(bytes, 0) !== MAGIC) return { ok: false, reason: 'not a metadata snapshot' };
  const version = bytes[CRC_AT - 1];
  if (version !== VERSION) return { ok: false, reason: `metadata snapshot of unknown version ${String(version)}` };
  const body = bytes.subarray(HEAD_BYTES);
  if (readU32(bytes, CRC_AT) !== crc32c(body)) return { ok: false, reason: 'its checksum does not match' };
  return decodeWhole(body, readSnapshot);
}

function readSnapshot(reader: ByteReader): MetadataSnapshot {
  const index = reader.i64();
  need(index >= 0, `index ${String(index)}`, 0);
  const rows = new Map<string, Uint8Array>();
  for (let rest = reader.count(ROW_BYTES_MIN); rest > 0; rest -= 1) {
    const { at } = reader;
    const key = reader.string();
    need(!rows.has(key), `row ${key} twice`, at);
    rows.set(key, reader.blob(ROW_VALUE_BYTES_MAX));
  }
  return { index, rows };
}
