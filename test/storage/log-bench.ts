// What the tests of the log share: a simulated machine that can lose its power, and batches as a producer would build them.
import { leaderEpoch, offset, type LeaderEpoch, type Offset } from '../../src/base/brands.ts';
import { writeI64, writeU16, writeU32 } from '../../src/base/bytes.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { checkBatch, readBatchHeader } from '../../src/format/batch.ts';
import { SimClock } from '../../src/sim/clock.ts';
import { SimDisk, type SimDiskOptions } from '../../src/sim/disk.ts';
import type { SeededRandom } from '../../src/sim/random.ts';
import { Scheduler } from '../../src/sim/scheduler.ts';
import { RecordingTelemetry } from '../../src/sim/telemetry.ts';
import { LOG_CONFIG_DEFAULT, type LogConfig, type StorageDeps } from '../../src/storage/config.ts';
import type { AppendResult, CheckedBatch } from '../../src/storage/contract.ts';
import { PartitionLog } from '../../src/storage/log.ts';

export const DIRECTORY = 'topics/0123456789abcdef0123456789abcdef/0';

/** Small enough that tests roll often. */
export const SMALL: LogConfig = {
  ...LOG_CONFIG_DEFAULT,
  segmentBytes: 2048,
  indexIntervalBytes: 128,
  preallocate: 'none',
  mappedSegmentsMax: 4,
};

export interface Fatal {
  readonly reason: string;
  readonly detail: string;
}

/** One machine: its scheduler and clock live on, its disk is replaced at each crash. */
export class Machine {
  readonly scheduler: Scheduler;
  readonly clock: SimClock;
  readonly telemetry: RecordingTelemetry = new RecordingTelemetry();
  readonly fatals: Fatal[] = [];
  private readonly random: SeededRandom;
  disk: SimDisk;
  constructor(seed = 1, options: SimDiskOptions = {}) {
    this.scheduler = new Scheduler({ seed });
    this.random = this.scheduler.random.stream('storage');
    this.clock = new SimClock(this.scheduler, 'node');
    this.disk = new SimDisk(this.scheduler, { owner: 'node', ...options });
  }
  get deps(): StorageDeps {
    return {
      disk: this.disk,
      clock: this.clock,
      random: this.random,
      crc32c: crc32cTable,
      telemetry: this.telemetry,
      fatal: (reason, detail) => {
        this.fatals.push({ reason, detail });
        throw new Error(`fatal ${reason}: ${detail}`);
      },
    };
  }
  run<Value>(work: () => Promise<Value>): Promise<Value> {
    return this.scheduler.drive(work, 600_000);
  }
  open(config: LogConfig = SMALL, clean = false): Promise<PartitionLog> {
    return this.run(() => PartitionLog.open(this.deps, DIRECTORY, config, { clean, create: true }));
  }
  /** The process ends; what the kernel has stays. */
  kill(): void {
    this.scheduler.cancelOwner('node');
    this.disk = this.disk.kill();
  }
  /** The power goes. */
  powerCut(choice: Parameters<SimDisk['crash']>[0] = 'random'): void {
    this.scheduler.cancelOwner('node');
    this.disk = this.disk.crash(choice);
  }
}

export interface BatchOptions {
  readonly records?: number;
  /** Bytes that stand for the records. */
  readonly bytes?: number;
  readonly fill?: number;
  readonly timestamp?: number;
  readonly baseOffset?: number;
  readonly epoch?: number;
}

/** One batch with a right header and checksum. The records are not real: the log never looks inside. */
export function batch(options: BatchOptions = {}): Uint8Array {
  const records = options.records ?? 1;
  const payload = options.bytes ?? 40;
  const bytes = new Uint8Array(61 + payload);
  writeI64(bytes, 0, options.baseOffset ?? 0);
  writeU32(bytes, 8, bytes.length - 12);
  writeU32(bytes, 12, options.epoch ?? 0);
  bytes[16] = 2;
  writeU16(bytes, 21, 0);
  writeU32(bytes, 23, records - 1);
  writeI64(bytes, 27, options.timestamp ?? 1000);
  writeI64(bytes, 35, options.timestamp ?? 1000);
  writeI64(bytes, 43, -1);
  writeU16(bytes, 51, 0xffff);
  writeU32(bytes, 53, 0xffff_ffff);
  writeU32(bytes, 57, records);
  bytes.fill(options.fill ?? 0x61, 61);
  writeU32(bytes, 17, crc32cTable(bytes.subarray(21)));
  return bytes;
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** As a connection would: the batches of these bytes, checked. */
export function checked(bytes: Uint8Array): CheckedBatch[] {
  const found: CheckedBatch[] = [];
  for (let at = 0; at < bytes.length;) {
    const result = checkBatch(bytes, at, crc32cTable);
    if (!result.ok) throw new Error(`bad batch in a test: ${result.fault} ${result.detail}`);
    found.push({ at, size: result.size, header: result.header });
    at += result.size;
  }
  return found;
}

export function append(log: PartitionLog, bytes: Uint8Array, epoch: LeaderEpoch = leaderEpoch(0)): AppendResult {
  return log.append(bytes, checked(bytes), epoch);
}

/** Appends and waits until the kernel has it. */
export async function appendWritten(
  log: PartitionLog,
  bytes: Uint8Array,
  epoch: LeaderEpoch = leaderEpoch(0),
): Promise<Offset> {
  const result = append(log, bytes, epoch);
  if (!result.ok) throw new Error(`append refused: ${result.code}`);
  if (result.whenWritten !== undefined) await result.whenWritten;
  return result.baseOffset;
}

export interface ReadBack {
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly epoch: number;
  readonly bytes: Uint8Array;
}

export interface ReadAll {
  readonly batches: readonly ReadBack[];
  readonly damaged: readonly { readonly from: number; readonly to: number }[];
  readonly nextOffset: number;
}

/** Everything from `from` to the written offset, as a consumer that steps over damage reads it; checks every batch. */
export async function readAll(log: PartitionLog, from: number = log.logStartOffset, maxBytes = 700): Promise<ReadAll> {
  const batches: ReadBack[] = [];
  const damaged: { from: number; to: number }[] = [];
  let next = offset(from);
  for (let step = 0; step < 100_000; step += 1) {
    const result = log.read(next, maxBytes, log.writtenOffset);
    if (result.kind === 'empty' || result.kind === 'beyond') break;
    if (result.kind === 'cold') await log.prepare(next, maxBytes);
    else if (result.kind === 'damaged') {
      damaged.push({ from: result.from, to: result.to });
      next = result.to;
    } else if (result.kind === 'slices') {
      const bytes = concat(result.slices.map((slice) => slice.view));
      for (const slice of result.slices) slice.release();
      for (const each of checked(bytes)) {
        const { header } = each;
        if (batches.length === 0 || header.baseOffset > (batches.at(-1)?.lastOffset ?? -1)) {
          batches.push({
            baseOffset: header.baseOffset,
            lastOffset: header.lastOffset,
            epoch: header.leaderEpoch,
            bytes: bytes.slice(each.at, each.at + each.size),
          });
        }
      }
      next = result.nextOffset;
    } else throw new Error(`read at ${String(next)}: ${result.kind}`);
  }
  return { batches, damaged, nextOffset: next };
}

export function headerAt(bytes: Uint8Array, at = 0): ReturnType<typeof readBatchHeader> {
  return readBatchHeader(bytes, at);
}
