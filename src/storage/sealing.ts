// What a rolled segment gets: its real size, its index files, its seal. All of it is derived from the log.
import { position } from '../base/brands.ts';
import { encodeSeal } from '../format/seal.ts';
import { segmentFileName, type SegmentSuffix } from '../format/segment.ts';
import type { DiskFile } from '../ports/disk.ts';
import { isNotFound, isPressure } from './health.ts';
import type { LogState } from './log-state.ts';
import type { Segment } from './segment.ts';
import { writeSmallFile } from './small-file.ts';

const PIECE_BYTES = 1024 * 1024;

/** Called after the last fdatasync of the segment. Safe to repeat. */
export async function sealSegment(state: LogState, segment: Segment): Promise<void> {
  if (segment.removed || !segment.sealed || segment.facts === undefined) return;
  // No seal may call damaged bytes good: without one the segment is walked again after the next start.
  if (!state.damagedIn(segment.baseOffset, segment.nextOffset))
    segment.facts.crc ??= await withFile(state, segment, (file) => fileCrc(state, file, segment.size));
  await state.exclusive(async () => {
    if (segment.removed || !segment.sealed || state.health.failed) return;
    const { file } = segment;
    if (file !== undefined && segment.padded) {
      // Nobody touches the pages behind the data, whatever the mapping covers.
      await state.health.guard('cutting a sealed segment to its size failed', async () => {
        await file.truncate(segment.size);
        await file.sync();
      });
      segment.padded = false;
      segment.marks = undefined;
    }
    await writeDerivedFiles(state, segment);
    await state.health.guard('closing a segment failed', () => segment.close());
    // Nobody reads it now: whoever does next maps the files.
    if (segment.mapped === undefined) segment.index = undefined;
  });
}

/** Left out when the disk is full: they are rebuilt when they are missed. */
export function writeDerivedFiles(state: LogState, segment: Segment): Promise<void> {
  const run = segment.deriving.then(() => writeDerivedOnce(state, segment));
  segment.deriving = run.catch(() => undefined);
  return run;
}

async function writeDerivedOnce(state: LogState, segment: Segment): Promise<void> {
  const { facts, index } = segment;
  if (facts === undefined) return;
  const { crc } = facts;
  const { disk, crc32c } = state.deps;
  const epochs = state.epochs.entries.filter(
    (entry) => entry.startOffset >= segment.baseOffset && entry.startOffset < segment.nextOffset,
  );
  try {
    await state.health.guardSpace('writing an index failed', async () => {
      // A mapped one is in its files already.
      if (index !== undefined && !index.isMapped) {
        await writeSmallFile(disk, sidePath(state, segment, 'index'), index.offsetBytes);
        await writeSmallFile(disk, sidePath(state, segment, 'timeindex'), index.timeBytes);
      }
      if (crc === undefined || !segment.sealed || state.damagedIn(segment.baseOffset, segment.nextOffset)) return;
      const seal = encodeSeal(
        { baseOffset: segment.baseOffset, nextOffset: segment.nextOffset, facts: { ...facts, crc }, epochs },
        crc32c,
      );
      await writeSmallFile(disk, sidePath(state, segment, 'seal'), seal);
    });
  } catch (error) {
    if (!isPressure(error)) throw error;
    state.deps.telemetry.log('warn', 'log.index-not-written', {
      directory: state.directory,
      baseOffset: segment.baseOffset,
    });
  }
}

export function sidePath(state: LogState, segment: Segment, suffix: SegmentSuffix): string {
  return `${state.directory}/${segmentFileName(segment.baseOffset, suffix)}`;
}

/**
 * For reading, with a handle of its own: whoever walks a file is not disturbed by the one who closes the segment's. Undefined:
 * the segment was removed meanwhile. Pressure is thrown on.
 */
export async function openSegment(state: LogState, segment: Segment): Promise<DiskFile | undefined> {
  try {
    return await state.health.guardMissing('opening a segment failed', () =>
      state.deps.disk.open(segment.path, 'read'),
    );
  } catch (error) {
    if (!isNotFound(error)) throw error;
    if (segment.removed) return undefined;
    return state.health.fail('opening a segment failed', error, { directory: state.directory });
  }
}

/** Undefined: the segment was removed meanwhile. Pressure is thrown on. */
export async function withFile<Result>(
  state: LogState,
  segment: Segment,
  use: (file: DiskFile) => Promise<Result>,
): Promise<Result | undefined> {
  const file = await openSegment(state, segment);
  if (file === undefined) return undefined;
  try {
    return await state.health.guardSpace('reading a segment failed', () => use(file));
  } finally {
    await state.health.guard('closing a segment failed', () => file.close());
  }
}

async function fileCrc(state: LogState, file: DiskFile, bytes: number): Promise<number> {
  const buffer = new Uint8Array(Math.min(PIECE_BYTES, Math.max(1, bytes)));
  let crc = 0;
  for (let at = 0; at < bytes;) {
    const got = await file.read(buffer.subarray(0, Math.min(buffer.length, bytes - at)), position(at));
    if (got === 0) break;
    crc = state.deps.crc32c(buffer.subarray(0, got), crc);
    at += got;
    await state.deps.clock.yieldNow();
  }
  return crc;
}
