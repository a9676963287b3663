// What the operations on consumer groups share: partitions by topic, and what a member is told of its membership.
import type { TopicId } from '../base/brands.ts';
import { type ByteReader, DecodeError } from '../base/bytes.ts';
import { GROUP_ID_BYTES_MAX, GROUP_PARTITIONS_MAX, MEMBER_ID_BYTES_MAX } from '../base/limits.ts';
import { type Sink, readChoice, readList, readTopicId, writeList, writeTopicId } from './wire.ts';

/** Partitions of one topic. */
export interface TopicPartitions {
  readonly topicId: TopicId;
  readonly partitions: readonly number[];
}

export type MembershipState =
  /** It owns what it is to own. */
  | 'stable'
  /** It holds partitions that it must stop, commit and release; the ones in `assigned` go on. */
  | 'revoking'
  /** Partitions that it is to own are still with others. */
  | 'waiting'
  /** Nobody reads now: the group is being reset. It goes on by itself. */
  | 'paused';

/** What a member is told: the whole truth each time, not a difference. */
export interface Membership {
  /** Rises with each change of this member's partitions; commits, heartbeats and releases name it. */
  readonly generation: number;
  readonly state: MembershipState;
  /** Send the next heartbeat no later than this after the answer. */
  readonly heartbeatMs: number;
  /** Partitions to read now: start those that are not being read, from their committed offsets. */
  readonly assigned: readonly TopicPartitions[];
  /** Partitions to stop: finish or drop what is in progress, commit, then name them as released. */
  readonly release: readonly TopicPartitions[];
}

const STATES: readonly MembershipState[] = ['stable', 'revoking', 'waiting', 'paused'];
/** No generation is known yet. */
export const NO_GENERATION = -1;

export function writeTopicPartitions(sink: Sink, topics: readonly TopicPartitions[]): void {
  writeList(sink, topics, ({ topicId, partitions }) => {
    writeTopicId(sink, topicId);
    writeList(sink, partitions, (partition) => sink.u32(partition));
  });
}
export function readTopicPartitions(reader: ByteReader): TopicPartitions[] {
  return readList(reader, { elementBytesMin: 20, countMax: GROUP_PARTITIONS_MAX }, () => ({
    topicId: readTopicId(reader),
    partitions: readList(reader, { elementBytesMin: 4, countMax: GROUP_PARTITIONS_MAX }, () => reader.u32()),
  }));
}

export function writeMembership(sink: Sink, membership: Membership): void {
  sink.i64(membership.generation).u8(STATES.indexOf(membership.state)).u32(membership.heartbeatMs);
  writeTopicPartitions(sink, membership.assigned);
  writeTopicPartitions(sink, membership.release);
}
export function readMembership(reader: ByteReader): Membership {
  return {
    generation: readGeneration(reader, 0),
    state: readChoice(reader, 'state of the membership', STATES),
    heartbeatMs: reader.u32(),
    assigned: readTopicPartitions(reader),
    release: readTopicPartitions(reader),
  };
}

/** `least` is NO_GENERATION where there may be none yet. */
export function readGeneration(reader: ByteReader, least: number): number {
  const at = reader.at;
  const generation = reader.i64();
  if (generation < least) throw new DecodeError(`generation is ${String(generation)}`, at);
  return generation;
}
/** Which texts are ids is the broker's to say; here only the length is bounded. */
export function readGroupId(reader: ByteReader): string {
  return reader.string(GROUP_ID_BYTES_MAX);
}
export function readMemberId(reader: ByteReader): string {
  return reader.string(MEMBER_ID_BYTES_MAX);
}
