import type { MonotonicMs, TimestampMs } from '../base/brands.ts';

/** Cancels once; cancelling twice or after it fired does nothing. */
export type CancelTimer = () => void;

export interface Clock {
  /** Wall clock; may jump either way. For record timestamps, retention and logs, never for sessions, leases or timeouts. */
  wallMs(): TimestampMs;
  /** Never jumps and runs on while the machine is suspended (CLOCK_BOOTTIME where the system has it). */
  bootMs(): MonotonicMs;
  /** Calls back once, no earlier than after `delayMs`. The owner of the timer cancels it. */
  setTimer(delayMs: number, callback: () => void): CancelTimer;
  /** Calls back after the events that are ready now: to yield in a long piece of work. */
  yieldNow(): Promise<void>;
}
