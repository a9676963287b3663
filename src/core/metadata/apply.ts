// What an entry does to the image. Deterministic: every node that applies the same entries in the same order holds the same
// image and gives the same outcomes. A refused entry changes nothing.
import { assert } from '../../base/assert.ts';
import { leaderEpoch, type NodeId, type TopicId } from '../../base/brands.ts';
import type { ErrorName } from '../../base/errors.ts';
import { isTopicName, PARTITIONS_PER_TOPIC_MAX } from '../../base/limits.ts';
import type {
  AlterTopic,
  CreateTopic,
  DeleteTopic,
  InitProducer,
  MetadataEntry,
  PartitionChange,
  RegisterNode,
} from './entry.ts';
import {
  changeGroup,
  commitOffsets,
  deleteGroup,
  dropTopic,
  resetOffsets,
  type GroupOutcome,
  type GroupValue,
} from './groups.ts';
import {
  CONFIG_ENTRIES_MAX,
  DELETED_TOPICS_KEPT,
  NO_LEADER,
  NODES_MAX,
  PRODUCER_EPOCH_MAX,
  PRODUCER_NAMES_MAX,
  REPLICAS_MAX,
  TOPICS_MAX,
  type MetadataImage,
  type PartitionState,
  type TopicState,
} from './image.ts';
import { changedPartition, forgetTail, underSettings } from './partitions.ts';
import {
  CLUSTER_KEY,
  deletedKey,
  encodeClusterId,
  encodeDeleted,
  encodeNode,
  encodePartition,
  encodeProducer,
  encodeTopic,
  NEXT_PRODUCER_KEY,
  nodeKey,
  partitionKey,
  producerKey,
  topicKey,
  type RowChange,
} from './rows.ts';
import { encodeNumber } from './row.ts';

export type EntryValue =
  | GroupValue
  | { readonly kind: 'RegisterNode'; readonly epochsBumped: number }
  | { readonly kind: 'CreateTopic'; readonly topicId: TopicId }
  | { readonly kind: 'AlterTopic'; readonly partitions: number }
  | { readonly kind: 'DeleteTopic' }
  | { readonly kind: 'PartitionChange'; readonly version: number; readonly leaderEpoch: number }
  | { readonly kind: 'Voters' }
  | { readonly kind: 'InitProducer'; readonly producerId: number; readonly producerEpoch: number };

export type EntryOutcome =
  | { readonly ok: true; readonly value: EntryValue }
  | { readonly ok: false; readonly code: ErrorName; readonly message: string };

export interface Applied {
  readonly outcome: EntryOutcome;
  /** Rows that differ from before, in the order to write them. */
  readonly changes: readonly RowChange[];
  /** Topics whose state changed: created, altered, deleted, or with another leader. */
  readonly topics: readonly TopicId[];
}

function refuse(code: ErrorName, message: string): Applied {
  return { outcome: { ok: false, code, message }, changes: [], topics: [] };
}
function done(value: EntryValue, changes: readonly RowChange[], topics: readonly TopicId[] = []): Applied {
  return { outcome: { ok: true, value }, changes, topics };
}

export function apply(image: MetadataImage, index: number, entry: MetadataEntry): Applied {
  switch (entry.kind) {
    case 'RegisterNode':
      return registerNode(image, entry);
    case 'CreateTopic':
      return createTopic(image, entry);
    case 'AlterTopic':
      return alterTopic(image, entry);
    case 'DeleteTopic':
      return deleteTopic(image, index, entry);
    case 'PartitionChange':
      return changePartition(image, entry);
    case 'InitProducer':
      return initProducer(image, entry);
    case 'Voters':
      return done({ kind: 'Voters' }, []);
    case 'GroupGeneration':
      return ofGroup(changeGroup(image, entry));
    case 'OffsetsCommitted':
      return ofGroup(commitOffsets(image, entry));
    case 'OffsetsReset':
      return ofGroup(resetOffsets(image, entry));
    case 'GroupDeleted':
      return ofGroup(deleteGroup(image, entry));
  }
}

function ofGroup(outcome: GroupOutcome): Applied {
  return outcome.ok ? done(outcome.value, outcome.changes) : refuse(outcome.code, outcome.message);
}

function registerNode(image: MetadataImage, entry: RegisterNode): Applied {
  const before = image.nodes.get(entry.nodeId);
  if (before === undefined && image.nodes.size >= NODES_MAX)
    return refuse('INVALID_ARGUMENT', `there are ${String(NODES_MAX)} nodes already`);
  if (before !== undefined && before.diskId === entry.diskId && entry.incarnation < before.incarnation) {
    return refuse(
      'INVALID_ARGUMENT',
      `incarnation ${String(entry.incarnation)} is older than ${String(before.incarnation)}`,
    );
  }
  const node = {
    nodeId: entry.nodeId,
    diskId: entry.diskId,
    incarnation: entry.incarnation,
    host: entry.host ?? before?.host,
    port: entry.host === undefined ? before?.port : entry.port,
  };
  image.nodes.set(entry.nodeId, node);
  const changes: RowChange[] = [{ key: nodeKey(entry.nodeId), value: encodeNode(node) }];
  if (image.clusterId === undefined) {
    image.clusterId = entry.diskId;
    changes.push({ key: CLUSTER_KEY, value: encodeClusterId(entry.diskId) });
  }
  const others = changes.length;
  // The same start said again (another address, say) has lost nothing since.
  const sameStart = before !== undefined && before.diskId === entry.diskId && before.incarnation === entry.incarnation;
  // A disk that is not the one before holds nothing of what was acknowledged, however cleanly it was stopped.
  const lostTail = before !== undefined && !sameStart && (!entry.clean || before.diskId !== entry.diskId);
  const newDisk = before !== undefined && before.diskId !== entry.diskId;
  const topics = lostTail ? forgetTail(image, entry.nodeId, newDisk, changes) : [];
  return done({ kind: 'RegisterNode', epochsBumped: changes.length - others }, changes, topics);
}

function checkAssignment(assignment: readonly (readonly NodeId[])[]): string | undefined {
  for (const [index, nodes] of assignment.entries()) {
    if (nodes.length < 1 || nodes.length > REPLICAS_MAX)
      return `partition ${String(index)} has ${String(nodes.length)} replicas`;
    if (new Set(nodes).size !== nodes.length) return `partition ${String(index)} has a node twice`;
  }
  return undefined;
}

function newPartition(replicas: readonly NodeId[]): PartitionState {
  return { leader: replicas[0] ?? NO_LEADER, leaderEpoch: leaderEpoch(0), version: 0, replicas, inSync: replicas };
}

function createTopic(image: MetadataImage, entry: CreateTopic): Applied {
  if (!isTopicName(entry.name)) return refuse('INVALID_TOPIC_NAME', `"${entry.name}" is not a topic name`);
  if (image.topicIds.has(entry.name)) return refuse('TOPIC_EXISTS', `topic ${entry.name} exists`);
  if (image.topics.has(entry.topicId) || image.deletedTopics.has(entry.topicId))
    return refuse('INVALID_ARGUMENT', `topic id ${entry.topicId} is in use`);
  if (image.topics.size >= TOPICS_MAX)
    return refuse('INVALID_ARGUMENT', `there are ${String(TOPICS_MAX)} topics already`);
  const count = entry.assignment.length;
  if (count < 1 || count > PARTITIONS_PER_TOPIC_MAX)
    return refuse('INVALID_ARGUMENT', `${String(count)} partitions, allowed 1 to ${String(PARTITIONS_PER_TOPIC_MAX)}`);
  const fault = checkAssignment(entry.assignment);
  if (fault !== undefined) return refuse('INVALID_ARGUMENT', fault);
  const config = new Map(entry.config.map(({ key, value }) => [key, value]));
  if (config.size > CONFIG_ENTRIES_MAX) return refuse('INVALID_CONFIG', `${String(config.size)} settings`);
  const topic: TopicState = {
    topicId: entry.topicId,
    name: entry.name,
    config,
    partitions: entry.assignment.map(newPartition),
  };
  image.topics.set(topic.topicId, topic);
  image.topicIds.set(topic.name, topic.topicId);
  const changes: RowChange[] = topic.partitions.map((partition, index) => ({
    key: partitionKey(topic.topicId, index),
    value: encodePartition(partition),
  }));
  changes.push({ key: topicKey(topic.topicId), value: encodeTopic(topic) });
  return done({ kind: 'CreateTopic', topicId: topic.topicId }, changes, [topic.topicId]);
}

function alterTopic(image: MetadataImage, entry: AlterTopic): Applied {
  const before = image.topics.get(entry.topicId);
  if (before === undefined) return refuse('UNKNOWN_TOPIC', `there is no topic ${entry.topicId}`);
  const count = before.partitions.length + entry.added.length;
  if (entry.expectedPartitions !== before.partitions.length) {
    return refuse(
      'INVALID_ARGUMENT',
      `the topic has ${String(before.partitions.length)} partitions by now, not ${String(entry.expectedPartitions)}`,
    );
  }
  if (count > PARTITIONS_PER_TOPIC_MAX)
    return refuse('INVALID_ARGUMENT', `${String(count)} partitions, allowed 1 to ${String(PARTITIONS_PER_TOPIC_MAX)}`);
  const fault = checkAssignment(entry.added);
  if (fault !== undefined) return refuse('INVALID_ARGUMENT', fault);
  const config = new Map(before.config);
  for (const { key, value } of entry.config) {
    if (value === undefined) config.delete(key);
    else config.set(key, value);
  }
  if (config.size > CONFIG_ENTRIES_MAX) return refuse('INVALID_CONFIG', `${String(config.size)} settings`);
  const added = entry.added.map(newPartition);
  const changes: RowChange[] = added.map((partition, index) => ({
    key: partitionKey(before.topicId, before.partitions.length + index),
    value: encodePartition(partition),
  }));
  const kept = underSettings(before, config, changes);
  const topic: TopicState = { ...before, config, partitions: [...kept, ...added] };
  image.topics.set(topic.topicId, topic);
  changes.push({ key: topicKey(topic.topicId), value: encodeTopic(topic) });
  return done({ kind: 'AlterTopic', partitions: count }, changes, [topic.topicId]);
}

function deleteTopic(image: MetadataImage, index: number, entry: DeleteTopic): Applied {
  const topic = image.topics.get(entry.topicId);
  if (topic === undefined) return refuse('UNKNOWN_TOPIC', `there is no topic ${entry.topicId}`);
  image.topics.delete(topic.topicId);
  image.topicIds.delete(topic.name);
  const deleted = { partitions: topic.partitions.length, index };
  image.deletedTopics.set(topic.topicId, deleted);
  const changes: RowChange[] = topic.partitions.map((_, partition) => ({
    key: partitionKey(topic.topicId, partition),
    value: undefined,
  }));
  changes.push({ key: topicKey(topic.topicId), value: undefined });
  changes.push({ key: deletedKey(topic.topicId), value: encodeDeleted(deleted.partitions, deleted.index) });
  for (const oldest of image.deletedTopics.keys()) {
    if (image.deletedTopics.size <= DELETED_TOPICS_KEPT) break;
    image.deletedTopics.delete(oldest);
    changes.push({ key: deletedKey(oldest), value: undefined });
  }
  dropTopic(image, topic.topicId, changes);
  return done({ kind: 'DeleteTopic' }, changes, [topic.topicId]);
}

function changePartition(image: MetadataImage, entry: PartitionChange): Applied {
  const changed = changedPartition(image, entry);
  if (!changed.ok) return refuse(changed.code, changed.message);
  const { topic, state } = changed;
  image.topics.set(topic.topicId, { ...topic, partitions: topic.partitions.with(entry.partition, state) });
  const changes = [{ key: partitionKey(topic.topicId, entry.partition), value: encodePartition(state) }];
  return done({ kind: 'PartitionChange', version: state.version, leaderEpoch: state.leaderEpoch }, changes, [
    topic.topicId,
  ]);
}

function initProducer(image: MetadataImage, entry: InitProducer): Applied {
  const before = entry.name === undefined ? undefined : image.producers.get(entry.name);
  if (entry.name !== undefined && before === undefined && image.producers.size >= PRODUCER_NAMES_MAX) {
    return refuse('INVALID_ARGUMENT', `there are ${String(PRODUCER_NAMES_MAX)} producer names already`);
  }
  const changes: RowChange[] = [];
  // Epochs have 15 bits in the batch header: when they are used up the name gets a fresh id.
  const continues = before !== undefined && before.epoch < PRODUCER_EPOCH_MAX;
  const identity = continues
    ? { producerId: before.producerId, epoch: before.epoch + 1 }
    : { producerId: image.nextProducerId, epoch: 0 };
  if (!continues) {
    assert(Number.isSafeInteger(image.nextProducerId + 1), 'producer ids are used up');
    image.nextProducerId += 1;
    changes.push({ key: NEXT_PRODUCER_KEY, value: encodeNumber(image.nextProducerId) });
  }
  if (entry.name !== undefined) {
    image.producers.set(entry.name, identity);
    changes.push({ key: producerKey(entry.name), value: encodeProducer(identity) });
  }
  return done({ kind: 'InitProducer', producerId: identity.producerId, producerEpoch: identity.epoch }, changes);
}
