// Judges one log: every batch, and whether segments, indexes, seals and checkpoint say the same.
import type { Checkpoint } from '../format/checkpoint.ts';
import type { EpochEntry } from '../format/epochs.ts';
import { OWNER_SNAPSHOT_BYTES_MAX, decodeOwnerSnapshot } from '../format/owner-snapshot.ts';
import { decodeSeal, SEAL_BYTES_MAX, type Seal } from '../format/seal.ts';
import type { DiskFile } from '../ports/disk.ts';
import { readSmallFile } from '../storage/small-file.ts';
import { finding, type Finding, type FindingCode } from './findings.ts';
import { IndexCheck } from './index-check.ts';
import { readLogFiles, sideName, type KnownLoss, type LogFiles } from './log-files.ts';
import { scanSegment, type BatchVisit, type Fault, type ScanWish, type SegmentScan } from './segment-scan.ts';
import { findSyncedPoint, type SyncedPoint } from './synced-point.ts';
import type { LogTarget } from './targets.ts';
import { within, type ToolDeps } from './tool.ts';

export type SealState = 'none' | 'good' | 'missing' | 'damaged' | 'wrong';

export interface SegmentReport {
  readonly baseOffset: number;
  readonly path: string;
  readonly fileBytes: number;
  readonly isLast: boolean;
  /** Where the next segment begins, or the log ends. */
  readonly boundary: number;
  readonly scan: SegmentScan;
  readonly seal: { readonly state: SealState; readonly value: Seal | undefined };
  readonly offsetIndex: string;
  readonly timeIndex: string;
  readonly interval: number | undefined;
  /** Nothing about it is to be repaired. */
  readonly isSound: boolean;
}

export interface LogReport {
  readonly target: LogTarget;
  readonly files: LogFiles;
  readonly segments: readonly SegmentReport[];
  readonly findings: readonly Finding[];
  readonly logStart: number;
  readonly logEnd: number;
  /** Ascending, known ones included. */
  readonly lost: readonly { readonly from: number; readonly to: number }[];
  readonly synced: SyncedPoint;
  readonly epochs: readonly EpochEntry[];
}

export interface CheckOptions {
  readonly visit?: (segment: number) => BatchVisit;
}

export async function checkLog(deps: ToolDeps, target: LogTarget, options: CheckOptions = {}): Promise<LogReport> {
  const files = await readLogFiles(deps, target.directory);
  const synced = await findSyncedPoint(deps, target.directory, files.bases, files.checkpoint.value);
  const checker = new LogChecker(deps, target, files, synced, options);
  return await checker.run();
}

const CHECKPOINT_FINDINGS: Readonly<Record<LogFiles['checkpoint']['kind'], FindingCode | undefined>> = {
  ok: undefined,
  'slot-damaged': 'CHECKPOINT_SLOT_DAMAGED',
  lost: 'CHECKPOINT_LOST',
  missing: 'CHECKPOINT_MISSING',
};

class LogChecker {
  private readonly deps: ToolDeps;
  private readonly target: LogTarget;
  private readonly files: LogFiles;
  private readonly synced: SyncedPoint;
  private readonly options: CheckOptions;
  private readonly findings: Finding[] = [];
  private readonly segments: SegmentReport[] = [];
  private readonly lost: KnownLoss[] = [];
  private readonly epochs: EpochEntry[] = [];

  constructor(deps: ToolDeps, target: LogTarget, files: LogFiles, synced: SyncedPoint, options: CheckOptions) {
    this.deps = deps;
    this.target = target;
    this.files = files;
    this.synced = synced;
    this.options = options;
  }

  async run(): Promise<LogReport> {
    const { files, target } = this;
    const checkpoint = files.checkpoint.value;
    const first = files.bases[0];
    const logStart = checkpoint?.logStart ?? first ?? 0;
    if (target.only === undefined) this.checkDirectory(logStart, first);
    for (const [index, base] of files.bases.entries()) {
      if (target.only === undefined || target.only === base) await this.checkSegment(base, files.bases[index + 1]);
    }
    const last = this.segments.at(-1);
    const logEnd = this.withStrays(Math.max(last?.boundary ?? 0, this.synced.offset ?? 0, logStart));
    if (target.only === undefined) {
      if (last === undefined && logEnd > logStart)
        this.noteLost('SEGMENT_MISSING', target.directory, logStart, logEnd, 'the directory holds no segment');
      this.checkPlace(checkpoint, logEnd);
      for (const name of files.snapshots) await this.checkSnapshot(name);
    }
    return {
      target,
      files,
      segments: this.segments,
      findings: this.findings,
      logStart,
      logEnd,
      lost: merged(this.lost),
      synced: this.synced,
      epochs: checkpoint !== undefined && !checkpoint.epochsCut ? checkpoint.epochs : this.epochs,
    };
  }

  /** The log goes on in batches that lie elsewhere: their segments were swapped. */
  private withStrays(end: number): number {
    const strays = this.segments
      .flatMap(({ scan }) => scan.strays)
      .toSorted((left, right) => left.header.baseOffset - right.header.baseOffset);
    let next = end;
    let epoch = this.epochs.at(-1)?.epoch ?? -1;
    for (const { header } of strays) {
      if (header.baseOffset !== next || header.leaderEpoch < epoch) continue;
      next = header.lastOffset + 1;
      epoch = header.leaderEpoch;
    }
    return next;
  }

  private checkDirectory(logStart: number, first: number | undefined): void {
    const { files } = this;
    const path = within(files.directory, 'checkpoint');
    const code = CHECKPOINT_FINDINGS[files.checkpoint.kind];
    if (code !== undefined) this.add(code, path, files.checkpoint.kind);
    if (first !== undefined && first > logStart)
      this.noteLost(
        'SEGMENT_MISSING',
        this.logPath(logStart),
        logStart,
        first,
        `the log begins at ${String(logStart)}, the first segment at ${String(first)}`,
      );
    for (const name of files.orphans) this.add('ORPHAN_FILE', within(files.directory, name), 'its .log is not there');
    for (const name of files.leftovers)
      this.add('LEFTOVER_FILE', within(files.directory, name), 'left by a crash, or kept for the next segment');
  }

  /** The recovery point names a segment and a place in it. */
  private checkPlace(checkpoint: Checkpoint | undefined, logEnd: number): void {
    if (checkpoint === undefined) return;
    const segment = this.segments.find(({ baseOffset }) => baseOffset === checkpoint.segmentBase);
    const path = within(this.files.directory, 'checkpoint');
    if (segment === undefined) {
      if (this.segments.length > 0)
        this.add(
          'CHECKPOINT_WRONG',
          path,
          `it names the segment ${String(checkpoint.segmentBase)}, which is not there`,
        );
      return;
    }
    const run = segment.scan.runs.find(
      (each) => each.position <= checkpoint.segmentPosition && checkpoint.segmentPosition <= each.end,
    );
    if (checkpoint.segmentPosition > segment.fileBytes && segment.scan.faults.length === 0)
      this.add(
        'CHECKPOINT_WRONG',
        path,
        `position ${String(checkpoint.segmentPosition)} lies behind the end of the segment`,
      );
    else if (
      run !== undefined &&
      run.end === checkpoint.segmentPosition &&
      run.nextOffset < checkpoint.recoveryPoint &&
      segment.scan.faults.length === 0
    )
      this.add(
        'CHECKPOINT_WRONG',
        path,
        `recovery point ${String(checkpoint.recoveryPoint)}, the segment has ${String(run.nextOffset)} there`,
      );
    if (logEnd < checkpoint.highWatermark)
      this.add(
        'CHECKPOINT_WRONG',
        path,
        `high watermark ${String(checkpoint.highWatermark)} behind the end ${String(logEnd)}`,
      );
  }

  private async checkSegment(base: number, nextBase: number | undefined): Promise<void> {
    const path = this.logPath(base);
    const file = await this.deps.disk.open(path, 'read');
    try {
      await this.checkOpenSegment(file, path, base, nextBase);
    } finally {
      await file.close();
    }
  }

  private async checkOpenSegment(
    file: DiskFile,
    path: string,
    base: number,
    nextBase: number | undefined,
  ): Promise<void> {
    const checkpoint = this.files.checkpoint.value;
    const isLast = nextBase === undefined;
    const fileBytes = await file.size();
    const seal = await this.readSeal(base, nextBase);
    // A mark that is younger than the checkpoint of a clean stop: the log was written to after it.
    const atRest =
      isLast && checkpoint?.clean === true && checkpoint.segmentBase === base && !this.synced.isByMark
        ? checkpoint.active
        : undefined;
    const to = this.synced.marks.get(base)?.at ?? fileBytes;
    // Its own seal says where it ends: what is missing from there to the next segment was another one.
    const sealedEnd =
      seal.state === 'good' && seal.value !== undefined && seal.value.nextOffset <= (nextBase ?? 0)
        ? seal.value.nextOffset
        : undefined;
    const wish: ScanWish = {
      path,
      baseOffset: base,
      boundary: sealedEnd ?? nextBase ?? (atRest === undefined ? undefined : checkpoint?.recoveryPoint),
      to,
      recoveryPoint: isLast ? (this.synced.offset ?? base) : Number.POSITIVE_INFINITY,
      epochAtLeast: this.epochs.at(-1)?.epoch ?? -1,
      ...this.history(seal.value, checkpoint),
    };
    const { scan, indexes } = await this.scanWithIndexes(file, wish, fileBytes);
    const before = this.findings.length;
    for (const fault of scan.faults) this.noteFault(path, fault, fileBytes, base, nextBase);
    this.noteCheckpointCrc(atRest?.crc, scan.facts.crc);
    this.noteTail(path, scan, { fileBytes, to, isLast, atRest: atRest !== undefined });
    const hasIndexes = !isLast || atRest !== undefined;
    const clean = scan.faults.length === 0;
    const states =
      hasIndexes && clean
        ? this.noteIndexes(base, indexes, scan)
        : { offsetIndex: clean ? 'none' : 'unjudged', timeIndex: clean ? 'none' : 'unjudged' };
    const sealState = this.noteSeal(base, seal, scan, isLast);
    this.segments.push({
      baseOffset: base,
      path,
      fileBytes,
      isLast,
      boundary: sealedEnd ?? nextBase ?? scan.nextOffset,
      scan,
      seal: { state: sealState, value: seal.value },
      ...states,
      interval: indexes.interval,
      isSound: this.findings.slice(before).every(({ severity }) => severity === 'note'),
    });
    if (sealedEnd !== undefined && nextBase !== undefined && sealedEnd < nextBase)
      this.noteLost(
        'SEGMENT_MISSING',
        this.logPath(sealedEnd),
        sealedEnd,
        nextBase,
        'a segment between two others is gone',
      );
  }

  /** Reads the segment once, for its batches, its indexes and who else looks at them. */
  private async scanWithIndexes(
    file: DiskFile,
    wish: ScanWish,
    fileBytes: number,
  ): Promise<{ scan: SegmentScan; indexes: IndexCheck }> {
    const { baseOffset: base } = wish;
    const offsets = await this.readIndex(base, 'index', fileBytes);
    const times = await this.readIndex(base, 'timeindex', fileBytes);
    const indexes = new IndexCheck(offsets, times);
    const visit = this.options.visit?.(base);
    const scan = await scanSegment(this.deps, file, wish, (header, at, bytes, maxBefore) => {
      indexes.note(header.baseOffset - base, at, maxBefore);
      visit?.(header, at, bytes, maxBefore);
    });
    for (const entry of scan.epochs) if (entry.epoch > (this.epochs.at(-1)?.epoch ?? -1)) this.epochs.push(entry);
    return { scan, indexes };
  }

  private noteCheckpointCrc(said: number | undefined, found: number | undefined): void {
    if (said === undefined || found === undefined || said === found) return;
    this.add(
      'CHECKPOINT_WRONG',
      within(this.files.directory, 'checkpoint'),
      `checksum of the active segment ${hex(found)}, the checkpoint says ${hex(said)}`,
    );
  }

  /** Which epoch a batch must have: by the seal of its own segment, else by the checkpoint. */
  private history(
    seal: Seal | undefined,
    checkpoint: Checkpoint | undefined,
  ): { epochs: readonly EpochEntry[]; epochsUpTo: number } {
    if (checkpoint !== undefined && !checkpoint.epochsCut)
      return { epochs: checkpoint.epochs, epochsUpTo: checkpoint.recoveryPoint };
    if (seal === undefined || seal.epochsCut)
      return { epochs: checkpoint?.epochs ?? [], epochsUpTo: checkpoint?.recoveryPoint ?? 0 };
    const begun = seal.epochs[0]?.startOffset === seal.baseOffset || seal.facts.firstEpoch < 0;
    const first = seal.epochs[0];
    const earlier =
      begun || (first !== undefined && first.epoch <= seal.facts.firstEpoch)
        ? []
        : [{ epoch: seal.facts.firstEpoch as EpochEntry['epoch'], startOffset: seal.baseOffset }];
    return { epochs: [...earlier, ...seal.epochs], epochsUpTo: seal.nextOffset };
  }

  private async readSeal(
    base: number,
    nextBase: number | undefined,
  ): Promise<{ state: SealState; value: Seal | undefined; detail: string }> {
    if (nextBase === undefined) return { state: 'none', value: undefined, detail: '' };
    const path = within(this.files.directory, sideName(base, 'seal'));
    if (!this.files.names.has(sideName(base, 'seal'))) return { state: 'missing', value: undefined, detail: 'no file' };
    const bytes = await readSmallFile(this.deps.disk, path, SEAL_BYTES_MAX);
    const decoded = bytes === undefined ? undefined : decodeSeal(bytes, this.deps.crc32c);
    if (decoded?.ok !== true)
      return { state: 'damaged', value: undefined, detail: decoded?.reason ?? 'too large for a seal' };
    const seal = decoded.value;
    if (seal.baseOffset !== base)
      return { state: 'wrong', value: undefined, detail: `it is that of segment ${String(seal.baseOffset)}` };
    return { state: 'good', value: seal, detail: '' };
  }

  private noteSeal(
    base: number,
    seal: { state: SealState; value: Seal | undefined; detail: string },
    scan: SegmentScan,
    isLast: boolean,
  ): SealState {
    const path = within(this.files.directory, sideName(base, 'seal'));
    if (isLast) return 'none';
    if (seal.state === 'missing') {
      // A damaged segment has none: no seal may call its bytes good.
      if (scan.faults.length === 0) this.add('SEAL_MISSING', path, seal.detail);
      return 'missing';
    }
    if (seal.state === 'damaged') this.add('SEAL_DAMAGED', path, seal.detail);
    if (seal.state === 'wrong') this.add('SEAL_WRONG', path, seal.detail);
    if (seal.state !== 'good' || seal.value === undefined || scan.faults.length > 0) return seal.state;
    const wrong = sealDifference(seal.value, scan);
    if (wrong === undefined) return 'good';
    this.add('SEAL_WRONG', path, wrong);
    return 'wrong';
  }

  private noteIndexes(
    base: number,
    indexes: IndexCheck,
    scan: SegmentScan,
  ): { offsetIndex: string; timeIndex: string } {
    const [index, times] = [
      within(this.files.directory, sideName(base, 'index')),
      within(this.files.directory, sideName(base, 'timeindex')),
    ];
    const { offsetState, timeState } = indexes;
    if (scan.facts.batchCount === 0 && offsetState === 'missing' && timeState === 'missing')
      return { offsetIndex: 'none', timeIndex: 'none' };
    if (offsetState === 'missing') this.add('INDEX_MISSING', index, 'no file');
    if (offsetState === 'wrong') this.add('INDEX_WRONG', index, 'an entry is not that of a batch');
    if (offsetState === 'incomplete') this.add('INDEX_INCOMPLETE', index, 'entries do not keep one distance');
    if (timeState === 'missing') this.add('TIME_INDEX_MISSING', times, 'no file');
    if (timeState === 'wrong') this.add('TIME_INDEX_WRONG', times, 'an entry is not what the batches say');
    return { offsetIndex: offsetState, timeIndex: timeState };
  }

  private noteFault(path: string, fault: Fault, fileBytes: number, base: number, nextBase: number | undefined): void {
    const place = { position: fault.position };
    if (fault.kind === 'changed') this.add('BATCH_HEADER_CHANGED', path, fault.detail, place);
    else if (fault.kind === 'misplaced') this.add('BATCH_MISPLACED', path, fault.detail, place);
    else if (fault.kind === 'foreign') this.add('FOREIGN_BYTES', path, fault.detail, place);
    else {
      // An empty file between others is how repair marks what is lost.
      const marks = fileBytes === 0 && fault.from === base && fault.to === nextBase;
      const code = fault.position >= fileBytes || fault.position === fault.end ? 'OFFSETS_MISSING' : 'BATCH_DAMAGED';
      this.noteLost(code, path, fault.from, fault.to, fault.detail, marks ? undefined : fault.position);
    }
  }

  private noteTail(
    path: string,
    scan: SegmentScan,
    where: { readonly fileBytes: number; readonly to: number; readonly isLast: boolean; readonly atRest: boolean },
  ): void {
    const { size } = scan.facts;
    const { fileBytes, to, isLast, atRest } = where;
    if (!isLast) {
      const end = scan.faults.at(-1)?.end ?? size;
      if (fileBytes > Math.max(end, size) && scan.nextOffset >= 0 && scan.faults.length === 0)
        this.add('BYTES_BEHIND_END', path, `${String(fileBytes - size)} bytes behind the last batch`, {
          position: size,
        });
      return;
    }
    // Behind the end that a clean stop recorded there is only prepared space.
    if (atRest || scan.faults.at(-1)?.end === to) return;
    if (scan.tail.kind === 'torn') this.add('TORN_TAIL', path, scan.tail.detail, { position: size });
    if (scan.tail.kind === 'bytes') this.add('UNUSED_BYTES', path, scan.tail.detail, { position: size });
  }

  private async checkSnapshot(name: string): Promise<void> {
    const path = within(this.files.directory, name);
    const bytes = await readSmallFile(this.deps.disk, path, OWNER_SNAPSHOT_BYTES_MAX);
    const content = bytes === undefined ? undefined : decodeOwnerSnapshot(bytes, this.deps.crc32c);
    if (content?.ok !== true) this.add('SNAPSHOT_DAMAGED', path, content?.reason ?? 'too large for a snapshot');
  }

  private noteLost(code: FindingCode, path: string, from: number, to: number, detail: string, position?: number): void {
    this.lost.push({ from, to });
    const offsets = { from, to };
    const known = this.files.knownLosses.some((loss) => loss.from <= from && to <= loss.to) && position === undefined;
    this.findings.push(
      finding(
        known ? 'KNOWN_LOSS' : code,
        path,
        known ? 'marked by an earlier repair' : detail,
        position === undefined ? { offsets } : { offsets, position },
      ),
    );
  }

  private add(code: FindingCode, path: string, detail: string, place: { position?: number } = {}): void {
    this.findings.push(finding(code, path, detail, place));
  }
  private logPath(base: number): string {
    return within(this.files.directory, sideName(base, 'log'));
  }
  private readIndex(base: number, suffix: 'index' | 'timeindex', fileBytes: number): Promise<Uint8Array | undefined> {
    return readSmallFile(this.deps.disk, within(this.files.directory, sideName(base, suffix)), 2 * fileBytes + 64);
  }
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0');
}

function sealDifference(seal: Seal, { facts, nextOffset }: SegmentScan): string | undefined {
  const differ = (name: string, said: number, found: number): string | undefined =>
    said === found ? undefined : `${name} ${String(said)}, the segment has ${String(found)}`;
  return (
    differ('next offset', seal.nextOffset, nextOffset) ??
    differ('size', seal.facts.size, facts.size) ??
    differ('checksum', seal.facts.crc, facts.crc ?? -1) ??
    differ('record count', seal.facts.recordCount, facts.recordCount) ??
    differ('batch count', seal.facts.batchCount, facts.batchCount) ??
    differ('first timestamp', seal.facts.firstTimestamp, facts.firstTimestamp) ??
    differ('largest timestamp', seal.facts.maxTimestamp, facts.maxTimestamp) ??
    differ('first epoch', seal.facts.firstEpoch, facts.firstEpoch) ??
    differ('last epoch', seal.facts.lastEpoch, facts.lastEpoch)
  );
}

function merged(ranges: readonly KnownLoss[]): readonly KnownLoss[] {
  const all: { from: number; to: number }[] = [];
  for (const { from, to } of ranges.toSorted((left, right) => left.from - right.from)) {
    const last = all.at(-1);
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
    else all.push({ from, to });
  }
  return all;
}
