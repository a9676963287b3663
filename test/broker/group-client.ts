// Operations on groups over a RawClient, and a member that follows the protocol's rules.
import { NO_EPOCH, leaderEpoch, offset, type TopicId } from '../../src/base/brands.ts';
import type { Failure } from '../../src/protocol/failure.ts';
import {
  commitOffsetV1,
  deleteGroupV1,
  describeGroupV1,
  fetchOffsetsV1,
  heartbeatV1,
  joinGroupV1,
  leaveGroupV1,
  listGroupsV1,
  type Membership,
  NO_GENERATION,
  replayV1,
  type TopicPartitions,
} from '../../src/protocol/index.ts';
import { type RawClient, value } from './raw-client.ts';

export const GROUP = 'billing';

export interface Place {
  readonly topicId: TopicId;
  readonly partition?: number;
  readonly offset: number;
  readonly epoch?: number;
  readonly metadata?: string;
}

export function joinBody(
  memberId: string,
  given: Partial<joinGroupV1.JoinGroupRequest> = {},
): ReturnType<typeof joinGroupV1.encodeRequest> {
  return joinGroupV1.encodeRequest({
    group: GROUP,
    memberId,
    instanceId: undefined,
    clientId: 'test',
    sessionTimeoutMs: 10_000,
    rebalanceTimeoutMs: 15_000,
    topics: ['orders'],
    ...given,
  });
}

export function keysOf(topics: readonly TopicPartitions[]): string[] {
  return topics.flatMap(({ topicId, partitions }) => partitions.map((each) => `${topicId}/${String(each)}`));
}

export class Member {
  readonly memberId: string;
  generation: number = NO_GENERATION;
  membership: Membership | undefined;
  readonly reading: Set<string> = new Set();
  client: RawClient;
  private readonly given: Partial<joinGroupV1.JoinGroupRequest>;

  constructor(client: RawClient, memberId: string, given: Partial<joinGroupV1.JoinGroupRequest> = {}) {
    this.client = client;
    this.memberId = memberId;
    this.given = given;
  }
  get group(): string {
    return this.given.group ?? GROUP;
  }
  /** Partitions of the first topic, without its id. */
  get partitions(): number[] {
    return Array.from(this.reading, (key) => Number(key.split('/')[1])).toSorted((left, right) => left - right);
  }

  async join(): Promise<Membership> {
    const body = joinBody(this.memberId, this.given);
    return this.follow(value(joinGroupV1.decodeResponse(await this.client.call('JoinGroup', body))).membership);
  }
  /** `released`: undefined: what was to be released. */
  async beat(waitMs = 0, released: readonly TopicPartitions[] = []): Promise<Membership> {
    const { group, memberId, generation } = this;
    const body = heartbeatV1.encodeRequest({ group, memberId, generation, waitMs, released });
    return this.follow(value(heartbeatV1.decodeResponse(await this.client.call('Heartbeat', body))).membership);
  }
  /** A heartbeat that releases what it was told to release. */
  async work(waitMs = 0): Promise<Membership> {
    const release = this.membership?.release ?? [];
    for (const key of keysOf(release)) this.reading.delete(key);
    return await this.beat(waitMs, release);
  }
  async leave(): Promise<boolean> {
    const body = leaveGroupV1.encodeRequest({ group: this.group, memberId: this.memberId });
    return value(leaveGroupV1.decodeResponse(await this.client.call('LeaveGroup', body))).left;
  }
  /** Error names by partition in the order given; undefined: committed. */
  async commit(places: readonly Place[], generation: number = this.generation): Promise<(string | undefined)[]> {
    return (await this.commitResults(places, generation)).map((failure) => failure?.code);
  }
  async commitResults(
    places: readonly Place[],
    generation: number = this.generation,
  ): Promise<(Failure | undefined)[]> {
    const body = commitBody(this.group, this.memberId, generation, places);
    const { results } = value(commitOffsetV1.decodeResponse(await this.client.call('CommitOffset', body)));
    return results.map(({ failure }) => failure);
  }

  private follow(membership: Membership): Membership {
    this.membership = membership;
    this.generation = membership.generation;
    const assigned = keysOf(membership.assigned);
    const kept = new Set([...assigned, ...keysOf(membership.release)]);
    for (const key of Array.from(this.reading)) if (!kept.has(key)) this.reading.delete(key);
    for (const key of assigned) this.reading.add(key);
    return membership;
  }
}

export function commitBody(
  group: string,
  memberId: string,
  generation: number,
  places: readonly Place[],
): ReturnType<typeof commitOffsetV1.encodeRequest> {
  const offsets = places.map(({ topicId, partition = 0, offset: at, epoch = -1, metadata = '' }) => ({
    topicId,
    partition,
    offset: offset(at),
    leaderEpoch: leaderEpoch(epoch),
    metadata,
  }));
  return commitOffsetV1.encodeRequest({ group, memberId, generation, offsets });
}

/** Committed offsets of one topic by partition; −1: none. */
export async function offsetsOf(
  client: RawClient,
  topicId: TopicId,
  partitions: number[],
  group: string = GROUP,
): Promise<number[]> {
  const body = fetchOffsetsV1.encodeRequest({ group, topics: [{ topicId, partitions }] });
  const { offsets } = value(fetchOffsetsV1.decodeResponse(await client.call('FetchOffsets', body)));
  return offsets.map((each) => each.offset ?? -1);
}
export async function allOffsets(
  client: RawClient,
  group: string = GROUP,
): Promise<fetchOffsetsV1.FetchOffsetsResponse['offsets']> {
  const body = fetchOffsetsV1.encodeRequest({ group, topics: undefined });
  return value(fetchOffsetsV1.decodeResponse(await client.call('FetchOffsets', body))).offsets;
}
export async function describeGroup(
  client: RawClient,
  group: string = GROUP,
): Promise<describeGroupV1.DescribeGroupResponse> {
  return value(
    describeGroupV1.decodeResponse(await client.call('DescribeGroup', describeGroupV1.encodeRequest({ group }))),
  );
}
export async function listGroups(client: RawClient): Promise<listGroupsV1.ListGroupsResponse['groups']> {
  return value(listGroupsV1.decodeResponse(await client.call('ListGroups', listGroupsV1.encodeRequest({})))).groups;
}
export async function deleteGroup(client: RawClient, group: string = GROUP): Promise<number> {
  const body = deleteGroupV1.encodeRequest({ group });
  return value(deleteGroupV1.decodeResponse(await client.call('DeleteGroup', body))).offsets;
}
export function replayBody(
  places: readonly Place[],
  given: Partial<replayV1.ReplayRequest> = {},
): ReturnType<typeof replayV1.encodeRequest> {
  const targets = places.map(({ topicId, partition = 0, offset: at }) => ({
    topicId,
    partition,
    offset: offset(at),
    leaderEpoch: NO_EPOCH,
  }));
  return replayV1.encodeRequest({ group: GROUP, pause: false, create: false, timeoutMs: 5000, targets, ...given });
}
export async function replay(
  client: RawClient,
  places: readonly Place[],
  given: Partial<replayV1.ReplayRequest> = {},
): Promise<replayV1.ReplayResponse> {
  return value(replayV1.decodeResponse(await client.call('Replay', replayBody(places, given))));
}
/** The error that a request is refused with; undefined: it was not. */
export async function refusal(request: Promise<unknown>): Promise<string | undefined> {
  try {
    await request;
    return undefined;
  } catch (error) {
    if (error instanceof Error && 'failure' in error) return (error.failure as Failure).code;
    throw error;
  }
}
