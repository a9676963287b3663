// What a commit of a member means. Asked before a commit is written, so that what cannot count costs nothing; and again when the
// entry is applied, because the partition may have moved while the entry was on its way.
import type { LeaderEpoch, Offset, TopicId } from '../../base/brands.ts';
import type { ErrorFacts, ErrorName } from '../../base/errors.ts';
import type { CommittedOffset, GroupMember } from '../../base/group.ts';
import { COMMITTED_OFFSETS_MAX } from '../../base/limits.ts';
import type { MetadataView } from './image.ts';

export interface OffsetCommit {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly offset: Offset;
  readonly leaderEpoch: LeaderEpoch;
  readonly metadata: string;
}
/** Who commits, for which group, in which generation it believes to be. */
export interface Committer {
  readonly groupId: string;
  readonly memberId: string;
  readonly generation: number;
}
export type CommitVerdict =
  | { readonly kind: 'set' }
  /** It is there already. */
  | { readonly kind: 'same' }
  | { readonly kind: 'refused'; readonly code: ErrorName; readonly message: string; readonly facts?: ErrorFacts };

const SET: CommitVerdict = { kind: 'set' };
const SAME: CommitVerdict = { kind: 'same' };

function no(code: ErrorName, message: string, facts?: ErrorFacts): CommitVerdict {
  return { kind: 'refused', code, message, ...(facts === undefined ? {} : { facts }) };
}

export function committedOffset(
  image: MetadataView,
  groupId: string,
  topicId: TopicId,
  partition: number,
): CommittedOffset | undefined {
  return image.offsets.get(groupId)?.get(topicId)?.get(partition);
}

export function judgeCommit(image: MetadataView, committer: Committer, commit: OffsetCommit): CommitVerdict {
  const { topicId, partition } = commit;
  const missing = missingPartition(image, topicId, partition);
  if (missing !== undefined) return missing;
  const member = image.groups.get(committer.groupId)?.members.get(committer.memberId);
  if (member === undefined) return no('UNKNOWN_MEMBER', `"${committer.memberId}" is no member of the group`);
  const fenced = judgeOwner(member, committer.generation, commit);
  if (fenced !== undefined) return fenced;
  const before = committedOffset(image, committer.groupId, topicId, partition);
  if (before === undefined) {
    return image.offsetCount < COMMITTED_OFFSETS_MAX
      ? SET
      : no('GROUP_LIMIT', `${String(image.offsetCount)} offsets are committed, which is as many as are kept`);
  }
  // Records that were committed can be lost by an unclean restart: what was made anew has a higher epoch.
  if (commit.offset < before.offset && commit.leaderEpoch <= before.leaderEpoch)
    return no('COMMIT_BACKWARDS', `${String(before.offset)} is committed`, { committedOffset: before.offset });
  return commit.offset === before.offset && commit.metadata === before.metadata ? SAME : SET;
}

export function missingPartition(
  image: MetadataView,
  topicId: TopicId,
  partition: number,
): Extract<CommitVerdict, { readonly kind: 'refused' }> | undefined {
  const topic = image.topics.get(topicId);
  if (topic === undefined)
    return { kind: 'refused', code: 'UNKNOWN_TOPIC', message: `there is no topic ${topicId} (any more)` };
  if (partition >= topic.partitions.length) {
    return {
      kind: 'refused',
      code: 'UNKNOWN_PARTITION',
      message: `topic ${topic.name} has no partition ${String(partition)}`,
    };
  }
  return undefined;
}

function judgeOwner(member: GroupMember, generation: number, commit: OffsetCommit): CommitVerdict | undefined {
  const facts = { generation: member.generation };
  const since = member.owned.get(commit.topicId)?.get(commit.partition);
  if (generation > member.generation)
    return no('STALE_GENERATION', `the member is in generation ${String(member.generation)}`, facts);
  if (since !== undefined && generation >= since) return undefined;
  if (generation < member.generation) {
    return no(
      'STALE_GENERATION',
      `generation ${String(generation)} is over; the member is in ${String(member.generation)}`,
      facts,
    );
  }
  return no('COMMIT_NOT_OWNED', `the member does not own partition ${String(commit.partition)}`);
}
