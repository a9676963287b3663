// Rolling: the next segment gets its name, the old one its last sync, its indexes and its seal. No batch in a segment is
// acknowledged before the segment's name is durable.
import { assert } from '../base/assert.ts';
import type { Offset } from '../base/brands.ts';
import { segmentFileName } from '../format/segment.ts';
import { syncMarksAt } from '../format/sync-mark.ts';
import type { Committer } from './committer.ts';
import { isPressure } from './health.ts';
import type { LogState } from './log-state.ts';
import type { OwnerSnapshots } from './owner-snapshot.ts';
import type { Preallocator, PreparedSegment } from './preallocate.ts';
import { sealSegment } from './sealing.ts';
import { emptyFacts, Segment } from './segment.ts';
import { SegmentIndex } from './segment-index.ts';

/** A failed preparation is tried again when this has passed and something is appended. */
const PREPARE_RETRY_MS = 100;

export class Roller {
  private readonly state: LogState;
  private readonly committer: Committer;
  private readonly preallocator: Preallocator;
  private readonly snapshots: OwnerSnapshots;
  private prepared: PreparedSegment | undefined;
  private preparing: Promise<void> | undefined;
  private failedAtMs = -1;

  constructor(state: LogState, committer: Committer, preallocator: Preallocator, snapshots: OwnerSnapshots) {
    this.state = state;
    this.snapshots = snapshots;
    this.committer = committer;
    this.preallocator = preallocator;
  }

  /** After each write: the next segment is prepared once this one is half full. */
  wrote(segment: Segment): void {
    if (segment.size * 2 >= segment.capacity && this.prepared === undefined) this.prepareInBackground();
  }

  /** True when `bytes` more need another segment and the disk had no room for one. Tries again now and then. */
  full(bytes: number): boolean {
    const { active } = this.state;
    if (
      active.size + bytes <= active.capacity ||
      active.size === 0 ||
      this.prepared !== undefined ||
      this.failedAtMs < 0
    )
      return false;
    if (this.state.deps.clock.bootMs() - this.failedAtMs >= PREPARE_RETRY_MS) this.prepareInBackground();
    return true;
  }

  /** Called by the writer, which has nothing else under way. The new segment begins at the written offset. */
  roll(): Promise<'rolled' | 'no-space'> {
    return this.state.exclusive(async () => {
      if (this.prepared === undefined) this.prepareInBackground();
      if (this.preparing !== undefined) await this.preparing;
      const next = this.prepared;
      if (next === undefined) return 'no-space';
      this.prepared = undefined;
      if (await this.switchTo(next)) return 'rolled';
      this.prepared = next;
      return 'no-space';
    });
  }

  async close(): Promise<void> {
    if (this.preparing !== undefined) await this.preparing;
    const { prepared } = this;
    this.prepared = undefined;
    if (prepared !== undefined && !this.state.health.failed) await this.preallocator.discard(prepared);
  }

  private prepareInBackground(): void {
    if (this.preparing !== undefined || this.prepared !== undefined || this.state.closed) return;
    const run = this.prepareOnce().finally(() => {
      this.preparing = undefined;
    });
    this.preparing = run.catch(() => undefined);
    this.state.runInBackground(() => run);
  }

  private async prepareOnce(): Promise<void> {
    this.prepared = await this.preallocator.prepare();
    this.failedAtMs = this.prepared === undefined ? this.state.deps.clock.bootMs() : -1;
  }

  /** False: no room for its name, and nothing has changed. */
  private async switchTo(next: PreparedSegment): Promise<boolean> {
    const { state } = this;
    const { disk, telemetry } = state.deps;
    const old = state.active;
    const base = state.written;
    assert(old.nextOffset === base && old.size > 0, 'a segment is rolled behind its last batch');
    const path = `${state.directory}/${segmentFileName(base, 'log')}`;
    const snapshot = state.onRoll?.(base);
    if (snapshot !== undefined) await this.snapshots.write(base, snapshot);
    try {
      await state.health.guardSpace('naming a segment failed', () => disk.rename(next.path, path));
    } catch (error) {
      if (isPressure(error)) return false;
      throw error;
    }
    const segment = startSegment(state, base, path, next);
    // Writes may begin; whoever waits for durability waits for the name too.
    segment.named = state.health.guard('directory fsync after a roll failed', () =>
      disk.syncDirectory(state.directory),
    );
    state.runInBackground(() => segment.named);
    old.sealed = true;
    if (old.facts !== undefined)
      old.facts.rolledMs = old.lastAppendMs >= 0 ? old.lastAppendMs : state.deps.clock.wallMs();
    if (old.mapped !== undefined) state.cache.touch(old);
    state.segments.push(segment);
    state.metrics.rolls.add(1);
    telemetry.log('debug', 'log.rolled', { directory: state.directory, baseOffset: base });
    state.runWhenThereIsRoom(async () => {
      await this.committer.syncSegmentEnd(old);
      // Sealing takes the sync marks away: the checkpoint says what they said.
      await this.committer.settleCheckpoint();
      await sealSegment(state, old);
    });
    return true;
  }
}

export function startSegment(state: LogState, base: Offset, path: string, from: PreparedSegment): Segment {
  const segment = new Segment(base, path, base, from.capacity);
  segment.file = from.file;
  segment.padded = from.padded;
  if (from.padded) segment.marks = { at: syncMarksAt(from.capacity), slot: 0 };
  segment.facts = emptyFacts();
  segment.index = new SegmentIndex(state.config.indexIntervalBytes);
  return segment;
}
