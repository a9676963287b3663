// Produces that were appended and wait for their commit, in the order of the log.
import type { LeaderEpoch, Offset } from '../base/brands.ts';
import type { ErrorName } from '../base/errors.ts';
import { Ring } from '../base/ring.ts';
import type { Counter } from '../ports/telemetry.ts';
import type { ProduceOutcome } from './contract.ts';

interface PendingProduce {
  readonly baseOffset: Offset;
  readonly lastOffset: Offset;
  readonly leaderEpoch: LeaderEpoch;
  readonly duplicate: boolean;
  readonly sinceMs: number;
  readonly deadlineMs: number;
  /** Undefined once answered. */
  done: ((outcome: ProduceOutcome) => void) | undefined;
}

export class PendingProduces {
  private readonly ring: Ring<PendingProduce>;
  /** No deadline of a waiting one is earlier: most ticks look at nothing else. */
  private earliestMs = Number.POSITIVE_INFINITY;
  constructor(capacity: number) {
    this.ring = new Ring(capacity);
  }

  get length(): number {
    return this.ring.length;
  }
  get full(): boolean {
    return this.ring.full;
  }
  /** When the oldest waiting one was appended. */
  get oldestMs(): number | undefined {
    return this.ring.peek()?.sinceMs;
  }

  add(produce: PendingProduce): void {
    if (produce.deadlineMs < this.earliestMs) this.earliestMs = produce.deadlineMs;
    this.ring.push(produce);
  }

  /** A repeated batch may stand behind later ones: it is answered with them, never before its own commit. */
  committed(highWatermark: Offset, logStartOffset: Offset): void {
    for (let head = this.ring.peek(); head !== undefined && head.lastOffset < highWatermark; head = this.ring.peek()) {
      this.ring.shift();
      const { done, baseOffset, lastOffset, leaderEpoch, duplicate } = head;
      done?.({ ok: true, baseOffset, lastOffset, leaderEpoch, logStartOffset, duplicate });
    }
  }

  expire(nowMs: number, timeouts: Counter): void {
    if (nowMs < this.earliestMs) return;
    this.earliestMs = Number.POSITIVE_INFINITY;
    this.rotate((produce) => {
      if (produce.done === undefined) return;
      if (produce.deadlineMs <= nowMs) {
        timeouts.add();
        fail(produce, 'COMMIT_TIMEOUT');
      } else if (produce.deadlineMs < this.earliestMs) this.earliestMs = produce.deadlineMs;
    });
  }

  /** Appended, and never to be known as committed here. */
  abandon(code: 'LEADERSHIP_LOST'): void {
    for (let head = this.ring.shift(); head !== undefined; head = this.ring.shift()) fail(head, code);
    this.earliestMs = Number.POSITIVE_INFINITY;
  }

  private rotate(visit: (produce: PendingProduce) => void): void {
    for (let rest = this.ring.length; rest > 0; rest -= 1) {
      const produce = this.ring.shift();
      if (produce === undefined) return;
      this.ring.push(produce);
      visit(produce);
    }
  }
}

function fail(produce: PendingProduce, code: ErrorName): void {
  const { done, baseOffset, lastOffset } = produce;
  produce.done = undefined;
  done?.({ ok: false, code, message: undefined, baseOffset, lastOffset });
}
