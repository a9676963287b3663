// The public record batch format, magic 2. The same bytes are produced, stored, replicated and fetched.
//
//  0        8        12       16    17       21         23              27            35           43          51            53           57          61
//  +--------+--------+--------+-----+--------+----------+---------------+-------------+------------+-----------+-------------+------------+-----------+---
//  | base   | batch  | leader |magic| CRC32C |attributes| last offset   | base        | max        | producer  | producer    | base       | record    | records
//  | offset | length | epoch  | = 2 |        |          | delta         | timestamp   | timestamp  | id        | epoch       | sequence   | count     | ...
//  | i64    | i32    | i32    | i8  | u32    | i16      | i32           | i64         | i64        | i64       | i16         | i32        | i32       |
//  +--------+--------+--------+-----+--------+----------+---------------+-------------+------------+-----------+-------------+------------+-----------+---
//                                            |<------------------------------ covered by the CRC32C ------------------------------>
//
// Base offset and leader epoch lie outside the checksum, so that a leader may stamp them without computing it again. They
// are checked by structure instead: the expected next offset, the length that lands on the next header, the epoch history.
import { assert } from '../base/assert.ts';
import { readI32, readI64, readU16, readU32, writeI64, writeU16, writeU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { codecName } from '../base/codec.ts';
import { BATCH_BYTES_MAX, BATCH_RECORDS_MAX } from '../base/limits.ts';

export const BASE_OFFSET_AT = 0;
export const BATCH_LENGTH_AT: number = BASE_OFFSET_AT + 8;
export const LEADER_EPOCH_AT: number = BATCH_LENGTH_AT + 4;
export const MAGIC_AT: number = LEADER_EPOCH_AT + 4;
export const CRC_AT: number = MAGIC_AT + 1;
export const ATTRIBUTES_AT: number = CRC_AT + 4;
export const LAST_OFFSET_DELTA_AT: number = ATTRIBUTES_AT + 2;
export const BASE_TIMESTAMP_AT: number = LAST_OFFSET_DELTA_AT + 4;
export const MAX_TIMESTAMP_AT: number = BASE_TIMESTAMP_AT + 8;
export const PRODUCER_ID_AT: number = MAX_TIMESTAMP_AT + 8;
export const PRODUCER_EPOCH_AT: number = PRODUCER_ID_AT + 8;
export const BASE_SEQUENCE_AT: number = PRODUCER_EPOCH_AT + 2;
export const RECORD_COUNT_AT: number = BASE_SEQUENCE_AT + 4;
export const BATCH_HEADER_BYTES: number = RECORD_COUNT_AT + 4;
/** The length field counts what follows it: the whole batch is this much longer. */
export const BATCH_LENGTH_OVERHEAD: number = BATCH_LENGTH_AT + 4;
/** The checksum covers everything from here to the end of the batch. */
export const CRC_COVERS_FROM: number = ATTRIBUTES_AT;
export const MAGIC = 2;

assert(BATCH_HEADER_BYTES === 61, 'the header of the public format has 61 bytes');

// Attributes: bits 0-2 codec, 3 timestamp type (1: append time), 4 transactional, 5 control, 6 delete horizon; others zero.
export const CODEC_MASK = 0x07;
export const APPEND_TIME_BIT = 0x08;
export const TRANSACTIONAL_BIT = 0x10;
export const CONTROL_BIT = 0x20;
const KNOWN_BITS: number = CODEC_MASK | APPEND_TIME_BIT | CONTROL_BIT;

export interface BatchHeader {
  readonly baseOffset: number;
  readonly batchLength: number;
  readonly leaderEpoch: number;
  readonly magic: number;
  readonly crc: number;
  readonly attributes: number;
  readonly lastOffsetDelta: number;
  /** Milliseconds since 1970; −1: none. */
  readonly baseTimestamp: number;
  readonly maxTimestamp: number;
  /** −1: no producer id, not idempotent. */
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly recordCount: number;
  /** The whole batch, header included. */
  readonly sizeInBytes: number;
  /** Codec number; a known one once the batch is checked. */
  readonly codec: number;
  readonly isControl: boolean;
  readonly lastOffset: number;
}

export type BatchFault =
  | 'short'
  | 'length'
  | 'magic'
  | 'crc'
  | 'codec'
  | 'attributes'
  | 'offset'
  | 'count'
  | 'timestamp'
  | 'producer'
  | 'records';

export type CheckedHeader =
  | { readonly ok: true; readonly header: BatchHeader; readonly size: number }
  | { readonly ok: false; readonly fault: BatchFault; readonly detail: string };

/** Reads the fields without judging them. Undefined: fewer than 61 bytes, or a 64-bit field beyond the safe integers. */
export function readBatchHeader(bytes: Uint8Array, at: number): BatchHeader | undefined {
  if (bytes.length - at < BATCH_HEADER_BYTES) return undefined;
  const baseOffset = readI64(bytes, at + BASE_OFFSET_AT);
  const baseTimestamp = readI64(bytes, at + BASE_TIMESTAMP_AT);
  const maxTimestamp = readI64(bytes, at + MAX_TIMESTAMP_AT);
  const producerId = readI64(bytes, at + PRODUCER_ID_AT);
  if (baseOffset === undefined || baseTimestamp === undefined || maxTimestamp === undefined || producerId === undefined)
    return undefined;
  const batchLength = readI32(bytes, at + BATCH_LENGTH_AT);
  const attributes = readU16(bytes, at + ATTRIBUTES_AT);
  const lastOffsetDelta = readI32(bytes, at + LAST_OFFSET_DELTA_AT);
  return {
    baseOffset,
    batchLength,
    leaderEpoch: readI32(bytes, at + LEADER_EPOCH_AT),
    magic: bytes[at + MAGIC_AT] as number,
    crc: readU32(bytes, at + CRC_AT),
    attributes,
    lastOffsetDelta,
    baseTimestamp,
    maxTimestamp,
    producerId,
    producerEpoch: (readU16(bytes, at + PRODUCER_EPOCH_AT) << 16) >> 16,
    baseSequence: readI32(bytes, at + BASE_SEQUENCE_AT),
    recordCount: readI32(bytes, at + RECORD_COUNT_AT),
    sizeInBytes: batchLength + BATCH_LENGTH_OVERHEAD,
    codec: attributes & CODEC_MASK,
    isControl: (attributes & CONTROL_BIT) !== 0,
    lastOffset: baseOffset + lastOffsetDelta,
  };
}

/** Size of the batch at `at`, unchecked: for walking bytes that were verified before. */
export function batchSize(bytes: Uint8Array, at: number): number {
  return readU32(bytes, at + BATCH_LENGTH_AT) + BATCH_LENGTH_OVERHEAD;
}
/** Last offset of the batch at `at`, unchecked: for walking bytes that were verified before. */
export function batchLastOffset(bytes: Uint8Array, at: number): number {
  return (readI64(bytes, at) ?? -1) + readI32(bytes, at + LAST_OFFSET_DELTA_AT);
}

function fail(
  fault: BatchFault,
  detail: string,
): { readonly ok: false; readonly fault: BatchFault; readonly detail: string } {
  return { ok: false, fault, detail };
}

/**
 * Structure and checksum of the batch at `at`. What it does not judge: base offset and epoch (the caller knows which ones to
 * expect) and the records themselves (`checkRecords`). 'short' with a sane length means that more bytes are needed.
 */
export function checkBatch(
  bytes: Uint8Array,
  at: number,
  crc32c: Crc32c,
  bytesMax: number = BATCH_BYTES_MAX,
): CheckedHeader {
  const available = bytes.length - at;
  if (available < BATCH_HEADER_BYTES)
    return fail('short', `${String(available)} bytes, a header has ${String(BATCH_HEADER_BYTES)}`);
  const size = readI32(bytes, at + BATCH_LENGTH_AT) + BATCH_LENGTH_OVERHEAD;
  if (size < BATCH_HEADER_BYTES || size > bytesMax) {
    return fail(
      'length',
      `batch of ${String(size)} bytes, allowed ${String(BATCH_HEADER_BYTES)} to ${String(bytesMax)}`,
    );
  }
  const magic = bytes[at + MAGIC_AT] as number;
  if (magic !== MAGIC) return fail('magic', `magic ${String(magic)}, expected ${String(MAGIC)}`);
  if (size > available) return fail('short', `${String(available)} bytes of a batch of ${String(size)}`);
  const stored = readU32(bytes, at + CRC_AT);
  const found = crc32c(bytes.subarray(at + CRC_COVERS_FROM, at + size));
  if (stored !== found) return fail('crc', `checksum of the bytes ${hex(found)}, the batch says ${hex(stored)}`);
  const header = readBatchHeader(bytes, at);
  if (header === undefined) return fail(unsafeField(bytes, at), 'a 64-bit field is beyond the safe integers');
  return checkFields(header) ?? { ok: true, header, size };
}

function unsafeField(bytes: Uint8Array, at: number): BatchFault {
  if (readI64(bytes, at + BASE_OFFSET_AT) === undefined) return 'offset';
  return readI64(bytes, at + PRODUCER_ID_AT) === undefined ? 'producer' : 'timestamp';
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0');
}

/** The fields under the checksum: they can be wrong only because the producer made them so. */
function checkFields(header: BatchHeader): CheckedHeader | undefined {
  const { attributes, recordCount, lastOffsetDelta, baseTimestamp, maxTimestamp } = header;
  if (codecName(header.codec) === undefined) return fail('codec', `codec ${String(header.codec)}`);
  if ((attributes & ~KNOWN_BITS) !== 0) return fail('attributes', `attribute bits ${hex(attributes)}`);
  if (recordCount < 1 || recordCount > BATCH_RECORDS_MAX) return fail('count', `${String(recordCount)} records`);
  if (lastOffsetDelta !== recordCount - 1) {
    return fail('count', `${String(recordCount)} records, but the last offset delta is ${String(lastOffsetDelta)}`);
  }
  // An empty record has 7 bytes; a compressed one cannot be judged by size.
  if (header.codec === 0 && header.sizeInBytes - BATCH_HEADER_BYTES < recordCount * 7) {
    return fail('count', `${String(recordCount)} records cannot be in ${String(header.sizeInBytes)} bytes`);
  }
  if (!Number.isSafeInteger(header.lastOffset) || header.baseOffset < 0)
    return fail('offset', `base offset ${String(header.baseOffset)}`);
  if (baseTimestamp < -1 || maxTimestamp < -1)
    return fail('timestamp', `timestamps ${String(baseTimestamp)}, ${String(maxTimestamp)}`);
  return checkProducerFields(header);
}

function checkProducerFields(header: BatchHeader): CheckedHeader | undefined {
  const { producerId, producerEpoch, baseSequence } = header;
  if (producerId < -1) return fail('producer', `producer id ${String(producerId)}`);
  if (producerId === -1 && (producerEpoch !== -1 || baseSequence !== -1)) {
    return fail('producer', `epoch ${String(producerEpoch)} or sequence ${String(baseSequence)} without a producer id`);
  }
  if (producerId >= 0 && !header.isControl && (producerEpoch < 0 || baseSequence < 0)) {
    return fail(
      'producer',
      `producer ${String(producerId)} with epoch ${String(producerEpoch)}, sequence ${String(baseSequence)}`,
    );
  }
  return undefined;
}

/** In place; both fields lie outside the checksum. */
export function stampBatch(bytes: Uint8Array, at: number, baseOffset: number, leaderEpoch: number): void {
  writeI64(bytes, at + BASE_OFFSET_AT, baseOffset);
  writeU32(bytes, at + LEADER_EPOCH_AT, leaderEpoch);
}

export interface BatchFields {
  readonly attributes: number;
  readonly recordCount: number;
  readonly baseTimestamp: number;
  readonly maxTimestamp: number;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
}

/** Fills in the 61 bytes before records that stand at `at + 61` and end at `end`. Base offset 0 and epoch −1 until stamped. */
export function writeBatchHeader(
  bytes: Uint8Array,
  at: number,
  end: number,
  fields: BatchFields,
  crc32c: Crc32c,
): void {
  writeI64(bytes, at + BASE_OFFSET_AT, 0);
  writeU32(bytes, at + BATCH_LENGTH_AT, end - at - BATCH_LENGTH_OVERHEAD);
  writeU32(bytes, at + LEADER_EPOCH_AT, -1);
  bytes[at + MAGIC_AT] = MAGIC;
  writeU16(bytes, at + ATTRIBUTES_AT, fields.attributes);
  writeU32(bytes, at + LAST_OFFSET_DELTA_AT, fields.recordCount - 1);
  writeI64(bytes, at + BASE_TIMESTAMP_AT, fields.baseTimestamp);
  writeI64(bytes, at + MAX_TIMESTAMP_AT, fields.maxTimestamp);
  writeI64(bytes, at + PRODUCER_ID_AT, fields.producerId);
  writeU16(bytes, at + PRODUCER_EPOCH_AT, fields.producerEpoch & 0xffff);
  writeU32(bytes, at + BASE_SEQUENCE_AT, fields.baseSequence);
  writeU32(bytes, at + RECORD_COUNT_AT, fields.recordCount);
  writeU32(bytes, at + CRC_AT, crc32c(bytes.subarray(at + CRC_COVERS_FROM, end)));
}
