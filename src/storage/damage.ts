// A bad batch where no crash can have left one. Its extent is found, its range is recorded and never served; what lies
// behind it keeps its offsets.
import { offset, position, type Offset } from '../base/brands.ts';
import { readU32 } from '../base/bytes.ts';
import { BATCH_BYTES_MAX } from '../base/limits.ts';
import { BATCH_HEADER_BYTES, BATCH_LENGTH_OVERHEAD, type BatchHeader } from '../format/batch.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { LogState } from './log-state.ts';
import type { Segment } from './segment.ts';
import { batchAt, findContinuation } from './tail-scan.ts';

export interface Resync {
  readonly position: number;
  readonly offset: Offset;
}

export interface Fault {
  readonly position: number;
  readonly offset: Offset;
  readonly header: BatchHeader | undefined;
  readonly detail: string;
}

/**
 * Records the range from the fault to the next good batch and says where that is; undefined: the rest of the segment is
 * lost. Looked for only at places that are batch boundaries by the bad batch's own length or by the index: bytes inside a
 * record can look like a batch.
 */
export async function recordDamage(
  state: LogState,
  segment: Segment,
  file: DiskFile,
  end: number,
  fault: Fault,
): Promise<Resync | undefined> {
  const resync = await findNext(state, segment, file, end, fault);
  if (resync !== undefined && !segment.resyncs.some((known) => known.position === resync.position)) {
    segment.resyncs.push(resync);
    segment.resyncs.sort((left, right) => left.position - right.position);
  }
  const to = resync?.offset ?? segment.nextOffset;
  state.addDamage(fault.offset, to, `${segment.path} at ${String(fault.position)}: ${fault.detail}`);
  return resync;
}

async function findNext(
  state: LogState,
  segment: Segment,
  file: DiskFile,
  end: number,
  fault: Fault,
): Promise<Resync | undefined> {
  const candidates: number[] = [];
  const declared = await declaredEnd(file, fault.position, end);
  if (declared !== undefined) candidates.push(declared);
  for (const resync of segment.resyncs) if (resync.position > fault.position) candidates.push(resync.position);
  for (const hit of segment.index?.above(fault.position) ?? []) candidates.push(hit.position);
  for (const at of candidates) {
    if (at === end && declared === end) return undefined;
    const header = await batchAt(state, file, at, end);
    if (header === undefined || header.baseOffset <= fault.offset || header.baseOffset >= segment.nextOffset) continue;
    return { position: at, offset: offset(header.baseOffset) };
  }
  return await searchForward(state, segment, file, end, fault);
}

/**
 * The last resort, when there is no index either: any place with an intact batch of a fitting offset that another one
 * follows, or the end of the segment.
 */
async function searchForward(
  state: LogState,
  segment: Segment,
  file: DiskFile,
  end: number,
  fault: Fault,
): Promise<Resync | undefined> {
  let from = fault.position + 1;
  for (;;) {
    const found = await findContinuation(state, file, from, end, fault.offset);
    if (found === undefined) return undefined;
    from = found.position + 1;
    if (found.offset >= segment.nextOffset) continue;
    const header = await batchAt(state, file, found.position, end);
    if (header === undefined) continue;
    const after = await batchAt(state, file, found.position + header.sizeInBytes, end);
    if (header.lastOffset + 1 === segment.nextOffset || after?.baseOffset === header.lastOffset + 1) return found;
  }
}

async function declaredEnd(file: DiskFile, at: number, end: number): Promise<number | undefined> {
  const head = new Uint8Array(12);
  if ((await file.read(head, position(at))) < head.length) return undefined;
  const size = BATCH_LENGTH_OVERHEAD + readU32(head, 8);
  return size >= BATCH_HEADER_BYTES && size <= BATCH_BYTES_MAX && at + size <= end ? at + size : undefined;
}
