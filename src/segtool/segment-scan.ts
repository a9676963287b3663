// One `.log` file, walked as the broker walks it, and on past every fault: what is intact, what is not, and where.
import { leaderEpoch, offset, position as asPosition, type Offset } from '../base/brands.ts';
import { BATCH_HEADER_BYTES, type BatchHeader } from '../format/batch.ts';
import { epochAt, type EpochEntry } from '../format/epochs.ts';
import { isZero } from '../format/scan.ts';
import type { DiskFile } from '../ports/disk.ts';
import { walkFile, type WalkStop } from '../storage/file-walk.ts';
import { emptyFacts, type SegmentFacts } from '../storage/segment.ts';
import { BatchProbe, type Patch, type ProbedBatch } from './batch-probe.ts';
import { crcWithBatch } from '../format/crc-combine.ts';
import { findNext } from './resync.ts';
import type { ToolDeps } from './tool.ts';

/** Intact batches that lie one behind the other, without a gap of bytes or offsets. */
export interface Run {
  readonly position: number;
  end: number;
  readonly baseOffset: number;
  nextOffset: number;
  readonly firstEpoch: number;
  lastEpoch: number;
  /** Header fields that are to be written as they were. */
  readonly patches: Patch[];
}

export interface Fault {
  readonly kind: 'lost' | 'foreign' | 'changed' | 'misplaced';
  readonly position: number;
  readonly end: number;
  /** Offsets that should be here and are not; empty unless `lost`. */
  readonly from: number;
  readonly to: number;
  readonly detail: string;
}

/** An intact batch, without its bytes. */
export type Stray = Omit<ProbedBatch, 'bytes'>;

export interface SegmentScan {
  readonly runs: readonly Run[];
  readonly faults: readonly Fault[];
  /** Intact batches that lie where their offsets do not belong. */
  readonly strays: readonly Stray[];
  /** Of the intact batches; `size` is where they end, `crc` is undefined unless all of it was good as it stood. */
  readonly facts: SegmentFacts;
  readonly epochs: readonly EpochEntry[];
  readonly nextOffset: number;
  /** What stands behind the end of the data. */
  readonly tail: { readonly kind: 'end' | 'zeros' | 'torn' | 'bytes'; readonly detail: string };
}

export interface ScanWish {
  readonly path: string;
  readonly baseOffset: number;
  /** Where the next segment begins; undefined: the last one, whose end is to be found. */
  readonly boundary: number | undefined;
  /** Nothing at or behind this position is looked at. */
  readonly to: number;
  /** Everything below was synced: what is missing there is lost and not a tail. */
  readonly recoveryPoint: number;
  readonly epochAtLeast: number;
  readonly epochs: readonly EpochEntry[];
  readonly epochsUpTo: number;
}

export type BatchVisit = (header: BatchHeader, position: number, bytes: Uint8Array, maxBefore: number) => void;

export async function scanSegment(
  deps: ToolDeps,
  file: DiskFile,
  wish: ScanWish,
  visit?: BatchVisit,
): Promise<SegmentScan> {
  const scanner = new Scanner(deps, file, wish, visit);
  await scanner.run();
  return scanner.result();
}

class Scanner {
  private readonly deps: ToolDeps;
  private readonly file: DiskFile;
  private readonly wish: ScanWish;
  private readonly visit: BatchVisit | undefined;
  private readonly probe: BatchProbe;
  private readonly runs: Run[] = [];
  private readonly faults: Fault[] = [];
  private readonly strays: Stray[] = [];
  private readonly epochs: EpochEntry[] = [];
  private readonly facts: SegmentFacts = emptyFacts();
  private tail: SegmentScan['tail'] = { kind: 'end', detail: '' };
  private next: Offset;
  private epoch: number;
  private at = 0;
  /** The batch that raised the epoch last, while nothing of that epoch follows it. */
  private raised: { readonly run: Run; readonly position: number; readonly from: number } | undefined;

  constructor(deps: ToolDeps, file: DiskFile, wish: ScanWish, visit: BatchVisit | undefined) {
    this.deps = deps;
    this.file = file;
    this.wish = wish;
    this.visit = visit;
    this.probe = new BatchProbe(file, wish.to, deps.crc32c);
    this.next = offset(wish.baseOffset);
    this.epoch = wish.epochAtLeast;
  }

  result(): SegmentScan {
    if (this.faults.length > 0) this.facts.crc = undefined;
    const { runs, faults, strays, facts, epochs, next, tail } = this;
    return { runs, faults, strays, facts, epochs, nextOffset: next, tail };
  }

  async run(): Promise<void> {
    const { wish, deps } = this;
    const { boundary = Number.POSITIVE_INFINITY } = wish;
    while (this.next < boundary) {
      const from = {
        position: this.at,
        offset: this.next,
        epochAtLeast: this.epoch,
        to: wish.to,
        epochs: wish.epochs,
        epochsUpTo: wish.epochsUpTo,
      };
      const stop = await walkFile(this.file, deps.clock, deps.crc32c, from, ({ header, position, bytes }) => {
        this.good(header, position, bytes, []);
        return header.lastOffset + 1 < boundary;
      });
      if (this.next >= boundary) break;
      if (stop.kind === 'end') break;
      if (!(await this.past(stop, boundary))) {
        this.judgeTail(stop);
        break;
      }
    }
    // What is missing may lie behind what should be last.
    if (this.next >= boundary && this.at < wish.to && this.faults.some(({ kind }) => kind === 'lost'))
      await this.gatherStrays();
    if (boundary !== Number.POSITIVE_INFINITY || this.next < wish.recoveryPoint) {
      const end = boundary === Number.POSITIVE_INFINITY ? wish.recoveryPoint : boundary;
      if (this.next < end) this.lose(this.at, Math.max(this.at, wish.to), end, this.tail.detail);
    }
    if (this.next >= boundary && this.at < wish.to)
      this.tail = { kind: 'bytes', detail: `${String(wish.to - this.at)} bytes behind the last batch` };
  }

  private async gatherStrays(): Promise<void> {
    const nothing = { from: this.at, to: this.wish.to, atLeast: Number.MAX_SAFE_INTEGER, below: 0, isForeign: false };
    await findNext(this.deps, this.file, this.probe, nothing, this.strays);
  }

  /** The header as it should be. */
  private good(header: BatchHeader, position: number, bytes: Uint8Array, patches: readonly Patch[]): void {
    const { facts } = this;
    this.visit?.(header, position, bytes, facts.maxTimestamp);
    const last = this.runs.at(-1);
    let run: Run;
    if (last?.end === position && last.nextOffset === header.baseOffset) {
      run = last;
      run.end = position + bytes.length;
      run.nextOffset = header.lastOffset + 1;
      run.lastEpoch = header.leaderEpoch;
      run.patches.push(...patches);
    } else {
      run = {
        position,
        end: position + bytes.length,
        baseOffset: header.baseOffset,
        nextOffset: header.lastOffset + 1,
        firstEpoch: header.leaderEpoch,
        lastEpoch: header.leaderEpoch,
        patches: [...patches],
      };
      this.runs.push(run);
    }
    this.raised = header.leaderEpoch > this.epoch && this.epoch >= 0 ? { run, position, from: this.epoch } : undefined;
    if (header.leaderEpoch > (this.epochs.at(-1)?.epoch ?? this.wish.epochAtLeast))
      this.epochs.push({ epoch: leaderEpoch(header.leaderEpoch), startOffset: offset(header.baseOffset) });
    if (facts.batchCount === 0) {
      facts.firstTimestamp = header.baseTimestamp;
      facts.firstEpoch = header.leaderEpoch;
    }
    facts.batchCount += 1;
    facts.recordCount += header.recordCount;
    facts.lastEpoch = header.leaderEpoch;
    facts.maxTimestamp = Math.max(facts.maxTimestamp, header.maxTimestamp);
    if (facts.crc !== undefined) facts.crc = crcWithBatch(this.deps.crc32c, facts.crc, bytes, 0, bytes.length);
    this.at = position + bytes.length;
    facts.size = this.at;
    this.next = offset(header.lastOffset + 1);
    this.epoch = header.leaderEpoch;
    this.deps.progress?.(bytes.length);
  }

  private lose(position: number, end: number, to: number, detail: string): void {
    this.faults.push({
      kind: 'lost',
      position,
      end,
      from: this.next,
      to,
      detail: detail === '' ? 'the file ends there' : detail,
    });
    this.next = offset(to);
  }

  /** Steps over the fault. False: nothing that belongs to the log follows in this file. */
  private async past(stop: WalkStop, boundary: number): Promise<boolean> {
    const healing = stop.kind === 'fault' ? await this.heal(stop, boundary) : 'no';
    if (healing === 'healed') return true;
    const before = this.strays.length;
    const found = await findNext(
      this.deps,
      this.file,
      this.probe,
      {
        from: this.at,
        to: this.wish.to,
        atLeast: this.next,
        below: boundary,
        isForeign: healing === 'foreign',
      },
      this.strays,
    );
    if (found === undefined) return false;
    const healed = stop.kind === 'fault' ? await this.healLength(found.position) : undefined;
    if (healed !== undefined) {
      this.changed(stop, healed);
      return true;
    }
    const detail = stop.kind === 'zeros' ? 'zeros' : stop.detail;
    const moved = this.strays.length > before ? undefined : await this.movedTo(found, boundary);
    if (moved !== undefined) {
      this.lose(this.at, found.position, moved, detail);
      this.at = found.position;
      this.changed(
        { ...stop, detail: `base offset ${String(found.header.baseOffset)}, the next batch says ${String(moved)}` },
        this.probe.restamped(found, moved, found.header.leaderEpoch),
      );
      return true;
    }
    if (found.header.baseOffset > this.next) this.lose(this.at, found.position, found.header.baseOffset, detail);
    else {
      const kind = this.strays.length > before ? 'misplaced' : 'foreign';
      this.faults.push({ kind, position: this.at, end: found.position, from: this.next, to: this.next, detail });
    }
    this.at = found.position;
    return true;
  }

  /**
   * Damage reached into the base offset of the batch behind it, and made of it just the expected one: the intact batch that
   * follows at once tells what it was.
   */
  private async movedTo({ header, position, size }: ProbedBatch, boundary: number): Promise<number | undefined> {
    if (header.baseOffset !== this.next) return undefined;
    const after = await this.probe.at(position + size);
    if (after === undefined || after.header.baseOffset >= boundary) return undefined;
    const base = after.header.baseOffset - (header.lastOffset + 1 - header.baseOffset);
    return base > this.next ? base : undefined;
  }

  /**
   * A batch that is good but for a field outside its checksum, whose right value is known. foreign: the log goes on behind
   * it as if it belonged here, but it is another one.
   */
  private async heal(stop: WalkStop, boundary: number): Promise<'healed' | 'foreign' | 'no'> {
    const batch = (await this.probe.at(this.at)) ?? (await this.probe.healed(this.at, undefined, this.next));
    if (batch === undefined) return 'no';
    const { header } = batch;
    if (header.baseOffset !== this.next) {
      const after = this.next + header.recordCount;
      const isLast = boundary === Number.POSITIVE_INFINITY && (await this.isLastByOneBit(batch));
      if (!isLast && !(await this.leadsOn(batch, after, boundary))) return 'no';
      // What is claimed ahead of the last batch is claimed by nothing else.
      const isChanged = (isLast && header.baseOffset > this.next) || (await this.isChanged(batch, after, boundary));
      if (!isChanged) return isLast ? 'no' : 'foreign';
    }
    const known = this.knownEpoch();
    if (known === undefined && header.leaderEpoch < this.epoch && this.raised?.from === header.leaderEpoch) {
      await this.lower(this.raised);
      return 'healed';
    }
    const epoch = known ?? Math.max(header.leaderEpoch, this.epoch);
    this.changed(stop, this.probe.restamped(batch, this.next, epoch));
    return 'healed';
  }

  /** Would the log go on behind this batch, were its base offset the expected one? */
  private async leadsOn(batch: ProbedBatch, after: number, boundary: number): Promise<boolean> {
    const end = batch.position + batch.size;
    if (after === boundary || (end === this.wish.to && after === this.wish.recoveryPoint)) return true;
    const next = await this.probe.at(end);
    return next?.header.baseOffset === after;
  }

  /**
   * The last batch of the log, right behind a good one: nothing says that the log ended where this one claims to, and one bit
   * of its offset makes it the expected one.
   */
  private async isLastByOneBit({ header, position: at, size }: ProbedBatch): Promise<boolean> {
    if (bitsApart(header.baseOffset, this.next) !== 1 || header.lastOffset + 1 === this.wish.recoveryPoint)
      return false;
    const behind = new Uint8Array(Math.min(BATCH_HEADER_BYTES, Math.max(0, this.wish.to - at - size)));
    const got = await this.file.read(behind, asPosition(at + size));
    return isZero(behind, 0, got);
  }

  /** Its base offset was changed: by a bit or two, and at the offset that it claims lies another batch. */
  private async isChanged({ header, position, size }: ProbedBatch, after: number, boundary: number): Promise<boolean> {
    const claimed = header.baseOffset;
    if (bitsApart(claimed, this.next) > CHANGED_BITS_MAX) return false;
    if (claimed < this.wish.baseOffset || claimed >= boundary) return true;
    const run = this.runs.findLast((each) => each.baseOffset <= claimed);
    const from =
      claimed < this.next
        ? run && { position: run.position, offset: offset(run.baseOffset) }
        : { position: position + size, offset: offset(after) };
    if (from === undefined) return false;
    let isOther = boundary === Number.POSITIVE_INFINITY && claimed > after;
    const stop = await walkFile(
      this.file,
      this.deps.clock,
      this.deps.crc32c,
      { ...from, epochAtLeast: -1, to: this.wish.to },
      (each) => {
        if (each.header.lastOffset < claimed) return true;
        // Inside another batch, or at its start.
        isOther = each.header.crc !== header.crc;
        return false;
      },
    );
    return isOther && (stop.kind === 'stopped' || stop.offset >= this.wish.recoveryPoint);
  }

  private knownEpoch(): number | undefined {
    return this.next < this.wish.epochsUpTo ? epochAt(this.wish.epochs, this.next) : undefined;
  }

  /** One batch of a higher epoch among those of a lower one, and no history that has it: it was raised. */
  private async lower(raised: { readonly run: Run; readonly position: number; readonly from: number }): Promise<void> {
    const batch = await this.probe.at(raised.position);
    if (batch === undefined) return;
    const healed = this.probe.restamped(batch, batch.header.baseOffset, raised.from);
    raised.run.patches.push(...healed.patches);
    raised.run.lastEpoch = raised.from;
    this.epochs.pop();
    this.faults.push({
      kind: 'changed',
      position: raised.position,
      end: raised.position + batch.size,
      from: this.next,
      to: this.next,
      detail: `leader epoch ${String(batch.header.leaderEpoch)} among batches of epoch ${String(raised.from)}`,
    });
    this.epoch = raised.from;
    this.facts.lastEpoch = raised.from;
    this.raised = undefined;
  }

  private async healLength(end: number): Promise<ProbedBatch | undefined> {
    const batch = await this.probe.healed(this.at, end - this.at, this.next);
    if (batch?.header.baseOffset !== this.next) return undefined;
    const known = this.knownEpoch();
    if (known === undefined ? batch.header.leaderEpoch < this.epoch : known !== batch.header.leaderEpoch)
      return undefined;
    return batch;
  }

  private changed(stop: WalkStop, batch: ProbedBatch): void {
    this.faults.push({
      kind: 'changed',
      position: this.at,
      end: this.at + batch.size,
      from: this.next,
      to: this.next,
      detail: stop.detail,
    });
    this.good(batch.header, this.at, batch.bytes, batch.patches);
  }

  private judgeTail(stop: WalkStop): void {
    if (stop.kind === 'zeros') {
      this.tail = { kind: 'zeros', detail: 'zeros' };
      return;
    }
    this.tail = {
      kind: stop.header?.baseOffset === this.next || stop.header === undefined ? 'torn' : 'bytes',
      detail: stop.detail,
    };
  }
}

const CHANGED_BITS_MAX = 2;

function bitsApart(left: number, right: number): number {
  let rest = BigInt(left) ^ BigInt(right);
  let count = 0;
  for (; rest > 0n; rest &= rest - 1n) count += 1;
  return count;
}
