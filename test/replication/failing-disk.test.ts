import { describe, expect, test } from 'vitest';
import type { ProduceOutcome } from '../../src/replication/contract.ts';
import { batchOf, checked, produce, readAll, SimNode, TOPIC } from './sim-node.ts';

describe('a failing disk', () => {
  test('a failed sync of a partition: nobody is answered any more, one fatal reason', async () => {
    const node = new SimNode();
    await node.start();
    await node.run(() => node.createTopic());
    const replica = node.replica();
    await node.run(() => produce(replica, batchOf(['kept'])));
    node.disk.inject({ operation: 'sync', path: /^topics\/.*\.log$/, kind: 'io' });
    const outcomes: ProduceOutcome[] = [];
    const ask = (acks: 'leader' | 'committed'): void => {
      const bytes = batchOf(['x']);
      replica.produce({
        bytes,
        batches: checked(bytes),
        acks,
        timeoutMs: 100,
        leaderEpoch: -1,
        done: (outcome) => outcomes.push(outcome),
      });
    };
    ask('committed');
    await node.scheduler.runUntil(() => node.fatals.length > 0, 10_000);
    ask('committed');
    ask('leader');
    await node.scheduler.run(node.scheduler.nowMs + 1000);
    expect(outcomes).toEqual([]);
    expect(node.fatals).toHaveLength(1);
    expect(node.fatals[0]).toMatch(/^STORAGE_FAILED/);
    expect(replica.highWatermark).toBe(1);
  });

  test('a failed sync of the metadata log: the proposal stays open, the image is as before', async () => {
    const node = new SimNode();
    await node.start();
    node.disk.inject({ operation: 'sync', path: /^meta-log\/.*\.log$/, kind: 'io' });
    const answers: unknown[] = [];
    const { metadata } = node.now;
    for (let rest = 2; rest > 0; rest -= 1) {
      metadata.propose({ kind: 'InitProducer', name: 'p' }).then(
        (outcome) => answers.push(outcome),
        (error: unknown) => answers.push(error),
      );
    }
    await node.scheduler.run(node.scheduler.nowMs + 1000);
    expect(answers).toEqual([]);
    expect(node.fatals).toHaveLength(1);
    expect(metadata.image().producers.size).toBe(0);
  });

  test('a full disk: STORAGE_FULL, reads go on, and all goes on when there is room', async () => {
    const node = new SimNode();
    await node.start();
    await node.run(() => node.createTopic());
    await node.run(async () => {
      const replica = node.replica();
      const values: string[] = [];
      node.disk.setCapacity(40_000);
      let refused = 0;
      for (let index = 0; index < 400 && refused < 3; index += 1) {
        const value = `${String(index)} ${'y'.repeat(200)}`;
        const bytes = batchOf([value]);
        const outcome = await new Promise<ProduceOutcome | undefined>((done) => {
          replica.produce({ bytes, batches: checked(bytes), acks: 'committed', timeoutMs: 500, leaderEpoch: -1, done });
          node.clock.setTimer(1000, () => {
            node.now.replicas.tick();
            done(undefined);
          });
        });
        if (outcome?.ok === true) values.push(value);
        else {
          refused += 1;
          expect(['STORAGE_FULL', 'COMMIT_TIMEOUT']).toContain(outcome?.code);
        }
      }
      expect(refused).toBe(3);
      const read = (await readAll(replica)).map((record) => record.value);
      expect(values.every((value) => read.includes(value))).toBe(true);
      node.disk.setCapacity(10_000_000);
      await node.scheduler.delay(500, 'node', 'space returns');
      let outcome = await produce(replica, batchOf(['after']));
      for (let tries = 0; tries < 5 && !outcome.ok; tries += 1) {
        await node.scheduler.delay(200, 'node', 'again');
        outcome = await produce(replica, batchOf(['after']));
      }
      expect(outcome).toMatchObject({ ok: true });
      expect((await readAll(node.replica(TOPIC))).at(-1)?.value).toBe('after');
    });
    expect(node.fatals).toEqual([]);
  });

  test('a full disk when the epoch is to begin in a new segment: the node starts, reads, stops, and writes when there is room', async () => {
    const size = batchOf(['z'.repeat(200)]).length;
    // Five batches leave no room in their segment for the first one of an epoch.
    const node = new SimNode(1, { segmentBytes: 5 * size + 10 });
    await node.start();
    await node.run(async () => {
      await node.createTopic();
      for (let index = 0; index < 5; index += 1) await produce(node.replica(), batchOf(['z'.repeat(200)]));
    });
    const full = { operation: 'write', path: /^topics\/.*\.log$/, kind: 'no-space', times: 1_000_000 } as const;
    node.kill();
    node.disk.inject(full);
    await node.start();
    await node.scheduler.run(node.scheduler.nowMs + 1000);
    node.now.replicas.tick();
    await node.run(async () => {
      expect(await readAll(node.replica())).toHaveLength(5);
      expect((await produce(node.replica(), batchOf(['refused']))).ok).toBe(false);
    });
    await node.stop();
    node.disk.inject(full);
    await node.start();
    await node.stop();
    await node.start();
    const undo = node.disk.inject(full);
    node.kill();
    undo();
    await node.start();
    await node.run(async () => {
      expect(await produce(node.replica(), batchOf(['after']))).toMatchObject({ ok: true });
    });
    await node.stop();
    expect(node.fatals).toEqual([]);
  });

  test('no descriptors while a topic is opened or deleted: it is tried again, and nothing is left behind', async () => {
    for (const operation of ['open', 'rename', 'unlink', 'readdir'] as const) {
      const node = new SimNode();
      await node.start();
      await node.run(() => node.createTopic());
      await node.run(() => produce(node.replica(), batchOf(['x'])));
      await node.stop();
      // A start that cannot even list its topics says so and ends.
      if (operation === 'readdir') await node.start();
      const undo = node.disk.inject({ operation, path: /^topics\//, kind: 'too-many-files', times: 1_000_000 });
      if (operation !== 'readdir') await node.start();
      await node.run(() => node.now.metadata.propose({ kind: 'DeleteTopic', topicId: TOPIC }));
      await node.scheduler.run(node.scheduler.nowMs + 1000);
      undo();
      for (let round = 0; round < 100; round += 1) {
        node.now.replicas.tick();
        await node.scheduler.run(node.scheduler.nowMs + 1000);
      }
      expect(await node.run(() => node.disk.readDirectory('topics'))).toEqual([]);
      await node.stop();
      expect(node.fatals).toEqual([]);
    }
  });

  test('a full disk when a stray directory is to be set aside: the node starts, and sets it aside the next time', async () => {
    const node = new SimNode();
    await node.start();
    await node.stop();
    const stray = `topics/${'a'.repeat(32)}/0`;
    await node.run(async () => {
      await node.disk.makeDirectory(`topics/${'a'.repeat(32)}`);
      await node.disk.makeDirectory(stray);
    });
    const undo = node.disk.inject({ operation: 'rename', path: /^topics\//, kind: 'no-space', times: 1_000_000 });
    await node.start();
    expect(await node.run(() => node.disk.exists(stray))).toBe(true);
    await node.stop();
    undo();
    await node.start();
    expect(await node.run(() => node.disk.exists(stray))).toBe(false);
    await node.stop();
    expect(node.fatals).toEqual([]);
  });
});
