// One timer for all timeouts of a client. A coarse tick walks a dense array; adding and cancelling are field writes. What is
// traded: a deadline fires up to one tick late, never early. While nothing waits no timer runs, so an idle client wakes nothing.
import type { CancelTimer, Clock } from '../ports/clock.ts';

export interface Deadline {
  /** Boot clock, milliseconds. May be moved later while it waits. */
  atMs: number;
  /** Place in the array; -1 when it is not waiting. */
  slot: number;
  readonly expired: () => void;
}

export class Deadlines {
  readonly #clock: Clock;
  readonly #tickMs: number;
  #waiting: Deadline[] = [];
  #cancelTick: CancelTimer | undefined;

  constructor(clock: Clock, tickMs = 10) {
    this.#clock = clock;
    this.#tickMs = tickMs;
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** Calls back once, `delayMs` to `delayMs` + tick from now, unless cancelled. */
  after(delayMs: number, expired: () => void): Deadline {
    const deadline: Deadline = { atMs: this.#clock.bootMs() + delayMs, slot: this.#waiting.length, expired };
    this.#waiting.push(deadline);
    if (this.#cancelTick === undefined) this.#arm();
    return deadline;
  }

  /** Cancelling twice, or after it fired, does nothing. */
  cancel(deadline: Deadline | undefined): void {
    if (deadline === undefined || deadline.slot < 0) return;
    const last = this.#waiting.pop();
    if (last !== undefined && last !== deadline) {
      this.#waiting[deadline.slot] = last;
      last.slot = deadline.slot;
    }
    deadline.slot = -1;
    if (this.#waiting.length === 0) this.#disarm();
  }

  /** Forgets everything without calling back: for a client that has settled all its work itself. */
  clear(): void {
    for (const deadline of this.#waiting) deadline.slot = -1;
    this.#waiting = [];
    this.#disarm();
  }

  #disarm(): void {
    this.#cancelTick?.();
    this.#cancelTick = undefined;
  }

  #arm(): void {
    this.#cancelTick = this.#clock.setTimer(this.#tickMs, () => {
      this.#cancelTick = undefined;
      this.#expire();
      // oxlint-disable-next-line typescript/no-unnecessary-condition -- a callback of expire may have armed it
      if (this.#waiting.length > 0 && this.#cancelTick === undefined) this.#arm();
    });
  }

  #expire(): void {
    const now = this.#clock.bootMs();
    const due = this.#waiting.filter((deadline) => deadline.atMs <= now);
    // In the order of their times, so that a run can be repeated whatever order they were swapped into.
    due.sort((left, right) => left.atMs - right.atMs);
    for (const deadline of due) {
      // An earlier callback of this round may have cancelled it.
      if (deadline.slot < 0) continue;
      this.cancel(deadline);
      deadline.expired();
    }
  }
}
