// `<base offset>.timeindex`: where to look for a timestamp. Entries of 12 bytes,
//
//   timestamp i64 · offset relative to the segment's base u32
//
// each saying: the largest timestamp of all records of the segment before that offset is this one. Both rise strictly,
// whatever the producers' clocks do. No checksum: derived like the offset index.
import { readI64, readU32, writeI64, writeU32 } from '../base/bytes.ts';

export const TIME_ENTRY_BYTES = 12;

export interface TimeEntry {
  readonly timestamp: number;
  readonly relativeOffset: number;
}

export function writeTimeEntry(bytes: Uint8Array, at: number, entry: TimeEntry): void {
  writeI64(bytes, at, entry.timestamp);
  writeU32(bytes, at + 8, entry.relativeOffset);
}

/** Undefined: a timestamp that is not a safe integer. */
export function readTimeEntry(bytes: Uint8Array, index: number): TimeEntry | undefined {
  const at = index * TIME_ENTRY_BYTES;
  const timestamp = readI64(bytes, at);
  return timestamp === undefined ? undefined : { timestamp, relativeOffset: readU32(bytes, at + 8) };
}

/** A relative offset before which no record is as late as `timestamp`: where a search by time starts. */
export function floorTime(bytes: Uint8Array, count: number, timestamp: number): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((readI64(bytes, middle * TIME_ENTRY_BYTES) ?? 0) < timestamp) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? 0 : readU32(bytes, (low - 1) * TIME_ENTRY_BYTES + 8);
}

/** Whole entries that rise and lie in a segment of `offsetCount` offsets. */
export function timeEntriesFit(bytes: Uint8Array, offsetCount: number): boolean {
  if (bytes.length % TIME_ENTRY_BYTES !== 0) return false;
  let previous: TimeEntry = { timestamp: -1, relativeOffset: 0 };
  for (let index = 0; index < bytes.length / TIME_ENTRY_BYTES; index += 1) {
    const entry = readTimeEntry(bytes, index);
    if (entry === undefined || entry.timestamp <= previous.timestamp) return false;
    if (entry.relativeOffset <= previous.relativeOffset || entry.relativeOffset >= offsetCount) return false;
    previous = entry;
  }
  return true;
}
