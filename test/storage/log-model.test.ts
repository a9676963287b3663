// The log against an array, under every policy, with kills, power cuts and clean stops at any moment. What each policy
// promises of a crash is checked after each one, and everything that is read is compared with what was appended.
import { describe, expect, test } from 'vitest';
import { leaderEpoch, offset } from '../../src/base/brands.ts';
import type { FsyncPolicy, LogConfig, Preallocation } from '../../src/storage/config.ts';
import type { PartitionLog } from '../../src/storage/log.ts';
import type { SeededRandom } from '../../src/sim/random.ts';
import { effort } from '../effort.ts';
import { append, batch, concat, Machine, readAll, SMALL } from './log-bench.ts';

interface ModelBatch {
  readonly base: number;
  readonly last: number;
  readonly epoch: number;
  readonly fill: number;
  readonly bytes: number;
}

/** Drives one log through a seeded life. */
class Life {
  readonly machine: Machine;
  readonly random: SeededRandom;
  readonly config: LogConfig;
  log: PartitionLog;
  batches: ModelBatch[] = [];
  start = 0;
  epoch = 1;
  fill = 0;
  /** For a failing seed: what was about to happen, and where the log stood. */
  readonly trail: string[] = [];
  readonly counts = { tailHoles: 0, kills: 0, cuts: 0, clean: 0, lost: 0, truncated: 0, retained: 0, rolls: 0 };

  private constructor(machine: Machine, config: LogConfig, log: PartitionLog) {
    this.machine = machine;
    this.random = machine.scheduler.random.stream('life');
    this.config = config;
    this.log = log;
  }
  static async begin(seed: number, config: LogConfig): Promise<Life> {
    const machine = new Machine(seed);
    return new Life(machine, config, await machine.open(config));
  }
  get end(): number {
    return (this.batches.at(-1)?.last ?? this.start - 1) + 1;
  }

  async step(): Promise<void> {
    const dice = this.random.below(100);
    this.trail.push(
      `${String(dice)}@${String(this.start)}-${String(this.log.syncedOffset)}-${String(this.log.writtenOffset)}-${String(this.end)}/${String(this.log.segmentCount)}`,
    );
    if (dice < 60) await this.append();
    else if (dice < 68) await this.machine.run(() => this.log.sync());
    else if (dice < 72) await this.roll();
    else if (dice < 78) await this.readSome();
    else if (dice < 82) await this.truncate();
    else if (dice < 86) await this.retain();
    else if (dice < 90) await this.machine.scheduler.run(this.machine.scheduler.nowMs + this.random.below(30));
    else if (dice < 93) await this.cleanStop();
    else if (dice < 97) await this.kill();
    else await this.powerCut();
  }

  private async append(): Promise<void> {
    if (this.random.below(8) === 0) this.epoch += 1;
    const parts: Uint8Array[] = [];
    const added: ModelBatch[] = [];
    let base = this.end;
    for (let count = 1 + this.random.below(3); count > 0; count -= 1) {
      const records = 1 + this.random.below(4);
      const bytes = this.random.below(20) === 0 ? 3000 : 40 + this.random.below(300);
      this.fill = (this.fill + 1) % 251;
      parts.push(batch({ records, bytes, fill: this.fill, timestamp: this.machine.clock.wallMs() }));
      added.push({ base, last: base + records - 1, epoch: this.epoch, fill: this.fill, bytes: bytes + 61 });
      base += records;
    }
    const result = append(this.log, concat(parts), leaderEpoch(this.epoch));
    expect(result).toMatchObject({ ok: true, baseOffset: added[0]?.base, lastOffset: added.at(-1)?.last });
    this.batches.push(...added);
    if (this.random.below(3) > 0 && result.ok && result.whenWritten !== undefined) {
      const { whenWritten } = result;
      await this.machine.run(() => whenWritten);
    }
  }
  private async roll(): Promise<void> {
    await this.machine.run(() => this.log.roll());
    this.counts.rolls += 1;
  }
  private async readSome(): Promise<void> {
    const from = this.start + this.random.below(Math.max(1, this.log.writtenOffset - this.start + 1));
    const maxBytes = 1 + this.random.below(4000);
    const read = await this.machine.run(() => readAll(this.log, Math.min(from, this.log.writtenOffset), maxBytes));
    this.compare(
      read.batches,
      this.batches.filter((each) => each.last >= from && each.last < this.log.writtenOffset),
    );
    expect(read.damaged).toEqual([]);
  }
  private async truncate(): Promise<void> {
    if (this.log.writtenOffset === this.start) return;
    const to = Math.max(this.start, this.log.writtenOffset - this.random.below(12));
    await this.machine.run(() => this.log.truncateTo(offset(to)));
    this.batches = this.batches.filter((each) => each.last < to);
    this.epoch += 1;
    this.counts.truncated += 1;
    expect(this.log.logEndOffset).toBe(this.end);
  }
  private async retain(): Promise<void> {
    const to = this.start + this.random.below(Math.max(1, this.log.writtenOffset - this.start));
    const boundary = this.batches.find((each) => each.last >= to)?.base ?? this.end;
    await this.machine.run(() => this.log.deleteTo(offset(boundary)));
    this.start = boundary;
    this.batches = this.batches.filter((each) => each.base >= boundary);
    this.counts.retained += 1;
    expect(this.log.logStartOffset).toBe(boundary);
    if (boundary > 0) expect(this.log.read(offset(boundary - 1), 100, this.log.writtenOffset).kind).toBe('expired');
  }
  private async cleanStop(): Promise<void> {
    await this.machine.run(() => this.log.close({ clean: true }));
    expect(this.machine.disk.liveSlices).toBe(0);
    expect(this.machine.disk.liveMappings).toBe(0);
    this.log = await this.machine.open(this.config, true);
    this.counts.clean += 1;
    expect(this.log.recovery.kind).toBe('clean');
    await this.afterOpen(this.end);
  }
  private async kill(): Promise<void> {
    const promised = this.log.writtenOffset;
    this.machine.kill();
    this.log = await this.machine.open(this.config);
    this.counts.kills += 1;
    await this.afterOpen(promised);
  }
  private async powerCut(): Promise<void> {
    // Any number of writes in flight: pages of them reach the disk in any order.
    for (let more = this.random.below(5); more > 0; more -= 1) await this.append();
    const promised = this.log.syncedOffset;
    this.machine.powerCut();
    this.log = await this.machine.open(this.config);
    this.counts.cuts += 1;
    await this.afterOpen(promised);
  }

  /** Everything promised is there, what is there is what was appended, and nothing is out of place. */
  private async afterOpen(promised: number): Promise<void> {
    const { log } = this;
    // No crash alone may ever look like damage.
    expect(log.recovery.damaged).toEqual([]);
    if (log.recovery.tailHole) this.counts.tailHoles += 1;
    expect(log.logStartOffset).toBe(this.start);
    expect(log.logEndOffset).toBeGreaterThanOrEqual(promised);
    expect(log.syncedOffset).toBe(log.logEndOffset);
    const kept = this.batches.filter((each) => each.last < log.logEndOffset);
    this.counts.lost += this.batches.length - kept.length;
    this.batches = kept;
    expect(log.logEndOffset).toBe(this.end);
    const read = await this.machine.run(() => readAll(log));
    expect(read.damaged).toEqual([]);
    this.compare(read.batches, kept);
    const epochs = new Map<number, number>();
    for (const each of kept) if (!epochs.has(each.epoch)) epochs.set(each.epoch, each.base);
    const known = log.epochs.filter((entry) => entry.startOffset < log.logEndOffset && entry.startOffset >= this.start);
    for (const entry of known) if (epochs.has(entry.epoch)) expect(entry.startOffset).toBe(epochs.get(entry.epoch));
    for (const epoch of epochs.keys()) expect(log.epochs.map((entry) => Number(entry.epoch))).toContain(epoch);
    this.epoch += 1;
  }
  private compare(
    read: readonly { baseOffset: number; lastOffset: number; epoch: number; bytes: Uint8Array }[],
    expected: readonly ModelBatch[],
  ): void {
    expect(
      read.map((each) => [each.baseOffset, each.lastOffset, each.epoch, each.bytes[61], each.bytes.length]),
    ).toEqual(expected.map((each) => [each.base, each.last, each.epoch, each.fill, each.bytes]));
  }
}

const LIVES = effort(12, 2);
const STEPS = 120;

describe('PartitionLog against an array', () => {
  for (const fsync of ['always', 'interval', 'never'] satisfies FsyncPolicy[]) {
    for (const preallocate of ['none', 'zero', 'fallocate', 'recycle'] satisfies Preallocation[]) {
      test(`keeps its promises through any life (${fsync}, ${preallocate})`, { timeout: 120_000 }, async () => {
        const totals = { tailHoles: 0, kills: 0, cuts: 0, clean: 0, lost: 0, truncated: 0, retained: 0, rolls: 0 };
        for (let seed = 1; seed <= LIVES; seed += 1) {
          const life = await Life.begin(seed * 7919, { ...SMALL, fsync, preallocate, fsyncIntervalMs: 20 });
          try {
            for (let step = 0; step < STEPS; step += 1) await life.step();
            await life.machine.run(() => life.log.close({ clean: true }));
            expect(life.machine.fatals).toEqual([]);
            expect(life.machine.disk.liveSlices).toBe(0);
            expect(life.machine.disk.liveMappings).toBe(0);
            expect(life.machine.disk.blockingTouches).toBe(0);
          } catch (error) {
            throw new Error(
              `seed ${String(seed)}: ${String(error)} ${JSON.stringify(life.machine.fatals)} ${JSON.stringify(life.machine.telemetry.events('log.damaged').map((line) => line.fields['why']))} damaged ${JSON.stringify(life.log.damaged)} after ${life.trail.slice(-12).join(' ')}`,
              { cause: error },
            );
          }
          for (const [name, count] of Object.entries(life.counts)) totals[name as keyof typeof totals] += count;
        }
        // A quiet life proves nothing.
        for (const name of ['kills', 'cuts', 'clean', 'truncated', 'retained', 'rolls'] as const)
          expect(totals[name], name).toBeGreaterThan(LIVES);
        if (LIVES < 12) return;
        expect(totals.lost, 'batches that a power cut took').toBeGreaterThan(0);
        expect(totals.tailHoles, 'power cuts that left a hole').toBeGreaterThan(0);
      });
    }
  }
});
