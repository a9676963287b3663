// A sealed segment is opened when somebody first wants it: its seal says what it holds, its index files where. Whatever is
// missing or wrong there is rebuilt from the log, with every batch checked.
import { OFFSET_ENTRY_BYTES, offsetEntriesFit } from '../format/offset-index.ts';
import { decodeSeal, SEAL_BYTES_MAX, type Seal } from '../format/seal.ts';
import { timeEntriesFit } from '../format/time-index.ts';
import { DiskError, type Disk, type DiskFile } from '../ports/disk.ts';
import { recordDamage } from './damage.ts';
import { walkFile, type WalkedBatch, type WalkFrom } from './file-walk.ts';
import { isPressure } from './health.ts';
import type { LogState } from './log-state.ts';
import { MappedIndex } from './mapped-index.ts';
import { openSegment, sidePath, withFile, writeDerivedFiles } from './sealing.ts';
import { emptyFacts, type Segment, type SegmentMapping } from './segment.ts';
import { SegmentIndex } from './segment-index.ts';
import { readSmallFile } from './small-file.ts';

/** Size, timestamps and epochs of a segment, from its seal where that is intact. */
export async function loadFacts(state: LogState, segment: Segment): Promise<void> {
  if (segment.facts !== undefined) return;
  const seal = await readSeal(state, segment);
  // Read meanwhile by somebody else, or removed.
  // oxlint-disable-next-line typescript/no-unnecessary-condition -- changed by others while this waited
  if (segment.facts !== undefined || segment.removed) return;
  if (seal === undefined) await rebuildSegment(state, segment);
  else segment.facts = seal.facts;
}

export async function readSeal(state: LogState, segment: Segment): Promise<Seal | undefined> {
  const { deps, health } = state;
  const bytes = await health.guardSpace('reading a seal failed', () =>
    readDerived(deps.disk, sidePath(state, segment, 'seal'), SEAL_BYTES_MAX),
  );
  const decoded = bytes === undefined ? undefined : decodeSeal(bytes, deps.crc32c);
  const seal = decoded?.ok === true ? decoded.value : undefined;
  if (seal === undefined || seal.baseOffset !== segment.baseOffset || seal.nextOffset !== segment.nextOffset)
    return undefined;
  const file = await openSegment(state, segment);
  if (file === undefined) return undefined;
  try {
    const size = await health.guard('looking at a segment failed', () => file.size());
    return size >= seal.facts.size ? seal : undefined;
  } finally {
    await health.guard('closing a segment failed', () => file.close());
  }
}

/** Undefined also when it cannot be read: an unreadable sector of what the log can tell again is no reason to end. */
async function readDerived(disk: Disk, path: string, bytesMax: number): Promise<Uint8Array | undefined> {
  try {
    return await readSmallFile(disk, path, bytesMax);
  } catch (error) {
    if (error instanceof DiskError && error.kind === 'io') return undefined;
    throw error;
  }
}

/** Facts, index and mapping are there when it resolves, unless the segment was removed meanwhile. */
export async function loadForReading(state: LogState, segment: Segment): Promise<void> {
  await loadFacts(state, segment);
  if (segment.removed) return;
  // Nothing of it is left: its whole range has been recorded as damaged, and an empty file cannot be mapped.
  if (segment.sealed && segment.size === 0) return;
  // One whose pages have gone is mapped anew, which brings them in again.
  if (segment.index?.resident !== true) {
    segment.index = undefined;
    await loadIndex(state, segment);
  }
  // oxlint-disable-next-line typescript/no-unnecessary-condition -- changed by others while this waited
  if (segment.removed) {
    segment.index = undefined;
    return;
  }
  if (segment.mapped === undefined) {
    if (segment.file === undefined) await mapSealed(state, segment);
    else mapSegment(state, segment);
  }
  if (segment.sealed && segment.mapped !== undefined) state.cache.touch(segment);
}

async function mapSealed(state: LogState, segment: Segment): Promise<void> {
  const file = await openSegment(state, segment);
  if (file === undefined) return;
  try {
    if (!segment.removed) mapSegment(state, segment, file);
  } finally {
    await state.health.guard('closing a segment failed', () => file.close());
  }
}

/** Pressure, which is too many mappings, is thrown on. */
export function mapSegment(state: LogState, segment: Segment, reading?: DiskFile): SegmentMapping {
  try {
    return segment.map(reading);
  } catch (error) {
    if (!(error instanceof DiskError) || isPressure(error)) throw error;
    return state.health.fail('mapping a segment failed', error, { directory: state.directory });
  }
}

async function loadIndex(state: LogState, segment: Segment): Promise<void> {
  if (!(await mapIndexFiles(state, segment)) && !segment.removed) await rebuildSegment(state, segment);
}

async function mapIndexFiles(state: LogState, segment: Segment): Promise<boolean> {
  if (!segment.sealed) return await loadIndexFiles(state, segment, segment.size);
  const bytesMax = segment.size + OFFSET_ENTRY_BYTES;
  const mapped = await state.health.guardSpace('mapping an index failed', () =>
    MappedIndex.open(
      state.deps.disk,
      [sidePath(state, segment, 'index'), sidePath(state, segment, 'timeindex')],
      [bytesMax, bytesMax * 2],
    ),
  );
  if (mapped === undefined) return false;
  // Loaded by somebody else meanwhile.
  const isWanted = segment.index === undefined && !segment.removed;
  if (isWanted && indexesFit(segment, segment.size, mapped.offsets, mapped.times)) {
    segment.index = SegmentIndex.over(state.config.indexIntervalBytes, mapped);
    return true;
  }
  mapped.release();
  return !isWanted;
}

/** False: a file is missing, or does not fit a segment of that many bytes. */
export async function loadIndexFiles(state: LogState, segment: Segment, size: number): Promise<boolean> {
  const { deps, health } = state;
  const bytesMax = size + OFFSET_ENTRY_BYTES;
  const [offsets, times] = await health.guardSpace('reading an index failed', async () => [
    await readDerived(deps.disk, sidePath(state, segment, 'index'), bytesMax),
    await readDerived(deps.disk, sidePath(state, segment, 'timeindex'), bytesMax * 2),
  ]);
  if (segment.index !== undefined) return true;
  if (offsets !== undefined && times !== undefined && indexesFit(segment, size, offsets, times)) {
    segment.index = new SegmentIndex(state.config.indexIntervalBytes, offsets, times);
    return true;
  }
  return false;
}

function indexesFit(segment: Segment, size: number, offsets: Uint8Array, times: Uint8Array): boolean {
  const offsetCount = segment.nextOffset - segment.baseOffset;
  return offsetEntriesFit(offsets, size, offsetCount) && timeEntriesFit(times, offsetCount);
}

/** Walks the whole segment: facts, indexes and seal come anew from it, and damage that is met is recorded. */
export function rebuildSegment(
  state: LogState,
  segment: Segment,
  how: { readonly keepSeal: boolean } = { keepSeal: false },
): Promise<void> {
  segment.rebuilding ??= rebuildOnce(state, segment, how.keepSeal).finally(() => {
    segment.rebuilding = undefined;
  });
  return segment.rebuilding;
}

async function rebuildOnce(state: LogState, segment: Segment, keepSeal: boolean): Promise<void> {
  state.metrics.indexRebuilds.add(1);
  state.deps.telemetry.log('info', 'log.index-rebuilt', { directory: state.directory, baseOffset: segment.baseOffset });
  const intact = await withFile(state, segment, (file) => walkSegment(state, segment, file));
  if (segment.removed || intact === undefined) return;
  // The checksum of a damaged segment is left open: no seal may call its bytes good.
  if (segment.sealed && !(intact && keepSeal)) await writeDerivedFiles(state, segment);
}

/** True: every batch is good. */
async function walkSegment(state: LogState, segment: Segment, file: DiskFile): Promise<boolean> {
  const { clock, crc32c } = state.deps;
  const facts = emptyFacts();
  const index = new SegmentIndex(state.config.indexIntervalBytes);
  const fileSize = await file.size();
  // An index that is there is believed for one thing only: where to look for good batches behind a bad one.
  if (segment.index === undefined) await loadIndexFiles(state, segment, fileSize);
  let crc = 0;
  let intact = true;
  // A changed epoch in a header is found by nothing else.
  const history = { epochs: [...state.epochs.entries], epochsUpTo: state.logEnd, to: fileSize };
  let from: WalkFrom = { ...history, position: 0, offset: segment.baseOffset, epochAtLeast: -1 };
  const visit = ({ header, position: at, bytes }: WalkedBatch): boolean => {
    index.note(header.baseOffset - segment.baseOffset, at, facts.maxTimestamp, !intact && at === from.position);
    if (facts.recordCount === 0) {
      facts.firstTimestamp = header.baseTimestamp;
      facts.firstEpoch = header.leaderEpoch;
    }
    facts.batchCount += 1;
    facts.recordCount += header.recordCount;
    facts.lastEpoch = header.leaderEpoch;
    facts.maxTimestamp = Math.max(facts.maxTimestamp, header.maxTimestamp);
    crc = crc32c(bytes, crc);
    return header.lastOffset + 1 < segment.nextOffset;
  };
  for (;;) {
    const stop = await walkFile(file, clock, crc32c, from, visit);
    facts.size = stop.position;
    if (stop.offset >= segment.nextOffset) break;
    intact = false;
    const resync = await recordDamage(state, segment, file, fileSize, stop);
    if (resync === undefined) {
      facts.size = fileSize;
      break;
    }
    from = { ...history, position: resync.position, offset: resync.offset, epochAtLeast: stop.epoch };
  }
  facts.crc = intact ? crc : undefined;
  facts.rolledMs = segment.facts?.rolledMs ?? state.deps.clock.wallMs();
  if (!segment.sealed) facts.rolledMs = -1;
  // Bytes were put in, and what its seal had said was mapped: what lies behind is to be mapped, too.
  if (segment.sealed && segment.mapped !== undefined && facts.size > segment.mapped.mapping.bytes)
    segment.retireMapping();
  segment.facts = facts;
  segment.index = index;
  return intact;
}
