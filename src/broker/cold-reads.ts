// Reads from the disk on behalf of fetches: a few at a time, so that a replay leaves threads for everything else.
import type { Offset } from '../base/brands.ts';
import type { Replica } from '../replication/contract.ts';

export class ColdReads {
  private readonly width: number;
  private running = 0;
  /** Bounded by the fetches that may be in flight: each waits here at most once. */
  private readonly waiting: (() => void)[] = [];

  constructor(width: number) {
    this.width = width;
  }

  get inProgress(): number {
    return this.running;
  }
  get queued(): number {
    return this.waiting.length;
  }

  /** Resolves when the bytes are in memory and verified; rejects as `prepare` does. */
  async prepare(replica: Replica, offset: Offset, maxBytes: number): Promise<void> {
    if (this.running >= this.width) {
      await new Promise<void>((resolve) => {
        this.waiting.push(resolve);
      });
    } else this.running += 1;
    try {
      await replica.prepare(offset, maxBytes);
    } finally {
      const next = this.waiting.shift();
      if (next === undefined) this.running -= 1;
      else next();
    }
  }

  /** The same for bytes that nobody waits for yet; left undone when there is other work. */
  prepareAhead(replica: Replica, offset: Offset, maxBytes: number): void {
    if (this.running >= this.width) return;
    // Whoever asks for these bytes again meets the same failure and reports it.
    this.prepare(replica, offset, maxBytes).catch(() => undefined);
  }
}
