// A log that is left behind and goes on further up: whole, or not yet, whenever the power goes.
import { describe, expect, test } from 'vitest';
import { offset } from '../../src/base/brands.ts';
import { PartitionLog } from '../../src/storage/log.ts';
import type { SimDisk } from '../../src/sim/disk.ts';
import { append, batch, DIRECTORY, Machine, readAll, SMALL } from './log-bench.ts';

const AT = offset(500);

async function filled(machine: Machine): Promise<PartitionLog> {
  const log = await PartitionLog.open(machine.deps, DIRECTORY, SMALL, { clean: false, create: true });
  for (let index = 0; index < 60; index += 1) expect(append(log, batch({ fill: index, bytes: 60 })).ok).toBe(true);
  await log.sync();
  return log;
}

describe('restartAt', () => {
  test('beyond the end: nothing of before is served, it is kept in quarantine, and appends go on there', async () => {
    const machine = new Machine();
    await machine.run(async () => {
      const log = await filled(machine);
      await log.restartAt(AT);
      expect(log).toMatchObject({ logStartOffset: 500, logEndOffset: 500, syncedOffset: 500, epochs: [], damaged: [] });
      expect(append(log, batch({ fill: 1 }))).toMatchObject({ ok: true, baseOffset: 500 });
      await log.sync();
      expect((await readAll(log)).batches.map(({ baseOffset }) => baseOffset)).toEqual([500]);
      expect(log.read(offset(10), 100, log.writtenOffset)).toMatchObject({ kind: 'expired' });
      const kept = await machine.disk.readDirectory('quarantine');
      expect(kept.length).toBeGreaterThan(1);
      await log.close({ clean: true });
      const again = await PartitionLog.open(machine.deps, DIRECTORY, SMALL, { clean: true, create: false });
      expect(again).toMatchObject({ logStartOffset: 500, logEndOffset: 501 });
      await again.close({ clean: true });
    });
  });

  test('up to the end: only the head goes', async () => {
    const machine = new Machine();
    await machine.run(async () => {
      const log = await filled(machine);
      await log.restartAt(offset(40));
      expect(log).toMatchObject({ logStartOffset: 40, logEndOffset: 60 });
      await log.close({ clean: true });
    });
  });

  test('at every operation of it the power may go: the next start has the old log or the new place, and takes appends', async () => {
    for (const seed of [1, 2, 3]) {
      const machine = new Machine(seed);
      const forks: SimDisk[] = [];
      await machine.run(async () => {
        const log = await filled(machine);
        machine.disk.onBoundary = () => {
          forks.push(machine.disk.fork('random'), machine.disk.fork('lose-all'), machine.disk.fork('keep-all'));
        };
        await log.restartAt(AT);
        machine.disk.onBoundary = undefined;
        await log.close({ clean: false });
      });
      expect(forks.length).toBeGreaterThan(20);
      const places = new Set<number>();
      for (const disk of forks) {
        machine.disk = disk;
        await machine.run(async () => {
          const log = await PartitionLog.open(machine.deps, DIRECTORY, SMALL, { clean: false, create: true });
          places.add(log.logEndOffset);
          if (log.logEndOffset === 60) expect((await readAll(log)).batches).toHaveLength(60);
          else expect(log.logEndOffset).toBe(500);
          // Whoever was at it does it again.
          await log.restartAt(AT);
          expect(log).toMatchObject({ logEndOffset: 500, logStartOffset: 500, damaged: [] });
          expect(append(log, batch({ fill: 9, epoch: 3 }))).toMatchObject({ ok: true, baseOffset: 500 });
          await log.sync();
          expect((await readAll(log)).batches).toHaveLength(1);
          await log.close({ clean: false });
        });
      }
      expect(places).toEqual(new Set([60, 500]));
    }
  });
});
