// The sync marks of an active segment: written before each fdatasync of it, read when the log is opened after a crash. See
// format/sync-mark.ts for what they are for.
import { position, type Offset } from '../base/brands.ts';
import {
  encodeSyncMark,
  newestSyncMark,
  SYNC_MARK_BYTES,
  SYNC_MARKS_BYTES,
  syncMarksAt,
  type SyncMark,
} from '../format/sync-mark.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { StorageDeps } from './config.ts';
import { isPressure } from './health.ts';
import type { LogState } from './log-state.ts';
import type { Segment } from './segment.ts';

/**
 * Says what earlier fdatasyncs have made durable; the one that is about to begin makes it durable in turn. Nobody reads a
 * mark while the log is open, and the slot that is not written now was made durable by the fdatasync before.
 */
export function writeSyncMark(state: LogState, segment: Segment, file: DiskFile): void {
  const { synced } = segment;
  state.sequence += 1;
  const mark = encodeSyncMark(
    {
      sequence: state.sequence,
      segmentBase: segment.baseOffset,
      syncedOffset: synced.offset,
      syncedPosition: synced.position,
    },
    state.deps.crc32c,
  );
  try {
    if (segment.marks === undefined) {
      // Both at once: they are found from the end of the file.
      const bytes = new Uint8Array(SYNC_MARKS_BYTES);
      bytes.set(mark);
      const at = syncMarksAt(segment.capacity);
      file.write(bytes, position(at));
      segment.marks = { at, slot: 1 };
      segment.padded = true;
    } else {
      const { at, slot } = segment.marks;
      file.write(mark, position(at + slot * SYNC_MARK_BYTES));
      segment.marks = { at, slot: 1 - slot };
    }
  } catch (error) {
    // No room: the older mark stays true, and without one the checkpoint says what was synced.
    if (!isPressure(error)) state.health.fail('writing a sync mark failed', error, { directory: state.directory });
  }
}

export interface FoundMarks {
  /** Where they begin: nothing at or above is a batch. */
  readonly at: number;
  readonly mark: SyncMark;
}

/** `dataEnd`: known to be batches up to there, which are no marks whatever they contain. */
export async function readSyncMarks(
  deps: StorageDeps,
  file: DiskFile,
  base: Offset,
  dataEnd: number,
): Promise<FoundMarks | undefined> {
  const at = (await file.size()) - SYNC_MARKS_BYTES;
  if (at < dataEnd || at % SYNC_MARK_BYTES !== 0) return undefined;
  const bytes = new Uint8Array(SYNC_MARKS_BYTES);
  // As the disk has it, not as the page cache remembers it.
  await file.dropCache(position(at), bytes.length);
  const got = await file.read(bytes, position(at));
  const mark = newestSyncMark(bytes.subarray(0, got), base, deps.crc32c)?.value;
  return mark === undefined || mark.syncedPosition > at ? undefined : { at, mark };
}

/** After the tail was cut they would claim too much. Durable with the next sync of the file. */
export async function clearSyncMarks(segment: Segment, file: DiskFile): Promise<void> {
  if (segment.marks !== undefined) await file.writeZeros(position(segment.marks.at), SYNC_MARKS_BYTES);
}
