// Appends. The usual way: one write call on the loop, into the page cache. When the disk is slow, when the segment is
// full, or when others wait already, the bytes are copied into a queue that is written in order off the loop.
import { assert } from '../base/assert.ts';
import { leaderEpoch, offset, position, type LeaderEpoch, type Offset } from '../base/brands.ts';
import { stampBatch } from '../format/batch.ts';
import { crcWithBatch } from '../format/crc-combine.ts';
import type { Committer } from './committer.ts';
import type { AppendResult, CheckedBatch } from './contract.ts';
import { isNoSpace, isPressure } from './health.ts';
import type { LogState } from './log-state.ts';
import type { Roller } from './roller.ts';
import type { Segment } from './segment.ts';

/** A write on the loop that took longer makes the log hand its writes to the pool. */
const SLOW_WRITE_MS = 4;
/** So many quick writes in a row, and the loop writes again. */
const QUICK_WRITES_TO_RECOVER = 16;
const QUICK_WRITE_MS = 1;
const SPACE_RETRY_MS = 200;

/** Batches that go into one segment with one write. */
interface Run {
  readonly bytes: Uint8Array;
  readonly batches: readonly PlacedBatch[];
}

interface PlacedBatch {
  readonly at: number;
  readonly size: number;
  readonly baseOffset: Offset;
  readonly lastOffset: Offset;
  readonly epoch: LeaderEpoch;
  readonly baseTimestamp: number;
  readonly maxTimestamp: number;
  readonly recordCount: number;
}

interface Queued extends Run {
  /** Close the active segment here, whatever its size. */
  readonly roll: boolean;
  readonly written: (() => void) | undefined;
}

export class Writer {
  private readonly state: LogState;
  private readonly committer: Committer;
  private readonly roller: Roller;
  private queue: Queued[] = [];
  private queuedBytes = 0;
  private draining: Promise<void> | undefined;
  private quickWrites = QUICK_WRITES_TO_RECOVER;
  private held = false;
  private finishing = false;
  private cutting: Promise<void> | undefined;
  private roomWaiters: (() => void)[] = [];
  /** The disk had no room for what is next in the queue. */
  private isStuck = false;
  private stuckWaiters: (() => void)[] = [];

  constructor(state: LogState, committer: Committer, roller: Roller) {
    this.state = state;
    this.committer = committer;
    this.roller = roller;
  }

  append(bytes: Uint8Array, batches: readonly CheckedBatch[], epoch: LeaderEpoch | undefined): AppendResult {
    const { state } = this;
    if (state.closed || state.health.failed) return { ok: false, code: 'STORAGE_FAILED' };
    const first = batches[0];
    assert(first !== undefined && first.at === 0, 'an append starts with a batch');
    const waiting = this.waitingBytes;
    if (this.finishing) return { ok: false, code: 'STORAGE_FAILED' };
    if (this.held || waiting > 2 * state.config.unsyncedBytesMax) return { ok: false, code: 'THROTTLED' };
    if (this.cutting !== undefined || this.roller.full(bytes.length)) return this.refuseFull();
    const placed = this.place(bytes, batches, epoch);
    const direct =
      this.queue.length === 0 && this.quickWrites >= QUICK_WRITES_TO_RECOVER && fits(state.active, bytes.length);
    if (direct && !this.writeNow({ bytes, batches: placed })) return this.refuseFull();
    const base = state.logEnd;
    const end = offset((placed.at(-1)?.lastOffset ?? base - 1) + 1);
    for (const batch of placed) state.epochs.begin(batch.epoch, batch.baseOffset);
    state.logEnd = end;
    const result = { ok: true, baseOffset: base, lastOffset: offset(end - 1) } as const;
    if (direct) {
      this.wrote(state.active, { bytes, batches: placed });
      return waiting + bytes.length > state.config.unsyncedBytesMax ? { ...result, room: this.room() } : result;
    }
    const whenWritten = this.enqueue(bytes, placed);
    return waiting + bytes.length > state.config.unsyncedBytesMax
      ? { ...result, whenWritten, room: this.room() }
      : { ...result, whenWritten };
  }

  /**
   * No append is accepted and none is under way until `release`. What waits for space or for a slow disk is dropped: it
   * was never answered, and lies above everything that is written.
   */
  async hold(): Promise<void> {
    this.held = true;
    if (this.draining !== undefined) await this.draining;
    if (this.cutting !== undefined) await this.cutting;
    this.drop();
  }
  release(): void {
    this.held = false;
  }
  /**
   * No append is accepted any more. What was accepted is written while there is room for it; false: some of it waited for room
   * and was dropped. It was never answered.
   */
  async finish(): Promise<boolean> {
    this.finishing = true;
    await this.drained();
    return !this.drop();
  }
  /** True when it dropped a batch. */
  private drop(): boolean {
    const dropped = this.queue;
    this.queue = [];
    this.queuedBytes = 0;
    this.state.logEnd = this.state.written;
    this.state.epochs.truncate(this.state.written);
    // Whoever waits for a roll waits for what can come true another time.
    for (const item of dropped) if (item.roll) item.written?.();
    this.madeRoom();
    return dropped.some((item) => !item.roll);
  }
  /** Everything accepted so far has reached the kernel. */
  async drained(): Promise<void> {
    while (this.draining !== undefined) await this.draining;
  }
  /** The same; false as soon as the disk has no room for some of it, which goes on waiting. */
  async drainedUnlessStuck(): Promise<boolean> {
    while (this.draining !== undefined) {
      if (this.isStuck) return false;
      await Promise.race([this.draining, new Promise<void>((resolve) => this.stuckWaiters.push(resolve))]);
    }
    return true;
  }
  /** Closes the active segment behind what was accepted so far; left undone when the disk has no room for another one. */
  roll(): Promise<void> {
    return new Promise<void>((resolve) => {
      this.queue.push({ bytes: new Uint8Array(0), batches: [], roll: true, written: resolve });
      this.startDraining();
    });
  }
  /** Appends wait for the disk. */
  get isBusy(): boolean {
    return this.queue.length > 0;
  }
  get waitingBytes(): number {
    // Under `never` what the kernel has is the kernel's to bound.
    return this.queuedBytes + (this.state.config.fsync === 'never' ? 0 : this.committer.unsyncedBytes);
  }
  /** The committer has made bytes durable, or the queue has shrunk. */
  madeRoom(): void {
    if (this.roomWaiters.length === 0 || this.waitingBytes > this.state.config.unsyncedBytesMax) return;
    const waiters = this.roomWaiters;
    this.roomWaiters = [];
    for (const resolve of waiters) resolve();
  }

  private room(): Promise<void> {
    return new Promise((resolve) => this.roomWaiters.push(resolve));
  }
  private refuseFull(): AppendResult {
    this.state.metrics.storageFull.add(1);
    return { ok: false, code: 'STORAGE_FULL' };
  }

  private place(bytes: Uint8Array, batches: readonly CheckedBatch[], epoch: LeaderEpoch | undefined): PlacedBatch[] {
    const placed: PlacedBatch[] = [];
    let next = this.state.logEnd;
    let at = 0;
    for (const batch of batches) {
      const { header } = batch;
      assert(
        batch.at === at,
        `batch at ${String(batch.at)}, expected ${String(at)}: batches cover the bytes without gaps`,
      );
      if (epoch === undefined)
        assert(header.baseOffset === next, `replicated batch at ${String(header.baseOffset)}, log end ${String(next)}`);
      else stampBatch(bytes, at, next, epoch);
      const lastOffset = offset(next + header.lastOffsetDelta);
      placed.push({
        at,
        size: batch.size,
        baseOffset: next,
        lastOffset,
        epoch: epoch ?? leaderEpoch(header.leaderEpoch),
        baseTimestamp: header.baseTimestamp,
        maxTimestamp: header.maxTimestamp,
        recordCount: header.recordCount,
      });
      next = offset(lastOffset + 1);
      at += batch.size;
    }
    assert(at === bytes.length, `batches cover ${String(at)} of ${String(bytes.length)} bytes`);
    return placed;
  }

  /** False: no space; nothing of it is in the log. */
  private writeNow(run: Run): boolean {
    const { state } = this;
    const segment = state.active;
    const file = segment.file;
    assert(file !== undefined, 'the active segment is open');
    const startMs = state.deps.clock.bootMs();
    try {
      file.write(run.bytes, position(segment.size));
    } catch (error) {
      if (!isNoSpace(error)) state.health.fail('write failed', error, { directory: state.directory });
      this.cutBack(segment);
      return false;
    }
    if (state.deps.clock.bootMs() - startMs > SLOW_WRITE_MS) this.quickWrites = 0;
    return true;
  }

  /** A part of the batch may have been written: the file is cut to its last good end before anything else is written. */
  private cutBack(segment: Segment): void {
    const file = segment.file;
    // In blocks that exist already the next write goes over the part; recovery does not take it for a batch.
    if (segment.padded || file === undefined) return;
    const { size } = segment;
    const cutting = this.state.health.guard('cutting back a partial write failed', () => file.truncate(size));
    this.cutting = cutting.then(
      () => undefined,
      () => undefined,
    );
    this.state.runInBackground(async () => {
      await cutting;
      this.cutting = undefined;
    });
  }

  private enqueue(bytes: Uint8Array, batches: readonly PlacedBatch[]): Promise<void> {
    const runs = this.splitIntoRuns(bytes.slice(), batches);
    const whenWritten = new Promise<void>((resolve) => {
      for (const [index, run] of runs.entries())
        this.queue.push({ ...run, roll: false, written: index === runs.length - 1 ? resolve : undefined });
    });
    this.queuedBytes += bytes.length;
    this.state.metrics.slowWrites.add(1);
    this.startDraining();
    return whenWritten;
  }

  private startDraining(): void {
    if (this.draining !== undefined) return;
    const drain = this.drain();
    this.draining = drain.catch(() => undefined);
    this.state.runInBackground(() => drain);
  }

  /** Batches of one append stay together as long as a segment can hold them. */
  private splitIntoRuns(bytes: Uint8Array, batches: readonly PlacedBatch[]): Run[] {
    const max = this.state.config.segmentBytes;
    if (bytes.length <= max) return [{ bytes, batches }];
    const runs: Run[] = [];
    let from = 0;
    let group: PlacedBatch[] = [];
    const close = (to: number): void => {
      if (group.length > 0)
        runs.push({
          bytes: bytes.subarray(from, to),
          batches: group.map((batch) => ({ ...batch, at: batch.at - from })),
        });
      group = [];
      from = to;
    };
    for (const batch of batches) {
      if (batch.at + batch.size - from > max) close(batch.at);
      group.push(batch);
    }
    close(bytes.length);
    return runs;
  }

  private async drain(): Promise<void> {
    try {
      for (let item = this.queue[0]; item !== undefined; item = this.queue[0]) {
        if (!(await this.writeQueued(item))) return;
        this.queue.shift();
        this.queuedBytes -= item.bytes.length;
        item.written?.();
        this.madeRoom();
      }
    } finally {
      // In the same turn in which the queue was found empty: whoever is woken by the last item may queue another.
      this.draining = undefined;
      this.setStuck(false);
    }
  }

  /** False: given up, because the log is held or closed while there is no space. */
  private async writeQueued(run: Queued): Promise<boolean> {
    const { state } = this;
    for (;;) {
      state.health.check();
      const isDone = await this.tryQueued(run);
      this.setStuck(!isDone);
      if (isDone) return true;
      if (this.held || this.finishing || state.closed) return false;
      await state.pause(SPACE_RETRY_MS);
    }
  }

  private setStuck(isStuck: boolean): void {
    this.isStuck = isStuck;
    if (this.stuckWaiters.length === 0) return;
    const waiters = this.stuckWaiters;
    this.stuckWaiters = [];
    for (const resolve of waiters) resolve();
  }

  private async tryQueued(run: Queued): Promise<boolean> {
    const { state } = this;
    const mustRoll = run.roll ? state.active.size > 0 : !fits(state.active, run.bytes.length) && state.active.size > 0;
    // A roll that somebody asked for is for making room: waiting for room with it would help nobody.
    if (mustRoll && (await this.roller.roll()) === 'no-space') return run.roll;
    if (run.roll) return true;
    if (!(await this.writeInto(state.active, run))) return false;
    this.wrote(state.active, run);
    return true;
  }

  private async writeInto(segment: Segment, run: Run): Promise<boolean> {
    const { state } = this;
    const file = segment.file;
    assert(file !== undefined, 'the active segment is open');
    if (run.bytes.length > segment.capacity) {
      // A batch larger than a segment has one of its own; a mapping of the usual size does not reach its end.
      segment.capacity = run.bytes.length;
      segment.retireMapping();
      if (segment.marks !== undefined && segment.capacity > segment.marks.at) segment.marks = undefined;
    }
    const startMs = state.deps.clock.bootMs();
    try {
      if (this.quickWrites >= QUICK_WRITES_TO_RECOVER) file.write(run.bytes, position(segment.size));
      else await file.writeSlow(run.bytes, position(segment.size));
    } catch (error) {
      if (isPressure(error)) return false;
      state.health.fail('write failed', error, { directory: state.directory });
    }
    const tookMs = state.deps.clock.bootMs() - startMs;
    if (tookMs > SLOW_WRITE_MS) this.quickWrites = 0;
    else if (tookMs <= QUICK_WRITE_MS) this.quickWrites += 1;
    return true;
  }

  private wrote(segment: Segment, run: Run): void {
    const { state } = this;
    const last = run.batches.at(-1);
    assert(last !== undefined, 'a run holds a batch');
    noteBatches(segment, run, state);
    state.metrics.appendBytes.add(run.bytes.length);
    state.advanceWritten(offset(last.lastOffset + 1));
    this.committer.wrote(segment, run.bytes.length, run.batches.length);
    this.roller.wrote(segment);
  }
}

function fits(segment: Segment, bytes: number): boolean {
  return segment.size + bytes <= segment.capacity;
}

function noteBatches(segment: Segment, run: Run, state: LogState): void {
  const { facts, index } = segment;
  assert(facts !== undefined && index !== undefined, 'the active segment is known');
  const start = facts.size;
  for (const batch of run.batches) {
    index.note(batch.baseOffset - segment.baseOffset, start + batch.at, facts.maxTimestamp);
    if (facts.recordCount === 0) {
      facts.firstTimestamp = batch.baseTimestamp;
      facts.firstEpoch = batch.epoch;
    }
    if (facts.crc !== undefined)
      facts.crc = crcWithBatch(state.deps.crc32c, facts.crc, run.bytes, batch.at, batch.size);
    facts.batchCount += 1;
    facts.recordCount += batch.recordCount;
    facts.lastEpoch = batch.epoch;
    facts.maxTimestamp = Math.max(facts.maxTimestamp, batch.maxTimestamp);
    segment.nextOffset = offset(batch.lastOffset + 1);
  }
  facts.size += run.bytes.length;
  segment.mapped?.verified.add(start, facts.size);
  segment.lastAppendMs = state.deps.clock.wallMs();
}
