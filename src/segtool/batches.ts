// The intact batches of a log in order, piece by piece, and what is missing between them; their records when they are asked for.
import { DecodeError } from '../base/bytes.ts';
import { codecName } from '../base/codec.ts';
import { offset } from '../base/brands.ts';
import { BATCH_HEADER_BYTES, type BatchHeader } from '../format/batch.ts';
import { decodeRecords, type LogRecord } from '../format/records.ts';
import { CompressionError, type Compression } from '../ports/compression.ts';
import { walkFile } from '../storage/file-walk.ts';
import type { LogReport } from './log-check.ts';
import type { ToolDeps } from './tool.ts';

export interface FoundBatch {
  readonly kind: 'batch';
  readonly path: string;
  readonly position: number;
  readonly header: BatchHeader;
  readonly bytes: Uint8Array;
}

/** Offsets that should be there and are not. */
export interface Skipped {
  readonly kind: 'skipped';
  readonly from: number;
  readonly to: number;
}

export interface OffsetBounds {
  readonly from?: number | undefined;
  /** Not included. */
  readonly to?: number | undefined;
}

const PIECE_BYTES = 1024 * 1024;
/** What the records of one batch may take when they are decompressed. */
const RECORDS_BYTES_MAX = 256 * 1024 * 1024;

/** Works past damage: every batch that is given was checked. Header fields that repair would write back are as repair writes them. */
export async function* readBatches(
  deps: ToolDeps,
  log: LogReport,
  bounds: OffsetBounds = {},
): AsyncGenerator<FoundBatch | Skipped> {
  const { from = 0, to = Number.MAX_SAFE_INTEGER } = bounds;
  let next = Math.max(log.logStart, from);
  for (const segment of log.segments) {
    for (const run of segment.scan.runs) {
      if (run.nextOffset <= from || run.baseOffset >= to) continue;
      if (run.baseOffset > next) yield { kind: 'skipped', from: next, to: run.baseOffset };
      next = Math.max(next, run.nextOffset);
      if (run.patches.length > 0) {
        // Not as they stand in the file, and rare: repair puts them right first.
        yield { kind: 'skipped', from: run.baseOffset, to: run.nextOffset };
        continue;
      }
      yield* readRun(deps, segment.path, run, from, to);
    }
  }
  if (next < Math.min(log.logEnd, to)) yield { kind: 'skipped', from: next, to: Math.min(log.logEnd, to) };
}

async function* readRun(
  deps: ToolDeps,
  path: string,
  run: { readonly position: number; readonly end: number; readonly baseOffset: number },
  from: number,
  to: number,
): AsyncGenerator<FoundBatch> {
  const file = await deps.disk.open(path, 'read');
  try {
    let at = { position: run.position, offset: offset(run.baseOffset) };
    while (at.position < run.end) {
      const found: FoundBatch[] = [];
      let held = 0;
      let past = false;
      const stop = await walkFile(
        file,
        deps.clock,
        deps.crc32c,
        { ...at, epochAtLeast: -1, to: run.end },
        ({ header, position, bytes }) => {
          past = header.baseOffset >= to;
          if (past) return false;
          if (header.lastOffset >= from) {
            found.push({ kind: 'batch', path, position, header, bytes: bytes.slice() });
            held += bytes.length;
          }
          return held < PIECE_BYTES;
        },
      );
      yield* found;
      // oxlint-disable-next-line typescript/no-unnecessary-condition -- set by the callback, which narrowing does not see
      if (stop.kind !== 'stopped' || past) return;
      at = { position: stop.position, offset: stop.offset };
    }
  } finally {
    await file.close();
  }
}

export type BatchRecords =
  | { readonly ok: true; readonly records: readonly LogRecord[]; readonly plainBytes: number }
  | { readonly ok: false; readonly reason: string };

/** Decompressed and decoded; a batch whose producer made it wrong gives the reason. */
export function recordsOf(compression: Compression, header: BatchHeader, bytes: Uint8Array): BatchRecords {
  const codec = codecName(header.codec);
  const packed = bytes.subarray(BATCH_HEADER_BYTES);
  try {
    const plain =
      codec === undefined || codec === 'none' ? packed : compression.decompress(codec, packed, RECORDS_BYTES_MAX);
    return { ok: true, records: decodeRecords(plain, header), plainBytes: plain.length };
  } catch (error) {
    if (error instanceof DecodeError || error instanceof CompressionError) return { ok: false, reason: error.message };
    throw error;
  }
}
