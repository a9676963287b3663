// A full disk and a lack of file descriptors are met at any operation of a log's life: nothing ends, nothing is lost, nothing
// waits for ever, and all goes on when there is room again.
import { describe, expect, test } from 'vitest';
import { offset } from '../../src/base/brands.ts';
import type { DiskErrorKind, DiskOperation } from '../../src/ports/disk.ts';
import type { DiskFault } from '../../src/sim/disk-faults.ts';
import type { LogConfig } from '../../src/storage/config.ts';
import { isPressure } from '../../src/storage/health.ts';
import type { PartitionLog } from '../../src/storage/log.ts';
import { PartitionLog as Log } from '../../src/storage/log.ts';
import { effort } from '../effort.ts';
import { append, batch, DIRECTORY, Machine, readAll, SMALL } from './log-bench.ts';

/** What each operation meets. Descriptors are only needed to open, map and list. */
const PRESSURE: Partial<Record<DiskOperation, DiskErrorKind>> = {
  open: 'too-many-files',
  map: 'too-many-files',
  readdir: 'too-many-files',
  write: 'no-space',
  allocate: 'no-space',
  mkdir: 'no-space',
  rename: 'no-space',
};

/** Counts the operations that can meet pressure; those with numbers in [from, to) do. */
const pressures: Pressure[] = [];

class Pressure {
  count = 0;
  from = Number.POSITIVE_INFINITY;
  to = Number.POSITIVE_INFINITY;
  readonly met: string[] = [];
  constructor(machine: Machine) {
    pressures.push(this);
    this.watch(machine);
  }
  /** The disk of a machine is another one after each crash. */
  watch({ disk }: Machine): void {
    disk.faults.match = (operation, path): DiskFault | undefined => {
      const kind = PRESSURE[operation];
      if (kind === undefined) return undefined;
      this.count += 1;
      if (this.count < this.from || this.count >= this.to) return undefined;
      this.met.push(`${operation} ${path}`);
      return { operation, kind };
    };
  }
}

interface Life {
  readonly machine: Machine;
  readonly pressure: Pressure;
  readonly config: LogConfig;
  log: PartitionLog;
  /** By base offset: durable, or to be so after the next sync. */
  readonly model: Map<number, Uint8Array>;
}

function pause(machine: Machine, ms: number): Promise<void> {
  return new Promise((resolve) => machine.clock.setTimer(ms, resolve));
}

/** As a broker does: what meets pressure is done again later. */
async function patient<Value>(machine: Machine, work: () => Promise<Value>): Promise<Value> {
  for (let round = 0; ; round += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isPressure(error) || round > 500) throw error;
      await pause(machine, 200);
    }
  }
}

async function add(life: Life, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    const bytes = batch({ fill: (life.model.size * 7 + index) % 250, timestamp: 1000 + life.log.logEndOffset });
    let result = append(life.log, bytes);
    for (let round = 0; !result.ok && round < 500; round += 1) {
      expect(['STORAGE_FULL', 'THROTTLED']).toContain(result.code);
      await pause(life.machine, 50);
      result = append(life.log, bytes);
    }
    if (!result.ok) throw new Error(result.code);
    life.model.set(result.baseOffset, bytes);
    if (result.whenWritten !== undefined) await result.whenWritten;
  }
  await life.log.sync();
}

async function check(life: Life): Promise<void> {
  const { log, machine } = life;
  const found = await patient(machine, () => readAll(log));
  expect(found.damaged).toEqual([]);
  const wanted = Array.from(life.model.keys()).filter((at) => at >= log.logStartOffset);
  expect(found.batches.map(({ baseOffset }) => baseOffset)).toEqual(wanted);
  // The base offset is stamped, so only what follows it is compared.
  for (const { baseOffset, bytes } of found.batches)
    expect(Buffer.compare(bytes.subarray(8), life.model.get(baseOffset)?.subarray(8) ?? bytes)).toBe(0);
  expect(log.logEndOffset).toBe((wanted.at(-1) ?? -1) + 1);
}

async function open(life: Omit<Life, 'log'>, clean: boolean): Promise<PartitionLog> {
  const { machine, config } = life;
  return await patient(machine, () => Log.open(machine.deps, DIRECTORY, config, { clean, create: true }));
}

async function work(life: Life): Promise<void> {
  const { machine } = life;
  await add(life, 45);
  await check(life);
  await patient(machine, () => life.log.offsetForTimestamp(1020));
  await patient(machine, () => life.log.placeOf(offset(5)));
  await patient(machine, () => life.log.scanHeaders(offset(3), () => undefined));
  await patient(machine, () => life.log.scrubOnce(1e9));
  life.log.updateConfig({ ...life.config, retentionBytes: 3000 });
  await life.log.retain(machine.clock.wallMs());
  const cut = life.log.logEndOffset - 4;
  await patient(machine, () => life.log.truncateTo(offset(cut)));
  for (const at of life.model.keys()) if (at >= cut) life.model.delete(at);
  await add(life, 25);
  await life.log.roll();
  await add(life, 3);
  await check(life);
}

async function life(config: LogConfig, from: number, to: number): Promise<Pressure> {
  const machine = new Machine();
  const pressure = new Pressure(machine);
  pressure.from = from;
  pressure.to = to;
  const start = { machine, pressure, config, model: new Map<number, Uint8Array>() };
  await machine.run(async () => {
    const current: Life = { ...start, log: await open(start, true) };
    await work(current);
    await current.log.close({ clean: true });
    current.log = await open(current, true);
    await check(current);
    await add(current, 5);
    return current;
  });
  // Killed, and started on a log that has a tail to be walked.
  machine.kill();
  pressure.watch(machine);
  await machine.run(async () => {
    const current: Life = { ...start, log: await open(start, false) };
    await check(current);
    await add(current, 20);
    await current.log.close({ clean: true });
  });
  expect(machine.fatals).toEqual([]);
  expect(machine.disk.liveMappings).toBe(0);
  expect(machine.disk.liveSlices).toBe(0);
  return pressure;
}

const CONFIGS: readonly (readonly [string, LogConfig])[] = [
  ['always, nothing prepared', { ...SMALL, mappedSegmentsMax: 2 }],
  ['always, recycling', { ...SMALL, preallocate: 'recycle', mappedSegmentsMax: 2 }],
  ['interval, allocated', { ...SMALL, preallocate: 'fallocate', fsync: 'interval', fsyncIntervalMs: 20 }],
];

describe('pressure at every operation', () => {
  test.each(CONFIGS)('once, for a while: %s', async (_name, config) => {
    const { count } = await life(config, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);
    expect(count).toBeGreaterThan(100);
    for (const length of [1, 4, 60]) {
      for (let from = 1; from <= count; from += effort(1, 23)) {
        const where = `operations ${String(from)} to ${String(from + length)}`;
        const pressure = await life(config, from, from + length).catch((error: unknown) => {
          throw new Error(`${where}: ${pressures.at(-1)?.met.join(', ') ?? ''}`, { cause: error });
        });
        expect(pressure.met.length, where).toBeGreaterThan(0);
      }
    }
  });

  test.each(CONFIGS)('a clean stop ends while there is no room: %s', async (_name, config) => {
    for (let added = 1; added <= 40; added += effort(1, 13)) {
      const machine = new Machine();
      const pressure = new Pressure(machine);
      const start = { machine, pressure, config, model: new Map<number, Uint8Array>() };
      const taken = await machine.run(async () => {
        const current: Life = { ...start, log: await open(start, true) };
        await add(current, added);
        pressure.from = pressure.count + 1;
        // Nobody waits for these: what is accepted while a segment is being prepared waits for room in vain.
        for (let index = 0; index < 30; index += 1) append(current.log, batch({ fill: index }));
        const rolled = current.log.roll();
        await current.log.close({ clean: true });
        await rolled;
        return current.log.logEndOffset;
      });
      pressure.from = Number.POSITIVE_INFINITY;
      await machine.run(async () => {
        const log = await open(start, true);
        expect(log.logEndOffset).toBe(taken);
        expect((await readAll(log)).batches).toHaveLength(taken);
        for (const [at, bytes] of start.model) {
          const found = (await readAll(log, at)).batches[0];
          expect(Buffer.compare(found?.bytes.subarray(8) ?? Buffer.of(), bytes.subarray(8))).toBe(0);
        }
        await log.close({ clean: true });
      });
      expect(machine.fatals).toEqual([]);
    }
  });
});
