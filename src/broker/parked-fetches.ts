// Fetches that wait for data. They are woken by the partitions they read, or here when their time is up.
import type { MonotonicMs } from '../base/brands.ts';

export interface ParkedFetch {
  readonly deadlineMs: number;
  /** Its time is up, or the broker stops: answer with what there is. */
  finish(): void;
}

export class ParkedFetches {
  private readonly max: number;
  private readonly parked = new Set<ParkedFetch>();

  constructor(max: number) {
    this.max = max;
  }
  get size(): number {
    return this.parked.size;
  }
  /** False: there are too many. */
  add(fetch: ParkedFetch): boolean {
    if (this.parked.size >= this.max) return false;
    this.parked.add(fetch);
    return true;
  }
  delete(fetch: ParkedFetch): void {
    this.parked.delete(fetch);
  }
  expire(nowMs: MonotonicMs): void {
    for (const fetch of this.parked) if (fetch.deadlineMs <= nowMs) fetch.finish();
  }
  finishAll(): void {
    for (const fetch of Array.from(this.parked)) fetch.finish();
  }
}
