// Entries of the metadata log. Each begins with kind u8 and version u8; a kind or version that is not known stops whoever
// reads it: an entry that is not understood cannot be skipped.
import { nodeId, topicId, type NodeId, type TopicId } from '../../base/brands.ts';
import { ByteReader, ByteWriter, DecodeError, blobSize, stringSize } from '../../base/bytes.ts';
import { PARTITIONS_PER_TOPIC_MAX, TOPIC_NAME_BYTES_MAX } from '../../base/limits.ts';
import { groupEntrySize, readGroupEntry, writeGroupEntry, type GroupEntry } from './group-entry.ts';
import { CONFIG_ENTRIES_MAX, NO_LEADER, REPLICAS_MAX } from './image.ts';

/** A node has started. `clean` false: it may have lost what it had written and not synced. */
export interface RegisterNode {
  readonly kind: 'RegisterNode';
  readonly nodeId: NodeId;
  readonly diskId: string;
  readonly incarnation: number;
  readonly clean: boolean;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
}
/** `assignment`: for each partition the nodes that hold it, the first of them its leader. */
export interface CreateTopic {
  readonly kind: 'CreateTopic';
  readonly topicId: TopicId;
  readonly name: string;
  readonly assignment: readonly (readonly NodeId[])[];
  readonly config: readonly { readonly key: string; readonly value: string }[];
}
/** `value` undefined: back to the default. `added` go behind `expectedPartitions` existing partitions. */
export interface AlterTopic {
  readonly kind: 'AlterTopic';
  readonly topicId: TopicId;
  readonly config: readonly { readonly key: string; readonly value: string | undefined }[];
  readonly expectedPartitions: number;
  readonly added: readonly (readonly NodeId[])[];
}
export interface DeleteTopic {
  readonly kind: 'DeleteTopic';
  readonly topicId: TopicId;
}
/** Compare and set: refused unless the partition is still at `expectedVersion`. Another leader begins another epoch. */
export interface PartitionChange {
  readonly kind: 'PartitionChange';
  readonly topicId: TopicId;
  readonly partition: number;
  readonly expectedVersion: number;
  /** NO_LEADER: none. */
  readonly leader: number;
  readonly inSync: readonly NodeId[];
}
/** With a name: the same id again with the next epoch, which fences the older session. */
export interface InitProducer {
  readonly kind: 'InitProducer';
  readonly name: string | undefined;
}
/** Who votes in the cluster's consensus; of no concern to the image. `bytes`: as core/raft writes them. */
export interface Voters {
  readonly kind: 'Voters';
  readonly bytes: Uint8Array;
}
export type MetadataEntry =
  | RegisterNode
  | CreateTopic
  | AlterTopic
  | DeleteTopic
  | PartitionChange
  | InitProducer
  | Voters
  | GroupEntry;

type Kind = MetadataEntry['kind'];

/** Numbers on disk; never reused. */
const KINDS: Readonly<Record<Kind, number>> = {
  RegisterNode: 1,
  CreateTopic: 2,
  AlterTopic: 3,
  DeleteTopic: 4,
  PartitionChange: 5,
  InitProducer: 6,
  GroupGeneration: 7,
  OffsetsCommitted: 8,
  OffsetsReset: 9,
  GroupDeleted: 10,
  Voters: 11,
};
const VERSION = 1;
const CONFIG_KEY_BYTES_MAX = 128;
const CONFIG_VALUE_BYTES_MAX = 4096;
const HOST_BYTES_MAX = 255;
const VOTERS_BYTES_MAX = 8192;

/** Fixed part of an entry that no other size is asked for; what varies is counted by `sizeOf`. */
export function encodeEntry(entry: MetadataEntry): Uint8Array<ArrayBuffer> {
  const writer = new ByteWriter(2 + sizeOf(entry));
  writer.u8(KINDS[entry.kind]).u8(VERSION);
  switch (entry.kind) {
    case 'RegisterNode':
      writer.i32(entry.nodeId).string(entry.diskId).i64(entry.incarnation).bool(entry.clean);
      writer.string(entry.host ?? '').u16(entry.port ?? 0);
      break;
    case 'CreateTopic':
      writer.string(entry.topicId).string(entry.name);
      writeAssignment(writer, entry.assignment);
      writer.u32(entry.config.length);
      for (const { key, value } of entry.config) writer.string(key).string(value);
      break;
    case 'AlterTopic':
      writer.string(entry.topicId).u32(entry.config.length);
      for (const { key, value } of entry.config)
        writer
          .string(key)
          .bool(value !== undefined)
          .string(value ?? '');
      writer.u32(entry.expectedPartitions);
      writeAssignment(writer, entry.added);
      break;
    case 'DeleteTopic':
      writer.string(entry.topicId);
      break;
    case 'PartitionChange':
      writer.string(entry.topicId).u32(entry.partition).i64(entry.expectedVersion).i32(entry.leader);
      writeNodes(writer, entry.inSync);
      break;
    case 'InitProducer':
      writer.bool(entry.name !== undefined).string(entry.name ?? '');
      break;
    case 'Voters':
      writer.blob(entry.bytes);
      break;
    case 'GroupGeneration':
    case 'OffsetsCommitted':
    case 'OffsetsReset':
    case 'GroupDeleted':
      writeGroupEntry(writer, entry);
      break;
  }
  return writer.finish();
}

function sizeOf(entry: MetadataEntry): number {
  switch (entry.kind) {
    case 'RegisterNode':
      return 4 + stringSize(entry.diskId) + 8 + 1 + stringSize(entry.host ?? '') + 2;
    case 'CreateTopic':
      return (
        stringSize(entry.topicId) +
        stringSize(entry.name) +
        assignmentSize(entry.assignment) +
        4 +
        entry.config.reduce((sum, { key, value }) => sum + stringSize(key) + stringSize(value), 0)
      );
    case 'AlterTopic':
      return (
        stringSize(entry.topicId) +
        4 +
        entry.config.reduce((sum, { key, value }) => sum + stringSize(key) + 1 + stringSize(value ?? ''), 0) +
        4 +
        assignmentSize(entry.added)
      );
    case 'DeleteTopic':
      return stringSize(entry.topicId);
    case 'PartitionChange':
      return stringSize(entry.topicId) + 4 + 8 + 4 + 4 + 4 * entry.inSync.length;
    case 'InitProducer':
      return 1 + stringSize(entry.name ?? '');
    case 'Voters':
      return blobSize(entry.bytes);
    case 'GroupGeneration':
    case 'OffsetsCommitted':
    case 'OffsetsReset':
    case 'GroupDeleted':
      return groupEntrySize(entry);
  }
}

function assignmentSize(assignment: readonly (readonly NodeId[])[]): number {
  return assignment.reduce((sum, nodes) => sum + 4 + 4 * nodes.length, 4);
}
function writeAssignment(writer: ByteWriter, assignment: readonly (readonly NodeId[])[]): void {
  writer.u32(assignment.length);
  for (const nodes of assignment) writeNodes(writer, nodes);
}
export function writeNodes(writer: ByteWriter, nodes: readonly NodeId[]): void {
  writer.u32(nodes.length);
  for (const node of nodes) writer.i32(node);
}

export type DecodedEntry =
  | { readonly ok: true; readonly entry: MetadataEntry }
  /** newer: written by a version that knows more. damaged: does not follow its format. */
  | { readonly ok: false; readonly why: 'newer' | 'damaged'; readonly reason: string };

export function decodeEntry(bytes: Uint8Array): DecodedEntry {
  try {
    const reader = new ByteReader(bytes);
    const kind = reader.u8();
    const version = reader.u8();
    const name = (Object.keys(KINDS) as Kind[]).find((each) => KINDS[each] === kind);
    if (name === undefined)
      return { ok: false, why: 'newer', reason: `metadata entry of unknown kind ${String(kind)}` };
    if (version !== VERSION)
      return { ok: false, why: 'newer', reason: `metadata entry ${name} of unknown version ${String(version)}` };
    const entry = decodeBody(name, reader);
    reader.end();
    return { ok: true, entry };
  } catch (error) {
    if (error instanceof DecodeError) return { ok: false, why: 'damaged', reason: `metadata entry: ${error.message}` };
    throw error;
  }
}

function decodeBody(kind: Kind, reader: ByteReader): MetadataEntry {
  switch (kind) {
    case 'RegisterNode': {
      const body = {
        nodeId: readNode(reader),
        diskId: readDiskId(reader),
        incarnation: readCount(reader),
        clean: reader.bool(),
      };
      const host = reader.string(HOST_BYTES_MAX);
      const port = reader.u16();
      return host === '' ? { kind, ...body } : { kind, ...body, host, port };
    }
    case 'CreateTopic':
      return {
        kind,
        topicId: readTopicId(reader),
        name: reader.string(TOPIC_NAME_BYTES_MAX),
        assignment: readAssignment(reader),
        config: readConfig(reader),
      };
    case 'AlterTopic':
      return {
        kind,
        topicId: readTopicId(reader),
        config: readConfigChanges(reader),
        expectedPartitions: reader.u32(),
        added: readAssignment(reader),
      };
    case 'DeleteTopic':
      return { kind, topicId: readTopicId(reader) };
    case 'PartitionChange':
      return {
        kind,
        topicId: readTopicId(reader),
        partition: reader.u32(),
        expectedVersion: readCount(reader),
        leader: readLeader(reader),
        inSync: readNodes(reader),
      };
    case 'Voters':
      return { kind, bytes: reader.blob(VOTERS_BYTES_MAX).slice() };
    case 'InitProducer': {
      const named = reader.bool();
      const name = reader.string(TOPIC_NAME_BYTES_MAX);
      return { kind, name: named ? name : undefined };
    }
    case 'GroupGeneration':
    case 'OffsetsCommitted':
    case 'OffsetsReset':
    case 'GroupDeleted':
      return readGroupEntry(kind, reader);
  }
}

export function readTopicId(reader: ByteReader): TopicId {
  const { at } = reader;
  const text = reader.string(32);
  if (!/^[0-9a-f]{32}$/.test(text)) throw new DecodeError('a topic id has 32 hex digits', at);
  return topicId(text);
}
export function readDiskId(reader: ByteReader): string {
  const { at } = reader;
  const text = reader.string(32);
  if (!/^[0-9a-f]{32}$/.test(text)) throw new DecodeError('a disk id has 32 hex digits', at);
  return text;
}
export function readCount(reader: ByteReader): number {
  const { at } = reader;
  const value = reader.i64();
  if (value < 0) throw new DecodeError(`count ${String(value)}`, at);
  return value;
}
function readNode(reader: ByteReader): NodeId {
  const { at } = reader;
  const value = reader.i32();
  if (value < 0) throw new DecodeError(`node id ${String(value)}`, at);
  return nodeId(value);
}
export function readLeader(reader: ByteReader): number {
  const { at } = reader;
  const value = reader.i32();
  if (value < NO_LEADER) throw new DecodeError(`leader ${String(value)}`, at);
  return value;
}
export function readNodes(reader: ByteReader): NodeId[] {
  const { at } = reader;
  const count = reader.count(4);
  if (count > REPLICAS_MAX) throw new DecodeError(`${String(count)} nodes, at most ${String(REPLICAS_MAX)}`, at);
  return Array.from({ length: count }, () => readNode(reader));
}
function readAssignment(reader: ByteReader): NodeId[][] {
  const { at } = reader;
  const count = reader.count(4);
  if (count > PARTITIONS_PER_TOPIC_MAX)
    throw new DecodeError(`${String(count)} partitions, at most ${String(PARTITIONS_PER_TOPIC_MAX)}`, at);
  return Array.from({ length: count }, () => readNodes(reader));
}
function configCount(reader: ByteReader): number {
  const { at } = reader;
  const count = reader.count(4);
  if (count > CONFIG_ENTRIES_MAX)
    throw new DecodeError(`${String(count)} settings, at most ${String(CONFIG_ENTRIES_MAX)}`, at);
  return count;
}
export function readConfig(reader: ByteReader): { readonly key: string; readonly value: string }[] {
  return Array.from({ length: configCount(reader) }, () => ({
    key: reader.string(CONFIG_KEY_BYTES_MAX),
    value: reader.string(CONFIG_VALUE_BYTES_MAX),
  }));
}
function readConfigChanges(reader: ByteReader): { readonly key: string; readonly value: string | undefined }[] {
  return Array.from({ length: configCount(reader) }, () => {
    const key = reader.string(CONFIG_KEY_BYTES_MAX);
    const present = reader.bool();
    const value = reader.string(CONFIG_VALUE_BYTES_MAX);
    return { key, value: present ? value : undefined };
  });
}
