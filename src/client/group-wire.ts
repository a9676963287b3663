// Operations on consumer groups: what each asks, and what its answer means to the client.
import { leaderEpoch, offset, type TopicId } from '../base/brands.ts';
import { RivuletError } from '../base/errors.ts';
import type { Membership, TopicPartitions } from '../protocol/group-fields.ts';
import { OPERATION } from '../protocol/operations.ts';
import * as commitOffsetV1 from '../protocol/operations/commit-offset.v1.ts';
import * as deleteGroupV1 from '../protocol/operations/delete-group.v1.ts';
import * as describeGroupV1 from '../protocol/operations/describe-group.v1.ts';
import * as fetchOffsetsV1 from '../protocol/operations/fetch-offsets.v1.ts';
import * as heartbeatV1 from '../protocol/operations/heartbeat.v1.ts';
import * as joinGroupV1 from '../protocol/operations/join-group.v1.ts';
import * as leaveGroupV1 from '../protocol/operations/leave-group.v1.ts';
import * as listGroupsV1 from '../protocol/operations/list-groups.v1.ts';
import * as replayV1 from '../protocol/operations/replay.v1.ts';
import type { Link } from './link.ts';
import { call, errorOf } from './wire.ts';

export type { Membership, TopicPartitions };

export async function joinGroup(
  link: Link,
  request: joinGroupV1.JoinGroupRequest,
  timeoutMs: number,
): Promise<Membership> {
  const body = joinGroupV1.encodeRequest(request);
  return (await call(link, OPERATION.JoinGroup, body, timeoutMs, joinGroupV1.decodeResponse)).membership;
}

/** Answered when something changes, or after `waitMs`. */
export async function heartbeat(
  link: Link,
  request: heartbeatV1.HeartbeatRequest,
  timeoutMs: number,
): Promise<Membership> {
  const body = heartbeatV1.encodeRequest(request);
  return (await call(link, OPERATION.Heartbeat, body, timeoutMs, heartbeatV1.decodeResponse)).membership;
}

export async function leaveGroup(link: Link, group: string, memberId: string, timeoutMs: number): Promise<void> {
  const body = leaveGroupV1.encodeRequest({ group, memberId });
  await call(link, OPERATION.LeaveGroup, body, timeoutMs, leaveGroupV1.decodeResponse);
}

export interface Commit {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly offset: number;
  readonly leaderEpoch: number;
}

/** Of each, in order: undefined, or why it was not committed. Rejects when none was. */
export async function commitOffsets(
  link: Link,
  request: {
    readonly group: string;
    readonly memberId: string;
    readonly generation: number;
    readonly commits: readonly Commit[];
  },
  timeoutMs: number,
): Promise<readonly (RivuletError | undefined)[]> {
  const { group, memberId, generation, commits } = request;
  const offsets = commits.map((each) => ({
    topicId: each.topicId,
    partition: each.partition,
    offset: offset(each.offset),
    leaderEpoch: leaderEpoch(each.leaderEpoch),
    metadata: '',
  }));
  const body = commitOffsetV1.encodeRequest({ group, memberId, generation, offsets });
  const { results } = await call(link, OPERATION.CommitOffset, body, timeoutMs, commitOffsetV1.decodeResponse);
  return commits.map((_, index) => {
    const result = results[index];
    if (result === undefined) return new RivuletError('INTERNAL', 'the answer to a commit leaves a partition out');
    return result.failure === undefined ? undefined : errorOf(result.failure);
  });
}

export interface FoundCommit {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly offset: number | undefined;
  readonly leaderEpoch: number;
}

/** Without `topics`: all that are committed. */
export async function fetchOffsets(
  link: Link,
  group: string,
  topics: readonly TopicPartitions[] | undefined,
  timeoutMs: number,
): Promise<readonly FoundCommit[]> {
  const body = fetchOffsetsV1.encodeRequest({ group, topics });
  return (await call(link, OPERATION.FetchOffsets, body, timeoutMs, fetchOffsetsV1.decodeResponse)).offsets;
}

export async function replay(
  link: Link,
  request: {
    readonly group: string;
    readonly pause: boolean;
    readonly timeoutMs: number;
    readonly targets: readonly Commit[];
  },
  timeoutMs: number,
): Promise<readonly (number | undefined)[]> {
  const targets = request.targets.map((each) => ({
    topicId: each.topicId,
    partition: each.partition,
    offset: offset(each.offset),
    leaderEpoch: leaderEpoch(each.leaderEpoch),
  }));
  const body = replayV1.encodeRequest({ ...request, targets, create: true });
  const { done, partitions } = await call(link, OPERATION.Replay, body, timeoutMs, replayV1.decodeResponse);
  const failed = partitions.find(({ failure }) => failure !== undefined)?.failure;
  if (failed !== undefined) throw errorOf(failed);
  if (!done) throw new RivuletError('INTERNAL', 'nothing was reset, and the answer does not say why');
  return partitions.map(({ before }) => before);
}

export async function deleteGroup(link: Link, group: string, timeoutMs: number): Promise<void> {
  await call(
    link,
    OPERATION.DeleteGroup,
    deleteGroupV1.encodeRequest({ group }),
    timeoutMs,
    deleteGroupV1.decodeResponse,
  );
}

export async function listGroups(link: Link, timeoutMs: number): Promise<readonly listGroupsV1.ListedGroup[]> {
  const body = listGroupsV1.encodeRequest({});
  return (await call(link, OPERATION.ListGroups, body, timeoutMs, listGroupsV1.decodeResponse)).groups;
}

export async function describeGroup(
  link: Link,
  group: string,
  timeoutMs: number,
): Promise<describeGroupV1.DescribeGroupResponse> {
  const body = describeGroupV1.encodeRequest({ group });
  return await call(link, OPERATION.DescribeGroup, body, timeoutMs, describeGroupV1.decodeResponse);
}
