// Records inside a batch, after decompression:
//
//   length varint | attributes i8 = 0 | timestamp delta varlong | offset delta varint | key length varint, key |
//   value length varint, value | header count varint, headers: key length varint, key, value length varint, value
//
// Lengths of −1 are null. All varints are zigzag. The offset deltas of a batch are 0, 1, 2, … without a gap.
import { assert } from '../base/assert.ts';
import { ByteReader, ByteWriter, DecodeError, utf8Decode, utf8Encode, varintSize, varlongSize } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { CODECS, type CodecName } from '../base/codec.ts';
import { BATCH_RECORDS_MAX, HEADER_COUNT_MAX } from '../base/limits.ts';
import { APPEND_TIME_BIT, BATCH_HEADER_BYTES, CONTROL_BIT, writeBatchHeader, type BatchHeader } from './batch.ts';

/** Least bytes of a record: length, attributes, two deltas, two lengths, header count. */
export const RECORD_BYTES_MIN = 7;

export interface RecordHeader {
  readonly key: string;
  readonly value: Uint8Array | null;
}

export interface RecordInput {
  readonly timestamp: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers?: readonly RecordHeader[];
}

export interface LogRecord {
  readonly offset: number;
  readonly timestamp: number;
  /** Views of the decoded bytes. */
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeader[];
}

export interface BatchInput {
  readonly records: readonly RecordInput[];
  readonly codec?: CodecName;
  /** Compresses with `codec`; needed unless that is none. */
  readonly compress?: (codec: CodecName, bytes: Uint8Array) => Uint8Array;
  readonly producerId?: number;
  readonly producerEpoch?: number;
  readonly baseSequence?: number;
  readonly isControl?: boolean;
}

/** A whole batch with base offset 0 and leader epoch −1, to be stamped by the leader. At least one record. */
export function encodeBatch(input: BatchInput, crc32c: Crc32c): Uint8Array<ArrayBuffer> {
  const { records, codec = 'none' } = input;
  const first = records[0];
  assert(first !== undefined && records.length <= BATCH_RECORDS_MAX, `a batch of ${String(records.length)} records`);
  const plain = encodeRecords(records, first.timestamp);
  let packed: Uint8Array = plain;
  if (codec !== 'none') {
    assert(input.compress !== undefined, 'a codec without a compressor');
    packed = input.compress(codec, plain);
  }
  const batch = new Uint8Array(BATCH_HEADER_BYTES + packed.length);
  batch.set(packed, BATCH_HEADER_BYTES);
  const fields = {
    attributes: CODECS[codec] | (input.isControl === true ? CONTROL_BIT : 0),
    recordCount: records.length,
    baseTimestamp: first.timestamp,
    maxTimestamp: records.reduce((largest, { timestamp }) => Math.max(largest, timestamp), -1),
    producerId: input.producerId ?? -1,
    producerEpoch: input.producerEpoch ?? -1,
    baseSequence: input.baseSequence ?? -1,
  };
  writeBatchHeader(batch, 0, batch.length, fields, crc32c);
  return batch;
}

/** The records of a batch, uncompressed, as they stand behind its header. */
export function encodeRecords(records: readonly RecordInput[], baseTimestamp: number): Uint8Array<ArrayBuffer> {
  const sizes = records.map((record, index) => bodySize(record, record.timestamp - baseTimestamp, index));
  const writer = new ByteWriter(sizes.reduce((sum, size) => sum + varintSize(size) + size, 0));
  records.forEach((record, index) => {
    writer.varint(sizes[index] as number).u8(0).varlong(record.timestamp - baseTimestamp).varint(index);
    writeNullable(writer, record.key);
    writeNullable(writer, record.value);
    const headers = record.headers ?? [];
    writer.varint(headers.length);
    for (const { key, value } of headers) {
      writeNullable(writer, utf8Encode(key));
      writeNullable(writer, value);
    }
  });
  return writer.finish();
}

function nullableSize(bytes: Uint8Array | null): number {
  return bytes === null ? 1 : varintSize(bytes.length) + bytes.length;
}

function bodySize(record: RecordInput, timestampDelta: number, index: number): number {
  const headers = record.headers ?? [];
  assert(headers.length <= HEADER_COUNT_MAX, `${String(headers.length)} headers`);
  let size = 1 + varlongSize(timestampDelta) + varintSize(index) + nullableSize(record.key) + nullableSize(record.value) + varintSize(headers.length);
  for (const { key, value } of headers) size += nullableSize(utf8Encode(key)) + nullableSize(value);
  return size;
}

function writeNullable(writer: ByteWriter, bytes: Uint8Array | null): void {
  if (bytes === null) writer.varint(-1);
  else writer.varint(bytes.length).raw(bytes);
}

/**
 * Do these decompressed records match the header: as many as it says, dense offset deltas, lengths that end exactly at the
 * end? Looks at lengths and deltas only, allocates nothing. Undefined: yes. Otherwise what is wrong.
 */
export function checkRecords(bytes: Uint8Array, recordCount: number, from = 0, to: number = bytes.length): string | undefined {
  if (recordCount * RECORD_BYTES_MIN > to - from) return `${String(recordCount)} records cannot be in ${String(to - from)} bytes`;
  let at = from;
  for (let index = 0; index < recordCount; index += 1) {
    const end = recordEnd(bytes, at, to);
    if (end < 0) return `record ${String(index)} does not end inside the batch`;
    // Behind the length: attributes, timestamp delta (up to 10 bytes), offset delta.
    let cursor = skipVarint(bytes, at, to, 5) + 1;
    cursor = skipVarint(bytes, cursor, end, 10);
    if (cursor < 0) return `record ${String(index)} has no timestamp`;
    const delta = plainVarint(bytes, cursor, end);
    if (delta !== index) return `record ${String(index)} has offset delta ${String(delta)}`;
    at = end;
  }
  return at === to ? undefined : `${String(to - at)} bytes behind the last record`;
}

/** Position behind the record at `at`; −1 when its length is not one that fits. */
function recordEnd(bytes: Uint8Array, at: number, to: number): number {
  const body = skipVarint(bytes, at, to, 5);
  if (body < 0) return -1;
  const length = plainVarint(bytes, at, to);
  return length < RECORD_BYTES_MIN - 1 || length > to - body ? -1 : body + length;
}

function skipVarint(bytes: Uint8Array, at: number, to: number, bytesMax: number): number {
  const last = Math.min(to, at + bytesMax);
  for (let index = at; index < last; index += 1) if ((bytes[index] as number) < 0x80) return index + 1;
  return -1;
}

/** Non-negative zigzag varint; −1 for negative, overlong or cut ones. */
function plainVarint(bytes: Uint8Array, at: number, to: number): number {
  let value = 0;
  for (let index = at, shift = 0; index < to && shift < 35; index += 1, shift += 7) {
    const byte = bytes[index] as number;
    if (shift === 28 && byte > 0x0f) return -1;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return (value & 1) === 0 ? value >>> 1 : -1;
  }
  return -1;
}

/**
 * Decodes all records of a checked batch; `bytes` are its decompressed records. For tools, tests and the metadata log: the
 * client has a lazy form of its own. Throws DecodeError when they do not match the header.
 */
export function decodeRecords(bytes: Uint8Array, header: BatchHeader): readonly LogRecord[] {
  const fault = checkRecords(bytes, header.recordCount);
  if (fault !== undefined) throw new DecodeError(fault, 0);
  const reader = new ByteReader(bytes);
  const records: LogRecord[] = [];
  for (let index = 0; index < header.recordCount; index += 1) records.push(decodeRecord(reader, header, index));
  reader.end();
  return records;
}

function decodeRecord(reader: ByteReader, header: BatchHeader, index: number): LogRecord {
  const start = reader.at;
  const length = reader.varint();
  const end = reader.at + length;
  const attributes = reader.u8();
  if (attributes !== 0) throw new DecodeError(`record attributes ${String(attributes)}`, start);
  const timestampDelta = reader.varlong();
  reader.varint();
  const key = readNullable(reader);
  const value = readNullable(reader);
  const count = reader.varint();
  if (count < 0 || count > HEADER_COUNT_MAX) throw new DecodeError(`${String(count)} headers`, start);
  const headers: RecordHeader[] = [];
  for (let rest = count; rest > 0; rest -= 1) {
    const name = readNullable(reader);
    if (name === null) throw new DecodeError('a header without a name', start);
    headers.push({ key: headerName(name, start), value: readNullable(reader) });
  }
  if (reader.at !== end) throw new DecodeError(`record of ${String(length)} bytes ends at ${String(reader.at - end)} from there`, start);
  const appendTime = (header.attributes & APPEND_TIME_BIT) !== 0;
  const timestamp = appendTime ? header.maxTimestamp : header.baseTimestamp + timestampDelta;
  return { offset: header.baseOffset + index, timestamp, key, value, headers };
}

function headerName(bytes: Uint8Array, at: number): string {
  try {
    return utf8Decode(bytes);
  } catch {
    throw new DecodeError('a header name is not UTF-8', at);
  }
}

function readNullable(reader: ByteReader): Uint8Array | null {
  const at = reader.at;
  const length = reader.varint();
  if (length < -1) throw new DecodeError(`length ${String(length)}`, at);
  return length === -1 ? null : reader.raw(length);
}

/** Type of the one control record that this log writes: a leader has begun its epoch. */
export const CONTROL_LEADER_EPOCH_START = 16;

/**
 * Control batch that a new leader writes first: key = version i16 (0), type i16; value = version i16 (0), leader epoch i32,
 * node id i32. It takes one offset, and consumers skip it.
 */
export function encodeEpochStart(epoch: number, node: number, timestamp: number, crc32c: Crc32c): Uint8Array<ArrayBuffer> {
  const key = new ByteWriter(4).u16(0).u16(CONTROL_LEADER_EPOCH_START).finish();
  const value = new ByteWriter(10).u16(0).i32(epoch).i32(node).finish();
  return encodeBatch({ records: [{ timestamp, key, value }], isControl: true }, crc32c);
}

/** Undefined for control records of another type. Throws DecodeError when it is cut. */
export function decodeEpochStart(record: LogRecord): { readonly epoch: number; readonly node: number } | undefined {
  if (record.key === null || record.value === null) return undefined;
  const key = new ByteReader(record.key);
  if (key.u16() !== 0 || key.u16() !== CONTROL_LEADER_EPOCH_START) return undefined;
  const value = new ByteReader(record.value);
  if (value.u16() !== 0) return undefined;
  return { epoch: value.i32(), node: value.i32() };
}
