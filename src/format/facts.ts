// What is known of the records of one segment, as checkpoints and seals keep it.
import type { ByteReader, ByteWriter } from '../base/bytes.ts';
import { need } from './decoded.ts';

export interface SegmentSummary {
  /** Bytes of batches: where the next one goes, or would go. */
  readonly size: number;
  readonly batchCount: number;
  readonly recordCount: number;
  /** Base timestamp of the first batch; −1: none. */
  readonly firstTimestamp: number;
  /** −1: no record has one. */
  readonly maxTimestamp: number;
  /** −1: there is no batch. */
  readonly firstEpoch: number;
  readonly lastEpoch: number;
}

/** record count i64 · batch count u32 · first timestamp i64 · max timestamp i64 · first epoch i32 · last epoch i32. */
export const SUMMARY_BYTES: number = 8 + 4 + 8 + 8 + 4 + 4;

export function writeSummary(writer: ByteWriter, summary: SegmentSummary): void {
  writer
    .i64(summary.recordCount)
    .u32(summary.batchCount)
    .i64(summary.firstTimestamp)
    .i64(summary.maxTimestamp)
    .i32(summary.firstEpoch)
    .i32(summary.lastEpoch);
}

/** Throws DecodeError for what no segment can have. */
export function readSummary(reader: ByteReader, size: number): SegmentSummary {
  const at = reader.at;
  const recordCount = reader.i64();
  const batchCount = reader.u32();
  const firstTimestamp = reader.i64();
  const maxTimestamp = reader.i64();
  const firstEpoch = reader.i32();
  const lastEpoch = reader.i32();
  need(recordCount >= batchCount, `${String(recordCount)} records in ${String(batchCount)} batches`, at);
  need(
    firstTimestamp >= -1 && maxTimestamp >= -1,
    `timestamps ${String(firstTimestamp)} to ${String(maxTimestamp)}`,
    at,
  );
  need(firstEpoch >= -1 && lastEpoch >= firstEpoch, `epochs ${String(firstEpoch)} to ${String(lastEpoch)}`, at);
  return { size, batchCount, recordCount, firstTimestamp, maxTimestamp, firstEpoch, lastEpoch };
}
