// Every single bit of every file of a small data directory is flipped, and the directory opened and read: what is told must
// be the truth, or be said to be damaged.
import { describe, expect, test } from 'vitest';
import { readU32 } from '../../src/base/bytes.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { leaderEpoch, offset } from '../../src/base/brands.ts';
import { newestCheckpoint } from '../../src/format/checkpoint.ts';
import { parseSegmentFileName, segmentFileName } from '../../src/format/segment.ts';
import { newestSuperblock } from '../../src/format/superblock.ts';
import { newestSyncMark, SYNC_MARKS_BYTES } from '../../src/format/sync-mark.ts';
import { SimDisk } from '../../src/sim/disk.ts';
import type { LogConfig } from '../../src/storage/config.ts';
import type { PartitionLog } from '../../src/storage/log.ts';
import { Store } from '../../src/storage/store.ts';
import { effort } from '../effort.ts';
import { append, batch, Machine, readAll, SMALL } from '../storage/log-bench.ts';

const TOPIC = '0123456789abcdef0123456789abcdef';
const CONFIG: LogConfig = { ...SMALL, segmentBytes: 230, indexIntervalBytes: 60 };
const OPTIONS = { nodeId: 1, bootId: 'b' };
const TIMESTAMPS = [5000, 3000, 8000, 8000, 6000, 9000, 9500, 100, 12_000];
const TERM = 5;

/** All that a data directory says. */
interface Told {
  readonly disk: string;
  readonly log: string;
  readonly batches: ReadonlyMap<number, string>;
  readonly times: string;
  readonly damaged: readonly { readonly from: number; readonly to: number }[];
  readonly repaired: boolean;
}

/** `flipped`: the file that differs, which decides what is worth asking. */
async function tell(machine: Machine, files: ReadonlyMap<string, Uint8Array>, flipped = ''): Promise<Told | string> {
  machine.disk = SimDisk.load(machine.scheduler, files, { owner: 'node' });
  const before = machine.telemetry.events('log.index-rebuilt').length;
  const fatals = machine.fatals.length;
  try {
    return await machine.run(async () => {
      const store = await Store.open(machine.deps, OPTIONS);
      const log = await store.openPartition(TOPIC, 0, 'topic', CONFIG);
      const derived = /\.(index|timeindex|seal)$/.test(flipped) || flipped === '';
      const times = derived ? await findTimes(log) : '';
      const told = await ask(store, log);
      if (derived) await askInside(log, told);
      const repaired = machine.telemetry.events('log.index-rebuilt').length > before || log.recovery.kind !== 'clean';
      await store.close({ clean: true });
      return { ...told, times, repaired };
    });
  } catch (error) {
    // A refusal to start is an answer; a failing assertion is none.
    if (error instanceof Error && error.name === 'FatalError') return error.message;
    throw error;
  } finally {
    machine.scheduler.cancelOwner('node');
    machine.disk.retire();
    expect(machine.fatals.length).toBe(fatals);
  }
}

async function findTimes(log: PartitionLog): Promise<string> {
  const times: unknown[] = [];
  for (const timestamp of new Set([...TIMESTAMPS, 1, 7000, 20_000]))
    times.push(await log.offsetForTimestamp(timestamp));
  return JSON.stringify(times);
}

/** In the middle of the log the index decides. */
async function askInside(log: PartitionLog, told: Pick<Told, 'batches'>): Promise<void> {
  for (let from: number = log.logStartOffset; from < log.writtenOffset; from += 1) {
    const found = await readAll(log, from, 1000);
    const same = [...told.batches.keys()].filter((base) => base >= from);
    expect(found.batches.map((each) => each.baseOffset)).toEqual(same);
  }
}

async function ask(store: Store, log: PartitionLog): Promise<Omit<Told, 'repaired' | 'times'>> {
  const read = await readAll(log, log.logStartOffset, 1000);
  return {
    disk: JSON.stringify([store.vote, store.diskId, store.nodeId]),
    log: JSON.stringify([log.logStartOffset, log.logEndOffset, log.epochs]),
    batches: new Map(read.batches.map((each) => [each.baseOffset, each.bytes.join()])),
    damaged: log.damaged.slice(),
  };
}

async function build(how: 'stopped' | 'killed'): Promise<Map<string, Uint8Array>> {
  const machine = new Machine(21);
  await machine.run(async () => {
    const store = await Store.open(machine.deps, OPTIONS);
    await store.writeVote({ term: TERM - 1, vote: 0 });
    await store.writeVote({ term: TERM, vote: 1 });
    const log = await store.openPartition(TOPIC, 0, 'topic', CONFIG);
    for (const [index, timestamp] of TIMESTAMPS.entries()) {
      const result = append(
        log,
        batch({ bytes: 10, fill: index + 1, timestamp }),
        leaderEpoch(1 + Math.floor(index / 4)),
      );
      if (!result.ok) throw new Error(result.code);
      if (result.whenWritten !== undefined) await result.whenWritten;
      await log.sync();
    }
    await log.deleteTo(offset(1));
    if (how === 'stopped') await store.close({ clean: true });
  });
  await machine.scheduler.run(machine.scheduler.nowMs + 3000);
  return machine.disk.dump();
}

/** Where the sync marks of an active segment begin; the length of any other file. */
function dataBytes(path: string, bytes: Uint8Array): number {
  const base = parseSegmentFileName(path.split('/').at(-1) ?? '');
  if (base?.suffix !== 'log' || bytes.length <= SYNC_MARKS_BYTES) return bytes.length;
  const marks = newestSyncMark(bytes.subarray(-SYNC_MARKS_BYTES), offset(base.baseOffset), crc32cTable);
  return marks === undefined ? bytes.length : bytes.length - SYNC_MARKS_BYTES;
}

/** What is read of two slots is what decoding them gives: flips that give the same are one case. */
function sameCase(path: string, bytes: Uint8Array, inMarks: boolean): string | undefined {
  if (inMarks) {
    const base = offset(parseSegmentFileName(path.split('/').at(-1) ?? '')?.baseOffset ?? 0);
    return JSON.stringify(newestSyncMark(bytes.subarray(-SYNC_MARKS_BYTES), base, crc32cTable));
  }
  if (path.endsWith('/checkpoint')) return JSON.stringify(newestCheckpoint(bytes, crc32cTable));
  if (path === 'superblock') return JSON.stringify(newestSuperblock(bytes, crc32cTable));
  return undefined;
}

/** The first batch lies below the log start. */
function expiredBits(path: string, bytes: Uint8Array): number {
  return path.endsWith(`/${segmentFileName(offset(0), 'log')}`) ? (12 + readU32(bytes, 8)) * 8 : 0;
}

/** Behind the last batch is prepared space, which says nothing. */
function usedBits(path: string, bytes: Uint8Array): number {
  let end = dataBytes(path, bytes);
  if (end < bytes.length) while (end > 0 && bytes[end - 1] === 0) end -= 1;
  return end * 8;
}

/** With every bit of the prepared space too, which takes three times as long. */
const EXHAUSTIVE = process.env['RIVULET_SWEEP'] === 'exhaustive';

/** Zeros that will hold batches: two headers' worth of them is swept bit by bit, of the rest one bit of each byte. */
function isPrepared(bit: number, usedEnd: number, dataEnd: number): boolean {
  return bit >= usedEnd + 128 * 8 && bit < dataEnd && bit % 8 !== (bit >> 3) % 8;
}

/** Every bit, or some in a quick run. */
const STEP = effort(1, 307);

interface Counts {
  files: number;
  bits: number;
  opened: number;
  harmless: number;
  repaired: number;
  detected: number;
  wrong: number;
}

type Verdict = 'harmless' | 'repaired' | 'detected' | 'wrong';

function judge(truth: Told, told: Told | string): Verdict {
  if (typeof told === 'string') return 'detected';
  const damagedAt = (at: number): boolean => told.damaged.some((range) => range.from <= at && at < range.to);
  for (const [base, bytes] of told.batches) if (truth.batches.get(base) !== bytes) return 'wrong';
  for (const base of truth.batches.keys()) if (!told.batches.has(base) && !damagedAt(base)) return 'wrong';
  if (told.disk !== truth.disk || told.log !== truth.log) return 'wrong';
  if (told.damaged.length > 0) return 'detected';
  if (told.times !== '' && told.times !== truth.times) return 'wrong';
  return told.repaired ? 'repaired' : 'harmless';
}

async function sweep(
  how: 'stopped' | 'killed',
): Promise<{ readonly counts: Counts; readonly wrong: readonly string[] }> {
  const files = await build(how);
  const counts: Counts = { files: 0, bits: 0, opened: 0, harmless: 0, repaired: 0, detected: 0, wrong: 0 };
  const wrong: string[] = [];
  let machine = new Machine(22);
  const truth = await tell(machine, files);
  if (typeof truth === 'string') throw new Error(truth);
  for (const [path, bytes] of files) {
    counts.files += 1;
    const known = new Map<string, Verdict>();
    const dataEnd = dataBytes(path, bytes) * 8;
    const used = usedBits(path, bytes);
    for (let bit = counts.files % STEP; bit < bytes.length * 8; bit += STEP) {
      if (!EXHAUSTIVE && isPrepared(bit, used, dataEnd)) continue;
      counts.bits += 1;
      const flipped = bytes.slice();
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const key = sameCase(path, flipped, bit >= dataEnd);
      let verdict = key === undefined ? undefined : known.get(key);
      if (verdict === undefined) {
        counts.opened += 1;
        if (counts.opened % 500 === 0) machine = new Machine(22 + counts.opened);
        verdict = judge(truth, await tell(machine, new Map(files).set(path, flipped), path));
        if (key !== undefined) known.set(key, verdict);
      }
      counts[verdict] += 1;
      // After a clean stop every bit of what is retained is data: headers too, also those outside the batch checksum.
      const isData = path.endsWith('.log') && bit >= expiredBits(path, bytes) && bit < used;
      const unseen = how === 'stopped' && isData && verdict !== 'detected';
      if (verdict === 'wrong' || unseen) wrong.push(`${path} bit ${String(bit)}: ${verdict}`);
    }
  }
  return { counts, wrong };
}

describe('every bit of a data directory', () => {
  test.each(['stopped', 'killed'] as const)(
    '%s: none is wrong, unnoticed and not repaired',
    { timeout: 300_000 },
    async (how) => {
      const { counts, wrong } = await sweep(how);
      console.info(`${how}: ${JSON.stringify(counts)}`);
      expect(wrong).toEqual([]);
      expect(counts.detected).toBeGreaterThan(1000 / STEP);
      expect(counts.repaired).toBeGreaterThan(100 / STEP);
    },
  );
});
