import type { LeaderEpoch, NodeId, Offset, TopicId } from '../../base/brands.ts';
import { DecodeError } from '../../base/bytes.ts';
import { REQUEST_PARTITIONS_MAX } from '../../base/limits.ts';
import {
  type Decoded,
  type Pieces,
  LABEL_BYTES_MAX,
  decode,
  encode,
  readLeaderEpoch,
  readList,
  readNodeId,
  readOffset,
  readTopicId,
  writeList,
  writeTopicId,
} from '../wire.ts';

export interface ReplicaAckPartition {
  readonly topicId: TopicId;
  readonly partition: number;
  /** In which it follows; told only once the leader of that epoch has given it batches, or found nothing to give. */
  readonly leaderEpoch: LeaderEpoch;
  readonly written: Offset;
  readonly synced: Offset;
}
/** Between nodes: how far a follower has got, told as soon as a sync has finished instead of with the next ReplicaFetch. */
export interface ReplicaAckRequest {
  readonly from: NodeId;
  readonly diskId: string;
  readonly incarnation: number;
  readonly partitions: readonly ReplicaAckPartition[];
}
export interface ReplicaAckResponse {
  /** Partitions of which it was counted: others are led by somebody else, or in another epoch. */
  readonly counted: number;
}

// request   = node id i32, disk id string, incarnation i64, count u32, count × partition
// partition = topic id, partition u32, leader epoch i32, written i64, synced i64
export function encodeRequest(request: ReplicaAckRequest): Pieces {
  return [
    encode((sink) => {
      sink.i32(request.from).string(request.diskId).i64(request.incarnation);
      writeList(sink, request.partitions, (item) => {
        writeTopicId(sink, item.topicId);
        sink.u32(item.partition).i32(item.leaderEpoch).i64(item.written).i64(item.synced);
      });
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<ReplicaAckRequest> {
  return decode(body, (reader) => ({
    from: readNodeId(reader),
    diskId: reader.string(LABEL_BYTES_MAX),
    incarnation: readOffset(reader),
    partitions: readList(reader, { elementBytesMin: 40, countMax: REQUEST_PARTITIONS_MAX }, () => {
      const { at } = reader;
      const item = {
        topicId: readTopicId(reader),
        partition: reader.u32(),
        leaderEpoch: readLeaderEpoch(reader),
        written: readOffset(reader),
        synced: readOffset(reader),
      };
      if (item.synced > item.written) throw new DecodeError('synced beyond written', at);
      return item;
    }),
  }));
}

// response = partitions that were counted u32
export function encodeResponse(response: ReplicaAckResponse): Pieces {
  return [encode((sink) => sink.u32(response.counted))];
}
export function decodeResponse(body: Uint8Array): Decoded<ReplicaAckResponse> {
  return decode(body, (reader) => ({ counted: reader.u32() }));
}
