// A log with real records, as files in memory, and what is known of it: the measure for verify and repair.
import { leaderEpoch, offset } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { newestCheckpoint } from '../../src/format/checkpoint.ts';
import { encodeBatch } from '../../src/format/records.ts';
import { newestSyncMark, SYNC_MARKS_BYTES } from '../../src/format/sync-mark.ts';
import { compression } from '../../src/platform/compression.ts';
import { crc32c } from '../../src/platform/checksum.ts';
import { SimDisk } from '../../src/sim/disk.ts';
import type { LogConfig } from '../../src/storage/config.ts';
import { PartitionLog } from '../../src/storage/log.ts';
import type { ToolDeps } from '../../src/segtool/tool.ts';
import { appendWritten, DIRECTORY, Machine, readAll, SMALL, type ReadAll } from '../storage/log-bench.ts';

export type Files = ReadonlyMap<string, Uint8Array>;

export interface KnownBatch {
  readonly base: number;
  readonly last: number;
  readonly epoch: number;
  readonly bytes: Uint8Array;
}

export interface Template {
  readonly name: string;
  readonly files: Files;
  readonly batches: readonly KnownBatch[];
  readonly end: number;
  readonly clean: boolean;
}

/**
 * clean: stopped. killed: everything synced, and the checkpoint says so. unsynced: most of it lies above the recovery point.
 * marked: the power went while a sync mark was younger than the checkpoint.
 */
export type TemplateName = 'clean' | 'killed' | 'unsynced' | 'marked';
export const TEMPLATE_NAMES: readonly TemplateName[] = ['clean', 'killed', 'unsynced', 'marked'];

export const CONFIG: LogConfig = { ...SMALL, segmentBytes: 2048, indexIntervalBytes: 256 };

function value(index: number, seed: number): Uint8Array {
  return Uint8Array.from({ length: 20 + (index % 7) * 12 }, (_, at) => (index * 31 + at * seed) & 0xff);
}

/** Batches of one to three records, in three epochs, rolled every 2 KiB. */
export async function makeTemplate(name: TemplateName, count = 60, seed = 7): Promise<Template> {
  const clean = name === 'clean';
  const machine = new Machine(7);
  const log = await machine.open(
    name === 'unsynced' ? { ...CONFIG, fsync: 'interval', fsyncIntervalMs: 3_600_000 } : CONFIG,
  );
  const files = await machine.run(async () => {
    for (let index = 0; index < count; index += 1) {
      const records = Array.from({ length: 1 + (index % 3) }, (_, at) => ({
        timestamp: 1_700_000_000_000 + index * 10 + at,
        key: Uint8Array.of(index),
        value: value(index * 3 + at, seed),
        headers: [{ key: 'event-id', value: Uint8Array.of(index, at) }],
      }));
      const epoch = index < count / 3 ? 1 : index < count / 2 ? 3 : 4;
      await appendWritten(
        log,
        encodeBatch(
          {
            records,
            codec: index % 10 === 9 ? 'gzip' : 'none',
            compress: (codec, bytes) => compression.compress(codec, bytes),
          },
          crc32cTable,
        ),
        leaderEpoch(epoch),
      );
      if (name === 'marked' || index === Math.floor(count / 3)) await log.sync();
    }
    if (name !== 'unsynced') await log.sync();
    if (name === 'marked') {
      // Long enough for the seals, and too short for the checkpoint to be synced.
      await new Promise<void>((resolve) => machine.clock.setTimer(300, resolve));
      await machine.disk.syncDirectory(DIRECTORY);
      machine.powerCut('lose-all');
    } else if (clean) await log.close({ clean: true });
    else {
      for (let turn = 0; turn < 50; turn += 1) await machine.clock.yieldNow();
      await new Promise<void>((resolve) => machine.clock.setTimer(3000, resolve));
    }
    return machine.disk.dump();
  });
  const opened = await openFiles(files, clean);
  return {
    name,
    files,
    clean,
    end: opened.end,
    batches: opened.read.batches.map(({ baseOffset, lastOffset, epoch, bytes }) => ({
      base: baseOffset,
      last: lastOffset,
      epoch,
      bytes,
    })),
  };
}

export interface Opened {
  readonly read: ReadAll;
  readonly start: number;
  readonly end: number;
  readonly fatals: number;
}

/** As the broker opens and serves it. */
export async function openFiles(files: Files, clean: boolean): Promise<Opened> {
  const machine = new Machine(11);
  machine.disk = SimDisk.load(machine.scheduler, files, { owner: 'node' });
  return await machine.run(async () => {
    const log = await PartitionLog.open(machine.deps, DIRECTORY, CONFIG, { clean, create: true });
    const read = await readAll(log, log.logStartOffset, 4096);
    const result = { read, start: log.logStartOffset, end: log.logEndOffset, fatals: machine.fatals.length };
    await log.close({ clean: true });
    return result;
  });
}

export interface ToolMachine {
  readonly machine: Machine;
  readonly deps: ToolDeps;
}

export function toolMachine(files: Files, seed = 5): ToolMachine {
  const machine = new Machine(seed);
  machine.disk = SimDisk.load(machine.scheduler, files, { owner: 'node' });
  return { machine, deps: toolDeps(machine) };
}

export function toolDeps(machine: Machine): ToolDeps {
  return { disk: machine.disk, clock: machine.clock, crc32c, compression };
}

export function logNames(files: Files): readonly string[] {
  return [...files.keys()].filter((path) => path.startsWith(`${DIRECTORY}/`) && path.endsWith('.log')).toSorted();
}

/** What the files say was synced, looked up in its own way: by the checkpoint alone, and with the sync marks of the segments. */
export function syncedPointOf(files: Files): { readonly checkpoint: number; readonly synced: number } {
  const newest = newestCheckpoint(files.get(`${DIRECTORY}/checkpoint`) ?? new Uint8Array(0), crc32cTable)?.value;
  const checkpoint = newest?.recoveryPoint ?? 0;
  let synced = checkpoint;
  for (const path of logNames(files)) {
    const base = offset(Number(path.slice(-24, -4)));
    if (base < (newest?.segmentBase ?? 0)) continue;
    const mark = newestSyncMark(
      (files.get(path) ?? new Uint8Array(0)).subarray(-SYNC_MARKS_BYTES),
      base,
      crc32cTable,
    )?.value;
    if (mark !== undefined && mark.sequence > (newest?.sequence ?? 0)) synced = Math.max(synced, mark.syncedOffset);
  }
  return { checkpoint, synced };
}
