// Whether the disk has room for more records. Asked now and then, off the loop; produces look at the last answer.
import type { MonotonicMs } from '../base/brands.ts';
import type { Disk } from '../ports/disk.ts';
import type { Telemetry } from '../ports/telemetry.ts';

const POLL_EVERY_MS = 2000;

export class Headroom {
  private readonly disk: Disk;
  private readonly telemetry: Telemetry;
  private readonly minFreeBytes: number;
  private free = -1;
  private low = false;
  private asking: Promise<void> | undefined;
  private askedAtMs = -POLL_EVERY_MS;

  constructor(disk: Disk, telemetry: Telemetry, minFreeBytes: number) {
    this.disk = disk;
    this.telemetry = telemetry;
    this.minFreeBytes = minFreeBytes;
  }

  /** Produces are refused. */
  get underPressure(): boolean {
    return this.low;
  }
  /** −1: not known. */
  get freeBytes(): number {
    return this.free;
  }

  tick(nowMs: MonotonicMs): void {
    if (this.asking !== undefined || nowMs - this.askedAtMs < POLL_EVERY_MS) return;
    this.askedAtMs = nowMs;
    this.asking = this.poll().finally(() => {
      this.asking = undefined;
    });
  }

  async poll(): Promise<void> {
    try {
      const { freeBytes } = await this.disk.space();
      this.free = freeBytes;
      const low = freeBytes < this.minFreeBytes;
      if (low !== this.low)
        this.telemetry.log(low ? 'warn' : 'info', low ? 'disk.pressure' : 'disk.pressure-over', {
          freeBytes,
          minFreeBytes: this.minFreeBytes,
        });
      this.low = low;
    } catch (error) {
      // Not knowing is no reason to refuse: the append itself meets a full disk safely.
      this.telemetry.log('warn', 'disk.space-unknown', {
        reason: error instanceof Error ? error.message : String(error),
      });
    }
  }

  async close(): Promise<void> {
    await this.asking;
  }
}
