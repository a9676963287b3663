import { describe, expect, test } from 'vitest';
import { leaderEpoch, offset, topicId } from '../../src/base/brands.ts';
import type { FetchOutcome, ProduceOutcome } from '../../src/replication/contract.ts';
import { batchOf, checked, NODE, produce, readAll, SimNode, SMALL, TOPIC } from './sim-node.ts';

async function started(options: ConstructorParameters<typeof SimNode>[1] = {}, seed = 1): Promise<SimNode> {
  const node = new SimNode(seed, options);
  await node.start();
  await node.run(() => node.createTopic());
  return node;
}

describe('PartitionReplica.produce', () => {
  test.each(['always', 'interval', 'never'] as const)(
    '%s: what is answered committed is read back in order',
    async (fsync) => {
      const node = await started({ fsync });
      const values = Array.from({ length: 60 }, (_, index) => `value ${String(index)}`);
      await node.run(async () => {
        const replica = node.replica();
        const outcomes = await Promise.all(values.map((value) => produce(replica, batchOf([value]))));
        expect(outcomes.map((outcome) => (outcome.ok ? outcome.baseOffset : outcome.code))).toEqual(
          values.map((_, index) => index),
        );
        expect((await readAll(replica)).map((record) => record.value)).toEqual(values);
        expect(replica.highWatermark).toBe(60);
      });
      await node.stop();
      expect(node.fatals).toEqual([]);
      expect(node.disk.liveSlices).toBe(0);
    },
  );

  test('always: no committed answer comes before the sync, a leader answer does', async () => {
    const node = await started();
    await node.run(async () => {
      const replica = node.replica();
      const answers: string[] = [];
      const bytes = batchOf(['a']);
      replica.produce({
        bytes,
        batches: checked(bytes),
        acks: 'committed',
        timeoutMs: 1000,
        leaderEpoch: 0,
        done: () => answers.push(`committed ${String(replica.syncedOffset)}`),
      });
      const second = batchOf(['b']);
      replica.produce({
        bytes: second,
        batches: checked(second),
        acks: 'leader',
        timeoutMs: 1000,
        leaderEpoch: 0,
        done: (outcome) => answers.push(`leader ${String(outcome.ok)}`),
      });
      expect(answers).toEqual(['leader true']);
      expect(
        replica.fetch({ offset: offset(0), maxBytes: 100, lastFetchedEpoch: -1, currentLeaderEpoch: 0 }).kind,
      ).toBe('empty');
      await produce(replica, batchOf(['c']));
      expect(answers[1]).toMatch(/^committed [12]$/);
    });
    await node.stop();
  });

  test('a timeout says COMMIT_TIMEOUT with the offsets, once, and the batch is committed later all the same', async () => {
    const node = await started();
    await node.run(async () => {
      const replica = node.replica();
      const outcomes: ProduceOutcome[] = [];
      const undo = node.disk.inject({ operation: 'sync', stallMs: 5000 });
      const bytes = batchOf(['late', 'later']);
      replica.produce({
        bytes,
        batches: checked(bytes),
        acks: 'committed',
        timeoutMs: 100,
        leaderEpoch: -1,
        done: (outcome) => outcomes.push(outcome),
      });
      expect(replica.pendingProduces).toBe(1);
      node.clock.suspend(200);
      node.now.replicas.tick();
      expect(outcomes).toEqual([
        { ok: false, code: 'COMMIT_TIMEOUT', message: undefined, baseOffset: 0, lastOffset: 1 },
      ]);
      undo();
      await produce(replica, batchOf(['next']));
      expect(outcomes).toHaveLength(1);
      expect((await readAll(replica)).map((record) => record.value)).toEqual(['late', 'later', 'next']);
    });
    await node.stop();
  });

  test('a batch sent again is answered with its first offsets, not before they are committed, also after restarts', async () => {
    const node = await started();
    const first = { producerId: 7, producerEpoch: 0, baseSequence: 0 };
    await node.run(async () => {
      const replica = node.replica();
      const original = produce(replica, batchOf(['x', 'y'], first));
      const again = produce(replica, batchOf(['x', 'y'], first)).then((outcome) => ({
        outcome,
        synced: replica.syncedOffset,
      }));
      expect(replica.pendingProduces).toBe(2);
      expect(await again).toMatchObject({
        outcome: { ok: true, duplicate: true, baseOffset: 0, lastOffset: 1 },
        synced: 2,
      });
      expect(await original).toMatchObject({ ok: true, duplicate: false, baseOffset: 0 });
    });
    for (const end of ['stop', 'kill', 'power'] as const) {
      if (end === 'stop') await node.stop();
      else if (end === 'kill') node.kill();
      else node.powerCut('lose-all');
      await node.start();
      await node.run(async () => {
        const replica = node.replica();
        expect(await produce(replica, batchOf(['x', 'y'], first))).toMatchObject({
          ok: true,
          duplicate: true,
          baseOffset: 0,
          lastOffset: 1,
        });
        expect((await readAll(replica)).map((record) => record.value)).toEqual(['x', 'y']);
      });
    }
    expect(node.telemetry.value('rivulet_duplicate_batches_total')).toBe(4);
  });

  test('sequences: gap, unknown producer on an empty partition, old epoch, too old a batch, mixed request', async () => {
    const node = await started();
    await node.run(async () => {
      const replica = node.replica();
      const at = (baseSequence: number, producerEpoch = 0): Promise<ProduceOutcome> =>
        produce(replica, batchOf(['v'], { producerId: 9, producerEpoch, baseSequence }));
      expect(await at(1)).toMatchObject({ ok: false, code: 'UNKNOWN_PRODUCER', expectedSequence: 0 });
      expect(replica.logEndOffset).toBe(0);
      for (let sequence = 0; sequence < 7; sequence += 1)
        expect(await at(sequence)).toMatchObject({ ok: true, duplicate: false, baseOffset: sequence });
      expect(await at(8)).toMatchObject({ ok: false, code: 'OUT_OF_ORDER_SEQUENCE', expectedSequence: 7 });
      expect(await at(2)).toMatchObject({ ok: true, duplicate: true, baseOffset: 2 });
      expect(await at(1)).toMatchObject({ ok: false, code: 'DUPLICATE_SEQUENCE' });
      const mixed = new Uint8Array([
        ...batchOf(['v'], { producerId: 9, producerEpoch: 0, baseSequence: 6 }),
        ...batchOf(['w'], { producerId: 9, producerEpoch: 0, baseSequence: 7 }),
      ]);
      expect(await produce(replica, mixed)).toMatchObject({ ok: false, code: 'INVALID_BATCH' });
      const pair = new Uint8Array([
        ...batchOf(['v'], { producerId: 9, producerEpoch: 0, baseSequence: 7 }),
        ...batchOf(['w'], { producerId: 9, producerEpoch: 0, baseSequence: 8 }),
      ]);
      expect(await produce(replica, pair)).toMatchObject({ ok: true, duplicate: false, baseOffset: 7, lastOffset: 8 });
      expect(await produce(replica, pair)).toMatchObject({ ok: true, duplicate: true, baseOffset: 7, lastOffset: 8 });
      expect(await at(3, 1)).toMatchObject({ ok: false, code: 'OUT_OF_ORDER_SEQUENCE', expectedSequence: 0 });
      expect(await at(0, 1)).toMatchObject({ ok: true, duplicate: false });
      expect(await at(9, 0)).toMatchObject({ ok: false, code: 'PRODUCER_FENCED', producerEpoch: 1 });
      expect(replica.logEndOffset).toBe(10);
    });
    await node.stop();
  });

  test('refusals: epochs, control batches, sizes, shutdown; nothing is appended', async () => {
    const node = await started();
    await node.run(async () => {
      await node.now.metadata.propose({
        kind: 'AlterTopic',
        topicId: TOPIC,
        config: [{ key: 'max.batch.bytes', value: '1024' }],
        expectedPartitions: 1,
        added: [],
      });
      const replica = node.replica();
      const codes: string[] = [];
      const ask = (bytes: Uint8Array, epoch: number): void => {
        replica.produce({
          bytes,
          batches: checked(bytes),
          acks: 'committed',
          timeoutMs: 10,
          leaderEpoch: epoch,
          done: (outcome) => codes.push(outcome.ok ? 'ok' : outcome.code),
        });
      };
      ask(batchOf(['a']), 1);
      ask(batchOf(['x'.repeat(2000)]), 0);
      node.replica().produce({
        bytes: new Uint8Array(0),
        batches: [],
        acks: 'leader',
        timeoutMs: 1,
        leaderEpoch: -1,
        done: (outcome) => codes.push(outcome.ok ? 'ok' : outcome.code),
      });
      expect(codes).toEqual(['UNKNOWN_LEADER_EPOCH', 'BATCH_TOO_LARGE', 'INVALID_BATCH']);
      expect(replica.logEndOffset).toBe(0);
      await node.now.replicas.close();
      ask(batchOf(['a']), 0);
      expect(codes.at(-1)).toBe('SHUTTING_DOWN');
    });
  });
});

describe('PartitionReplica after an unclean restart', () => {
  test('the epoch is new, begins with a control batch, and a reader whose records were lost is told LOG_TRUNCATED', async () => {
    const node = await started({ fsync: 'never' });
    await node.run(async () => {
      for (let index = 0; index < 4; index += 1) await produce(node.replica(), batchOf([`kept ${String(index)}`]));
    });
    await node.stop();
    await node.start();
    expect(node.replica().leaderEpoch).toBe(0);
    await node.run(async () => {
      for (let index = 0; index < 6; index += 1) await produce(node.replica(), batchOf([`lost ${String(index)}`]));
      expect(node.replica().highWatermark).toBe(10);
    });
    node.powerCut(() => 'lost');
    await node.start();
    await node.run(async () => {
      const replica = node.replica();
      expect(replica.leaderEpoch).toBe(1);
      expect(replica.highWatermark).toBe(5);
      const read = (from: number, lastFetchedEpoch: number): FetchOutcome =>
        replica.fetch({ offset: offset(from), maxBytes: 100, lastFetchedEpoch, currentLeaderEpoch: 1 });
      expect(read(10, 0)).toEqual({
        kind: 'failed',
        code: 'LOG_TRUNCATED',
        resumeOffset: 4,
        resumeEpoch: leaderEpoch(0),
      });
      for (let index = 0; index < 8; index += 1) await produce(replica, batchOf([`new ${String(index)}`]));
      expect(read(10, 0)).toMatchObject({ kind: 'failed', code: 'LOG_TRUNCATED', resumeOffset: 4 });
      expect(read(4, 0).kind).not.toBe('failed');
      expect(read(14, -1)).toMatchObject({ kind: 'failed', code: 'OFFSET_BEYOND_END' });
      expect(
        replica.fetch({ offset: offset(4), maxBytes: 100, lastFetchedEpoch: 0, currentLeaderEpoch: 0 }),
      ).toMatchObject({ code: 'FENCED_LEADER_EPOCH' });
      const records = await readAll(replica);
      expect(
        records.map((record) => `${String(record.offset)} ${String(record.epoch)} ${record.value}`).slice(3, 6),
      ).toEqual(['3 0 kept 3', '5 1 new 0', '6 1 new 1']);
    });
  });

  test('a log that has lost everything tells a reader so too', async () => {
    const node = await started({ fsync: 'never' });
    await node.run(async () => {
      for (let index = 0; index < 5; index += 1) await produce(node.replica(), batchOf([`lost ${String(index)}`]));
    });
    node.powerCut(() => 'lost');
    await node.start();
    await node.run(async () => {
      const replica = node.replica();
      expect(replica.logEndOffset).toBe(0);
      for (let index = 0; index < 9; index += 1) await produce(replica, batchOf([`new ${String(index)}`]));
      expect(replica.fetch({ offset: offset(5), maxBytes: 100, lastFetchedEpoch: 0, currentLeaderEpoch: -1 })).toEqual({
        kind: 'failed',
        code: 'LOG_TRUNCATED',
        resumeOffset: 0,
        resumeEpoch: -1,
      });
    });
  });
});

describe('ReplicaManager', () => {
  test('deletes the files of a deleted topic, also when the removal was cut off; a topic of the same name starts anew', async () => {
    const node = await started();
    await node.run(async () => {
      await produce(node.replica(), batchOf(['old']));
      const replica = node.replica();
      let woken = 0;
      replica.onAdvance(() => {
        woken += 1;
      });
      await node.now.metadata.propose({ kind: 'DeleteTopic', topicId: TOPIC });
      expect(woken).toBe(1);
      expect(
        replica.fetch({ offset: offset(0), maxBytes: 1, lastFetchedEpoch: -1, currentLeaderEpoch: -1 }),
      ).toMatchObject({ code: 'UNKNOWN_TOPIC' });
    });
    node.kill();
    await node.start();
    await node.run(async () => {
      await node.now.replicas.whenReady(TOPIC);
      expect(node.now.replicas.find(TOPIC, 0)).toEqual({ ok: false, code: 'UNKNOWN_TOPIC' });
      expect(await node.disk.readDirectory('topics')).toEqual([]);
      expect(await node.disk.exists('quarantine')).toBe(false);
      const id = topicId('f'.repeat(32));
      await node.createTopic(id, 'orders');
      expect(await readAll(node.replica(id))).toEqual([]);
    });
    await node.stop();
  });

  test('a directory that metadata does not know is set aside with its bytes, and said', async () => {
    const node = await started();
    const stray = 'e'.repeat(32);
    await node.run(async () => {
      const log = await node.now.store.openPartition(stray, 3, 'ghost', SMALL);
      const bytes = batchOf(['precious']);
      log.append(bytes, checked(bytes), leaderEpoch(0));
      await log.sync();
    });
    await node.stop();
    await node.start();
    expect(node.telemetry.events('replica.stray').map((line) => line.fields['path'])).toEqual([`topics/${stray}/3`]);
    const kept = [...node.disk.dump()].filter(([path]) => path.startsWith('quarantine/'));
    expect(kept.some(([, bytes]) => new TextDecoder().decode(bytes).includes('precious'))).toBe(true);
  });

  test('partitions that are added are opened; settings reach the log; unknown ones are refused by name', async () => {
    const node = await started();
    await node.run(async () => {
      const { metadata, replicas } = node.now;
      await metadata.propose({
        kind: 'AlterTopic',
        topicId: TOPIC,
        config: [{ key: 'max.batch.bytes', value: '2048' }],
        expectedPartitions: 1,
        added: [[NODE], [NODE]],
      });
      await replicas.whenReady(TOPIC);
      expect([...replicas.all()].map((replica) => [replica.partition, replica.maxBatchBytes])).toEqual([
        [0, 2048],
        [1, 2048],
        [2, 2048],
      ]);
      expect(await produce(node.replica(TOPIC, 2), batchOf(['x']))).toMatchObject({ ok: true, baseOffset: 0 });
      expect(replicas.find(TOPIC, 3)).toEqual({ ok: false, code: 'UNKNOWN_PARTITION' });
    });
    await node.stop();
    await node.start();
    expect([...node.now.replicas.all()]).toHaveLength(3);
  });

  test('retention by size at a tick; then the expired range is said and producers are still known', async () => {
    const node = await started();
    await node.run(async () => {
      await node.now.metadata.propose({
        kind: 'AlterTopic',
        topicId: TOPIC,
        config: [{ key: 'retention.bytes', value: '5000' }],
        expectedPartitions: 1,
        added: [],
      });
      const replica = node.replica();
      await produce(replica, batchOf(['once'], { producerId: 3, producerEpoch: 0, baseSequence: 0 }));
      for (let index = 0; index < 100; index += 1) await produce(replica, batchOf(['x'.repeat(200)]));
      node.clock.suspend(60_000);
      node.now.replicas.tick();
    });
    await node.scheduler.runUntil(() => node.replica().logStartOffset > 0, 10_000);
    await node.run(async () => {
      const replica = node.replica();
      expect(replica.logStartOffset).toBeGreaterThan(50);
      expect(
        replica.fetch({ offset: offset(3), maxBytes: 1, lastFetchedEpoch: 0, currentLeaderEpoch: -1 }),
      ).toMatchObject({ code: 'OFFSET_EXPIRED' });
      expect(await replica.listOffset('earliest', -1)).toMatchObject({ ok: true, offset: replica.logStartOffset });
      expect(await replica.listOffset('latest', -1)).toMatchObject({ ok: true, offset: 101 });
    });
    node.kill();
    await node.start();
    await node.run(async () => {
      expect(
        await produce(node.replica(), batchOf(['once'], { producerId: 3, producerEpoch: 0, baseSequence: 0 })),
      ).toMatchObject({ ok: true, duplicate: true, baseOffset: 0 });
    });
  });
});
