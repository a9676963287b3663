// Metadata: which topics there are, and which node leads each of their partitions.
import type { TopicId } from '../../base/brands.ts';
import { PARTITIONS_PER_TOPIC_MAX, REQUEST_PARTITIONS_MAX, TOPIC_NAME_BYTES_MAX } from '../../base/limits.ts';
import { array, i32, is, optional, string, struct, topicIdField, u16, u32, type Field, type KeyValue } from '../fields.ts';
import type { Operation } from '../operation.ts';

export interface MetadataRequest {
  /** Undefined: all topics. */
  readonly topics: readonly string[] | undefined;
}
export interface NodeEndpoint {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}
export interface PartitionMetadata {
  readonly partition: number;
  /** -1: none now. */
  readonly leader: number;
  readonly leaderEpoch: number;
  readonly replicas: readonly number[];
  readonly inSync: readonly number[];
}
export interface TopicMetadata {
  readonly errorCode: number;
  readonly name: string;
  /** All zeros when there is an error. */
  readonly topicId: TopicId;
  readonly config: readonly KeyValue[];
  readonly partitions: readonly PartitionMetadata[];
}
export interface MetadataResponse {
  readonly clusterId: string;
  readonly controllerId: number;
  readonly nodes: readonly NodeEndpoint[];
  readonly topics: readonly TopicMetadata[];
}

/** Settings of a topic, keys as listed in the documentation. */
export const keyValue: Field<KeyValue> = struct<KeyValue>({
  key: is(string(128), 'Setting.'),
  value: is(string(4096), 'Value as text.'),
});

const endpoint: Field<NodeEndpoint> = struct<NodeEndpoint>({
  nodeId: is(i32, 'Node.'),
  host: is(string(255), 'Host name or address for clients.'),
  port: is(u16, 'Port for clients.'),
});
const partition: Field<PartitionMetadata> = struct<PartitionMetadata>({
  partition: is(u32, 'Partition number, from 0.'),
  leader: is(i32, 'Node that takes produce and fetch; −1: none now.'),
  leaderEpoch: is(i32, 'Epoch of that leadership.'),
  replicas: is(array(i32, 64), 'Nodes that hold a copy.'),
  inSync: is(array(i32, 64), 'Those that have everything committed.'),
});
const topic: Field<TopicMetadata> = struct<TopicMetadata>({
  errorCode: is(u16, '0, UNKNOWN_TOPIC or INVALID_TOPIC_NAME.'),
  name: is(string(TOPIC_NAME_BYTES_MAX), 'Topic name.'),
  topicId: is(topicIdField, 'What Produce, Fetch and ListOffsets use; a recreated topic has another one.'),
  config: is(array(keyValue, 256), 'Settings in force, defaults included.'),
  partitions: is(array(partition, PARTITIONS_PER_TOPIC_MAX), 'Partitions in order.'),
});

export const metadata: Operation<MetadataRequest, MetadataResponse> = {
  code: 2,
  name: 'Metadata',
  version: 1,
  about: 'Topics, partitions, leaders.',
  beforeHello: false,
  changesState: false,
  request: struct<MetadataRequest>({
    topics: is(optional(array(string(TOPIC_NAME_BYTES_MAX), REQUEST_PARTITIONS_MAX)), 'Names asked for; absent: all topics.'),
  }),
  response: struct<MetadataResponse>({
    clusterId: is(string(64), 'Cluster.'),
    controllerId: is(i32, 'Node that takes topic changes; −1: none now.'),
    nodes: is(array(endpoint, 1024), 'Nodes of the cluster.'),
    topics: is(array(topic, 65_536), 'One entry per name asked for, or all.'),
  }),
  requestPayload: undefined,
  responsePayload: undefined,
};
