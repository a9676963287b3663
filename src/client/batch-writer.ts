// Records are written as bytes of the public batch format the moment they are sent: no object per record is kept, and with no
// compression the buffer itself goes to the socket. The header is filled in last, when the sequence is known.
import { utf8Encode, varintSize, varlongSize, writeI64, writeU16, writeU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { CODECS, type CodecName } from '../base/codec.ts';
import { BATCH_RECORDS_MAX } from '../base/limits.ts';
import {
  ATTRIBUTES_AT,
  BASE_OFFSET_AT,
  BASE_SEQUENCE_AT,
  BASE_TIMESTAMP_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  BATCH_LENGTH_OVERHEAD,
  CRC_AT,
  CRC_COVERS_FROM,
  LAST_OFFSET_DELTA_AT,
  LEADER_EPOCH_AT,
  MAGIC,
  MAGIC_AT,
  MAX_TIMESTAMP_AT,
  PRODUCER_EPOCH_AT,
  PRODUCER_ID_AT,
  RECORD_COUNT_AT,
} from '../format/batch.ts';
import type { Compression } from '../ports/compression.ts';
import type { ProducerHeader, ProducerHeaders } from './api.ts';

const NO_EPOCH = 0xffff_ffff;

/** Below this a loop is quicker than the call into the engine. */
const COPY_BY_LOOP_BYTES = 24;
const EMPTY_HEADERS = 1;
const BUFFER_BYTES_MIN = 4096;

export interface EncodedHeader {
  readonly key: Uint8Array;
  readonly value: Uint8Array | null;
}

/** Who sends the batch, as its header says. */
export interface BatchIdentity {
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
}
export const ANONYMOUS: BatchIdentity = { producerId: -1, producerEpoch: -1, baseSequence: -1 };

/** Full-size buffers, used again and again: at gigabytes a second their allocation and clearing would be the largest cost. */
export class BufferPool {
  readonly bufferBytes: number;
  readonly #free: Uint8Array<ArrayBuffer>[] = [];
  readonly #keep: number;
  constructor(bufferBytes: number, keepBytes: number) {
    this.bufferBytes = bufferBytes;
    this.#keep = Math.max(1, Math.floor(keepBytes / bufferBytes));
  }
  take(): Uint8Array<ArrayBuffer> {
    return this.#free.pop() ?? new Uint8Array(this.bufferBytes);
  }
  give(buffer: Uint8Array<ArrayBuffer>): void {
    if (buffer.length === this.bufferBytes && this.#free.length < this.#keep) this.#free.push(buffer);
  }
}

function headerBytes(headers: readonly EncodedHeader[]): number {
  let size = varintSize(headers.length);
  for (const { key, value } of headers) {
    size += varintSize(key.length) + key.length;
    size += value === null ? 1 : varintSize(value.length) + value.length;
  }
  return size;
}

/** Encoded bytes of one record at most, for accounting before its place in a batch is known. */
export function recordBytesMax(
  key: Uint8Array | null,
  value: Uint8Array | null,
  headers: readonly EncodedHeader[] | undefined,
): number {
  return (
    26 + (key?.length ?? 0) + (value?.length ?? 0) + (headers === undefined ? EMPTY_HEADERS : headerBytes(headers))
  );
}

export class BatchWriter {
  readonly #pool: BufferPool;
  #buffer: Uint8Array<ArrayBuffer>;
  #at = BATCH_HEADER_BYTES;
  #baseTimestamp = 0;
  #maxTimestamp = 0;
  recordCount = 0;

  /** `expectedBytes`: what the batch will probably hold; it grows when more comes, up to the pool's size. */
  constructor(pool: BufferPool, expectedBytes: number) {
    this.#pool = pool;
    this.#buffer =
      expectedBytes * 2 > pool.bufferBytes
        ? pool.take()
        : new Uint8Array(Math.max(BUFFER_BYTES_MIN, Math.min(pool.bufferBytes, expectedBytes * 2)));
  }

  /** Header and records, uncompressed. */
  get sizeInBytes(): number {
    return this.#at;
  }

  /** False: full, nothing was written. The first record of a batch always fits, whatever its size. */
  append(
    key: Uint8Array | null,
    value: Uint8Array | null,
    headers: readonly EncodedHeader[] | undefined,
    timestamp: number,
  ): boolean {
    const count = this.recordCount;
    if (count === 0) {
      this.#baseTimestamp = timestamp;
      this.#maxTimestamp = timestamp;
    }
    const delta = timestamp - this.#baseTimestamp;
    const keyBytes = key === null ? 1 : varintSize(key.length) + key.length;
    const valueBytes = value === null ? 1 : varintSize(value.length) + value.length;
    const body =
      1 +
      varlongSize(delta) +
      varintSize(count) +
      keyBytes +
      valueBytes +
      (headers === undefined ? EMPTY_HEADERS : headerBytes(headers));
    const needed = this.#at + varintSize(body) + body;
    if (needed > this.#buffer.length && !this.#grow(needed)) return false;
    if (count >= BATCH_RECORDS_MAX) return false;
    const buffer = this.#buffer;
    let at = putVarint(buffer, this.#at, body);
    buffer[at] = 0;
    at = delta === 0 ? putVarint(buffer, at + 1, 0) : putVarlong(buffer, at + 1, delta);
    at = putVarint(buffer, at, count);
    at = putBytes(buffer, at, key);
    at = putBytes(buffer, at, value);
    if (headers === undefined) {
      buffer[at] = 0;
      at += 1;
    } else at = putHeaders(buffer, at, headers);
    this.#at = at;
    if (timestamp > this.#maxTimestamp) this.#maxTimestamp = timestamp;
    this.recordCount = count + 1;
    return true;
  }

  /**
   * The batch as it goes out but for who sends it (`identify`), valid until `release`. Compresses when that makes it smaller.
   */
  seal(codec: CodecName, compression: Compression): Uint8Array {
    let batch = this.#buffer.subarray(0, this.#at);
    let used: CodecName = 'none';
    if (codec !== 'none') {
      const packed = compression.compress(codec, batch.subarray(BATCH_HEADER_BYTES));
      if (BATCH_HEADER_BYTES + packed.length < this.#at) {
        batch = new Uint8Array(BATCH_HEADER_BYTES + packed.length);
        batch.set(packed, BATCH_HEADER_BYTES);
        used = codec;
        this.release();
      }
    }
    writeI64(batch, BASE_OFFSET_AT, 0);
    writeU32(batch, BATCH_LENGTH_AT, batch.length - BATCH_LENGTH_OVERHEAD);
    writeU32(batch, LEADER_EPOCH_AT, NO_EPOCH);
    batch[MAGIC_AT] = MAGIC;
    writeU16(batch, ATTRIBUTES_AT, CODECS[used]);
    writeU32(batch, LAST_OFFSET_DELTA_AT, this.recordCount - 1);
    writeI64(batch, BASE_TIMESTAMP_AT, this.#baseTimestamp);
    writeI64(batch, MAX_TIMESTAMP_AT, this.#maxTimestamp);
    writeU32(batch, RECORD_COUNT_AT, this.recordCount);
    return batch;
  }

  /** Gives the buffer back: the bytes are not needed any more. */
  release(): void {
    this.#pool.give(this.#buffer);
    this.#buffer = new Uint8Array(0);
  }

  #grow(needed: number): boolean {
    if (this.recordCount > 0 && needed > this.#pool.bufferBytes) return false;
    const grown = needed > this.#pool.bufferBytes ? new Uint8Array(needed) : this.#larger(needed);
    grown.set(this.#buffer.subarray(0, this.#at));
    this.#pool.give(this.#buffer);
    this.#buffer = grown;
    return true;
  }

  #larger(needed: number): Uint8Array<ArrayBuffer> {
    const size = Math.max(needed, this.#buffer.length * 4);
    return size * 2 > this.#pool.bufferBytes ? this.#pool.take() : new Uint8Array(size);
  }
}

/** Sets who sends a sealed batch, and its checksum anew. */
export function identify(batch: Uint8Array, identity: BatchIdentity, crc32c: Crc32c): void {
  writeI64(batch, PRODUCER_ID_AT, identity.producerId);
  writeU16(batch, PRODUCER_EPOCH_AT, identity.producerEpoch);
  writeU32(batch, BASE_SEQUENCE_AT, identity.baseSequence);
  writeU32(batch, CRC_AT, crc32c(batch.subarray(CRC_COVERS_FROM)));
}

function putVarint(buffer: Uint8Array, from: number, value: number): number {
  let at = from;
  let rest = ((value << 1) ^ (value >> 31)) >>> 0;
  while (rest >= 0x80) {
    buffer[at] = (rest & 0x7f) | 0x80;
    at += 1;
    rest >>>= 7;
  }
  buffer[at] = rest;
  return at + 1;
}

function putVarlong(buffer: Uint8Array, from: number, value: number): number {
  let at = from;
  let rest = value >= 0 ? value * 2 : -value * 2 - 1;
  while (rest >= 0x80) {
    buffer[at] = (rest % 0x80) | 0x80;
    at += 1;
    rest = Math.floor(rest / 0x80);
  }
  buffer[at] = rest;
  return at + 1;
}

function putBytes(buffer: Uint8Array, from: number, bytes: Uint8Array | null): number {
  if (bytes === null) {
    // -1 in zigzag.
    buffer[from] = 1;
    return from + 1;
  }
  const length = bytes.length;
  const at = putVarint(buffer, from, length);
  if (length <= COPY_BY_LOOP_BYTES)
    for (let index = 0; index < length; index += 1) buffer[at + index] = bytes[index] as number;
  else buffer.set(bytes, at);
  return at + length;
}

function putHeaders(buffer: Uint8Array, from: number, headers: readonly EncodedHeader[]): number {
  let at = putVarint(buffer, from, headers.length);
  for (const { key, value } of headers) {
    at = putBytes(buffer, at, key);
    at = putBytes(buffer, at, value);
  }
  return at;
}

const EVENT_ID = utf8Encode('event-id');
const SCHEMA_VERSION = utf8Encode('schema-version');

function isList(headers: ProducerHeaders): headers is readonly ProducerHeader[] {
  return Array.isArray(headers);
}

/** Undefined when there are none, which is the common case. */
export function encodeHeaders(
  headers: ProducerHeaders | undefined,
  eventId: string | undefined,
  schemaVersion: string | number | undefined,
): readonly EncodedHeader[] | undefined {
  if (headers === undefined && eventId === undefined && schemaVersion === undefined) return undefined;
  const encoded: EncodedHeader[] = [];
  if (headers !== undefined) {
    const list = isList(headers) ? headers : Object.entries(headers).map(([key, value]) => ({ key, value }));
    for (const { key, value } of list)
      encoded.push({ key: utf8Encode(key), value: typeof value === 'string' ? utf8Encode(value) : value });
  }
  if (eventId !== undefined) encoded.push({ key: EVENT_ID, value: utf8Encode(eventId) });
  if (schemaVersion !== undefined) encoded.push({ key: SCHEMA_VERSION, value: utf8Encode(String(schemaVersion)) });
  return encoded;
}
