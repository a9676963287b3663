// Removing the tail, as a replica that has diverged must: recorded first, then copied to quarantine, then cleared.
import { assert } from '../base/assert.ts';
import { offset, position, type Offset } from '../base/brands.ts';
import type { BatchHeader } from '../format/batch.ts';
import type { CheckpointFile } from './checkpoint-file.ts';
import type { Committer } from './committer.ts';
import { recordDamage } from './damage.ts';
import { walkFile, type WalkedBatch, type WalkFrom } from './file-walk.ts';
import type { LogState } from './log-state.ts';
import type { OwnerSnapshots } from './owner-snapshot.ts';
import { quarantineBytes, quarantineMove } from './quarantine.ts';
import { loadFacts } from './segment-loader.ts';
import { sidePath, withFile } from './sealing.ts';
import { emptyFacts, type Segment, type SegmentFacts } from './segment.ts';
import { SegmentIndex } from './segment-index.ts';
import { clearSyncMarks } from './sync-marks.ts';
import { startActive } from './recovery.ts';
import { unlinkIfThere } from './small-file.ts';

export interface TruncationParts {
  readonly state: LogState;
  readonly committer: Committer;
  readonly checkpoint: CheckpointFile;
  readonly snapshots: OwnerSnapshots;
}

/** The writer is held. Cuts at the start of the batch that holds `to`; resolves to the new log end. */
export async function truncateLog(parts: TruncationParts, to: Offset): Promise<Offset> {
  const { state, committer, checkpoint, snapshots } = parts;
  if (to >= state.logEnd) return state.logEnd;
  assert(to >= state.logStart, `truncation to ${String(to)}, below the log start ${String(state.logStart)}`);
  await committer.hold();
  // A write that waits for a sync of the checkpoint would join the old recovery point to the epochs of the log that was cut.
  await checkpoint.settle();
  const index = Math.max(0, state.segmentIndexAt(to));
  const segment = state.segments[index];
  assert(segment !== undefined, 'a segment holds the offset');
  await loadFacts(state, segment);
  const cut = await findCut(state, segment, to);
  if (cut.offset < state.logStart) return await emptyLog(parts, index);
  // What needs room comes first: without it nothing has changed.
  await keepTail(state, segment, cut);
  // Lowered before anything goes: a crash in between finds a recovery point that is true.
  if (state.synced >= cut.offset)
    await checkpoint.recordTwice(cut.offset, { baseOffset: segment.baseOffset, size: cut.position });
  else await checkpoint.recordAgain();
  state.cutTo(cut.offset);
  await snapshots.truncate(cut.offset);
  for (const later of state.segments.splice(index + 1).toReversed()) await moveAway(state, later);
  await clearTail(state, segment, cut);
  committer.truncated();
  return cut.offset;
}

/** The log begins inside the batch that is cut: nothing of it stays, and it goes on at its start in a new segment. */
async function emptyLog({ state, committer, checkpoint, snapshots }: TruncationParts, index: number): Promise<Offset> {
  const end = state.logStart;
  await checkpoint.recordTwice(end, { baseOffset: end, size: 0 });
  state.cutTo(end);
  state.advanceSynced(end);
  await snapshots.truncate(end);
  for (const later of state.segments.splice(index + 1).toReversed()) await moveAway(state, later);
  const old = state.segments.slice();
  await state.untilThereIsRoom('creating a segment failed', () => startActive(state, end));
  state.segments.splice(0, old.length);
  for (const segment of old) await moveAway(state, segment);
  committer.truncated();
  return end;
}

/**
 * The writer is held. Everything goes to quarantine and the log goes on at `at`, beyond its end: what lies between is held by others
 * and not by this log. The new segment is there first: a crash in between finds the old log with a gap behind it.
 */
export async function restartLog(
  { state, committer, checkpoint, snapshots }: TruncationParts,
  at: Offset,
): Promise<void> {
  assert(at > state.logEnd, `a restart at ${String(at)}, the log ends at ${String(state.logEnd)}`);
  await committer.hold();
  await checkpoint.settle();
  const old = state.segments.slice();
  await state.untilThereIsRoom('creating a segment failed', () => startActive(state, at));
  state.segments.splice(0, old.length);
  state.restartAt(at);
  await checkpoint.recordTwice(at, { baseOffset: at, size: 0 });
  await snapshots.truncate(offset(0));
  for (const segment of old) await moveAway(state, segment);
  committer.truncated();
}

interface CutPlace {
  /** Damage reaches up to the cut: the next batch cannot follow in the same file. */
  readonly gap: boolean;
  readonly position: number;
  readonly offset: Offset;
  readonly facts: SegmentFacts;
  readonly index: SegmentIndex;
}

/** Walks the segment from its start: what stays gets its facts and indexes anew. Damage below the cut stays where it is. */
async function findCut(state: LogState, segment: Segment, to: Offset): Promise<CutPlace> {
  const facts = emptyFacts();
  const index = new SegmentIndex(state.config.indexIntervalBytes);
  const { size } = segment;
  const history = { epochs: [...state.epochs.entries], to: size };
  let crc: number | undefined = 0;
  let cutOffset = -1;
  let resumedAt = -1;
  const visit = ({ header, position: at, bytes }: WalkedBatch): boolean => {
    if (header.lastOffset >= to) {
      cutOffset = header.baseOffset;
      return false;
    }
    index.note(header.baseOffset - segment.baseOffset, at, facts.maxTimestamp, at === resumedAt);
    noteFacts(facts, header);
    if (crc !== undefined) crc = state.deps.crc32c(bytes, crc);
    facts.size = at + bytes.length;
    return true;
  };
  const cut = await withFile(state, segment, async (file): Promise<CutPlace> => {
    let from: WalkFrom = { ...history, position: 0, offset: segment.baseOffset, epochAtLeast: -1 };
    for (;;) {
      const stop = await walkFile(file, state.deps.clock, state.deps.crc32c, from, visit);
      facts.crc = crc;
      if (cutOffset >= 0) return { gap: false, position: facts.size, offset: offset(cutOffset), facts, index };
      if (stop.offset >= to) return { gap: false, position: facts.size, offset: stop.offset, facts, index };
      crc = undefined;
      const resync = await recordDamage(state, segment, file, size, stop);
      if (resync === undefined || resync.offset > to) {
        facts.crc = undefined;
        return { gap: true, position: facts.size, offset: to, facts, index };
      }
      // The bad bytes stay with the good ones behind them.
      facts.size = resync.position;
      resumedAt = resync.position;
      from = { ...history, position: resync.position, offset: resync.offset, epochAtLeast: stop.epoch };
    }
  });
  assert(cut !== undefined, 'a segment is not removed while it is being cut');
  return cut;
}

function noteFacts(facts: SegmentFacts, header: BatchHeader): void {
  if (facts.recordCount === 0) {
    facts.firstTimestamp = header.baseTimestamp;
    facts.firstEpoch = header.leaderEpoch;
  }
  facts.batchCount += 1;
  facts.recordCount += header.recordCount;
  facts.lastEpoch = header.leaderEpoch;
  facts.maxTimestamp = Math.max(facts.maxTimestamp, header.maxTimestamp);
}

async function moveAway(state: LogState, segment: Segment): Promise<void> {
  segment.removed = true;
  state.cache.forget(segment);
  segment.retireMapping();
  await state.untilThereIsRoom('moving a segment to quarantine failed', async () => {
    const bytes = segment.facts?.size ?? 0;
    await segment.close();
    if (bytes === 0 && segment.facts !== undefined) await unlinkIfThere(state.deps.disk, segment.path);
    else await quarantineMove(state.deps, segment.path, 'truncated', bytes);
    for (const suffix of ['index', 'timeindex', 'seal'] as const)
      await unlinkIfThere(state.deps.disk, sidePath(state, segment, suffix));
    await state.deps.disk.syncDirectory(state.directory);
  });
}

/** What is going to be cut is copied to quarantine. */
async function keepTail(state: LogState, segment: Segment, cut: CutPlace): Promise<void> {
  const { size } = segment;
  if (size <= cut.position) return;
  await withFile(state, segment, (file) =>
    quarantineBytes(state.deps, file, cut.position, size, `truncated to offset ${String(cut.offset)}`),
  );
  state.metrics.quarantinedBytes.add(size - cut.position);
}

async function clearTail(state: LogState, segment: Segment, cut: CutPlace): Promise<void> {
  const { size } = segment;
  // What follows a gap goes into a file of its own.
  if (cut.gap) segment.sealed = true;
  const wasSealed = segment.sealed;
  if (size > cut.position) {
    await state.untilThereIsRoom('truncating a segment failed', async () => {
      const file = await state.deps.disk.open(segment.path, 'write');
      try {
        // Cleared and not cut off: somebody may still hold a slice of the mapping.
        await file.writeZeros(position(cut.position), size - cut.position);
        await clearSyncMarks(segment, file);
        await file.sync();
      } finally {
        await file.close();
      }
    });
  }
  segment.mapped?.verified.cut(cut.position);
  if (segment.synced.offset > cut.offset) segment.synced = { offset: cut.offset, position: cut.position };
  segment.nextOffset = cut.offset;
  segment.facts = { ...cut.facts, rolledMs: wasSealed ? state.deps.clock.wallMs() : -1 };
  segment.index = cut.index;
  segment.appendedFrom = Math.min(segment.appendedFrom, cut.position);
  segment.resyncs.splice(
    0,
    segment.resyncs.length,
    ...segment.resyncs.filter((resync) => resync.position < cut.position),
  );
  for (const suffix of ['index', 'timeindex', 'seal'] as const) {
    await state.health.guard('removing an index failed', () =>
      unlinkIfThere(state.deps.disk, sidePath(state, segment, suffix)),
    );
  }
  // A seal that came back after a power cut would speak for batches that are not the same any more.
  await state.health.guard('directory fsync failed', () => state.deps.disk.syncDirectory(state.directory));
  if (!wasSealed) {
    segment.padded = true;
    return;
  }
  if (cut.position > 0 || cut.gap) {
    await state.untilThereIsRoom('creating a segment failed', () => startActive(state, cut.offset));
    return;
  }
  // Nothing of it stays: it is active again, under the same name.
  state.cache.forget(segment);
  segment.retireMapping();
  segment.sealed = false;
  segment.padded = true;
  if (segment.marks === undefined) segment.capacity = Math.max(state.config.segmentBytes, size);
  if (segment.file === undefined)
    await state.untilThereIsRoom('opening a segment failed', () => segment.open(state.deps.disk));
}
