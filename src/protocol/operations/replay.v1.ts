import type { LeaderEpoch, Offset, TopicId } from '../../base/brands.ts';
import { REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import { type Failure, readFailure, writeFailure } from '../failure.ts';
import { readGeneration, readGroupId } from '../group-fields.ts';
import {
  type Decoded,
  type Pieces,
  decode,
  encode,
  readLeaderEpoch,
  readList,
  readOffset,
  readOptionalOffset,
  readTopicId,
  writeList,
  writeTopicId,
} from '../wire.ts';

export interface ReplayTarget {
  readonly topicId: TopicId;
  readonly partition: number;
  /** The next to read. Earliest, latest and times are turned into offsets by ListOffsets before. */
  readonly offset: Offset;
  /** From the answer of ListOffsets; −1: not known. */
  readonly leaderEpoch: LeaderEpoch;
}
export interface ReplayRequest {
  readonly group: string;
  /** With active members: stop them, reset, let them go on. Otherwise such a group is refused. */
  readonly pause: boolean;
  /** Make a group that does not exist; otherwise it is refused. */
  readonly create: boolean;
  /** What the members get to stop. When it is over nothing was reset, and they go on as before. */
  readonly timeoutMs: number;
  readonly targets: readonly ReplayTarget[];
}
export interface ReplayedPartition {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly failure: Failure | undefined;
  /** What was committed before; undefined: nothing. */
  readonly before: Offset | undefined;
}
export interface ReplayResponse {
  /** All were reset; false: none, and the failures say why. */
  readonly done: boolean;
  /** Of the group, afterwards. */
  readonly generation: number;
  /** In the order of the request. */
  readonly partitions: readonly ReplayedPartition[];
}

// request = group string, pause bool, create bool, timeout ms u32, count u32, count × target
// target  = topic id 16 bytes, partition u32, offset i64 (the next to read), leader epoch i32 (−1: not known)
export function encodeRequest(request: ReplayRequest): Pieces {
  return [
    encode((sink) => {
      sink.string(request.group).bool(request.pause).bool(request.create).u32(request.timeoutMs);
      writeList(sink, request.targets, (item) => {
        writeTopicId(sink, item.topicId);
        sink.u32(item.partition).i64(item.offset).i32(item.leaderEpoch);
      });
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<ReplayRequest> {
  return decode(body, (reader) => ({
    group: readGroupId(reader),
    pause: reader.bool(),
    create: reader.bool(),
    timeoutMs: reader.u32(),
    targets: readList(reader, { elementBytesMin: 32, countMax: REQUEST_PARTITIONS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
      offset: readOffset(reader),
      leaderEpoch: readLeaderEpoch(reader),
    })),
  }));
}

// response  = done bool (0: nothing was reset, the errors say why), generation i64, count u32, count × partition
// partition = topic id 16 bytes, partition u32, error, offset before i64 (−1: nothing was committed)
export function encodeResponse(response: ReplayResponse): Pieces {
  return [
    encode((sink) => {
      sink.bool(response.done).i64(response.generation);
      writeList(sink, response.partitions, (item) => {
        writeTopicId(sink, item.topicId);
        writeFailure(sink.u32(item.partition), item.failure);
        sink.i64(item.before ?? -1);
      });
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<ReplayResponse> {
  return decode(body, (reader) => ({
    done: reader.bool(),
    generation: readGeneration(reader, 0),
    partitions: readList(reader, { elementBytesMin: 30, countMax: REQUEST_PARTITIONS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
      failure: readFailure(reader),
      before: readOptionalOffset(reader),
    })),
  }));
}
