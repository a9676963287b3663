import { describe, expect, test } from 'vitest';
import { leaderEpoch, offset, position } from '../../src/base/brands.ts';
import { writeU32 } from '../../src/base/bytes.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { SIM_EPOCH_MS, SimClock } from '../../src/sim/clock.ts';
import type { LogConfig } from '../../src/storage/config.ts';
import { PartitionLog } from '../../src/storage/log.ts';
import { effort } from '../effort.ts';
import { append, appendWritten, batch, DIRECTORY, Machine, readAll, SMALL } from './log-bench.ts';

async function fill(machine: Machine, log: PartitionLog, count: number): Promise<void> {
  await machine.run(async () => {
    for (let index = 0; index < count; index += 1) await appendWritten(log, batch({ fill: index % 250 }));
    await log.sync();
  });
}

async function damageFile(machine: Machine, name: string, at: number, bits = 1): Promise<void> {
  await machine.run(async () => {
    const file = await machine.disk.open(`${DIRECTORY}/${name}`, 'write');
    const byte = new Uint8Array(1);
    await file.read(byte, position(at));
    await file.writeSlow(Uint8Array.of((byte[0] ?? 0) ^ bits), position(at));
    await file.sync();
    await file.close();
  });
}

const FIRST = '00000000000000000000';

describe('a failing disk', () => {
  test('a failed fdatasync is fatal once; nothing is synced or accepted after it', async () => {
    const machine = new Machine();
    const log = await machine.open();
    await fill(machine, log, 3);
    machine.disk.inject({ operation: 'sync', path: /\.log$/, kind: 'io' });
    let syncs = 0;
    machine.disk.onBoundary = (_number, operation) => {
      if (operation === 'sync') syncs += 1;
    };
    append(log, batch());
    await machine.scheduler.run(machine.scheduler.nowMs + 10_000);
    expect(machine.fatals.map((fatal) => fatal.reason)).toEqual(['STORAGE_FAILED']);
    expect(syncs).toBeLessThanOrEqual(1);
    expect(log.syncedOffset).toBe(3);
    expect(append(log, batch())).toEqual({ ok: false, code: 'STORAGE_FAILED' });
    await expect(machine.run(() => log.sync())).rejects.toThrow('fdatasync failed');
    expect(machine.fatals).toHaveLength(1);
  });

  test('a failed write is fatal once', async () => {
    const machine = new Machine();
    const log = await machine.open();
    machine.disk.inject({ operation: 'write', path: /\.log$/, kind: 'io' });
    expect(() => append(log, batch())).toThrow('write failed');
    expect(append(log, batch())).toEqual({ ok: false, code: 'STORAGE_FAILED' });
    await machine.scheduler.run(10_000);
    expect(machine.fatals).toHaveLength(1);
    expect(log.logEndOffset).toBe(0);
  });

  test('a sector that cannot be read is fatal once, and nothing of it is served', async () => {
    const machine = new Machine();
    let log = await machine.open();
    await fill(machine, log, 60);
    await machine.run(() => log.close({ clean: true }));
    machine.powerCut('keep-all');
    log = await machine.open(SMALL, true);
    machine.disk.inject({ operation: 'populate', path: /\.log$/, kind: 'io' });
    await expect(machine.run(() => readAll(log))).rejects.toThrow('reading a segment failed');
    expect(machine.fatals).toHaveLength(1);
  });

  test('an index file that cannot be read is made again from the log', async () => {
    for (const suffix of ['index', 'seal'] as const) {
      const machine = new Machine();
      let log = await machine.open();
      await fill(machine, log, 60);
      await machine.run(() => log.close({ clean: true }));
      log = await machine.open(SMALL, true);
      machine.disk.breakSector(`${DIRECTORY}/${FIRST}.${suffix}`, 0);
      expect((await machine.run(() => readAll(log))).batches).toHaveLength(60);
      expect(machine.fatals).toEqual([]);
      await machine.run(() => log.close({ clean: true }));
      expect(machine.disk.liveMappings).toBe(0);
    }
  });

  test('a full disk refuses, keeps what is there, and goes on when there is room again', async () => {
    const machine = new Machine();
    let log = await machine.open();
    await fill(machine, log, 5);
    const undo = machine.disk.inject({
      operation: 'write',
      path: /\.log$/,
      kind: 'no-space',
      times: 1000,
      writtenBytes: 30,
    });
    expect(append(log, batch())).toEqual({ ok: false, code: 'STORAGE_FULL' });
    await machine.scheduler.run(machine.scheduler.nowMs + 100);
    expect(append(log, batch())).toEqual({ ok: false, code: 'STORAGE_FULL' });
    expect((await machine.run(() => readAll(log))).batches).toHaveLength(5);
    await machine.scheduler.run(machine.scheduler.nowMs + 100);
    undo();
    await fill(machine, log, 5);
    machine.kill();
    log = await machine.open();
    expect(log.logEndOffset).toBe(10);
    expect(log.recovery.cutReason).toBeUndefined();
    expect((await machine.run(() => readAll(log))).batches).toHaveLength(10);
    expect(machine.fatals).toEqual([]);
  });

  test('no room for the next segment refuses, and goes on when there is room again', async () => {
    const machine = new Machine();
    const log = await machine.open({ ...SMALL, preallocate: 'zero' });
    const undo = machine.disk.inject({ operation: 'write', path: /\.tmp$/, kind: 'no-space', times: 100_000 });
    let refused = 0;
    let accepted = 0;
    for (let index = 0; index < 60; index += 1) {
      const result = append(log, batch());
      if (result.ok) accepted += 1;
      else {
        expect(result.code).toBe('STORAGE_FULL');
        refused += 1;
      }
      await machine.scheduler.run(machine.scheduler.nowMs + 20);
    }
    expect(refused).toBeGreaterThan(20);
    undo();
    await machine.scheduler.run(machine.scheduler.nowMs + 1000);
    append(log, batch());
    await machine.scheduler.run(machine.scheduler.nowMs + 1000);
    await machine.run(() => appendWritten(log, batch()));
    await machine.run(() => log.sync());
    const all = await machine.run(() => readAll(log));
    expect(all.batches.length).toBeGreaterThan(accepted);
    expect(log.syncedOffset).toBe(log.logEndOffset);
    await machine.run(() => log.close({ clean: true }));
    expect(machine.fatals).toEqual([]);
  });
});

describe('damage', () => {
  test(
    'a flipped bit anywhere in a sealed segment is harmless, detected or repaired; the rest is served',
    { timeout: 120_000 },
    async () => {
      const machine = new Machine(3);
      const config = { ...SMALL, segmentBytes: 400 };
      let log = await machine.open(config);
      await fill(machine, log, 12);
      const before = await machine.run(() => readAll(log));
      await machine.run(() => log.close({ clean: true }));
      let found = 0;
      for (let at = 0; at < 303; at += effort(2, 11)) {
        const bit = 1 << (((at >> 1) + Math.floor(at / 8)) % 8);
        await damageFile(machine, `${FIRST}.log`, at, bit);
        log = await machine.open(config, true);
        const read = await machine.run(() => readAll(log));
        const damagedOffsets = read.damaged.reduce((sum, range) => sum + range.to - range.from, 0);
        // No wrong byte is served, nor a wrong epoch, which lies outside the checksum: the history tells.
        for (const each of read.batches) {
          const good = before.batches.find((other) => other.baseOffset === each.baseOffset);
          expect(each.bytes, `byte ${String(at)}`).toEqual(good?.bytes);
        }
        expect(read.batches.length + damagedOffsets, `byte ${String(at)}`).toBe(12);
        if (damagedOffsets > 0) found += 1;
        const scrub = await machine.run(() => log.scrubOnce(1e9));
        expect(scrub.damaged.length, `byte ${String(at)}`).toBeGreaterThan(0);
        await machine.run(() => log.close({ clean: true }));
        await damageFile(machine, `${FIRST}.log`, at, bit);
      }
      expect(found).toBeGreaterThan(effort(120, 20));
      expect(machine.fatals).toEqual([]);
    },
  );

  test.each(['index', 'timeindex', 'seal'] as const)(
    'a missing, short, long or wrong %s file changes nothing that is read',
    async (suffix) => {
      const machine = new Machine(4);
      let log = await machine.open();
      await fill(machine, log, 60);
      await machine.run(() => log.close({ clean: true }));
      const path = `${DIRECTORY}/${FIRST}.${suffix}`;
      const rewrite = async (change: (bytes: Uint8Array) => Uint8Array | undefined): Promise<void> => {
        await machine.run(async () => {
          const file = await machine.disk.open(path, 'write');
          const bytes = new Uint8Array(await file.size());
          await file.read(bytes, position(0));
          const next = change(bytes);
          await file.truncate(0);
          if (next !== undefined && next.length > 0) await file.writeSlow(next, position(0));
          await file.close();
          if (next === undefined) await machine.disk.unlink(path);
        });
      };
      const changes: ((bytes: Uint8Array) => Uint8Array | undefined)[] = [
        () => undefined,
        (bytes) => bytes.subarray(0, bytes.length - 3),
        (bytes) => Uint8Array.from([...bytes, 1, 2, 3, 4, 5, 6, 7, 8]),
        (bytes) => bytes.map((byte) => byte ^ 0x5a),
        (bytes) => new Uint8Array(bytes.length),
        (bytes) => bytes.map((byte, index) => (index === 7 ? byte ^ 1 : byte)),
        () => new Uint8Array(0),
      ];
      for (const [index, change] of changes.entries()) {
        await rewrite(change);
        log = await machine.open(SMALL, true);
        const all = await machine.run(() => readAll(log));
        expect(all.damaged, `change ${String(index)}`).toEqual([]);
        expect(all.batches.map((each) => each.bytes[61])).toEqual(Array.from({ length: 60 }, (_, each) => each));
        // From the middle of the segment too, where the index decides.
        for (const from of [3, 7, 11, 15])
          expect((await machine.run(() => readAll(log, from))).batches[0]?.baseOffset).toBe(from);
        expect(await machine.run(() => log.offsetForTimestamp(1000))).toEqual({ offset: 0, timestamp: 1000 });
        await machine.run(() => log.scrubOnce(1e9));
        expect(log.damaged).toEqual([]);
        await machine.run(() => log.close({ clean: true }));
      }
      expect(machine.fatals).toEqual([]);
    },
  );

  test('with both slots of the checkpoint torn nothing sealed is cut, and the tail is walked', async () => {
    const machine = new Machine(5);
    let log = await machine.open();
    await fill(machine, log, 60);
    await machine.run(() => log.close({ clean: true }));
    await damageFile(machine, 'checkpoint', 20);
    await damageFile(machine, 'checkpoint', 4096 + 20);
    log = await machine.open(SMALL, true);
    expect(log.recovery).toMatchObject({ kind: 'tail', checkpointLost: true, damaged: [] });
    expect((await machine.run(() => readAll(log))).batches).toHaveLength(60);
    expect(log.epochs).toEqual([{ epoch: 0, startOffset: 0 }]);
  });

  test('a segment file that is gone is a damaged range, in the middle, at the head and at the tail', async () => {
    for (const which of ['head', 'middle', 'tail', 'all'] as const) {
      const machine = new Machine(6);
      let log = await machine.open();
      await fill(machine, log, 60);
      await machine.run(() => log.close({ clean: true }));
      await machine.run(async () => {
        const names = (await machine.disk.readDirectory(DIRECTORY))
          .map((entry) => entry.name)
          .filter((name) => name.endsWith('.log'));
        const gone =
          which === 'all' ? names : [names[which === 'head' ? 0 : which === 'tail' ? names.length - 1 : 1] ?? ''];
        for (const name of gone) await machine.disk.unlink(`${DIRECTORY}/${name}`);
      });
      log = await machine.open(SMALL, true);
      const all = await machine.run(() => readAll(log));
      const lost = all.damaged.reduce((sum, range) => sum + range.to - range.from, 0);
      expect(lost, which).toBeGreaterThan(0);
      expect(all.batches.length + lost, which).toBe(60);
      expect(log.logStartOffset).toBe(0);
      expect(log.logEndOffset).toBe(60);
      expect(append(log, batch())).toMatchObject({ ok: true, baseOffset: 60 });
      expect(machine.fatals).toEqual([]);
    }
  });
});

describe('what is known after a restart', () => {
  test('damage in a segment that could not be sealed is reported before anybody reads it', async () => {
    const machine = new Machine(12);
    let log = await machine.open();
    await fill(machine, log, 60);
    await machine.run(() => log.close({ clean: true }));
    await damageFile(machine, `${FIRST}.log`, 70);
    await machine.run(() => machine.disk.unlink(`${DIRECTORY}/${FIRST}.seal`));
    log = await machine.open(SMALL, true);
    await machine.scheduler.run(machine.scheduler.nowMs + 1000);
    expect(log.damaged).toEqual([{ from: 0, to: 1 }]);
    expect((await machine.run(() => readAll(log))).batches).toHaveLength(59);
    await machine.run(() => log.close({ clean: true }));
    // Nothing calls it good: it is found again.
    log = await machine.open(SMALL, true);
    await machine.scheduler.run(machine.scheduler.nowMs + 1000);
    expect(log.damaged).toEqual([{ from: 0, to: 1 }]);
  });

  // In the length of the outer batch, in its checksum, and in its records before the image.
  const places = [11, 17, 64].flatMap((at) => [4, 5, 8].map((inner) => ({ at, inner })));
  const ends = [
    { how: 'clean', hasIndex: true },
    { how: 'clean', hasIndex: false },
    { how: 'power', hasIndex: true },
  ] as const;
  test.for(places.flatMap((place) => ends.map((end) => ({ ...place, ...end }))))(
    'an intact batch inside a damaged one is never taken for the place where the log goes on: %o',
    async ({ at, inner, how, hasIndex }) => {
      const big: LogConfig = { ...SMALL, segmentBytes: 1 << 20 };
      const machine = new Machine(21);
      let log = await machine.open(big);
      await fill(machine, log, 3);
      const outer = batch({ bytes: 400 });
      outer.set(batch({ baseOffset: inner, fill: 0x7a }), 100);
      writeU32(outer, 17, crc32cTable(outer.subarray(21)));
      await machine.run(() => appendWritten(log, outer));
      await fill(machine, log, 10);
      if (how === 'clean') await machine.run(() => log.close({ clean: true }));
      else {
        await machine.scheduler.run(machine.scheduler.nowMs + 10_000);
        machine.powerCut('keep-all');
      }
      await damageFile(machine, `${FIRST}.log`, 3 * 101 + at, 4);
      if (!hasIndex)
        for (const suffix of ['index', 'timeindex'])
          await machine.run(() => machine.disk.unlink(`${DIRECTORY}/${FIRST}.${suffix}`));
      log = await machine.open(big, how === 'clean');
      const all = await machine.run(() => readAll(log));
      expect(all.batches.map((each) => each.baseOffset)).toEqual([0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
      expect(all.batches.every((each) => each.bytes[61] !== 0x7a)).toBe(true);
      expect(all.damaged).toEqual([{ from: 3, to: 4 }]);
      expect(log.logEndOffset).toBe(14);
    },
  );

  test('a truncation behind damage keeps what is good below it, and leaves the damage told', async () => {
    const machine = new Machine(13);
    let log = await machine.open({ ...SMALL, segmentBytes: 1 << 20 });
    await fill(machine, log, 20);
    await machine.run(() => log.close({ clean: true }));
    await damageFile(machine, `${FIRST}.log`, 5 * 101 + 70);
    log = await machine.open({ ...SMALL, segmentBytes: 1 << 20 }, true);
    await machine.run(() => log.truncateTo(offset(15)));
    expect(log.logEndOffset).toBe(15);
    await machine.run(() => appendWritten(log, batch({ fill: 99 }), leaderEpoch(1)));
    await machine.run(() => log.sync());
    machine.powerCut('lose-all');
    log = await machine.open({ ...SMALL, segmentBytes: 1 << 20 });
    const all = await machine.run(() => readAll(log));
    expect(log.damaged).toEqual([{ from: 5, to: 6 }]);
    expect(all.batches.map((each) => each.baseOffset)).toEqual([0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
  });

  test('a truncation into the batch that holds the log start empties the log there', async () => {
    const machine = new Machine(14);
    let log = await machine.open();
    await machine.run(async () => {
      for (let index = 0; index < 5; index += 1) await appendWritten(log, batch({ records: 4 }));
      await log.sync();
      await log.deleteTo(offset(6));
      await log.truncateTo(offset(7));
      expect([log.logStartOffset, log.logEndOffset]).toEqual([6, 6]);
      await appendWritten(log, batch({ fill: 5 }), leaderEpoch(2));
      await log.sync();
    });
    machine.powerCut('lose-all');
    log = await machine.open();
    const all = await machine.run(() => readAll(log));
    expect([log.logStartOffset, log.logEndOffset, log.damaged.length]).toEqual([6, 7, 0]);
    expect(all.batches.map((each) => [each.baseOffset, each.bytes[61]])).toEqual([[6, 5]]);
  });
});

describe('readers and lifetimes', () => {
  test('slices that are held through roll, eviction and retention stay whole; the mapping goes with the last', async () => {
    const machine = new Machine(7);
    const log = await machine.open({ ...SMALL, mappedSegmentsMax: 1, preallocate: 'recycle' });
    await fill(machine, log, 30);
    const result = log.read(offset(0), 500, offset(30));
    const first =
      result.kind === 'cold'
        ? await machine.run(async () => (await log.prepare(offset(0), 500), log.read(offset(0), 500, offset(30))))
        : result;
    if (first.kind !== 'slices') throw new Error(first.kind);
    const copy = first.slices.map((slice) => slice.view.slice());
    await fill(machine, log, 200);
    await machine.run(() => readAll(log));
    await machine.run(() => log.deleteTo(offset(200)));
    await fill(machine, log, 100);
    expect(log.read(offset(0), 100, offset(230)).kind).toBe('expired');
    expect(first.slices.map((slice) => slice.view.slice())).toEqual(copy);
    const live = machine.disk.liveMappings;
    for (const slice of first.slices) slice.release();
    expect(machine.disk.liveMappings).toBe(live - 1);
    expect(first.slices.map((slice) => slice.view.length)).toEqual(first.slices.map(() => 0));
    await machine.run(() => log.close({ clean: true }));
    expect(machine.disk.liveMappings).toBe(0);
    expect(machine.disk.liveSlices).toBe(0);
    expect(machine.disk.blockingTouches).toBe(0);
  });

  test('200 segments after a clean stop: nothing but names and the checkpoint is read', async () => {
    const machine = new Machine(8);
    let log = await machine.open({ ...SMALL, segmentBytes: 1024 });
    while (log.segmentCount < 200) await fill(machine, log, 20);
    const end = log.logEndOffset;
    await machine.run(() => log.close({ clean: true }));
    const touched: string[] = [];
    const { disk } = machine;
    const open = disk.open.bind(disk);
    disk.open = (path, mode): ReturnType<typeof open> => {
      touched.push(path.slice(DIRECTORY.length + 1));
      return open(path, mode);
    };
    log = await machine.open({ ...SMALL, segmentBytes: 1024 }, true);
    expect(touched.filter((name) => name.endsWith('.log'))).toHaveLength(1);
    expect(touched.length).toBeLessThanOrEqual(4);
    expect(log.recovery).toMatchObject({ kind: 'clean', bytesScanned: 0 });
    expect(log.logEndOffset).toBe(end);
  });
});

describe('retention', () => {
  test('by time: old segments go, the idle active one too; a jump of the wall clock deletes nothing early', async () => {
    const machine = new Machine(9);
    const log = await machine.open({ ...SMALL, retentionMs: 60_000 });
    const now = (): number => machine.clock.wallMs();
    await machine.run(async () => {
      for (let index = 0; index < 40; index += 1)
        await appendWritten(log, batch({ timestamp: now() + 1e12 }), leaderEpoch(1));
      await log.retain(now());
    });
    expect(log.logStartOffset).toBe(0);
    machine.clock.jumpWall(365 * 86_400_000);
    await machine.run(() => log.retain(now()));
    expect(log.logStartOffset).toBe(0);
    machine.clock.jumpWall(-365 * 86_400_000);
    await machine.run(() => log.retain(now()));
    expect(log.logStartOffset).toBe(0);
    await machine.scheduler.run(machine.scheduler.nowMs + 700_000);
    await machine.run(() => log.retain(now()));
    expect(log.logStartOffset).toBe(40);
    expect(log.segmentCount).toBe(1);
    expect(await machine.run(() => appendWritten(log, batch(), leaderEpoch(1)))).toBe(40);
  });

  test('by time: a jump of the wall clock before retention looked for the first time deletes nothing either', async () => {
    const machine = new Machine(12);
    const log = await machine.open({ ...SMALL, retentionMs: 60_000 });
    await fill(machine, log, 40);
    machine.clock.jumpWall(365 * 86_400_000);
    await machine.run(() => log.retain(machine.clock.wallMs()));
    expect(log.logStartOffset).toBe(0);
  });

  test('by time: what a clock stamped that was not set yet is as old as what came behind it, and no older', async () => {
    const machine = new Machine(13);
    const config = { ...SMALL, retentionMs: 60_000 };
    // Switched on without a battery: the clock begins in 1970, and is set while the broker is down.
    machine.clock.jumpWall(0 - machine.clock.wallMs());
    let log = await machine.open(config);
    await machine.run(async () => {
      for (let index = 0; index < 40; index += 1)
        await appendWritten(log, batch({ timestamp: machine.clock.wallMs() }), leaderEpoch(1));
    });
    await machine.run(() => log.close({ clean: true }));
    machine.clock.jumpWall(SIM_EPOCH_MS);
    log = await machine.open(config, true);
    await machine.run(() => log.retain(machine.clock.wallMs()));
    expect(log.logStartOffset).toBe(0);
    await machine.run(async () => {
      for (let index = 0; index < 40; index += 1)
        await appendWritten(log, batch({ timestamp: machine.clock.wallMs() }), leaderEpoch(1));
    });
    await machine.scheduler.run(machine.scheduler.nowMs + 61_000);
    await machine.run(() => log.retain(machine.clock.wallMs()));
    expect(log.logStartOffset).toBeGreaterThan(40);
  });

  test('by time: nothing in the first minutes after the machine was switched on', async () => {
    const machine = new Machine(14);
    const clock = new SimClock(machine.scheduler, 'node', { uptimeMs: 5000 });
    const deps = { ...machine.deps, clock };
    const log = await machine.run(() =>
      PartitionLog.open(deps, DIRECTORY, { ...SMALL, retentionMs: 60_000 }, { clean: false, create: true }),
    );
    await machine.run(async () => {
      for (let index = 0; index < 40; index += 1)
        await appendWritten(log, batch({ timestamp: clock.wallMs() }), leaderEpoch(1));
    });
    await machine.scheduler.run(machine.scheduler.nowMs + 300_000);
    await machine.run(() => log.retain(clock.wallMs()));
    expect(log.logStartOffset).toBe(0);
    await machine.scheduler.run(machine.scheduler.nowMs + 300_000);
    await machine.run(() => log.retain(clock.wallMs()));
    expect(log.logStartOffset).toBeGreaterThan(0);
  });

  test('by size: what stays is at least the limit, and survives a restart', async () => {
    const machine = new Machine(10);
    const config = { ...SMALL, retentionBytes: 5000 };
    let log = await machine.open(config);
    await fill(machine, log, 200);
    await machine.run(() => log.retain(machine.clock.wallMs()));
    expect(log.sizeInBytes).toBeGreaterThanOrEqual(5000);
    expect(log.sizeInBytes).toBeLessThan(5000 + 2048);
    const start = log.logStartOffset;
    machine.powerCut();
    log = await machine.open(config);
    expect(log.logStartOffset).toBe(start);
    expect((await machine.run(() => readAll(log))).batches[0]?.baseOffset).toBe(start);
  });
});

describe('the owner', () => {
  test('what it keeps at roll comes back, the older one when the newest is damaged, none beyond a truncation', async () => {
    const machine = new Machine(11);
    let log = await machine.open();
    log.onRoll = (base): Uint8Array => Uint8Array.of(base & 0xff, 7);
    await fill(machine, log, 60);
    const newest = await machine.run(() => log.latestSnapshot());
    expect(newest?.bytes).toEqual(Uint8Array.of((newest?.offset ?? 0) & 0xff, 7));
    await machine.run(() => log.close({ clean: true }));
    await damageFile(machine, `${String(newest?.offset ?? 0).padStart(20, '0')}.snapshot`, 8);
    log = await machine.open(SMALL, true);
    const older = await machine.run(() => log.latestSnapshot());
    expect(older?.offset).toBeLessThan(newest?.offset ?? 0);
    await machine.run(() => log.truncateTo(offset((older?.offset ?? 0) - 1)));
    expect(await machine.run(() => log.latestSnapshot())).toBeUndefined();
    const seen: number[] = [];
    await machine.run(() => log.scanHeaders(offset(5), (header) => seen.push(header.baseOffset)));
    expect(seen).toEqual(Array.from({ length: log.logEndOffset - 5 }, (_, index) => index + 5));
  });
});
