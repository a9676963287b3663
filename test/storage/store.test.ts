import { describe, expect, test } from 'vitest';
import { position } from '../../src/base/brands.ts';
import { FatalError } from '../../src/base/fatal.ts';
import { Store } from '../../src/storage/store.ts';
import { appendWritten, batch, Machine, readAll, SMALL } from './log-bench.ts';

const TOPIC = '0123456789abcdef0123456789abcdef';
const OPTIONS = { nodeId: 1, bootId: 'boot-1' };

function open(machine: Machine, options = OPTIONS): Promise<Store> {
  return machine.run(() => Store.open(machine.deps, options));
}
async function reasonOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return 'none';
  } catch (error) {
    return error instanceof FatalError ? error.reason : String(error);
  }
}
async function overwrite(machine: Machine, path: string, bytes: Uint8Array): Promise<void> {
  await machine.run(async () => {
    const file = await machine.disk.open(path, 'write');
    await file.truncate(0);
    await file.writeSlow(bytes, position(0));
    await file.sync();
    await file.close();
  });
}

describe('Store', () => {
  test('a clean stop is known, a kill and a power cut are too; identity and votes stay', async () => {
    const machine = new Machine();
    let store = await open(machine);
    expect(store).toMatchObject({ created: true, clean: true, incarnation: 1, nodeId: 1, vote: { term: 0, vote: -1 } });
    const { diskId } = store;
    await machine.run(async () => {
      await store.writeVote({ term: 5, vote: 2 });
      const log = await store.openPartition(TOPIC, 0, 'orders', SMALL);
      await appendWritten(log, batch());
      await store.close({ clean: true });
    });
    store = await open(machine, { nodeId: 1, bootId: 'boot-2' });
    expect(store).toMatchObject({
      created: false,
      clean: true,
      incarnation: 2,
      diskId,
      previousBootId: 'boot-1',
      vote: { term: 5, vote: 2 },
    });
    machine.kill();
    store = await open(machine);
    expect(store).toMatchObject({ clean: false, incarnation: 3, diskId });
    machine.powerCut();
    store = await open(machine);
    expect(store).toMatchObject({ clean: false, incarnation: 4, diskId, vote: { term: 5, vote: 2 } });
    const log = await machine.run(() => store.openPartition(TOPIC, 0, 'orders', SMALL));
    expect((await machine.run(() => readAll(log))).batches).toHaveLength(1);
    expect(await machine.run(() => store.listPartitions())).toEqual([
      { topicId: TOPIC, partition: 0, path: `topics/${TOPIC}/0` },
    ]);
    expect(machine.fatals).toEqual([]);
  });

  test('a vote is never forgotten, wherever the power goes', async () => {
    for (let seed = 1; seed <= 60; seed += 1) {
      const machine = new Machine(seed);
      let store = await open(machine);
      await machine.run(() => store.writeVote({ term: 1, vote: 1 }));
      const second = store.writeVote({ term: 2, vote: 3 });
      second.catch(() => undefined);
      await machine.scheduler.run(machine.scheduler.nowMs + (seed % 12) * 0.3);
      const resolved = store.vote.term;
      machine.powerCut();
      store = await open(machine);
      expect(store.vote.term).toBeGreaterThanOrEqual(resolved);
      expect(store.vote).toEqual(store.vote.term === 2 ? { term: 2, vote: 3 } : { term: 1, vote: 1 });
    }
  });

  test('each reason why a directory cannot be used has its own exit', async () => {
    const machine = new Machine();
    const store = await open(machine);
    expect(await reasonOf(open(machine))).toBe('DATA_DIR_LOCKED');
    await machine.run(async () => {
      await store.openPartition(TOPIC, 0, 'orders', SMALL);
      await store.close({ clean: true });
    });
    expect(await reasonOf(open(machine, { nodeId: 2, bootId: 'b' }))).toBe('DATA_DIR_UNUSABLE');
    const encoder = new TextEncoder();
    await overwrite(machine, 'store.json', encoder.encode('{"formatVersion":99,"more":true}'));
    expect(await reasonOf(open(machine))).toBe('FORMAT_TOO_NEW');
    await overwrite(machine, 'store.json', encoder.encode('{"formatVersion":1,'));
    expect(await reasonOf(open(machine))).toBe('STORE_DAMAGED');
    await overwrite(machine, 'store.json', encoder.encode(`{"formatVersion":1,"nodeId":1,"diskId":"${TOPIC}"}`));
    await overwrite(machine, 'superblock', new Uint8Array(8192).fill(7));
    expect(await reasonOf(open(machine))).toBe('STORE_DAMAGED');
    await machine.run(() => machine.disk.unlink('superblock'));
    expect(await reasonOf(open(machine))).toBe('STORE_DAMAGED');
  });

  test('a stray directory is set aside with its bytes, a deleted partition is removed, twice is harmless', async () => {
    const machine = new Machine();
    const store = await open(machine);
    await machine.run(async () => {
      for (const partition of [0, 1]) {
        const log = await store.openPartition(TOPIC, partition, 'orders', SMALL);
        await appendWritten(log, batch());
        await log.close({ clean: true });
      }
      await store.setAside(`topics/${TOPIC}/1`, 'unknown to metadata');
      await store.removePartition(TOPIC, 0);
      await store.removePartition(TOPIC, 0);
    });
    expect(await machine.run(() => store.listPartitions())).toEqual([]);
    const names = (await machine.run(() => machine.disk.readDirectory('quarantine'))).map((entry) => entry.name);
    expect(names.filter((name) => name.endsWith('.bin'))).toHaveLength(1);
    expect(names.filter((name) => name.endsWith('.json'))).toHaveLength(1);
    const kept = await machine.run(() =>
      machine.disk.readDirectory(`quarantine/${names.find((name) => name.endsWith('.bin')) ?? ''}`),
    );
    expect(kept.map((entry) => entry.name)).toContain('00000000000000000000.log');
  });
});
