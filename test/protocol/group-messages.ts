// The messages of the operations on groups: samples and generators, as in messages.ts.
import fc from 'fast-check';
import type { LeaderEpoch, Offset, TimestampMs } from '../../src/base/brands.ts';
import type { Membership, TopicPartitions } from '../../src/protocol/group-fields.ts';
import * as commitOffset from '../../src/protocol/operations/commit-offset.v1.ts';
import * as deleteGroup from '../../src/protocol/operations/delete-group.v1.ts';
import * as describeGroup from '../../src/protocol/operations/describe-group.v1.ts';
import * as fetchOffsets from '../../src/protocol/operations/fetch-offsets.v1.ts';
import * as heartbeat from '../../src/protocol/operations/heartbeat.v1.ts';
import * as joinGroup from '../../src/protocol/operations/join-group.v1.ts';
import * as leaveGroup from '../../src/protocol/operations/leave-group.v1.ts';
import * as listGroups from '../../src/protocol/operations/list-groups.v1.ts';
import * as replay from '../../src/protocol/operations/replay.v1.ts';
import {
  epoch,
  failed,
  ID,
  id,
  list,
  type Message,
  message,
  offset,
  optional,
  OTHER_ID,
  safe,
  text,
  timestamp,
  u32,
} from './message-values.ts';

const generation = safe(0);
const named = (maxLength: number): fc.Arbitrary<string> => text(maxLength).filter((value) => value !== '');
const topics: fc.Arbitrary<TopicPartitions[]> = list(fc.record({ topicId: id, partitions: list(u32) }));
const membership: fc.Arbitrary<Membership> = fc.record({
  generation,
  state: fc.constantFrom('stable' as const, 'revoking' as const, 'waiting' as const, 'paused' as const),
  heartbeatMs: u32,
  assigned: topics,
  release: topics,
});
const MEMBERSHIP: Membership = {
  generation: 7,
  state: 'revoking',
  heartbeatMs: 3000,
  assigned: [{ topicId: ID, partitions: [0, 2] }],
  release: [{ topicId: OTHER_ID, partitions: [1] }],
};
const REFUSED = {
  code: 'COMMIT_BACKWARDS',
  message: '42 is committed',
  facts: { committedOffset: 42 },
} as const;

const memberMessages = [
  message('join-group.v1.request', {
    encode: joinGroup.encodeRequest,
    decode: joinGroup.decodeRequest,
    sample: {
      group: 'billing',
      memberId: 'a1b2',
      instanceId: 'till-3',
      clientId: 'billing-app',
      sessionTimeoutMs: 30_000,
      rebalanceTimeoutMs: 60_000,
      topics: ['orders', 'zähler'],
    },
    arbitrary: fc.record({
      group: text(255),
      memberId: optional(named(128)),
      instanceId: optional(named(255)),
      clientId: text(255),
      sessionTimeoutMs: u32,
      rebalanceTimeoutMs: u32,
      topics: list(text(249)),
    }),
  }),
  message('join-group.v1.response', {
    encode: joinGroup.encodeResponse,
    decode: joinGroup.decodeResponse,
    sample: { memberId: 'a1b2', membership: MEMBERSHIP },
    arbitrary: fc.record({ memberId: text(128), membership }),
  }),
  message('heartbeat.v1.request', {
    encode: heartbeat.encodeRequest,
    decode: heartbeat.decodeRequest,
    sample: {
      group: 'billing',
      memberId: 'a1b2',
      generation: 7,
      waitMs: 5000,
      released: [{ topicId: OTHER_ID, partitions: [1] }],
    },
    arbitrary: fc.record({
      group: text(255),
      memberId: text(128),
      generation: safe(-1),
      waitMs: u32,
      released: topics,
    }),
  }),
  message('heartbeat.v1.response', {
    encode: heartbeat.encodeResponse,
    decode: heartbeat.decodeResponse,
    sample: { membership: MEMBERSHIP },
    arbitrary: fc.record({ membership }),
  }),
  message('leave-group.v1.request', {
    encode: leaveGroup.encodeRequest,
    decode: leaveGroup.decodeRequest,
    sample: { group: 'billing', memberId: 'a1b2' },
    arbitrary: fc.record({ group: text(255), memberId: text(128) }),
  }),
  message('leave-group.v1.response', {
    encode: leaveGroup.encodeResponse,
    decode: leaveGroup.decodeResponse,
    sample: { left: true },
    arbitrary: fc.record({ left: fc.boolean() }),
  }),
];

const offsetMessages = [
  message('commit-offset.v1.request', {
    encode: commitOffset.encodeRequest,
    decode: commitOffset.decodeRequest,
    sample: {
      group: 'billing',
      memberId: 'a1b2',
      generation: 7,
      offsets: [
        { topicId: ID, partition: 0, offset: 44 as Offset, leaderEpoch: 3 as LeaderEpoch, metadata: 'till 3' },
        { topicId: ID, partition: 2, offset: 0 as Offset, leaderEpoch: -1 as LeaderEpoch, metadata: '' },
      ],
    },
    arbitrary: fc.record({
      group: text(255),
      memberId: text(128),
      generation: safe(-1),
      offsets: list(fc.record({ topicId: id, partition: u32, offset, leaderEpoch: epoch, metadata: text(80) })),
    }),
  }),
  message('commit-offset.v1.response', {
    encode: commitOffset.encodeResponse,
    decode: commitOffset.decodeResponse,
    sample: {
      results: [
        { topicId: ID, partition: 0, failure: undefined },
        { topicId: ID, partition: 2, failure: REFUSED },
      ],
    },
    arbitrary: fc.record({ results: list(fc.record({ topicId: id, partition: u32, failure: failed })) }),
  }),
  message('fetch-offsets.v1.request', {
    encode: fetchOffsets.encodeRequest,
    decode: fetchOffsets.decodeRequest,
    sample: { group: 'billing', topics: [{ topicId: ID, partitions: [0, 2] }] },
    arbitrary: fc.record({ group: text(255), topics: optional(topics) }),
  }),
  message('fetch-offsets.v1.response', {
    encode: fetchOffsets.encodeResponse,
    decode: fetchOffsets.decodeResponse,
    sample: {
      offsets: [
        {
          topicId: ID,
          partition: 0,
          offset: 44 as Offset,
          leaderEpoch: 3 as LeaderEpoch,
          committedAt: 1_700_000_000_000 as TimestampMs,
          metadata: 'till 3',
        },
        {
          topicId: ID,
          partition: 2,
          offset: undefined,
          leaderEpoch: -1 as LeaderEpoch,
          committedAt: -1 as TimestampMs,
          metadata: '',
        },
      ],
    },
    arbitrary: fc.record({
      offsets: list(
        fc.record({
          topicId: id,
          partition: u32,
          offset: optional(offset),
          leaderEpoch: epoch,
          committedAt: timestamp,
          metadata: text(80),
        }),
      ),
    }),
  }),
  message('replay.v1.request', {
    encode: replay.encodeRequest,
    decode: replay.decodeRequest,
    sample: {
      group: 'billing',
      pause: true,
      create: false,
      timeoutMs: 30_000,
      targets: [{ topicId: ID, partition: 0, offset: 12 as Offset, leaderEpoch: 3 as LeaderEpoch }],
    },
    arbitrary: fc.record({
      group: text(255),
      pause: fc.boolean(),
      create: fc.boolean(),
      timeoutMs: u32,
      targets: list(fc.record({ topicId: id, partition: u32, offset, leaderEpoch: epoch })),
    }),
  }),
  message('replay.v1.response', {
    encode: replay.encodeResponse,
    decode: replay.decodeResponse,
    sample: {
      done: true,
      generation: 9,
      partitions: [
        { topicId: ID, partition: 0, failure: undefined, before: 44 as Offset },
        { topicId: ID, partition: 2, failure: REFUSED, before: undefined },
      ],
    },
    arbitrary: fc.record({
      done: fc.boolean(),
      generation,
      partitions: list(fc.record({ topicId: id, partition: u32, failure: failed, before: optional(offset) })),
    }),
  }),
];

const state = fc.constantFrom('empty' as const, 'stable' as const, 'rebalancing' as const, 'paused' as const);
const describedMember: fc.Arbitrary<describeGroup.DescribedMember> = fc.record({
  memberId: text(128),
  instanceId: optional(named(255)),
  clientId: text(255),
  topics: list(text(249)),
  sessionTimeoutMs: u32,
  rebalanceTimeoutMs: u32,
  generation,
  silentMs: u32,
  assigned: topics,
  release: topics,
});
const describedPartition: fc.Arbitrary<describeGroup.DescribedPartition> = fc.record({
  topicId: id,
  topic: text(249),
  partition: u32,
  memberId: optional(named(128)),
  committed: optional(offset),
  committedEpoch: epoch,
  committedAt: timestamp,
  metadata: text(80),
  logStart: optional(offset),
  logEnd: optional(offset),
  highWatermark: optional(offset),
  lagBytes: optional(safe(0)),
  nextTimestamp: timestamp,
  retentionMarginMs: optional(safe(0)),
  retentionMarginBytes: optional(safe(0)),
});
const DESCRIBED: describeGroup.DescribeGroupResponse = {
  group: 'billing',
  state: 'stable',
  generation: 7,
  now: 1_700_000_000_000 as TimestampMs,
  members: [
    {
      memberId: 'a1b2',
      instanceId: 'till-3',
      clientId: 'billing-app',
      topics: ['orders'],
      sessionTimeoutMs: 30_000,
      rebalanceTimeoutMs: 60_000,
      generation: 7,
      silentMs: 1200,
      assigned: [{ topicId: ID, partitions: [0] }],
      release: [],
    },
  ],
  partitions: [
    {
      topicId: ID,
      topic: 'orders',
      partition: 0,
      memberId: 'a1b2',
      committed: 44 as Offset,
      committedEpoch: 3 as LeaderEpoch,
      committedAt: 1_699_999_999_000 as TimestampMs,
      metadata: '',
      logStart: 12 as Offset,
      logEnd: 50 as Offset,
      highWatermark: 49 as Offset,
      lagBytes: 640,
      nextTimestamp: 1_699_999_990_000 as TimestampMs,
      retentionMarginMs: 3_590_000,
      retentionMarginBytes: undefined,
    },
  ],
};
const operatorMessages = [
  message('list-groups.v1.request', {
    encode: listGroups.encodeRequest,
    decode: listGroups.decodeRequest,
    sample: {},
    arbitrary: fc.constant({}),
  }),
  message('list-groups.v1.response', {
    encode: listGroups.encodeResponse,
    decode: listGroups.decodeResponse,
    sample: { groups: [{ group: 'billing', state: 'rebalancing', generation: 7, members: 3, offsets: 12 }] },
    arbitrary: fc.record({
      groups: list(fc.record({ group: text(255), state, generation, members: u32, offsets: u32 })),
    }),
  }),
  message('describe-group.v1.request', {
    encode: describeGroup.encodeRequest,
    decode: describeGroup.decodeRequest,
    sample: { group: 'billing' },
    arbitrary: fc.record({ group: text(255) }),
  }),
  message('describe-group.v1.response', {
    encode: describeGroup.encodeResponse,
    decode: describeGroup.decodeResponse,
    sample: DESCRIBED,
    arbitrary: fc.record({
      group: text(255),
      state,
      generation,
      now: timestamp,
      members: list(describedMember),
      partitions: list(describedPartition),
    }),
  }),
  message('delete-group.v1.request', {
    encode: deleteGroup.encodeRequest,
    decode: deleteGroup.decodeRequest,
    sample: { group: 'billing' },
    arbitrary: fc.record({ group: text(255) }),
  }),
  message('delete-group.v1.response', {
    encode: deleteGroup.encodeResponse,
    decode: deleteGroup.decodeResponse,
    sample: { offsets: 12 },
    arbitrary: fc.record({ offsets: u32 }),
  }),
];

export const groupMessages: readonly Message[] = [...memberMessages, ...offsetMessages, ...operatorMessages];
