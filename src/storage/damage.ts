// A bad batch where no crash can have left one. Its extent is found, its range is recorded and never served; what lies
// behind it keeps its offsets.
import type { Offset } from '../base/brands.ts';
import type { BatchHeader } from '../format/batch.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { LogState } from './log-state.ts';
import { findResync, type Resync } from './resync.ts';
import type { Segment } from './segment.ts';

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
  const known = segment.resyncs.map((each) => each.position);
  const indexed = (segment.index?.above(fault.position) ?? []).map((hit) => hit.position);
  const resync = await findResync(state, file, {
    position: fault.position,
    offset: fault.offset,
    end,
    below: segment.nextOffset,
    boundaries: [...known.filter((at) => at > fault.position), ...indexed],
  });
  if (resync !== undefined && !known.includes(resync.position)) {
    segment.resyncs.push(resync);
    segment.resyncs.sort((left, right) => left.position - right.position);
  }
  const to = resync?.offset ?? segment.nextOffset;
  state.addDamage(fault.offset, to, `${segment.path} at ${String(fault.position)}: ${fault.detail}`);
  return resync;
}
