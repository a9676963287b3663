import { describe, expect, test } from 'vitest';
import { leaderEpoch, offset } from '../../src/base/brands.ts';
import { append, appendWritten, batch, concat, Machine, readAll, SMALL } from './log-bench.ts';

describe('PartitionLog.append and read', () => {
  test('what is appended is read back with offsets and epoch stamped, over several segments', async () => {
    const machine = new Machine();
    const log = await machine.open();
    await machine.run(async () => {
      for (let index = 0; index < 60; index += 1) {
        const at = await appendWritten(
          log,
          concat([batch({ fill: index, records: 2 }), batch({ fill: index + 100 })]),
          leaderEpoch(index < 30 ? 1 : 3),
        );
        expect(at).toBe(index * 3);
      }
      await log.sync();
      expect(log.syncedOffset).toBe(180);
      expect(log.segmentCount).toBeGreaterThan(4);
      const all = await readAll(log);
      expect(all.batches.map((each) => [each.baseOffset, each.lastOffset, each.epoch, each.bytes[61]])).toEqual(
        Array.from({ length: 120 }, (_, index) => {
          const step = index >> 1;
          const base = step * 3 + (index % 2) * 2;
          return [base, base + (index % 2 === 0 ? 1 : 0), step < 30 ? 1 : 3, (step + (index % 2) * 100) & 0xff];
        }),
      );
      expect(log.epochs).toEqual([
        { epoch: 1, startOffset: 0 },
        { epoch: 3, startOffset: 90 },
      ]);
      expect(log.epochEndOffset(leaderEpoch(2))).toEqual({ epoch: 1, endOffset: 90 });
      expect(log.epochEndOffset(leaderEpoch(3))).toEqual({ epoch: 3, endOffset: 180 });
      expect(log.epochEndOffset(leaderEpoch(0))).toBeUndefined();
      await log.close({ clean: true });
    });
    expect(machine.fatals).toEqual([]);
    expect(machine.disk.liveSlices).toBe(0);
    expect(machine.disk.liveMappings).toBe(0);
  });

  test('a read stops at the bound, at maxBytes, and gives the first batch whole', async () => {
    const machine = new Machine();
    const log = await machine.open({ ...SMALL, segmentBytes: 1 << 20 });
    await machine.run(async () => {
      for (let index = 0; index < 20; index += 1) await appendWritten(log, batch({ records: 5, bytes: 139 }));
      const take = (from: number, maxBytes: number, upTo: number): unknown => {
        const result = log.read(offset(from), maxBytes, offset(upTo));
        if (result.kind !== 'slices') return result.kind;
        for (const slice of result.slices) slice.release();
        return [result.nextOffset, result.bytes];
      };
      expect(take(0, 1, 100)).toEqual([5, 200]);
      expect(take(7, 1, 100)).toEqual([10, 200]);
      expect(take(7, 500, 100)).toEqual([15, 400]);
      expect(take(0, 1 << 20, 12)).toEqual([10, 2000 / 5]);
      expect(take(0, 1 << 20, 100)).toEqual([100, 4000]);
      expect(take(100, 100, 100)).toBe('empty');
      expect(take(101, 100, 200)).toBe('beyond');
      expect(take(11, 100, 12)).toBe('empty');
      await log.close({ clean: true });
    });
  });

  test('a batch larger than a segment gets one of its own', async () => {
    const machine = new Machine();
    const log = await machine.open();
    await machine.run(async () => {
      await appendWritten(log, batch());
      await appendWritten(log, batch({ bytes: 9000, fill: 7 }));
      await appendWritten(log, batch());
      const all = await readAll(log);
      expect(all.batches.map((each) => each.bytes.length)).toEqual([101, 9061, 101]);
      expect(log.segmentCount).toBe(3);
      await log.close({ clean: true });
    });
  });

  test('one append that does not fit in one segment is split at batches', async () => {
    const machine = new Machine();
    const log = await machine.open();
    await machine.run(async () => {
      await appendWritten(log, concat(Array.from({ length: 100 }, (_, index) => batch({ fill: index }))));
      const all = await readAll(log);
      expect(all.batches.map((each) => [each.baseOffset, each.bytes[61]])).toEqual(
        Array.from({ length: 100 }, (_, index) => [index, index]),
      );
      await log.close({ clean: true });
    });
  });
});

describe('PartitionLog.open', () => {
  test('after a clean stop nothing is scanned and everything is there', async () => {
    const machine = new Machine();
    let log = await machine.open();
    await machine.run(async () => {
      for (let index = 0; index < 50; index += 1) await appendWritten(log, batch({ fill: index }), leaderEpoch(2));
      await log.close({ clean: true });
    });
    log = await machine.open(SMALL, true);
    expect(log.recovery).toMatchObject({ kind: 'clean', bytesScanned: 0 });
    await machine.run(async () => {
      expect((await readAll(log)).batches.map((each) => each.bytes[61])).toEqual(
        Array.from({ length: 50 }, (_, index) => index),
      );
      expect(await appendWritten(log, batch(), leaderEpoch(2))).toBe(50);
      await log.sync();
      await log.close({ clean: true });
    });
    expect(machine.fatals).toEqual([]);
  });

  test.each(['always', 'interval', 'never'] as const)(
    'after a kill everything written is there (%s)',
    async (fsync) => {
      const machine = new Machine();
      const config = { ...SMALL, fsync };
      let log = await machine.open(config);
      await machine.run(async () => {
        for (let index = 0; index < 50; index += 1) await appendWritten(log, batch({ fill: index }));
      });
      machine.kill();
      log = await machine.open(config);
      await machine.run(async () => {
        expect((await readAll(log)).batches.map((each) => each.bytes[61])).toEqual(
          Array.from({ length: 50 }, (_, index) => index),
        );
        expect(log.syncedOffset).toBe(50);
        expect(await appendWritten(log, batch())).toBe(50);
        await log.close({ clean: true });
      });
      expect(log.recovery.damaged).toEqual([]);
      expect(machine.fatals).toEqual([]);
    },
  );

  test('after a power cut everything synced is there', async () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const machine = new Machine(seed);
      let log = await machine.open();
      await machine.run(async () => {
        for (let index = 0; index < 40; index += 1) {
          await appendWritten(log, batch({ fill: index }));
          if (index % 7 === 3) await log.sync();
        }
      });
      const synced = log.syncedOffset;
      expect(synced).toBeGreaterThan(30);
      machine.powerCut();
      log = await machine.open();
      await machine.run(async () => {
        const all = await readAll(log);
        expect(all.batches.length).toBeGreaterThanOrEqual(synced);
        expect(all.batches.map((each) => each.bytes[61])).toEqual(
          Array.from({ length: all.batches.length }, (_, index) => index),
        );
        expect(append(log, batch())).toMatchObject({ ok: true, baseOffset: all.batches.length });
        await log.close({ clean: true });
      });
      expect(machine.fatals).toEqual([]);
    }
  });
});
