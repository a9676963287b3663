// Groups as rows: one for each group, member and committed offset. Group ids may hold anything, so they end the key.
import { topicId as asTopicId, type TopicId } from '../../base/brands.ts';
import { type ByteReader, ByteWriter, DecodeError } from '../../base/bytes.ts';
import { countPartitions, type CommittedOffset, type GroupMember, type GroupState } from '../../base/group.ts';
import { isMemberId } from '../../base/limits.ts';
import { type FieldSink, readMember, readPlace, readTimestamp, readWhole, sizeOf, writeMember } from './group-entry.ts';
import { offsetsOf, type MetadataImage, type MetadataView } from './image.ts';
import { encodeNumber, ROW_VERSION } from './row.ts';

export const GENERATION_FLOOR_KEY = 'group-generation-floor';

export function groupKey(groupId: string): string {
  return `group/${groupId}`;
}
export function memberKey(groupId: string, memberId: string): string {
  return `member/${memberId}/${groupId}`;
}
export function offsetKey(groupId: string, topicId: TopicId, partition: number): string {
  return `offset/${topicId}/${String(partition)}/${groupId}`;
}

function encode(write: (sink: FieldSink) => void): Uint8Array {
  const writer = new ByteWriter(1 + sizeOf(write)).u8(ROW_VERSION);
  write(writer);
  return writer.finish();
}
/** The numbers of its other rows go in: none of them can be missing unseen. */
export function encodeGroup(group: GroupState, offsets: number): Uint8Array {
  return encode((sink) => {
    sink.i64(group.generation);
    sink.bool(group.paused);
    sink.u32(group.members.size);
    sink.u32(offsets);
  });
}
export function encodeMember(member: GroupMember): Uint8Array {
  return encode((sink) => {
    sink.i64(member.generation);
    writeMember(sink, member);
  });
}
export function encodeOffset(committed: CommittedOffset): Uint8Array {
  return encode((sink) => {
    sink.i64(committed.offset);
    sink.i32(committed.leaderEpoch);
    sink.string(committed.metadata);
    sink.i64(committed.at);
  });
}

export function addGroupRows(image: MetadataView, rows: Map<string, Uint8Array>): void {
  if (image.generationFloor > 0) rows.set(GENERATION_FLOOR_KEY, encodeNumber(image.generationFloor));
  for (const group of image.groups.values()) {
    rows.set(groupKey(group.groupId), encodeGroup(group, offsetsOf(image, group.groupId)));
    for (const member of group.members.values())
      rows.set(memberKey(group.groupId, member.memberId), encodeMember(member));
  }
  for (const [groupId, topics] of image.offsets) {
    for (const [topicId, partitions] of topics) {
      for (const [partition, committed] of partitions)
        rows.set(offsetKey(groupId, topicId, partition), encodeOffset(committed));
    }
  }
}

/** Rows of groups as they are read, in any order; put together when all are there. */
export class GroupRows {
  private readonly groups = new Map<string, GroupRow>();
  private readonly members = new Map<string, Map<string, GroupMember>>();

  /** False: the row is of another kind. */
  take(image: MetadataImage, kind: string, name: string, reader: ByteReader): boolean {
    switch (kind) {
      case GENERATION_FLOOR_KEY:
        image.generationFloor = readWhole(reader);
        return true;
      case 'group':
        this.groups.set(name, {
          generation: readWhole(reader),
          paused: reader.bool(),
          members: reader.u32(),
          offsets: reader.u32(),
        });
        return true;
      case 'member':
        this.takeMember(name, reader);
        return true;
      case 'offset':
        takeOffset(image, name, reader);
        return true;
      default:
        return false;
    }
  }

  /** The reason when rows are missing, or belong to no group. */
  finish(image: MetadataImage): string | undefined {
    for (const [groupId, row] of this.groups) {
      const members = this.members.get(groupId) ?? new Map<string, GroupMember>();
      if (members.size !== row.members)
        return `${String(members.size)} member rows of "${groupId}", it has ${String(row.members)}`;
      const offsets = offsetsOf(image, groupId);
      if (offsets !== row.offsets)
        return `${String(offsets)} offset rows of "${groupId}", it has ${String(row.offsets)}`;
      image.groups.set(groupId, { groupId, generation: row.generation, paused: row.paused, members });
      image.memberCount += members.size;
      for (const { target } of members.values()) image.assignedPartitions += countPartitions(target);
    }
    for (const groupId of [...this.members.keys(), ...image.offsets.keys()])
      if (!this.groups.has(groupId)) return `rows of "${groupId}", which has no row`;
    return undefined;
  }

  private takeMember(name: string, reader: ByteReader): void {
    const slash = name.indexOf('/');
    const memberId = name.slice(0, Math.max(slash, 0));
    if (!isMemberId(memberId)) throw new DecodeError('not a member id', 0);
    const groupId = name.slice(slash + 1);
    let members = this.members.get(groupId);
    if (members === undefined) this.members.set(groupId, (members = new Map<string, GroupMember>()));
    const generation = readWhole(reader);
    members.set(memberId, readMember(reader, memberId, generation));
  }
}

interface GroupRow {
  readonly generation: number;
  readonly paused: boolean;
  readonly members: number;
  readonly offsets: number;
}

function takeOffset(image: MetadataImage, name: string, reader: ByteReader): void {
  const match = /^([0-9a-f]{32})\/(\d{1,10})\/(.*)$/su.exec(name);
  if (match === null) throw new DecodeError('not the name of an offset', 0);
  const topicId = asTopicId(match[1] ?? '');
  const groupId = match[3] ?? '';
  const committed = { ...readPlace(reader), at: readTimestamp(reader) };
  let topics = image.offsets.get(groupId);
  if (topics === undefined) image.offsets.set(groupId, (topics = new Map<TopicId, Map<number, CommittedOffset>>()));
  let partitions = topics.get(topicId);
  if (partitions === undefined) topics.set(topicId, (partitions = new Map<number, CommittedOffset>()));
  partitions.set(Number(match[2]), committed);
  image.offsetCount += 1;
}
