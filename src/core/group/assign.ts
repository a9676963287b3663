// Who is to own what: balanced, and as it was before as far as balance allows. The same input gives the same answer whatever the
// order of the members.
import type { TopicId } from '../../base/brands.ts';
import type { GroupMember, PartitionSet } from '../../base/group.ts';
import { holds, PartitionCollector } from './partitions.ts';

export interface TopicShape {
  readonly topicId: TopicId;
  readonly partitions: number;
}

export type Subscriber = Pick<GroupMember, 'memberId' | 'topics' | 'target' | 'owned'>;

export interface Assignment {
  readonly targets: ReadonlyMap<string, PartitionSet>;
  /** Partitions beyond what one group may share out. */
  readonly leftOut: number;
}

const NOBODY = -1;

interface SharedTopic extends TopicShape {
  /** Indices of the members that name it, ascending. */
  readonly eligible: readonly number[];
  /** Index of the member for each partition. */
  readonly owner: Int32Array;
}

class Shares {
  readonly members: readonly Subscriber[];
  readonly topics: readonly SharedTopic[];
  /** Partitions by member. */
  readonly loads: Int32Array;

  constructor(members: readonly Subscriber[], topics: readonly SharedTopic[]) {
    this.members = members;
    this.topics = topics;
    this.loads = new Int32Array(members.length);
  }
  load(member: number): number {
    return this.loads[member] ?? 0;
  }
  give(topic: SharedTopic, partition: number, member: number): void {
    const before = topic.owner[partition] ?? NOBODY;
    if (before !== NOBODY) this.loads[before] = this.load(before) - 1;
    topic.owner[partition] = member;
    if (member !== NOBODY) this.loads[member] = this.load(member) + 1;
  }
  /** It may be reading it now: giving it to another one means waiting for it. */
  owns(member: number, topic: SharedTopic, partition: number): boolean {
    const { owned } = this.members[member] ?? {};
    return owned !== undefined && holds(owned, topic.topicId, partition);
  }
}

/** `topicOf`: what a name stands for now; undefined: there is no such topic. */
export function assign(
  subscribers: readonly Subscriber[],
  topicOf: (name: string) => TopicShape | undefined,
  partitionsMax: number,
): Assignment {
  const members = subscribers.toSorted((left, right) => (left.memberId < right.memberId ? -1 : 1));
  const { topics, leftOut } = sharedTopics(members, topicOf, partitionsMax);
  const shares = new Shares(members, topics);
  keepTargets(shares);
  if (topics.every(({ eligible }) => eligible.length === members.length)) shareEvenly(shares);
  else shareBySubscription(shares);
  const collectors = members.map(() => new PartitionCollector());
  for (const { topicId, owner } of topics)
    for (const [partition, member] of owner.entries()) collectors[member]?.add(topicId, partition);
  return {
    targets: new Map(
      members.map(({ memberId }, index) => [memberId, (collectors[index] ?? new PartitionCollector()).finish()]),
    ),
    leftOut,
  };
}

function sharedTopics(
  members: readonly Subscriber[],
  topicOf: (name: string) => TopicShape | undefined,
  partitionsMax: number,
): { readonly topics: readonly SharedTopic[]; readonly leftOut: number } {
  const byName = new Map<string, number[]>();
  for (const [index, { topics }] of members.entries()) {
    for (const name of topics) {
      const eligible = byName.get(name);
      if (eligible === undefined) byName.set(name, [index]);
      else eligible.push(index);
    }
  }
  const topics: SharedTopic[] = [];
  let room = partitionsMax;
  let leftOut = 0;
  for (const [name, eligible] of Array.from(byName).toSorted(([left], [right]) => (left < right ? -1 : 1))) {
    const shape = topicOf(name);
    if (shape === undefined) continue;
    const partitions = Math.min(room, shape.partitions);
    room -= partitions;
    leftOut += shape.partitions - partitions;
    topics.push({ topicId: shape.topicId, partitions, eligible, owner: new Int32Array(partitions).fill(NOBODY) });
  }
  return { topics, leftOut };
}

/** Everything stays with whom it was meant for, if that one still may have it. */
function keepTargets(shares: Shares): void {
  for (const topic of shares.topics) {
    for (const member of topic.eligible) {
      for (const partition of shares.members[member]?.target.get(topic.topicId) ?? [])
        if (topic.owner[partition] === NOBODY) shares.give(topic, partition, member);
    }
  }
}

/** All may have everything: nobody has more than one more than anybody else, and no move is made that this does not need. */
function shareEvenly(shares: Shares): void {
  const count = shares.members.length;
  if (count === 0) return;
  const total = shares.topics.reduce((sum, { partitions }) => sum + partitions, 0);
  const quota = new Int32Array(count).fill(Math.floor(total / count));
  // Who has most keeps most.
  const ranked = Array.from({ length: count }, (_, index) => index).toSorted(
    (left, right) => shares.load(right) - shares.load(left) || left - right,
  );
  for (const member of ranked.slice(0, total % count)) quota[member] = (quota[member] ?? 0) + 1;
  const roomOf = (member: number): number => (quota[member] ?? 0) - shares.load(member);
  // What is not being read yet goes first.
  for (const read of [false, true]) {
    for (const topic of shares.topics) {
      for (let partition = topic.partitions - 1; partition >= 0; partition -= 1) {
        const member = topic.owner[partition] ?? NOBODY;
        if (member !== NOBODY && roomOf(member) < 0 && (read || !shares.owns(member, topic, partition)))
          shares.give(topic, partition, NOBODY);
      }
    }
  }
  returnToReaders(shares, roomOf);
  let next = 0;
  for (const topic of shares.topics) {
    for (let partition = 0; partition < topic.partitions; partition += 1) {
      if (topic.owner[partition] !== NOBODY) continue;
      while (roomOf(next) <= 0) next = (next + 1) % count;
      shares.give(topic, partition, next);
      next = (next + 1) % count;
    }
  }
}

/** What nobody is meant to have goes to whoever is still reading it. */
function returnToReaders(shares: Shares, roomOf: (member: number) => number): void {
  const places = new Map(shares.topics.map((topic) => [topic.topicId, topic]));
  for (const [member, { owned }] of shares.members.entries()) {
    for (const [topicId, partitions] of owned) {
      const topic = places.get(topicId);
      if (topic === undefined || !topic.eligible.includes(member)) continue;
      for (const partition of partitions.keys())
        if (topic.owner[partition] === NOBODY && roomOf(member) > 0) shares.give(topic, partition, member);
    }
  }
}

/** Members want different topics: in the end no single move makes it more even. */
function shareBySubscription(shares: Shares): void {
  for (const topic of shares.topics) {
    for (let partition = 0; partition < topic.partitions; partition += 1) {
      if (topic.owner[partition] !== NOBODY) continue;
      const reader = topic.eligible.find((member) => shares.owns(member, topic, partition));
      const least = leastLoaded(shares, topic);
      const same = reader !== undefined && shares.load(reader) === shares.load(least);
      shares.give(topic, partition, same ? reader : least);
    }
  }
  while (evenOut(shares));
}

/** One round over all; each move makes the sum of the squared loads smaller, so rounds come to an end. */
function evenOut(shares: Shares): boolean {
  let moved = false;
  for (const topic of shares.topics) {
    for (const read of [false, true]) {
      for (let partition = 0; partition < topic.partitions; partition += 1) {
        const member = topic.owner[partition] ?? NOBODY;
        if (member === NOBODY || (!read && shares.owns(member, topic, partition))) continue;
        const least = leastLoaded(shares, topic);
        if (shares.load(member) - shares.load(least) < 2) continue;
        shares.give(topic, partition, least);
        moved = true;
      }
    }
  }
  return moved;
}

function leastLoaded(shares: Shares, topic: SharedTopic): number {
  let least = topic.eligible[0] ?? NOBODY;
  for (const member of topic.eligible) if (shares.load(member) < shares.load(least)) least = member;
  return least;
}
