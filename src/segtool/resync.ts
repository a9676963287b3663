// Where intact batches begin again behind a fault.
import { position } from '../base/brands.ts';
import { readI64, readU32 } from '../base/bytes.ts';
import { BATCH_BYTES_MAX } from '../base/limits.ts';
import {
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  BATCH_LENGTH_OVERHEAD,
  MAGIC,
  MAGIC_AT,
  readBatchHeader,
} from '../format/batch.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { BatchProbe, ProbedBatch } from './batch-probe.ts';
import type { Stray } from './segment-scan.ts';
import type { ToolDeps } from './tool.ts';

const PIECE_BYTES = 1024 * 1024;
/** No log grows by more between two recovery points. */
const OFFSETS_AHEAD_MAX = 2 ** 31;
/** Enough to put a segment together again whose blocks were swapped, and a bound. */
const STRAYS_MAX = 100_000;

export interface NextWish {
  readonly from: number;
  readonly to: number;
  /** Lowest base offset that goes on. */
  readonly atLeast: number;
  readonly below: number;
  /** The batch at `from` is another one, whatever its offset. */
  readonly isForeign: boolean;
}

/**
 * The first intact batch at or behind `from` that goes on with the log. Where the bad batch ends by its own
 * header comes first: a record may hold bytes that look like a batch. Intact batches of other offsets on
 * the way go to `strays`.
 */
export async function findNext(
  deps: ToolDeps,
  file: DiskFile,
  probe: BatchProbe,
  wish: NextWish,
  strays: Stray[],
): Promise<ProbedBatch | undefined> {
  const fits = ({ header }: ProbedBatch): boolean =>
    header.baseOffset >= wish.atLeast &&
    header.baseOffset < Math.min(wish.below, wish.atLeast + OFFSETS_AHEAD_MAX) &&
    header.lastOffset < wish.below;
  let at = wish.from;
  // Whole batches of other offsets, one behind the other: duplicated and swapped blocks.
  for (let batch = await probe.at(at); batch !== undefined; batch = await probe.at(at)) {
    if (fits(batch)) return batch;
    if (strays.length < STRAYS_MAX) strays.push(withoutBytes(batch));
    at += batch.size;
  }
  if (at >= wish.to) return undefined;
  const declared = await probe.declaredSize(at);
  let from = at + 1;
  if (declared !== undefined) {
    const end = at + declared;
    const batch = await probe.at(end);
    if (batch !== undefined && fits(batch)) {
      // Its length may be what was changed, and end behind others.
      if (await headersAgree(file, at, end, wish)) return batch;
      const between = { ...wish, from, to: end };
      return (
        (await chainTo(probe, batch, strays, (passed) => search(deps, file, probe, between, fits, passed))) ?? batch
      );
    }
    // Two bad batches whose headers agree: where the first one ends is known, and what its records hold is not looked at.
    if (await headersAgree(file, at, end, wish)) from = end;
  }
  return await search(deps, file, probe, { ...wish, from }, fits, strays);
}

/** The first of intact batches that lie one behind the other up to this one, without a gap of bytes or offsets. */
async function chainTo(
  probe: BatchProbe,
  last: ProbedBatch,
  strays: Stray[],
  find: (passed: Stray[]) => Promise<ProbedBatch | undefined>,
): Promise<ProbedBatch | undefined> {
  const passed: Stray[] = [];
  const first = await find(passed);
  let batch = first;
  while (batch !== undefined && batch.position < last.position) {
    const next = await probe.at(batch.position + batch.size);
    if (next?.header.baseOffset !== batch.header.lastOffset + 1) return undefined;
    batch = next;
  }
  if (batch?.position !== last.position) return undefined;
  strays.push(...passed.slice(0, STRAYS_MAX - strays.length));
  return first;
}

function withoutBytes({ position: at, size, header, patches }: ProbedBatch): Stray {
  return { position: at, size, header, patches };
}

async function headersAgree(file: DiskFile, at: number, end: number, { atLeast, to }: NextWish): Promise<boolean> {
  if (end + BATCH_HEADER_BYTES > to) return false;
  const heads = new Uint8Array(2 * BATCH_HEADER_BYTES);
  await file.read(heads.subarray(0, BATCH_HEADER_BYTES), position(at));
  await file.read(heads.subarray(BATCH_HEADER_BYTES), position(end));
  const first = readBatchHeader(heads, 0);
  const second = readBatchHeader(heads, BATCH_HEADER_BYTES);
  return first?.baseOffset === atLeast && second?.baseOffset === first.lastOffset + 1;
}

async function search(
  deps: ToolDeps,
  file: DiskFile,
  probe: BatchProbe,
  wish: NextWish,
  fits: (batch: ProbedBatch) => boolean,
  strays: Stray[],
): Promise<ProbedBatch | undefined> {
  const buffer = new Uint8Array(Math.min(PIECE_BYTES, Math.max(BATCH_HEADER_BYTES, wish.to - wish.from)));
  for (let at = wish.from; at + BATCH_HEADER_BYTES <= wish.to;) {
    const got = await file.read(buffer.subarray(0, Math.min(buffer.length, wish.to - at)), position(at));
    if (got < BATCH_HEADER_BYTES) return undefined;
    const last = got - BATCH_HEADER_BYTES;
    let used = 0;
    while (used <= last) {
      const magic = buffer.indexOf(MAGIC, used + MAGIC_AT);
      used = magic < 0 ? last + 1 : magic - MAGIC_AT;
      if (used > last) break;
      const batch = plausible(buffer, used, wish.to - at - used) ? await probe.at(at + used) : undefined;
      if (batch === undefined) used += 1;
      else if (fits(batch)) return batch;
      else {
        if (strays.length < STRAYS_MAX) strays.push(withoutBytes(batch));
        used += batch.size;
      }
    }
    at += used;
    await deps.clock.yieldNow();
  }
  return undefined;
}

function plausible(bytes: Uint8Array, at: number, room: number): boolean {
  const base = readI64(bytes, at);
  if (base === undefined || base < 0) return false;
  const size = readU32(bytes, at + BATCH_LENGTH_AT) + BATCH_LENGTH_OVERHEAD;
  return size >= BATCH_HEADER_BYTES && size <= BATCH_BYTES_MAX && size <= room;
}
