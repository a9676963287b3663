// Sync marks: two slots of 4096 bytes behind the data of an active segment, in the same file, written in turn. One is written
// before each fdatasync of the segment, which makes it durable for nothing, and says what earlier ones have made durable. So
// after a crash all that was synced is known, but for the last group commit that was finished. The checkpoint, which has a
// file of its own and is synced about once a second, cannot say that without a second flush per group commit.
//
//   magic u32 "RVSM" · version u16 = 1 · flags u16 = 0 · sequence i64 · segment base i64 · synced offset i64
//   synced position u32 · zeros · CRC32C u32 of all before it, in the last four bytes
//
// Never a batch: the byte where a batch has its magic 2 is the highest one of an offset, which is 0.
import { offset, type Offset } from '../base/brands.ts';
import { ByteWriter, type ByteReader } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { need, seal32, type Decoded } from './decoded.ts';
import { decodeSlot, newestSlot, SLOT_BYTES, type LoadedSlot } from './slots.ts';

/** Both slots. They are the end of the file, and begin at a multiple of the slot size. */
export const SYNC_MARKS_BYTES: number = 2 * SLOT_BYTES;
export const SYNC_MARK_BYTES: number = SLOT_BYTES;
const MAGIC = 0x5256_534d;
const VERSION = 1;
const HEAD_BYTES: number = 4 + 2 + 2 + 8 + 8 + 8 + 4;

export interface SyncMark {
  /** Drawn from the same count as the checkpoint's: the younger one of the two is right. */
  readonly sequence: number;
  /** Of the segment it stands in: what a recycled file still holds names another one. */
  readonly segmentBase: Offset;
  /** Everything below was synced before this was written. At least the segment's base. */
  readonly syncedOffset: Offset;
  /** Where that lies in this segment. */
  readonly syncedPosition: number;
}

/** Where the marks of a segment stand that may hold so many bytes of batches. */
export function syncMarksAt(capacity: number): number {
  return Math.ceil(capacity / SLOT_BYTES) * SLOT_BYTES;
}

export function encodeSyncMark(mark: SyncMark, crc32c: Crc32c): Uint8Array<ArrayBuffer> {
  const writer = new ByteWriter(HEAD_BYTES)
    .u32(MAGIC)
    .u16(VERSION)
    .u16(0)
    .i64(mark.sequence)
    .i64(mark.segmentBase)
    .i64(mark.syncedOffset)
    .u32(mark.syncedPosition);
  const slot = new Uint8Array(SLOT_BYTES);
  slot.set(writer.finish());
  seal32(slot, crc32c);
  return slot;
}

export function decodeSyncMark(slot: Uint8Array, crc32c: Crc32c): Decoded<SyncMark> {
  return decodeSlot(slot, crc32c, readSyncMark);
}

/** Of the last bytes of a segment file, the younger mark that is intact and of that segment. */
export function newestSyncMark(
  slots: Uint8Array,
  segmentBase: Offset,
  crc32c: Crc32c,
): LoadedSlot<SyncMark> | undefined {
  return newestSlot(slots, (slot) => {
    const decoded = decodeSyncMark(slot, crc32c);
    return decoded.ok && decoded.value.segmentBase !== segmentBase
      ? { ok: false, reason: 'of an earlier life of the file' }
      : decoded;
  });
}

function readSyncMark(reader: ByteReader): SyncMark {
  need(reader.u32() === MAGIC, 'not a sync mark', 0);
  need(reader.u16() === VERSION, 'a sync mark of another version', 4);
  need(reader.u16() === 0, 'flags of a sync mark', 6);
  const sequence = reader.i64();
  const segmentBase = reader.i64();
  const syncedOffset = reader.i64();
  const syncedPosition = reader.u32();
  need(sequence >= 0 && segmentBase >= 0 && syncedOffset >= segmentBase, 'a sync mark below its segment', 8);
  return { sequence, segmentBase: offset(segmentBase), syncedOffset: offset(syncedOffset), syncedPosition };
}
