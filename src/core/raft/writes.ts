// What the disk has been given and has not confirmed, and what may be said only once it has.
import { assert } from '../../base/assert.ts';
import type { HardState, Outgoing, RaftWrite } from './contract.ts';
import type { RaftLog } from './log.ts';

interface Pending {
  readonly generation: number;
  /** The log as this write leaves it ends here; lowered by what is cut off later. */
  upTo: number;
  readonly hardState: HardState | undefined;
}

export class Writes {
  /** Of the log as it is now. */
  durableIndex: number;
  durableState: HardState;
  private state: HardState;
  private stateDirty = false;
  private generation = 0;
  private readonly pending: Pending[] = [];
  private ready: Outgoing[] = [];
  /** Of a term that the disk does not know yet: `after` is the write that tells it. */
  private held: { readonly after: number; readonly outgoing: Outgoing }[] = [];

  constructor(hardState: HardState, durableIndex: number) {
    this.state = hardState;
    this.durableState = hardState;
    this.durableIndex = durableIndex;
  }

  get hardState(): HardState {
    return this.state;
  }
  change(state: HardState): void {
    assert(state.term >= this.state.term, 'terms only grow');
    this.state = state;
    this.stateDirty = true;
  }
  /** Leaves at once, or with the write that holds the hard state that it was said in. */
  send(outgoing: Outgoing): void {
    const isDurable =
      !this.stateDirty &&
      this.durableState.term === this.state.term &&
      this.durableState.votedFor === this.state.votedFor;
    if (isDurable) this.ready.push(outgoing);
    else this.held.push({ after: this.stateDirty ? this.generation + 1 : this.generation, outgoing });
  }
  cutFrom(index: number): void {
    this.durableIndex = Math.min(this.durableIndex, index - 1);
    for (const write of this.pending) write.upTo = Math.min(write.upTo, index - 1);
  }
  /** A durable snapshot stands for all up to it; what was written before it counts no more. */
  resetTo(index: number): void {
    for (const write of this.pending) write.upTo = -1;
    this.durableIndex = index;
  }

  takeWrite(log: RaftLog): RaftWrite | undefined {
    const { resetTo, truncateFrom, entries } = log.takeUnsaved();
    if (resetTo === undefined && truncateFrom === undefined && entries.length === 0 && !this.stateDirty)
      return undefined;
    this.generation += 1;
    const hardState = this.stateDirty ? this.state : undefined;
    this.stateDirty = false;
    this.pending.push({ generation: this.generation, upTo: log.lastIndex, hardState });
    return { generation: this.generation, resetTo, truncateFrom, entries, hardState };
  }
  takeMessages(): readonly Outgoing[] {
    const messages = this.ready;
    this.ready = [];
    return messages;
  }
  persisted(generation: number): void {
    assert(generation <= this.generation, `write ${String(generation)} was never given out`);
    for (let first = this.pending[0]; first !== undefined && first.generation <= generation; first = this.pending[0]) {
      this.durableIndex = Math.max(this.durableIndex, first.upTo);
      this.durableState = first.hardState ?? this.durableState;
      this.pending.shift();
    }
    const free = this.held.filter(({ after }) => after <= generation);
    if (free.length === 0) return;
    this.held = this.held.filter(({ after }) => after > generation);
    for (const { outgoing } of free) this.ready.push(outgoing);
  }
}
