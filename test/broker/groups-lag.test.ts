// What operators see of a group that is behind, and what becomes of one that retention overtakes.
import { expect, test } from 'vitest';
import { lagOf } from '../../src/broker/groups/lag-sampler.ts';
import { describeGroup, GROUP, Member, replay } from './group-client.ts';
import { batchOf } from './raw-client.ts';
import { withSimNode } from './sim-node.ts';

test('metrics follow the lag of a group; gone is 0', async () => {
  await withSimNode(async (node) => {
    const member = new Member(await node.greeted(), 'm', { sessionTimeoutMs: 60_000 });
    const id = await member.client.createTopic('orders', { partitions: 2 });
    for (let count = 0; count < 3; count += 1)
      await member.client.produce(id, batchOf(['a', 'b'], {}, node.clock.wallMs() - 5000));
    await member.join();
    await member.commit([{ topicId: id, offset: 2 }]);
    await node.pass(16_000);
    const value = (name: string): number => node.telemetry.value(`rivulet_group_${name}`, { group: GROUP });
    expect([value('lag_records'), value('lag_bytes')]).toEqual([4, 2 * batchOf(['a', 'b']).length]);
    expect(value('lag_seconds')).toBeGreaterThan(5);
    expect(value('lag_seconds')).toBeLessThan(25);
    expect(value('retention_margin_seconds')).toBeGreaterThan(0);
    expect(node.telemetry.value('rivulet_group_members')).toBe(1);
    await member.commit([{ topicId: id, offset: 6 }]);
    await member.work();
    await node.pass(16_000);
    expect([value('lag_records'), value('lag_bytes'), value('lag_seconds'), value('retention_margin_seconds')]).toEqual(
      [0, 0, 0, -1],
    );
    expect(node.telemetry.value('rivulet_group_committed_offsets')).toBe(1);
  });
});

test('a group that retention overtakes: its offset stays and says so, nothing is left of the margin, and Replay goes to what is retained only', async () => {
  await withSimNode(async (node) => {
    const client = await node.greeted();
    const config = [
      { key: 'segment.bytes', value: '1024' },
      { key: 'retention.ms', value: '60000' },
    ];
    const id = await client.createTopic('orders', { config });
    for (let count = 0; count < 10; count += 1)
      await client.produce(id, batchOf([`${String(count)} ${'x'.repeat(600)}`], {}, node.clock.wallMs()));
    await replay(client, [{ topicId: id, offset: 2 }], { create: true });
    const before = (await describeGroup(client)).partitions[0];
    expect(before?.retentionMarginMs).toBeGreaterThan(50_000);
    expect(before?.retentionMarginMs).toBeLessThanOrEqual(60_000);
    // Each segment has one batch: everything from the third on.
    expect(before?.lagBytes).toBe(8 * batchOf([`1 ${'x'.repeat(600)}`]).length);
    await node.pass(150_000);
    const group = await describeGroup(client);
    expect(group.partitions[0]).toMatchObject({ committed: 2, logStart: 10, highWatermark: 10, retentionMarginMs: 0 });
    expect(lagOf(group)).toEqual({ records: 0, bytes: 0, seconds: 0, marginSeconds: 0 });
    const refused = await replay(client, [{ topicId: id, offset: 5 }]);
    expect(refused).toMatchObject({
      done: false,
      partitions: [{ failure: { code: 'OFFSET_EXPIRED', facts: { logStart: 10, highWatermark: 10 } } }],
    });
    expect(await replay(client, [{ topicId: id, offset: 10 }])).toMatchObject({
      done: true,
      partitions: [{ before: 2 }],
    });
  });
});
