import { assert } from '../base/assert.ts';

/**
 * At most `width` pieces of work at once, the rest in order of arrival. All work off the loop shares the few threads of
 * libuv; a disk whose flushes hang must not take all of them, or reads, name look-ups and compression would hang as well.
 * Not bounded in length: each caller has one piece in flight by design, so the queue is as long as there are files.
 */
export class Lane {
  readonly width: number;
  private running = 0;
  private readonly waiting: (() => void)[] = [];
  constructor(width: number) {
    assert(width >= 1, `lane of width ${String(width)}`);
    this.width = width;
  }
  async run<Value>(work: () => Promise<Value>): Promise<Value> {
    if (this.running >= this.width) {
      await new Promise<void>((resolve) => {
        this.waiting.push(resolve);
      });
    } else this.running += 1;
    try {
      return await work();
    } finally {
      // The place passes on to the next in line without being free in between.
      const next = this.waiting.shift();
      if (next === undefined) this.running -= 1;
      else next();
    }
  }
}

export interface DiskLanes {
  /** fdatasync and directory syncs. */
  readonly sync: Lane;
  /** Allocation, zeroing, population, dropping caches, unlinking: long and patient. */
  readonly bulk: Lane;
}

/** `poolThreads` is UV_THREADPOOL_SIZE; at least one thread stays for reads and everything else. */
export function diskLanes(poolThreads: number): DiskLanes {
  const bulk = Math.max(1, Math.floor(poolThreads / 4));
  return { bulk: new Lane(bulk), sync: new Lane(Math.max(1, poolThreads - bulk - Math.max(1, bulk))) };
}
