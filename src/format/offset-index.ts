// `<base offset>.index`: where some batches of the segment lie, so that a read need not walk it. Entries of 8 bytes,
//
//   offset relative to the segment's base u32 · position u32
//
// both rising strictly from entry to entry. There is no entry for the first batch, at 0. There is no checksum: what an entry
// says is compared with the batch header found there, and the file is made again from the log when it does not fit.
import { readU32, writeU32 } from '../base/bytes.ts';

export const OFFSET_ENTRY_BYTES = 8;

export interface OffsetEntry {
  readonly relativeOffset: number;
  readonly position: number;
}

const SEGMENT_START: OffsetEntry = { relativeOffset: 0, position: 0 };

export function writeOffsetEntry(bytes: Uint8Array, at: number, entry: OffsetEntry): void {
  writeU32(bytes, at, entry.relativeOffset);
  writeU32(bytes, at + 4, entry.position);
}

/** The start of the segment for an index below 0. */
export function readOffsetEntry(bytes: Uint8Array, index: number): OffsetEntry {
  if (index < 0) return SEGMENT_START;
  const at = index * OFFSET_ENTRY_BYTES;
  return { relativeOffset: readU32(bytes, at), position: readU32(bytes, at + 4) };
}

/** Index of the last of `count` entries whose offset or position is at most `value`; −1: none. */
export function lastOffsetEntryAtMost(
  bytes: Uint8Array,
  count: number,
  value: number,
  field: keyof OffsetEntry,
): number {
  const shift = field === 'position' ? 4 : 0;
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (readU32(bytes, middle * OFFSET_ENTRY_BYTES + shift) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Whole entries that rise and lie in a segment of `size` bytes and `offsetCount` offsets. Says nothing of batches. */
export function offsetEntriesFit(bytes: Uint8Array, size: number, offsetCount: number): boolean {
  if (bytes.length % OFFSET_ENTRY_BYTES !== 0) return false;
  let { relativeOffset, position } = SEGMENT_START;
  for (let at = 0; at < bytes.length; at += OFFSET_ENTRY_BYTES) {
    const nextOffset = readU32(bytes, at);
    const nextPosition = readU32(bytes, at + 4);
    if (nextOffset <= relativeOffset || nextPosition <= position) return false;
    relativeOffset = nextOffset;
    position = nextPosition;
  }
  return bytes.length === 0 || (position < size && relativeOffset < offsetCount);
}
