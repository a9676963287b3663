// What the operations on topics share: placement, settings, and the proposal with its answer.
import { topicId as asTopicId, type NodeId, type TopicId } from '../base/brands.ts';
import { isTopicName, PARTITIONS_PER_TOPIC_MAX } from '../base/limits.ts';
import { topicByName } from '../core/metadata/image.ts';
import type { Failure } from '../protocol/failure.ts';
import { checkTopicConfig } from '../protocol/topic-config.ts';
import type { MetadataView, TopicState } from '../replication/contract.ts';
import { refusal } from './failures.ts';
import type { BrokerNode } from './node.ts';

export const NAME_BYTES_SHOWN = 300;

export interface TopicWish {
  readonly name: string;
  /** 0: the broker's default. */
  readonly partitions: number;
  /** 0: the broker's default, which is all the nodes up to three. */
  readonly replicas: number;
  readonly config: readonly { readonly key: string; readonly value: string }[];
}

export type PlannedTopic =
  | { readonly ok: true; readonly assignment: readonly (readonly NodeId[])[]; readonly replicas: number }
  | { readonly ok: false; readonly failure: Failure };

const REPLICAS_DEFAULT = 3;

function no(failure: Failure): { readonly ok: false; readonly failure: Failure } {
  return { ok: false, failure };
}

export function badName(name: string): Failure | undefined {
  return isTopicName(name) ? undefined : refusal('INVALID_TOPIC_NAME');
}

export function findTopic(image: MetadataView, name: string): TopicState | undefined {
  return topicByName(image, name);
}

/** Everything that can be wrong with a new topic, but that its name is taken. */
export function planTopic(node: BrokerNode, wish: TopicWish): PlannedTopic {
  const failure = badName(wish.name);
  if (failure !== undefined) return no(failure);
  const image = node.metadata.image();
  const nodes = Array.from(image.nodes.values(), ({ nodeId }) => nodeId).sort((left, right) => left - right);
  const partitions = wish.partitions === 0 ? node.settings.defaultPartitions : wish.partitions;
  const replicas = wish.replicas === 0 ? Math.min(REPLICAS_DEFAULT, nodes.length) : wish.replicas;
  if (partitions > PARTITIONS_PER_TOPIC_MAX)
    return no(
      refusal('INVALID_ARGUMENT', `${String(partitions)} partitions, at most ${String(PARTITIONS_PER_TOPIC_MAX)}`),
    );
  if (replicas > nodes.length)
    return no(
      refusal(
        'INVALID_ARGUMENT',
        `${String(replicas)} replicas, but the cluster has ${String(nodes.length)} ${nodes.length === 1 ? 'node' : 'nodes'}`,
      ),
    );
  const checked = checkTopicConfig(wish.config, replicas, node.settings.topicDefaults);
  if (!checked.ok) return no(refusal('INVALID_CONFIG', checked.message, { setting: checked.key }));
  return { ok: true, assignment: assign(nodes, partitions, replicas, image.topics.size), replicas };
}

/** Leaders go round the nodes, from topic to topic too. */
export function assign(
  nodes: readonly NodeId[],
  partitions: number,
  replicas: number,
  from: number,
): readonly (readonly NodeId[])[] {
  return Array.from({ length: partitions }, (_, partition) =>
    Array.from({ length: replicas }, (_unused, replica) => nodes[(from + partition + replica) % nodes.length]).filter(
      (node) => node !== undefined,
    ),
  );
}

export function newTopicId(node: BrokerNode): TopicId {
  return asTopicId(Array.from(node.ports.random.bytes(16), (byte) => byte.toString(16).padStart(2, '0')).join(''));
}

/** Resolves when the partitions of this node are open, or `timeoutMs` has passed: a produce that comes next finds them. */
export async function whenServed(node: BrokerNode, topicId: TopicId, timeoutMs: number): Promise<void> {
  let cancel = (): void => undefined;
  const timeout = new Promise<void>((resolve) => {
    cancel = node.ports.clock.setTimer(timeoutMs, resolve);
  });
  try {
    await Promise.race([node.replicas.whenReady(topicId), timeout]);
  } finally {
    cancel();
  }
}
