// A consumer group as the metadata log describes it: held by the metadata image, decided on by the coordinator. Nothing in
// here is changed in place: who holds a group may keep it.
import type { LeaderEpoch, Offset, TimestampMs, TopicId } from './brands.ts';

/** By topic: partition → the generation since which it is owned without a break. */
export type OwnedPartitions = ReadonlyMap<TopicId, ReadonlyMap<number, number>>;
export type PartitionSet = ReadonlyMap<TopicId, ReadonlySet<number>>;

export interface GroupMember {
  /** One membership of one process. */
  readonly memberId: string;
  /** Static: the same through restarts. */
  readonly instanceId: string | undefined;
  /** The member of the same instance that this one has taken over from. */
  readonly replaces: string | undefined;
  readonly clientId: string;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
  /** Names of topics, existing or not. */
  readonly topics: readonly string[];
  /** Of the group, when this row changed last. */
  readonly generation: number;
  /** What it is to own. */
  readonly target: PartitionSet;
  /** What it may be reading: until it has released it, or is no member any more. */
  readonly owned: OwnedPartitions;
}

export interface GroupState {
  readonly groupId: string;
  /** Rises with each change; never the same again for a group of this id. */
  readonly generation: number;
  /** Nobody is to own anything for now. */
  readonly paused: boolean;
  readonly members: ReadonlyMap<string, GroupMember>;
}

export interface CommittedOffset {
  /** The next to read. */
  readonly offset: Offset;
  readonly leaderEpoch: LeaderEpoch;
  readonly metadata: string;
  readonly at: TimestampMs;
}

/** One change of a group: rows that are new or differ, by member; the generation is the one after it. */
export interface GroupChange {
  readonly groupId: string;
  readonly generation: number;
  readonly paused: boolean;
  readonly removed: readonly string[];
  /** Their `generation` is the one of the change. */
  readonly members: readonly GroupMember[];
}

export const NOTHING_OWNED: OwnedPartitions = new Map();
export const NO_PARTITIONS: PartitionSet = new Map();

/** For partitions and what is kept by them: number of partitions over all topics. */
export function countPartitions(byTopic: ReadonlyMap<TopicId, { readonly size: number }>): number {
  let count = 0;
  for (const partitions of byTopic.values()) count += partitions.size;
  return count;
}
