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
    writer
      .varint(sizes[index] as number)
      .u8(0)
      .varlong(record.timestamp - baseTimestamp)
      .varint(index);
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
  let size =
    1 +
    varlongSize(timestampDelta) +
    varintSize(index) +
    nullableSize(record.key) +
    nullableSize(record.value) +
    varintSize(headers.length);
  for (const { key, value } of headers) size += nullableSize(utf8Encode(key)) + nullableSize(value);
  return size;
}

function writeNullable(writer: ByteWriter, bytes: Uint8Array | null): void {
  if (bytes === null) writer.varint(-1);
  else writer.varint(bytes.length).raw(bytes);
}

/**
 * Do these decompressed records match the header: as many as it says, dense offset deltas, every length inside its record,
 * records that end exactly at the end? Accepts exactly what `decodeRecords` decodes, and allocates nothing. Undefined: yes.
 * Otherwise what is wrong.
 */
export function checkRecords(
  bytes: Uint8Array,
  recordCount: number,
  from = 0,
  to: number = bytes.length,
): string | undefined {
  if (recordCount * RECORD_BYTES_MIN > to - from)
    return `${String(recordCount)} records cannot be in ${String(to - from)} bytes`;
  let walk: RecordWalk | undefined;
  let at = from;
  for (let index = 0; index < recordCount; index += 1) {
    const end = usualRecordEnd(bytes, at, to, index);
    if (end > 0) {
      at = end;
      continue;
    }
    walk ??= new RecordWalk(bytes, to);
    walk.at = at;
    const fault = walk.next(index);
    if (fault !== undefined) return `record ${String(index)} ${fault}`;
    at = walk.at;
  }
  return at === to ? undefined : `${String(to - at)} bytes behind the last record`;
}

/** A record of at most 2 MiB without headers needs this much in front of its key, and behind it. */
const USUAL_HEAD_BYTES = 17;
const USUAL_MIDDLE_BYTES = 4;

/**
 * The end of a good record of the usual kind, with everything written out, because this runs for every record: varints of
 * at most three bytes, no headers. 0: not that kind, or not good; then `RecordWalk` says which.
 */
function usualRecordEnd(bytes: Uint8Array, from: number, to: number, index: number): number {
  if (to - from < USUAL_HEAD_BYTES + USUAL_MIDDLE_BYTES) return 0;
  let at = from + 1;
  let length = bytes[from] as number;
  if (length >= 0x80) {
    const second = bytes[at++] as number;
    length = (length & 0x7f) | (second << 7);
    if (second >= 0x80) length = (length & 0x3fff) | ((bytes[at++] as number) << 14);
  }
  // Odd ones are negative, and from 2^21 on there would be another byte.
  if ((length & 1) !== 0 || length >= 0x20_0000 || bytes[at++] !== 0) return 0;
  const end = at - 1 + (length >>> 1);
  if (end > to) return 0;
  const timestampLast = at + 7;
  while ((bytes[at++] as number) >= 0x80) if (at === timestampLast) return 0;
  let delta = bytes[at++] as number;
  if (delta >= 0x80) {
    const second = bytes[at++] as number;
    delta = (delta & 0x7f) | (second << 7);
    if (second >= 0x80) delta = (delta & 0x3fff) | ((bytes[at++] as number) << 14);
  }
  if (delta !== index << 1 || delta >= 0x20_0000) return 0;
  at = usualFieldEnd(bytes, at, to);
  if (at === 0) return 0;
  at = usualFieldEnd(bytes, at, to);
  return at === end - 1 && bytes[at] === 0 ? end : 0;
}

/** Behind a key or value whose length takes at most three bytes; 0: not that kind. May lie behind `to`. */
function usualFieldEnd(bytes: Uint8Array, from: number, to: number): number {
  if (from + USUAL_MIDDLE_BYTES > to) return 0;
  let at = from + 1;
  let size = bytes[from] as number;
  if (size >= 0x80) {
    const second = bytes[at++] as number;
    size = (size & 0x7f) | (second << 7);
    if (second >= 0x80) size = (size & 0x3fff) | ((bytes[at++] as number) << 14);
    if (size >= 0x20_0000) return 0;
  }
  if ((size & 1) === 0) return at + (size >>> 1);
  // 1 is −1, null.
  return size === 1 ? at : 0;
}

/** What `varint` gives for a varint that is cut, over 32 bits or below −1: no length, delta or count of a record may be that. */
const NOT_A_LENGTH = -2;

/** One pass over lengths: reads no key and no value. One object for a whole batch. */
class RecordWalk {
  private readonly bytes: Uint8Array;
  private readonly to: number;
  at = 0;
  constructor(bytes: Uint8Array, to: number) {
    this.bytes = bytes;
    this.to = to;
  }

  /** Steps over one record; what is wrong with it, or undefined. */
  next(index: number): string | undefined {
    const length = this.varint(this.to);
    const end = this.at + length;
    if (length < RECORD_BYTES_MIN - 1 || end > this.to) return 'does not end inside the batch';
    if (this.bytes[this.at] !== 0) return 'has attributes';
    this.at += 1;
    if (!this.skipVarlong(end)) return 'has no timestamp';
    const delta = this.varint(end);
    if (delta !== index) return `has offset delta ${String(delta)}`;
    if (!this.skipField(end) || !this.skipField(end)) return 'has a key or value that does not end inside it';
    return this.headers(end);
  }

  private headers(end: number): string | undefined {
    const count = this.varint(end);
    if (count < 0 || count > HEADER_COUNT_MAX) return 'has a header count that is not one';
    for (let rest = count; rest > 0; rest -= 1) {
      const length = this.varint(end);
      if (length < 0 || length > end - this.at) return 'has a header without a name';
      if (!isUtf8(this.bytes, this.at, this.at + length)) return 'has a header name that is not UTF-8';
      this.at += length;
      if (!this.skipField(end)) return 'has a header value that does not end inside it';
    }
    return this.at === end ? undefined : 'does not end where its length says';
  }

  /** A length of −1 or more, then as many bytes. */
  private skipField(end: number): boolean {
    const length = this.varint(end);
    if (length > 0) this.at += length;
    return length !== NOT_A_LENGTH && this.at <= end;
  }

  /** Zigzag, at least −1. */
  private varint(end: number): number {
    const { bytes } = this;
    let at = this.at;
    if (at >= end) return NOT_A_LENGTH;
    let byte = bytes[at] as number;
    let value = byte & 0x7f;
    at += 1;
    for (let shift = 7; byte >= 0x80; shift += 7, at += 1) {
      if (at >= end) return NOT_A_LENGTH;
      byte = bytes[at] as number;
      // The fifth byte holds the last four bits, and nothing follows it.
      if (shift === 28 && byte > 0x0f) return NOT_A_LENGTH;
      value |= (byte & 0x7f) << shift;
    }
    this.at = at;
    if ((value & 1) === 0) return value >>> 1;
    return value === 1 ? -1 : NOT_A_LENGTH;
  }

  private skipVarlong(end: number): boolean {
    const { bytes } = this;
    const start = this.at;
    // Seven bytes hold 49 bits, which are always a safe integer.
    const quick = Math.min(end, start + 7);
    for (let at = start; at < quick; at += 1) {
      if ((bytes[at] as number) >= 0x80) continue;
      this.at = at + 1;
      return true;
    }
    let value = 0;
    let scale = 1;
    for (let at = start; at < Math.min(end, start + 10); at += 1, scale *= 0x80) {
      const byte = bytes[at] as number;
      value += (byte & 0x7f) * scale;
      if (value > Number.MAX_SAFE_INTEGER) return false;
      if (byte >= 0x80) continue;
      this.at = at + 1;
      return true;
    }
    return false;
  }
}

/** Shortest forms only, no surrogates, nothing above U+10FFFF: what a decoder that is strict accepts. */
function isUtf8(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to;) {
    const byte = bytes[at] as number;
    if (byte < 0x80) {
      at += 1;
      continue;
    }
    const size =
      byte >= 0xc2 && byte < 0xe0 ? 2 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xf0 && byte < 0xf5 ? 4 : 0;
    if (size === 0 || at + size > to) return false;
    const second = bytes[at + 1] as number;
    const least = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
    const most = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
    if (second < least || second > most) return false;
    for (let index = at + 2; index < at + size; index += 1)
      if (((bytes[index] as number) & 0xc0) !== 0x80) return false;
    at += size;
  }
  return true;
}

/**
 * Decodes all records of a checked batch; `bytes` are its decompressed records. For tools, tests and the metadata log: the
 * client has a lazy form of its own. Throws DecodeError when they do not match the header.
 */
export function decodeRecords(bytes: Uint8Array, header: BatchHeader): readonly LogRecord[] {
  if (header.recordCount * RECORD_BYTES_MIN > bytes.length) {
    throw new DecodeError(`${String(header.recordCount)} records cannot be in ${String(bytes.length)} bytes`, 0);
  }
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
  const delta = reader.varint();
  if (delta !== index) throw new DecodeError(`offset delta ${String(delta)}, expected ${String(index)}`, start);
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
  if (reader.at !== end)
    throw new DecodeError(`record of ${String(length)} bytes ends at ${String(reader.at - end)} from there`, start);
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
export function encodeEpochStart(
  epoch: number,
  node: number,
  timestamp: number,
  crc32c: Crc32c,
): Uint8Array<ArrayBuffer> {
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
