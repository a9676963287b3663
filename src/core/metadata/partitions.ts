// Who leads a partition, who is in sync with it, and what is known of the rest, from one entry to the next.
import { leaderEpoch, type NodeId, type TopicId } from '../../base/brands.ts';
import type { ErrorName } from '../../base/errors.ts';
import type { PartitionChange } from './entry.ts';
import { minInsyncOf, NO_LEADER, type MetadataImage, type PartitionState, type TopicState } from './image.ts';
import { encodePartition, partitionKey, type RowChange } from './rows.ts';

/** Lists that are empty are left out: rows of a cluster without trouble stay as short as they were. */
function withLists(
  state: PartitionState,
  eligible: readonly NodeId[] = [],
  blank: readonly NodeId[] = [],
): PartitionState {
  const { leader, leaderEpoch: epoch, version, replicas, inSync } = state;
  return {
    leader,
    leaderEpoch: epoch,
    version,
    replicas,
    inSync,
    ...(eligible.length > 0 ? { eligible } : {}),
    ...(blank.length > 0 ? { blank } : {}),
  };
}

export type ChangedPartition =
  | { readonly ok: true; readonly topic: TopicState; readonly state: PartitionState }
  | { readonly ok: false; readonly code: ErrorName; readonly message: string };

export function changedPartition(image: MetadataImage, entry: PartitionChange): ChangedPartition {
  const refuse = (code: ErrorName, message: string): ChangedPartition => ({ ok: false, code, message });
  const topic = image.topics.get(entry.topicId);
  if (topic === undefined) return refuse('UNKNOWN_TOPIC', `there is no topic ${entry.topicId}`);
  const before = topic.partitions[entry.partition];
  if (before === undefined)
    return refuse('UNKNOWN_PARTITION', `topic ${topic.name} has no partition ${String(entry.partition)}`);
  if (before.version !== entry.expectedVersion) {
    return refuse(
      'FENCED_LEADER_EPOCH',
      `the partition is at version ${String(before.version)}, not ${String(entry.expectedVersion)}`,
    );
  }
  const { inSync, leader } = entry;
  const members = new Set<number>(inSync);
  if (members.size !== inSync.length || inSync.some((node) => !before.replicas.includes(node)))
    return refuse('INVALID_ARGUMENT', 'the in-sync set has a node twice, or one that is no replica');
  if (leader !== NO_LEADER && !members.has(leader))
    return refuse('INVALID_ARGUMENT', 'the leader is not in the in-sync set');
  const left = [...(before.eligible ?? []), ...before.inSync];
  // Above the minimum the watermark moves on without those who have left.
  const below = inSync.length < minInsyncOf(topic.config, before.replicas.length);
  const eligible = below ? [...new Set(left)].filter((node) => !members.has(node)) : [];
  const blank = (before.blank ?? []).filter((node) => !members.has(node));
  const epoch = leader === before.leader ? before.leaderEpoch : leaderEpoch(before.leaderEpoch + 1);
  const state = { ...before, leader, leaderEpoch: epoch, version: before.version + 1, inSync };
  return { ok: true, topic, state: withLists(state, eligible, blank) };
}

/**
 * A node has come back without what it may have written last. As the only replica it goes on with a new epoch, so that what is
 * written from now on is told apart; else it is in no in-sync set any more, and leads nothing. Each of its partitions gets another
 * version: a leader that was about to take it in decided so before it was lost.
 */
export function forgetTail(image: MetadataImage, node: NodeId, newDisk: boolean, changes: RowChange[]): TopicId[] {
  const touched: TopicId[] = [];
  for (const topic of image.topics.values()) {
    if (!topic.partitions.some(({ replicas }) => replicas.includes(node))) continue;
    const partitions = topic.partitions.map((before, index) => {
      if (!before.replicas.includes(node)) return before;
      const next = withoutTail(before, node, newDisk);
      changes.push({ key: partitionKey(topic.topicId, index), value: encodePartition(next) });
      return next;
    });
    image.topics.set(topic.topicId, { ...topic, partitions });
    touched.push(topic.topicId);
  }
  return touched;
}

function withoutTail(before: PartitionState, node: NodeId, newDisk: boolean): PartitionState {
  const led = before.leader === node;
  const state = {
    ...before,
    leaderEpoch: led ? leaderEpoch(before.leaderEpoch + 1) : before.leaderEpoch,
    version: before.version + 1,
  };
  if (before.replicas.length === 1) return state;
  const others = (nodes: readonly NodeId[] = []): NodeId[] => nodes.filter((each) => each !== node);
  const blank = newDisk ? [...others(before.blank), node] : before.blank;
  const leader = led ? NO_LEADER : before.leader;
  return withLists({ ...state, leader, inSync: others(before.inSync) }, others(before.eligible), blank);
}

/** With a lower minimum the watermark may move on: those who left under the higher one may miss something from then on. */
export function underSettings(
  topic: TopicState,
  config: ReadonlyMap<string, string>,
  changes: RowChange[],
): readonly PartitionState[] {
  return topic.partitions.map((before, index) => {
    const enough = before.inSync.length >= minInsyncOf(config, before.replicas.length);
    if (before.eligible === undefined || !enough) return before;
    const next = withLists({ ...before, version: before.version + 1 }, [], before.blank);
    changes.push({ key: partitionKey(topic.topicId, index), value: encodePartition(next) });
    return next;
  });
}
