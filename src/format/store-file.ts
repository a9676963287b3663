// `store.json`: who the data directory belongs to and what wrote it. One line of JSON, written once:
//
//   {"formatVersion":1,"nodeId":N,"diskId":"32 hex digits","crc32c":"8 hex digits"}
//
// crc32c is that of the UTF-8 text {"formatVersion":1,"nodeId":N,"diskId":"…"}, written like that, without spaces.
import { assert } from '../base/assert.ts';
import { utf8Decode, utf8Encode } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import type { Decoded } from './decoded.ts';

/** What this version writes, and the highest it reads. */
export const FORMAT_VERSION = 1;
/** A larger file is no store file: it is not read. */
export const STORE_FILE_BYTES_MAX = 65_536;
const DISK_ID = /^[0-9a-f]{32}$/;

export interface StoreFile {
  readonly formatVersion: number;
  readonly nodeId: number;
  /** 32 hex digits; a new disk has another. */
  readonly diskId: string;
}

/** newer: a later version wrote it, and what else it says is not judged. */
export type StoreFileContent =
  | (StoreFile & { readonly kind: 'known' })
  | { readonly kind: 'newer'; readonly formatVersion: number };

function checksum({ formatVersion, nodeId, diskId }: StoreFile, crc32c: Crc32c): string {
  return crc32c(utf8Encode(JSON.stringify({ formatVersion, nodeId, diskId })))
    .toString(16)
    .padStart(8, '0');
}

export function encodeStoreFile(store: Omit<StoreFile, 'formatVersion'>, crc32c: Crc32c): Uint8Array<ArrayBuffer> {
  assert(
    Number.isSafeInteger(store.nodeId) && store.nodeId >= 0 && DISK_ID.test(store.diskId),
    `not a store: ${store.diskId}`,
  );
  const content: StoreFile = { formatVersion: FORMAT_VERSION, nodeId: store.nodeId, diskId: store.diskId };
  return utf8Encode(`${JSON.stringify({ ...content, crc32c: checksum(content, crc32c) })}\n`);
}

export function decodeStoreFile(bytes: Uint8Array, crc32c: Crc32c): Decoded<StoreFileContent> {
  const value = parse(bytes);
  if (value === undefined) return { ok: false, reason: 'it is not JSON' };
  const { formatVersion, nodeId, diskId } = value;
  if (typeof formatVersion !== 'number' || !Number.isSafeInteger(formatVersion) || formatVersion < 1) {
    return { ok: false, reason: 'it has no format version' };
  }
  if (formatVersion > FORMAT_VERSION) return { ok: true, value: { kind: 'newer', formatVersion } };
  if (typeof nodeId !== 'number' || !Number.isSafeInteger(nodeId) || nodeId < 0)
    return { ok: false, reason: 'it has no node id' };
  if (typeof diskId !== 'string' || !DISK_ID.test(diskId)) return { ok: false, reason: 'it has no disk id' };
  const content = { formatVersion, nodeId, diskId };
  const found = checksum(content, crc32c);
  if (value.crc32c !== found)
    return { ok: false, reason: `checksum of its content ${found}, it says ${String(value.crc32c)}` };
  return { ok: true, value: { kind: 'known', ...content } };
}

interface Loose {
  readonly formatVersion?: unknown;
  readonly nodeId?: unknown;
  readonly diskId?: unknown;
  readonly crc32c?: unknown;
}

function parse(bytes: Uint8Array): Loose | undefined {
  try {
    const value: unknown = JSON.parse(utf8Decode(bytes));
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
