// Group commit. At most one fdatasync is in flight for a log; everything written before it began is durable when it ends,
// and only then is the recovery point recorded. A sync that ends after a truncation raises nothing.
import { assert } from '../base/assert.ts';
import type { Offset } from '../base/brands.ts';
import type { CancelTimer } from '../ports/clock.ts';
import type { CheckpointFile } from './checkpoint-file.ts';
import type { LogState } from './log-state.ts';
import type { Segment } from './segment.ts';
import { writeSyncMark } from './sync-marks.ts';

interface Waiter {
  readonly offset: Offset;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Committer {
  private readonly state: LogState;
  private readonly checkpoint: CheckpointFile;
  /** Segments with bytes that no fdatasync has covered, the oldest first. */
  private dirty: Segment[] = [];
  private running: Promise<void> | undefined;
  private cancelTimer: CancelTimer | undefined;
  private waiters: Waiter[] = [];
  /** Written since the last fdatasync began, and covered by the one in flight. */
  private pendingBytes = 0;
  private inflightBytes = 0;
  private unsyncedBatches = 0;
  private held = false;
  /** Bytes have become durable: there may be room for more. */
  onSynced: (() => void) | undefined;

  constructor(state: LogState, checkpoint: CheckpointFile) {
    this.state = state;
    this.checkpoint = checkpoint;
  }

  get unsyncedBytes(): number {
    return this.pendingBytes + this.inflightBytes;
  }

  /** Bytes were handed to the kernel; the written offset has advanced already. */
  wrote(segment: Segment, bytes: number, batches: number): void {
    if (this.dirty.at(-1) !== segment) this.dirty.push(segment);
    this.pendingBytes += bytes;
    this.unsyncedBatches += batches;
    this.schedule();
  }

  /** All that is written now is durable when it resolves. */
  sync(): Promise<void> {
    this.state.health.check();
    const upTo = this.state.written;
    if (this.state.synced >= upTo) return this.running ?? Promise.resolve();
    const done = new Promise<void>((resolve, reject) => this.waiters.push({ offset: upTo, resolve, reject }));
    this.start();
    return done;
  }

  /** Everything in a segment that is no longer active is durable when it resolves. */
  async syncSegmentEnd(segment: Segment): Promise<void> {
    // A truncation may end a wait early.
    while (segment.sealed && !segment.removed && this.state.synced < segment.nextOffset) await this.sync();
  }

  /** The recovery point is durable: nothing below it needs a sync mark any more. */
  settleCheckpoint(): Promise<void> {
    return this.checkpoint.settle();
  }

  /** Nothing is in flight when it resolves, and nothing is begun until `resume`. */
  async hold(): Promise<void> {
    this.held = true;
    await this.quiesce();
  }

  /** Nothing is in flight and no timer is set when it resolves. */
  async quiesce(): Promise<void> {
    this.stopTimer();
    while (this.running !== undefined) await this.running;
  }

  /** The tail was cut: what is dirty above it does not exist any more. */
  truncated(): void {
    this.dirty = this.dirty.filter((segment) => !segment.removed && segment.nextOffset > this.state.synced);
    if (this.dirty.length === 0) {
      this.pendingBytes = 0;
      this.unsyncedBatches = 0;
    }
    this.settle();
  }

  /** What is dirty still, or is waited for, is synced as ever. */
  resume(): void {
    this.held = false;
    if (this.state.closed || this.running !== undefined) return;
    if (this.waiters.length > 0) this.start();
    else if (this.dirty.length > 0) this.schedule();
  }

  close(): void {
    this.stopTimer();
  }

  private schedule(): void {
    const { fsync, fsyncIntervalMs, groupCommitLingerMs, groupCommitMaxBytes, unsyncedBytesMax } = this.state.config;
    if (this.running !== undefined) return;
    if (fsync === 'always') {
      if (groupCommitLingerMs === 0 || this.pendingBytes >= groupCommitMaxBytes) this.start();
      else this.startAfter(groupCommitLingerMs);
    } else if (fsync === 'interval') {
      // Twice the interval's worth must not pile up behind a timer: memory pressure starts write-back anyway.
      if (this.pendingBytes >= unsyncedBytesMax) this.start();
      else this.startAfter(fsyncIntervalMs);
    }
  }
  private startAfter(delayMs: number): void {
    if (this.cancelTimer !== undefined) return;
    this.cancelTimer = this.state.deps.clock.setTimer(delayMs, () => {
      this.cancelTimer = undefined;
      this.start();
    });
  }
  private stopTimer(): void {
    this.cancelTimer?.();
    this.cancelTimer = undefined;
  }

  private start(): void {
    if (this.running !== undefined || this.held || this.state.health.failed) return;
    this.stopTimer();
    if (this.dirty.length === 0 || this.state.synced >= this.state.written) {
      this.settle();
      return;
    }
    const run = this.commitOnce().then(
      () => undefined,
      (error: unknown) => this.abandon(error),
    );
    this.running = run;
    this.state.runInBackground(async () => {
      await run;
      this.running = undefined;
      if (this.state.health.failed) return;
      this.settle();
      if (this.waiters.length > 0) this.start();
      else if (this.pendingBytes > 0) this.schedule();
    });
  }

  private async commitOnce(): Promise<void> {
    const { state } = this;
    const target = state.written;
    const place = { baseOffset: state.active.baseOffset, size: state.active.size };
    const generation = state.generation;
    const batches = this.unsyncedBatches;
    const segments = this.dirty;
    this.dirty = [];
    this.inflightBytes = this.pendingBytes;
    this.pendingBytes = 0;
    this.unsyncedBatches = 0;
    // Oldest first: a later segment is never durable without the ones before it.
    for (const segment of segments) await this.syncSegment(segment);
    this.inflightBytes = 0;
    if (state.generation !== generation) return;
    state.metrics.groupCommitBatches.observe(batches);
    // The record says what is synced, so it is written first; it refers to nothing that could go back.
    state.advanceSynced(target);
    this.checkpoint.recordSynced(target, place);
    this.onSynced?.();
  }

  private async syncSegment(segment: Segment): Promise<void> {
    const { state } = this;
    const file = segment.file;
    if (segment.removed) return;
    assert(file !== undefined, 'a segment with unsynced bytes is open');
    const startMs = state.deps.clock.bootMs();
    const covered = { offset: segment.nextOffset, position: segment.size };
    // All segments before this one are durable: in this group commit they came first.
    writeSyncMark(state, segment, file);
    await state.health.guard('fdatasync failed', () => file.sync());
    segment.synced = covered;
    state.metrics.syncSeconds.observe((state.deps.clock.bootMs() - startMs) / 1000);
    await segment.named;
  }

  private settle(): void {
    const { synced } = this.state;
    const { written } = this.state;
    const done = this.waiters.filter((waiter) => waiter.offset <= synced || waiter.offset > written);
    if (done.length === 0) return;
    this.waiters = this.waiters.filter((waiter) => waiter.offset > synced && waiter.offset <= written);
    for (const waiter of done) waiter.resolve();
  }

  private abandon(error: unknown): void {
    const { waiters } = this;
    this.waiters = [];
    for (const waiter of waiters) waiter.reject(error);
    if (!this.state.health.failed) throw error;
  }
}
