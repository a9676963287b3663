// Sets of partitions by topic: compared, subtracted, listed in one order.
import type { TopicId } from '../../base/brands.ts';
import type { OwnedPartitions, PartitionSet } from '../../base/group.ts';

/** As requests and answers carry them. */
export interface TopicPartitions {
  readonly topicId: TopicId;
  readonly partitions: readonly number[];
}

interface HasPartitions {
  has(partition: number): boolean;
  keys(): Iterable<number>;
  readonly size: number;
}
type ByTopic = ReadonlyMap<TopicId, HasPartitions>;

export function holds(set: ByTopic, topicId: TopicId, partition: number): boolean {
  return set.get(topicId)?.has(partition) === true;
}

export function samePartitions(left: ByTopic, right: ByTopic): boolean {
  if (left.size !== right.size) return false;
  for (const [topicId, partitions] of left) {
    const others = right.get(topicId);
    if (others === undefined || others.size !== partitions.size) return false;
    for (const partition of partitions.keys()) if (!others.has(partition)) return false;
  }
  return true;
}

/** True when `set` has a partition that `other` has not. */
export function exceeds(set: ByTopic, other: ByTopic): boolean {
  for (const [topicId, partitions] of set)
    for (const partition of partitions.keys()) if (!holds(other, topicId, partition)) return true;
  return false;
}

/** What of `set` is in `other` (`within`), or is not; by topic id and partition. */
export function listed(set: ByTopic, other: ByTopic, within: boolean): TopicPartitions[] {
  const list: TopicPartitions[] = [];
  for (const [topicId, partitions] of set) {
    const some = Array.from(partitions.keys()).filter((partition) => holds(other, topicId, partition) === within);
    if (some.length > 0) list.push({ topicId, partitions: some.toSorted((left, right) => left - right) });
  }
  return list.toSorted((left, right) => (left.topicId < right.topicId ? -1 : 1));
}

/** The same map when nothing of it goes. */
export function withoutOwned(
  owned: OwnedPartitions,
  gone: (topicId: TopicId, partition: number, since: number) => boolean,
): OwnedPartitions {
  let changed = false;
  const rest = new Map<TopicId, ReadonlyMap<number, number>>();
  for (const [topicId, partitions] of owned) {
    const kept = new Map<number, number>();
    for (const [partition, since] of partitions) if (!gone(topicId, partition, since)) kept.set(partition, since);
    if (kept.size !== partitions.size) changed = true;
    if (kept.size > 0) rest.set(topicId, kept);
  }
  return changed ? rest : owned;
}

/** Collects partitions in any order; gives them by topic id and partition. */
export class PartitionCollector {
  private readonly topics = new Map<TopicId, number[]>();
  add(topicId: TopicId, partition: number): void {
    const partitions = this.topics.get(topicId);
    if (partitions === undefined) this.topics.set(topicId, [partition]);
    else partitions.push(partition);
  }
  finish(): PartitionSet {
    return new Map(
      Array.from(this.topics)
        .toSorted(([left], [right]) => (left < right ? -1 : 1))
        .map(([topicId, partitions]) => [topicId, new Set(partitions.toSorted((left, right) => left - right))]),
    );
  }
}
