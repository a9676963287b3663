// Groups through a whole broker, in simulated time.
import { describe, expect, test } from 'vitest';
import type { TopicId } from '../../src/base/brands.ts';
import {
  allOffsets,
  commitBody,
  deleteGroup,
  describeGroup,
  GROUP,
  joinBody,
  listGroups,
  Member,
  offsetsOf,
  refusal,
  replay,
  replayBody,
} from './group-client.ts';
import { deleteTopicV1 } from '../../src/protocol/index.ts';
import { batchOf, type RawClient } from './raw-client.ts';
import { withSimNode, type SimNode } from './sim-node.ts';

function nothingLeft(node: SimNode): void {
  expect([node.slices.live, node.slices.twice, node.ends]).toEqual([0, 0, []]);
}
const entries = (node: SimNode): number => node.broker.core.metadata.appliedIndex;

/** A topic with records in each partition. */
async function filled(client: RawClient, partitions: number, records: number, name = 'orders'): Promise<TopicId> {
  const id = await client.createTopic(name, { partitions });
  for (let partition = 0; partition < partitions; partition += 1) {
    const texts = Array.from({ length: records }, (_, index) => `record ${String(index)}`);
    await client.produce(id, batchOf(texts, {}, 1_767_225_600_000), { partition });
  }
  return id;
}

/** Members of one connection each, until nothing moves any more. */
async function settle(members: readonly Member[]): Promise<void> {
  for (let quiet = 0; quiet < 2;) {
    const before = members.map(({ generation }) => generation).join();
    for (const member of members) await member.work();
    quiet = before === members.map(({ generation }) => generation).join() ? quiet + 1 : 0;
  }
}

describe('members', () => {
  test('the first one owns all; with another it is told at once, hands over, and leaves what it keeps alone', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const first = new Member(await node.greeted(), 'first');
        const id = await filled(first.client, 4, 5);
        expect(await first.join()).toMatchObject({
          state: 'stable',
          assigned: [{ topicId: id, partitions: [0, 1, 2, 3] }],
          release: [],
        });
        const kept = first.generation;
        const waiting = first.beat(60_000);
        const second = new Member(await node.greeted(), 'second');
        expect(await second.join()).toMatchObject({ state: 'waiting', assigned: [] });
        const startedMs = node.scheduler.nowMs;
        expect(await waiting).toMatchObject({ state: 'revoking', assigned: [{ partitions: [0, 1] }] });
        expect(node.scheduler.nowMs - startedMs).toBeLessThan(100);
        // What it keeps it commits as before; what it is to release too, until it has.
        expect(await first.commit([{ topicId: id, offset: 2 }], kept)).toEqual([undefined]);
        expect(await first.commit([{ topicId: id, partition: 3, offset: 4 }])).toEqual([undefined]);
        const told = second.beat(60_000);
        expect(await first.work()).toMatchObject({ state: 'stable' });
        expect(await told).toMatchObject({ state: 'stable', assigned: [{ partitions: [2, 3] }] });
        expect(await first.commit([{ topicId: id, partition: 3, offset: 5 }])).toEqual(['COMMIT_NOT_OWNED']);
        expect(await offsetsOf(second.client, id, [0, 1, 2, 3])).toEqual([2, -1, -1, 4]);
        expect(await second.commit([{ topicId: id, partition: 3, offset: 5, metadata: 'till 3' }])).toEqual([
          undefined,
        ]);
        expect(await allOffsets(second.client)).toMatchObject([
          { partition: 0, offset: 2, metadata: '' },
          { partition: 3, offset: 5, metadata: 'till 3' },
        ]);
        expect([await second.leave(), await second.leave()]).toEqual([true, false]);
        expect(await first.work()).toMatchObject({ assigned: [{ partitions: [0, 1, 2, 3] }] });
      }),
    );
  });

  test('a member that falls silent loses its partitions when its session ends, not before, and comes back as a new one', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const silent = new Member(await node.greeted(), 'silent');
        const id = await filled(silent.client, 2, 5);
        const other = new Member(await node.greeted(), 'other');
        for (const member of [silent, other]) await member.join();
        await settle([silent, other]);
        expect([silent.partitions, other.partitions]).toEqual([[0], [1]]);
        for (let second = 0; second < 9; second += 1) {
          await node.pass(1000);
          await other.work();
        }
        expect(other.partitions).toEqual([1]);
        for (let second = 0; second < 2; second += 1) {
          await node.pass(1000);
          await other.work();
        }
        expect(other.partitions).toEqual([0, 1]);
        expect(await refusal(silent.beat())).toBe('UNKNOWN_MEMBER');
        expect(await refusal(silent.commit([{ topicId: id, offset: 1 }]))).toBe('UNKNOWN_MEMBER');
        expect(await offsetsOf(other.client, id, [0])).toEqual([-1]);
        const again = new Member(silent.client, 'silent-2');
        await again.join();
        await settle([again, other]);
        expect([again.partitions.length, other.partitions.length]).toEqual([1, 1]);
      }),
    );
  });

  test('clocks that jump and a machine that sleeps end no session', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const members = [new Member(await node.greeted(), 'a'), new Member(await node.greeted(), 'b')];
        await filled(members[0]?.client as RawClient, 4, 1);
        for (const member of members) await member.join();
        await settle(members);
        const before = entries(node);
        for (const jump of [365 * 86_400_000, -366 * 86_400_000, 3_600_000]) {
          node.clock.jumpWall(jump);
          await node.pass(2000);
          for (const member of members) await member.work();
        }
        node.clock.suspend(120_000);
        await node.pass(1000);
        for (const member of members) expect((await member.work()).state).toBe('stable');
        expect(entries(node)).toBe(before);
        await node.pass(11_000);
        for (const member of members) expect(await refusal(member.beat())).toBe('UNKNOWN_MEMBER');
      }),
    );
  });

  test('500 members that join at once: all are in by few entries, and each partition has one reader', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const clients: RawClient[] = [];
        for (let count = 0; count < 10; count += 1) clients.push(await node.greeted());
        const id = await (clients[0] as RawClient).createTopic('orders', { partitions: 400 });
        const members = Array.from(
          { length: 500 },
          (_, index) => new Member(clients[index % clients.length] as RawClient, `m${String(index)}`),
        );
        const before = entries(node);
        await Promise.all(members.map((member) => member.join()));
        expect(entries(node) - before).toBeLessThanOrEqual(20);
        for (let round = 0; round < 4; round += 1) await Promise.all(members.map((member) => member.work()));
        const sizes = members.map(({ reading }) => reading.size);
        expect([sizes.filter((size) => size === 1).length, sizes.filter((size) => size === 0).length]).toEqual([
          400, 100,
        ]);
        expect(new Set(members.flatMap(({ reading }) => Array.from(reading))).size).toBe(400);
        expect(entries(node) - before).toBeLessThanOrEqual(30);
        // Those without a partition are members like others, and have their turn.
        const idle = members.filter(({ reading }) => reading.size === 0);
        const busy = members.filter(({ reading }) => reading.size > 0);
        await Promise.all(busy.slice(0, 100).map((member) => member.leave()));
        await Promise.all(idle.map((member) => member.work()));
        expect(idle.map(({ reading }) => reading.size)).toEqual(idle.map(() => 1));
        expect(
          await (busy[200] as Member).commit([{ topicId: id, partition: busy[200]?.partitions[0] ?? 0, offset: 0 }]),
        ).toEqual([undefined]);
      }),
    );
  });

  test('a static member that restarts within its session goes on where it was; the older one is fenced', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const given = { instanceId: 'till 1' };
        const before = new Member(await node.greeted(), 'one', given);
        const id = await filled(before.client, 4, 3);
        const other = new Member(await node.greeted(), 'other');
        for (const member of [before, other]) await member.join();
        await settle([before, other]);
        const after = new Member(await node.greeted(), 'two', given);
        expect(await after.join()).toMatchObject({ state: 'stable', assigned: [{ partitions: before.partitions }] });
        const { generation } = other;
        expect((await other.work()).generation).toBe(generation);
        expect(await refusal(before.beat())).toBe('INSTANCE_FENCED');
        const place = { topicId: id, partition: before.partitions[0] ?? 0, offset: 1 };
        expect(await refusal(before.commit([place]))).toBe('INSTANCE_FENCED');
        expect(await after.commit([place])).toEqual([undefined]);
      }),
    );
  });

  test('what a group is not told is refused by name', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const client = await node.greeted();
        const refused = async (given: Parameters<typeof joinBody>[1], memberId = 'm'): Promise<string> =>
          (await client.refused('JoinGroup', joinBody(memberId, given))).code;
        expect(await refused({ group: '' })).toBe('INVALID_ARGUMENT');
        expect(await refused({ group: 'a\nb' })).toBe('INVALID_ARGUMENT');
        expect(await refused({}, 'a/b')).toBe('INVALID_ARGUMENT');
        expect(await refused({ topics: [] })).toBe('INVALID_ARGUMENT');
        expect(await refused({ topics: ['..'] })).toBe('INVALID_TOPIC_NAME');
        expect(await refused({ sessionTimeoutMs: 10 })).toBe('INVALID_ARGUMENT');
        expect(await refused({ rebalanceTimeoutMs: 4_000_000 })).toBe('INVALID_ARGUMENT');
        expect(
          await refused({ topics: Array.from({ length: 20 }, (_, index) => `${'t'.repeat(240)}${String(index)}`) }),
        ).toBe('INVALID_ARGUMENT');
        const stranger = new Member(client, 'stranger');
        expect(await refusal(stranger.beat())).toBe('UNKNOWN_MEMBER');
        expect(await stranger.leave()).toBe(false);
        expect(await refusal(allOffsets(client))).toBe('UNKNOWN_GROUP');
        expect(await refusal(describeGroup(client))).toBe('UNKNOWN_GROUP');
        expect(await refusal(deleteGroup(client))).toBe('UNKNOWN_GROUP');
        expect(await listGroups(client)).toEqual([]);
        // Without an id of its own the broker makes one.
        const body = joinBody('', {});
        expect((await client.call('JoinGroup', body)).length).toBeGreaterThan(32);
        expect(await listGroups(client)).toMatchObject([{ group: GROUP, state: 'stable', members: 1 }]);
      }),
    );
  });

  test('a broker that stops answers heartbeats that wait, and leaves memberships for its next start', async () => {
    let refusedWith: unknown;
    const node = await withSimNode(async (running) => {
      const member = new Member(await running.greeted(), 'm');
      await filled(member.client, 1, 1);
      await member.join();
      const waiting = refusal(member.beat(60_000));
      await running.pass(100);
      expect(running.broker.core.groups.waiting).toBe(1);
      await running.broker.close();
      refusedWith = await waiting;
      expect(running.broker.core.metadata.image().groups.get(GROUP)?.members.size).toBe(1);
    });
    expect(refusedWith).toBe('SHUTTING_DOWN');
    nothingLeft(node);
  });
});

describe('commits', () => {
  test('each that cannot count is refused by its own error, and the others of the request count', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const member = new Member(await node.greeted(), 'm');
        const id = await filled(member.client, 3, 5);
        const gone = await filled(member.client, 1, 1, 'gone');
        const other = new Member(await node.greeted(), 'n');
        for (const each of [member, other]) await each.join();
        await settle([member, other]);
        const own = member.partitions[0] ?? 0;
        const foreign = other.partitions[0] ?? 0;
        await member.client.call('DeleteTopic', deleteBody('gone'));
        const results = await member.commitResults([
          { topicId: id, partition: own, offset: 5 },
          { topicId: id, partition: foreign, offset: 1 },
          { topicId: id, partition: 9, offset: 1 },
          { topicId: gone, offset: 1 },
        ]);
        expect(results.map((failure) => failure?.code)).toEqual([
          undefined,
          'COMMIT_NOT_OWNED',
          'UNKNOWN_PARTITION',
          'UNKNOWN_TOPIC',
        ]);
        const beyond = await member.commitResults([{ topicId: id, partition: own, offset: 6 }]);
        expect(beyond).toMatchObject([{ code: 'COMMIT_BEYOND_END', facts: { highWatermark: 5, logStart: 0 } }]);
        const back = await member.commitResults([{ topicId: id, partition: own, offset: 4 }]);
        expect(back).toMatchObject([{ code: 'COMMIT_BACKWARDS', facts: { committedOffset: 5 } }]);
        // A higher epoch alone goes back no more than any other: the records are there.
        expect(await member.commit([{ topicId: id, partition: own, offset: 4, epoch: 9 }])).toEqual([
          'COMMIT_BACKWARDS',
        ]);
        expect(await member.commit([{ topicId: id, partition: own, offset: 5 }], member.generation + 1)).toEqual([
          'STALE_GENERATION',
        ]);
        expect(await offsetsOf(member.client, id, [own, foreign])).toEqual([5, -1]);
      }),
    );
  });

  test('the same position again writes nothing; many at once share entries', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const member = new Member(await node.greeted(), 'm');
        const id = await filled(member.client, 64, 20);
        await member.join();
        const all = (at: number): Parameters<Member['commit']>[0] =>
          Array.from({ length: 64 }, (_, partition) => ({ topicId: id, partition, offset: at }));
        let before = entries(node);
        expect(new Set(await member.commit(all(3)))).toEqual(new Set([undefined]));
        expect(entries(node) - before).toBe(1);
        before = entries(node);
        for (let count = 0; count < 5; count += 1) await member.commit(all(3));
        expect(entries(node)).toBe(before);
        const many = Array.from({ length: 200 }, (_, index) =>
          member.commit([{ topicId: id, partition: index % 64, offset: 4 + Math.floor(index / 64) }]),
        );
        expect(new Set((await Promise.all(many)).flat())).toEqual(new Set([undefined]));
        expect(entries(node) - before).toBeLessThanOrEqual(10);
        expect(await offsetsOf(member.client, id, [0, 7, 8, 63])).toEqual([7, 7, 6, 6]);
      }),
    );
  });

  test('a topic made anew under its name starts without offsets', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const member = new Member(await node.greeted(), 'm');
        const old = await filled(member.client, 1, 5);
        await member.join();
        expect(await member.commit([{ topicId: old, offset: 5 }])).toEqual([undefined]);
        await member.client.call('DeleteTopic', deleteBody('orders'));
        const id = await filled(member.client, 1, 3);
        await node.pass(200);
        expect(await member.work()).toMatchObject({ assigned: [{ topicId: id, partitions: [0] }], release: [] });
        expect(await offsetsOf(member.client, id, [0])).toEqual([-1]);
        expect(await offsetsOf(member.client, old, [0])).toEqual([-1]);
        expect(await member.commit([{ topicId: old, offset: 5 }])).toEqual(['UNKNOWN_TOPIC']);
        expect(await member.commit([{ topicId: id, offset: 2 }])).toEqual([undefined]);
      }),
    );
  });
});

describe('operators', () => {
  test('a group is described with owners, lag in records, bytes and time, and what retention leaves', async () => {
    nothingLeft(
      await withSimNode(
        async (node) => {
          const member = new Member(await node.greeted(), 'm', { instanceId: 'till 1' });
          const id = await filled(member.client, 2, 5);
          await member.client.produce(id, batchOf(['later'], {}, 1_767_225_600_500));
          await member.join();
          await member.commit([{ topicId: id, offset: 5 }]);
          await node.pass(1500);
          const group = await describeGroup(member.client);
          expect(group).toMatchObject({
            state: 'stable',
            generation: 1,
            members: [{ memberId: 'm', instanceId: 'till 1', clientId: 'test', topics: ['orders'] }],
          });
          expect(group.members[0]?.silentMs).toBeGreaterThan(1000);
          const [behind, untouched] = group.partitions;
          const size = batchOf(['later']).length;
          expect(behind).toMatchObject({
            topic: 'orders',
            partition: 0,
            memberId: 'm',
            committed: 5,
            logStart: 0,
            logEnd: 6,
            highWatermark: 6,
            lagBytes: size,
            nextTimestamp: 1_767_225_600_500,
          });
          // Kept for an hour after the youngest record of its segment.
          const overtakenMs = (behind?.retentionMarginMs ?? 0) + group.now;
          expect(Math.abs(overtakenMs - 1_767_225_600_500 - 3_600_000)).toBeLessThan(10);
          expect(behind?.retentionMarginBytes).toBe(1_000_000);
          expect(untouched).toMatchObject({
            partition: 1,
            committed: undefined,
            lagBytes: batchOf(Array.from({ length: 5 }, (_, index) => `record ${String(index)}`)).length,
          });
          await member.commit([{ topicId: id, offset: 6 }]);
          expect((await describeGroup(member.client)).partitions[0]).toMatchObject({
            lagBytes: 0,
            nextTimestamp: -1,
            retentionMarginMs: undefined,
          });
          expect(await listGroups(member.client)).toEqual([
            { group: GROUP, state: 'stable', generation: 1, members: 1, offsets: 1 },
          ]);
        },
        { retentionMs: 3_600_000, retentionBytes: 1_000_000 },
      ),
    );
  });

  test('Replay: without members at once, back and forth; with members only by a pause, after which they go on from there', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const operator = await node.greeted();
        const member = new Member(await node.greeted(), 'm');
        const id = await filled(operator, 2, 5);
        expect(await refusal(replay(operator, [{ topicId: id, offset: 1 }]))).toBe('UNKNOWN_GROUP');
        expect(await replay(operator, [{ topicId: id, offset: 4 }], { create: true })).toMatchObject({
          done: true,
          partitions: [{ before: undefined }],
        });
        expect(await replay(operator, [{ topicId: id, offset: 2 }])).toMatchObject({
          done: true,
          partitions: [{ before: 4 }],
        });
        const outside = await replay(operator, [
          { topicId: id, offset: 1 },
          { topicId: id, partition: 1, offset: 6 },
          { topicId: id, partition: 2, offset: 0 },
        ]);
        expect([outside.done, ...outside.partitions.map(({ failure }) => failure?.code)]).toEqual([
          false,
          undefined,
          'COMMIT_BEYOND_END',
          'UNKNOWN_PARTITION',
        ]);
        expect(await offsetsOf(operator, id, [0, 1])).toEqual([2, -1]);
        await member.join();
        expect(await refusal(replay(operator, [{ topicId: id, offset: 0 }]))).toBe('GROUP_NOT_EMPTY');
        expect(await refusal(deleteGroup(operator))).toBe('GROUP_NOT_EMPTY');
        // A member that does not stop in time keeps what it has.
        const late = operator.request(
          'Replay',
          replayBody([{ topicId: id, offset: 0 }], { pause: true, timeoutMs: 2000 }),
        );
        await node.pass(1000);
        expect(await member.beat()).toMatchObject({ state: 'revoking' });
        expect((await operator.answer(late)).failure?.code).toBe('REBALANCE_IN_PROGRESS');
        expect(await member.beat(5000)).toMatchObject({ state: 'stable', assigned: [{ partitions: [0, 1] }] });
        expect(await offsetsOf(operator, id, [0])).toEqual([2]);
        const done = replay(operator, [{ topicId: id, offset: 0 }], { pause: true });
        const told = member.beat(5000);
        expect(await told).toMatchObject({ state: 'revoking' });
        expect(await listGroups(operator)).toMatchObject([{ state: 'paused' }]);
        expect(await member.commit([{ topicId: id, offset: 3 }])).toEqual([undefined]);
        await member.work();
        expect(await done).toMatchObject({ done: true, partitions: [{ before: 3 }] });
        expect(await member.work(5000)).toMatchObject({ state: 'stable', assigned: [{ partitions: [0, 1] }] });
        expect(await offsetsOf(operator, id, [0])).toEqual([0]);
        await member.leave();
        expect(await deleteGroup(operator)).toBe(1);
        expect(await listGroups(operator)).toEqual([]);
      }),
    );
  });

  test('another group replays without touching the first', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const member = new Member(await node.greeted(), 'm');
        const id = await filled(member.client, 1, 5);
        await member.join();
        await member.commit([{ topicId: id, offset: 5 }]);
        await replay(member.client, [{ topicId: id, offset: 0 }], { group: 'audit', create: true });
        const other = new Member(await node.greeted(), 'm', { group: 'audit' });
        expect(await other.join()).toMatchObject({ assigned: [{ partitions: [0] }] });
        await other.commit([{ topicId: id, offset: 2 }]);
        expect(await offsetsOf(member.client, id, [0])).toEqual([5]);
        expect(await offsetsOf(member.client, id, [0], 'audit')).toEqual([2]);
      }),
    );
  });
});

describe('malformed bodies', () => {
  test('are refused, and the connection goes on', async () => {
    nothingLeft(
      await withSimNode(async (node) => {
        const client = await node.greeted();
        for (const name of [
          'JoinGroup',
          'Heartbeat',
          'LeaveGroup',
          'CommitOffset',
          'FetchOffsets',
          'Replay',
          'DescribeGroup',
          'DeleteGroup',
        ] as const)
          expect([name, (await client.refused(name, [Uint8Array.of(0, 9, 1)])).code]).toEqual([
            name,
            'MALFORMED_REQUEST',
          ]);
        expect((await client.refused('ListGroups', [Uint8Array.of(1)])).code).toBe('MALFORMED_REQUEST');
        expect((await client.refused('CommitOffset', commitBody(GROUP, 'm', 1, []))).code).toBe('UNKNOWN_MEMBER');
      }),
    );
  });
});

function deleteBody(name: string): Parameters<RawClient['call']>[1] {
  return deleteTopicV1.encodeRequest({ name, topicId: undefined, timeoutMs: 5000 });
}
