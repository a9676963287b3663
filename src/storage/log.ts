// One partition's log: the facade over writer, committer, reader, roller and retention, which share `LogState`.
import { offset, type LeaderEpoch, type Offset } from '../base/brands.ts';
import { parseSegmentFileName, segmentFileName } from '../format/segment.ts';
import { CheckpointFile, loadCheckpoint } from './checkpoint-file.ts';
import { Committer } from './committer.ts';
import type { LogConfig, StorageDeps } from './config.ts';
import type {
  AppendResult,
  CheckedBatch,
  EpochEntry,
  HeaderVisit,
  LogPlace,
  OffsetRange,
  ReadResult,
  RecoveryReport,
  TimestampLookup,
} from './contract.ts';
import { isNotFound, isPressure } from './health.ts';
import { LogState } from './log-state.ts';
import { offsetForTimestamp, placeOf, scanHeaders } from './lookup.ts';
import { OwnerSnapshots, snapshotOffset, type OwnerSnapshot } from './owner-snapshot.ts';
import { Preallocator } from './preallocate.ts';
import { Reader } from './reader.ts';
import { recoverLog } from './recovery.ts';
import { Retention } from './retention.ts';
import { Roller } from './roller.ts';
import { sealSegment, writeDerivedFiles } from './sealing.ts';
import { scrubLog } from './scrub.ts';
import type { Segment } from './segment.ts';
import { loadFacts, rebuildSegment } from './segment-loader.ts';
import { restartLog, truncateLog, type TruncationParts } from './truncation.ts';
import { Writer } from './writer.ts';

export interface OpenHow {
  /** The store was stopped cleanly: the checkpoint is the truth. */
  readonly clean: boolean;
  /** Make the directory when it does not exist. */
  readonly create: boolean;
}

export class PartitionLog {
  readonly directory: string;
  private readonly state: LogState;
  private readonly checkpoint: CheckpointFile;
  private readonly committer: Committer;
  private readonly roller: Roller;
  private readonly writer: Writer;
  private readonly reader: Reader;
  private readonly retention: Retention;
  private readonly snapshots: OwnerSnapshots;
  private readonly opened: Omit<RecoveryReport, 'damaged'>;
  private readonly damagedAtOpen: readonly OffsetRange[];
  private closing: Promise<void> | undefined;

  private constructor(
    state: LogState,
    checkpoint: CheckpointFile,
    preallocator: Preallocator,
    snapshots: OwnerSnapshots,
    opened: Omit<RecoveryReport, 'damaged'>,
  ) {
    this.directory = state.directory;
    this.state = state;
    this.checkpoint = checkpoint;
    this.snapshots = snapshots;
    this.committer = new Committer(state, checkpoint);
    this.roller = new Roller(state, this.committer, preallocator, snapshots);
    this.writer = new Writer(state, this.committer, this.roller);
    this.committer.onSynced = (): void => this.writer.madeRoom();
    this.reader = new Reader(state);
    this.retention = new Retention(state, checkpoint, preallocator);
    this.opened = opened;
    this.damagedAtOpen = state.damaged;
  }

  /**
   * Recovers what is there, or begins a new log. DiskError 'not-found' when it may not be created; 'no-space' and
   * 'too-many-files' when it cannot be opened now: nothing is lost, and it can be tried again.
   */
  static async open(deps: StorageDeps, directory: string, config: LogConfig, how: OpenHow): Promise<PartitionLog> {
    const state = new LogState(deps, directory, config);
    state.health.opening = true;
    const undo: (() => Promise<void>)[] = [];
    try {
      return await PartitionLog.openOnce(state, how, undo);
    } catch (error) {
      state.close();
      await state.backgroundIdle();
      if (!state.health.failed) {
        for (const segment of state.segments) await closeSegment(state, segment);
        // The last one also does what those before it would.
        await undo.at(-1)?.();
      }
      throw error;
    }
  }

  private static async openOnce(state: LogState, how: OpenHow, undo: (() => Promise<void>)[]): Promise<PartitionLog> {
    const { deps, directory } = state;
    const names = await state.health.guardMissing('opening a log failed', () =>
      listDirectory(deps, directory, how.create),
    );
    const left = await state.health.guard('cleaning a log directory failed', () =>
      cleanLeftovers(deps, directory, names),
    );
    const { file, loaded } = await state.health.guard('reading a checkpoint failed', () =>
      loadCheckpoint(deps, directory),
    );
    undo.push(() => file.close());
    const { report, unsealed } = await recoverLog(state, left.bases, loaded, how.clean);
    const checkpoint = new CheckpointFile(state, file, loaded);
    undo.push(() => checkpoint.close());
    const snapshots = new OwnerSnapshots(state, left.snapshots);
    await snapshots.truncate(state.logEnd);
    const log = new PartitionLog(state, checkpoint, new Preallocator(state, left.spares), snapshots, report);
    await log.begin(unsealed, names);
    return log;
  }

  /** What opening found and did. */
  get recovery(): RecoveryReport {
    return { ...this.opened, damaged: this.damagedAtOpen };
  }
  /** Called after each advance of the synced offset and, for `interval` and `never`, of the written offset. One listener. */
  get onAdvance(): (() => void) | undefined {
    return this.state.onAdvance;
  }
  set onAdvance(listener: (() => void) | undefined) {
    this.state.onAdvance = listener;
  }
  /** Called at each roll; what it returns is kept beside the new segment and given back by `latestSnapshot`. */
  get onRoll(): ((nextBaseOffset: Offset) => Uint8Array | undefined) | undefined {
    return this.state.onRoll;
  }
  set onRoll(listener: ((nextBaseOffset: Offset) => Uint8Array | undefined) | undefined) {
    this.state.onRoll = listener;
  }
  get logStartOffset(): Offset {
    return this.state.logStart;
  }
  /** The offset the next append gets. */
  get logEndOffset(): Offset {
    return this.state.logEnd;
  }
  /** The kernel has everything below. Equal to `logEndOffset` unless the disk is slow or a roll is under way. */
  get writtenOffset(): Offset {
    return this.state.written;
  }
  /** Everything below is durable. */
  get syncedOffset(): Offset {
    return this.state.synced;
  }
  get damaged(): readonly OffsetRange[] {
    return this.state.damaged;
  }
  /** Ascending; each epoch ends where the next one starts. */
  get epochs(): readonly EpochEntry[] {
    return this.state.epochs.entries;
  }
  get config(): LogConfig {
    return this.state.config;
  }
  get isClosed(): boolean {
    return this.closing !== undefined;
  }
  /** The storage has failed: the process is ending. */
  get failed(): boolean {
    return this.state.health.failed;
  }
  get segmentCount(): number {
    return this.state.segments.length;
  }
  /** Of the segments that were looked at since the log was opened; all of them after the first `retain`. */
  get sizeInBytes(): number {
    return this.state.segments.reduce((sum, segment) => sum + (segment.facts?.size ?? 0), 0);
  }
  get mappedBytes(): number {
    const active = this.state.active;
    return this.state.cache.mappedBytes + (active.mapped?.mapping.bytes ?? 0);
  }
  get checkpointedHighWatermark(): Offset {
    return this.state.highWatermark;
  }
  /** Recorded with the next checkpoint, as a lower bound for the next start. */
  setHighWatermark(to: Offset): void {
    if (to > this.state.highWatermark) this.state.highWatermark = to;
  }

  /** As the leader: stamps base offset and epoch into `bytes`, which the batches cover without gaps. */
  append(bytes: Uint8Array, batches: readonly CheckedBatch[], epoch: LeaderEpoch): AppendResult {
    return this.writer.append(bytes, batches, epoch);
  }
  /** As a follower: offsets and epochs stay; the first batch must start at `logEndOffset`. */
  appendReplicated(bytes: Uint8Array, batches: readonly CheckedBatch[]): AppendResult {
    return this.writer.append(bytes, batches, undefined);
  }
  /**
   * No append is accepted any more, and what was accepted is durable when it resolves. False: some of it waited for room on the
   * disk and was dropped: it was never answered, and whoever has noted it must forget it.
   */
  async finish(): Promise<boolean> {
    const isWhole = await this.writer.finish();
    await this.committer.sync();
    return isWhole;
  }
  /** All that was appended before the call is durable when it resolves. Waits for room on the disk as long as it takes. */
  async sync(): Promise<void> {
    await this.writer.drained();
    await this.committer.sync();
  }
  /** The same; false as soon as the disk has no room for some of it: that is written later, when there is. */
  async syncUnlessFull(): Promise<boolean> {
    if (!(await this.writer.drainedUnlessStuck())) return false;
    await this.committer.sync();
    return true;
  }
  /** Synchronous when the bytes are in memory and verified; otherwise 'cold'. */
  read(from: Offset, maxBytes: number, upTo: Offset): ReadResult {
    return this.reader.read(from, maxBytes, upTo);
  }
  /** What `read` with the same arguments needs first: brings into memory and verifies off the hot path. */
  prepare(from: Offset, maxBytes: number): Promise<void> {
    return this.reader.prepare(from, maxBytes);
  }
  offsetForTimestamp(timestamp: number): Promise<TimestampLookup | undefined> {
    return offsetForTimestamp(this.state, timestamp);
  }
  placeOf(at: Offset): Promise<LogPlace> {
    return placeOf(this.state, at, this.state.deps.clock.wallMs());
  }
  /** Where the epoch ended in this log: the start of the next greater one, or the log end. Undefined: older than the log. */
  epochEndOffset(epoch: LeaderEpoch): { readonly epoch: LeaderEpoch; readonly endOffset: Offset } | undefined {
    return this.state.epochs.endOffset(epoch, this.state.logEnd);
  }
  /** Walks checked batch headers from the batch that holds `from` up to the written offset; damaged ranges are left out. */
  scanHeaders(from: Offset, visit: HeaderVisit): Promise<void> {
    return scanHeaders(this.state, from, visit);
  }
  /** The newest owner snapshot at or below the log end that is intact. */
  latestSnapshot(): Promise<OwnerSnapshot | undefined> {
    return this.snapshots.latest(this.state.logEnd);
  }
  /** Closes the active segment behind what was appended so far; nothing when it is empty, or when there is no room for another. */
  roll(): Promise<void> {
    return this.writer.roll();
  }
  /** Removes the tail from the batch that holds `to` on, into quarantine. Appends are refused meanwhile. */
  async truncateTo(to: Offset): Promise<void> {
    await this.cut((parts) => truncateLog(parts, to));
  }
  /**
   * Leaves everything behind, in quarantine, and goes on at `at`: for a replica whose end is below what others still have. When it
   * reaches up to there only what lies below goes. Appends are refused meanwhile.
   */
  async restartAt(at: Offset): Promise<void> {
    if (at <= this.logEndOffset) await this.deleteTo(at);
    else await this.cut((parts) => restartLog(parts, at));
  }
  private async cut(work: (parts: TruncationParts) => Promise<unknown>): Promise<void> {
    const { state, committer, checkpoint, snapshots } = this;
    state.health.check();
    await this.writer.hold();
    try {
      await state.exclusive(() => work({ state, committer, checkpoint, snapshots }));
    } finally {
      this.writer.release();
      committer.resume();
    }
    this.sealInBackground(state.segments.filter((segment) => segment.sealed && segment.nextOffset === state.logEnd));
  }
  /** Removes whole segments at the head by time and size; an idle active one is rolled first, so that it can go. */
  async retain(nowMs: number): Promise<void> {
    const { state } = this;
    try {
      if (!this.writer.isBusy && this.retention.activeIsOld(nowMs)) await this.writer.roll();
      await state.exclusive(() => this.retention.retain(nowMs));
    } catch (error) {
      // It comes again.
      if (!isPressure(error)) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      state.deps.telemetry.log('warn', 'log.retention-postponed', { directory: state.directory, reason });
    }
  }
  /** Moves the log start; segments wholly below it go. */
  deleteTo(to: Offset): Promise<void> {
    return this.state.exclusive(() => this.retention.deleteTo(to));
  }
  updateConfig(config: LogConfig): void {
    this.state.config = config;
    this.state.cache.setMax(config.mappedSegmentsMax);
  }
  /** Compares sealed segments with their seals, once through, at a bounded rate. */
  scrubOnce(
    budgetBytesPerSecond: number,
  ): Promise<{ readonly bytes: number; readonly damaged: readonly OffsetRange[] }> {
    return scrubLog(this.state, budgetBytesPerSecond);
  }
  /** `clean`: everything is synced and the checkpoint says so, last. Slices that are out stay valid until released. */
  close(how: { readonly clean: boolean }): Promise<void> {
    this.closing ??= this.closeOnce(how.clean);
    return this.closing;
  }

  private async recordClean(): Promise<void> {
    const { state } = this;
    const place = { baseOffset: state.active.baseOffset, size: state.active.size };
    try {
      await this.checkpoint.recordDurably(state.synced, place, true);
    } catch (error) {
      // The next start walks the tail, as after a kill.
      if (!isPressure(error)) throw error;
      state.deps.telemetry.log('warn', 'log.not-closed-cleanly', { directory: state.directory });
    }
  }

  private async begin(unsealed: readonly Segment[], names: readonly string[]): Promise<void> {
    const { state } = this;
    const place = { baseOffset: state.active.baseOffset, size: state.active.size };
    // After a clean stop nothing is new: that this run is not clean the store has recorded already.
    if (this.opened.kind === 'clean') this.checkpoint.recordSynced(state.synced, place);
    else {
      await this.checkpoint.recordDurably(state.synced, place, false);
      await state.health.guard('directory fsync failed', () => state.deps.disk.syncDirectory(state.directory));
    }
    // Where good batches begin again behind damage is found once and kept in the index.
    for (const segment of unsealed.filter((each) => each.resyncs.length > 0)) {
      await rebuildSegment(state, segment);
      await state.health.guard('directory fsync failed', () => state.deps.disk.syncDirectory(state.directory));
    }
    // Segments that a crash kept retention from removing.
    await state.exclusive(() => this.retention.deleteTo(state.logStart));
    state.health.opening = false;
    this.sealInBackground(unsealed);
    // No seal: it could not be written, or what lies there is damaged. The latter is to be known before somebody reads it.
    const present = new Set(names);
    this.sealInBackground(
      state.segments.filter(
        (each) => !unsealed.includes(each) && !present.has(segmentFileName(each.baseOffset, 'seal')),
      ),
    );
    const { recovery } = this;
    if (recovery.kind === 'tail')
      state.deps.telemetry.log('info', 'log.recovered', {
        directory: state.directory,
        ...recovery,
        damaged: recovery.damaged.length,
        logEnd: state.logEnd,
      });
  }

  private sealInBackground(segments: readonly Segment[]): void {
    for (const segment of segments) {
      if (!segment.sealed) continue;
      this.state.runWhenThereIsRoom(async () => {
        if (this.state.closed || segment.removed) return;
        await this.committer.syncSegmentEnd(segment);
        if (segment.facts === undefined) await rebuildSegment(this.state, segment);
        else await loadFacts(this.state, segment);
        await sealSegment(this.state, segment);
      });
    }
  }

  private async closeOnce(clean: boolean): Promise<void> {
    const { state } = this;
    if (clean && !state.health.failed) await this.finish();
    state.close();
    this.committer.close();
    await this.committer.quiesce();
    await state.backgroundIdle();
    await this.roller.close();
    if (clean && !state.health.failed) {
      await writeDerivedFiles(state, state.active);
      await this.recordClean();
      await state.health.guard('directory fsync failed', () => state.deps.disk.syncDirectory(state.directory));
    }
    await this.checkpoint.close();
    for (const segment of state.segments) await closeSegment(state, segment);
  }
}

async function closeSegment(state: LogState, segment: Segment): Promise<void> {
  state.cache.forget(segment);
  segment.retireMapping();
  if (!state.health.failed) await segment.close();
}

interface Leftovers {
  readonly bases: readonly Offset[];
  readonly snapshots: readonly Offset[];
  readonly spares: readonly string[];
}

async function listDirectory(deps: StorageDeps, directory: string, create: boolean): Promise<readonly string[]> {
  if (create && !(await deps.disk.exists(directory))) await makeDurableDirectory(deps, directory);
  return (await deps.disk.readDirectory(directory)).filter((entry) => entry.kind === 'file').map((entry) => entry.name);
}

/** Each level's name is durable when it resolves. */
export async function makeDurableDirectory(deps: StorageDeps, directory: string): Promise<void> {
  await deps.disk.makeDirectory(directory);
  const parts = directory.split('/');
  for (let depth = parts.length - 1; depth >= 0; depth -= 1)
    await deps.disk.syncDirectory(parts.slice(0, depth).join('/'));
}

/** What a crash left half done is removed; doing so again is harmless. */
async function cleanLeftovers(deps: StorageDeps, directory: string, names: readonly string[]): Promise<Leftovers> {
  const bases: Offset[] = [];
  const snapshots: Offset[] = [];
  const spares: string[] = [];
  const present = new Set(names);
  for (const name of names) {
    const path = `${directory}/${name}`;
    const parsed = parseSegmentFileName(name);
    const snapshot = snapshotOffset(name);
    if (snapshot !== undefined) snapshots.push(snapshot);
    else if (parsed !== undefined && parsed.suffix === 'log') bases.push(offset(parsed.baseOffset));
    // What belonged to a segment that is gone.
    else if (parsed !== undefined && !present.has(segmentFileName(offset(parsed.baseOffset), 'log')))
      await deps.disk.unlink(path);
    else if (name.endsWith('.spare') && spares.length === 0) spares.push(path);
    else if (name.endsWith('.tmp') || name.endsWith('.deleted') || name.endsWith('.spare'))
      await deps.disk.unlink(path);
  }
  return { bases: bases.toSorted((left, right) => left - right), snapshots, spares };
}

export function isMissingLog(error: unknown): boolean {
  return isNotFound(error);
}
