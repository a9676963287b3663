import { beforeAll, describe, expect, test } from 'vitest';
import { readBatches } from '../../src/segtool/batches.ts';
import { diffLogs } from '../../src/segtool/diff.ts';
import { dumpRecords, jsonRecord } from '../../src/segtool/dump.ts';
import { importRecords } from '../../src/segtool/import.ts';
import { checkLog, type LogReport } from '../../src/segtool/log-check.ts';
import { repair } from '../../src/segtool/repair.ts';
import { logStats } from '../../src/segtool/stats.ts';
import { findTargets } from '../../src/segtool/targets.ts';
import type { ToolDeps } from '../../src/segtool/tool.ts';
import { verify } from '../../src/segtool/verify.ts';
import { effort } from '../effort.ts';
import { DIRECTORY } from '../storage/log-bench.ts';
import { damaged } from './damage.ts';
import { logNames, makeTemplate, openFiles, toolMachine, type Template } from './store-bench.ts';

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

async function* each(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
  await Promise.resolve();
}

async function theLog(deps: ToolDeps): Promise<LogReport> {
  const [target] = (await findTargets(deps.disk, '')).logs;
  if (target === undefined) throw new Error('there is no log');
  return await checkLog(deps, target);
}

let template: Template;
beforeAll(async () => {
  template = await makeTemplate('clean');
});

function withDamage(kind: string, seed: number): ReadonlyMap<string, Uint8Array> {
  const made = damaged(template, kind, seed);
  if (made === undefined) throw new Error(`no damage of kind ${kind}`);
  return made.files;
}

describe('repair --from', () => {
  test.each([
    'flip a bit of records',
    'remove a segment with all its files',
    'truncate a segment',
    'zero-fill in a segment',
    'overwrite with garbage',
    'remove a log file',
  ])('%s: the other copy gives back every record', async (kind) => {
    let trials = 0;
    for (let seed = 1; seed <= effort(6, 2); seed += 1) {
      const made = damaged(template, kind, seed);
      // It hit what was zeros already.
      if (made === undefined) continue;
      trials += 1;
      const { files } = made;
      const mirror = new Map([
        ...files,
        ...[...template.files].map(([path, bytes]): [string, Uint8Array] => [`copy/${path}`, bytes]),
      ]);
      const both = toolMachine(mirror);
      const report = await both.machine.run(() =>
        repair(both.deps, DIRECTORY, { write: true, from: { deps: both.deps, path: `copy/${DIRECTORY}` } }),
      );
      expect(report.plans.flatMap(({ lost }) => lost)).toEqual([]);
      const opened = await openFiles(
        new Map([...both.machine.disk.dump()].filter(([path]) => path.startsWith('topics/'))),
        true,
      );
      expect(opened.read.damaged).toEqual([]);
      expect(opened.read.batches.map(({ bytes }) => Buffer.from(bytes).toString('hex'))).toEqual(
        template.batches.map(({ bytes }) => Buffer.from(bytes).toString('hex')),
      );
    }
    expect(trials).toBeGreaterThan(effort(2, 0));
  });

  test('a copy that is damaged at the same place gives nothing, and nothing of it is taken', async () => {
    const files = withDamage('flip a bit of records', 2);
    const both = toolMachine(
      new Map([...files, ...[...files].map(([path, bytes]): [string, Uint8Array] => [`copy/${path}`, bytes])]),
    );
    const report = await both.machine.run(() =>
      repair(both.deps, DIRECTORY, { write: true, from: { deps: both.deps, path: `copy/${DIRECTORY}` } }),
    );
    expect(report.plans.flatMap(({ restored }) => restored)).toEqual([]);
    expect(report.plans.flatMap(({ lost }) => lost)).toHaveLength(1);
  });
});

describe('repair --from, given what is no copy', () => {
  const OTHER = DIRECTORY.replace(/0$/, '1');

  test('one log is no copy of the others of a directory', async () => {
    const files = withDamage('flip a bit of records', 2);
    const renamed = [...files].map(([path, bytes]): [string, Uint8Array] => [path.replace(DIRECTORY, OTHER), bytes]);
    const copy = [...template.files].map(([path, bytes]): [string, Uint8Array] => [`copy/${path}`, bytes]);
    const { machine, deps } = toolMachine(new Map([...files, ...renamed, ...copy]));
    const { plans } = await machine.run(() =>
      repair(deps, '', { write: false, from: { deps, path: `copy/${DIRECTORY}` } }),
    );
    expect(plans.map(({ directory, lost, restored }) => [directory, lost.length, restored.length])).toEqual([
      [DIRECTORY, 0, 1],
      [OTHER, 1, 0],
    ]);
  });

  test('another partition is refused by its name alone, where nothing is left to compare', async () => {
    const nothing = [...template.files.keys()].filter((path) => !path.endsWith('.log'));
    const renamed = nothing.map((path): [string, Uint8Array] => [
      path.replace(DIRECTORY, OTHER),
      template.files.get(path) ?? Uint8Array.of(),
    ]);
    const copy = [...template.files].map(([path, bytes]): [string, Uint8Array] => [`copy/${path}`, bytes]);
    const { machine, deps } = toolMachine(new Map([...renamed, ...copy]));
    await expect(
      machine.run(() => repair(deps, OTHER, { write: true, from: { deps, path: `copy/${DIRECTORY}` } })),
    ).rejects.toThrow('is another log');
  });

  test('a log whose batches around the loss are others is refused, and nothing is changed', async () => {
    const other = await makeTemplate('clean', 60, 9);
    const copy = [...other.files].map(([path, bytes]): [string, Uint8Array] => [`copy/${path}`, bytes]);
    const { machine, deps } = toolMachine(new Map([...withDamage('flip a bit of records', 2), ...copy]));
    const before = machine.disk.dump();
    await expect(
      machine.run(() => repair(deps, DIRECTORY, { write: true, from: { deps, path: `copy/${DIRECTORY}` } })),
    ).rejects.toThrow('is another log');
    expect(machine.disk.dump()).toEqual(before);
  });
});

describe('a dry run', () => {
  test('changes no byte, and says what a run with write then does', async () => {
    const { machine, deps } = toolMachine(withDamage('flip a bit of records', 9));
    const before = machine.disk.dump();
    const dry = await machine.run(() => repair(deps, '', { write: false }));
    expect(machine.disk.dump()).toEqual(before);
    const done = await machine.run(() => repair(deps, '', { write: true }));
    expect(done.plans).toEqual(dry.plans);
  });
});

describe('targets', () => {
  test('a data directory, a topic, a partition and a single segment', async () => {
    const { machine, deps } = toolMachine(template.files);
    await machine.run(async () => {
      for (const path of ['', 'topics', DIRECTORY.slice(0, DIRECTORY.lastIndexOf('/')), DIRECTORY])
        expect((await findTargets(deps.disk, path)).logs.map(({ directory }) => directory)).toEqual([DIRECTORY]);
      const [name] = logNames(template.files).slice(2);
      expect((await findTargets(deps.disk, name ?? '')).logs).toEqual([
        { directory: DIRECTORY, label: DIRECTORY, only: 36 },
      ]);
      const report = await verify(deps, name ?? '');
      expect([report.verdict, report.logs[0]?.segments.length]).toEqual(['clean', 1]);
    });
  });
});

describe('dump, find, stats, diff, export and import', () => {
  test('all records come out in order, with the gzip ones decompressed', async () => {
    const { machine, deps } = toolMachine(template.files);
    const records = await machine.run(async () => await all(dumpRecords(deps, await theLog(deps), {})));
    expect(records.map((each) => (each.kind === 'record' ? each.record.offset : -1))).toEqual(
      Array.from({ length: 120 }, (_, index) => index),
    );
    expect(records.some((each) => each.kind === 'record' && each.batch.codec === 1)).toBe(true);
  });

  test('past damage: what is skipped is said, what follows is given', async () => {
    const { machine, deps } = toolMachine(withDamage('flip a bit of records', 9));
    const items = await machine.run(async () => await all(readBatches(deps, await theLog(deps))));
    expect(items.filter(({ kind }) => kind === 'skipped')).toHaveLength(1);
    expect(items.filter(({ kind }) => kind === 'batch')).toHaveLength(template.batches.length - 1);
  });

  test('filters: offsets, key, header, time', async () => {
    const { machine, deps } = toolMachine(template.files);
    const found = await machine.run(async () => {
      const log = await theLog(deps);
      const offsets = async (filter: Parameters<typeof dumpRecords>[2]): Promise<number[]> =>
        (await all(dumpRecords(deps, log, filter))).map((each) => (each.kind === 'record' ? each.record.offset : -1));
      return [
        await offsets({ from: 37, to: 40 }),
        await offsets({ key: Uint8Array.of(4) }),
        await offsets({ header: { name: 'event-id', value: Uint8Array.of(5, 2) } }),
        (await offsets({ since: 1_700_000_000_590 }))[0],
        (await offsets({ header: { name: 'none', value: undefined } })).length,
      ];
    });
    expect(found).toEqual([[37, 38, 39], [7, 8], [11], 117, 0]);
  });

  test('stats count every batch and record once', async () => {
    const { machine, deps } = toolMachine(template.files);
    const stats = await machine.run(async () => await logStats(deps, await theLog(deps)));
    const sum = (buckets: readonly { readonly count: number }[]): number =>
      buckets.reduce((total, { count }) => total + count, 0);
    expect([stats.batches, stats.records, sum(stats.batchBytes), sum(stats.recordBytes)]).toEqual([60, 120, 60, 120]);
    expect(stats.rates.reduce((total, { records }) => total + records, 0)).toBe(120);
    expect(stats.largestKeys[0]?.records).toBe(3);
  });

  test('diff: same, missing on either side', async () => {
    const files = withDamage('flip a bit of records', 9);
    const both = toolMachine(
      new Map([...files, ...[...template.files].map(([path, bytes]): [string, Uint8Array] => [`copy/${path}`, bytes])]),
    );
    const ranges = await both.machine.run(async () => {
      const [first] = (await findTargets(both.deps.disk, DIRECTORY)).logs;
      const [second] = (await findTargets(both.deps.disk, `copy/${DIRECTORY}`)).logs;
      if (first === undefined || second === undefined) throw new Error('a log is not found');
      const sides = [
        { deps: both.deps, log: await checkLog(both.deps, first) },
        { deps: both.deps, log: await checkLog(both.deps, second) },
      ] as const;
      return [
        await diffLogs(sides[0], sides[1]),
        await diffLogs(sides[1], sides[0]),
        await diffLogs(sides[1], sides[1]),
      ];
    });
    expect(ranges[0]?.map(({ kind }) => kind)).toEqual(['same', 'only-second', 'same']);
    expect(ranges[1]?.map(({ kind }) => kind)).toEqual(['same', 'only-first', 'same']);
    expect(ranges[2]).toEqual([{ kind: 'same', from: 0, to: 120 }]);
  });

  test('diff: the same records in batches that are cut otherwise differ up to their end, and nothing is left out', async () => {
    const { machine, deps } = toolMachine(template.files);
    const ranges = await machine.run(async () => {
      const log = await theLog(deps);
      const records = await all(dumpRecords(deps, log, { to: 100 }));
      const lines = records.map((item) => (item.kind === 'record' ? JSON.stringify(jsonRecord(item.record)) : ''));
      await importRecords(deps, machine.deps, 'imported', each(lines), 'none');
      const [target] = (await findTargets(deps.disk, 'imported')).logs;
      if (target === undefined) throw new Error('nothing was imported');
      const other = { deps, log: await checkLog(deps, target) };
      return [await diffLogs({ deps, log }, other), await diffLogs(other, { deps, log })];
    });
    const straddling = template.batches.find(({ base, last }) => base <= 99 && last >= 99);
    const end = (straddling?.last ?? 0) + 1;
    expect(ranges[0]).toEqual([
      { kind: 'different', from: 0, to: end },
      { kind: 'only-first', from: end, to: 120 },
    ]);
    expect(ranges[1]?.map(({ kind, from, to }) => [kind, from, to])).toEqual([
      ['different', 0, end],
      ['only-second', end, 120],
    ]);
  });

  test('an import that fails leaves nothing behind, so that it can be done again', async () => {
    const { machine, deps } = toolMachine(template.files);
    const before = machine.disk.dump();
    await expect(
      machine.run(() => importRecords(deps, machine.deps, 'imported', each(['{"timestamp":1}', 'no record']), 'none')),
    ).rejects.toThrow('line 2');
    expect(machine.disk.dump()).toEqual(before);
    expect(
      await machine.run(() => importRecords(deps, machine.deps, 'imported', each(['{"timestamp":1}']), 'none')),
    ).toBe(1);
  });

  test('what is exported and imported is the same records', async () => {
    const { machine, deps } = toolMachine(template.files);
    const [lines, again] = await machine.run(async () => {
      const records = await all(dumpRecords(deps, await theLog(deps), {}));
      const text = records.map((item) => (item.kind === 'record' ? JSON.stringify(jsonRecord(item.record)) : ''));
      await importRecords(deps, machine.deps, 'imported', each(text), 'zstd');
      const [target] = (await findTargets(deps.disk, 'imported')).logs;
      if (target === undefined) throw new Error('nothing was imported');
      const copy = await all(dumpRecords(deps, await checkLog(deps, target), {}));
      return [text, copy.map((each) => (each.kind === 'record' ? JSON.stringify(jsonRecord(each.record)) : ''))];
    });
    expect(again).toEqual(lines);
  });
});
