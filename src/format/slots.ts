// Files of two slots that are written in place, in turn: whatever a power cut does to the one being written, the other is
// intact. Each slot has a sequence and a CRC32C over itself in its last four bytes; between its content and that, zeros.
import type { ByteReader } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { decodePart, unseal32, type Decoded } from './decoded.ts';
import { isZero } from './scan.ts';

export const SLOT_BYTES = 4096;

/** What lies behind the content must be zeros. */
export function decodeSlot<Value>(
  slot: Uint8Array,
  crc32c: Crc32c,
  decode: (reader: ByteReader) => Value,
): Decoded<Value> {
  if (slot.length !== SLOT_BYTES) return { ok: false, reason: `a slot of ${String(slot.length)} bytes` };
  const body = unseal32(slot, crc32c);
  if (!body.ok) return body;
  return decodePart(body.value, (reader) => {
    const value = decode(reader);
    return isZero(reader.bytes, reader.at, reader.bytes.length)
      ? { ok: true, value }
      : { ok: false, reason: 'bytes behind the content' };
  });
}

export interface LoadedSlot<Value> {
  readonly value: Value;
  /** 0 or 1: the next one goes into the other. */
  readonly slot: number;
}

/** Of both slots the intact one with the higher sequence; undefined: neither is intact. */
export function newestSlot<Value extends { readonly sequence: number }>(
  file: Uint8Array,
  decode: (slot: Uint8Array) => Decoded<Value>,
): LoadedSlot<Value> | undefined {
  let best: LoadedSlot<Value> | undefined;
  for (const slot of [0, 1]) {
    const decoded = decode(file.subarray(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES));
    if (decoded.ok && (best === undefined || decoded.value.sequence > best.value.sequence))
      best = { value: decoded.value, slot };
  }
  return best;
}
