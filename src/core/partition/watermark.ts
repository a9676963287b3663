// How far a partition is committed: the high watermark.
import type { Offset } from '../../base/brands.ts';

/** What one member of the in-sync set has, as the leader knows it. */
export interface MemberProgress {
  readonly written: Offset;
  readonly synced: Offset;
}

/**
 * The high watermark that a set with this progress allows: what all of its members have written and, when answers wait for
 * the disk, at most what `minInsync` of them have synced. Never below `before`. It stands still while the set is too small:
 * then no failover could be survived.
 */
export function highWatermark(
  before: Offset,
  members: readonly MemberProgress[],
  minInsync: number,
  waitsForSync: boolean,
): Offset {
  const first = members[0];
  if (first === undefined || members.length < minInsync) return before;
  // The usual cluster of one: nothing to sort.
  if (members.length === 1)
    return later(before, waitsForSync && first.synced < first.written ? first.synced : first.written);
  let allowed = first.written;
  for (const member of members) if (member.written < allowed) allowed = member.written;
  if (waitsForSync) {
    const synced = members.map((member) => member.synced).toSorted((left, right) => right - left);
    const enough = synced[Math.max(1, minInsync) - 1];
    if (enough !== undefined && enough < allowed) allowed = enough;
  }
  return later(before, allowed);
}

function later(left: Offset, right: Offset): Offset {
  return left > right ? left : right;
}

export interface LeaderProgress {
  /** The in-sync set, and those whose joining may have been decided already; the leader itself is one of them. */
  readonly members: readonly MemberProgress[];
  /** Of the in-sync set alone: who is only about to join does not make it large enough. */
  readonly inSyncCount: number;
  readonly minInsync: number;
  readonly waitsForSync: boolean;
  /** Of the epoch: up to there only in one step, see `epochBarrier`. */
  readonly barrier: number;
}

/** The same for a leader of several replicas. */
export function leaderWatermark(before: Offset, progress: LeaderProgress): Offset {
  const { members, inSyncCount, minInsync, waitsForSync, barrier } = progress;
  if (inSyncCount < minInsync) return before;
  const next = highWatermark(before, members, minInsync, waitsForSync);
  return next < barrier ? before : next;
}
