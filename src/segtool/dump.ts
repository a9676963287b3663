// Batches and records as values to be printed or exported, and the ones that are looked for.
import { utf8Decode } from '../base/bytes.ts';
import { codecName } from '../base/codec.ts';
import type { BatchHeader } from '../format/batch.ts';
import type { LogRecord } from '../format/records.ts';
import { toBase64 } from './base64.ts';
import { readBatches, recordsOf, type FoundBatch, type OffsetBounds, type Skipped } from './batches.ts';
import type { LogReport } from './log-check.ts';
import type { ToolDeps } from './tool.ts';

export interface DumpedBatch {
  readonly kind: 'batch';
  readonly file: string;
  readonly position: number;
  readonly bytes: number;
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly records: number;
  readonly codec: string;
  readonly epoch: number;
  readonly control: boolean;
  readonly baseTimestamp: number;
  readonly maxTimestamp: number;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly crc: string;
}

export interface DumpedRecord {
  readonly kind: 'record';
  readonly record: LogRecord;
  readonly batch: BatchHeader;
  readonly position: number;
  readonly file: string;
}

export interface Undecodable {
  readonly kind: 'undecodable';
  readonly file: string;
  readonly position: number;
  readonly from: number;
  readonly to: number;
  readonly reason: string;
}

export interface RecordFilter extends OffsetBounds {
  /** The exact bytes. */
  readonly key?: Uint8Array | undefined;
  readonly header?: { readonly name: string; readonly value: Uint8Array | undefined } | undefined;
  /** Control records are left out unless they are asked for. */
  readonly control?: boolean | undefined;
  /** Records at or after, in milliseconds. */
  readonly since?: number | undefined;
}

export function describeBatch({ path, position, header, bytes }: FoundBatch): DumpedBatch {
  return {
    kind: 'batch',
    file: path,
    position,
    bytes: bytes.length,
    baseOffset: header.baseOffset,
    lastOffset: header.lastOffset,
    records: header.recordCount,
    codec: codecName(header.codec) ?? String(header.codec),
    epoch: header.leaderEpoch,
    control: header.isControl,
    baseTimestamp: header.baseTimestamp,
    maxTimestamp: header.maxTimestamp,
    producerId: header.producerId,
    producerEpoch: header.producerEpoch,
    baseSequence: header.baseSequence,
    crc: header.crc.toString(16).padStart(8, '0'),
  };
}

export async function* dumpRecords(
  deps: ToolDeps,
  log: LogReport,
  filter: RecordFilter,
): AsyncGenerator<DumpedRecord | Skipped | Undecodable> {
  for await (const found of readBatches(deps, log, filter)) {
    if (found.kind === 'skipped') {
      yield found;
      continue;
    }
    const { header, path, position } = found;
    if (header.isControl && filter.control !== true) continue;
    if (filter.since !== undefined && header.maxTimestamp < filter.since) continue;
    const decoded = recordsOf(deps.compression, header, found.bytes);
    if (!decoded.ok) {
      yield {
        kind: 'undecodable',
        file: path,
        position,
        from: header.baseOffset,
        to: header.lastOffset + 1,
        reason: decoded.reason,
      };
      continue;
    }
    for (const record of decoded.records)
      if (matches(record, filter)) yield { kind: 'record', record, batch: header, position, file: path };
  }
}

function matches(
  record: LogRecord,
  { from = 0, to = Number.MAX_SAFE_INTEGER, key, header, since }: RecordFilter,
): boolean {
  if (record.offset < from || record.offset >= to || (since !== undefined && record.timestamp < since)) return false;
  if (key !== undefined && (record.key === null || !sameBytes(record.key, key))) return false;
  return (
    header === undefined ||
    record.headers.some(
      (each) =>
        each.key === header.name &&
        (header.value === undefined || (each.value !== null && sameBytes(each.value, header.value))),
    )
  );
}

export function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, index) => byte === right[index]);
}

/** Bytes as text where they are UTF-8, else as base64: {"base64": "…"}. */
export type JsonBytes = string | null | { readonly base64: string };

export interface JsonRecord {
  readonly offset: number;
  readonly timestamp: number;
  readonly key: JsonBytes;
  readonly value: JsonBytes;
  readonly headers: readonly { readonly key: string; readonly value: JsonBytes }[];
}

export function jsonBytes(bytes: Uint8Array | null): JsonBytes {
  if (bytes === null) return null;
  try {
    return utf8Decode(bytes);
  } catch {
    return { base64: toBase64(bytes) };
  }
}

export function jsonRecord({ offset, timestamp, key, value, headers }: LogRecord): JsonRecord {
  return {
    offset,
    timestamp,
    key: jsonBytes(key),
    value: jsonBytes(value),
    headers: headers.map((each) => ({ key: each.key, value: jsonBytes(each.value) })),
  };
}
