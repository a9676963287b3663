import { NO_TIMESTAMP } from '../../base/brands.ts';
import { decodeRequest, encodeResponse, type NodeStatus } from '../../protocol/operations/cluster-status.v1.ts';
import { defaultTopicConfig } from '../../protocol/topic-config.ts';
import type { NodeState, PartitionState, TopicState } from '../../replication/contract.ts';
import type { Call } from '../call.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export function clusterStatus(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  const image = node.metadata.image();
  const states = Array.from(image.topics.values()).flatMap((topic) =>
    topic.partitions.map((state) => ({ state, minInSync: minInSyncOf(topic) })),
  );
  let damagedPartitions = 0;
  for (const replica of node.replicas.all()) if (replica.damaged.length > 0) damagedPartitions += 1;
  call.answer(
    encodeResponse({
      clusterId: node.identity.clusterId,
      controllerId: node.metadata.leader?.nodeId,
      nodes: Array.from(image.nodes.values(), (each) =>
        statusOf(
          node,
          each,
          states.map(({ state }) => state),
        ),
      ),
      topics: image.topics.size,
      partitions: states.length,
      offlinePartitions: states.filter(({ state }) => state.leader < 0).length,
      underReplicatedPartitions: states.filter(({ state }) => state.inSync.length < state.replicas.length).length,
      underMinInSyncPartitions: states.filter(({ state, minInSync }) => state.inSync.length < minInSync).length,
      damagedPartitions,
    }),
  );
}

function minInSyncOf(topic: TopicState): number {
  const replicas = topic.partitions[0]?.replicas.length ?? 1;
  const own = Number(topic.config.get('min.insync.replicas') ?? defaultTopicConfig('min.insync.replicas', replicas));
  return Math.min(own, replicas);
}

function statusOf(node: BrokerNode, { nodeId }: NodeState, states: readonly PartitionState[]): NodeStatus {
  const { identity, stopping } = node;
  const isSelf = nodeId === identity.nodeId;
  const endpoint = node.endpointOf(nodeId);
  return {
    nodeId,
    host: endpoint?.host ?? '',
    port: endpoint?.port ?? 0,
    state: isSelf ? (stopping ? 'draining' : 'online') : 'offline',
    softwareVersion: isSelf ? identity.softwareVersion : '',
    startedAt: isSelf ? identity.startedAt : NO_TIMESTAMP,
    leaders: states.filter(({ leader }) => leader === nodeId).length,
    replicas: states.filter(({ replicas }) => replicas.includes(nodeId)).length,
  };
}
