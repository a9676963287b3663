// What a log has synced: the checkpoint says it, and after an unclean stop the sync marks of the segments, where they are
// younger. The same rule as the broker's recovery, read without a change to anything.
import { offset, position } from '../base/brands.ts';
import type { Checkpoint } from '../format/checkpoint.ts';
import { newestSyncMark, SYNC_MARK_BYTES, SYNC_MARKS_BYTES, type SyncMark } from '../format/sync-mark.ts';
import { sideName } from './log-files.ts';
import { within, type ToolDeps } from './tool.ts';

export interface SegmentMarks {
  /** Where they begin: nothing at or above is a batch. */
  readonly at: number;
  readonly mark: SyncMark;
}

export interface SyncedPoint {
  /** Everything below was synced; undefined: neither checkpoint nor marks say anything. */
  readonly offset: number | undefined;
  /** A mark is younger than the checkpoint: the log was written to after it. */
  readonly isByMark: boolean;
  /** No mark that was found has a higher one. */
  readonly sequence: number;
  /** By base offset of the segment. */
  readonly marks: ReadonlyMap<number, SegmentMarks>;
}

export async function findSyncedPoint(
  deps: ToolDeps,
  directory: string,
  bases: readonly number[],
  checkpoint: Checkpoint | undefined,
): Promise<SyncedPoint> {
  const first = firstUnsettled(bases, checkpoint);
  const marks = new Map<number, SegmentMarks>();
  let synced: number | undefined = checkpoint?.recoveryPoint;
  let sequence = checkpoint?.sequence ?? 0;
  let isByMark = false;
  for (const base of bases.slice(first)) {
    const dataEnd = base === checkpoint?.segmentBase ? checkpoint.segmentPosition : 0;
    const found = await readMarks(deps, within(directory, sideName(base, 'log')), base, dataEnd);
    if (found === undefined) continue;
    marks.set(base, found);
    sequence = Math.max(sequence, found.mark.sequence);
    // An older one is contained in the checkpoint, or was taken back by a truncation.
    if (found.mark.sequence <= (checkpoint?.sequence ?? 0)) continue;
    isByMark = true;
    synced = Math.max(synced ?? 0, found.mark.syncedOffset);
  }
  return { offset: synced, isByMark, sequence, marks };
}

/** Of the bases, the index of the first segment that the checkpoint does not say everything of. */
function firstUnsettled(bases: readonly number[], checkpoint: Checkpoint | undefined): number {
  if (checkpoint === undefined) return Math.max(0, bases.length - 1);
  const named = bases.indexOf(checkpoint.segmentBase);
  return Math.max(0, named >= 0 ? named : bases.findLastIndex((base) => base <= checkpoint.recoveryPoint));
}

async function readMarks(
  deps: ToolDeps,
  path: string,
  base: number,
  dataEnd: number,
): Promise<SegmentMarks | undefined> {
  const file = await deps.disk.open(path, 'read');
  try {
    const at = (await file.size()) - SYNC_MARKS_BYTES;
    if (at < dataEnd || at % SYNC_MARK_BYTES !== 0) return undefined;
    const bytes = new Uint8Array(SYNC_MARKS_BYTES);
    const got = await file.read(bytes, position(at));
    const mark = newestSyncMark(bytes.subarray(0, got), offset(base), deps.crc32c)?.value;
    return mark === undefined || mark.syncedPosition > at ? undefined : { at, mark };
  } finally {
    await file.close();
  }
}
