// The worked examples of a group: a member joins, reads, hands over.
import { type LeaderEpoch, offset, topicId } from '../../../src/base/brands.ts';
import { encodeAnswerFrame, encodeRequestFrame, type RequestHeader } from '../../../src/protocol/answer.ts';
import * as commitOffset from '../../../src/protocol/operations/commit-offset.v1.ts';
import * as heartbeat from '../../../src/protocol/operations/heartbeat.v1.ts';
import * as joinGroup from '../../../src/protocol/operations/join-group.v1.ts';
import { OPERATION } from '../../../src/protocol/operations.ts';
import { join } from '../../protocol/messages.ts';
import { Annotated } from './annotate.ts';

interface Example {
  readonly title: string;
  readonly block: string;
}

const TOPIC = topicId('00112233445566778899aabbccddeeff');
const header = (name: keyof typeof OPERATION, correlationId: number): RequestHeader => ({
  operation: OPERATION[name].operation,
  version: 1,
  correlationId,
});

export function groupExamples(): Example[] {
  return [...joining(), ...handingOver(), committing()];
}

function joining(): Example[] {
  const request = joinGroup.encodeRequest({
    group: 'billing',
    memberId: '5f0c',
    instanceId: undefined,
    clientId: 'app-1',
    sessionTimeoutMs: 30_000,
    rebalanceTimeoutMs: 60_000,
    topics: ['orders'],
  });
  const answer = joinGroup.encodeResponse({
    memberId: '5f0c',
    membership: {
      generation: 4,
      state: 'stable',
      heartbeatMs: 3000,
      assigned: [{ topicId: TOPIC, partitions: [0, 1] }],
      release: [],
    },
  });
  const asked = new Annotated(join(encodeRequestFrame(header('JoinGroup', 6), request)))
    .frame('JoinGroup', false)
    .string('group')
    .string('member id, made by the member')
    .string('instance id: not static')
    .string('client id');
  asked.u32('session timeout ms').u32('rebalance timeout ms').u32('topics').string('topic');
  const told = new Annotated(join(encodeAnswerFrame(header('JoinGroup', 6), answer)))
    .frame('JoinGroup', true)
    .u16('error code: fine')
    .string('member id')
    .i64('generation')
    .u8('state: stable')
    .u32('heartbeat ms');
  told.u32('assigned: topics').raw(16, 'topic id').u32('partitions').u32('partition').u32('partition');
  told.u32('topics to release: none');
  return [
    { title: 'JoinGroup, request', block: asked.end() },
    { title: 'JoinGroup, answer: read both partitions', block: told.end() },
  ];
}

function handingOver(): Example[] {
  const waiting = heartbeat.encodeRequest({
    group: 'billing',
    memberId: '5f0c',
    generation: 4,
    waitMs: 10_000,
    released: [],
  });
  const answer = heartbeat.encodeResponse({
    membership: {
      generation: 5,
      state: 'revoking',
      heartbeatMs: 250,
      assigned: [{ topicId: TOPIC, partitions: [0] }],
      release: [{ topicId: TOPIC, partitions: [1] }],
    },
  });
  const released = heartbeat.encodeRequest({
    group: 'billing',
    memberId: '5f0c',
    generation: 5,
    waitMs: 10_000,
    released: [{ topicId: TOPIC, partitions: [1] }],
  });
  const beat = (bytes: Uint8Array): Annotated =>
    new Annotated(bytes).frame('Heartbeat', false).string('group').string('member id').i64('generation').u32('wait ms');
  const told = new Annotated(join(encodeAnswerFrame(header('Heartbeat', 7), answer)))
    .frame('Heartbeat', true)
    .u16('error code: fine')
    .i64('generation')
    .u8('state: revoking')
    .u32('heartbeat ms');
  told.u32('assigned: topics').raw(16, 'topic id').u32('partitions').u32('partition');
  told.u32('topics to release').raw(16, 'topic id').u32('partitions').u32('partition');
  return [
    {
      title: 'Heartbeat that waits, request',
      block: beat(join(encodeRequestFrame(header('Heartbeat', 7), waiting)))
        .u32('released: nothing')
        .end(),
    },
    { title: 'Heartbeat, answer when another member has joined: go on with 0, release 1', block: told.end() },
    {
      title: 'Heartbeat, request after partition 1 was stopped and committed',
      block: beat(join(encodeRequestFrame(header('Heartbeat', 9), released)))
        .u32('released: topics')
        .raw(16, 'topic id')
        .u32('partitions')
        .u32('partition')
        .end(),
    },
  ];
}

function committing(): Example {
  const request = commitOffset.encodeRequest({
    group: 'billing',
    memberId: '5f0c',
    generation: 5,
    offsets: [{ topicId: TOPIC, partition: 1, offset: offset(44), leaderEpoch: 7 as LeaderEpoch, metadata: '' }],
  });
  const asked = new Annotated(join(encodeRequestFrame(header('CommitOffset', 8), request)))
    .frame('CommitOffset', false)
    .string('group')
    .string('member id')
    .i64('generation')
    .u32('commits');
  asked.raw(16, 'topic id').u32('partition').i64('offset: the next to read').i32('leader epoch').string('metadata');
  return { title: 'CommitOffset before that, request: everything below offset 44 is done', block: asked.end() };
}
