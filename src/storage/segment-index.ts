// The two sparse indexes of one segment, in the bytes that their files hold. They grow in memory while the segment is
// active; the files are written when it is sealed. Derived: whatever they say is checked against the header found there.
import { readU32, writeU32 } from '../base/bytes.ts';
import { readI64, writeI64 } from '../base/bytes.ts';

export const OFFSET_ENTRY_BYTES = 8;
export const TIME_ENTRY_BYTES = 12;

class EntryBuffer {
  private buffer: Uint8Array;
  private readonly entryBytes: number;
  count: number;
  constructor(entryBytes: number, initial: Uint8Array) {
    this.entryBytes = entryBytes;
    this.buffer = initial;
    this.count = Math.floor(initial.length / entryBytes);
  }
  get bytes(): Uint8Array {
    return this.buffer.subarray(0, this.count * this.entryBytes);
  }
  /** Where the new entry is to be written. */
  push(): { readonly bytes: Uint8Array; readonly at: number } {
    const at = this.count * this.entryBytes;
    if (at + this.entryBytes > this.buffer.length) {
      const larger = new Uint8Array(Math.max(32 * this.entryBytes, this.buffer.length * 2));
      larger.set(this.buffer.subarray(0, at));
      this.buffer = larger;
    }
    this.count += 1;
    return { bytes: this.buffer, at };
  }
  get raw(): Uint8Array {
    return this.buffer;
  }
}

export interface IndexHit {
  readonly relativeOffset: number;
  readonly position: number;
}

const START: IndexHit = { relativeOffset: 0, position: 0 };

export class SegmentIndex {
  private readonly offsets: EntryBuffer;
  private readonly times: EntryBuffer;
  private readonly intervalBytes: number;
  private nextIndexedPosition: number;
  private lastTime: number;
  constructor(intervalBytes: number, offsets: Uint8Array = new Uint8Array(0), times: Uint8Array = new Uint8Array(0)) {
    this.intervalBytes = intervalBytes;
    this.offsets = new EntryBuffer(OFFSET_ENTRY_BYTES, offsets);
    this.times = new EntryBuffer(TIME_ENTRY_BYTES, times);
    const last = this.entry(this.offsets.count - 1);
    this.nextIndexedPosition = last.position + intervalBytes;
    this.lastTime =
      this.times.count === 0 ? -1 : (readI64(this.times.raw, (this.times.count - 1) * TIME_ENTRY_BYTES) ?? -1);
  }
  get offsetBytes(): Uint8Array {
    return this.offsets.bytes;
  }
  get timeBytes(): Uint8Array {
    return this.times.bytes;
  }
  get count(): number {
    return this.offsets.count;
  }
  /**
   * A batch lies at `position`. Adds entries when the interval has passed. `maxTimestamp` and `maxTimestampOffset` are
   * those of all batches before it: a record later than that timestamp lies at or after this batch.
   * `always`: this batch must be found again without those before it.
   */
  note(relativeOffset: number, at: number, maxTimestampBefore: number, always = false): void {
    if (at < this.nextIndexedPosition && !always) return;
    const slot = this.offsets.push();
    writeU32(slot.bytes, slot.at, relativeOffset);
    writeU32(slot.bytes, slot.at + 4, at);
    this.nextIndexedPosition = at + this.intervalBytes;
    if (maxTimestampBefore > this.lastTime) {
      const time = this.times.push();
      writeI64(time.bytes, time.at, maxTimestampBefore);
      writeU32(time.bytes, time.at + 8, relativeOffset);
      this.lastTime = maxTimestampBefore;
    }
  }
  entry(index: number): IndexHit {
    if (index < 0) return START;
    const at = index * OFFSET_ENTRY_BYTES;
    return { relativeOffset: readU32(this.offsets.raw, at), position: readU32(this.offsets.raw, at + 4) };
  }
  /** The last entry at or below the offset; the segment's start when there is none. */
  floorOffset(relativeOffset: number): IndexHit {
    return this.entry(this.lastAtMost(relativeOffset, 0));
  }
  /** The last entry at or below the position. */
  floorPosition(at: number): IndexHit {
    return this.entry(this.lastAtMost(at, 4));
  }
  /** Entries above the position, ascending: where to look for the next good batch behind a bad one. */
  above(at: number): readonly IndexHit[] {
    const hits: IndexHit[] = [];
    for (let index = this.lastAtMost(at, 4) + 1; index < this.offsets.count; index += 1) hits.push(this.entry(index));
    return hits;
  }
  /** A relative offset before which no record is later than `timestamp`: where a search by time starts. */
  floorTime(timestamp: number): number {
    let low = 0;
    let high = this.times.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      // An entry says: all records before its offset are at or below its timestamp.
      if ((readI64(this.times.raw, middle * TIME_ENTRY_BYTES) ?? 0) < timestamp) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? 0 : readU32(this.times.raw, (low - 1) * TIME_ENTRY_BYTES + 8);
  }
  private lastAtMost(value: number, field: 0 | 4): number {
    const bytes = this.offsets.raw;
    let low = 0;
    let high = this.offsets.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (readU32(bytes, middle * OFFSET_ENTRY_BYTES + field) <= value) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}
