import { array, bool, i32, i64, is, string, struct, u16, u32, type Field } from '../fields.ts';
import type { Operation } from '../operation.ts';

export type ClusterStatusRequest = Readonly<Record<never, never>>;
export interface NodeStatus {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
  readonly alive: boolean;
  readonly softwareVersion: string;
  readonly startedAtMs: number;
  readonly partitionsLed: number;
}
export interface ClusterStatusResponse {
  readonly clusterId: string;
  readonly controllerId: number;
  readonly topics: number;
  readonly partitions: number;
  readonly underReplicated: number;
  readonly offline: number;
  readonly damagedRanges: number;
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly nodes: readonly NodeStatus[];
}

const node: Field<NodeStatus> = struct<NodeStatus>({
  nodeId: is(i32, 'Node.'),
  host: is(string(255), 'Host for clients.'),
  port: is(u16, 'Port for clients.'),
  alive: is(bool, 'The controller hears from it.'),
  softwareVersion: is(string(64), 'Version it runs.'),
  startedAtMs: is(i64, 'When it started; ms since 1970.'),
  partitionsLed: is(u32, 'Partitions that it leads.'),
});

export const clusterStatus: Operation<ClusterStatusRequest, ClusterStatusResponse> = {
  code: 10,
  name: 'ClusterStatus',
  version: 1,
  about: 'How the cluster and the answering node are.',
  beforeHello: false,
  changesState: false,
  request: struct<ClusterStatusRequest>({}),
  response: struct<ClusterStatusResponse>({
    clusterId: is(string(64), 'Cluster.'),
    controllerId: is(i32, 'Node that takes topic changes; −1: none now.'),
    topics: is(u32, 'Topics.'),
    partitions: is(u32, 'Partitions.'),
    underReplicated: is(u32, 'Partitions whose in-sync set is smaller than their replicas.'),
    offline: is(u32, 'Partitions that nobody serves.'),
    damagedRanges: is(u32, 'Damaged offset ranges on the answering node.'),
    freeBytes: is(i64, 'Free disk space of the answering node.'),
    totalBytes: is(i64, 'Disk space of the answering node.'),
    nodes: is(array(node, 1024), 'Nodes.'),
  }),
  requestPayload: undefined,
  responsePayload: undefined,
};
