import { describe, expect, test } from 'vitest';
import { topicId } from '../../src/base/brands.ts';
import { imageRows } from '../../src/core/metadata/rows.ts';
import type { EntryOutcome } from '../../src/replication/contract.ts';
import { snapshotName } from '../../src/replication/metadata-snapshot.ts';
import { SimDisk } from '../../src/sim/disk.ts';
import { NODE, SimNode } from './sim-node.ts';

function id(number: number): ReturnType<typeof topicId> {
  return topicId(number.toString(16).padStart(32, '0'));
}

function rowsOf(node: SimNode): Record<string, string> {
  return Object.fromEntries(
    [...imageRows(node.now.metadata.image())]
      .toSorted(([left], [right]) => (left < right ? -1 : 1))
      .map(([key, value]) => [key, [...value].join(' ')]),
  );
}

/** Topics made, altered and deleted, and producers: some 40 entries. */
async function fill(node: SimNode): Promise<void> {
  const { metadata } = node.now;
  for (let number = 1; number <= 8; number += 1) {
    await metadata.propose({
      kind: 'CreateTopic',
      topicId: id(number),
      name: `topic-${String(number)}`,
      assignment: [[NODE]],
      config: [{ key: 'retention.ms', value: '1000' }],
    });
    await metadata.propose({ kind: 'InitProducer', name: number % 2 === 0 ? 'named' : undefined });
    if (number % 3 === 0) await metadata.propose({ kind: 'DeleteTopic', topicId: id(number - 1) });
    await metadata.propose({
      kind: 'AlterTopic',
      topicId: id(number),
      config: [{ key: 'retention.ms', value: undefined }],
      expectedPartitions: 1,
      added: [],
    });
  }
}

/** Registering at a start changes the node's row, and epochs after an unclean one: left out of the comparison. */
function comparable(rows: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(rows).filter(([key]) => !key.startsWith('node/') && !key.startsWith('partition/')),
  );
}

describe('LocalMetadataLog.propose', () => {
  test('outcomes come in order, each once it is durable and applied; refused entries change nothing', async () => {
    const node = new SimNode();
    await node.start();
    await node.run(async () => {
      const { metadata } = node.now;
      const seen: number[] = [];
      metadata.onApplied(({ index }) => seen.push(index));
      const before = metadata.appliedIndex;
      const create = { kind: 'CreateTopic', topicId: id(1), name: 'a', assignment: [[NODE]], config: [] } as const;
      const outcomes: EntryOutcome[] = await Promise.all([
        metadata.propose(create),
        metadata.propose({ ...create, topicId: id(2) }),
        metadata.propose({ kind: 'DeleteTopic', topicId: id(9) }),
      ]);
      expect(outcomes.map((outcome) => (outcome.ok ? outcome.value.kind : outcome.code))).toEqual([
        'CreateTopic',
        'TOPIC_EXISTS',
        'UNKNOWN_TOPIC',
      ]);
      expect(seen).toEqual([before + 1, before + 2, before + 3]);
      expect([...metadata.image().topics.keys()]).toEqual([id(1)]);
    });
    await node.stop();
  });

  test('what was answered survives a power cut at any moment after it', async () => {
    const node = new SimNode(7, { snapshotEvery: 5 });
    await node.start();
    let answered = 0;
    for (let round = 0; round < 12; round += 1) {
      await node.run(async () => {
        const outcome = await node.now.metadata.propose({ kind: 'InitProducer', name: undefined });
        if (outcome.ok && outcome.value.kind === 'InitProducer') {
          expect(outcome.value.producerId).toBeGreaterThanOrEqual(answered);
          answered = outcome.value.producerId + 1;
        }
      });
      const unanswered = Array.from({ length: 6 }, () =>
        node.now.metadata.propose({ kind: 'InitProducer', name: 'many' }),
      );
      expect(unanswered).toHaveLength(6);
      await node.scheduler.run(node.scheduler.nowMs + node.random.below(8));
      node.powerCut();
      await node.start();
      expect(node.now.metadata.image().nextProducerId).toBeGreaterThanOrEqual(answered);
    }
    expect(node.fatals).toEqual([]);
  });

  test('a store that fails is out of use and said; answers go on, and the next start makes it anew', async () => {
    const node = new SimNode();
    await node.start();
    await node.run(async () => {
      node.image.failNext(new Error('no pages'));
      await fill(node);
      expect(node.now.metadata.storeDisabled).toBe(true);
    });
    const rows = rowsOf(node);
    node.kill();
    expect(node.telemetry.events('metadata.store-disabled')).toHaveLength(1);
    await node.start();
    expect(node.now.metadata.storeDisabled).toBe(false);
    expect(comparable(rowsOf(node))).toEqual(comparable(rows));
  });
});

describe('LocalMetadataLog.open', () => {
  const states: Record<string, (node: SimNode) => Promise<void>> = {
    kept: () => Promise.resolve(),
    deleted: (node) => Promise.resolve(node.image.delete()),
    damaged: (node) => Promise.resolve(node.image.damage('bits')),
    behind: (node) => replaceImage(node, 3, false),
    'ahead of the log': (node) => replaceImage(node, 100_000, true),
    undecodable: (node) => replaceImage(node, 20, true),
  };
  async function replaceImage(node: SimNode, index: number, wrong: boolean): Promise<void> {
    const entries = new Map<string, Uint8Array>(wrong ? [['topic/zz', new Uint8Array([9, 9])]] : []);
    await node.run(async () => {
      await node.image.load();
      await node.image.replace(index, entries);
      await node.image.close();
    });
    node.image = node.image.kill();
  }

  test.each(Object.keys(states))('store %s: the same image, with and without snapshots', async (name) => {
    for (const snapshotEvery of [4096, 7]) {
      const node = new SimNode(3, { snapshotEvery });
      await node.start();
      await node.run(() => fill(node));
      const rows = rowsOf(node);
      await node.stop();
      await states[name]?.(node);
      await node.start();
      expect(comparable(rowsOf(node))).toEqual(comparable(rows));
      await node.stop();
      // The store has been brought up: a start from it alone gives the same.
      await node.start();
      expect(comparable(rowsOf(node))).toEqual(comparable(rows));
    }
  });

  test.each(Object.keys(states))(
    'store %s, opened behind the start: the same image, and the store is brought up',
    async (name) => {
      const node = new SimNode(3, { replayDirectlyMax: 1_000_000 });
      await node.start();
      await node.run(() => fill(node));
      const rows = rowsOf(node);
      await node.run(() => node.scheduler.delay(1000, 'test', 'wait'));
      await node.stop();
      await states[name]?.(node);
      await node.start();
      expect(comparable(rowsOf(node))).toEqual(comparable(rows));
      await node.run(() => node.scheduler.delay(1000, 'test', 'wait'));
      expect(node.now.metadata.storeDisabled).toBe(false);
      const { appliedIndex } = node.now.metadata;
      const expected = rowsOf(node);
      await node.stop();
      const loaded = await node.run(() => node.image.kill().load());
      expect(loaded).toMatchObject({ kind: 'ok', appliedIndex });
      expect(loaded.kind === 'ok' && loaded.entries.size).toBe(Object.keys(expected).length);
    },
  );

  test('snapshots: the log is cut behind the older of two; a damaged newest falls back to it', async () => {
    const node = new SimNode(3, { snapshotEvery: 7 });
    await node.start();
    await node.run(() => fill(node));
    const rows = rowsOf(node);
    await node.stop();
    const names = [...node.disk.dump().keys()].filter((path) => path.startsWith('meta-log/snapshot-')).toSorted();
    expect(names).toHaveLength(2);
    node.disk.flipBit(names[1] ?? '', 300);
    node.image.delete();
    await node.start();
    expect(node.telemetry.events('metadata.snapshot-damaged')).toHaveLength(1);
    expect(comparable(rowsOf(node))).toEqual(comparable(rows));
  });

  test('STORE_DAMAGED when the log begins behind every intact snapshot, or ends below one', async () => {
    const node = new SimNode(3, { snapshotEvery: 7 });
    await node.start();
    await node.run(() => fill(node));
    await node.stop();
    const files = node.disk.dump();
    const without = nodeWith(files, (path) => !path.startsWith('meta-log/snapshot-'));
    await expect(without.start()).rejects.toThrow(/begins at index \d+, and no intact snapshot/);
    const ahead = nodeWith(files, (path) => !path.startsWith('meta-log/') || path.includes('snapshot-'));
    await expect(ahead.start()).rejects.toThrow(/ends at index 0, below the snapshot|begins at index/);
    expect(snapshotName(12)).toBe('snapshot-00000000000000000012');
  });

  function nodeWith(files: ReadonlyMap<string, Uint8Array>, keep: (path: string) => boolean): SimNode {
    const other = new SimNode(5);
    other.disk = SimDisk.load(other.scheduler, new Map([...files].filter(([path]) => keep(path))), { owner: 'node' });
    return other;
  }
});
