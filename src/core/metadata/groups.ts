// What entries about consumer groups do to the image. A group that has neither members nor committed offsets is forgotten; its
// generations are not given again.
import type { TopicId } from '../../base/brands.ts';
import type { ErrorFacts, ErrorName } from '../../base/errors.ts';
import { countPartitions, type CommittedOffset, type GroupMember, type GroupState } from '../../base/group.ts';
import {
  ASSIGNED_PARTITIONS_MAX,
  COMMITTED_OFFSETS_MAX,
  GROUP_MEMBERS_MAX,
  GROUPS_MAX,
  isGroupId,
  MEMBERS_MAX,
} from '../../base/limits.ts';
import { committedOffset, judgeCommit, missingPartition, type OffsetCommit } from './commits.ts';
import type { GroupDeleted, GroupGeneration, OffsetsCommitted, OffsetsReset } from './group-entry.ts';
import {
  encodeGroup,
  encodeMember,
  encodeOffset,
  GENERATION_FLOOR_KEY,
  groupKey,
  memberKey,
  offsetKey,
} from './group-rows.ts';
import { offsetsOf, type MetadataImage, type MetadataView } from './image.ts';
import { encodeNumber, type RowChange } from './row.ts';

/** A partition of an OffsetsCommitted that did not count, by its place in the entry. */
export interface RefusedCommit {
  readonly commit: number;
  readonly offset: number;
  readonly code: ErrorName;
  readonly message: string;
  readonly facts?: ErrorFacts;
}
export type GroupValue =
  | { readonly kind: 'GroupGeneration'; readonly generation: number }
  | { readonly kind: 'OffsetsCommitted'; readonly refused: readonly RefusedCommit[] }
  | { readonly kind: 'OffsetsReset'; readonly generation: number }
  | { readonly kind: 'GroupDeleted'; readonly offsets: number };
export type GroupOutcome =
  | { readonly ok: true; readonly value: GroupValue; readonly changes: readonly RowChange[] }
  | { readonly ok: false; readonly code: ErrorName; readonly message: string };

function refuse(code: ErrorName, message: string): GroupOutcome {
  return { ok: false, code, message };
}

/** What the next change of a group is numbered. */
export function nextGeneration(image: MetadataView, groupId: string): number {
  return (image.groups.get(groupId)?.generation ?? image.generationFloor) + 1;
}

export function changeGroup(image: MetadataImage, entry: GroupGeneration): GroupOutcome {
  const before = image.groups.get(entry.groupId);
  const fault = newGroupFault(image, entry.groupId);
  if (fault !== undefined) return fault;
  if (entry.generation !== nextGeneration(image, entry.groupId)) {
    return refuse(
      'STALE_GENERATION',
      `the group is in generation ${String(nextGeneration(image, entry.groupId) - 1)}: ${String(entry.generation)} does not follow it`,
    );
  }
  const members = new Map(before?.members);
  for (const id of entry.removed) members.delete(id);
  for (const member of entry.members) members.set(member.memberId, { ...member, generation: entry.generation });
  if (members.size > GROUP_MEMBERS_MAX) return refuse('GROUP_FULL', `${String(members.size)} members`);
  const added = members.size - (before?.members.size ?? 0);
  const assigned = assignedBy(entry, before, members);
  // What makes nothing larger is never refused: a group can always get smaller.
  if (added > 0 && image.memberCount + added > MEMBERS_MAX)
    return refuse('GROUP_LIMIT', `there are ${String(image.memberCount)} members of groups already`);
  if (assigned > 0 && image.assignedPartitions + assigned > ASSIGNED_PARTITIONS_MAX)
    return refuse('GROUP_LIMIT', `groups share out ${String(image.assignedPartitions)} partitions already`);
  image.memberCount += added;
  image.assignedPartitions += assigned;
  const changes: RowChange[] = [];
  for (const id of entry.removed)
    if (!members.has(id)) changes.push({ key: memberKey(entry.groupId, id), value: undefined });
  for (const { memberId } of entry.members) {
    const row = members.get(memberId) as GroupMember;
    changes.push({ key: memberKey(entry.groupId, memberId), value: encodeMember(row) });
  }
  put(image, { groupId: entry.groupId, generation: entry.generation, paused: entry.paused, members }, changes);
  return { ok: true, value: { kind: 'GroupGeneration', generation: entry.generation }, changes };
}

/** By how many partitions the change makes the targets of the group larger. */
function assignedBy(
  entry: GroupGeneration,
  before: GroupState | undefined,
  after: ReadonlyMap<string, GroupMember>,
): number {
  let change = 0;
  for (const id of new Set([...entry.removed, ...entry.members.map(({ memberId }) => memberId)]))
    change += targetSize(after.get(id)) - targetSize(before?.members.get(id));
  return change;
}
function targetSize(member: GroupMember | undefined): number {
  return member === undefined ? 0 : countPartitions(member.target);
}

export function commitOffsets(image: MetadataImage, entry: OffsetsCommitted): GroupOutcome {
  const refused: RefusedCommit[] = [];
  const changes: RowChange[] = [];
  for (const [index, commit] of entry.commits.entries()) {
    const count = offsetsOf(image, commit.groupId);
    for (const [place, item] of commit.offsets.entries()) {
      const verdict = judgeCommit(image, commit, item);
      if (verdict.kind === 'refused') {
        const { code, message, facts } = verdict;
        refused.push({ commit: index, offset: place, code, message, ...(facts === undefined ? {} : { facts }) });
      } else if (verdict.kind === 'set') set(image, commit.groupId, item, entry.at, changes);
    }
    const group = image.groups.get(commit.groupId);
    if (group !== undefined && offsetsOf(image, commit.groupId) !== count) put(image, group, changes);
  }
  return { ok: true, value: { kind: 'OffsetsCommitted', refused }, changes };
}

export function resetOffsets(image: MetadataImage, entry: OffsetsReset): GroupOutcome {
  const { groupId } = entry;
  const before = image.groups.get(groupId);
  const fault = newGroupFault(image, groupId);
  if (fault !== undefined) return fault;
  const generation = nextGeneration(image, groupId);
  if (entry.generation !== generation)
    return refuse('STALE_GENERATION', `the group is in generation ${String(generation - 1)}`);
  if (before !== undefined && Array.from(before.members.values()).some(({ owned }) => owned.size > 0))
    return refuse('GROUP_NOT_EMPTY', 'members of the group own partitions');
  let added = 0;
  for (const item of entry.offsets) {
    const missing = missingPartition(image, item.topicId, item.partition);
    if (missing !== undefined) return refuse(missing.code, missing.message);
    if (committedOffset(image, groupId, item.topicId, item.partition) === undefined) added += 1;
  }
  if (image.offsetCount + added > COMMITTED_OFFSETS_MAX)
    return refuse('GROUP_LIMIT', `${String(image.offsetCount)} offsets are committed already`);
  const changes: RowChange[] = [];
  for (const item of entry.offsets) set(image, groupId, item, entry.at, changes);
  const members = before?.members ?? new Map<string, GroupMember>();
  put(image, { groupId, generation, paused: before?.paused ?? false, members }, changes);
  return { ok: true, value: { kind: 'OffsetsReset', generation }, changes };
}

export function deleteGroup(image: MetadataImage, entry: GroupDeleted): GroupOutcome {
  const group = image.groups.get(entry.groupId);
  if (group === undefined) return refuse('UNKNOWN_GROUP', `there is no group "${entry.groupId}"`);
  if (group.members.size > 0) return refuse('GROUP_NOT_EMPTY', `the group has ${String(group.members.size)} members`);
  const changes: RowChange[] = [];
  let offsets = 0;
  for (const topicId of Array.from(image.offsets.get(entry.groupId)?.keys() ?? []))
    offsets += dropOffsets(image, entry.groupId, topicId, changes);
  put(image, group, changes);
  return { ok: true, value: { kind: 'GroupDeleted', offsets }, changes };
}

/** The topic is gone: no group has come anywhere in it any more. */
export function dropTopic(image: MetadataImage, topicId: TopicId, changes: RowChange[]): void {
  for (const groupId of Array.from(image.offsets.keys())) {
    if (dropOffsets(image, groupId, topicId, changes) === 0) continue;
    const group = image.groups.get(groupId);
    if (group !== undefined) put(image, group, changes);
  }
}

function newGroupFault(image: MetadataImage, groupId: string): GroupOutcome | undefined {
  if (image.groups.has(groupId)) return undefined;
  if (!isGroupId(groupId)) return refuse('INVALID_ARGUMENT', 'that is not a group id');
  return image.groups.size < GROUPS_MAX
    ? undefined
    : refuse('GROUP_LIMIT', `there are ${String(GROUPS_MAX)} groups already`);
}

/** Keeps the group as it is now, or forgets it when there is nothing to keep. */
function put(image: MetadataImage, group: GroupState, changes: RowChange[]): void {
  const offsets = offsetsOf(image, group.groupId);
  if (group.members.size > 0 || offsets > 0) {
    image.groups.set(group.groupId, group);
    changes.push({ key: groupKey(group.groupId), value: encodeGroup(group, offsets) });
    return;
  }
  image.groups.delete(group.groupId);
  changes.push({ key: groupKey(group.groupId), value: undefined });
  if (group.generation <= image.generationFloor) return;
  image.generationFloor = group.generation;
  changes.push({ key: GENERATION_FLOOR_KEY, value: encodeNumber(group.generation) });
}

function set(
  image: MetadataImage,
  groupId: string,
  { topicId, partition, offset, leaderEpoch, metadata }: OffsetCommit,
  at: CommittedOffset['at'],
  changes: RowChange[],
): void {
  let topics = image.offsets.get(groupId);
  if (topics === undefined) image.offsets.set(groupId, (topics = new Map<TopicId, Map<number, CommittedOffset>>()));
  let partitions = topics.get(topicId);
  if (partitions === undefined) topics.set(topicId, (partitions = new Map<number, CommittedOffset>()));
  if (!partitions.has(partition)) image.offsetCount += 1;
  const committed = { offset, leaderEpoch, metadata, at };
  partitions.set(partition, committed);
  changes.push({ key: offsetKey(groupId, topicId, partition), value: encodeOffset(committed) });
}

function dropOffsets(image: MetadataImage, groupId: string, topicId: TopicId, changes: RowChange[]): number {
  const topics = image.offsets.get(groupId);
  const partitions = topics?.get(topicId);
  if (topics === undefined || partitions === undefined) return 0;
  for (const partition of partitions.keys())
    changes.push({ key: offsetKey(groupId, topicId, partition), value: undefined });
  image.offsetCount -= partitions.size;
  topics.delete(topicId);
  if (topics.size === 0) image.offsets.delete(groupId);
  return partitions.size;
}
