import type { LeaderEpoch, Offset, TimestampMs, TopicId } from '../../base/brands.ts';
import { type ByteReader, DecodeError } from '../../base/bytes.ts';
import {
  CLIENT_ID_BYTES_MAX,
  COMMIT_METADATA_BYTES_MAX,
  GROUP_ID_BYTES_MAX,
  GROUP_MEMBERS_MAX,
  GROUP_TOPICS_MAX,
} from '../../base/limits.ts';
import {
  type TopicPartitions,
  readGeneration,
  readGroupId,
  readMemberId,
  readTopicPartitions,
  writeTopicPartitions,
} from '../group-fields.ts';
import {
  type Decoded,
  type Pieces,
  type Sink,
  decode,
  encode,
  readChoice,
  readLeaderEpoch,
  readList,
  readOptionalOffset,
  readTimestamp,
  readTopicId,
  readTopicName,
  writeList,
  writeTopicId,
} from '../wire.ts';
import { GROUP_STATES, type GroupState } from './list-groups.v1.ts';

export interface DescribeGroupRequest {
  readonly group: string;
}
export interface DescribedMember {
  readonly memberId: string;
  readonly instanceId: string | undefined;
  readonly clientId: string;
  readonly topics: readonly string[];
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
  readonly generation: number;
  /** Since its last heartbeat, or since the coordinator came up. */
  readonly silentMs: number;
  /** What it owns and keeps. */
  readonly assigned: readonly TopicPartitions[];
  /** What it owns and is to release. */
  readonly release: readonly TopicPartitions[];
}
/** A partition that somebody owns, that is to be owned, or that has a committed offset. */
export interface DescribedPartition {
  readonly topicId: TopicId;
  readonly topic: string;
  readonly partition: number;
  /** Undefined: nobody owns it now. */
  readonly memberId: string | undefined;
  /** Undefined: nothing is committed; then what follows is as of the log start. */
  readonly committed: Offset | undefined;
  readonly committedEpoch: LeaderEpoch;
  readonly committedAt: TimestampMs;
  readonly metadata: string;
  /** Undefined, all three: another node leads the partition, or it is offline. */
  readonly logStart: Offset | undefined;
  readonly logEnd: Offset | undefined;
  readonly highWatermark: Offset | undefined;
  /** Bytes on disk from the committed offset to the end; undefined: not known. */
  readonly lagBytes: number | undefined;
  /** Timestamp of the next batch to read; −1: there is none, or it is not known. The lag in seconds is `now` minus this. */
  readonly nextTimestamp: TimestampMs;
  /** Time until retention by time may remove the next record; undefined: there is no such retention, or no such record. */
  readonly retentionMarginMs: number | undefined;
  /** What may be appended until retention by size may remove the next record; undefined as above. */
  readonly retentionMarginBytes: number | undefined;
}
export interface DescribeGroupResponse {
  readonly group: string;
  readonly state: GroupState;
  readonly generation: number;
  /** Wall clock of the broker. */
  readonly now: TimestampMs;
  readonly members: readonly DescribedMember[];
  /** By topic name and partition. */
  readonly partitions: readonly DescribedPartition[];
}

const PARTITIONS_MAX = 1_000_000;

// request = group string
export function encodeRequest(request: DescribeGroupRequest): Pieces {
  return [encode((sink) => sink.string(request.group))];
}
export function decodeRequest(body: Uint8Array): Decoded<DescribeGroupRequest> {
  return decode(body, (reader) => ({ group: readGroupId(reader) }));
}

// response  = group string, state u8 (0: empty, 1: stable, 2: rebalancing, 3: paused), generation i64, now i64,
//             count u32, count × member, count u32, count × partition
// member    = member id string, instance id string (empty: none), client id string, count u32, count × topic name string,
//             session timeout ms u32, rebalance timeout ms u32, generation i64, silent ms u32, assigned topics, topics to release
// topics    = count u32, count × (topic id 16 bytes, count u32, count × partition u32)
// partition = topic id 16 bytes, topic name string, partition u32, owner's member id string (empty: none),
//             committed offset i64 (−1: none), committed epoch i32, committed at i64, metadata string,
//             log start i64, log end i64, high watermark i64 (−1: not known, all three),
//             lag bytes i64 (−1: not known), next timestamp i64 (of the next batch to read; −1: none, or not known),
//             retention margin ms i64, retention margin bytes i64 (until retention may remove the next record; −1: it will not,
//             or not known)
export function encodeResponse(response: DescribeGroupResponse): Pieces {
  return [
    encode((sink) => {
      sink.string(response.group).u8(GROUP_STATES.indexOf(response.state)).i64(response.generation).i64(response.now);
      writeList(sink, response.members, (item) => {
        writeMember(sink, item);
      });
      writeList(sink, response.partitions, (item) => {
        writePartition(sink, item);
      });
    }),
  ];
}
function writeMember(sink: Sink, item: DescribedMember): void {
  sink
    .string(item.memberId)
    .string(item.instanceId ?? '')
    .string(item.clientId);
  writeList(sink, item.topics, (name) => sink.string(name));
  sink.u32(item.sessionTimeoutMs).u32(item.rebalanceTimeoutMs).i64(item.generation).u32(item.silentMs);
  writeTopicPartitions(sink, item.assigned);
  writeTopicPartitions(sink, item.release);
}
function writePartition(sink: Sink, item: DescribedPartition): void {
  writeTopicId(sink, item.topicId);
  sink
    .string(item.topic)
    .u32(item.partition)
    .string(item.memberId ?? '');
  sink.i64(item.committed ?? -1).i32(item.committedEpoch);
  sink.i64(item.committedAt).string(item.metadata);
  sink
    .i64(item.logStart ?? -1)
    .i64(item.logEnd ?? -1)
    .i64(item.highWatermark ?? -1);
  sink.i64(item.lagBytes ?? -1).i64(item.nextTimestamp);
  sink.i64(item.retentionMarginMs ?? -1).i64(item.retentionMarginBytes ?? -1);
}

export function decodeResponse(body: Uint8Array): Decoded<DescribeGroupResponse> {
  return decode(body, (reader) => ({
    group: readGroupId(reader),
    state: readChoice(reader, 'state of the group', GROUP_STATES),
    generation: readGeneration(reader, 0),
    now: readTimestamp(reader),
    members: readList(reader, { elementBytesMin: 38, countMax: GROUP_MEMBERS_MAX }, () => readMember(reader)),
    partitions: readList(reader, { elementBytesMin: 102, countMax: PARTITIONS_MAX }, () => readPartition(reader)),
  }));
}
function readMember(reader: ByteReader): DescribedMember {
  const memberId = readMemberId(reader);
  const instanceId = reader.string(GROUP_ID_BYTES_MAX);
  return {
    memberId,
    instanceId: instanceId === '' ? undefined : instanceId,
    clientId: reader.string(CLIENT_ID_BYTES_MAX),
    topics: readList(reader, { elementBytesMin: 2, countMax: GROUP_TOPICS_MAX }, () => readTopicName(reader)),
    sessionTimeoutMs: reader.u32(),
    rebalanceTimeoutMs: reader.u32(),
    generation: readGeneration(reader, 0),
    silentMs: reader.u32(),
    assigned: readTopicPartitions(reader),
    release: readTopicPartitions(reader),
  };
}
function readPartition(reader: ByteReader): DescribedPartition {
  const place = { topicId: readTopicId(reader), topic: readTopicName(reader), partition: reader.u32() };
  const memberId = readMemberId(reader);
  return {
    ...place,
    memberId: memberId === '' ? undefined : memberId,
    committed: readOptionalOffset(reader),
    committedEpoch: readLeaderEpoch(reader),
    committedAt: readTimestamp(reader),
    metadata: reader.string(COMMIT_METADATA_BYTES_MAX),
    logStart: readOptionalOffset(reader),
    logEnd: readOptionalOffset(reader),
    highWatermark: readOptionalOffset(reader),
    lagBytes: readOptionalNumber(reader),
    nextTimestamp: readTimestamp(reader),
    retentionMarginMs: readOptionalNumber(reader),
    retentionMarginBytes: readOptionalNumber(reader),
  };
}
function readOptionalNumber(reader: ByteReader): number | undefined {
  const at = reader.at;
  const value = reader.i64();
  if (value < -1) throw new DecodeError(`number is ${String(value)}`, at);
  return value === -1 ? undefined : value;
}
