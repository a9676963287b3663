import type { NodeId, TimestampMs } from '../../base/brands.ts';
import {
  type Decoded,
  HOST_BYTES_MAX,
  LABEL_BYTES_MAX,
  type Pieces,
  decode,
  encode,
  readChoice,
  readList,
  readNodeId,
  readOptionalNodeId,
  readTimestamp,
  writeList,
} from '../wire.ts';

export type ClusterStatusRequest = Readonly<Record<never, never>>;

export type NodeState = 'offline' | 'online' | 'draining';

export interface NodeStatus {
  readonly nodeId: NodeId;
  readonly host: string;
  readonly port: number;
  readonly state: NodeState;
  readonly softwareVersion: string;
  /** −1: not known. */
  readonly startedAt: TimestampMs;
  /** Partitions that it leads, and of which it holds a replica. */
  readonly leaders: number;
  readonly replicas: number;
}
export interface ClusterStatusResponse {
  readonly clusterId: string;
  readonly controllerId: NodeId | undefined;
  readonly nodes: readonly NodeStatus[];
  readonly topics: number;
  readonly partitions: number;
  /** Without a leader. */
  readonly offlinePartitions: number;
  /** With fewer in-sync replicas than replicas. */
  readonly underReplicatedPartitions: number;
  /** With fewer in-sync replicas than min.insync.replicas: they take no writes. */
  readonly underMinInSyncPartitions: number;
  /** With a damaged range on some replica. */
  readonly damagedPartitions: number;
}

const STATES: readonly NodeState[] = ['offline', 'online', 'draining'];
const NODES_MAX = 1024;

// request = (empty)
export function encodeRequest(_request: ClusterStatusRequest): Pieces {
  return [];
}
export function decodeRequest(body: Uint8Array): Decoded<ClusterStatusRequest> {
  return decode(body, () => ({}));
}

// response = cluster id string, controller id i32 (−1: none), count u32, count × node, topics u32, partitions u32,
//            offline partitions u32, under-replicated partitions u32, partitions under min in-sync u32, damaged partitions u32
// node     = node id i32, host string, port u16, state u8 (0: offline, 1: online, 2: draining), software version string,
//            started at i64 (ms since 1970; −1: not known), leaders u32, replicas u32
export function encodeResponse(response: ClusterStatusResponse): Pieces {
  return [
    encode((sink) => {
      sink.string(response.clusterId).i32(response.controllerId ?? -1);
      writeList(sink, response.nodes, (node) => {
        sink
          .i32(node.nodeId)
          .string(node.host)
          .u16(node.port)
          .u8(STATES.indexOf(node.state))
          .string(node.softwareVersion);
        sink.i64(node.startedAt).u32(node.leaders).u32(node.replicas);
      });
      sink.u32(response.topics).u32(response.partitions).u32(response.offlinePartitions);
      sink
        .u32(response.underReplicatedPartitions)
        .u32(response.underMinInSyncPartitions)
        .u32(response.damagedPartitions);
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<ClusterStatusResponse> {
  return decode(body, (reader) => ({
    clusterId: reader.string(LABEL_BYTES_MAX),
    controllerId: readOptionalNodeId(reader),
    nodes: readList(reader, { elementBytesMin: 27, countMax: NODES_MAX }, () => ({
      nodeId: readNodeId(reader),
      host: reader.string(HOST_BYTES_MAX),
      port: reader.u16(),
      state: readChoice(reader, 'node state', STATES),
      softwareVersion: reader.string(LABEL_BYTES_MAX),
      startedAt: readTimestamp(reader),
      leaders: reader.u32(),
      replicas: reader.u32(),
    })),
    topics: reader.u32(),
    partitions: reader.u32(),
    offlinePartitions: reader.u32(),
    underReplicatedPartitions: reader.u32(),
    underMinInSyncPartitions: reader.u32(),
    damagedPartitions: reader.u32(),
  }));
}
