// The gate of the log: bytes of a produce are stored as they came, so everything that a reader relies on is checked here.
import type { Crc32c } from '../base/checksum.ts';
import { codecName } from '../base/codec.ts';
import { BATCH_UNCOMPRESSED_BYTES_MAX, PRODUCE_BATCHES_MAX } from '../base/limits.ts';
import type { ErrorName } from '../base/errors.ts';
import { readI32 } from '../base/bytes.ts';
import {
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  BATCH_LENGTH_OVERHEAD,
  checkBatch,
  type BatchFault,
  type BatchHeader,
} from '../format/batch.ts';
import { checkRecords } from '../format/records.ts';
import { CompressionError, type Compression } from '../ports/compression.ts';
import type { Failure } from '../protocol/failure.ts';
import type { CheckedBatch } from '../replication/contract.ts';
import { refusal } from './failures.ts';

export interface BatchRules {
  readonly crc32c: Crc32c;
  readonly compression: Compression;
  readonly maxBatchBytes: number;
  /** Also decompress, and walk what comes out. */
  readonly validateCompressed: boolean;
}

export type CheckedBatches =
  | { readonly ok: true; readonly batches: readonly CheckedBatch[] }
  | { readonly ok: false; readonly failure: Failure };

/** All batches of one produce, which must fill `bytes` exactly. Nothing is copied. */
export function checkBatches(bytes: Uint8Array, rules: BatchRules): CheckedBatches {
  const batches: CheckedBatch[] = [];
  for (let at = 0; at < bytes.length;) {
    if (batches.length === PRODUCE_BATCHES_MAX)
      return refused('INVALID_BATCH', batches.length, `a request holds at most ${String(PRODUCE_BATCHES_MAX)} batches`);
    const tooLarge = sizeFault(bytes, at, rules.maxBatchBytes);
    if (tooLarge !== undefined) return { ok: false, failure: tooLarge };
    const checked = checkBatch(bytes, at, rules.crc32c, rules.maxBatchBytes);
    if (!checked.ok) return refused(codeOf(checked.fault), batches.length, `${checked.fault}: ${checked.detail}`);
    const wrong = recordsFault(bytes, at, checked.header, rules);
    if (wrong !== undefined) return refused('INVALID_BATCH', batches.length, `records: ${wrong}`);
    batches.push({ at, size: checked.size, header: checked.header });
    at += checked.size;
  }
  return { ok: true, batches };
}

/** Size first: a batch over the limit is refused as that, whatever else is wrong with it. */
function sizeFault(bytes: Uint8Array, at: number, bytesMax: number): Failure | undefined {
  if (bytes.length - at < BATCH_HEADER_BYTES) return undefined;
  const size = readI32(bytes, at + BATCH_LENGTH_AT) + BATCH_LENGTH_OVERHEAD;
  if (size <= bytesMax || size > bytes.length - at) return undefined;
  return refusal('BATCH_TOO_LARGE', `a batch of ${String(size)} bytes, max.batch.bytes is ${String(bytesMax)}`, {
    bytesMax,
  });
}

function codeOf(fault: BatchFault): ErrorName {
  if (fault === 'crc') return 'CORRUPT_BATCH';
  return fault === 'codec' ? 'UNKNOWN_CODEC' : 'INVALID_BATCH';
}

function refused(code: ErrorName, index: number, detail: string): CheckedBatches {
  return { ok: false, failure: refusal(code, `batch ${String(index)} of the request: ${detail}`) };
}

function recordsFault(bytes: Uint8Array, at: number, header: BatchHeader, rules: BatchRules): string | undefined {
  const end = at + header.sizeInBytes;
  if (header.codec === 0) return checkRecords(bytes, header.recordCount, at + BATCH_HEADER_BYTES, end);
  if (!rules.validateCompressed) return undefined;
  const codec = codecName(header.codec);
  if (codec === undefined) return `codec ${String(header.codec)}`;
  try {
    const plain = rules.compression.decompress(
      codec,
      bytes.subarray(at + BATCH_HEADER_BYTES, end),
      BATCH_UNCOMPRESSED_BYTES_MAX,
    );
    return checkRecords(plain, header.recordCount);
  } catch (error) {
    if (!(error instanceof CompressionError)) throw error;
    return `${codec}: ${error.message}`;
  }
}
