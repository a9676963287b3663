// Entries about consumer groups, and the bytes of what they hold.
import {
  leaderEpoch as asLeaderEpoch,
  offset as asOffset,
  timestampMs,
  topicId as asTopicId,
  type TimestampMs,
  type TopicId,
} from '../../base/brands.ts';
import { type ByteReader, type ByteWriter, DecodeError, stringSize } from '../../base/bytes.ts';
import type { GroupChange, GroupMember, OwnedPartitions, PartitionSet } from '../../base/group.ts';
import {
  CLIENT_ID_BYTES_MAX,
  COMMIT_METADATA_BYTES_MAX,
  GROUP_ID_BYTES_MAX,
  GROUP_MEMBERS_MAX,
  GROUP_PARTITIONS_MAX,
  GROUP_TOPICS_MAX,
  MEMBER_ID_BYTES_MAX,
  REQUEST_PARTITIONS_MAX,
  TOPIC_NAME_BYTES_MAX,
} from '../../base/limits.ts';
import type { OffsetCommit } from './commits.ts';

/** Refused unless it follows the group's generation. */
export interface GroupGeneration extends GroupChange {
  readonly kind: 'GroupGeneration';
}
export interface CommitOfMember {
  readonly groupId: string;
  readonly memberId: string;
  readonly generation: number;
  readonly offsets: readonly OffsetCommit[];
}
/** Commits of any number of members. Which of their partitions count is decided when it is applied. */
export interface OffsetsCommitted {
  readonly kind: 'OffsetsCommitted';
  readonly at: TimestampMs;
  readonly commits: readonly CommitOfMember[];
}
/** By an operator: backwards too, all or none, and only while nobody owns a partition of the group. */
export interface OffsetsReset {
  readonly kind: 'OffsetsReset';
  readonly groupId: string;
  /** The group's, after it. */
  readonly generation: number;
  readonly at: TimestampMs;
  readonly offsets: readonly OffsetCommit[];
}
export interface GroupDeleted {
  readonly kind: 'GroupDeleted';
  readonly groupId: string;
}
export type GroupEntry = GroupGeneration | OffsetsCommitted | OffsetsReset | GroupDeleted;

/** Commits that one entry may hold: what is decoded from it is bounded. */
export const ENTRY_COMMITS_MAX = 4096;
/** Offsets that one entry may hold for one member. */
export const ENTRY_OFFSETS_MAX: number = REQUEST_PARTITIONS_MAX;

/** ByteWriter, or its twin that only counts, so that no size is stated twice. */
export interface FieldSink {
  u8(value: number): unknown;
  u32(value: number): unknown;
  i32(value: number): unknown;
  i64(value: number): unknown;
  bool(value: boolean): unknown;
  string(text: string): unknown;
  raw(bytes: Uint8Array): unknown;
}
class SizeCounter implements FieldSink {
  size = 0;
  u8(): void {
    this.size += 1;
  }
  u32(): void {
    this.size += 4;
  }
  i32(): void {
    this.size += 4;
  }
  i64(): void {
    this.size += 8;
  }
  bool(): void {
    this.size += 1;
  }
  string(text: string): void {
    this.size += stringSize(text);
  }
  raw(bytes: Uint8Array): void {
    this.size += bytes.length;
  }
}
export function sizeOf(write: (sink: FieldSink) => void): number {
  const counter = new SizeCounter();
  write(counter);
  return counter.size;
}

export function groupEntrySize(entry: GroupEntry): number {
  return sizeOf((sink) => {
    writeFields(sink, entry);
  });
}
export function writeGroupEntry(writer: ByteWriter, entry: GroupEntry): void {
  writeFields(writer, entry);
}

function writeFields(sink: FieldSink, entry: GroupEntry): void {
  switch (entry.kind) {
    case 'GroupGeneration':
      sink.string(entry.groupId);
      sink.i64(entry.generation);
      sink.bool(entry.paused);
      sink.u32(entry.removed.length);
      for (const id of entry.removed) sink.string(id);
      sink.u32(entry.members.length);
      for (const member of entry.members) {
        sink.string(member.memberId);
        writeMember(sink, member);
      }
      break;
    case 'OffsetsCommitted':
      sink.i64(entry.at);
      sink.u32(entry.commits.length);
      for (const commit of entry.commits) {
        sink.string(commit.groupId);
        sink.string(commit.memberId);
        sink.i64(commit.generation);
        writeOffsets(sink, commit.offsets);
      }
      break;
    case 'OffsetsReset':
      sink.string(entry.groupId);
      sink.i64(entry.generation);
      sink.i64(entry.at);
      writeOffsets(sink, entry.offsets);
      break;
    case 'GroupDeleted':
      sink.string(entry.groupId);
      break;
  }
}

/** All but its id and its generation. */
export function writeMember(sink: FieldSink, member: GroupMember): void {
  sink.string(member.instanceId ?? '');
  sink.string(member.replaces ?? '');
  sink.string(member.clientId);
  sink.u32(member.sessionTimeoutMs);
  sink.u32(member.rebalanceTimeoutMs);
  sink.u32(member.topics.length);
  for (const name of member.topics) sink.string(name);
  sink.u32(member.target.size);
  for (const [topicId, partitions] of member.target) {
    writeTopicId(sink, topicId);
    sink.u32(partitions.size);
    for (const partition of partitions) sink.u32(partition);
  }
  sink.u32(member.owned.size);
  for (const [topicId, partitions] of member.owned) {
    writeTopicId(sink, topicId);
    sink.u32(partitions.size);
    for (const [partition, since] of partitions) {
      sink.u32(partition);
      sink.i64(since);
    }
  }
}

/** Grouped by topic where the same topic comes in a row. */
function writeOffsets(sink: FieldSink, offsets: readonly OffsetCommit[]): void {
  sink.u32(offsets.length);
  let before: TopicId | undefined;
  for (const item of offsets) {
    const same = item.topicId === before;
    sink.bool(same);
    if (!same) writeTopicId(sink, item.topicId);
    before = item.topicId;
    sink.u32(item.partition);
    sink.i64(item.offset);
    sink.i32(item.leaderEpoch);
    sink.string(item.metadata);
  }
}

function hexDigit(code: number): number {
  return code <= 0x39 ? code - 0x30 : code - 0x57;
}
function writeTopicId(sink: FieldSink, id: TopicId): void {
  for (let at = 0; at < 32; at += 2) sink.u8((hexDigit(id.charCodeAt(at)) << 4) | hexDigit(id.charCodeAt(at + 1)));
}
function readTopicId(reader: ByteReader): TopicId {
  return asTopicId(Array.from(reader.raw(16), (byte) => byte.toString(16).padStart(2, '0')).join(''));
}

export function readGroupEntry(kind: GroupEntry['kind'], reader: ByteReader): GroupEntry {
  switch (kind) {
    case 'GroupGeneration': {
      const groupId = reader.string(GROUP_ID_BYTES_MAX);
      const generation = readWhole(reader);
      const paused = reader.bool();
      const removed = readCounted(reader, 2, GROUP_MEMBERS_MAX, () => reader.string(MEMBER_ID_BYTES_MAX));
      const members = readCounted(reader, 28, GROUP_MEMBERS_MAX, () =>
        readMember(reader, reader.string(MEMBER_ID_BYTES_MAX), generation),
      );
      return { kind, groupId, generation, paused, removed, members };
    }
    case 'OffsetsCommitted':
      return {
        kind,
        at: readTimestamp(reader),
        commits: readCounted(reader, 16, ENTRY_COMMITS_MAX, () => ({
          groupId: reader.string(GROUP_ID_BYTES_MAX),
          memberId: reader.string(MEMBER_ID_BYTES_MAX),
          generation: readWhole(reader),
          offsets: readOffsets(reader),
        })),
      };
    case 'OffsetsReset':
      return {
        kind,
        groupId: reader.string(GROUP_ID_BYTES_MAX),
        generation: readWhole(reader),
        at: readTimestamp(reader),
        offsets: readOffsets(reader),
      };
    case 'GroupDeleted':
      return { kind, groupId: reader.string(GROUP_ID_BYTES_MAX) };
  }
}

export function readMember(reader: ByteReader, memberId: string, generation: number): GroupMember {
  const instanceId = reader.string(GROUP_ID_BYTES_MAX);
  const replaces = reader.string(MEMBER_ID_BYTES_MAX);
  return {
    memberId,
    instanceId: instanceId === '' ? undefined : instanceId,
    replaces: replaces === '' ? undefined : replaces,
    clientId: reader.string(CLIENT_ID_BYTES_MAX),
    sessionTimeoutMs: reader.u32(),
    rebalanceTimeoutMs: reader.u32(),
    topics: readCounted(reader, 2, GROUP_TOPICS_MAX, () => reader.string(TOPIC_NAME_BYTES_MAX)),
    generation,
    target: readTarget(reader),
    owned: readOwned(reader),
  };
}
function readTarget(reader: ByteReader): PartitionSet {
  return new Map(
    readCounted(reader, 20, GROUP_PARTITIONS_MAX, () => [
      readTopicId(reader),
      new Set(readCounted(reader, 4, GROUP_PARTITIONS_MAX, () => reader.u32())),
    ]),
  );
}
function readOwned(reader: ByteReader): OwnedPartitions {
  return new Map(
    readCounted(reader, 20, GROUP_PARTITIONS_MAX, () => [
      readTopicId(reader),
      new Map(readCounted(reader, 12, GROUP_PARTITIONS_MAX, () => [reader.u32(), readWhole(reader)])),
    ]),
  );
}
function readOffsets(reader: ByteReader): OffsetCommit[] {
  let before: TopicId | undefined;
  return readCounted(reader, 19, ENTRY_OFFSETS_MAX, () => {
    const { at } = reader;
    const same = reader.bool();
    if (same && before === undefined) throw new DecodeError('the topic of nothing before', at);
    const topicId = same && before !== undefined ? before : readTopicId(reader);
    before = topicId;
    const partition = reader.u32();
    return { topicId, partition, ...readPlace(reader) };
  });
}
export function readPlace(reader: ByteReader): Pick<OffsetCommit, 'offset' | 'leaderEpoch' | 'metadata'> {
  const offset = asOffset(readWhole(reader));
  const { at } = reader;
  const epoch = reader.i32();
  if (epoch < -1) throw new DecodeError(`leader epoch ${String(epoch)}`, at);
  return { offset, leaderEpoch: asLeaderEpoch(epoch), metadata: reader.string(COMMIT_METADATA_BYTES_MAX) };
}

export function readWhole(reader: ByteReader): number {
  const { at } = reader;
  const value = reader.i64();
  if (value < 0) throw new DecodeError(`number ${String(value)}`, at);
  return value;
}
export function readTimestamp(reader: ByteReader): TimestampMs {
  const { at } = reader;
  const value = reader.i64();
  if (value < -1) throw new DecodeError(`time ${String(value)}`, at);
  return timestampMs(value);
}
function readCounted<Item>(reader: ByteReader, bytesMin: number, max: number, read: () => Item): Item[] {
  const { at } = reader;
  const count = reader.count(bytesMin);
  if (count > max) throw new DecodeError(`${String(count)} elements, at most ${String(max)}`, at);
  return Array.from({ length: count }, read);
}
