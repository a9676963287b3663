// Every message of every operation and version, each with one fixed sample (frozen as bytes in test/golden/protocol) and a
// generator of values. A new operation or version is added here, or the test that compares with the table fails.
import fc from 'fast-check';
import type { LeaderEpoch, NodeId, Offset, ProducerId, TimestampMs } from '../../src/base/brands.ts';
import * as alterTopic from '../../src/protocol/operations/alter-topic.v1.ts';
import * as clusterStatus from '../../src/protocol/operations/cluster-status.v1.ts';
import * as createTopic from '../../src/protocol/operations/create-topic.v1.ts';
import * as deleteTopic from '../../src/protocol/operations/delete-topic.v1.ts';
import * as fetch from '../../src/protocol/operations/fetch.v1.ts';
import * as hello from '../../src/protocol/operations/hello.v1.ts';
import * as initProducer from '../../src/protocol/operations/init-producer.v1.ts';
import * as listOffsets from '../../src/protocol/operations/list-offsets.v1.ts';
import * as metadata from '../../src/protocol/operations/metadata.v1.ts';
import * as produce from '../../src/protocol/operations/produce.v1.ts';
import { groupMessages } from './group-messages.ts';
import {
  bytes,
  epoch,
  failed,
  ID,
  id,
  integer,
  list,
  type Message,
  message,
  node,
  NOT_LEADER,
  offset,
  optional,
  OTHER_ID,
  safe,
  SAMPLE_BATCHES,
  text,
  timestamp,
  u16,
  u32,
} from './message-values.ts';

export { failureArbitrary, join, type Message } from './message-values.ts';

// ---- Messages ----

const helloMessages = [
  message('hello.v1.request', {
    encode: hello.encodeRequest,
    decode: hello.decodeRequest,
    sample: {
      protocolMin: 1,
      protocolMax: 1,
      clientId: 'sensor-7',
      softwareName: 'rivulet',
      softwareVersion: '0.1.0',
      authentication: undefined,
    },
    arbitrary: fc.record({
      protocolMin: u16,
      protocolMax: u16,
      clientId: text(255),
      softwareName: text(64),
      softwareVersion: text(64),
      authentication: optional(fc.record({ mechanism: text(64).filter((name) => name !== ''), bytes: bytes(0) })),
    }),
  }),
  message('hello.v1.response', {
    encode: hello.encodeResponse,
    decode: hello.decodeResponse,
    sample: {
      protocol: 1,
      softwareName: 'rivulet',
      softwareVersion: '0.1.0',
      clusterId: 'c-4711',
      nodeId: 1 as NodeId,
      sessionId: 's-1',
      operations: [
        { operation: 1, min: 1, max: 1 },
        { operation: 3, min: 1, max: 2 },
      ],
      limits: { frameBytesMax: 16_777_216, batchBytesMax: 9_437_184, requestsInFlightMax: 256 },
    },
    arbitrary: fc.record({
      protocol: u16,
      softwareName: text(64),
      softwareVersion: text(64),
      clusterId: text(64),
      nodeId: node,
      sessionId: text(64),
      operations: list(fc.record({ operation: u16, min: integer(0, 255), max: integer(0, 255) })),
      limits: fc.record({ frameBytesMax: u32, batchBytesMax: u32, requestsInFlightMax: u32 }),
    }),
  }),
];

const metadataMessages = [
  message('metadata.v1.request', {
    encode: metadata.encodeRequest,
    decode: metadata.decodeRequest,
    sample: { topics: { kind: 'names', names: ['orders', 'zähler'] }, autoCreate: true, includeConfig: false },
    arbitrary: fc.record({
      topics: fc.oneof(
        fc.constant({ kind: 'all' } as const),
        fc.record({ kind: fc.constant('names' as const), names: list(text(249)) }),
        fc.record({ kind: fc.constant('ids' as const), ids: list(id) }),
      ),
      autoCreate: fc.boolean(),
      includeConfig: fc.boolean(),
    }),
  }),
  message('metadata.v1.response', {
    encode: metadata.encodeResponse,
    decode: metadata.decodeResponse,
    sample: {
      clusterId: 'c-4711',
      controllerId: 2 as NodeId,
      nodes: [
        { nodeId: 1 as NodeId, host: '10.0.0.1', port: 9400 },
        { nodeId: 2 as NodeId, host: 'b.example', port: 9401 },
      ],
      topics: [
        {
          failure: undefined,
          name: 'orders',
          id: ID,
          partitions: [
            {
              partition: 0,
              leader: 2 as NodeId,
              leaderEpoch: 7 as LeaderEpoch,
              replicas: [1, 2] as NodeId[],
              inSync: [2] as NodeId[],
            },
            {
              partition: 1,
              leader: undefined,
              leaderEpoch: 3 as LeaderEpoch,
              replicas: [1, 2] as NodeId[],
              inSync: [],
            },
          ],
          config: [{ key: 'retention.ms', value: '-1', isDefault: false }],
        },
        {
          failure: { code: 'UNKNOWN_TOPIC', message: 'there is no topic "gone"', facts: {} },
          name: 'gone',
          id: undefined,
          partitions: [],
          config: [],
        },
      ],
    },
    arbitrary: fc.record({
      clusterId: text(64),
      controllerId: optional(node),
      nodes: list(fc.record({ nodeId: node, host: text(255), port: u16 })),
      topics: list(
        fc.record({
          failure: failed,
          name: text(249),
          id: optional(id),
          partitions: list(
            fc.record({
              partition: u32,
              leader: optional(node),
              leaderEpoch: epoch,
              replicas: list(node),
              inSync: list(node),
            }),
          ),
          config: list(fc.record({ key: text(60), value: text(60), isDefault: fc.boolean() })),
        }),
      ),
    }),
  }),
];

const produceMessages = [
  message('produce.v1.request', {
    encode: produce.encodeRequest,
    decode: produce.decodeRequest,
    sample: {
      topicId: ID,
      partition: 3,
      leaderEpoch: 7 as LeaderEpoch,
      acks: 'committed',
      timeoutMs: 30_000,
      batches: SAMPLE_BATCHES,
    },
    arbitrary: fc.record({
      topicId: id,
      partition: u32,
      leaderEpoch: epoch,
      acks: fc.constantFrom('leader' as const, 'committed' as const),
      timeoutMs: u32,
      batches: bytes(1),
    }),
    rawFrom: 30,
  }),
  message('produce.v1.response', {
    encode: produce.encodeResponse,
    decode: produce.decodeResponse,
    sample: {
      baseOffset: 4_294_967_296 as Offset,
      lastOffset: 4_294_967_297 as Offset,
      leaderEpoch: 7 as LeaderEpoch,
      logStart: 12 as Offset,
      throttleMs: 250,
      duplicate: true,
    },
    arbitrary: fc.record({
      baseOffset: offset,
      lastOffset: offset,
      leaderEpoch: epoch,
      logStart: offset,
      throttleMs: u32,
      duplicate: fc.boolean(),
    }),
  }),
];

const fetchMessages = [
  message('fetch.v1.request', {
    encode: fetch.encodeRequest,
    decode: fetch.decodeRequest,
    sample: {
      waitMs: 500,
      minBytes: 1,
      maxBytes: 1_048_576,
      partitions: [
        {
          topicId: ID,
          partition: 0,
          fetchOffset: 42 as Offset,
          currentLeaderEpoch: 7 as LeaderEpoch,
          lastFetchedEpoch: 6 as LeaderEpoch,
          maxBytes: 1_048_576,
        },
        {
          topicId: OTHER_ID,
          partition: 1,
          fetchOffset: 0 as Offset,
          currentLeaderEpoch: -1 as LeaderEpoch,
          lastFetchedEpoch: -1 as LeaderEpoch,
          maxBytes: 4096,
        },
      ],
    },
    arbitrary: fc.record({
      waitMs: u32,
      minBytes: u32,
      maxBytes: u32,
      partitions: list(
        fc.record({
          topicId: id,
          partition: u32,
          fetchOffset: offset,
          currentLeaderEpoch: epoch,
          lastFetchedEpoch: epoch,
          maxBytes: u32,
        }),
      ),
    }),
  }),
  message('fetch.v1.response', {
    encode: fetch.encodeResponse,
    decode: fetch.decodeResponse,
    sample: {
      throttleMs: 0,
      partitions: [
        {
          topicId: ID,
          partition: 0,
          failure: undefined,
          logStart: 0 as Offset,
          highWatermark: 44 as Offset,
          leaderEpoch: 7 as LeaderEpoch,
          batches: [SAMPLE_BATCHES],
        },
        {
          topicId: OTHER_ID,
          partition: 1,
          failure: NOT_LEADER,
          logStart: undefined,
          highWatermark: undefined,
          leaderEpoch: -1 as LeaderEpoch,
          batches: [],
        },
      ],
    },
    arbitrary: fc.record({
      throttleMs: u32,
      partitions: list(
        fc.record({
          topicId: id,
          partition: u32,
          failure: failed,
          logStart: optional(offset),
          highWatermark: optional(offset),
          leaderEpoch: epoch,
          batches: fc.oneof(
            fc.constant([]),
            bytes(1).map((one) => [one]),
          ),
        }),
      ),
    }),
  }),
];

const target = fc.oneof(
  fc.constant({ kind: 'earliest' } as const),
  fc.constant({ kind: 'latest' } as const),
  fc.record({ kind: fc.constant('timestamp' as const), timestamp }),
);
const listOffsetsMessages = [
  message('list-offsets.v1.request', {
    encode: listOffsets.encodeRequest,
    decode: listOffsets.decodeRequest,
    sample: {
      partitions: [
        { topicId: ID, partition: 0, currentLeaderEpoch: -1 as LeaderEpoch, target: { kind: 'latest' } },
        {
          topicId: ID,
          partition: 1,
          currentLeaderEpoch: 7 as LeaderEpoch,
          target: { kind: 'timestamp', timestamp: 1_700_000_000_000 as TimestampMs },
        },
      ],
    },
    arbitrary: fc.record({
      partitions: list(fc.record({ topicId: id, partition: u32, currentLeaderEpoch: epoch, target })),
    }),
  }),
  message('list-offsets.v1.response', {
    encode: listOffsets.encodeResponse,
    decode: listOffsets.decodeResponse,
    sample: {
      partitions: [
        {
          topicId: ID,
          partition: 0,
          failure: undefined,
          offset: 44 as Offset,
          timestamp: -1 as TimestampMs,
          leaderEpoch: 7 as LeaderEpoch,
        },
        {
          topicId: ID,
          partition: 1,
          failure: NOT_LEADER,
          offset: undefined,
          timestamp: -1 as TimestampMs,
          leaderEpoch: -1 as LeaderEpoch,
        },
      ],
    },
    arbitrary: fc.record({
      partitions: list(
        fc.record({
          topicId: id,
          partition: u32,
          failure: failed,
          offset: optional(offset),
          timestamp,
          leaderEpoch: epoch,
        }),
      ),
    }),
  }),
];

const producerEpoch = integer(0, 0x7fff);
const initProducerMessages = [
  message('init-producer.v1.request', {
    encode: initProducer.encodeRequest,
    decode: initProducer.decodeRequest,
    sample: { name: 'meter-12', producerId: 4711 as ProducerId, producerEpoch: 3 },
    arbitrary: fc.oneof(
      fc.record({
        name: optional(text(255).filter((name) => name !== '')),
        producerId: safe(0) as fc.Arbitrary<ProducerId>,
        producerEpoch,
      }),
      fc.record({
        name: optional(text(255).filter((name) => name !== '')),
        producerId: fc.constant(-1 as ProducerId),
        producerEpoch: fc.constant(-1),
      }),
    ),
  }),
  message('init-producer.v1.response', {
    encode: initProducer.encodeResponse,
    decode: initProducer.decodeResponse,
    sample: { producerId: 4711 as ProducerId, producerEpoch: 4 },
    arbitrary: fc.record({ producerId: safe(0) as fc.Arbitrary<ProducerId>, producerEpoch }),
  }),
];

const topicMessages = [
  message('create-topic.v1.request', {
    encode: createTopic.encodeRequest,
    decode: createTopic.decodeRequest,
    sample: {
      name: 'orders',
      partitions: 3,
      replicas: 1,
      config: [{ key: 'retention.ms', value: '3600000' }],
      validateOnly: false,
      ifNotExists: true,
      timeoutMs: 10_000,
    },
    arbitrary: fc.record({
      name: text(249),
      partitions: u32,
      replicas: u16,
      config: list(fc.record({ key: text(60), value: text(60) })),
      validateOnly: fc.boolean(),
      ifNotExists: fc.boolean(),
      timeoutMs: u32,
    }),
  }),
  message('create-topic.v1.response', {
    encode: createTopic.encodeResponse,
    decode: createTopic.decodeResponse,
    sample: { topicId: ID, created: true, partitions: 3, replicas: 1 },
    arbitrary: fc.record({ topicId: optional(id), created: fc.boolean(), partitions: u32, replicas: u16 }),
  }),
  message('alter-topic.v1.request', {
    encode: alterTopic.encodeRequest,
    decode: alterTopic.decodeRequest,
    sample: {
      name: 'orders',
      config: [
        { key: 'retention.ms', value: '-1' },
        { key: 'segment.bytes', value: undefined },
      ],
      partitions: 6,
      confirmKeyMovement: true,
      validateOnly: false,
      timeoutMs: 10_000,
    },
    arbitrary: fc.record({
      name: text(249),
      config: list(fc.record({ key: text(60), value: optional(text(60)) })),
      partitions: optional(integer(1, 0xffff_ffff)),
      confirmKeyMovement: fc.boolean(),
      validateOnly: fc.boolean(),
      timeoutMs: u32,
    }),
  }),
  message('alter-topic.v1.response', {
    encode: alterTopic.encodeResponse,
    decode: alterTopic.decodeResponse,
    sample: { topicId: ID, partitions: 6 },
    arbitrary: fc.record({ topicId: id, partitions: u32 }),
  }),
  message('delete-topic.v1.request', {
    encode: deleteTopic.encodeRequest,
    decode: deleteTopic.decodeRequest,
    sample: { name: 'orders', topicId: ID, timeoutMs: 10_000 },
    arbitrary: fc.record({ name: text(249), topicId: optional(id), timeoutMs: u32 }),
  }),
  message('delete-topic.v1.response', {
    encode: deleteTopic.encodeResponse,
    decode: deleteTopic.decodeResponse,
    sample: { topicId: ID },
    arbitrary: fc.record({ topicId: id }),
  }),
];

const state = fc.constantFrom('offline' as const, 'online' as const, 'draining' as const);
const clusterMessages = [
  message('cluster-status.v1.request', {
    encode: clusterStatus.encodeRequest,
    decode: clusterStatus.decodeRequest,
    sample: {},
    arbitrary: fc.constant({}),
  }),
  message('cluster-status.v1.response', {
    encode: clusterStatus.encodeResponse,
    decode: clusterStatus.decodeResponse,
    sample: {
      clusterId: 'c-4711',
      controllerId: undefined,
      nodes: [
        {
          nodeId: 1 as NodeId,
          host: '::1',
          port: 9400,
          state: 'online',
          softwareVersion: '0.1.0',
          startedAt: 1_700_000_000_000 as TimestampMs,
          leaders: 3,
          replicas: 5,
        },
      ],
      topics: 2,
      partitions: 4,
      offlinePartitions: 1,
      underReplicatedPartitions: 2,
      underMinInSyncPartitions: 1,
      damagedPartitions: 0,
    },
    arbitrary: fc.record({
      clusterId: text(64),
      controllerId: optional(node),
      nodes: list(
        fc.record({
          nodeId: node,
          host: text(255),
          port: u16,
          state,
          softwareVersion: text(64),
          startedAt: timestamp,
          leaders: u32,
          replicas: u32,
        }),
      ),
      topics: u32,
      partitions: u32,
      offlinePartitions: u32,
      underReplicatedPartitions: u32,
      underMinInSyncPartitions: u32,
      damagedPartitions: u32,
    }),
  }),
];

export const MESSAGES: readonly Message[] = [
  ...helloMessages,
  ...metadataMessages,
  ...produceMessages,
  ...fetchMessages,
  ...listOffsetsMessages,
  ...initProducerMessages,
  ...topicMessages,
  ...clusterMessages,
  ...groupMessages,
];
/** For messages whose value says no more of a failure than its meaning: other bytes may decode to the same value. */
export function holdsFailure(value: unknown): boolean {
  return /"(failure)":\{/.test(JSON.stringify(value));
}
