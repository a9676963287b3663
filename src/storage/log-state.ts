// What the parts of one log share: its segments, its offsets, and the rules between them.
import { assert } from '../base/assert.ts';
import { offset, type Offset } from '../base/brands.ts';
import type { LogConfig, StorageDeps } from './config.ts';
import type { EpochEntry, OffsetRange } from './contract.ts';
import { EpochHistory } from './epoch-history.ts';
import { Health, isPressure, StorageFailed } from './health.ts';
import { MappingCache } from './mapping-cache.ts';
import { logMetrics, type LogMetrics } from './metrics.ts';
import type { Segment } from './segment.ts';

const PRESSURE_RETRY_MS = 1000;

export interface LogOffsets {
  readonly logStart: Offset;
  readonly logEnd: Offset;
  readonly synced: Offset;
}

export class LogState {
  readonly deps: StorageDeps;
  readonly directory: string;
  readonly health: Health;
  readonly metrics: LogMetrics;
  readonly cache: MappingCache;
  config: LogConfig;
  /** Ascending and without gaps, unless a gap is in `damaged`. The last one is active. */
  readonly segments: Segment[] = [];
  epochs: EpochHistory;
  logStart: Offset;
  /** The next offset to be given. */
  logEnd: Offset;
  highWatermark: Offset = offset(0);
  private isClosed = false;
  /** Rises at each truncation: what was begun before it raises nothing afterwards. */
  generation = 0;
  /** Of the last checkpoint or sync mark that was written: which of them is younger is told by it. */
  sequence = 0;
  onAdvance: (() => void) | undefined;
  onRoll: ((nextBaseOffset: Offset) => Uint8Array | undefined) | undefined;
  private writtenOffset: Offset;
  private syncedOffset: Offset;
  private damagedRanges: OffsetRange[] = [];
  private announcing = false;
  private readonly background = new Set<Promise<void>>();
  private readonly sleepers = new Set<() => void>();
  private structure: Promise<unknown> = Promise.resolve();

  constructor(deps: StorageDeps, directory: string, config: LogConfig) {
    this.deps = deps;
    this.directory = directory;
    this.config = config;
    this.health = new Health(deps.telemetry, deps.fatal);
    this.metrics = logMetrics(deps.telemetry);
    this.cache = new MappingCache(config.mappedSegmentsMax);
    this.epochs = new EpochHistory();
    this.logStart = offset(0);
    this.logEnd = offset(0);
    this.writtenOffset = offset(0);
    this.syncedOffset = offset(0);
  }

  /** At open: what recovery found. */
  restore(at: LogOffsets, epochs: readonly EpochEntry[]): void {
    this.logStart = at.logStart;
    this.logEnd = at.logEnd;
    this.writtenOffset = at.logEnd;
    this.syncedOffset = at.synced;
    this.epochs = new EpochHistory(epochs);
    this.checkOrder();
  }

  get closed(): boolean {
    return this.isClosed;
  }
  /** Whoever waits for better times gives up. */
  close(): void {
    this.isClosed = true;
    for (const wake of this.sleepers) wake();
  }
  /** Ends early when the log is closed. */
  pause(ms: number): Promise<void> {
    if (this.isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        cancel();
        this.sleepers.delete(wake);
        resolve();
      };
      const cancel = this.deps.clock.setTimer(ms, wake);
      this.sleepers.add(wake);
    });
  }

  get written(): Offset {
    return this.writtenOffset;
  }
  get synced(): Offset {
    return this.syncedOffset;
  }
  get damaged(): readonly OffsetRange[] {
    return this.damagedRanges;
  }
  get active(): Segment {
    const last = this.segments.at(-1);
    assert(last !== undefined, `log ${this.directory} has no segment`);
    return last;
  }

  advanceWritten(to: Offset): void {
    assert(to >= this.writtenOffset, `written offset went back from ${String(this.writtenOffset)} to ${String(to)}`);
    this.writtenOffset = to;
    this.checkOrder();
    if (this.config.fsync !== 'always') this.announce();
  }
  advanceSynced(to: Offset): void {
    if (to <= this.syncedOffset) return;
    this.syncedOffset = to;
    this.checkOrder();
    this.announce();
  }
  /** The tail above `end` is going. */
  cutTo(end: Offset): void {
    assert(end >= this.logStart, `truncation to ${String(end)}, below the log start ${String(this.logStart)}`);
    this.generation += 1;
    this.logEnd = end;
    this.writtenOffset = end;
    this.syncedOffset = offset(Math.min(this.syncedOffset, end));
    this.highWatermark = offset(Math.min(this.highWatermark, end));
    this.epochs.truncate(end);
    this.damagedRanges = this.damagedRanges
      .filter((range) => range.from < end)
      .map((range) => ({ from: range.from, to: offset(Math.min(range.to, end)) }));
  }
  /** Nothing of what was is left. */
  restartAt(at: Offset): void {
    this.generation += 1;
    this.logStart = at;
    this.logEnd = at;
    this.writtenOffset = at;
    this.syncedOffset = at;
    this.highWatermark = at;
    this.epochs.truncate(offset(0));
    this.damagedRanges = [];
  }
  moveLogStart(to: Offset): void {
    assert(to >= this.logStart && to <= this.logEnd, `log start ${String(to)} is outside the log`);
    this.logStart = to;
    this.epochs.retain(to);
    this.damagedRanges = this.damagedRanges
      .filter((range) => range.to > to)
      .map((range) => ({ from: offset(Math.max(range.from, to)), to: range.to }));
    this.checkOrder();
  }

  /** Merges overlapping and touching ranges. Returns false when it was known. */
  addDamage(from: Offset, to: Offset, why: string): boolean {
    const start = offset(Math.max(from, this.logStart));
    const end = to;
    if (end <= start) return false;
    if (this.damagedRanges.some((range) => range.from <= start && range.to >= end)) return false;
    let merged: OffsetRange = { from: start, to: end };
    const rest: OffsetRange[] = [];
    for (const range of this.damagedRanges) {
      if (range.to < merged.from || range.from > merged.to) rest.push(range);
      else merged = { from: offset(Math.min(range.from, merged.from)), to: offset(Math.max(range.to, merged.to)) };
    }
    this.damagedRanges = [...rest, merged].toSorted((left, right) => left.from - right.from);
    this.metrics.damagedRanges.add(1);
    this.deps.telemetry.log('error', 'log.damaged', { directory: this.directory, from, to, why });
    return true;
  }
  damageAt(at: Offset): OffsetRange | undefined {
    return this.damagedRanges.find((range) => range.from <= at && at < range.to);
  }
  damagedIn(from: Offset, to: Offset): boolean {
    return this.damagedRanges.some((range) => range.from < to && range.to > from);
  }
  /** The start of the first damaged range above `at`. */
  nextDamage(at: Offset): Offset | undefined {
    return this.damagedRanges.find((range) => range.from > at)?.from;
  }

  /** Index in `segments` of the one that holds the offset; -1 when it lies below the first. */
  segmentIndexAt(at: Offset): number {
    let low = 0;
    let high = this.segments.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.segments[middle]?.baseOffset ?? 0) <= at) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** One change of the segment list at a time: roll, truncate, retain, close. */
  exclusive<Result>(work: () => Promise<Result>): Promise<Result> {
    const run = this.structure.then(work);
    this.structure = run.catch(() => undefined);
    return run;
  }

  /** Work that nobody awaits. Its disk errors have gone to `health` already; anything else is a bug and is not hidden. */
  runInBackground(work: () => Promise<void>): void {
    const run = work()
      .catch((error: unknown) => {
        if (!this.health.failed && !(error instanceof StorageFailed))
          this.health.fail('background work of a log failed', error);
      })
      .catch((error: unknown) => {
        if (!this.health.failed) throw error;
      })
      .finally(() => this.background.delete(run));
    this.background.add(run);
  }
  /** The same, for work that can be done later as well: under pressure it is tried again until the log is closed. */
  runWhenThereIsRoom(work: () => Promise<void>): void {
    this.runInBackground(async () => {
      for (;;) {
        try {
          await work();
          return;
        } catch (error) {
          if (!isPressure(error) || this.health.failed) throw error;
          this.deps.telemetry.log('warn', 'log.work-postponed', {
            directory: this.directory,
            reason: error instanceof Error ? error.message : String(error),
          });
        }
        await this.pause(PRESSURE_RETRY_MS);
        if (this.isClosed) return;
      }
    });
  }
  /** For what has to be finished once it has begun: under pressure it is tried again, and the caller waits. */
  async untilThereIsRoom<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    for (;;) {
      try {
        return await this.health.guardSpace(what, work);
      } catch (error) {
        if (!isPressure(error)) throw error;
        if (this.isClosed) return this.health.fail(what, error, { directory: this.directory });
        this.deps.telemetry.log('warn', 'log.work-postponed', { directory: this.directory, reason: what });
      }
      await this.pause(PRESSURE_RETRY_MS);
    }
  }
  async backgroundIdle(): Promise<void> {
    while (this.background.size > 0) await Promise.all(this.background);
  }

  /** The listener runs after the current call, once for any number of advances. */
  private announce(): void {
    if (this.announcing || this.onAdvance === undefined) return;
    this.announcing = true;
    queueMicrotask(() => {
      this.announcing = false;
      if (!this.health.failed) this.onAdvance?.();
    });
  }
  private checkOrder(): void {
    assert(
      this.logStart <= this.logEnd && this.syncedOffset <= this.writtenOffset && this.writtenOffset <= this.logEnd,
      `offsets out of order: start ${String(this.logStart)}, synced ${String(this.syncedOffset)}, written ${String(this.writtenOffset)}, end ${String(this.logEnd)}`,
    );
  }
}
