// What lies behind the first bad batch of a tail: batches that continue the log, or only what the blocks held before.
import { offset, position, type Offset } from '../base/brands.ts';
import { readI64, readU32 } from '../base/bytes.ts';
import { BATCH_BYTES_MAX } from '../base/limits.ts';
import { BATCH_HEADER_BYTES, BATCH_LENGTH_OVERHEAD, checkBatch, type BatchHeader } from '../format/batch.ts';
import { isZero } from '../format/scan.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { LogState } from './log-state.ts';

const PIECE_BYTES = 1024 * 1024;
const MAGIC_AT = 16;
const MAGIC = 2;
/** More records than could have been written between two recovery points: an offset further on is not ours. */
export const CONTINUATION_MAX: number = 2 ** 31;

/**
 * The first intact batch above `from` whose offset is above `after`. What a recycled block still holds has lower offsets and
 * does not count.
 */
export async function findContinuation(
  state: LogState,
  file: DiskFile,
  from: number,
  to: number,
  after: Offset,
): Promise<{ readonly position: number; readonly offset: Offset } | undefined> {
  const buffer = new Uint8Array(Math.min(PIECE_BYTES, Math.max(BATCH_HEADER_BYTES, to - from)));
  for (let at = from; at + BATCH_HEADER_BYTES <= to;) {
    const got = await file.read(buffer.subarray(0, Math.min(buffer.length, to - at)), position(at));
    if (got < BATCH_HEADER_BYTES) return undefined;
    for (let used = 0; used + BATCH_HEADER_BYTES <= got; used += 1) {
      if (buffer[used + MAGIC_AT] !== MAGIC || !plausible(buffer, used, after, to - at - used)) continue;
      const header = await batchAt(state, file, at + used, to);
      if (header !== undefined) return { position: at + used, offset: offset(header.baseOffset) };
    }
    at += got - BATCH_HEADER_BYTES + 1;
    await state.deps.clock.yieldNow();
  }
  return undefined;
}

function plausible(bytes: Uint8Array, at: number, after: Offset, room: number): boolean {
  const base = readI64(bytes, at);
  if (base === undefined || base <= after || base > after + CONTINUATION_MAX) return false;
  const size = readU32(bytes, at + 8) + BATCH_LENGTH_OVERHEAD;
  return size >= BATCH_HEADER_BYTES && size <= BATCH_BYTES_MAX && size <= room;
}

/** The end of the last byte in [from, to) that is not zero; `from` when all are. */
export async function nonZeroEnd(state: LogState, file: DiskFile, from: number, to: number): Promise<number> {
  const buffer = new Uint8Array(Math.min(PIECE_BYTES, Math.max(1, to - from)));
  for (let end = to; end > from;) {
    const at = Math.max(from, end - buffer.length);
    const got = await file.read(buffer.subarray(0, end - at), position(at));
    for (let index = got; index > 0; index -= 1) if (buffer[index - 1] !== 0) return at + index;
    end = at;
    await state.deps.clock.yieldNow();
  }
  return from;
}

/** A batch of ours began here and is not whole: the header is the expected one. */
export async function isTornBatch(file: DiskFile, at: number, to: number, expected: Offset): Promise<boolean> {
  const head = new Uint8Array(Math.min(BATCH_HEADER_BYTES, Math.max(0, to - at)));
  const got = await file.read(head, position(at));
  if (got < 8 || isZero(head, 0, got)) return false;
  return readI64(head, 0) === expected;
}

/** The header of an intact batch there, if there is one. */
export async function batchAt(
  state: LogState,
  file: DiskFile,
  at: number,
  end: number,
): Promise<BatchHeader | undefined> {
  if (at + BATCH_HEADER_BYTES > end) return undefined;
  const head = new Uint8Array(12);
  if ((await file.read(head, position(at))) < head.length) return undefined;
  const size = BATCH_LENGTH_OVERHEAD + readU32(head, 8);
  if (size < BATCH_HEADER_BYTES || size > BATCH_BYTES_MAX || at + size > end) return undefined;
  const bytes = new Uint8Array(size);
  if ((await file.read(bytes, position(at))) < size) return undefined;
  const checked = checkBatch(bytes, 0, state.deps.crc32c);
  return checked.ok ? checked.header : undefined;
}
