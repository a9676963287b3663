// What a leader answers to a follower that says where it stands, and what the follower does about the answer. A follower's log is
// compared by the epoch of its last batch, never by the high watermark.
import { NO_EPOCH, offset, type LeaderEpoch, type Offset } from '../../base/brands.ts';
import { findDivergence, type Divergence, type EpochStart } from './divergence.ts';

/** Offsets and epochs of one log. */
export interface LogShape {
  readonly logStart: Offset;
  readonly logEnd: Offset;
  /** Ascending; each epoch ends where the next one starts. */
  readonly epochs: readonly EpochStart[];
}

/** Epoch of the last batch; -1: none is known. */
export function lastEpochOf({ epochs }: LogShape): LeaderEpoch {
  return epochs.at(-1)?.epoch ?? NO_EPOCH;
}

/** Of a request that names the leader epoch it was made in. Undefined: it is this one's. */
export function judgeEpoch(
  current: LeaderEpoch,
  named: number,
): 'FENCED_LEADER_EPOCH' | 'UNKNOWN_LEADER_EPOCH' | undefined {
  if (named === current) return undefined;
  return named < current ? 'FENCED_LEADER_EPOCH' : 'UNKNOWN_LEADER_EPOCH';
}

export type PositionVerdict =
  /** All that the follower has is in the leader's log. */
  | { readonly kind: 'matches' }
  /** What it needs next was removed by retention: it begins anew at the leader's log start. */
  | { readonly kind: 'behind' }
  /** It has more than the leader, and nothing tells from where on. */
  | { readonly kind: 'beyond' }
  | ({ readonly kind: 'diverged' } & Divergence);

const MATCHES: PositionVerdict = { kind: 'matches' };
const BEHIND: PositionVerdict = { kind: 'behind' };
const BEYOND: PositionVerdict = { kind: 'beyond' };

/** At the leader: a follower's log ends at `fetchOffset` with a batch of `lastEpoch` (-1: it is empty). */
export function judgePosition(leader: LogShape, fetchOffset: Offset, lastEpoch: number): PositionVerdict {
  if (fetchOffset < leader.logStart) return BEHIND;
  const divergence = findDivergence(leader.epochs, leader.logEnd, fetchOffset, lastEpoch);
  if (divergence !== undefined) return { kind: 'diverged', ...divergence };
  return fetchOffset > leader.logEnd ? BEYOND : MATCHES;
}

/** Where a follower cuts its log when it is told where the leader's ends in an epoch. Always below its log end. */
export function truncationPoint(follower: LogShape, told: Divergence): Offset {
  const { epochs, logStart, logEnd } = follower;
  // What it has of that epoch, or of older ones; what is younger was never in the leader's log.
  let ownEnd: Offset = logStart;
  for (const [index, { epoch }] of epochs.entries()) {
    if (epoch > told.epoch) break;
    ownEnd = epochs[index + 1]?.startOffset ?? logEnd;
  }
  // Of a leader that retains nothing as old only the place is known.
  if (told.epoch < 0) ownEnd = logEnd;
  return told.endOffset < ownEnd ? told.endOffset : ownEnd;
}

/** May the tail from `to` on go? What was once committed never goes unasked. */
export function mayTruncate(to: Offset, logStart: Offset, highWatermark: Offset): boolean {
  return to >= highWatermark && to >= logStart;
}

/** What a follower may call committed: no more than it has written itself, and it never goes back. */
export function followerWatermark(before: Offset, leaderWatermark: Offset, written: Offset): Offset {
  const allowed = Math.min(leaderWatermark, written);
  return allowed > before ? offset(allowed) : before;
}

/**
 * From where on the high watermark of a new epoch counts: behind the batch that begins it. Until it has got there, what older
 * leaders have committed is not known, and what they wrote could still lose against another replica's log when all have been
 * restarted. `logEnd`: when the epoch began, its first batch included.
 */
export function epochBarrier(epochs: readonly EpochStart[], epoch: LeaderEpoch, logEnd: Offset): Offset {
  const last = epochs.at(-1);
  if (last === undefined || last.epoch !== epoch) return logEnd;
  // What began the epoch may have been retained away since.
  return last.startOffset < logEnd ? offset(last.startOffset + 1) : logEnd;
}
