// The exhaustive sweep of the log: one short life of a log, stopped by a power cut before every operation that the disk sees,
// with what may survive of the pending ones; each disk that such a cut can leave is opened, and held against the promises.
import { createHash } from 'node:crypto';
import { leaderEpoch, offset } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { newestCheckpoint } from '../../src/format/checkpoint.ts';
import { parseSegmentFileName } from '../../src/format/segment.ts';
import { newestSyncMark, SYNC_MARKS_BYTES } from '../../src/format/sync-mark.ts';
import { SimDisk } from '../../src/sim/disk.ts';
import type { SeededRandom } from '../../src/sim/random.ts';
import type { LogConfig } from '../../src/storage/config.ts';
import type { PartitionLog } from '../../src/storage/log.ts';
import { append, batch, DIRECTORY, Machine, readAll, SMALL, type ReadAll } from '../storage/log-bench.ts';

export const OPERATIONS = ['append', 'roll', 'sync', 'delete', 'truncate', 'checkpoint', 'restart', 'kill'] as const;
export type Operation = (typeof OPERATIONS)[number];

interface SweepBatch {
  readonly base: number;
  readonly last: number;
  readonly epoch: number;
  readonly fill: number;
}

/** What must hold of any disk that a cut at that moment leaves. */
interface Promised {
  /** Everything below was acknowledged, or could have been read. */
  readonly floor: number;
  /** What a kill must keep, which takes nothing from the page cache. */
  readonly written: number;
  /** The end lies in [floor, written] and what was cut off may still be there while a truncation is under way. */
  readonly startLeast: number;
  readonly startMost: number;
  /** All that may be found; a truncation under way leaves the old ones in. */
  readonly batches: readonly SweepBatch[];
}

interface Found {
  readonly disk: SimDisk;
  readonly promised: Promised;
  readonly where: string;
  readonly survivors: string;
  readonly killed: boolean;
  /** Reported already: what is damaged stays damaged. */
  readonly damaged?: PartitionLog['damaged'];
}

export interface SweepCounts {
  sequences: number;
  /** Operations of the disk before which the power was cut. */
  crashPoints: number;
  /** Disks that cuts left, with the same ones counted again. */
  disks: number;
  /** Different disks, each opened and checked. */
  states: number;
  /** Cuts during the recovery of such a disk. */
  secondCrashes: number;
}

export interface SweepOptions {
  readonly config: LogConfig;
  /** All subsets of up to so many pending operations; of more, `samples` random ones. */
  readonly choicesMax: number;
  readonly samples: number;
  /** Tried too at each cut that has so many operations pending: bit n, as in what a failure prints, is the n-th of them. */
  readonly survivors?: readonly string[];
  /** At one of so many cuts, writes are torn and replaced by noise too. */
  readonly tornOneIn: number;
  /** One of so many states is cut once more when it has been recovered. */
  readonly cutAfterOneIn: number;
  /** One of so many operations of a recovery is cut too. */
  readonly secondCrashOneIn: number;
}

export function sweepConfig(config: Partial<LogConfig>): LogConfig {
  return { ...SMALL, segmentBytes: 400, indexIntervalBytes: 100, fsyncIntervalMs: 20, ...config };
}

export class StorageSweep {
  readonly counts: SweepCounts = { sequences: 0, crashPoints: 0, disks: 0, states: 0, secondCrashes: 0 };
  private readonly options: SweepOptions;
  private readonly seen = new Set<string>();
  private checker = new Machine(99);
  private checks = 0;

  constructor(options: SweepOptions) {
    this.options = options;
  }

  /** Cuts during the operations from the `examineFrom`-th on. */
  async run(sequence: readonly Operation[], examineFrom: number): Promise<void> {
    const life = new SweepLife(this.options, this.seen, this.counts);
    await life.run(sequence, examineFrom);
    this.counts.sequences += 1;
    for (const found of life.found) await this.check(found);
  }

  private async check(found: Found): Promise<void> {
    this.counts.states += 1;
    this.checks += 1;
    if (this.checks % 500 === 0) this.checker = new Machine(99 + this.checks);
    const machine = this.checker;
    const context = `${found.where}, ${found.survivors}`;
    const later: { disk: SimDisk; survivors: string }[] = [];
    const first = await this.recover(machine, found.disk, found, context, (disk) => {
      const choice = (['lose-all', 'keep-all', 'random'] as const)[this.checks % 3] ?? 'random';
      later.push({ disk: disk.fork(choice), survivors: `again during recovery, ${choice}` });
    });
    // What was recovered can be read, and then it must not vanish.
    const cutAfter = this.checks % this.options.cutAfterOneIn === 0;
    if (cutAfter) later.push({ disk: machine.disk.fork('lose-all'), survivors: 'again after recovery' });
    this.end(machine);
    const readable: Found = {
      ...found,
      promised: { ...found.promised, floor: first.end, startLeast: first.start },
      killed: false,
      damaged: first.damaged,
    };
    for (const [index, each] of later.entries()) {
      this.counts.secondCrashes += 1;
      const isLast = cutAfter && index === later.length - 1;
      const again = await this.recover(machine, each.disk, isLast ? readable : found, `${context}, ${each.survivors}`);
      if (isLast) demand(sameRead(first, again), context, 'a second power cut gave another log');
      this.end(machine);
    }
  }

  private end(machine: Machine): void {
    machine.scheduler.cancelOwner('node');
    machine.disk.retire();
  }

  private async recover(
    machine: Machine,
    disk: SimDisk,
    found: Found,
    context: string,
    cut?: (disk: SimDisk) => void,
  ): Promise<RecoveredLog> {
    machine.disk = new SimDisk(machine.scheduler, { owner: 'node' }, disk.volume);
    if (cut !== undefined) {
      machine.disk.onBoundary = (number): void => {
        if ((number + this.checks) % this.options.secondCrashOneIn === 0) cut(machine.disk);
      };
    }
    let log: PartitionLog;
    try {
      log = await machine.open(this.options.config);
    } catch (error) {
      throw new Error(`${context}: opening failed: ${String(error)}`, { cause: error });
    }
    machine.disk.onBoundary = undefined;
    let read: ReadAll;
    try {
      read = await machine.run(() => readAll(log));
    } catch (error) {
      throw new Error(`${context}: reading failed: ${String(error)}`, { cause: error });
    }
    const result = { start: log.logStartOffset, end: log.logEndOffset, read, epochs: log.epochs, damaged: log.damaged };
    checkPromises(log, read, found, context);
    return result;
  }
}

interface RecoveredLog {
  readonly start: number;
  readonly end: number;
  readonly read: ReadAll;
  readonly epochs: PartitionLog['epochs'];
  readonly damaged: PartitionLog['damaged'];
}

function sameRead(left: RecoveredLog, right: RecoveredLog): boolean {
  const key = (log: RecoveredLog): string =>
    JSON.stringify([
      log.start,
      log.end,
      log.epochs,
      log.damaged,
      log.read.batches.map((each) => [each.baseOffset, each.epoch, each.bytes[61]]),
    ]);
  return key(left) === key(right);
}

function describeRead(read: ReadAll): string {
  const batches = read.batches.map((each) => `${String(each.baseOffset)}-${String(each.lastOffset)}`).join(' ');
  return `[${batches}] damaged ${JSON.stringify(read.damaged)}`;
}

function demand(holds: boolean, context: string, what: string): void {
  if (!holds) throw new Error(`${context}: ${what}`);
}

function checkPromises(log: PartitionLog, read: ReadAll, found: Found, context: string): void {
  const { promised } = found;
  const floor = found.killed ? promised.written : promised.floor;
  const { logStartOffset: start, logEndOffset: end } = log;
  demand(
    start >= promised.startLeast && start <= promised.startMost,
    context,
    `log start ${String(start)}, not in [${String(promised.startLeast)}, ${String(promised.startMost)}]`,
  );
  demand(end >= floor, context, `log end ${String(end)}, promised ${String(floor)}`);
  demand(
    end <= Math.max(promised.written, floor),
    context,
    `log end ${String(end)}, written ${String(promised.written)}`,
  );
  demand(log.syncedOffset === end, context, 'what was recovered is not durable');
  if (start > 0) demand(log.read(offset(start - 1), 100, end).kind === 'expired', context, 'below the log start');
  let next: number = start;
  for (const range of read.damaged)
    demand(
      (found.damaged ?? []).some((known) => known.from <= range.from && known.to >= range.to),
      context,
      `damage at ${String(range.from)}, promised ${String(floor)}`,
    );
  for (const each of read.batches) {
    const hole = read.damaged.findLast((range) => range.from <= next && range.to > next);
    if (hole !== undefined) next = hole.to;
    demand(
      each.baseOffset <= next && each.lastOffset >= next && (each.baseOffset === next || next === start),
      context,
      `batch at ${String(each.baseOffset)}, expected ${String(next)} in ${describeRead(read)}, before ${JSON.stringify(found.damaged)}`,
    );
    const model = promised.batches.filter((known) => known.base === each.baseOffset);
    const right = model.some(
      (known) => known.last === each.lastOffset && known.epoch === each.epoch && known.fill === each.bytes[61],
    );
    demand(right, context, `batch ${String(each.baseOffset)} is none that was appended`);
    next = each.lastOffset + 1;
  }
  // Something acknowledged can lie behind a hole only when something lies behind it: a log never ends in one.
  demand(next === end, context, `records end at ${String(next)}, the log at ${String(end)}`);
  for (const each of read.batches) {
    const known = log.epochs.findLast((entry) => entry.startOffset <= each.lastOffset);
    demand(
      known?.epoch === each.epoch,
      context,
      `epoch history says ${String(known?.epoch)} at ${String(each.baseOffset)}`,
    );
  }
}

/** One life: does the operations, and keeps every different disk that a cut could leave. */
class SweepLife {
  readonly found: Found[] = [];
  private readonly options: SweepOptions;
  private readonly seen: Set<string>;
  private readonly counts: SweepCounts;
  private readonly machine = new Machine(7);
  private readonly choices: SeededRandom;
  private log: PartitionLog | undefined;
  private batches: SweepBatch[] = [];
  private end = 0;
  private start = 0;
  private epoch = 1;
  private fill = 0;
  /** While a truncation or deletion is under way: where it leads. */
  private cuttingTo: number | undefined;
  private deletingTo: number | undefined;
  /** No log is open: what the last one had synced, and written. */
  private closed = { floor: 0, written: 0 };
  private examining = false;
  private where = '';
  private lastCut: { readonly pending: readonly unknown[]; readonly expectation: string } = {
    pending: [],
    expectation: '',
  };

  constructor(options: SweepOptions, seen: Set<string>, counts: SweepCounts) {
    this.options = options;
    this.seen = seen;
    this.counts = counts;
    this.choices = this.machine.scheduler.random.stream('choices');
  }

  async run(sequence: readonly Operation[], examineFrom: number): Promise<void> {
    const { machine } = this;
    this.log = await machine.open(this.options.config);
    for (const [index, operation] of sequence.entries()) {
      this.where = `${sequence.join(' ')} at ${String(index)}`;
      this.watch(index >= examineFrom);
      await this.step(operation);
    }
    this.where = `${sequence.join(' ')} behind the end`;
    await machine.scheduler.run(machine.scheduler.nowMs + 8);
    machine.disk.onBoundary = undefined;
    if (machine.fatals.length > 0) throw new Error(`${this.where}: ${JSON.stringify(machine.fatals)}`);
    machine.kill();
  }

  private watch(examine: boolean): void {
    this.examining = examine;
    this.machine.disk.onBoundary = examine
      ? (_number, operation, path): void => {
          this.cut(`${operation} ${path.split('/').at(-1) ?? ''}`);
        }
      : undefined;
  }

  private promised(): Promised {
    const { log } = this;
    const written = log?.writtenOffset ?? this.closed.written;
    const floor = Math.min(log?.syncedOffset ?? this.closed.floor, this.cuttingTo ?? Number.MAX_SAFE_INTEGER);
    return {
      floor,
      written: this.cuttingTo === undefined ? written : this.end,
      startLeast: this.start,
      startMost: this.deletingTo ?? this.start,
      batches: this.batches.slice(),
    };
  }

  private cut(what: string): void {
    const { disk } = this.machine;
    const pending = disk.pendingChoices();
    this.counts.crashPoints += 1;
    const promised = this.promised();
    const expectation = JSON.stringify(promised);
    const keep = (forked: SimDisk, survivors: string, killed: boolean): void => {
      this.counts.disks += 1;
      const key = stateKey(forked, expectation, killed);
      if (this.seen.has(key)) return;
      this.seen.add(key);
      this.found.push({ disk: forked, promised, where: `${this.where}, before ${what}`, survivors, killed });
    };
    const all = (1n << BigInt(pending)) - 1n;
    const old = this.knownPending(expectation);
    if (pending <= this.options.choicesMax) {
      // Without any of the new operations the disk is one that the cut before has left.
      for (let mask = 1n << BigInt(old); old >= 0 && mask < all; mask += 1n)
        keep(disk.crashWith(mask), `survivors ${mask.toString(2)}`, false);
      for (let mask = 0n; old < 0 && mask < all; mask += 1n)
        keep(disk.crashWith(mask), `survivors ${mask.toString(2)}`, false);
    } else {
      keep(disk.crashWith(0n), 'none survives', false);
      for (let sample = 0; sample < this.options.samples; sample += 1) {
        let mask = 0n;
        for (let bit = 0; bit < pending; bit += 1) mask = (mask << 1n) | BigInt(this.choices.below(2));
        keep(disk.crashWith(mask), `survivors ${mask.toString(2)}`, false);
      }
    }
    for (const text of this.options.survivors ?? [])
      if (text.length === pending) keep(disk.crashWith(BigInt(`0b${text}`)), `survivors ${text}`, false);
    if (pending > 0 && this.counts.crashPoints % this.options.tornOneIn === 0)
      keep(disk.fork('random', this.choices), 'torn', false);
    // A truncation that was killed may have got anywhere; otherwise the page cache has all that was written.
    keep(disk.crashWith(all), 'all survive', this.cuttingTo === undefined);
  }

  /** How many of the pending operations were so at the last cut, under the same promise; -1: not the first ones of these. */
  private knownPending(expectation: string): number {
    const { pending } = this.machine.disk.volume;
    const last = this.lastCut;
    this.lastCut = { pending: pending.slice(), expectation };
    const same = last.expectation === expectation && last.pending.every((each, index) => pending[index] === each);
    return same ? last.pending.length : -1;
  }

  private async step(operation: Operation): Promise<void> {
    const { machine, log } = this;
    if (log === undefined) throw new Error('no log is open');
    switch (operation) {
      case 'append':
        await this.append(40);
        return;
      case 'roll':
        await this.append(300);
        return;
      case 'sync':
        await machine.run(() => log.sync());
        return;
      case 'delete':
        await this.deleteHead(log);
        return;
      case 'truncate':
        await this.truncateTail(log);
        return;
      case 'checkpoint':
        await machine.scheduler.run(machine.scheduler.nowMs + 1100);
        return;
      case 'restart':
        await this.restart(log);
        return;
      case 'kill':
        await this.kill(log);
        return;
    }
  }

  /** Two batches in one append; with `bytes` 300 the second one does not fit beside anything else. */
  private async append(bytes: number): Promise<void> {
    const { machine, log } = this;
    for (const size of [40, bytes]) {
      this.fill += 1;
      const added = { base: this.end, last: this.end + 1, epoch: this.epoch, fill: this.fill };
      this.batches.push(added);
      this.end += 2;
      const result = append(
        log as PartitionLog,
        batch({ records: 2, bytes: size, fill: this.fill }),
        leaderEpoch(this.epoch),
      );
      if (!result.ok || result.baseOffset !== added.base) throw new Error(`${this.where}: ${JSON.stringify(result)}`);
      const { whenWritten } = result;
      if (whenWritten !== undefined) await machine.run(() => whenWritten);
    }
  }

  private async deleteHead(log: PartitionLog): Promise<void> {
    // Inside a batch: the log may begin there.
    const to = Math.min(this.start + 3, log.writtenOffset);
    this.deletingTo = to;
    await this.machine.run(() => log.deleteTo(offset(to)));
    this.start = to;
    this.deletingTo = undefined;
  }

  private async truncateTail(log: PartitionLog): Promise<void> {
    const to = Math.max(this.start, this.end - 2);
    const base = this.batches.find((each) => each.last >= to)?.base ?? this.end;
    this.epoch += 1;
    // The batch that holds the log start is not cut in the middle.
    this.cuttingTo = Math.max(base, 0);
    await this.machine.run(() => log.truncateTo(offset(to)));
    this.cuttingTo = undefined;
    this.batches = this.batches.filter((each) => each.last < log.logEndOffset);
    this.end = log.logEndOffset;
  }

  /** The process ends and comes back: the page cache has everything, and what is read of it must then survive a power cut. */
  private async kill(log: PartitionLog): Promise<void> {
    this.closed = { floor: log.syncedOffset, written: this.end };
    this.log = undefined;
    this.machine.kill();
    this.watch(this.examining);
    this.log = await this.machine.open(this.options.config);
    if (this.log.logEndOffset !== this.end || this.log.logStartOffset !== this.start || this.log.damaged.length > 0)
      throw new Error(
        `${this.where}: after a kill the log is ${String(this.log.logStartOffset)} to ${String(this.log.logEndOffset)}`,
      );
    this.epoch += 1;
  }

  private async restart(log: PartitionLog): Promise<void> {
    this.closed = { floor: this.end, written: this.end };
    await this.machine.run(() => log.close({ clean: true }));
    this.log = undefined;
    this.log = await this.machine.open(this.options.config, true);
    if (this.log.logEndOffset !== this.end || this.log.logStartOffset !== this.start)
      throw new Error(
        `${this.where}: after a clean stop the log is ${String(this.log.logStartOffset)} to ${String(this.log.logEndOffset)}`,
      );
    this.epoch += 1;
  }
}

/** Same key: the same files with the same bytes, under the same promises. */
function stateKey(disk: SimDisk, expectation: string, killed: boolean): string {
  const hash = createHash('md5');
  hash.update(expectation).update(killed ? 'k' : 'c');
  const files = disk.dump();
  const checkpointFile = files.get(`${DIRECTORY}/checkpoint`);
  const checkpoint = checkpointFile === undefined ? undefined : newestCheckpoint(checkpointFile, crc32cTable)?.value;
  for (const [path, bytes] of files) {
    // Of the checkpoint only the newest slot counts, whatever its place and number.
    if (path.endsWith('/checkpoint')) {
      const newest = newestCheckpoint(bytes, crc32cTable);
      hash.update(JSON.stringify({ ...newest?.value, sequence: 0 }));
      continue;
    }
    // What recovery does not read does not make a state of its own.
    if (path.startsWith('quarantine/') || path.includes('.tmp')) continue;
    hash.update(path.slice(DIRECTORY.length)).update(String(bytes.length));
    // Of the sync marks the same holds, but for which of them is younger than the checkpoint.
    const base = parseSegmentFileName(path.split('/').at(-1) ?? '')?.baseOffset ?? 0;
    const marks = newestSyncMark(bytes.subarray(-SYNC_MARKS_BYTES), offset(base), crc32cTable)?.value;
    if (!path.endsWith('.log') || marks === undefined) hash.update(bytes);
    else {
      hash.update(JSON.stringify({ ...marks, sequence: marks.sequence > (checkpoint?.sequence ?? 0) }));
      hash.update(bytes.subarray(0, -SYNC_MARKS_BYTES));
    }
  }
  return hash.digest('base64');
}
