import type { Clock } from '../ports/clock.ts';
import { systemClock } from '../platform/clock.ts';
import type { NativeAddon } from './addon.ts';

/** The system's clock, with a monotonic reading that runs on while the machine is suspended (CLOCK_BOOTTIME). */
export function bootClock(addon: NativeAddon): Clock {
  return systemClock(() => addon.bootMs());
}
