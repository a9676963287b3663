// A fetched batch as its consumer sees it: checked once, records found by one pass over their lengths, fields decoded when
// asked for. Nothing is allocated per record until a record is taken.
import { DecodeError, readI32, readI64, readU16, readU32, utf8Decode } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { codecName } from '../base/codec.ts';
import { BATCH_BYTES_MAX, BATCH_RECORDS_MAX, BATCH_UNCOMPRESSED_BYTES_MAX } from '../base/limits.ts';
import {
  APPEND_TIME_BIT,
  ATTRIBUTES_AT,
  BASE_OFFSET_AT,
  BASE_TIMESTAMP_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  BATCH_LENGTH_OVERHEAD,
  CODEC_MASK,
  CONTROL_BIT,
  CRC_AT,
  CRC_COVERS_FROM,
  LAST_OFFSET_DELTA_AT,
  LEADER_EPOCH_AT,
  MAGIC,
  MAGIC_AT,
  MAX_TIMESTAMP_AT,
  RECORD_COUNT_AT,
} from '../format/batch.ts';
import { RECORD_BYTES_MIN } from '../format/records.ts';
import { CompressionError, type Compression } from '../ports/compression.ts';
import type { ConsumedBatch, ConsumedRecord, RecordHeaderValue } from './api.ts';

export interface StoredBatch {
  /** Where the batch begins and ends in the bytes it was found in. */
  readonly at: number;
  readonly end: number;
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly leaderEpoch: number;
  readonly isControl: boolean;
  readonly recordCount: number;
}

/** Header and checksum at `at`. Undefined: the bytes end before the batch does. Throws DecodeError on anything untrue. */
export function readStoredBatch(bytes: Uint8Array, at: number, crc32c: Crc32c): StoredBatch | undefined {
  if (bytes.length - at < BATCH_HEADER_BYTES) return undefined;
  const size = BATCH_LENGTH_OVERHEAD + readI32(bytes, at + BATCH_LENGTH_AT);
  if (size < BATCH_HEADER_BYTES || size > BATCH_BYTES_MAX)
    throw new DecodeError(`batch of ${String(size)} bytes`, at + BATCH_LENGTH_AT);
  if (bytes.length - at < size) return undefined;
  if (bytes[at + MAGIC_AT] !== MAGIC)
    throw new DecodeError(`batch magic ${String(bytes[at + MAGIC_AT])}`, at + MAGIC_AT);
  const stored = readU32(bytes, at + CRC_AT);
  const found = crc32c(bytes.subarray(at + CRC_COVERS_FROM, at + size));
  if (stored !== found)
    throw new DecodeError(`checksum ${found.toString(16)}, the batch says ${stored.toString(16)}`, at + CRC_AT);
  const baseOffset = readI64(bytes, at + BASE_OFFSET_AT);
  const lastDelta = readI32(bytes, at + LAST_OFFSET_DELTA_AT);
  const recordCount = readI32(bytes, at + RECORD_COUNT_AT);
  if (baseOffset === undefined || baseOffset < 0 || lastDelta < 0) throw new DecodeError('offsets of the batch', at);
  if (recordCount < 1 || recordCount > BATCH_RECORDS_MAX || lastDelta !== recordCount - 1) {
    throw new DecodeError(`${String(recordCount)} records, last delta ${String(lastDelta)}`, at + RECORD_COUNT_AT);
  }
  const isControl = (readU16(bytes, at + ATTRIBUTES_AT) & CONTROL_BIT) !== 0;
  return {
    at,
    end: at + size,
    baseOffset,
    lastOffset: baseOffset + lastDelta,
    leaderEpoch: readI32(bytes, at + LEADER_EPOCH_AT),
    isControl,
    recordCount,
  };
}

export interface BatchPlace {
  readonly topic: string;
  readonly partition: number;
  readonly highWatermark: number;
  /** First offset wanted, and first not wanted any more. */
  readonly from: number;
  readonly upTo: number;
}

/** Throws DecodeError when data or structure are not what the header says; decompression is bounded. */
export function openBatch(
  bytes: Uint8Array,
  stored: StoredBatch,
  place: BatchPlace,
  compression: Compression,
): BatchView {
  const attributes = readU16(bytes, stored.at + ATTRIBUTES_AT);
  const codec = codecName(attributes & CODEC_MASK);
  if (codec === undefined) throw new DecodeError(`codec ${String(attributes & CODEC_MASK)}`, stored.at + ATTRIBUTES_AT);
  const packed = bytes.subarray(stored.at + BATCH_HEADER_BYTES, stored.end);
  let records: Uint8Array;
  try {
    records = codec === 'none' ? packed : compression.decompress(codec, packed, BATCH_UNCOMPRESSED_BYTES_MAX);
  } catch (error) {
    if (error instanceof CompressionError) throw new DecodeError(error.message, stored.at + BATCH_HEADER_BYTES);
    throw error;
  }
  if (records.length < stored.recordCount * RECORD_BYTES_MIN) {
    throw new DecodeError(
      `${String(stored.recordCount)} records cannot be in ${String(records.length)} bytes`,
      stored.at + RECORD_COUNT_AT,
    );
  }
  const positions = recordPositions(records, stored.recordCount);
  const baseTimestamp = readI64(bytes, stored.at + BASE_TIMESTAMP_AT) ?? -1;
  const appendTime =
    (attributes & APPEND_TIME_BIT) === 0 ? undefined : (readI64(bytes, stored.at + MAX_TIMESTAMP_AT) ?? -1);
  return new BatchView(stored, place, records, positions, baseTimestamp, appendTime);
}

/** Where each record's fields begin, behind its length. One pass over lengths and offset deltas. */
function recordPositions(records: Uint8Array, count: number): Uint32Array {
  const positions = new Uint32Array(count);
  let at = 0;
  for (let index = 0; index < count; index += 1) {
    const start = at;
    let length = 0;
    let shift = 0;
    let byte: number;
    do {
      byte = records[at] ?? 0;
      length |= (byte & 0x7f) << shift;
      shift += 7;
      at += 1;
    } while (byte >= 0x80 && shift < 35);
    length = (length >>> 1) ^ -(length & 1);
    const end = at + length;
    if (length < RECORD_BYTES_MIN - 1 || end > records.length)
      throw new DecodeError(`record ${String(index)} has ${String(length)} bytes`, start);
    positions[index] = at;
    // Attributes, then the timestamp delta, then the offset delta, which must be dense.
    at += 1;
    while ((records[at] ?? 0) >= 0x80) at += 1;
    at += 1;
    let delta = 0;
    shift = 0;
    do {
      byte = records[at] ?? 0;
      delta |= (byte & 0x7f) << shift;
      shift += 7;
      at += 1;
    } while (byte >= 0x80 && shift < 35);
    if (delta !== index << 1 || at > end)
      throw new DecodeError(`record ${String(index)} has another offset delta`, start);
    at = end;
  }
  if (at !== records.length) throw new DecodeError(`${String(records.length - at)} bytes behind the last record`, at);
  return positions;
}

export class BatchView implements ConsumedBatch {
  readonly topic: string;
  readonly partition: number;
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly leaderEpoch: number;
  readonly highWatermark: number;
  readonly length: number;
  readonly records: Uint8Array;
  readonly baseTimestamp: number;
  readonly appendTime: number | undefined;
  readonly #positions: Uint32Array;
  readonly #skip: number;

  constructor(
    stored: StoredBatch,
    place: BatchPlace,
    records: Uint8Array,
    positions: Uint32Array,
    baseTimestamp: number,
    appendTime: number | undefined,
  ) {
    this.topic = place.topic;
    this.partition = place.partition;
    this.highWatermark = place.highWatermark;
    this.leaderEpoch = stored.leaderEpoch;
    this.#skip = Math.max(0, place.from - stored.baseOffset);
    this.baseOffset = stored.baseOffset + this.#skip;
    this.lastOffset = Math.min(stored.lastOffset, place.upTo - 1);
    this.length = this.lastOffset - this.baseOffset + 1;
    this.records = records;
    this.#positions = positions;
    this.baseTimestamp = baseTimestamp;
    this.appendTime = appendTime;
  }

  record(index: number): RecordView {
    const at = this.#positions[index + this.#skip];
    if (at === undefined || index < 0 || index >= this.length)
      throw new RangeError(`record ${String(index)} of ${String(this.length)}`);
    return new RecordView(this, at, this.baseOffset + index);
  }

  *[Symbol.iterator](): IterableIterator<ConsumedRecord> {
    for (let index = 0; index < this.length; index += 1) yield this.record(index);
  }
}

const NO_HEADERS: readonly RecordHeaderValue[] = [];

export class RecordView implements ConsumedRecord {
  readonly #batch: BatchView;
  readonly #at: number;
  readonly offset: number;
  #value: Uint8Array | null | undefined;

  constructor(batch: BatchView, at: number, offset: number) {
    this.#batch = batch;
    this.#at = at;
    this.offset = offset;
    this.#value = undefined;
  }

  get topic(): string {
    return this.#batch.topic;
  }
  get partition(): number {
    return this.#batch.partition;
  }
  get timestamp(): number {
    const { appendTime, baseTimestamp, records } = this.#batch;
    if (appendTime !== undefined) return appendTime;
    let value = 0;
    let scale = 1;
    for (let at = this.#at + 1; scale <= 2 ** 63; at += 1) {
      const byte = records[at] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
      scale *= 0x80;
    }
    return baseTimestamp + (value % 2 === 0 ? value / 2 : -(value + 1) / 2);
  }
  get key(): Uint8Array | null {
    const { records } = this.#batch;
    return readNullable(records, skipVarint(records, skipVarint(records, this.#at + 1)), (bytes) => bytes);
  }
  get value(): Uint8Array | null {
    if (this.#value !== undefined) return this.#value;
    const { records } = this.#batch;
    const keyAt = skipVarint(records, skipVarint(records, this.#at + 1));
    const value = readNullable(records, skipNullable(records, keyAt), (bytes) => bytes);
    this.#value = value;
    return value;
  }
  get headers(): readonly RecordHeaderValue[] {
    const { records } = this.#batch;
    const keyAt = skipVarint(records, skipVarint(records, this.#at + 1));
    let at = skipNullable(records, skipNullable(records, keyAt));
    const count = varint(records, at);
    if (count === 0) return NO_HEADERS;
    if (count < 0 || count > records.length - at) throw new DecodeError(`${String(count)} headers`, at);
    at = skipVarint(records, at);
    const headers: RecordHeaderValue[] = [];
    for (let index = 0; index < count; index += 1) {
      const key = readNullable(records, at, utf8Decode) ?? '';
      at = skipNullable(records, at);
      headers.push({ key, value: readNullable(records, at, (bytes) => bytes) });
      at = skipNullable(records, at);
    }
    return headers;
  }
}

function varint(bytes: Uint8Array, from: number): number {
  let value = 0;
  let shift = 0;
  for (let at = from; shift < 35; at += 1) {
    const byte = bytes[at] ?? 0;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) break;
    shift += 7;
  }
  return (value >>> 1) ^ -(value & 1);
}

function skipVarint(bytes: Uint8Array, from: number): number {
  let at = from;
  while ((bytes[at] ?? 0) >= 0x80) at += 1;
  return at + 1;
}

function skipNullable(bytes: Uint8Array, at: number): number {
  return skipVarint(bytes, at) + Math.max(0, varint(bytes, at));
}

function readNullable<Value>(bytes: Uint8Array, at: number, read: (view: Uint8Array) => Value): Value | null {
  const length = varint(bytes, at);
  if (length < 0) return null;
  const start = skipVarint(bytes, at);
  if (start + length > bytes.length) throw new DecodeError(`field of ${String(length)} bytes`, at);
  return read(bytes.subarray(start, start + length));
}
