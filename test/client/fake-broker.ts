// A broker in memory, over the real transport and the real frames, that follows the rules of idempotent producers and breaks
// the others on demand.
import {
  leaderEpoch,
  NO_TIMESTAMP,
  nodeId,
  offset as toOffset,
  producerId as toProducerId,
  topicId,
  type TopicId,
} from '../../src/base/brands.ts';
import { readI32, readI64, readU16, readU32, writeI64, writeU32 } from '../../src/base/bytes.ts';
import { ERRORS, type ErrorName } from '../../src/base/errors.ts';
import { BATCH_BYTES_MAX, FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import { crc32c } from '../../src/platform/checksum.ts';
import { tcpNetwork } from '../../src/platform/tcp.ts';
import type { Address, Connection, ConnectionHandler, Listener } from '../../src/ports/network.ts';
import { encodeAnswerFrame, encodeFailureFrame, failure } from '../../src/protocol/answer.ts';
import type { Failure } from '../../src/protocol/failure.ts';
import { type Frame, FrameReader } from '../../src/protocol/frame.ts';
import { OPERATION, OPERATIONS } from '../../src/protocol/operations.ts';
import * as clusterStatusV1 from '../../src/protocol/operations/cluster-status.v1.ts';
import * as createTopicV1 from '../../src/protocol/operations/create-topic.v1.ts';
import * as deleteTopicV1 from '../../src/protocol/operations/delete-topic.v1.ts';
import * as fetchV1 from '../../src/protocol/operations/fetch.v1.ts';
import * as helloV1 from '../../src/protocol/operations/hello.v1.ts';
import * as initProducerV1 from '../../src/protocol/operations/init-producer.v1.ts';
import * as listOffsetsV1 from '../../src/protocol/operations/list-offsets.v1.ts';
import * as metadataV1 from '../../src/protocol/operations/metadata.v1.ts';
import * as produceV1 from '../../src/protocol/operations/produce.v1.ts';
import type { Decoded, Pieces } from '../../src/protocol/wire.ts';

export interface StoredRange {
  readonly bytes: Uint8Array;
  readonly baseOffset: number;
  readonly lastOffset: number;
}

interface ProducerState {
  epoch: number;
  nextSequence: number;
  readonly recent: { readonly sequence: number; readonly count: number; readonly baseOffset: number }[];
}

export class FakePartition {
  readonly batches: StoredRange[] = [];
  logStart = 0;
  end = 0;
  epoch = 3;
  readonly producers: Map<number, ProducerState> = new Map();

  append(given: Uint8Array): number {
    const bytes = given.slice();
    const count = readI32(bytes, 57);
    writeI64(bytes, 0, this.end);
    writeU32(bytes, 12, this.epoch);
    const baseOffset = this.end;
    this.end += count;
    this.batches.push({ bytes, baseOffset, lastOffset: this.end - 1 });
    return baseOffset;
  }

  publish(batch: Uint8Array): { error: ErrorName } | { baseOffset: number } {
    if (crc32c(batch.subarray(21)) !== readU32(batch, 17)) return { error: 'CORRUPT_BATCH' };
    const producerId = readI64(batch, 43) ?? -1;
    if (producerId < 0) return { baseOffset: this.append(batch) };
    const epoch = readU16(batch, 51);
    const sequence = readI32(batch, 53);
    const count = readI32(batch, 57);
    let state = this.producers.get(producerId);
    if (state !== undefined && epoch < state.epoch) return { error: 'PRODUCER_FENCED' };
    if (state === undefined || epoch > state.epoch) {
      if (sequence !== 0) return { error: state === undefined ? 'UNKNOWN_PRODUCER' : 'OUT_OF_ORDER_SEQUENCE' };
      state = { epoch, nextSequence: 0, recent: [] };
      this.producers.set(producerId, state);
    }
    const repeated = state.recent.find((known) => known.sequence === sequence && known.count === count);
    if (repeated !== undefined) return { baseOffset: repeated.baseOffset };
    if (sequence < state.nextSequence) return { error: 'DUPLICATE_SEQUENCE' };
    if (sequence > state.nextSequence) return { error: 'OUT_OF_ORDER_SEQUENCE' };
    const baseOffset = this.append(batch);
    state.nextSequence = sequence + count;
    state.recent.push({ sequence, count, baseOffset });
    if (state.recent.length > 5) state.recent.shift();
    return { baseOffset };
  }
}

export type PublishFault =
  | 'none'
  /** Appended, then the connection is cut before the answer. */
  | 'drop-after-append'
  | 'drop-before-append'
  /** Appended, never answered. */
  | 'silent-after-append'
  | 'silent-before-append'
  | 'garbage'
  | { readonly refuse: ErrorName };

export interface FakeOptions {
  readonly topics: Readonly<Record<string, number>>;
  /** Called for each publish; default: none. */
  readonly onPublish?: (count: number, partition: number, batch: Uint8Array) => PublishFault;
  readonly onFetch?: (count: number, offset: number) => ErrorName | undefined;
  readonly onFetchBytes?: (bytes: Uint8Array) => Uint8Array;
  readonly speaksInitProducer?: boolean;
  /** Accept publishes without storing them: for measuring. */
  readonly sink?: boolean;
  readonly nodeId?: number;
}

export class FakeBroker {
  readonly options: FakeOptions;
  readonly topics: Map<string, FakePartition[]> = new Map();
  readonly connections: Set<Connection> = new Set();
  publishes = 0;
  fetches = 0;
  hellos = 0;
  metadataRequests = 0;
  resumeAt = -1;
  nextProducerId = 1000;
  readonly epochs: Map<number, number> = new Map();
  readonly names: Map<string, number> = new Map();
  #listener: Listener | undefined;

  private constructor(options: FakeOptions) {
    this.options = options;
    for (const [topic, count] of Object.entries(options.topics))
      this.topics.set(
        topic,
        Array.from({ length: count }, () => new FakePartition()),
      );
  }

  static async start(options: FakeOptions): Promise<FakeBroker> {
    const broker = new FakeBroker(options);
    broker.#listener = await tcpNetwork().listen({ host: '127.0.0.1', port: 0 }, (connection) =>
      broker.#accept(connection),
    );
    return broker;
  }

  get address(): Address {
    if (this.#listener === undefined) throw new Error('not listening');
    return this.#listener.address;
  }
  get server(): string {
    return `127.0.0.1:${String(this.address.port)}`;
  }

  partition(topic: string, index = 0): FakePartition {
    const found = this.topics.get(topic)?.[index];
    if (found === undefined) throw new Error(`no ${topic}/${String(index)}`);
    return found;
  }

  async stop(): Promise<void> {
    for (const connection of this.connections) connection.destroy();
    await this.#listener?.close();
  }

  #accept(connection: Connection): ConnectionHandler {
    this.connections.add(connection);
    const input = new FrameReader({ expect: 'requests', bodyBytesMax: FRAME_BYTES_MAX });
    return {
      receiveBuffer: () => input.writable(),
      received: (bytes) => {
        input.advance(bytes);
        for (;;) {
          const frame = input.next();
          if (frame === undefined) return;
          if ('fault' in frame) {
            connection.destroy();
            return;
          }
          if (!this.connections.has(connection)) return;
          this.#handle(connection, frame);
        }
      },
      drained: () => undefined,
      closed: () => {
        this.connections.delete(connection);
      },
    };
  }

  #cut(connection: Connection): void {
    this.connections.delete(connection);
    connection.destroy();
  }

  #answer(connection: Connection, frame: Frame, body: Pieces): void {
    connection.send(encodeAnswerFrame(frame, body));
  }

  #refuse(connection: Connection, frame: Frame, name: ErrorName): void {
    connection.send(encodeFailureFrame(frame, failureOf(name)));
  }

  #handle(connection: Connection, frame: Frame): void {
    switch (frame.operation) {
      case OPERATION.Hello.operation:
        this.#hello(connection, frame);
        return;
      case OPERATION.Metadata.operation:
        this.metadataRequests += 1;
        this.#metadata(connection, frame);
        return;
      case OPERATION.InitProducer.operation:
        this.#initProducer(connection, frame);
        return;
      case OPERATION.Produce.operation:
        this.#produce(connection, frame);
        return;
      case OPERATION.Fetch.operation:
        this.#fetch(connection, frame);
        return;
      case OPERATION.ListOffsets.operation:
        this.#listOffsets(connection, frame);
        return;
      case OPERATION.CreateTopic.operation: {
        const { name, partitions } = valueOf(createTopicV1.decodeRequest(frame.body));
        if (this.topics.has(name)) this.#refuse(connection, frame, 'TOPIC_EXISTS');
        else {
          this.topics.set(
            name,
            Array.from({ length: partitions }, () => new FakePartition()),
          );
          this.#answer(
            connection,
            frame,
            createTopicV1.encodeResponse({ topicId: idOf(name), created: true, partitions, replicas: 1 }),
          );
        }
        return;
      }
      case OPERATION.DeleteTopic.operation: {
        const { name } = valueOf(deleteTopicV1.decodeRequest(frame.body));
        if (this.topics.delete(name))
          this.#answer(connection, frame, deleteTopicV1.encodeResponse({ topicId: idOf(name) }));
        else this.#refuse(connection, frame, 'UNKNOWN_TOPIC');
        return;
      }
      case OPERATION.ClusterStatus.operation:
        this.#clusterStatus(connection, frame);
        return;
      default:
        this.#refuse(connection, frame, 'UNSUPPORTED_OPERATION');
    }
  }

  get #nodeId(): number {
    return this.options.nodeId ?? 1;
  }

  #hello(connection: Connection, frame: Frame): void {
    this.hellos += 1;
    const operations = OPERATIONS.filter(
      (entry) => entry !== OPERATION.InitProducer || this.options.speaksInitProducer !== false,
    );
    const response = {
      protocol: 1,
      softwareName: 'fake',
      softwareVersion: '1',
      clusterId: 'fake',
      nodeId: nodeId(this.#nodeId),
      sessionId: 'session',
      operations: operations.map(({ operation, min, max }) => ({ operation, min, max })),
      limits: { frameBytesMax: FRAME_BYTES_MAX, batchBytesMax: BATCH_BYTES_MAX, requestsInFlightMax: 256 },
    };
    this.#answer(connection, frame, helloV1.encodeResponse(response));
  }

  #clusterStatus(connection: Connection, frame: Frame): void {
    const node = {
      nodeId: nodeId(this.#nodeId),
      host: '127.0.0.1',
      port: this.address.port,
      state: 'online',
      softwareVersion: '1',
      startedAt: NO_TIMESTAMP,
      leaders: 1,
      replicas: 1,
    } as const;
    const counts = {
      topics: this.topics.size,
      partitions: 1,
      offlinePartitions: 0,
      underReplicatedPartitions: 0,
      underMinInSyncPartitions: 0,
      damagedPartitions: 0,
    };
    this.#answer(
      connection,
      frame,
      clusterStatusV1.encodeResponse({ clusterId: 'fake', controllerId: nodeId(1), nodes: [node], ...counts }),
    );
  }

  #listOffsets(connection: Connection, frame: Frame): void {
    const { partitions } = valueOf(listOffsetsV1.decodeRequest(frame.body));
    const found = partitions.map(({ topicId: id, partition: index, target }) => {
      const partition = this.#byId(id, index);
      return {
        topicId: id,
        partition: index,
        failure: undefined,
        offset: toOffset(target.kind === 'earliest' ? partition.logStart : partition.end),
        timestamp: NO_TIMESTAMP,
        leaderEpoch: leaderEpoch(partition.epoch),
      };
    });
    this.#answer(connection, frame, listOffsetsV1.encodeResponse({ partitions: found }));
  }

  #byId(id: TopicId, index: number): FakePartition {
    for (const [name, partitions] of this.topics) {
      const partition = partitions[index];
      if (idOf(name) === id && partition !== undefined) return partition;
    }
    throw new Error(`no topic ${id}`);
  }

  #metadata(connection: Connection, frame: Frame): void {
    const { topics: selection } = valueOf(metadataV1.decodeRequest(frame.body));
    const names = selection.kind === 'names' ? selection.names : [...this.topics.keys()];
    const topics = names.map((name) => {
      const partitions = this.topics.get(name);
      if (partitions === undefined)
        return { failure: failureOf('UNKNOWN_TOPIC'), name, id: undefined, partitions: [], config: [] };
      const leader = nodeId(this.#nodeId);
      const described = partitions.map(({ epoch }, partition) => ({
        partition,
        leader,
        leaderEpoch: leaderEpoch(epoch),
        replicas: [leader],
        inSync: [leader],
      }));
      return { failure: undefined, name, id: idOf(name), partitions: described, config: [] };
    });
    const nodes = [{ nodeId: nodeId(this.#nodeId), host: '127.0.0.1', port: this.address.port }];
    this.#answer(
      connection,
      frame,
      metadataV1.encodeResponse({ clusterId: 'fake', controllerId: nodeId(1), nodes, topics }),
    );
  }

  #initProducer(connection: Connection, frame: Frame): void {
    const { name = '', producerId: known } = valueOf(initProducerV1.decodeRequest(frame.body));
    let producerId: number = name === '' ? known : (this.names.get(name) ?? -1);
    if (producerId < 0) {
      producerId = this.nextProducerId;
      this.nextProducerId += 1;
      if (name !== '') this.names.set(name, producerId);
      this.epochs.set(producerId, 0);
    } else this.epochs.set(producerId, (this.epochs.get(producerId) ?? 0) + 1);
    const epoch = this.epochs.get(producerId) ?? 0;
    if (name !== '') {
      for (const partitions of this.topics.values()) {
        for (const partition of partitions) {
          const state = partition.producers.get(producerId);
          if (state !== undefined) partition.producers.set(producerId, { epoch, nextSequence: 0, recent: [] });
        }
      }
    }
    this.#answer(
      connection,
      frame,
      initProducerV1.encodeResponse({ producerId: toProducerId(producerId), producerEpoch: epoch }),
    );
  }

  #produce(connection: Connection, frame: Frame): void {
    const { topicId: id, partition: index, batches: batch } = valueOf(produceV1.decodeRequest(frame.body));
    const answer = (baseOffset: number, epoch: number): void => {
      const lastOffset = toOffset(baseOffset + readI32(batch, 57) - 1);
      const response = {
        baseOffset: toOffset(baseOffset),
        lastOffset,
        leaderEpoch: leaderEpoch(epoch),
        logStart: toOffset(0),
        throttleMs: 0,
        duplicate: false,
      };
      this.#answer(connection, frame, produceV1.encodeResponse(response));
    };
    this.publishes += 1;
    if (this.options.sink === true) {
      answer(0, 1);
      return;
    }
    const fault = this.options.onPublish?.(this.publishes, index, batch) ?? 'none';
    if (fault === 'drop-before-append') this.#cut(connection);
    else if (fault === 'garbage') connection.send([new Uint8Array(64).fill(0xff)]);
    else if (typeof fault === 'object') this.#refuse(connection, frame, fault.refuse);
    else if (fault !== 'silent-before-append') {
      const partition = this.#byId(id, index);
      const result = partition.publish(batch);
      if (fault === 'drop-after-append') this.#cut(connection);
      else if (fault === 'silent-after-append') return;
      else if ('error' in result) this.#refuse(connection, frame, result.error);
      else answer(result.baseOffset, partition.epoch);
    }
  }

  #fetch(connection: Connection, frame: Frame): void {
    this.fetches += 1;
    const { maxBytes, waitMs, partitions: asked } = valueOf(fetchV1.decodeRequest(frame.body));
    let total = 0;
    const answers = asked.map(({ topicId: id, partition: index, fetchOffset }) => {
      const partition = this.#byId(id, index);
      let error = this.options.onFetch?.(this.fetches, fetchOffset);
      if (error === undefined && fetchOffset < partition.logStart) error = 'OFFSET_EXPIRED';
      if (error === undefined && fetchOffset > partition.end) error = 'OFFSET_BEYOND_END';
      const batches: Uint8Array[] = [];
      if (error === undefined) {
        for (let at = firstFrom(partition.batches, fetchOffset); at < partition.batches.length; at += 1) {
          const stored = partition.batches[at];
          if (stored === undefined || (total > 0 && total + stored.bytes.length > maxBytes)) break;
          batches.push(
            this.options.onFetchBytes === undefined ? stored.bytes : this.options.onFetchBytes(stored.bytes),
          );
          total += stored.bytes.length;
        }
      }
      return { id, index, error, batches };
    });
    const respond = (): void => {
      if (!this.connections.has(connection)) return;
      const partitions = answers.map(({ id, index, error, batches }) => {
        const partition = this.#byId(id, index);
        const told = {
          logStart: toOffset(partition.logStart),
          highWatermark: toOffset(partition.end),
          leaderEpoch: leaderEpoch(partition.epoch),
        };
        return {
          topicId: id,
          partition: index,
          failure: error === undefined ? undefined : this.#fetchFailure(error),
          ...told,
          batches,
        };
      });
      this.#answer(connection, frame, fetchV1.encodeResponse({ throttleMs: 0, partitions }));
    };
    if (total === 0 && answers.every(({ error }) => error === undefined)) setTimeout(respond, Math.min(waitMs, 20));
    else respond();
  }

  #fetchFailure(name: ErrorName): Failure {
    if (this.resumeAt < 0) return failureOf(name);
    return failure(
      name,
      ERRORS[name].sentence,
      name === 'DAMAGED_RANGE' ? { damagedTo: this.resumeAt } : { divergingEndOffset: this.resumeAt },
    );
  }
}

function failureOf(name: ErrorName): Failure {
  return failure(name, ERRORS[name].sentence);
}

function valueOf<Value>(decoded: Decoded<Value>): Value {
  if (!decoded.ok) throw new Error(`the client sent what cannot be read: ${decoded.fault.message}`);
  return decoded.value;
}

/** The same name has the same id: the fake forgets deleted topics. */
export function idOf(name: string): TopicId {
  return topicId(crc32c(new TextEncoder().encode(name)).toString(16).padStart(32, '1'));
}

function firstFrom(batches: readonly StoredRange[], offset: number): number {
  let low = 0;
  let high = batches.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((batches[middle]?.lastOffset ?? 0) < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
