import { monotonicMs, timestampMs } from '../base/brands.ts';
import type { CancelTimer, Clock } from '../ports/clock.ts';

/** Longest delay that Node's timers take; a longer one would fire at once. */
const TIMER_DELAY_MS_MAX = 2 ** 31 - 1;

/**
 * The clock of this process. `readBootMs` gives milliseconds that only move forward; the default stands still while the
 * machine is suspended, so a broker passes one that does not (host/clock.ts).
 */
export function systemClock(readBootMs: () => number = () => performance.now()): Clock {
  return {
    wallMs: () => timestampMs(Date.now()),
    bootMs: () => monotonicMs(readBootMs()),
    setTimer: (delayMs, callback) => setSystemTimer(delayMs, callback),
    yieldNow: () =>
      new Promise<void>((resolve) => {
        setImmediate(resolve);
      }),
  };
}

function setSystemTimer(delayMs: number, callback: () => void): CancelTimer {
  // Node counts whole milliseconds of a loop time that may be a little old, so a timer can fire early by less than one.
  const wanted = Math.max(0, Math.ceil(delayMs)) + (delayMs > 0 ? 1 : 0);
  let rest = wanted;
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    const step = Math.min(rest, TIMER_DELAY_MS_MAX);
    rest -= step;
    timer = setTimeout(rest > 0 ? arm : callback, step);
  };
  arm();
  return () => {
    clearTimeout(timer);
  };
}
