import type { NodeId } from '../../base/brands.ts';
import { PARTITIONS_PER_TOPIC_MAX } from '../../base/limits.ts';
import type { Failure } from '../../protocol/failure.ts';
import {
  decodeRequest,
  encodeResponse,
  type AlterTopicRequest,
  type AlterTopicResponse,
} from '../../protocol/operations/alter-topic.v1.ts';
import { checkTopicConfig, isTopicConfigKey } from '../../protocol/topic-config.ts';
import type { TopicState } from '../../replication/contract.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';
import { assign, badName, findTopic, whenServed } from '../topics.ts';

const SERVED_WAIT_MS_MAX = 30_000;

export async function alterTopic(node: BrokerNode, call: Call, body: Uint8Array): Promise<void> {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  const result = await alter(node, decoded.value);
  if ('code' in result) call.refuse(result);
  else call.answer(encodeResponse(result));
}

async function alter(node: BrokerNode, request: AlterTopicRequest): Promise<AlterTopicResponse | Failure> {
  const nameFault = badName(request.name);
  if (nameFault !== undefined) return nameFault;
  const topic = findTopic(node.metadata.image(), request.name);
  if (topic === undefined) return refusal('UNKNOWN_TOPIC');
  const fault = configFault(node, topic, request) ?? partitionsFault(topic, request);
  if (fault !== undefined) return fault;
  const before = topic.partitions.length;
  const wanted = request.partitions ?? before;
  if (request.validateOnly) return { topicId: topic.topicId, partitions: wanted };
  const nodes: NodeId[] = Array.from(node.metadata.image().nodes.values(), ({ nodeId }) => nodeId).sort(
    (left, right) => left - right,
  );
  const added = assign(nodes, wanted - before, topic.partitions[0]?.replicas.length ?? 1, before);
  const outcome = await node.metadata.propose({
    kind: 'AlterTopic',
    topicId: topic.topicId,
    config: request.config,
    expectedPartitions: before,
    added,
  });
  if (!outcome.ok) return refusal(outcome.code, outcome.message);
  await whenServed(node, topic.topicId, Math.min(request.timeoutMs, SERVED_WAIT_MS_MAX));
  return { topicId: topic.topicId, partitions: wanted };
}

function configFault(node: BrokerNode, topic: TopicState, request: AlterTopicRequest): Failure | undefined {
  const merged = new Map(topic.config);
  const seen = new Set<string>();
  for (const { key, value } of request.config) {
    // Removing what never was a setting is a spelling mistake.
    if (!isTopicConfigKey(key))
      return refusal('INVALID_CONFIG', `there is no topic setting "${key}"`, { setting: key });
    if (seen.has(key)) return refusal('INVALID_CONFIG', `${key} is given twice`, { setting: key });
    seen.add(key);
    if (value === undefined) merged.delete(key);
    else merged.set(key, value);
  }
  const replicas = topic.partitions[0]?.replicas.length ?? 1;
  const checked = checkTopicConfig(
    Array.from(merged, ([key, value]) => ({ key, value })),
    replicas,
    node.settings.topicDefaults,
  );
  return checked.ok ? undefined : refusal('INVALID_CONFIG', checked.message, { setting: checked.key });
}

function partitionsFault(
  topic: TopicState,
  { partitions, confirmKeyMovement }: AlterTopicRequest,
): Failure | undefined {
  const before = topic.partitions.length;
  if (partitions === undefined || partitions === before) return undefined;
  if (partitions < before)
    return refusal(
      'INVALID_ARGUMENT',
      `${String(partitions)} partitions, but the topic has ${String(before)}, and partitions are never removed`,
    );
  if (partitions > PARTITIONS_PER_TOPIC_MAX)
    return refusal('INVALID_ARGUMENT', `${String(partitions)} partitions, at most ${String(PARTITIONS_PER_TOPIC_MAX)}`);
  return confirmKeyMovement ? undefined : refusal('CONFIRMATION_REQUIRED');
}
