// Groups on the real ports: ids of every kind through the log, the store beside it and a restart.
import { expect, test } from 'vitest';
import { describeGroup, listGroups, Member, offsetsOf } from './group-client.ts';
import { batchOf } from './raw-client.ts';
import { RealNode } from './real-node.ts';

const IDS = ['billing', 'a/b/../c', 'Zähler · 数 · 🜁', 'x'.repeat(255), 'ü'.repeat(127), ' '];

test('ids of every kind, members and offsets are the same after restarts, from the log and from the store', async () => {
  const node = await RealNode.start();
  try {
    const client = await node.greeted();
    const topicId = await client.createTopic('orders', { partitions: 2 });
    await client.produce(topicId, batchOf(['a', 'b', 'c']));
    const generations = new Map<string, number>();
    for (const [index, group] of IDS.entries()) {
      const member = new Member(client, 'm'.repeat(128), { group, instanceId: group, sessionTimeoutMs: 600_000 });
      await member.join();
      expect(await member.commit([{ topicId, offset: 1 + (index % 3), metadata: group }])).toEqual([undefined]);
      generations.set(group, member.generation);
    }
    for (let round = 0; round < 2; round += 1) {
      // A long log is not replayed but read from the store.
      for (let count = 0; round === 1 && count < 2200; count += 1)
        await node.broker.core.metadata.propose({ kind: 'InitProducer', name: undefined });
      await node.stop();
      await node.start();
      expect(node.broker.core.metadata.storeDisabled).toBe(false);
      const again = await node.greeted();
      expect((await listGroups(again)).map(({ group }) => group)).toEqual(IDS.toSorted());
      for (const [index, group] of IDS.entries()) {
        expect(await offsetsOf(again, topicId, [0, 1], group)).toEqual([1 + (index % 3), -1]);
        const described = await describeGroup(again, group);
        expect(described).toMatchObject({ state: 'stable', generation: generations.get(group) });
        expect(described.members).toMatchObject([{ instanceId: group, assigned: [{ topicId, partitions: [0, 1] }] }]);
        expect(described.partitions[0]).toMatchObject({ metadata: group, highWatermark: 3 });
        // Its membership goes on: the next heartbeat is as good as any.
        const member = new Member(again, 'm'.repeat(128), { group });
        expect((await member.beat()).state).toBe('stable');
      }
    }
  } finally {
    expect(await node.remove()).toMatchObject({ leaked: 0, twice: 0 });
  }
});
