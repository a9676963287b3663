import type { Failure } from '../../protocol/failure.ts';
import {
  decodeRequest,
  encodeResponse,
  type CreateTopicRequest,
  type CreateTopicResponse,
} from '../../protocol/operations/create-topic.v1.ts';
import type { TopicState } from '../../replication/contract.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';
import { findTopic, newTopicId, planTopic, whenServed, type TopicWish } from '../topics.ts';

/** Partitions that open slowly must not hold an answer for ever. */
const SERVED_WAIT_MS_MAX = 30_000;

export async function createTopic(node: BrokerNode, call: Call, body: Uint8Array): Promise<void> {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  const result = await create(node, decoded.value);
  if ('code' in result) call.refuse(result);
  else call.answer(encodeResponse(result));
}

async function create(node: BrokerNode, request: CreateTopicRequest): Promise<CreateTopicResponse | Failure> {
  const existing = findTopic(node.metadata.image(), request.name);
  if (existing !== undefined) return exists(existing, request);
  const planned = planTopic(node, request);
  if (!planned.ok) return planned.failure;
  const counts = { partitions: planned.assignment.length, replicas: planned.replicas };
  if (request.validateOnly) return { topicId: undefined, created: false, ...counts };
  const made = await makeTopic(node, request, planned.assignment, Math.min(request.timeoutMs, SERVED_WAIT_MS_MAX));
  if (made.ok) return { topicId: made.topicId, created: true, ...counts };
  // Somebody else was quicker.
  const now = made.failure.code === 'TOPIC_EXISTS' ? findTopic(node.metadata.image(), request.name) : undefined;
  return now === undefined ? made.failure : exists(now, request);
}

function exists(topic: TopicState, request: CreateTopicRequest): CreateTopicResponse | Failure {
  if (!request.ifNotExists) return refusal('TOPIC_EXISTS', `topic ${topic.name} exists`);
  return {
    topicId: topic.topicId,
    created: false,
    partitions: topic.partitions.length,
    replicas: topic.partitions[0]?.replicas.length ?? 0,
  };
}

type MadeTopic =
  | { readonly ok: true; readonly topicId: TopicState['topicId'] }
  | { readonly ok: false; readonly failure: Failure };

async function makeTopic(
  node: BrokerNode,
  wish: TopicWish,
  assignment: Parameters<typeof propose>[2],
  waitMs: number,
): Promise<MadeTopic> {
  const made = await propose(node, wish, assignment);
  if (made.ok) await whenServed(node, made.topicId, waitMs);
  return made;
}

async function propose(
  node: BrokerNode,
  wish: TopicWish,
  assignment: readonly (readonly TopicState['partitions'][number]['replicas'][number][])[],
): Promise<MadeTopic> {
  const topicId = newTopicId(node);
  const outcome = await node.metadata.propose({
    kind: 'CreateTopic',
    topicId,
    name: wish.name,
    assignment,
    config: wish.config,
  });
  return outcome.ok ? { ok: true, topicId } : { ok: false, failure: refusal(outcome.code, outcome.message) };
}

/** For a producer that names a topic which is missing, where the broker allows that. */
export async function autoCreate(node: BrokerNode, name: string): Promise<Failure | undefined> {
  const wish = { name, partitions: 0, replicas: 0, config: [] };
  const planned = planTopic(node, wish);
  if (!planned.ok) return planned.failure;
  const made = await makeTopic(node, wish, planned.assignment, SERVED_WAIT_MS_MAX);
  return made.ok || made.failure.code === 'TOPIC_EXISTS' ? undefined : made.failure;
}
