// What a repair of one log would do, as data: nothing is read or written here.
import type { Checkpoint } from '../format/checkpoint.ts';
import { epochAt, type EpochEntry } from '../format/epochs.ts';
import { SEGMENT_BYTES_MAX } from '../base/limits.ts';
import type { Patch } from './batch-probe.ts';
import type { LogReport, SegmentReport } from './log-check.ts';
import { LOSSES_FILE, sideName, type KnownLoss } from './log-files.ts';

/** Intact batches of one file, to be copied. */
export interface Piece {
  /** copy: of the other copy that was given with --from. */
  readonly source: 'log' | 'copy';
  readonly path: string;
  readonly position: number;
  readonly end: number;
  readonly baseOffset: number;
  readonly nextOffset: number;
  readonly firstEpoch: number;
  readonly lastEpoch: number;
  readonly patches: readonly Patch[];
}

export interface CheckpointDraft {
  /** As it stands, when only one slot is damaged. */
  readonly keep: Checkpoint | undefined;
  readonly sequence: number;
  readonly recoveryPoint: number;
  readonly segmentBase: number;
  readonly logStart: number;
  readonly highWatermark: number;
  readonly epochs: readonly EpochEntry[];
}

export type PlanStep =
  /** A segment file anew, with its indexes and seal unless it is the last. */
  | {
      readonly kind: 'segment';
      readonly base: number;
      readonly pieces: readonly Piece[];
      readonly isLast: boolean;
      readonly rolledMs: number;
      readonly interval: number;
      readonly epochBefore: number;
      readonly why: string;
    }
  /** An empty segment: offsets from here to the next one are lost. */
  | { readonly kind: 'marker'; readonly base: number; readonly to: number; readonly why: string }
  /** Indexes and seal of a segment that stays as it is. */
  | {
      readonly kind: 'derive';
      readonly base: number;
      readonly bytes: number;
      readonly isLast: boolean;
      readonly rolledMs: number;
      readonly interval: number;
      readonly epochBefore: number;
      readonly why: string;
    }
  | { readonly kind: 'checkpoint'; readonly draft: CheckpointDraft; readonly why: string }
  | { readonly kind: 'losses'; readonly losses: readonly KnownLoss[]; readonly why: string }
  | { readonly kind: 'remove'; readonly name: string; readonly why: string };

export interface LogPlan {
  readonly directory: string;
  readonly label: string;
  readonly steps: readonly PlanStep[];
  /** What stays lost, earlier losses included. */
  readonly lost: readonly KnownLoss[];
  /** Lost here, and put back from the other copy. */
  readonly restored: readonly KnownLoss[];
}

const INTERVAL_DEFAULT = 4096;

/** Where batches are missing: what another copy may fill. */
export function holesOf(report: LogReport): readonly KnownLoss[] {
  return holesBetween(cover(report), report.logStart, report.logEnd);
}

export function planLog(report: LogReport, fromCopy: readonly Piece[] = []): LogPlan {
  const own = cover(report);
  const before = holesBetween(own, report.logStart, report.logEnd);
  const pieces = [...own];
  for (const piece of fromCopy) insert(pieces, piece);
  const lost = holesBetween(pieces, report.logStart, report.logEnd);
  const restored = before.filter(({ from, to }) => !lost.some((hole) => hole.from < to && hole.to > from));
  return {
    directory: report.target.directory,
    label: report.target.label,
    steps: new Planner(report, pieces, lost).steps(),
    lost,
    restored,
  };
}

/** The intact batches of the log in the order of their offsets: those in their places, and what fills holes from elsewhere. */
function cover(report: LogReport): Piece[] {
  const pieces: Piece[] = [];
  for (const { path, scan } of report.segments)
    for (const run of scan.runs) insert(pieces, { source: 'log', path, ...run });
  const strays = report.segments.flatMap(({ path, scan }) => scan.strays.map((stray) => ({ path, stray })));
  for (const { path, stray } of strays.toSorted(
    (left, right) => left.stray.header.baseOffset - right.stray.header.baseOffset,
  )) {
    const { header, position, size, patches } = stray;
    const nextOffset = header.lastOffset + 1;
    if (header.baseOffset < report.logStart || nextOffset > report.logEnd) continue;
    const known =
      report.files.checkpoint.value === undefined || header.baseOffset >= report.files.checkpoint.value.recoveryPoint
        ? undefined
        : epochAt(report.epochs, header.baseOffset);
    if (known !== undefined && known !== header.leaderEpoch) continue;
    insert(pieces, {
      source: 'log',
      path,
      position,
      end: position + size,
      baseOffset: header.baseOffset,
      nextOffset,
      firstEpoch: header.leaderEpoch,
      lastEpoch: header.leaderEpoch,
      patches,
    });
  }
  return pieces;
}

/** Kept only where nothing lies yet and the epochs on both sides allow it. */
function insert(pieces: Piece[], piece: Piece): void {
  let low = 0;
  let high = pieces.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((pieces[middle]?.baseOffset ?? 0) <= piece.baseOffset) low = middle + 1;
    else high = middle;
  }
  const [before, after] = [pieces[low - 1], pieces[low]];
  if (before !== undefined && (before.nextOffset > piece.baseOffset || before.lastEpoch > piece.firstEpoch)) return;
  if (after !== undefined && (after.baseOffset < piece.nextOffset || after.firstEpoch < piece.lastEpoch)) return;
  pieces.splice(low, 0, piece);
}

function holesBetween(pieces: readonly Piece[], logStart: number, logEnd: number): readonly KnownLoss[] {
  const holes: KnownLoss[] = [];
  let next = logStart;
  for (const piece of pieces) {
    if (piece.baseOffset > next) holes.push({ from: next, to: piece.baseOffset });
    next = Math.max(next, piece.nextOffset);
  }
  if (next < logEnd) holes.push({ from: next, to: logEnd });
  return holes;
}

interface OutputFile {
  readonly base: number;
  readonly pieces: Piece[];
  readonly next: number;
}

class Planner {
  private readonly report: LogReport;
  private readonly pieces: readonly Piece[];
  private readonly lost: readonly KnownLoss[];
  private readonly made: PlanStep[] = [];
  private readonly bySegment: ReadonlyMap<number, SegmentReport>;
  constructor(report: LogReport, pieces: readonly Piece[], lost: readonly KnownLoss[]) {
    this.report = report;
    this.pieces = pieces;
    this.lost = lost;
    this.bySegment = new Map(report.segments.map((segment) => [segment.baseOffset, segment]));
  }

  steps(): readonly PlanStep[] {
    const { report, made } = this;
    const files = this.group();
    const lastBase = files.at(-1)?.base;
    const bases = new Set(files.map(({ base }) => base));
    for (const segment of report.segments) {
      if (bases.has(segment.baseOffset)) continue;
      for (const suffix of ['log', 'index', 'timeindex', 'seal'] as const)
        this.remove(sideName(segment.baseOffset, suffix), 'its intact batches go into other files');
    }
    for (const file of files) this.planFile(file, file.base === lastBase);
    for (const { code, file } of report.findings) {
      if (code !== 'ORPHAN_FILE' && code !== 'SNAPSHOT_DAMAGED') continue;
      const name = file.slice(file.lastIndexOf('/') + 1);
      // One that the new files have replaced stays.
      if (!bases.has(Number(name.slice(0, 20))) || code === 'SNAPSHOT_DAMAGED')
        this.remove(name, code === 'ORPHAN_FILE' ? 'its segment is not there' : 'it cannot be read');
    }
    this.planLosses();
    this.planCheckpoint(files);
    return made;
  }

  /** Output files in the order of offsets; a hole is one without pieces. */
  private group(): readonly OutputFile[] {
    const { report } = this;
    const files: OutputFile[] = [];
    let last: { base: number; pieces: Piece[]; next: number } | undefined;
    let home = -1;
    let bytes = 0;
    for (const piece of this.pieces) {
      const belongs = report.segments.findLast(({ baseOffset }) => baseOffset <= piece.baseOffset)?.baseOffset ?? -1;
      const size = piece.end - piece.position;
      if (last?.next !== piece.baseOffset || belongs !== home || bytes + size > SEGMENT_BYTES_MAX) {
        last = { base: piece.baseOffset, pieces: [], next: piece.baseOffset };
        files.push(last);
        bytes = 0;
      }
      last.pieces.push(piece);
      last.next = piece.nextOffset;
      home = belongs;
      bytes += size;
    }
    for (const hole of this.lost) files.push({ base: hole.from, pieces: [], next: hole.to });
    const taken = new Set(files.map(({ base }) => base));
    const end = report.logEnd;
    const active = report.segments.at(-1);
    // What is empty and last stays; behind a hole at the end, or in a log of nothing, a new one begins.
    if (
      !taken.has(end) &&
      (active?.baseOffset === end ||
        files.length === 0 ||
        files.some(({ pieces, next }) => pieces.length === 0 && next === end))
    )
      files.push({ base: end, pieces: [], next: end });
    return files.toSorted((left, right) => left.base - right.base);
  }

  private planFile(file: OutputFile, isLast: boolean): void {
    const { base, pieces } = file;
    const segment = this.bySegment.get(base);
    if (pieces.length === 0) {
      this.planEmpty(file, segment);
      return;
    }
    const seal =
      segment?.seal.value ?? this.report.segments.findLast(({ baseOffset }) => baseOffset <= base)?.seal.value;
    const rolledMs = seal?.facts.rolledMs ?? -1;
    const interval =
      segment?.interval ??
      this.report.segments.find((each) => each.interval !== undefined)?.interval ??
      INTERVAL_DEFAULT;
    const epochBefore = this.pieces.findLast(({ nextOffset }) => nextOffset <= base)?.lastEpoch ?? -1;
    const [only] = pieces;
    const stays =
      segment !== undefined &&
      only !== undefined &&
      pieces.length === 1 &&
      only.source === 'log' &&
      only.path === segment.path &&
      only.position === 0 &&
      only.patches.length === 0 &&
      this.keepsEnd(segment, only, isLast);
    if (!stays) {
      this.made.push({
        kind: 'segment',
        base,
        pieces,
        isLast,
        rolledMs,
        interval,
        epochBefore,
        why: segment === undefined ? 'intact batches behind a loss' : 'only its intact batches',
      });
      return;
    }
    const sealFits =
      segment.seal.state === 'good' && segment.seal.value?.nextOffset === file.next && segment.scan.faults.length === 0;
    const indexesFit = segment.offsetIndex === 'good' && segment.timeIndex === 'good';
    if (isLast ? segment.isSound || segment.offsetIndex === 'none' : sealFits && indexesFit) return;
    this.made.push({
      kind: 'derive',
      base,
      bytes: only.end,
      isLast,
      rolledMs,
      interval,
      epochBefore,
      why: 'the log tells what they held',
    });
  }

  private keepsEnd(segment: SegmentReport, only: Piece, isLast: boolean): boolean {
    if (only.end === segment.fileBytes) return true;
    // Prepared space stays with the last one.
    return isLast && segment.scan.tail.kind !== 'torn' && segment.scan.faults.length === 0;
  }

  private planEmpty({ base, next }: OutputFile, segment: SegmentReport | undefined): void {
    if (segment === undefined || segment.fileBytes > 0) {
      if (segment === undefined || next > base || segment.scan.facts.size > 0 || segment.scan.tail.kind === 'torn')
        this.made.push({
          kind: 'marker',
          base,
          to: next,
          why: next > base ? 'what is lost reads as damaged' : 'the log goes on here',
        });
    }
    if (next > base)
      for (const suffix of ['index', 'timeindex', 'seal'] as const)
        this.remove(sideName(base, suffix), 'nothing of its segment is left');
  }

  private planLosses(): void {
    const { files } = this.report;
    const same =
      files.knownLosses.length === this.lost.length &&
      this.lost.every(
        ({ from, to }, index) => files.knownLosses[index]?.from === from && files.knownLosses[index].to === to,
      );
    if (same) return;
    if (this.lost.length === 0) this.remove(LOSSES_FILE, 'nothing is lost any more');
    else this.made.push({ kind: 'losses', losses: this.lost, why: 'so that verify knows them' });
  }

  private planCheckpoint(outputs: readonly OutputFile[]): void {
    const { report, made } = this;
    const { kind, value } = report.files.checkpoint;
    const lastBase = outputs.at(-1)?.base ?? report.logEnd;
    const touched = new Set(
      made.flatMap((step) =>
        step.kind === 'segment' || step.kind === 'marker'
          ? [sideName(step.base, 'log')]
          : step.kind === 'remove'
            ? [step.name]
            : [],
      ),
    );
    const oldLast = report.segments.at(-1)?.baseOffset;
    const place = value === undefined ? undefined : sideName(value.segmentBase, 'log');
    // Its place may lie in what is gone, also where the file itself stays as it is.
    const placed = report.segments.find(({ baseOffset }) => baseOffset === value?.segmentBase);
    const moved =
      (placed !== undefined && placed.scan.faults.length > 0) ||
      lastBase !== oldLast ||
      touched.has(sideName(lastBase, 'log')) ||
      (place !== undefined && touched.has(place));
    const wrong = report.findings.some(({ code }) => code === 'CHECKPOINT_WRONG');
    if (kind === 'ok' && !moved && !wrong) return;
    const keep = kind === 'slot-damaged' && !moved && !wrong ? value : undefined;
    const walked = report.segments.flatMap(({ scan }) => scan.epochs);
    const epochs = [...report.epochs];
    for (const entry of walked)
      if (entry.epoch > (epochs.at(-1)?.epoch ?? -1) && entry.startOffset > (epochs.at(-1)?.startOffset ?? -1))
        epochs.push(entry);
    made.push({
      kind: 'checkpoint',
      draft: {
        keep,
        // Above that of every sync mark, too: what they say is in it.
        sequence: report.synced.sequence + 1,
        recoveryPoint: report.logEnd,
        segmentBase: lastBase,
        logStart: report.logStart,
        highWatermark: Math.min(value?.highWatermark ?? 0, report.logEnd),
        epochs,
      },
      why: keep === undefined ? 'what the files hold now' : 'both slots from the intact one',
    });
  }

  private remove(name: string, why: string): void {
    if (this.report.files.names.has(name) && !this.made.some((step) => step.kind === 'remove' && step.name === name))
      this.made.push({ kind: 'remove', name, why });
  }
}
