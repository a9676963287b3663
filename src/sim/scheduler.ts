// One queue for everything that happens in a simulation. Between two events all promise reactions run to their end, so the
// order of the whole run is the order of the queue: same seed, same run.
import { setImmediate as setImmediateOfHost } from 'node:timers';
import { assert } from '../base/assert.ts';
import { SeededRandom } from './random.ts';

/** Removes the event if it has not run. */
export type CancelEvent = () => void;

/** Who an event belongs to: a node's name. Events of a crashed node are dropped together. */
export type Owner = string;

interface SimEvent {
  readonly time: number;
  /** 0: ordinary; 1: after all ordinary events of that time (yields). */
  readonly phase: number;
  readonly tiebreak: number;
  readonly sequence: number;
  readonly owner: Owner;
  readonly label: string;
  run: (() => void) | undefined;
}

export interface SchedulerOptions {
  readonly seed: number | bigint;
  /** Order of events of the same time. Default 'random'. */
  readonly tiebreak?: 'random' | 'fifo';
  /** Keep the trace as text too (grows without bound: for debugging one seed). */
  readonly keepTrace?: boolean;
}

/** Nothing is left to happen, yet the awaited promise has not settled (or its bound of simulated time has passed). */
export class StuckError extends Error {
  override readonly name = 'StuckError';
}

function before(left: SimEvent, right: SimEvent): boolean {
  if (left.time !== right.time) return left.time < right.time;
  if (left.phase !== right.phase) return left.phase < right.phase;
  if (left.tiebreak !== right.tiebreak) return left.tiebreak < right.tiebreak;
  return left.sequence < right.sequence;
}

/** Binary heap. */
class EventQueue {
  private readonly heap: SimEvent[] = [];

  get size(): number {
    return this.heap.length;
  }

  peek(): SimEvent | undefined {
    return this.heap[0];
  }

  push(event: SimEvent): void {
    const heap = this.heap;
    let at = heap.length;
    heap.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as SimEvent;
      if (!before(event, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = event;
  }

  pop(): SimEvent | undefined {
    const heap = this.heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = at * 2 + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as SimEvent, heap[child] as SimEvent)) child += 1;
      if (!before(heap[child] as SimEvent, last)) break;
      heap[at] = heap[child] as SimEvent;
      at = child;
    }
    heap[at] = last;
    return first;
  }

  forEach(visit: (event: SimEvent) => void): void {
    this.heap.forEach(visit);
  }
}

/** FNV-1a over UTF-16 units in two lanes: 64 bits of identity for a trace, not a checksum of data. */
class TraceHash {
  private left = 0x811c_9dc5;
  private right = 0x1234_5678;

  add(text: string): void {
    let left = this.left;
    let right = this.right;
    for (let index = 0; index < text.length; index += 1) {
      const unit = text.charCodeAt(index);
      left = Math.imul(left ^ unit, 0x0100_0193);
      right = Math.imul(right ^ unit, 0x85eb_ca6b) ^ (right >>> 13);
    }
    this.left = Math.imul(left ^ 0x0a, 0x0100_0193);
    this.right = right;
  }

  toString(): string {
    return [this.left, this.right].map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join('');
  }
}

export class Scheduler {
  readonly random: SeededRandom;
  private readonly tiebreaks: SeededRandom | undefined;
  private readonly queue = new EventQueue();
  private readonly hash = new TraceHash();
  private readonly lines: string[] | undefined;
  private time = 0;
  private sequence = 0;
  private live = 0;
  private running = false;
  /** Events run so far. */
  steps = 0;

  constructor(options: SchedulerOptions) {
    this.random = new SeededRandom(options.seed);
    this.tiebreaks = options.tiebreak === 'fifo' ? undefined : this.random.stream('scheduler');
    this.lines = options.keepTrace === true ? [] : undefined;
  }

  /** Simulated milliseconds since the start; may have fractions. */
  get nowMs(): number {
    return this.time;
  }

  /** Events waiting. */
  get pendingEvents(): number {
    return this.live;
  }

  after(delayMs: number, owner: Owner, label: string, run: () => void): CancelEvent {
    return this.schedule(delayMs, 0, owner, label, run);
  }

  /** Runs after all other events of this moment. */
  afterReady(owner: Owner, label: string, run: () => void): CancelEvent {
    return this.schedule(0, 1, owner, label, run);
  }

  private schedule(delayMs: number, phase: number, owner: Owner, label: string, run: () => void): CancelEvent {
    assert(Number.isFinite(delayMs) && delayMs >= 0, `delay of an event: ${String(delayMs)}`);
    this.sequence += 1;
    const tiebreak = phase === 0 && this.tiebreaks !== undefined ? this.tiebreaks.below(0x1_0000_0000) : 0;
    const event: SimEvent = { time: this.time + delayMs, phase, tiebreak, sequence: this.sequence, owner, label, run };
    this.queue.push(event);
    this.live += 1;
    return () => {
      this.drop(event);
    };
  }

  private drop(event: SimEvent): void {
    if (event.run === undefined) return;
    event.run = undefined;
    this.live -= 1;
  }

  /** Resolves after `delayMs`; never, if the owner is cancelled before. */
  delay(delayMs: number, owner: Owner, label: string): Promise<void> {
    return new Promise((resolve) => {
      this.after(delayMs, owner, label, resolve);
    });
  }

  /** Drops every waiting event of a crashed node; its promises never settle. */
  cancelOwner(owner: Owner): void {
    this.queue.forEach((event) => {
      if (event.owner === owner) this.drop(event);
    });
    this.note(`cancel ${owner}`);
  }

  /** Adds a line to the trace: for facts that are not events (a fault drawn, a crash). */
  note(text: string): void {
    const line = `${this.time.toFixed(6)} ${text}`;
    this.hash.add(line);
    this.lines?.push(line);
  }

  traceHash(): string {
    return this.hash.toString();
  }

  /** Empty unless `keepTrace`. */
  trace(): readonly string[] {
    return this.lines ?? [];
  }

  private nextEvent(): SimEvent | undefined {
    for (let event = this.queue.peek(); event !== undefined; event = this.queue.peek()) {
      if (event.run !== undefined) return event;
      this.queue.pop();
    }
    return undefined;
  }

  /** Runs the next event and every promise reaction that follows from it. False: none at or before `untilMs`. */
  async step(untilMs: number = Infinity): Promise<boolean> {
    const event = this.nextEvent();
    if (event === undefined || event.time > untilMs) return false;
    this.queue.pop();
    const run = event.run;
    assert(run !== undefined && event.time >= this.time, 'time only moves forward');
    event.run = undefined;
    this.live -= 1;
    this.time = event.time;
    this.steps += 1;
    this.note(`${event.owner} ${event.label}`);
    run();
    await drainMicrotasks();
    return true;
  }

  private async exclusively<Value>(work: () => Promise<Value>): Promise<Value> {
    assert(!this.running, 'the scheduler is driven by one loop');
    this.running = true;
    try {
      await drainMicrotasks();
      return await work();
    } finally {
      this.running = false;
    }
  }

  /** Runs all events up to and including `untilMs`, then stands at that time. */
  run(untilMs: number): Promise<void> {
    return this.exclusively(async () => {
      while (await this.step(untilMs));
      if (Number.isFinite(untilMs)) this.time = Math.max(this.time, untilMs);
    });
  }

  /** Until the predicate holds (checked between events). False: it did not hold within `boundMs` of simulated time. */
  runUntil(predicate: () => boolean, boundMs: number): Promise<boolean> {
    return this.exclusively(async () => {
      const untilMs = this.time + boundMs;
      while (!predicate()) {
        if (await this.step(untilMs)) continue;
        this.time = Math.max(this.time, untilMs);
        return predicate();
      }
      return true;
    });
  }

  /** Runs events until the promise settles and gives its outcome. Throws StuckError when it cannot settle in `boundMs`. */
  async settle<Value>(promise: Promise<Value>, boundMs: number = 3_600_000): Promise<Value> {
    let settled = false;
    const mark = (): void => {
      settled = true;
    };
    promise.then(mark, mark);
    const untilMs = this.time + boundMs;
    await this.exclusively(async () => {
      while (!settled) {
        if (await this.step(untilMs)) continue;
        const waiting = this.nextEvent();
        throw new StuckError(
          waiting === undefined
            ? 'nothing left to happen, yet the promise is pending'
            : `still pending after ${String(boundMs)} ms`,
        );
      }
    });
    return await promise;
  }

  /** `settle` for a piece of work: all that it awaits must come from this scheduler. */
  drive<Value>(work: () => Promise<Value>, boundMs?: number): Promise<Value> {
    return this.settle(work(), boundMs);
  }
}

/** The host's queue of promise reactions is empty when an immediate runs. Imported by name: guards replace the global. */
function drainMicrotasks(): Promise<void> {
  return new Promise((resolve) => {
    setImmediateOfHost(resolve);
  });
}
