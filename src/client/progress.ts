// How far a partition is done: records finish in any order, and what is committed only ever advances over finished ones
// without a gap. Synchronous.
import { assert } from '../base/assert.ts';

export class Progress {
  /** Handed out and behind the first that is not finished; ascending. */
  #open: number[] = [];
  #head = 0;
  readonly #finished = new Set<number>();
  #passed: number;
  #done: number;

  /** `start`: the next offset to hand out. */
  constructor(start: number) {
    this.#passed = start;
    this.#done = start;
  }

  /** Everything below is finished: what may be committed. */
  get done(): number {
    return this.#done;
  }
  /** The next offset to hand out. */
  get passed(): number {
    return this.#passed;
  }
  /** Handed out and not finished. */
  get unfinished(): number {
    return this.#open.length - this.#head - this.#finished.size;
  }
  /** Handed out and not committable, finished ones included: what may be handled twice. */
  get window(): number {
    return this.#open.length - this.#head;
  }

  hand(offset: number): void {
    assert(offset >= this.#passed, `offset ${String(offset)} is handed out behind ${String(this.#passed)}`);
    this.#open.push(offset);
    this.#passed = offset + 1;
  }

  finish(offset: number): void {
    this.#finished.add(offset);
    for (let next = this.#open[this.#head]; next !== undefined && this.#finished.delete(next);) {
      this.#head += 1;
      this.#done = next + 1;
      next = this.#open[this.#head];
    }
    if (this.#head < this.#open.length) {
      if (this.#head > 1024 && this.#head * 2 > this.#open.length) {
        this.#open = this.#open.slice(this.#head);
        this.#head = 0;
      }
      return;
    }
    this.#open = [];
    this.#head = 0;
    this.#done = this.#passed;
  }

  /** There is nothing to hand out below `offset`: control batches, and what the application chose to leave out. */
  skipTo(offset: number): void {
    if (offset <= this.#passed) return;
    this.#passed = offset;
    if (this.#head === this.#open.length) this.#done = offset;
  }
}
