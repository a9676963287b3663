// The next state of a group, from what it is and what has come up since: joins, leaves, ended sessions, released partitions, changed
// topics. A partition gets its next owner only when nobody owns it.
import type { TopicId } from '../../base/brands.ts';
import {
  NO_PARTITIONS,
  NOTHING_OWNED,
  type GroupChange,
  type GroupMember,
  type GroupState,
  type OwnedPartitions,
} from '../../base/group.ts';
import { GROUP_MEMBERS_MAX } from '../../base/limits.ts';
import { assign, type TopicShape } from './assign.ts';
import { holds, samePartitions, type TopicPartitions, withoutOwned } from './partitions.ts';

export interface Topics {
  byName(name: string): TopicShape | undefined;
  exists(topicId: TopicId): boolean;
}

export interface Joining {
  readonly memberId: string;
  readonly instanceId: string | undefined;
  readonly clientId: string;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
  readonly topics: readonly string[];
}
/** What a member has stopped, said in the generation that it knew. */
export interface Release {
  readonly generation: number;
  readonly released: readonly TopicPartitions[];
}

export interface Wishes {
  readonly groupId: string;
  /** Of the change, if there is one. */
  readonly generation: number;
  readonly joins: readonly Joining[];
  /** They leave, or their session has ended. */
  readonly leaving: ReadonlySet<string>;
  readonly releases: ReadonlyMap<string, Release>;
  /** Nobody is to own anything. */
  readonly paused: boolean;
  /** Topics have changed. */
  readonly replan: boolean;
  /** Partitions that the group may share out. */
  readonly partitionsMax: number;
}

export interface Plan {
  /** Undefined: nothing changes. */
  readonly change: GroupChange | undefined;
  /** Joins that find no place. */
  readonly full: readonly string[];
  readonly leftOut: number;
}

export function planChange(group: GroupState | undefined, wishes: Wishes, topics: Topics): Plan {
  const before: ReadonlyMap<string, GroupMember> = group?.members ?? new Map<string, GroupMember>();
  const rows = new Map(before);
  const full: string[] = [];
  let replan = wishes.replan || wishes.paused !== (group?.paused ?? false);
  for (const id of wishes.leaving) if (rows.delete(id)) replan = true;
  for (const joining of wishes.joins) {
    const admitted = admit(rows, joining, wishes.generation);
    if (admitted === 'full') full.push(joining.memberId);
    else if (admitted === 'changed') replan = true;
  }
  for (const [id, release] of wishes.releases) {
    const row = rows.get(id);
    if (row !== undefined) put(rows, row, { owned: withoutReleased(row, release) });
  }
  const leftOut = replan ? retarget(rows, wishes, topics) : 0;
  grant(rows, wishes.generation);
  const removed = Array.from(before.keys()).filter((id) => !rows.has(id));
  const members = Array.from(rows.values()).filter((row) => before.get(row.memberId) !== row);
  const changed = removed.length > 0 || members.length > 0 || (group !== undefined && group.paused !== wishes.paused);
  if (!changed) return { change: undefined, full, leftOut };
  const { groupId, generation, paused } = wishes;
  return {
    change: {
      groupId,
      generation,
      paused,
      removed,
      members: members.map((row) => ({ ...row, generation })),
    },
    full,
    leftOut,
  };
}

/** Another row only when something differs. */
function put(
  rows: Map<string, GroupMember>,
  row: GroupMember,
  next: Partial<Pick<GroupMember, 'owned' | 'target'>>,
): void {
  const { owned = row.owned, target = row.target } = next;
  if (owned !== row.owned || target !== row.target) rows.set(row.memberId, { ...row, owned, target });
}

function admit(rows: Map<string, GroupMember>, joining: Joining, generation: number): 'changed' | 'unchanged' | 'full' {
  const known = rows.get(joining.memberId);
  if (known !== undefined) {
    if (sameTerms(known, joining)) return 'unchanged';
    rows.set(known.memberId, { ...known, ...joining, instanceId: known.instanceId });
    return 'changed';
  }
  const predecessor =
    joining.instanceId === undefined
      ? undefined
      : Array.from(rows.values()).find(({ instanceId }) => instanceId === joining.instanceId);
  if (predecessor === undefined && rows.size >= GROUP_MEMBERS_MAX) return 'full';
  if (predecessor !== undefined) rows.delete(predecessor.memberId);
  rows.set(joining.memberId, {
    ...joining,
    replaces: predecessor?.memberId,
    generation,
    target: predecessor?.target ?? NO_PARTITIONS,
    // Its own from now on: what the older one says counts no more.
    owned: predecessor === undefined ? NOTHING_OWNED : ownedSince(predecessor.owned, generation),
  });
  return 'changed';
}

function sameTerms(member: GroupMember, joining: Joining): boolean {
  return (
    member.clientId === joining.clientId &&
    member.sessionTimeoutMs === joining.sessionTimeoutMs &&
    member.rebalanceTimeoutMs === joining.rebalanceTimeoutMs &&
    member.topics.length === joining.topics.length &&
    member.topics.every((name, index) => name === joining.topics[index])
  );
}

function ownedSince(owned: OwnedPartitions, generation: number): OwnedPartitions {
  return new Map(
    Array.from(owned, ([topicId, partitions]) => [
      topicId,
      new Map(Array.from(partitions.keys(), (partition) => [partition, generation])),
    ]),
  );
}

/**
 * Only what it was told to release, and only what it has owned since the generation that it speaks of: an old request that comes
 * late must not free what the member has been given anew.
 */
export function withoutReleased(row: GroupMember, { generation, released }: Release): OwnedPartitions {
  if (generation > row.generation) return row.owned;
  const named = new Map<TopicId, Set<number>>();
  for (const { topicId, partitions } of released)
    named.set(topicId, new Set([...(named.get(topicId) ?? []), ...partitions]));
  return withoutOwned(
    row.owned,
    (topicId, partition, since) =>
      holds(named, topicId, partition) && since <= generation && !holds(row.target, topicId, partition),
  );
}

function retarget(
  rows: Map<string, GroupMember>,
  { paused, partitionsMax }: Pick<Wishes, 'paused' | 'partitionsMax'>,
  topics: Topics,
): number {
  const members = Array.from(rows.values());
  const { targets, leftOut } = paused
    ? { targets: new Map(members.map(({ memberId }) => [memberId, NO_PARTITIONS])), leftOut: 0 }
    : assign(members, (name) => topics.byName(name), partitionsMax);
  for (const row of members) {
    const target = targets.get(row.memberId) ?? NO_PARTITIONS;
    put(rows, row, {
      target: samePartitions(target, row.target) ? row.target : target,
      // Nothing can be read of a topic that is gone: there is nothing to wait for.
      owned: withoutOwned(row.owned, (topicId) => !topics.exists(topicId)),
    });
  }
  return leftOut;
}

/** What nobody owns goes to whom it is meant for. */
function grant(rows: Map<string, GroupMember>, generation: number): void {
  const taken = new Map<TopicId, Set<number>>();
  for (const { owned } of rows.values()) {
    for (const [topicId, partitions] of owned) {
      const all = taken.get(topicId);
      if (all === undefined) taken.set(topicId, new Set(partitions.keys()));
      else for (const partition of partitions.keys()) all.add(partition);
    }
  }
  for (const row of Array.from(rows.values())) {
    const free = Array.from(row.target, ([topicId, partitions]) => ({
      topicId,
      partitions: Array.from(partitions).filter((partition) => !holds(taken, topicId, partition)),
    })).filter(({ partitions }) => partitions.length > 0);
    if (free.length === 0) continue;
    const owned = new Map<TopicId, ReadonlyMap<number, number>>(row.owned);
    for (const { topicId, partitions } of free) {
      const all = new Map(owned.get(topicId));
      for (const partition of partitions) all.set(partition, generation);
      owned.set(topicId, all);
    }
    put(rows, row, { owned });
  }
}
