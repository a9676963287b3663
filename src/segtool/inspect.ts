// What there is: for every log and segment the facts that an operator asks for first.
import { CODEC_NAMES } from '../base/codec.ts';
import { recordsOf } from './batches.ts';
import type { LogReport } from './log-check.ts';
import type { BatchVisit } from './segment-scan.ts';
import type { ToolDeps } from './tool.ts';
import { verify, type VerifyReport } from './verify.ts';

const PRODUCERS_SHOWN_MAX = 1000;

interface CodecUse {
  batches: number;
  bytes: number;
  /** Of the records, decompressed. */
  plainBytes: number;
}

export interface SegmentFactsShown {
  readonly baseOffset: number;
  readonly nextOffset: number;
  readonly file: string;
  readonly fileBytes: number;
  readonly bytes: number;
  readonly batches: number;
  readonly records: number;
  readonly codecs: Readonly<Record<string, CodecUse>>;
  readonly firstTimestamp: number;
  readonly maxTimestamp: number;
  readonly firstEpoch: number;
  readonly lastEpoch: number;
  readonly producers: readonly number[];
  readonly index: string;
  readonly timeIndex: string;
  readonly seal: string;
  readonly lost: readonly { readonly from: number; readonly to: number }[];
}

export interface LogShown {
  readonly log: string;
  readonly directory: string;
  readonly logStart: number;
  readonly logEnd: number;
  readonly recoveryPoint: number | undefined;
  /** Where a sync mark is younger than the checkpoint: what it says was synced. */
  readonly syncedByMark: number | undefined;
  readonly highWatermark: number | undefined;
  readonly stoppedCleanly: boolean;
  readonly epochs: readonly { readonly epoch: number; readonly startOffset: number }[];
  readonly segments: readonly SegmentFactsShown[];
  readonly bytes: number;
  readonly batches: number;
  readonly records: number;
  readonly lost: readonly { readonly from: number; readonly to: number }[];
  readonly findings: number;
}

export interface InspectReport {
  readonly report: VerifyReport;
  readonly logs: readonly LogShown[];
}

interface Gathered {
  readonly codecs: Record<string, CodecUse>;
  readonly producers: Set<number>;
}

/** `ratios`: decompresses, which takes longer. */
export async function inspect(deps: ToolDeps, path: string, how: { readonly ratios: boolean }): Promise<InspectReport> {
  let gathered = new Map<number, Gathered>();
  const perLog: Map<number, Gathered>[] = [];
  let highest = Number.POSITIVE_INFINITY;
  const visit = (segment: number): BatchVisit => {
    // Segments come in order: one that is not higher begins another log.
    if (segment <= highest) {
      gathered = new Map();
      perLog.push(gathered);
    }
    highest = segment;
    const facts: Gathered = { codecs: {}, producers: new Set() };
    gathered.set(segment, facts);
    return (header, _position, bytes) => {
      const name = CODEC_NAMES[header.codec] ?? String(header.codec);
      const use = (facts.codecs[name] ??= { batches: 0, bytes: 0, plainBytes: 0 });
      use.batches += 1;
      use.bytes += bytes.length;
      if (header.codec === 0) use.plainBytes += bytes.length;
      else if (how.ratios) {
        const decoded = recordsOf(deps.compression, header, bytes);
        use.plainBytes += decoded.ok ? decoded.plainBytes + 61 : 0;
      }
      if (header.producerId >= 0 && facts.producers.size < PRODUCERS_SHOWN_MAX) facts.producers.add(header.producerId);
    };
  };
  const report = await verify(deps, path, { visit });
  const withSegments = report.logs.filter(({ segments }) => segments.length > 0);
  return { report, logs: report.logs.map((log) => shown(log, perLog[withSegments.indexOf(log)])) };
}

function shown(log: LogReport, gathered: ReadonlyMap<number, Gathered> | undefined): LogShown {
  const segments = log.segments.map((segment): SegmentFactsShown => {
    const { facts, faults, nextOffset } = segment.scan;
    const more = gathered?.get(segment.baseOffset);
    return {
      baseOffset: segment.baseOffset,
      nextOffset,
      file: segment.path,
      fileBytes: segment.fileBytes,
      bytes: facts.size,
      batches: facts.batchCount,
      records: facts.recordCount,
      codecs: more?.codecs ?? {},
      firstTimestamp: facts.firstTimestamp,
      maxTimestamp: facts.maxTimestamp,
      firstEpoch: facts.firstEpoch,
      lastEpoch: facts.lastEpoch,
      producers: [...(more?.producers ?? [])].toSorted((left, right) => left - right),
      index: segment.offsetIndex,
      timeIndex: segment.timeIndex,
      seal: segment.seal.state,
      lost: faults.filter(({ kind }) => kind === 'lost').map(({ from, to }) => ({ from, to })),
    };
  });
  const sum = (of: (segment: SegmentFactsShown) => number): number =>
    segments.reduce((total, segment) => total + of(segment), 0);
  const checkpoint = log.files.checkpoint.value;
  return {
    log: log.target.label,
    directory: log.target.directory,
    logStart: log.logStart,
    logEnd: log.logEnd,
    recoveryPoint: checkpoint?.recoveryPoint,
    syncedByMark: log.synced.isByMark ? log.synced.offset : undefined,
    highWatermark: checkpoint?.highWatermark,
    stoppedCleanly: checkpoint?.clean === true && !log.synced.isByMark,
    epochs: log.epochs.map(({ epoch, startOffset }) => ({ epoch, startOffset })),
    segments,
    bytes: sum(({ bytes }) => bytes),
    batches: sum(({ batches }) => batches),
    records: sum(({ records }) => records),
    lost: log.lost,
    findings: log.findings.length,
  };
}
