// Whether what a reader has read is still what the log holds: (leader epoch, offset) names a record for ever.
import { leaderEpoch, NO_EPOCH, type LeaderEpoch, type Offset } from '../../base/brands.ts';

export interface EpochStart {
  readonly epoch: LeaderEpoch;
  readonly startOffset: Offset;
}

export interface Divergence {
  /** The last epoch, up to the reader's, that the log knows; -1: none that is retained. */
  readonly epoch: LeaderEpoch;
  /** Where it ends: what the reader has from there on is not in the log. Never above where the reader is. */
  readonly endOffset: Offset;
}

/**
 * The reader stands at `fetchOffset`, and the batch before it had `lastFetchedEpoch`. Undefined: it has read what is in the
 * log. `epochs` ascend; `fetchOffset` is not below the log start.
 */
export function findDivergence(
  epochs: readonly EpochStart[],
  logEnd: Offset,
  fetchOffset: Offset,
  lastFetchedEpoch: number,
): Divergence | undefined {
  if (lastFetchedEpoch < 0) return undefined;
  let at = epochs.length - 1;
  while (at >= 0 && (epochs[at]?.epoch ?? NO_EPOCH) > lastFetchedEpoch) at -= 1;
  const found = epochs[at];
  const endOffset = epochs[at + 1]?.startOffset ?? logEnd;
  if (found === undefined) {
    // All that is retained is younger than what the reader had: right if it stands where that begins, or before it.
    return fetchOffset <= endOffset ? undefined : { epoch: NO_EPOCH, endOffset };
  }
  if (found.epoch === lastFetchedEpoch && fetchOffset <= endOffset) return undefined;
  return { epoch: leaderEpoch(found.epoch), endOffset: endOffset < fetchOffset ? endOffset : fetchOffset };
}
