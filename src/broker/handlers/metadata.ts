import { NO_EPOCH, nodeId as asNodeId } from '../../base/brands.ts';
import { FRAME_BYTES_MAX } from '../../base/limits.ts';
import type { Failure } from '../../protocol/failure.ts';
import { piecesSize } from '../../protocol/frame.ts';
import {
  decodeRequest,
  encodeResponse,
  type ConfigEntry,
  type MetadataRequest,
  type TopicMetadata,
} from '../../protocol/operations/metadata.v1.ts';
import { checkTopicConfig, defaultTopicConfig, TOPIC_CONFIG_KEYS } from '../../protocol/topic-config.ts';
import type { TopicState } from '../../replication/contract.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';
import { badName, findTopic } from '../topics.ts';
import { autoCreate } from './create-topic.ts';

export function metadata(node: BrokerNode, call: Call, body: Uint8Array): Promise<void> | undefined {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return undefined;
  }
  const request = decoded.value;
  const { topics } = request;
  if (!request.autoCreate || !node.settings.autoCreateTopics || topics.kind !== 'names') {
    answer(node, call, request, new Map());
    return undefined;
  }
  return createMissing(node, topics.names).then((failures) => {
    answer(node, call, request, failures);
  });
}

/** One after the other: each is an entry of the metadata log. */
async function createMissing(node: BrokerNode, names: readonly string[]): Promise<ReadonlyMap<string, Failure>> {
  const failures = new Map<string, Failure>();
  for (const name of new Set(names)) {
    if (findTopic(node.metadata.image(), name) !== undefined) continue;
    const failure = await autoCreate(node, name);
    if (failure !== undefined) failures.set(name, failure);
  }
  return failures;
}

function answer(node: BrokerNode, call: Call, request: MetadataRequest, failures: ReadonlyMap<string, Failure>): void {
  const image = node.metadata.image();
  const nodes = Array.from(image.nodes.values()).flatMap(({ nodeId }) => {
    const endpoint = node.endpointOf(nodeId);
    return endpoint === undefined ? [] : [{ nodeId, ...endpoint }];
  });
  const body = encodeResponse({
    clusterId: node.identity.clusterId,
    controllerId: node.metadata.leader?.nodeId,
    nodes,
    topics: select(node, request, failures),
  });
  if (piecesSize(body) > FRAME_BYTES_MAX - 1024)
    call.refuse(refusal('INVALID_ARGUMENT', 'the answer would not fit in a frame; ask for fewer topics by name'));
  else call.answer(body);
}

function select(
  node: BrokerNode,
  { topics, includeConfig }: MetadataRequest,
  failures: ReadonlyMap<string, Failure>,
): TopicMetadata[] {
  const image = node.metadata.image();
  switch (topics.kind) {
    case 'all':
      return Array.from(image.topics.values())
        .sort((left, right) => (left.name < right.name ? -1 : 1))
        .map((topic) => describe(node, topic, includeConfig));
    case 'names':
      return topics.names.map((name) => {
        const topic = findTopic(image, name);
        if (topic !== undefined) return describe(node, topic, includeConfig);
        return missing(failures.get(name) ?? badName(name) ?? refusal('UNKNOWN_TOPIC'), name, undefined);
      });
    case 'ids':
      return topics.ids.map((id) => {
        const topic = image.topics.get(id);
        return topic === undefined ? missing(refusal('UNKNOWN_TOPIC'), '', id) : describe(node, topic, includeConfig);
      });
  }
}

function missing(failure: Failure, name: string, id: TopicMetadata['id']): TopicMetadata {
  return { failure, name, id, partitions: [], config: [] };
}

function describe(node: BrokerNode, topic: TopicState, includeConfig: boolean): TopicMetadata {
  return {
    failure: undefined,
    name: topic.name,
    id: topic.topicId,
    partitions: topic.partitions.map(({ leader, leaderEpoch, replicas, inSync }, partition) => ({
      partition,
      leader: leader < 0 ? undefined : asNodeId(leader),
      leaderEpoch: leader < 0 ? NO_EPOCH : leaderEpoch,
      replicas,
      inSync,
    })),
    config: includeConfig ? configOf(node, topic) : [],
  };
}

function configOf(node: BrokerNode, topic: TopicState): ConfigEntry[] {
  const replicas = topic.partitions[0]?.replicas.length ?? 1;
  const { topicDefaults } = node.settings;
  return TOPIC_CONFIG_KEYS.map((key) => {
    const own = topic.config.get(key);
    // What an older or newer version stored and this one refuses is not in effect.
    const inEffect = own !== undefined && checkTopicConfig([{ key, value: own }], replicas, topicDefaults).ok;
    return {
      key,
      value: inEffect ? own : String(topicDefaults[key] ?? defaultTopicConfig(key, replicas)),
      isDefault: !inEffect,
    };
  });
}
