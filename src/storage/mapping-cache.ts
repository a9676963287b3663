// Which sealed segments stay mapped: the most recently read ones, up to a bound. A mapping with slices out is never the
// victim; while all are in use the bound is exceeded.
import type { Segment } from './segment.ts';

export class MappingCache {
  /** In order of use, the oldest first. */
  private readonly used = new Set<Segment>();
  private max: number;
  constructor(max: number) {
    this.max = max;
  }
  setMax(max: number): void {
    this.max = max;
    this.evict();
  }
  get mappedSegments(): number {
    return this.used.size;
  }
  get mappedBytes(): number {
    let bytes = 0;
    for (const segment of this.used) bytes += (segment.mapped?.mapping.bytes ?? 0) + (segment.index?.mappedBytes ?? 0);
    return bytes;
  }
  touch(segment: Segment): void {
    this.used.delete(segment);
    this.used.add(segment);
    if (this.used.size > this.max) this.evict(segment);
  }
  forget(segment: Segment): void {
    this.used.delete(segment);
  }
  private evict(keep?: Segment): void {
    for (const segment of this.used) {
      if (this.used.size <= this.max) return;
      if (segment === keep || (segment.mapped?.refs ?? 0) > 0) continue;
      this.used.delete(segment);
      if (segment.sealed) {
        segment.retireMapping();
        segment.index = undefined;
      }
    }
  }
}
