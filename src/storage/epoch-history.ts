// Which leader epoch began where. Offsets and epochs both rise; an epoch without a record leaves no entry.
import { assert } from '../base/assert.ts';
import { leaderEpoch, offset, type LeaderEpoch, type Offset } from '../base/brands.ts';
import type { EpochEntry } from './contract.ts';

export class EpochHistory {
  private list: EpochEntry[];
  constructor(entries: readonly EpochEntry[] = []) {
    this.list = [];
    for (const entry of entries) this.begin(entry.epoch, entry.startOffset);
  }
  get entries(): readonly EpochEntry[] {
    return this.list;
  }
  get latest(): LeaderEpoch {
    return this.list.at(-1)?.epoch ?? leaderEpoch(-1);
  }
  /** A batch of this epoch lies at `at`. Returns true when that began a new epoch. */
  begin(epoch: LeaderEpoch, at: Offset): boolean {
    const last = this.list.at(-1);
    if (last !== undefined) {
      assert(epoch >= last.epoch, `epoch went back from ${String(last.epoch)} to ${String(epoch)}`);
      if (epoch === last.epoch) return false;
      assert(
        at >= last.startOffset,
        `epoch ${String(epoch)} begins at ${String(at)}, before ${String(last.startOffset)}`,
      );
      // Nothing is retained of the last one: the head was removed up to where this one begins.
      if (at === last.startOffset) this.list.pop();
    }
    this.list.push({ epoch, startOffset: at });
    return true;
  }
  /** The epoch that the batch at `at` must have, if the history reaches there. */
  epochAt(at: Offset): LeaderEpoch | undefined {
    for (let index = this.list.length - 1; index >= 0; index -= 1) {
      const entry = this.list[index];
      if (entry !== undefined && entry.startOffset <= at) return entry.epoch;
    }
    return undefined;
  }
  truncate(end: Offset): void {
    while (this.list.length > 0 && (this.list.at(-1)?.startOffset ?? 0) >= end) this.list.pop();
  }
  /** The head was removed: the epoch in force at `start` is kept, and begins there. */
  retain(start: Offset): void {
    while (this.list.length > 1 && (this.list[1]?.startOffset ?? 0) <= start) this.list.shift();
    const first = this.list[0];
    if (first !== undefined && first.startOffset < start) this.list[0] = { epoch: first.epoch, startOffset: start };
  }
  /** The largest epoch at or below `epoch`, and where it ends: at the start of the next, or at `logEnd`. */
  endOffset(
    epoch: LeaderEpoch,
    logEnd: Offset,
  ): { readonly epoch: LeaderEpoch; readonly endOffset: Offset } | undefined {
    for (let index = this.list.length - 1; index >= 0; index -= 1) {
      const entry = this.list[index];
      if (entry !== undefined && entry.epoch <= epoch) {
        return { epoch: entry.epoch, endOffset: this.list[index + 1]?.startOffset ?? logEnd };
      }
    }
    return undefined;
  }
}

export function epochEntry(epoch: number, startOffset: number): EpochEntry {
  return { epoch: leaderEpoch(epoch), startOffset: offset(startOffset) };
}
