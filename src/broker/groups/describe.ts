// A group as operators see it: members, owners, and how far behind each partition is.
import { NO_EPOCH, NO_TIMESTAMP, type TimestampMs, type TopicId } from '../../base/brands.ts';
import type { GroupState } from '../../base/group.ts';
import { listed } from '../../core/group/partitions.ts';
import { groupStateOf } from '../../core/group/membership.ts';
import { committedOffset } from '../../core/metadata/commits.ts';
import type {
  DescribedMember,
  DescribedPartition,
  DescribeGroupResponse,
} from '../../protocol/operations/describe-group.v1.ts';
import type { TopicState } from '../../replication/contract.ts';
import type { BrokerNode } from '../node.ts';

const SILENT_MS_MAX = 0xffff_ffff;

export async function describe(node: BrokerNode, group: GroupState): Promise<DescribeGroupResponse> {
  const owners = ownersOf(group);
  const partitions: DescribedPartition[] = [];
  // One after the other: each may read from the disk, and one client must not take all its threads.
  for (const { topic, partition } of partitionsOf(node, group))
    partitions.push(
      await describePartition(node, group, topic, partition, owners.get(placeKey(topic.topicId, partition))),
    );
  return {
    group: group.groupId,
    state: groupStateOf(group),
    generation: group.generation,
    now: node.ports.clock.wallMs(),
    members: Array.from(group.members.values())
      .toSorted((left, right) => (left.memberId < right.memberId ? -1 : 1))
      .map((member): DescribedMember => ({
        memberId: member.memberId,
        instanceId: member.instanceId,
        clientId: member.clientId,
        topics: member.topics,
        sessionTimeoutMs: member.sessionTimeoutMs,
        rebalanceTimeoutMs: member.rebalanceTimeoutMs,
        generation: member.generation,
        silentMs: Math.min(SILENT_MS_MAX, Math.round(node.groups.silentMs(group.groupId, member.memberId) ?? 0)),
        assigned: listed(member.owned, member.target, true),
        release: listed(member.owned, member.target, false),
      })),
    partitions,
  };
}

function placeKey(topicId: TopicId, partition: number): string {
  return `${topicId}/${String(partition)}`;
}

function ownersOf(group: GroupState): ReadonlyMap<string, string> {
  const owners = new Map<string, string>();
  for (const { memberId, owned } of group.members.values())
    for (const [topicId, partitions] of owned)
      for (const partition of partitions.keys()) owners.set(placeKey(topicId, partition), memberId);
  return owners;
}

/** Owned, meant to be owned, or with a committed offset; by topic name and partition. */
function partitionsOf(
  node: BrokerNode,
  group: GroupState,
): readonly { readonly topic: TopicState; readonly partition: number }[] {
  const image = node.metadata.image();
  const all = new Map<TopicId, Set<number>>();
  const add = (topicId: TopicId, partitions: Iterable<number>): void => {
    const known = all.get(topicId) ?? new Set<number>();
    for (const partition of partitions) known.add(partition);
    all.set(topicId, known);
  };
  for (const { owned, target } of group.members.values()) {
    for (const [topicId, partitions] of owned) add(topicId, partitions.keys());
    for (const [topicId, partitions] of target) add(topicId, partitions);
  }
  for (const [topicId, partitions] of image.offsets.get(group.groupId) ?? []) add(topicId, partitions.keys());
  return Array.from(all)
    .flatMap(([topicId, partitions]) => {
      const topic = image.topics.get(topicId);
      return topic === undefined ? [] : [{ topic, partitions }];
    })
    .toSorted((left, right) => (left.topic.name < right.topic.name ? -1 : 1))
    .flatMap(({ topic, partitions }) =>
      Array.from(partitions)
        .toSorted((left, right) => left - right)
        .map((partition) => ({ topic, partition })),
    );
}

type Progress = Pick<
  DescribedPartition,
  'logStart' | 'logEnd' | 'highWatermark' | 'lagBytes' | 'nextTimestamp' | 'retentionMarginMs' | 'retentionMarginBytes'
>;
const NOT_KNOWN: Progress = {
  logStart: undefined,
  logEnd: undefined,
  highWatermark: undefined,
  lagBytes: undefined,
  nextTimestamp: NO_TIMESTAMP as TimestampMs,
  retentionMarginMs: undefined,
  retentionMarginBytes: undefined,
};

async function describePartition(
  node: BrokerNode,
  group: GroupState,
  topic: TopicState,
  partition: number,
  memberId: string | undefined,
): Promise<DescribedPartition> {
  const { topicId, name } = topic;
  const committed = committedOffset(node.metadata.image(), group.groupId, topicId, partition);
  const held = node.replicas.find(topicId, partition);
  return {
    topicId,
    topic: name,
    partition,
    memberId,
    committed: committed?.offset,
    committedEpoch: committed?.leaderEpoch ?? NO_EPOCH,
    committedAt: committed?.at ?? NO_TIMESTAMP,
    metadata: committed?.metadata ?? '',
    ...(held.ok ? await progressOf(held.replica, committed?.offset) : NOT_KNOWN),
  };
}

async function progressOf(
  replica: Extract<ReturnType<BrokerNode['replicas']['find']>, { readonly ok: true }>['replica'],
  committed: DescribedPartition['committed'],
): Promise<Progress> {
  const { logStartOffset, logEndOffset, highWatermark } = replica;
  const place = await replica.placeOf(committed ?? logStartOffset);
  const overtaken = committed !== undefined && committed < logStartOffset;
  return {
    logStart: logStartOffset,
    logEnd: logEndOffset,
    highWatermark,
    lagBytes: place.bytesToEnd,
    nextTimestamp: place.timestamp,
    // Retention has been there already.
    retentionMarginMs: overtaken ? 0 : ceil(place.retainedForMs),
    retentionMarginBytes: overtaken ? 0 : place.retainedForBytes,
  };
}

function ceil(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.ceil(ms);
}
