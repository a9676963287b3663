// Compares the index files of a segment with its batches while these are walked. Which interval the indexes were written
// with is not recorded: it is taken from the entries, which must all agree on one.
import { OFFSET_ENTRY_BYTES, readOffsetEntry } from '../format/offset-index.ts';
import { readTimeEntry, TIME_ENTRY_BYTES } from '../format/time-index.ts';

/** The largest interval that a broker can be told. */
const INTERVAL_MAX = 1024 * 1024;

export type IndexState = 'good' | 'missing' | 'wrong' | 'incomplete';

export class IndexCheck {
  private readonly offsets: Uint8Array | undefined;
  private readonly times: Uint8Array | undefined;
  private readonly entries: number;
  private entry = 0;
  private timeEntry = 0;
  private lastPosition = 0;
  private lastBatch = 0;
  private lastTime = -1;
  private intervalLeast = 1;
  private intervalMost = INTERVAL_MAX;
  private offsetsRight: boolean;
  private timesRight: boolean;
  constructor(offsets: Uint8Array | undefined, times: Uint8Array | undefined) {
    this.offsets = offsets;
    this.times = times;
    this.entries = Math.floor((offsets?.length ?? 0) / OFFSET_ENTRY_BYTES);
    this.offsetsRight = offsets === undefined || offsets.length % OFFSET_ENTRY_BYTES === 0;
    this.timesRight = times === undefined || times.length % TIME_ENTRY_BYTES === 0;
  }

  /** A good batch lies there; `maxBefore` is the largest timestamp of those before it in the segment. */
  note(relativeOffset: number, at: number, maxBefore: number): void {
    if (this.offsets !== undefined && this.entry < this.entries) {
      const next = readOffsetEntry(this.offsets, this.entry);
      if (next.position < at || (next.position === at) !== (next.relativeOffset === relativeOffset)) {
        // An entry between two batches, or one that says another offset.
        if (next.position <= at || next.relativeOffset <= relativeOffset) this.offsetsRight = false;
        if (next.position <= at) this.entry += 1;
      } else if (next.position === at) this.take(relativeOffset, at, maxBefore);
    }
    this.lastBatch = at;
  }

  private take(relativeOffset: number, at: number, maxBefore: number): void {
    this.intervalLeast = Math.max(this.intervalLeast, this.lastBatch - this.lastPosition + 1);
    this.intervalMost = Math.min(this.intervalMost, at - this.lastPosition);
    this.lastPosition = at;
    this.entry += 1;
    if (maxBefore <= this.lastTime) return;
    this.lastTime = maxBefore;
    if (this.times === undefined || !this.timesRight) return;
    const inside = (this.timeEntry + 1) * TIME_ENTRY_BYTES <= this.times.length;
    const time = inside ? readTimeEntry(this.times, this.timeEntry) : undefined;
    if (time?.timestamp !== maxBefore || time.relativeOffset !== relativeOffset) this.timesRight = false;
    this.timeEntry += 1;
  }

  /** Judged once the whole segment was walked without meeting damage. */
  get offsetState(): IndexState {
    if (this.offsets === undefined) return 'missing';
    if (!this.offsetsRight || this.entry < this.entries) return 'wrong';
    const least = Math.max(this.intervalLeast, this.lastBatch - this.lastPosition + 1);
    return least > this.intervalMost ? 'incomplete' : 'good';
  }
  get timeState(): IndexState {
    if (this.times === undefined) return 'missing';
    if (this.offsetState !== 'good') return this.timesRight ? 'good' : 'wrong';
    return this.timesRight && this.timeEntry * TIME_ENTRY_BYTES === this.times.length ? 'good' : 'wrong';
  }
  /** What the entries agree on; undefined: there is none to tell. */
  get interval(): number | undefined {
    return this.entry > 0 && this.intervalLeast <= this.intervalMost ? this.intervalMost : undefined;
  }
}
