import { assert } from '../base/assert.ts';
import { monotonicMs, timestampMs, type MonotonicMs, type TimestampMs } from '../base/brands.ts';
import type { CancelTimer, Clock } from '../ports/clock.ts';
import type { Owner, Scheduler } from './scheduler.ts';

/** 2026-01-01 UTC: where simulated wall clocks start, so that no run depends on the day it is started. */
export const SIM_EPOCH_MS = 1_767_225_600_000;

const UPTIME_MS_DEFAULT = 86_400_000;

export interface SimClockOptions {
  /** Wall clock at scheduler time 0, before skew. */
  readonly startMs?: number;
  /** For how long the machine has been up at scheduler time 0. Default: a day. */
  readonly uptimeMs?: number;
  /** Error of the wall clock from the start. */
  readonly skewMs?: number;
  /** Parts per million by which this node's oscillator is fast. Applies to both clocks and to timers. */
  readonly driftPpm?: number;
}

/** One node's clocks. `bootMs` never jumps; `wallMs` has skew, drift and scripted jumps. */
export class SimClock implements Clock {
  private readonly scheduler: Scheduler;
  private readonly owner: Owner;
  private readonly rate: number;
  private readonly bootedAt: number;
  private readonly uptimeMs: number;
  private wallBase: number;
  private suspendedMs = 0;

  constructor(scheduler: Scheduler, owner: Owner, options: SimClockOptions = {}) {
    this.scheduler = scheduler;
    this.owner = owner;
    this.rate = 1 + (options.driftPpm ?? 0) / 1e6;
    assert(this.rate > 0, 'a clock moves forward');
    this.bootedAt = scheduler.nowMs;
    this.uptimeMs = options.uptimeMs ?? UPTIME_MS_DEFAULT;
    this.wallBase = (options.startMs ?? SIM_EPOCH_MS) + (options.skewMs ?? 0);
  }

  wallMs(): TimestampMs {
    return timestampMs(Math.floor(this.wallBase + this.suspendedMs + this.scheduler.nowMs * this.rate));
  }

  bootMs(): MonotonicMs {
    return monotonicMs(this.uptimeMs + (this.scheduler.nowMs - this.bootedAt) * this.rate + this.suspendedMs);
  }

  /** A step of the wall clock, either way (an operator or NTP set it). */
  jumpWall(deltaMs: number): void {
    this.wallBase += deltaMs;
    this.scheduler.note(`${this.owner} wall clock jumps ${String(deltaMs)}`);
  }

  /** The machine slept: both clocks are ahead when it wakes. Timers did not count meanwhile (as setTimeout on Linux), so they are late. */
  suspend(durationMs: number): void {
    assert(durationMs >= 0, 'a suspend takes time');
    this.suspendedMs += durationMs;
    this.scheduler.note(`${this.owner} was suspended ${String(durationMs)}`);
  }

  setTimer(delayMs: number, callback: () => void): CancelTimer {
    const due = this.bootMs() + Math.max(0, delayMs);
    let cancel = (): void => undefined;
    const arm = (): void => {
      cancel = this.scheduler.after(Math.max(0, (due - this.bootMs()) / this.rate), this.owner, 'timer', () => {
        // Rounding of the drift may wake it a hair early; the contract is "no earlier than".
        if (this.bootMs() < due) cancel = this.scheduler.after(0.001, this.owner, 'timer', callback);
        else callback();
      });
    };
    arm();
    return () => {
      cancel();
    };
  }

  yieldNow(): Promise<void> {
    return new Promise((resolve) => {
      this.scheduler.afterReady(this.owner, 'yield', resolve);
    });
  }
}
