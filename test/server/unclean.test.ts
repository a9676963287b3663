import { cpSync } from 'node:fs';
import { expect, test } from 'vitest';
import { withFaults } from '../../src/host/fault-disk.ts';
import { RealNode } from '../broker/real-node.ts';
import { batchOf, joined } from '../broker/raw-client.ts';

test('startBrokerOn after an unclean end: a start that fails leaves it to the next one, which begins a new leader epoch', async () => {
  const killed = await RealNode.start();
  const again = new RealNode();
  try {
    const client = await killed.greeted();
    const topicId = await client.createTopic('readings');
    const { leaderEpoch } = await client.produce(topicId, batchOf(['a']));
    // What a kill leaves: the files as they are while the broker runs.
    cpSync(killed.root, again.root, { recursive: true });
    await expect(again.start({ disk: (disk) => withFaults(disk, 'open:meta-log/checkpoint:EIO') })).rejects.toThrow(
      /checkpoint/,
    );
    await again.start();
    expect(again.broker.clean).toBe(false);
    const other = await again.greeted();
    const { batches, leaderEpoch: later } = await other.fetch(topicId, 0);
    expect(joined(batches).length).toBeGreaterThan(batchOf(['a']).length);
    expect(later).toBeGreaterThan(leaderEpoch);
    await again.stop();
    await again.start();
    expect(again.broker.clean).toBe(true);
  } finally {
    await killed.remove();
    await again.remove();
  }
});
