// The entries above the last snapshot, in memory, and what of them has been handed to the disk.
import { assert } from '../../base/assert.ts';
import type { Entry, SnapshotPoint, Voter } from './contract.ts';
import { decodeVoters, Electorate } from './voters.ts';

/** What an entry takes beside its bytes. */
const ENTRY_OVERHEAD_BYTES = 64;

interface VotersAt {
  readonly index: number;
  readonly voters: readonly Voter[];
}

export class RaftLog {
  private entries: Entry[] = [];
  /** Bytes of all entries up to this one, beginning anywhere. */
  private sums: number[] = [];
  private baseSum = 0;
  private base: { readonly index: number; readonly term: number };
  /** Those in force at the base, then one for each entry that names others; ascending. */
  private history: VotersAt[];
  /** From here on nothing was handed to the disk. */
  private unsaved: number;
  private cutAt: number | undefined;
  private resetAt: number | undefined;

  constructor(snapshot: SnapshotPoint, voters: readonly Voter[], entries: readonly Entry[]) {
    this.base = { index: snapshot.index, term: snapshot.term };
    const named = snapshot.index >= 0 && snapshot.voters.length > 0 ? snapshot.voters : voters;
    this.history = [{ index: snapshot.index, voters: named }];
    this.unsaved = snapshot.index + 1;
    for (const entry of entries) this.push(entry);
    this.unsaved = this.lastIndex + 1;
  }

  get lastIndex(): number {
    return this.base.index + this.entries.length;
  }
  get lastTerm(): number {
    return this.entries.at(-1)?.term ?? this.base.term;
  }
  get compactedIndex(): number {
    return this.base.index;
  }
  get bytes(): number {
    return this.sumAt(this.lastIndex) - this.baseSum;
  }
  bytesAbove(index: number): number {
    return this.sumAt(this.lastIndex) - this.sumAt(Math.max(index, this.base.index));
  }
  /** Undefined: not here. */
  termAt(index: number): number | undefined {
    return index === this.base.index ? this.base.term : this.entryAt(index)?.term;
  }
  entryAt(index: number): Entry | undefined {
    return index > this.base.index ? this.entries[index - this.base.index - 1] : undefined;
  }
  /** From `from` on, at most so many and so many bytes, and at least one if there is one. */
  slice(from: number, countMax: number, bytesMax: number): Entry[] {
    assert(from > this.base.index, `entry ${String(from)} was compacted`);
    const start = from - this.base.index - 1;
    let end = Math.min(this.entries.length, start + countMax);
    let size = 0;
    for (let at = start; at < end; at += 1) {
      size += this.entries[at]?.bytes.length ?? 0;
      if (at > start && size > bytesMax) end = at;
    }
    return this.entries.slice(start, end);
  }
  /** The last index at or below `index` whose term is at most `term`; at least the compacted one. */
  lastOfTerm(index: number, term: number): number {
    let at = Math.min(index, this.lastIndex);
    while (at > this.base.index && (this.termAt(at) ?? 0) > term) at -= 1;
    return Math.max(at, this.base.index);
  }

  push(entry: Entry): void {
    assert(entry.index === this.lastIndex + 1, `entry ${String(entry.index)} behind ${String(this.lastIndex)}`);
    assert(entry.term >= this.lastTerm, `term ${String(entry.term)} behind ${String(this.lastTerm)}`);
    this.sums.push(this.sumAt(this.lastIndex) + entry.bytes.length + ENTRY_OVERHEAD_BYTES);
    this.entries.push(entry);
    if (entry.kind === 'voters') this.history.push({ index: entry.index, voters: decodeVoters(entry.bytes) });
  }
  truncateFrom(index: number): void {
    assert(index > this.base.index, `cannot truncate at ${String(index)}, compacted`);
    if (index > this.lastIndex) return;
    this.entries.length = index - this.base.index - 1;
    this.sums.length = this.entries.length;
    this.history = this.history.filter((each) => each.index < index);
    if (index < this.unsaved) {
      this.cutAt = Math.min(this.cutAt ?? index, index);
      this.unsaved = index;
    }
  }
  /** All entries are replaced by a snapshot. */
  reset({ index, term, voters }: SnapshotPoint): void {
    const named = voters.length > 0 ? voters : (this.history[0]?.voters ?? []);
    this.entries = [];
    this.sums = [];
    this.baseSum = 0;
    this.base = { index, term };
    this.history = [{ index, voters: named }];
    this.unsaved = index + 1;
    this.cutAt = undefined;
    this.resetAt = index + 1;
  }
  compactTo(index: number): void {
    if (index <= this.base.index) return;
    const term = this.termAt(index);
    assert(term !== undefined, `entry ${String(index)} is not here`);
    assert(index < this.unsaved, `entry ${String(index)} was not handed to the disk`);
    const { voters } = this.votersEntryAt(index);
    this.baseSum = this.sumAt(index);
    this.entries = this.entries.slice(index - this.base.index);
    this.sums = this.sums.slice(this.sums.length - this.entries.length);
    this.base = { index, term };
    this.history = [{ index, voters }, ...this.history.filter((each) => each.index > index)];
  }

  /** What the disk has not been given yet. */
  takeUnsaved(): { resetTo: number | undefined; truncateFrom: number | undefined; entries: readonly Entry[] } {
    const entries = this.entries.slice(this.unsaved - this.base.index - 1);
    const taken = { resetTo: this.resetAt, truncateFrom: this.cutAt, entries };
    this.unsaved = this.lastIndex + 1;
    this.cutAt = undefined;
    this.resetAt = undefined;
    return taken;
  }

  votersAt(index: number): readonly Voter[] {
    return this.votersEntryAt(index).voters;
  }
  get lastVotersIndex(): number {
    return this.history.at(-1)?.index ?? this.base.index;
  }
  get votersSettled(): boolean {
    return this.electorate(-1).sets.length === 1;
  }
  /**
   * Whose agreement counts. A set that is not known to be committed counts together with the one before it; behind a set that is
   * being formed there is none, since all of its voters have agreed.
   */
  electorate(commitIndex: number): Electorate {
    const last = this.history.at(-1);
    const before = this.history.at(-2);
    assert(last !== undefined, 'there are always voters');
    const isFirst = before?.voters.some(({ diskId }) => diskId === undefined) ?? true;
    return new Electorate(last.voters, isFirst || last.index <= commitIndex ? undefined : before?.voters);
  }

  private votersEntryAt(index: number): VotersAt {
    const found = this.history.findLast((each) => each.index <= index);
    assert(found !== undefined, `voters at ${String(index)} are not known any more`);
    return found;
  }
  private sumAt(index: number): number {
    return index <= this.base.index ? this.baseSum : (this.sums[index - this.base.index - 1] ?? this.baseSum);
  }
}
