// The cluster as the metadata log describes it. The maps belong to whoever applies entries; everything inside them is
// replaced, never changed, so that a reader may keep what it took.
import type { LeaderEpoch, NodeId, TopicId } from '../../base/brands.ts';
import type { CommittedOffset, GroupState } from '../../base/group.ts';

/** Named producers that are remembered. A name costs some 300 bytes. */
export const PRODUCER_NAMES_MAX = 65_536;
export const TOPICS_MAX = 65_536;
export const NODES_MAX = 1024;
export const REPLICAS_MAX = 64;
/** Deleted topics whose files may still lie on a node's disk. */
export const DELETED_TOPICS_KEPT = 1024;
export const CONFIG_ENTRIES_MAX = 256;
export const PRODUCER_EPOCH_MAX = 32_767;
/** Leader of a partition that has none. */
export const NO_LEADER = -1;

export interface NodeState {
  readonly nodeId: NodeId;
  /** 32 hex digits; a new disk has another. */
  readonly diskId: string;
  /** Counts the starts of that disk's store. */
  readonly incarnation: number;
  /** For clients; undefined until the node has said it. */
  readonly host: string | undefined;
  readonly port: number | undefined;
}

export interface PartitionState {
  /** NO_LEADER: none now. */
  readonly leader: number;
  readonly leaderEpoch: LeaderEpoch;
  /** Of this state: a PartitionChange names the version that it was decided on. */
  readonly version: number;
  readonly replicas: readonly NodeId[];
  readonly inSync: readonly NodeId[];
  /**
   * Left the in-sync set while it was below min.insync.replicas and have lost nothing since: the watermark stood still meanwhile, so
   * they hold all that was ever committed. Absent: none.
   */
  readonly eligible?: readonly NodeId[];
  /** Have a disk that came after the partition and were never in sync with it: they know nothing of what was committed. Absent: none. */
  readonly blank?: readonly NodeId[];
}

export interface TopicState {
  readonly topicId: TopicId;
  readonly name: string;
  /** What the topic sets itself; keys and values are checked by whoever proposes. */
  readonly config: ReadonlyMap<string, string>;
  readonly partitions: readonly PartitionState[];
}

export interface DeletedTopic {
  readonly partitions: number;
  /** Index of the entry that deleted it. */
  readonly index: number;
}

export interface ProducerIdentity {
  readonly producerId: number;
  /** 0 to PRODUCER_EPOCH_MAX. */
  readonly epoch: number;
}

/** What readers see. */
export interface MetadataView {
  /** The disk of the node that registered first; undefined until one has. */
  readonly clusterId: string | undefined;
  readonly nodes: ReadonlyMap<number, NodeState>;
  readonly topics: ReadonlyMap<TopicId, TopicState>;
  readonly topicIds: ReadonlyMap<string, TopicId>;
  readonly producers: ReadonlyMap<string, ProducerIdentity>;
  /** Never goes back: ids are not reused. */
  readonly nextProducerId: number;
  /** Oldest first; see DELETED_TOPICS_KEPT. */
  readonly deletedTopics: ReadonlyMap<TopicId, DeletedTopic>;
  /** Each has a member or a committed offset. */
  readonly groups: ReadonlyMap<string, GroupState>;
  /** By group, topic and partition. */
  readonly offsets: ReadonlyMap<string, ReadonlyMap<TopicId, ReadonlyMap<number, CommittedOffset>>>;
  /** Of all groups: committed offsets, members, partitions that they are meant to own. */
  readonly offsetCount: number;
  readonly memberCount: number;
  readonly assignedPartitions: number;
  /** No group that was forgotten has been in a later generation. */
  readonly generationFloor: number;
}

/** What `apply` changes. */
export interface MetadataImage extends MetadataView {
  clusterId: string | undefined;
  readonly nodes: Map<number, NodeState>;
  readonly topics: Map<TopicId, TopicState>;
  readonly topicIds: Map<string, TopicId>;
  readonly producers: Map<string, ProducerIdentity>;
  nextProducerId: number;
  readonly deletedTopics: Map<TopicId, DeletedTopic>;
  readonly groups: Map<string, GroupState>;
  readonly offsets: Map<string, Map<TopicId, Map<number, CommittedOffset>>>;
  offsetCount: number;
  memberCount: number;
  assignedPartitions: number;
  generationFloor: number;
}

export function emptyImage(): MetadataImage {
  return {
    clusterId: undefined,
    nodes: new Map(),
    topics: new Map(),
    topicIds: new Map(),
    producers: new Map(),
    nextProducerId: 0,
    deletedTopics: new Map(),
    groups: new Map(),
    offsets: new Map(),
    offsetCount: 0,
    memberCount: 0,
    assignedPartitions: 0,
    generationFloor: 0,
  };
}

export function topicByName(image: MetadataView, name: string): TopicState | undefined {
  const id = image.topicIds.get(name);
  return id === undefined ? undefined : image.topics.get(id);
}

/** In effect for a topic, as the registry of topic settings has it too: a majority, if the topic does not say. */
export function minInsyncOf(config: ReadonlyMap<string, string>, replicas: number): number {
  const own = Number(config.get('min.insync.replicas') ?? Number.NaN);
  return Math.min(Number.isSafeInteger(own) && own >= 1 ? own : Math.floor(replicas / 2) + 1, replicas);
}

/** Partitions for which the group has a committed offset. */
export function offsetsOf(image: MetadataView, groupId: string): number {
  let count = 0;
  for (const partitions of image.offsets.get(groupId)?.values() ?? []) count += partitions.size;
  return count;
}
