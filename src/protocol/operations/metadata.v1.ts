import type { LeaderEpoch, NodeId, TopicId } from '../../base/brands.ts';
import { type ByteReader, DecodeError } from '../../base/bytes.ts';
import { PARTITIONS_PER_TOPIC_MAX, REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import { type Failure, readFailure, writeFailure } from '../failure.ts';
import {
  CONFIG_ENTRIES_MAX,
  CONFIG_TEXT_BYTES_MAX,
  type Decoded,
  HOST_BYTES_MAX,
  LABEL_BYTES_MAX,
  type Pieces,
  REPLICAS_MAX,
  type Sink,
  decode,
  encode,
  readLeaderEpoch,
  readList,
  readNodeId,
  readOptionalNodeId,
  readOptionalTopicId,
  readTopicId,
  readTopicName,
  writeList,
  writeTopicId,
} from '../wire.ts';

export type TopicSelection =
  | { readonly kind: 'all' }
  /** No names: nodes and controller only. */
  | { readonly kind: 'names'; readonly names: readonly string[] }
  | { readonly kind: 'ids'; readonly ids: readonly TopicId[] };

export interface MetadataRequest {
  readonly topics: TopicSelection;
  /** Create named topics that are missing, where the broker allows that (`--auto-create-topics`). Consumers say false. */
  readonly autoCreate: boolean;
  readonly includeConfig: boolean;
}
export interface NodeEndpoint {
  readonly nodeId: NodeId;
  readonly host: string;
  readonly port: number;
}
export interface PartitionMetadata {
  readonly partition: number;
  /** Undefined: none now. */
  readonly leader: NodeId | undefined;
  readonly leaderEpoch: LeaderEpoch;
  readonly replicas: readonly NodeId[];
  readonly inSync: readonly NodeId[];
}
export interface ConfigEntry {
  readonly key: string;
  /** In effect. */
  readonly value: string;
  /** Not set for this topic. */
  readonly isDefault: boolean;
}
export interface TopicMetadata {
  /** Set: only `name` or `id`, whichever was asked for, means anything. */
  readonly failure: Failure | undefined;
  readonly name: string;
  readonly id: TopicId | undefined;
  /** Ascending from 0, without holes. */
  readonly partitions: readonly PartitionMetadata[];
  /** Empty unless asked for. */
  readonly config: readonly ConfigEntry[];
}
export interface MetadataResponse {
  readonly clusterId: string;
  readonly controllerId: NodeId | undefined;
  readonly nodes: readonly NodeEndpoint[];
  /** One for each asked for, in that order; all: by name. */
  readonly topics: readonly TopicMetadata[];
}

const SELECT_ALL = 0;
const SELECT_NAMES = 1;
const SELECT_IDS = 2;
const NODES_MAX = 1024;
const TOPICS_MAX = 1_000_000;

// request   = selection, auto create bool, include config bool
// selection = 0 u8 (all topics)
//           | 1 u8, count u32, count × name string
//           | 2 u8, count u32, count × topic id 16 bytes
export function encodeRequest(request: MetadataRequest): Pieces {
  return [
    encode((sink) => {
      const { topics } = request;
      if (topics.kind === 'all') sink.u8(SELECT_ALL);
      else if (topics.kind === 'names') writeList(sink.u8(SELECT_NAMES), topics.names, (name) => sink.string(name));
      else {
        writeList(sink.u8(SELECT_IDS), topics.ids, (id) => {
          writeTopicId(sink, id);
        });
      }
      sink.bool(request.autoCreate).bool(request.includeConfig);
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<MetadataRequest> {
  return decode(body, (reader) => ({
    topics: readSelection(reader),
    autoCreate: reader.bool(),
    includeConfig: reader.bool(),
  }));
}
function readSelection(reader: ByteReader): TopicSelection {
  const at = reader.at;
  const kind = reader.u8();
  const countMax = REQUEST_PARTITIONS_MAX;
  if (kind === SELECT_ALL) return { kind: 'all' };
  if (kind === SELECT_NAMES)
    return { kind: 'names', names: readList(reader, { elementBytesMin: 2, countMax }, () => readTopicName(reader)) };
  if (kind === SELECT_IDS)
    return { kind: 'ids', ids: readList(reader, { elementBytesMin: 16, countMax }, () => readTopicId(reader)) };
  throw new DecodeError(`topic selection is ${String(kind)}`, at);
}

// response  = cluster id string, controller id i32 (−1: none), count u32, count × node, count u32, count × topic
// node      = node id i32, host string, port u16
// topic     = error, name string, topic id 16 bytes (zeros: none), count u32, count × partition, count u32, count × setting
// partition = partition u32, leader id i32 (−1: none), leader epoch i32, count u32, count × replica node id i32,
//             count u32, count × in-sync node id i32
// setting   = key string, value string, is default bool
export function encodeResponse(response: MetadataResponse): Pieces {
  return [
    encode((sink) => {
      sink.string(response.clusterId).i32(response.controllerId ?? -1);
      writeList(sink, response.nodes, (node) => sink.i32(node.nodeId).string(node.host).u16(node.port));
      writeList(sink, response.topics, (topic) => {
        writeTopic(sink, topic);
      });
    }),
  ];
}
function writeTopic(sink: Sink, topic: TopicMetadata): void {
  writeFailure(sink, topic.failure);
  sink.string(topic.name);
  writeTopicId(sink, topic.id);
  writeList(sink, topic.partitions, (item) => {
    sink
      .u32(item.partition)
      .i32(item.leader ?? -1)
      .i32(item.leaderEpoch);
    writeList(sink, item.replicas, (id) => sink.i32(id));
    writeList(sink, item.inSync, (id) => sink.i32(id));
  });
  writeList(sink, topic.config, (item) => sink.string(item.key).string(item.value).bool(item.isDefault));
}
export function decodeResponse(body: Uint8Array): Decoded<MetadataResponse> {
  return decode(body, (reader) => ({
    clusterId: reader.string(LABEL_BYTES_MAX),
    controllerId: readOptionalNodeId(reader),
    nodes: readList(reader, { elementBytesMin: 8, countMax: NODES_MAX }, () => ({
      nodeId: readNodeId(reader),
      host: reader.string(HOST_BYTES_MAX),
      port: reader.u16(),
    })),
    topics: readList(reader, { elementBytesMin: 28, countMax: TOPICS_MAX }, () => readTopic(reader)),
  }));
}
function readTopic(reader: ByteReader): TopicMetadata {
  return {
    failure: readFailure(reader),
    name: readTopicName(reader),
    id: readOptionalTopicId(reader),
    partitions: readList(reader, { elementBytesMin: 20, countMax: PARTITIONS_PER_TOPIC_MAX }, () => ({
      partition: reader.u32(),
      leader: readOptionalNodeId(reader),
      leaderEpoch: readLeaderEpoch(reader),
      replicas: readNodeIds(reader),
      inSync: readNodeIds(reader),
    })),
    config: readList(reader, { elementBytesMin: 5, countMax: CONFIG_ENTRIES_MAX }, () => ({
      key: reader.string(CONFIG_TEXT_BYTES_MAX),
      value: reader.string(CONFIG_TEXT_BYTES_MAX),
      isDefault: reader.bool(),
    })),
  };
}
function readNodeIds(reader: ByteReader): NodeId[] {
  return readList(reader, { elementBytesMin: 4, countMax: REPLICAS_MAX }, () => readNodeId(reader));
}
