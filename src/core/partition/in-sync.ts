// Who is in sync with a leader, and who is to leave or join the set: by time, not by bytes.
import type { NodeId, Offset } from '../../base/brands.ts';

/**
 * How long a follower has been behind, without a note of every append: the leader marks its log end now and then, and the next
 * mark is set when the follower has reached the one before.
 */
export interface CatchUp {
  readonly markEnd: Offset;
  readonly markMs: number;
  /** The follower has reached the log end as it was then. */
  readonly caughtUpMs: number;
}

/** `nowMs`: of a clock that only moves forward. A member of the set begins as caught up, others as never. */
export function beginCatchUp(logEnd: Offset, nowMs: number, isMember: boolean): CatchUp {
  return { markEnd: logEnd, markMs: nowMs, caughtUpMs: isMember ? nowMs : Number.NEGATIVE_INFINITY };
}

/**
 * To be asked at every tick. `stalledMs`: for so long the leader itself did not get to look; what it did not hear then is not held
 * against anybody.
 */
export function catchUp(
  before: CatchUp,
  progress: { readonly written: Offset; readonly logEnd: Offset; readonly nowMs: number; readonly stalledMs: number },
): CatchUp {
  const { written, logEnd, nowMs, stalledMs } = progress;
  if (written >= logEnd) return { markEnd: logEnd, markMs: nowMs, caughtUpMs: nowMs };
  if (written >= before.markEnd) return { markEnd: logEnd, markMs: nowMs, caughtUpMs: before.markMs + stalledMs };
  return stalledMs === 0 ? before : { ...before, caughtUpMs: before.caughtUpMs + stalledMs };
}

/** What the leader knows of one follower. */
export interface FollowerState {
  readonly node: NodeId;
  /** In the leader's epoch it has shown, since its present start, that its log is a part of the leader's. */
  readonly attached: boolean;
  readonly written: Offset;
  readonly catchUp: CatchUp;
  /** Nothing was heard of it, and there has been no connection to it, for so long; 0: there is one. */
  readonly downMs: number;
}

export interface InSyncRules {
  /** Behind for longer: out. */
  readonly lagMsMax: number;
  /** Without a connection for as long: out. */
  readonly downMsMax: number;
}
export const IN_SYNC_RULES: InSyncRules = { lagMsMax: 700, downMsMax: 200 };

export interface LeaderState {
  readonly node: number;
  readonly replicas: readonly NodeId[];
  readonly inSync: readonly NodeId[];
  /** Who joins has at least all below it. */
  readonly mustHave: Offset;
  readonly nowMs: number;
}

/** The set as it should be, in the order of the replicas; undefined: it is that. */
export function wantedInSync(
  leader: LeaderState,
  followers: readonly FollowerState[],
  rules: InSyncRules = IN_SYNC_RULES,
): readonly NodeId[] | undefined {
  const { replicas, inSync, node: self, mustHave, nowMs } = leader;
  const wanted = replicas.filter((node) => {
    if (node === self) return true;
    const isMember = inSync.includes(node);
    const follower = followers.find((each) => each.node === node);
    if (follower === undefined) return isMember;
    const isNear = nowMs - follower.catchUp.caughtUpMs <= rules.lagMsMax;
    if (isMember) return isNear && follower.downMs < rules.downMsMax;
    return follower.attached && isNear && follower.downMs === 0 && follower.written >= mustHave;
  });
  const isSame = wanted.length === inSync.length && wanted.every((node) => inSync.includes(node));
  return isSame ? undefined : wanted;
}
