// The image as keys and values: for the store that follows behind, and for snapshots. One row for each node, topic,
// partition and named producer, so that a change touches few rows.
import { leaderEpoch, nodeId, topicId, type TopicId } from '../../base/brands.ts';
import { ByteReader, ByteWriter, DecodeError, stringSize } from '../../base/bytes.ts';
import { addGroupRows, GroupRows } from './group-rows.ts';
import { encodeNumber, ROW_VERSION as VERSION } from './row.ts';
import { readConfig, readCount, readDiskId, readLeader, readNodes, writeNodes } from './entry.ts';
import {
  emptyImage,
  PRODUCER_EPOCH_MAX,
  type MetadataImage,
  type MetadataView,
  type NodeState,
  type PartitionState,
  type ProducerIdentity,
  type TopicState,
} from './image.ts';

export type { RowChange } from './row.ts';

export const NEXT_PRODUCER_KEY = 'next-producer-id';
export const CLUSTER_KEY = 'cluster-id';
/** In snapshots of a cluster: term and voters at its index. Not part of the image. */
export const CONSENSUS_KEY = 'consensus';
const HOST_BYTES_MAX = 255;
const PARTITIONS_MAX = 0xffff;

export function nodeKey(id: number): string {
  return `node/${String(id)}`;
}
export function topicKey(id: TopicId): string {
  return `topic/${id}`;
}
export function partitionKey(id: TopicId, partition: number): string {
  return `partition/${id}/${String(partition)}`;
}
export function producerKey(name: string): string {
  return `producer/${name}`;
}
export function deletedKey(id: TopicId): string {
  return `deleted/${id}`;
}

export function encodeNode(node: NodeState): Uint8Array {
  const host = node.host ?? '';
  return new ByteWriter(1 + stringSize(node.diskId) + 8 + stringSize(host) + 2)
    .u8(VERSION)
    .string(node.diskId)
    .i64(node.incarnation)
    .string(host)
    .u16(node.port ?? 0)
    .finish();
}
export function encodeClusterId(diskId: string): Uint8Array {
  return new ByteWriter(1 + stringSize(diskId)).u8(VERSION).string(diskId).finish();
}
export function encodeTopic(topic: TopicState): Uint8Array {
  const config = [...topic.config].toSorted(([left], [right]) => (left < right ? -1 : 1));
  const size = config.reduce(
    (sum, [key, value]) => sum + stringSize(key) + stringSize(value),
    1 + stringSize(topic.name) + 4 + 4,
  );
  const writer = new ByteWriter(size).u8(VERSION).string(topic.name).u32(topic.partitions.length).u32(config.length);
  for (const [key, value] of config) writer.string(key).string(value);
  return writer.finish();
}
export function encodePartition(state: PartitionState): Uint8Array {
  const { replicas, inSync, eligible = [], blank = [] } = state;
  const lists = eligible.length + blank.length > 0 ? [replicas, inSync, eligible, blank] : [replicas, inSync];
  const writer = new ByteWriter(lists.reduce((sum, nodes) => sum + 4 + 4 * nodes.length, 1 + 4 + 4 + 8));
  writer.u8(VERSION).i32(state.leader).i32(state.leaderEpoch).i64(state.version);
  for (const nodes of lists) writeNodes(writer, nodes);
  return writer.finish();
}
export function encodeProducer(identity: ProducerIdentity): Uint8Array {
  return new ByteWriter(11).u8(VERSION).i64(identity.producerId).u16(identity.epoch).finish();
}
/** Where it stands in the order of deletions goes in too: rows have no order of their own. */
export function encodeDeleted(partitions: number, at: number): Uint8Array {
  return new ByteWriter(13).u8(VERSION).u32(partitions).i64(at).finish();
}

export function imageRows(image: MetadataView): Map<string, Uint8Array> {
  const rows = new Map<string, Uint8Array>();
  rows.set(NEXT_PRODUCER_KEY, encodeNumber(image.nextProducerId));
  if (image.clusterId !== undefined) rows.set(CLUSTER_KEY, encodeClusterId(image.clusterId));
  for (const node of image.nodes.values()) rows.set(nodeKey(node.nodeId), encodeNode(node));
  for (const topic of image.topics.values()) {
    rows.set(topicKey(topic.topicId), encodeTopic(topic));
    for (const [index, partition] of topic.partitions.entries())
      rows.set(partitionKey(topic.topicId, index), encodePartition(partition));
  }
  for (const [name, identity] of image.producers) rows.set(producerKey(name), encodeProducer(identity));
  for (const [id, deleted] of image.deletedTopics)
    rows.set(deletedKey(id), encodeDeleted(deleted.partitions, deleted.index));
  addGroupRows(image, rows);
  return rows;
}

export type RestoredImage =
  | { readonly ok: true; readonly image: MetadataImage }
  | { readonly ok: false; readonly reason: string };

/** Refuses rows that it does not know, and topics with rows missing: such an image is rebuilt from the log. */
export function imageFromRows(rows: ReadonlyMap<string, Uint8Array>): RestoredImage {
  const image = emptyImage();
  let at = '';
  try {
    if (!rows.has(NEXT_PRODUCER_KEY)) return { ok: false, reason: `no row ${NEXT_PRODUCER_KEY}` };
    const deleted: { id: TopicId; partitions: number; index: number }[] = [];
    let partitionRows = 0;
    const groups = new GroupRows();
    for (const [key, bytes] of rows) {
      at = key;
      const reader = new ByteReader(bytes);
      const version = reader.u8();
      if (version !== VERSION) return { ok: false, reason: `row ${key} has version ${String(version)}` };
      const slash = key.indexOf('/');
      const name = key.slice(slash + 1);
      const kind = slash < 0 ? key : key.slice(0, slash);
      switch (kind) {
        case CONSENSUS_KEY:
          continue;
        case NEXT_PRODUCER_KEY:
          image.nextProducerId = readCount(reader);
          break;
        case CLUSTER_KEY:
          image.clusterId = readDiskId(reader);
          break;
        case 'node':
          restoreNode(image, name, reader);
          break;
        case 'topic':
          restoreTopic(image, name, reader, rows);
          break;
        case 'partition':
          partitionRows += 1;
          continue;
        case 'producer':
          image.producers.set(name, readProducer(reader));
          break;
        case 'deleted':
          deleted.push({ id: idIn(name), partitions: reader.u32(), index: readCount(reader) });
          break;
        default:
          if (!groups.take(image, kind, name, reader)) return { ok: false, reason: `unknown row ${key}` };
      }
      reader.end();
    }
    const expected = [...image.topics.values()].reduce((sum, topic) => sum + topic.partitions.length, 0);
    if (expected !== partitionRows)
      return { ok: false, reason: `${String(partitionRows)} partition rows, the topics have ${String(expected)}` };
    for (const { id, partitions, index } of deleted.toSorted((left, right) => left.index - right.index))
      image.deletedTopics.set(id, { partitions, index });
    const missing = groups.finish(image);
    return missing === undefined ? { ok: true, image } : { ok: false, reason: missing };
  } catch (error) {
    if (error instanceof DecodeError) return { ok: false, reason: `row ${at}: ${error.message}` };
    throw error;
  }
}

function idIn(text: string): TopicId {
  if (!/^[0-9a-f]{32}$/.test(text)) throw new DecodeError('a topic id has 32 hex digits', 0);
  return topicId(text);
}

function restoreNode(image: MetadataImage, name: string, reader: ByteReader): void {
  if (!/^\d{1,10}$/.test(name)) throw new DecodeError('not a node id', 0);
  const id = nodeId(Number(name));
  const diskId = readDiskId(reader);
  const incarnation = readCount(reader);
  const host = reader.string(HOST_BYTES_MAX);
  const port = reader.u16();
  image.nodes.set(id, {
    nodeId: id,
    diskId,
    incarnation,
    host: host === '' ? undefined : host,
    port: host === '' ? undefined : port,
  });
}

function restoreTopic(
  image: MetadataImage,
  name: string,
  reader: ByteReader,
  rows: ReadonlyMap<string, Uint8Array>,
): void {
  const id = idIn(name);
  const topicName = reader.string();
  const count = reader.u32();
  if (count > PARTITIONS_MAX) throw new DecodeError(`${String(count)} partitions`, reader.at);
  const config = new Map(readConfig(reader).map(({ key, value }) => [key, value]));
  const partitions: PartitionState[] = [];
  for (let index = 0; index < count; index += 1) {
    const row = rows.get(partitionKey(id, index));
    if (row === undefined) throw new DecodeError(`no row for partition ${String(index)}`, 0);
    partitions.push(readPartition(row));
  }
  image.topics.set(id, { topicId: id, name: topicName, config, partitions });
  image.topicIds.set(topicName, id);
}

function readPartition(row: Uint8Array): PartitionState {
  const reader = new ByteReader(row);
  if (reader.u8() !== VERSION) throw new DecodeError('partition row of another version', 0);
  const leader = readLeader(reader);
  const epoch = reader.i32();
  if (epoch < 0) throw new DecodeError(`leader epoch ${String(epoch)}`, 5);
  const version = readCount(reader);
  const replicas = readNodes(reader);
  const inSync = readNodes(reader);
  const [eligible, blank] = reader.remaining > 0 ? [readNodes(reader), readNodes(reader)] : [[], []];
  reader.end();
  return {
    leader,
    leaderEpoch: leaderEpoch(epoch),
    version,
    replicas,
    inSync,
    ...(eligible.length > 0 ? { eligible } : {}),
    ...(blank.length > 0 ? { blank } : {}),
  };
}

function readProducer(reader: ByteReader): ProducerIdentity {
  const producerId = readCount(reader);
  const epoch = reader.u16();
  if (epoch > PRODUCER_EPOCH_MAX) throw new DecodeError(`producer epoch ${String(epoch)}`, 9);
  return { producerId, epoch };
}
