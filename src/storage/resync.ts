// Where good batches begin again behind a bad one. Bytes inside a record can look like a batch, so a place is believed only
// when something else than its own bytes speaks for it.
import { offset, position, type Offset } from '../base/brands.ts';
import { readU32 } from '../base/bytes.ts';
import { BATCH_BYTES_MAX } from '../base/limits.ts';
import {
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_OVERHEAD,
  MAGIC,
  readBatchHeader,
  type BatchHeader,
} from '../format/batch.ts';
import { isZero } from '../format/scan.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { LogState } from './log-state.ts';
import { batchAt, findContinuation } from './tail-scan.ts';

export interface Resync {
  readonly position: number;
  readonly offset: Offset;
}

export interface ResyncWish {
  /** Where the bad batch begins, and the offset it should have had. */
  readonly position: number;
  readonly offset: Offset;
  /** Nothing is read at or above. */
  readonly end: number;
  /** Base offsets from here on do not belong to the segment. */
  readonly below: number;
  /** Places that were batch boundaries once, in the order in which they are to be tried. */
  readonly boundaries: readonly number[];
}

/**
 * The first place of these that holds an intact batch of a fitting offset: where the bad batch ends by its own length; a known
 * boundary; else any place behind it from which intact batches go on. Undefined: the rest is lost.
 */
export async function findResync(state: LogState, file: DiskFile, wish: ResyncWish): Promise<Resync | undefined> {
  const head = new Uint8Array(BATCH_HEADER_BYTES);
  const got = await file.read(
    head.subarray(0, Math.max(0, Math.min(head.length, wish.end - wish.position))),
    position(wish.position),
  );
  const declared = got < 12 ? undefined : declaredEnd(head, wish);
  for (const at of declared === undefined ? wish.boundaries : [declared, ...wish.boundaries]) {
    if (at === wish.end && declared === wish.end) return undefined;
    const header = await batchAt(state, file, at, wish.end);
    if (header !== undefined && header.baseOffset > wish.offset && header.baseOffset < wish.below)
      return { position: at, offset: offset(header.baseOffset) };
  }
  const next = got < head.length ? undefined : nextOffsetOf(head, wish.offset);
  const from = await searchStart(file, wish, declared, next);
  // The header of the bad batch may be good: then the offset that follows is known, and nothing else is as good.
  const exact = next === undefined ? undefined : await search(state, file, wish, from, (base) => base === next);
  return exact ?? (await search(state, file, wish, from, () => true));
}

function declaredEnd(head: Uint8Array, wish: ResyncWish): number | undefined {
  const size = BATCH_LENGTH_OVERHEAD + readU32(head, 8);
  const fits = size >= BATCH_HEADER_BYTES && size <= BATCH_BYTES_MAX && wish.position + size <= wish.end;
  return fits ? wish.position + size : undefined;
}

/** What the header says of the offset behind the batch, if it agrees with itself. */
function nextOffsetOf(head: Uint8Array, expected: Offset): number | undefined {
  const header = readBatchHeader(head, 0);
  if (header?.magic !== MAGIC || header.baseOffset !== expected) return undefined;
  return header.recordCount === header.lastOffsetDelta + 1 ? header.lastOffset + 1 : undefined;
}

/** Two bad batches whose headers agree: what the first one's records hold is not looked at. */
async function searchStart(
  file: DiskFile,
  wish: ResyncWish,
  declared: number | undefined,
  next: number | undefined,
): Promise<number> {
  if (declared === undefined || next === undefined || declared + BATCH_HEADER_BYTES > wish.end)
    return wish.position + 1;
  const head = new Uint8Array(BATCH_HEADER_BYTES);
  await file.read(head, position(declared));
  return readBatchHeader(head, 0)?.baseOffset === next ? declared : wish.position + 1;
}

async function search(
  state: LogState,
  file: DiskFile,
  wish: ResyncWish,
  from: number,
  isWanted: (baseOffset: number) => boolean,
): Promise<Resync | undefined> {
  for (let at = from; ;) {
    const found = await findContinuation(state, file, at, wish.end, wish.offset);
    if (found === undefined) return undefined;
    at = found.position + 1;
    if (found.offset >= wish.below || !isWanted(found.offset)) continue;
    const header = await batchAt(state, file, found.position, wish.end);
    if (header !== undefined && (await goesOn(file, wish, found.position + header.sizeInBytes, header))) return found;
  }
}

/** Another batch follows, or nothing that was ever written. */
async function goesOn(file: DiskFile, wish: ResyncWish, end: number, header: BatchHeader): Promise<boolean> {
  if (header.lastOffset + 1 === wish.below) return true;
  const behind = new Uint8Array(Math.min(BATCH_HEADER_BYTES, wish.end - end));
  const got = await file.read(behind, position(end));
  if (isZero(behind, 0, got)) return true;
  // Whether that one is good in turn is for whoever goes on there.
  const after = readBatchHeader(behind.subarray(0, got), 0);
  return after?.magic === MAGIC && after.baseOffset === header.lastOffset + 1;
}
