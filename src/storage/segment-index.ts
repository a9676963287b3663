// The two sparse indexes of one segment, in the bytes that their files hold. They grow in memory while the segment is
// active; the files are written when it is sealed. Derived: whatever they say is checked against the header found there.
import {
  lastOffsetEntryAtMost,
  OFFSET_ENTRY_BYTES,
  readOffsetEntry,
  writeOffsetEntry,
  type OffsetEntry,
} from '../format/offset-index.ts';
import { floorTime, readTimeEntry, TIME_ENTRY_BYTES, writeTimeEntry } from '../format/time-index.ts';
import type { MappedIndex } from './mapped-index.ts';

const RELATIVE_OFFSET_MAX = 0xffff_ffff;

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

export type IndexHit = OffsetEntry;

export class SegmentIndex {
  private readonly offsets: EntryBuffer;
  private readonly times: EntryBuffer;
  private readonly intervalBytes: number;
  /** Undefined: the entries are in memory of our own. */
  private readonly mapped: MappedIndex | undefined;
  private nextIndexedPosition: number;
  private lastTime: number;
  constructor(
    intervalBytes: number,
    offsets: Uint8Array = new Uint8Array(0),
    times: Uint8Array = new Uint8Array(0),
    mapped?: MappedIndex,
  ) {
    this.intervalBytes = intervalBytes;
    this.mapped = mapped;
    this.offsets = new EntryBuffer(OFFSET_ENTRY_BYTES, offsets);
    this.times = new EntryBuffer(TIME_ENTRY_BYTES, times);
    const last = this.entry(this.offsets.count - 1);
    this.nextIndexedPosition = last.position + intervalBytes;
    this.lastTime =
      this.times.count === 0 ? -1 : (readTimeEntry(this.times.raw, this.times.count - 1)?.timestamp ?? -1);
  }
  /** Of a sealed segment, read through its index files; to be let go when it is not used any more. */
  static over(intervalBytes: number, mapped: MappedIndex): SegmentIndex {
    return new SegmentIndex(intervalBytes, mapped.offsets, mapped.times, mapped);
  }
  get isMapped(): boolean {
    return this.mapped !== undefined;
  }
  get mappedBytes(): number {
    return this.mapped?.mappedBytes ?? 0;
  }
  /** False: a look-up could wait for the disk. */
  get resident(): boolean {
    return this.mapped?.resident ?? true;
  }
  release(): void {
    this.mapped?.release();
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
    // Batches of a million records each can go further; what has no entry is reached from the last one.
    if (relativeOffset > RELATIVE_OFFSET_MAX) return;
    const slot = this.offsets.push();
    writeOffsetEntry(slot.bytes, slot.at, { relativeOffset, position: at });
    this.nextIndexedPosition = at + this.intervalBytes;
    if (maxTimestampBefore > this.lastTime) {
      const time = this.times.push();
      writeTimeEntry(time.bytes, time.at, { timestamp: maxTimestampBefore, relativeOffset });
      this.lastTime = maxTimestampBefore;
    }
  }
  entry(index: number): IndexHit {
    return readOffsetEntry(this.offsets.raw, index);
  }
  /** The last entry at or below the offset; the segment's start when there is none. */
  floorOffset(relativeOffset: number): IndexHit {
    return this.entry(this.lastAtMost(relativeOffset, 'relativeOffset'));
  }
  /** The last entry at or below the position. */
  floorPosition(at: number): IndexHit {
    return this.entry(this.lastAtMost(at, 'position'));
  }
  /** Entries above the position, ascending: where to look for the next good batch behind a bad one. */
  above(at: number): readonly IndexHit[] {
    const hits: IndexHit[] = [];
    for (let index = this.lastAtMost(at, 'position') + 1; index < this.offsets.count; index += 1)
      hits.push(this.entry(index));
    return hits;
  }
  /**
   * A relative offset before which no record is as late as `timestamp`: where a search by time starts. One entry earlier
   * than the index says: the file has no checksum, and so no single damaged entry can lead behind the wanted record.
   */
  floorTime(timestamp: number): number {
    const found = floorTime(this.times.raw, this.times.count, timestamp);
    let low = 0;
    let high = this.times.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((readTimeEntry(this.times.raw, middle)?.relativeOffset ?? 0) < found) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? 0 : (readTimeEntry(this.times.raw, low - 1)?.relativeOffset ?? 0);
  }
  private lastAtMost(value: number, field: keyof OffsetEntry): number {
    return lastOffsetEntryAtMost(this.offsets.raw, this.offsets.count, value, field);
  }
}
