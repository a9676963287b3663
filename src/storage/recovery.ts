// Opening a log. After a clean stop the checkpoint is the truth and no segment is read. Otherwise everything from the
// recovery point on is walked: a torn tail goes to quarantine, damage below the recovery point is recorded and never cut.
import { assert } from '../base/assert.ts';
import { leaderEpoch, offset, position, type Offset } from '../base/brands.ts';
import type { Checkpoint } from '../format/checkpoint.ts';
import type { EpochEntry } from '../format/epochs.ts';
import { decideRecovery } from '../format/recovery.ts';
import { segmentFileName } from '../format/segment.ts';
import { SYNC_MARKS_BYTES, syncMarksAt } from '../format/sync-mark.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { LoadedCheckpoint } from './checkpoint-file.ts';
import { EpochHistory } from './epoch-history.ts';
import { walkFile, type WalkStop } from './file-walk.ts';
import type { LogState } from './log-state.ts';
import { quarantineBytes, quarantineMove } from './quarantine.ts';
import { findResync, type Resync } from './resync.ts';
import { loadIndexFiles, readSeal, rebuildSegment } from './segment-loader.ts';
import { withFile } from './sealing.ts';
import { emptyFacts, Segment } from './segment.ts';
import { SegmentIndex } from './segment-index.ts';
import { readSyncMarks } from './sync-marks.ts';
import { CONTINUATION_MAX, findContinuation, isTornBatch, nonZeroEnd } from './tail-scan.ts';
import type { RecoveryReport } from './contract.ts';

export interface Recovered {
  readonly report: Omit<RecoveryReport, 'damaged'>;
  /** Sealed segments whose indexes and seal are to be made anew. */
  readonly unsealed: readonly Segment[];
}

interface Findings {
  bytesScanned: number;
  bytesQuarantined: number;
  cutReason: string | undefined;
  tailHole: boolean;
  /** Damage was found that the checkpoint does not tell from a tail. */
  marksNeeded: boolean;
}

/** Fills `state` with the segments that are there; the last one is active and open when it resolves. */
export async function recoverLog(
  state: LogState,
  bases: readonly Offset[],
  loaded: LoadedCheckpoint,
  clean: boolean,
): Promise<Recovered> {
  const checkpoint = loaded.kind === 'ok' ? loaded.checkpoint : undefined;
  for (const [index, base] of bases.entries()) {
    const segment = new Segment(base, segmentPath(state, base), bases[index + 1] ?? base, state.config.segmentBytes);
    segment.sealed = index < bases.length - 1;
    state.segments.push(segment);
  }
  const found: Findings = {
    bytesScanned: 0,
    bytesQuarantined: 0,
    cutReason: undefined,
    tailHole: false,
    marksNeeded: false,
  };
  const report = (kind: RecoveryReport['kind'], recoveryPoint: Offset): Omit<RecoveryReport, 'damaged'> => ({
    kind,
    recoveryPoint,
    bytesScanned: found.bytesScanned,
    bytesQuarantined: found.bytesQuarantined,
    cutReason: found.cutReason,
    tailHole: found.tailHole,
    checkpointLost: loaded.kind === 'lost',
  });
  const last = state.segments.at(-1);
  if (last === undefined) {
    const start = checkpoint?.logStart ?? offset(0);
    // The head may have been removed up to an offset that no sync had reached.
    const end = offset(Math.max(checkpoint?.recoveryPoint ?? 0, start));
    state.restore({ logStart: start, logEnd: end, synced: end }, checkpoint?.epochs ?? []);
    state.addDamage(start, end, 'the segment files are gone');
    await startActive(state, end);
    return { report: report(checkpoint === undefined ? 'created' : 'tail', end), unsealed: [] };
  }
  if (clean && checkpoint !== undefined && (await openClean(state, last, checkpoint))) {
    return { report: report('clean', checkpoint.recoveryPoint), unsealed: [] };
  }
  const unsealed = await recoverTail(state, checkpoint, found);
  state.metrics.recoveries.add(1);
  state.metrics.quarantinedBytes.add(found.bytesQuarantined);
  return { report: report('tail', checkpoint?.recoveryPoint ?? last.baseOffset), unsealed };
}

function segmentPath(state: LogState, base: Offset): string {
  return `${state.directory}/${segmentFileName(base, 'log')}`;
}

/** False: the files are not what the checkpoint says; they have to be walked. */
async function openClean(state: LogState, last: Segment, checkpoint: Checkpoint): Promise<boolean> {
  const { active } = checkpoint;
  const first = state.segments[0];
  if (!checkpoint.clean || active === undefined || checkpoint.segmentBase !== last.baseOffset) return false;
  if (first === undefined || first.baseOffset > checkpoint.logStart) return false;
  const file = await state.health.guard('opening a segment failed', () => last.open(state.deps.disk));
  const size = await state.health.guard('looking at a segment failed', () => file.size());
  if (size < active.size) return false;
  last.nextOffset = checkpoint.recoveryPoint;
  last.facts = { ...active, rolledMs: -1 };
  last.padded = size > active.size;
  last.capacity = Math.max(state.config.segmentBytes, active.size);
  last.synced = { offset: checkpoint.recoveryPoint, position: active.size };
  last.marks = marksByShape(size, active.size);
  if (last.marks !== undefined) last.capacity = Math.min(last.capacity, last.marks.at);
  last.appendedFrom = active.size;
  state.restore(
    { logStart: checkpoint.logStart, logEnd: checkpoint.recoveryPoint, synced: checkpoint.recoveryPoint },
    await epochsOf(state, checkpoint),
  );
  state.highWatermark = checkpoint.highWatermark;
  if (active.size === 0) last.index = new SegmentIndex(state.config.indexIntervalBytes);
  else if (!(await loadIndexFiles(state, last, active.size))) await rebuildSegment(state, last);
  return true;
}

/** Room for sync marks at the end of a prepared file; which of them is written first does not matter after a clean stop. */
function marksByShape(fileBytes: number, dataEnd: number): Segment['marks'] {
  const at = fileBytes - SYNC_MARKS_BYTES;
  return at > 0 && at >= dataEnd && at === syncMarksAt(at) ? { at, slot: 0 } : undefined;
}

/** The younger one of checkpoint and sync marks says what was synced. An older mark is contained in the checkpoint, or was taken back by a truncation. */
async function findSyncedPoint(state: LogState, start: WalkStart, checkpoint: Checkpoint | undefined): Promise<Offset> {
  let synced = checkpoint?.recoveryPoint ?? start.offset;
  const sequence = checkpoint?.sequence ?? 0;
  for (const [index, segment] of state.segments.entries()) {
    if (index < start.index && checkpoint !== undefined) continue;
    const dataEnd = index === start.index ? start.position : 0;
    const found = await withFile(state, segment, (file) =>
      readSyncMarks(state.deps, file, segment.baseOffset, dataEnd),
    );
    if (found === undefined) continue;
    segment.marks = { at: found.at, slot: 0 };
    state.sequence = Math.max(state.sequence, found.mark.sequence);
    if (index >= start.index && found.mark.sequence > sequence)
      synced = offset(Math.max(synced, found.mark.syncedOffset));
  }
  return synced;
}

async function recoverTail(state: LogState, checkpoint: Checkpoint | undefined, found: Findings): Promise<Segment[]> {
  const epochs = await epochsOf(state, checkpoint);
  const firstBase = state.segments[0]?.baseOffset ?? offset(0);
  const logStart = checkpoint?.logStart ?? firstBase;
  const start = whereToWalk(state, checkpoint);
  state.restore(
    { logStart, logEnd: offset(Math.max(start.offset, logStart)), synced: offset(Math.max(start.offset, logStart)) },
    epochs,
  );
  if (checkpoint !== undefined) state.highWatermark = checkpoint.highWatermark;
  state.addDamage(
    logStart,
    offset(Math.min(firstBase, Math.max(start.offset, logStart))),
    'the first segment files are gone',
  );
  const recoveryPoint = checkpoint?.recoveryPoint ?? start.offset;
  const syncedPoint = await findSyncedPoint(state, start, checkpoint);
  const walked = await walkTail(state, start, { recoveryPoint, syncedPoint }, found);
  await finishTail(state, syncedPoint, logStart);
  return walked;
}

interface KnownPoints {
  /** Of the checkpoint: the epoch history is whole up to there. */
  readonly recoveryPoint: Offset;
  /** Everything below was synced, says the checkpoint or a sync mark. */
  readonly syncedPoint: Offset;
}

interface TailFrom extends KnownPoints {
  readonly position: number;
  readonly offset: Offset;
}

interface WalkStart {
  readonly index: number;
  readonly position: number;
  readonly offset: Offset;
}

/** The recovery point; without one, the start of the last segment: what is sealed is never tail. */
function whereToWalk(state: LogState, checkpoint: Checkpoint | undefined): WalkStart {
  const lastIndex = state.segments.length - 1;
  const last = state.segments[lastIndex];
  assert(last !== undefined, 'there is a segment');
  if (checkpoint === undefined) return { index: lastIndex, position: 0, offset: last.baseOffset };
  const index = state.segments.findIndex((segment) => segment.baseOffset === checkpoint.segmentBase);
  if (index >= 0) return { index, position: checkpoint.segmentPosition, offset: checkpoint.recoveryPoint };
  const below = state.segmentIndexAt(checkpoint.recoveryPoint);
  const segment = state.segments[Math.max(0, below)];
  assert(segment !== undefined, 'there is a segment');
  return { index: Math.max(0, below), position: 0, offset: segment.baseOffset };
}

/** The checkpoint's history, and before it, or without it, what the seals say. */
async function epochsOf(state: LogState, checkpoint: Checkpoint | undefined): Promise<readonly EpochEntry[]> {
  if (checkpoint !== undefined && !checkpoint.epochsCut) return checkpoint.epochs;
  const sealed = await epochsOfSealed(state);
  if (checkpoint === undefined) return sealed;
  const first = checkpoint.epochs[0];
  const older = sealed.filter(
    (entry) => first === undefined || (entry.epoch < first.epoch && entry.startOffset < first.startOffset),
  );
  const history = new EpochHistory([...older, ...checkpoint.epochs]);
  history.retain(checkpoint.logStart);
  return history.entries;
}

async function epochsOfSealed(
  state: LogState,
): Promise<{ epoch: ReturnType<typeof leaderEpoch>; startOffset: Offset }[]> {
  const epochs: { epoch: ReturnType<typeof leaderEpoch>; startOffset: Offset }[] = [];
  const add = (epoch: number, at: number): void => {
    if (epoch > (epochs.at(-1)?.epoch ?? -1)) epochs.push({ epoch: leaderEpoch(epoch), startOffset: offset(at) });
  };
  for (const segment of state.segments.filter((each) => each.sealed)) {
    const seal = await readSeal(state, segment);
    if (seal !== undefined && !seal.epochsCut) {
      if (seal.facts.firstEpoch >= 0) add(seal.facts.firstEpoch, segment.baseOffset);
      for (const entry of seal.epochs) add(entry.epoch, entry.startOffset);
      continue;
    }
    await withFile(state, segment, async (file) => {
      const from = { position: 0, offset: segment.baseOffset, epochAtLeast: -1, to: await file.size() };
      await walkFile(file, state.deps.clock, state.deps.crc32c, from, ({ header }) => {
        add(header.leaderEpoch, header.baseOffset);
        return header.lastOffset + 1 < segment.nextOffset;
      });
    });
  }
  return epochs;
}

/** Walks segment after segment. Returns those that are to be sealed anew. */
async function walkTail(state: LogState, start: WalkStart, known: KnownPoints, found: Findings): Promise<Segment[]> {
  const walked: Segment[] = [];
  let from: TailFrom = { position: start.position, offset: start.offset, ...known };
  for (let index = start.index; index < state.segments.length; index += 1) {
    const segment = state.segments[index];
    assert(segment !== undefined, 'a segment to walk');
    const isLast = index === state.segments.length - 1;
    walked.push(segment);
    const file = await state.health.guard('opening a segment failed', () =>
      state.deps.disk.open(segment.path, 'write'),
    );
    try {
      const end = await walkOne(state, segment, file, from, isLast, found);
      segment.nextOffset = end.offset;
      if (end.cut) await moveLaterAway(state, index, found);
      await state.health.guard('cutting the tail of a segment failed', async () => {
        // What was recovered is durable before anybody reads it, and nothing old is left behind the end. Only where a
        // sync mark alone tells damage from a tail it stays: the power can go once more before a checkpoint says so.
        if (!found.marksNeeded || end.position === 0) await file.truncate(end.position);
        await file.sync();
      });
    } finally {
      await file.close();
    }
    const next = state.segments[index + 1];
    if (next === undefined) break;
    from = { position: 0, offset: next.baseOffset, ...known };
  }
  return walked;
}

interface TailEnd {
  readonly position: number;
  readonly offset: Offset;
  /** Later segments belong to the tail that was cut. */
  readonly cut: boolean;
}

async function walkOne(
  state: LogState,
  segment: Segment,
  file: DiskFile,
  from: TailFrom,
  isLast: boolean,
  found: Findings,
): Promise<TailEnd> {
  const { clock, crc32c } = state.deps;
  const fileBytes = await state.health.guard('looking at a segment failed', () => file.size());
  const size = segment.marks?.at ?? fileBytes;
  segment.marks = undefined;
  const boundary = segment.nextOffset;
  // What the checkpoint knows of epochs is whole up to the recovery point, and only there.
  const history = { epochs: [...state.epochs.entries], epochsUpTo: from.recoveryPoint };
  // Shorter than what was synced: walked from its start, to see what is left.
  let at: Resync = from.position <= size ? from : { position: 0, offset: segment.baseOffset };
  await state.health.guard('reading a segment failed', () => file.dropCache(position(0), fileBytes));
  for (;;) {
    const stop = await state.health.guard('reading a segment failed', () =>
      walkFile(
        file,
        clock,
        crc32c,
        { ...at, ...history, epochAtLeast: state.epochs.epochAt(at.offset) ?? -1, to: size },
        ({ header }) => {
          // What is walked again below the recovery point is in the history already.
          if (header.leaderEpoch > state.epochs.latest)
            state.epochs.begin(leaderEpoch(header.leaderEpoch), offset(header.baseOffset));
          return isLast || header.lastOffset + 1 < boundary;
        },
      ),
    );
    found.bytesScanned += stop.position - at.position;
    if (!isLast && stop.offset >= boundary) return { position: stop.position, offset: boundary, cut: false };
    const next = await decideStop(state, segment, file, { stop, size, from, isLast, boundary }, found);
    if ('end' in next) return next.end;
    at = next.resume;
  }
}

interface Stopped {
  readonly stop: WalkStop;
  readonly size: number;
  readonly from: TailFrom;
  readonly isLast: boolean;
  readonly boundary: Offset;
}

async function decideStop(
  state: LogState,
  segment: Segment,
  file: DiskFile,
  { stop, size, from, isLast, boundary }: Stopped,
  found: Findings,
): Promise<{ readonly end: TailEnd } | { readonly resume: { readonly position: number; readonly offset: Offset } }> {
  const { health, config } = state;
  const kind = isLast ? 'active' : (await readSeal(state, segment)) === undefined ? 'rolled' : 'sealed';
  // Where damage is stepped over, a record that holds bytes of a batch must not be taken for the next one. Of a tail it only
  // matters whether something of this log lies there: all of it goes to quarantine.
  const isDamage = kind === 'sealed' || stop.offset < from.syncedPoint;
  const wish = { position: stop.position, offset: stop.offset, end: size, boundaries: [] };
  const below = isLast ? stop.offset + CONTINUATION_MAX : boundary;
  const continuation =
    stop.kind === 'end'
      ? undefined
      : await health.guard('reading a segment failed', () =>
          isDamage
            ? findResync(state, file, { ...wish, below })
            : findContinuation(state, file, stop.position, size, stop.offset),
        );
  const laterHolds = !isLast && (await laterHoldsBatches(state, segment));
  const decision = decideRecovery({
    segment: kind,
    stopOffset: stop.offset,
    syncedPoint: from.syncedPoint,
    boundary: isLast ? from.syncedPoint : boundary,
    fault: stop.kind === 'end' || stop.kind === 'zeros' ? stop.kind : 'fault',
    continuation: continuation?.offset,
    laterHolds,
    tornHeader: await isTornBatch(file, stop.position, size, stop.offset),
    recycles: config.preallocate === 'recycle',
  });
  if (decision.kind === 'damaged') {
    if (stop.offset >= from.recoveryPoint) found.marksNeeded = true;
    state.addDamage(stop.offset, offset(decision.to), `${segment.path} at ${String(stop.position)}: ${stop.detail}`);
    if (!decision.resumes || continuation === undefined) {
      return { end: { position: size, offset: offset(decision.to), cut: false } };
    }
    segment.resyncs.push(continuation);
    return { resume: continuation };
  }
  if (decision.tailHole) found.tailHole = true;
  const lostEnd = decision.quarantine
    ? await health.guard('reading a segment failed', () => nonZeroEnd(state, file, stop.position, size))
    : stop.position;
  if (lostEnd > stop.position || laterHolds) {
    found.cutReason = stop.detail === '' ? 'a hole' : stop.detail;
    await quarantineTail(state, file, stop, lostEnd, found);
  }
  return { end: { position: stop.position, offset: stop.offset, cut: !isLast } };
}

async function quarantineTail(
  state: LogState,
  file: DiskFile,
  stop: WalkStop,
  end: number,
  found: Findings,
): Promise<void> {
  if (end <= stop.position) return;
  const copy = await state.health.guard('writing to quarantine failed', () =>
    quarantineBytes(state.deps, file, stop.position, end, `torn tail at offset ${String(stop.offset)}: ${stop.detail}`),
  );
  found.bytesQuarantined += end - stop.position;
  state.deps.telemetry.log('warn', 'log.tail-cut', {
    directory: state.directory,
    offset: stop.offset,
    bytes: end - stop.position,
    reason: stop.detail,
    copy,
  });
}

async function laterHoldsBatches(state: LogState, segment: Segment): Promise<boolean> {
  for (const later of state.segments.filter((each) => each.baseOffset > segment.baseOffset)) {
    const holds = await withFile(state, later, async (file) => {
      const from = { position: 0, offset: later.baseOffset, epochAtLeast: -1, to: await file.size() };
      const stop = await walkFile(file, state.deps.clock, state.deps.crc32c, from, () => false);
      return stop.position > 0;
    });
    if (holds === true) return true;
  }
  return false;
}

async function moveLaterAway(state: LogState, index: number, found: Findings): Promise<void> {
  const later = state.segments.splice(index + 1);
  for (const segment of later) {
    const bytes =
      (await withFile(state, segment, async (file) => await nonZeroEnd(state, file, 0, await file.size()))) ?? 0;
    segment.removed = true;
    await state.health.guard('moving a segment to quarantine failed', async () => {
      if (bytes > 0) await quarantineMove(state.deps, segment.path, 'it lies behind a hole in the log', bytes);
      else await state.deps.disk.unlink(segment.path);
      await state.deps.disk.syncDirectory(state.directory);
    });
    found.bytesQuarantined += bytes;
  }
}

/** The last segment is closed as it is, and a new one begins: appends never go into a file that a crash has touched. */
async function finishTail(state: LogState, syncedPoint: Offset, logStart: Offset): Promise<void> {
  const last = state.segments.at(-1);
  assert(last !== undefined, 'there is a segment');
  const end = offset(Math.max(last.nextOffset, syncedPoint, logStart));
  state.addDamage(
    offset(Math.max(last.nextOffset, logStart)),
    offset(Math.max(syncedPoint, last.nextOffset)),
    'records that were synced are not in the files',
  );
  state.restore({ logStart: state.logStart, logEnd: end, synced: end }, state.epochs.entries);
  const size = await withFile(state, last, (file) => file.size());
  if (size === 0 && last.baseOffset === end) {
    last.sealed = false;
    const file = await state.health.guard('opening a segment failed', () => last.open(state.deps.disk));
    assert(file.path === last.path, 'the active segment is open');
    last.facts = emptyFacts();
    last.index = new SegmentIndex(state.config.indexIntervalBytes);
    return;
  }
  last.sealed = true;
  last.nextOffset = end;
  await startActive(state, end);
}

/** Creates an empty segment there. Its name is durable when it resolves. */
export async function startActive(state: LogState, base: Offset): Promise<void> {
  const { disk } = state.deps;
  const path = segmentPath(state, base);
  const segment = new Segment(base, path, base, state.config.segmentBytes);
  segment.file = await state.health.guardSpace('creating a segment failed', () => disk.open(path, 'create'));
  await state.health.guard('directory fsync failed', () => disk.syncDirectory(state.directory));
  segment.facts = emptyFacts();
  segment.index = new SegmentIndex(state.config.indexIntervalBytes);
  state.segments.push(segment);
}
