// The only place of the client that knows operations: what each asks, and what its answer means to the client.
import { leaderEpoch, offset, producerId, timestampMs, topicId, type TopicId } from '../base/brands.ts';
import { RivuletError } from '../base/errors.ts';
import { BATCH_BYTES_MAX, FRAME_BYTES_MAX, REQUESTS_IN_FLIGHT_MAX_DEFAULT } from '../base/limits.ts';
import type { Failure } from '../protocol/failure.ts';
import { negotiate } from '../protocol/negotiate.ts';
import { OPERATION, OPERATIONS, PROTOCOL_MAX, PROTOCOL_MIN, type OperationEntry } from '../protocol/operations.ts';
import * as alterTopicV1 from '../protocol/operations/alter-topic.v1.ts';
import * as clusterStatusV1 from '../protocol/operations/cluster-status.v1.ts';
import * as createTopicV1 from '../protocol/operations/create-topic.v1.ts';
import * as deleteTopicV1 from '../protocol/operations/delete-topic.v1.ts';
import * as fetchV1 from '../protocol/operations/fetch.v1.ts';
import * as helloV1 from '../protocol/operations/hello.v1.ts';
import * as initProducerV1 from '../protocol/operations/init-producer.v1.ts';
import * as listOffsetsV1 from '../protocol/operations/list-offsets.v1.ts';
import * as metadataV1 from '../protocol/operations/metadata.v1.ts';
import * as produceV1 from '../protocol/operations/produce.v1.ts';
import type { Decoded, Pieces } from '../protocol/wire.ts';
import type { ClusterDescription } from './api.ts';
import type { Link } from './link.ts';

const SOFTWARE_NAME = 'rivulet-js';
const SOFTWARE_VERSION = '1';

/** The answer to one request: its response, to be decoded, or why there is none. Views are valid during the call only. */
export interface Answered {
  readonly operation: number;
  readonly error: RivuletError | undefined;
  readonly response: Uint8Array;
}
/** What both sides speak, and what this broker allows. */
export interface Dialect {
  /** Operation → version to use. */
  readonly operations: ReadonlyMap<number, number>;
  readonly frameBytesMax: number;
  readonly batchBytesMax: number;
  readonly requestsInFlightMax: number;
}
/** Before Hello was answered. */
export const DIALECT_UNKNOWN: Dialect = {
  operations: new Map([[OPERATION.Hello.operation, 1]]),
  frameBytesMax: FRAME_BYTES_MAX,
  batchBytesMax: BATCH_BYTES_MAX,
  requestsInFlightMax: REQUESTS_IN_FLIGHT_MAX_DEFAULT,
};

export interface NodeView {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}
export interface PartitionView {
  readonly partition: number;
  readonly leader: number;
  readonly leaderEpoch: number;
  readonly replicas: readonly number[];
  readonly inSync: readonly number[];
}
export interface TopicView {
  readonly name: string;
  readonly id: TopicId;
  readonly config: Readonly<Record<string, string>>;
  readonly partitions: readonly PartitionView[];
}
export interface ClusterView {
  readonly clusterId: string;
  readonly controllerId: number;
  readonly nodes: readonly NodeView[];
  readonly topics: readonly TopicView[];
}
export interface ProduceAnswer {
  readonly baseOffset: number;
  readonly leaderEpoch: number;
  /** Send nothing more to this broker for so long; absent: at once. */
  readonly throttleMs?: number;
}
export interface ProduceRequest {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly acks: 'committed' | 'leader';
  readonly batches: Uint8Array;
}
export interface FetchedPartition {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly error: RivuletError | undefined;
  /** -1: not told. */
  readonly logStart: number;
  readonly highWatermark: number;
  /** Behind a damaged range, or where the logs part; -1: not told. */
  readonly resumeAt: number;
  readonly batches: Uint8Array;
}
export interface FetchAnswer {
  readonly throttleMs: number;
  readonly partitions: readonly FetchedPartition[];
}
export interface FetchRequest {
  readonly partitions: readonly {
    readonly topicId: TopicId;
    readonly partition: number;
    readonly offset: number;
    readonly maxBytes: number;
    readonly leaderEpoch: number;
    readonly lastEpoch: number;
  }[];
  readonly maxBytes: number;
  readonly minBytes: number;
  readonly waitMs: number;
}
export type OffsetAt = 'earliest' | 'latest' | { readonly timestamp: number };
export interface FoundOffset {
  readonly offset: number;
  readonly timestamp: number;
  readonly leaderEpoch: number;
}

export function errorOf(failure: Failure): RivuletError {
  return new RivuletError(failure.code, failure.message, { facts: failure.facts });
}

function decoded<Value>(answer: Answered, decode: (response: Uint8Array) => Decoded<Value>): Value {
  if (answer.error !== undefined) throw answer.error;
  const result = decode(answer.response);
  if (result.ok) return result.value;
  throw new RivuletError('MALFORMED_FRAME', `the answer cannot be read: ${result.fault.message}`);
}

/** Throws UNSUPPORTED_OPERATION when the broker does not speak it in any version that we know. */
function versionOf(link: Link, { operation, name }: OperationEntry): number {
  const version = link.dialect.operations.get(operation);
  if (version === undefined)
    throw new RivuletError(
      'UNSUPPORTED_OPERATION',
      `the broker does not speak ${name} in a version that this client knows`,
    );
  return version;
}

/** One request and its decoded answer; rejects with RivuletError. */
export async function call<Value>(
  link: Link,
  entry: OperationEntry,
  body: Pieces,
  timeoutMs: number,
  decode: (response: Uint8Array) => Decoded<Value>,
): Promise<Value> {
  const version = versionOf(link, entry);
  return await new Promise((resolve, reject) => {
    const sent = link.request(entry.operation, version, body, timeoutMs, (answer, failure) => {
      try {
        if (answer === undefined) throw failure ?? new RivuletError('CONNECTION_LOST');
        resolve(decoded(answer, decode));
      } catch (error) {
        reject(error instanceof Error ? error : new RivuletError('INTERNAL'));
      }
    });
    if (!sent) reject(link.ended ?? new RivuletError('CONNECTION_LOST'));
  });
}

export function helloBody(clientId: string): Pieces {
  return helloV1.encodeRequest({
    protocolMin: PROTOCOL_MIN,
    protocolMax: PROTOCOL_MAX,
    clientId,
    softwareName: SOFTWARE_NAME,
    softwareVersion: SOFTWARE_VERSION,
    authentication: undefined,
  });
}

/** Throws what the broker answered, or MALFORMED_FRAME. */
export function readHello(answer: Answered): Dialect {
  const { operations, limits } = decoded(answer, helloV1.decodeResponse);
  return { ...limits, operations: negotiate(OPERATIONS, operations) };
}

export function speaksInitProducer(link: Link): boolean {
  return link.dialect.operations.has(OPERATION.InitProducer.operation);
}

export interface MetadataOptions {
  /** Undefined: all; none: nodes only. */
  readonly topics: readonly string[] | undefined;
  readonly includeConfig: boolean;
  /** A producer asks: a missing topic is created where the broker allows that. */
  readonly autoCreate: boolean;
}

/** Topics that do not exist are left out. */
export async function fetchMetadata(link: Link, options: MetadataOptions, timeoutMs: number): Promise<ClusterView> {
  const { topics, includeConfig, autoCreate } = options;
  const selection = topics === undefined ? ({ kind: 'all' } as const) : ({ kind: 'names', names: topics } as const);
  const body = metadataV1.encodeRequest({ topics: selection, autoCreate, includeConfig });
  const view = await call(link, OPERATION.Metadata, body, timeoutMs, metadataV1.decodeResponse);
  return {
    clusterId: view.clusterId,
    controllerId: view.controllerId ?? -1,
    nodes: view.nodes,
    topics: view.topics.flatMap(topicView),
  };
}

function topicView({ failure, name, id, config, partitions }: metadataV1.TopicMetadata): TopicView[] {
  if (failure !== undefined || id === undefined) return [];
  return [
    {
      name,
      id,
      config: Object.fromEntries(config.map(({ key, value }) => [key, value])),
      partitions: partitions.map((partition) => ({ ...partition, leader: partition.leader ?? -1 })),
    },
  ];
}

export async function initProducer(
  link: Link,
  name: string | undefined,
  held: { readonly producerId: number; readonly producerEpoch: number },
  timeoutMs: number,
): Promise<{ producerId: number; producerEpoch: number }> {
  const body = initProducerV1.encodeRequest({
    name,
    producerId: producerId(held.producerId),
    producerEpoch: held.producerEpoch,
  });
  return await call(link, OPERATION.InitProducer, body, timeoutMs, initProducerV1.decodeResponse);
}

/** False: the link has ended, nothing was sent and nobody is called back. */
export function sendProduce(
  link: Link,
  request: ProduceRequest,
  timeoutMs: number,
  done: (answer: ProduceAnswer | undefined, failure: RivuletError | undefined) => void,
): boolean {
  // The broker gives up waiting for the commit a little before we do, so that its answer, which says more, is still heard.
  const body = produceV1.encodeRequest({
    ...request,
    leaderEpoch: leaderEpoch(-1),
    timeoutMs: Math.max(1, Math.floor(timeoutMs * 0.9)),
  });
  return link.request(
    OPERATION.Produce.operation,
    versionOf(link, OPERATION.Produce),
    body,
    timeoutMs,
    (answer, failure) => {
      if (answer === undefined || answer.error !== undefined) {
        done(undefined, failure ?? answer?.error);
        return;
      }
      let result: ProduceAnswer;
      try {
        result = decoded(answer, produceV1.decodeResponse);
      } catch (error) {
        // What cannot be read says nothing: the outcome is open.
        done(undefined, new RivuletError('INTERNAL', 'the answer to a publish cannot be read', { cause: error }));
        return;
      }
      done(result, undefined);
    },
  );
}

export function sendFetch(
  link: Link,
  request: FetchRequest,
  timeoutMs: number,
  done: (answer: FetchAnswer | undefined, failure: RivuletError | undefined) => void,
): boolean {
  const body = fetchV1.encodeRequest({
    waitMs: request.waitMs,
    minBytes: request.minBytes,
    maxBytes: request.maxBytes,
    partitions: request.partitions.map((asked) => ({
      topicId: asked.topicId,
      partition: asked.partition,
      fetchOffset: offset(asked.offset),
      currentLeaderEpoch: leaderEpoch(asked.leaderEpoch),
      lastFetchedEpoch: leaderEpoch(asked.lastEpoch),
      maxBytes: asked.maxBytes,
    })),
  });
  return link.request(
    OPERATION.Fetch.operation,
    versionOf(link, OPERATION.Fetch),
    body,
    timeoutMs,
    (answer, failure) => {
      let result: FetchAnswer;
      try {
        if (answer === undefined) throw failure ?? new RivuletError('CONNECTION_LOST');
        const { throttleMs, partitions } = decoded(answer, fetchV1.decodeResponse);
        result = { throttleMs, partitions: partitions.map(fetchedPartition) };
      } catch (error) {
        done(
          undefined,
          error instanceof RivuletError
            ? error
            : new RivuletError('INTERNAL', 'the answer to a fetch cannot be read', { cause: error }),
        );
        return;
      }
      done(result, undefined);
    },
  );
}

const NO_BYTES = new Uint8Array(0);

function fetchedPartition(answer: fetchV1.FetchedPartition): FetchedPartition {
  const { failure } = answer;
  return {
    topicId: answer.topicId,
    partition: answer.partition,
    error: failure === undefined ? undefined : errorOf(failure),
    logStart: answer.logStart ?? numberFact(failure, 'logStart'),
    highWatermark: answer.highWatermark ?? numberFact(failure, 'highWatermark'),
    resumeAt: Math.max(numberFact(failure, 'damagedTo'), numberFact(failure, 'divergingEndOffset')),
    batches: answer.batches[0] ?? NO_BYTES,
  };
}

function numberFact(failure: Failure | undefined, name: string): number {
  const value = failure?.facts[name];
  return typeof value === 'number' ? value : -1;
}

export async function listOffsets(
  link: Link,
  asked: readonly { topicId: TopicId; partition: number; at: OffsetAt }[],
  timeoutMs: number,
): Promise<readonly FoundOffset[]> {
  const body = listOffsetsV1.encodeRequest({
    partitions: asked.map(({ topicId: id, partition, at }) => ({
      topicId: id,
      partition,
      currentLeaderEpoch: leaderEpoch(-1),
      target: targetOf(at),
    })),
  });
  const { partitions } = await call(link, OPERATION.ListOffsets, body, timeoutMs, listOffsetsV1.decodeResponse);
  return partitions.map(({ failure, offset: found, timestamp, leaderEpoch: epoch }) => {
    if (failure !== undefined) throw errorOf(failure);
    return { offset: found ?? -1, timestamp, leaderEpoch: epoch };
  });
}

function targetOf(at: OffsetAt): listOffsetsV1.OffsetTarget {
  if (at === 'earliest' || at === 'latest') return { kind: at };
  return { kind: 'timestamp', timestamp: timestampMs(Math.max(0, Math.ceil(at.timestamp))) };
}

export async function createTopic(
  link: Link,
  request: {
    readonly name: string;
    readonly partitions: number;
    readonly replicas: number;
    readonly config: Readonly<Record<string, string>>;
  },
  timeoutMs: number,
): Promise<void> {
  const config = Object.entries(request.config).map(([key, value]) => ({ key, value }));
  const body = createTopicV1.encodeRequest({ ...request, config, validateOnly: false, ifNotExists: false, timeoutMs });
  await call(link, OPERATION.CreateTopic, body, timeoutMs, createTopicV1.decodeResponse);
}

export async function alterTopic(
  link: Link,
  request: {
    readonly name: string;
    readonly partitions: number;
    readonly confirm: boolean;
    readonly config: Readonly<Record<string, string | null>>;
  },
  timeoutMs: number,
): Promise<void> {
  const body = alterTopicV1.encodeRequest({
    name: request.name,
    config: Object.entries(request.config).map(([key, value]) => ({ key, value: value ?? undefined })),
    partitions: request.partitions === 0 ? undefined : request.partitions,
    confirmKeyMovement: request.confirm,
    validateOnly: false,
    timeoutMs,
  });
  await call(link, OPERATION.AlterTopic, body, timeoutMs, alterTopicV1.decodeResponse);
}

export async function deleteTopic(link: Link, name: string, id: string | undefined, timeoutMs: number): Promise<void> {
  const body = deleteTopicV1.encodeRequest({ name, topicId: id === undefined ? undefined : topicId(id), timeoutMs });
  await call(link, OPERATION.DeleteTopic, body, timeoutMs, deleteTopicV1.decodeResponse);
}

export async function clusterStatus(link: Link, timeoutMs: number): Promise<ClusterDescription> {
  const status = await call(
    link,
    OPERATION.ClusterStatus,
    clusterStatusV1.encodeRequest({}),
    timeoutMs,
    clusterStatusV1.decodeResponse,
  );
  return { ...status, controllerId: status.controllerId ?? -1 };
}
