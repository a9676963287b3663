// Which leader epoch began where: a list in which offsets and epochs both rise. It is kept in checkpoints and seals, and it
// is what finds a changed epoch in a batch header, which no checksum of the batch covers.
import type { LeaderEpoch, Offset } from '../base/brands.ts';

export interface EpochEntry {
  readonly epoch: LeaderEpoch;
  readonly startOffset: Offset;
}

/** Bytes of an entry in a file: epoch i32, start offset i64. */
export const EPOCH_ENTRY_BYTES = 12;

/** The epoch of the record at `at`; undefined where the history does not reach back to it. */
export function epochAt(entries: readonly EpochEntry[], at: number): LeaderEpoch | undefined {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((entries[middle]?.startOffset ?? Number.POSITIVE_INFINITY) <= at) low = middle + 1;
    else high = middle;
  }
  return entries[low - 1]?.epoch;
}
