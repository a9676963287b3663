// What all messages are made of: the fields that several operations share, and the two passes by which each is encoded.
import type { LeaderEpoch, NodeId, Offset, ProducerId, TimestampMs, TopicId } from '../base/brands.ts';
import { ByteReader, ByteWriter, DecodeError, utf8Size } from '../base/bytes.ts';
import { assert } from '../base/assert.ts';
import { TOPIC_NAME_BYTES_MAX } from '../base/limits.ts';

/** Where and why bytes do not follow their grammar. `at` counts from the start of the decoded body. */
export interface DecodeFault {
  readonly message: string;
  readonly at: number;
}
export type Decoded<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly fault: DecodeFault };

/** Bytes that go out one after the other; payloads are passed on, never copied. */
export type Pieces = readonly Uint8Array[];

/** Largest host name or address of a node. */
export const HOST_BYTES_MAX = 255;
/** Largest software name, software version, cluster id and session id. */
export const LABEL_BYTES_MAX = 64;
/** Largest key or value of a topic setting. */
export const CONFIG_TEXT_BYTES_MAX = 1024;
/** Settings in one request or answer. */
export const CONFIG_ENTRIES_MAX = 64;
/** Replicas of one partition. */
export const REPLICAS_MAX = 32;

/** ByteWriter, or its twin that only counts. A message's `write` runs over both, so that its size is never stated twice. */
export interface Sink {
  u8(value: number): Sink;
  u16(value: number): Sink;
  u32(value: number): Sink;
  i32(value: number): Sink;
  i64(value: number): Sink;
  bool(value: boolean): Sink;
  raw(bytes: Uint8Array): Sink;
  string(text: string): Sink;
  blob(bytes: Uint8Array): Sink;
}

class SizeCounter implements Sink {
  size = 0;
  u8(_value: number): this {
    return this.#add(1);
  }
  u16(_value: number): this {
    return this.#add(2);
  }
  u32(_value: number): this {
    return this.#add(4);
  }
  i32(_value: number): this {
    return this.#add(4);
  }
  i64(_value: number): this {
    return this.#add(8);
  }
  bool(_value: boolean): this {
    return this.#add(1);
  }
  raw(bytes: Uint8Array): this {
    return this.#add(bytes.length);
  }
  string(text: string): this {
    return this.#add(2 + utf8Size(text));
  }
  blob(bytes: Uint8Array): this {
    return this.#add(4 + bytes.length);
  }
  #add(size: number): this {
    this.size += size;
    return this;
  }
}

/** Runs `write` twice: to know the size, then to fill one exact buffer. */
export function encode(write: (sink: Sink) => void): Uint8Array<ArrayBuffer> {
  const counter = new SizeCounter();
  write(counter);
  const writer = new ByteWriter(counter.size);
  write(writer);
  return writer.finish();
}

/** The whole of `bytes` must be used up; what does not follow the grammar becomes a fault, never an exception. */
export function decode<Value>(bytes: Uint8Array, read: (reader: ByteReader) => Value): Decoded<Value> {
  try {
    const reader = new ByteReader(bytes);
    const value = read(reader);
    reader.end();
    return { ok: true, value };
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    return { ok: false, fault: { message: error.message, at: error.at } };
  }
}

export function writeList<Item>(sink: Sink, items: readonly Item[], write: (item: Item) => void): void {
  sink.u32(items.length);
  for (const item of items) write(item);
}

/** The count is checked against `countMax` and against what the rest can hold before anything is allocated for it. */
export function readList<Item>(
  reader: ByteReader,
  bounds: { readonly elementBytesMin: number; readonly countMax: number },
  read: () => Item,
): Item[] {
  const at = reader.at;
  const count = reader.count(bounds.elementBytesMin);
  if (count > bounds.countMax)
    throw new DecodeError(`${String(count)} elements, at most ${String(bounds.countMax)}`, at);
  const items: Item[] = [];
  for (let index = 0; index < count; index += 1) items.push(read());
  return items;
}

const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const NO_ID_BYTES = new Uint8Array(16);
const NO_ID = '00'.repeat(16);

function hexDigit(code: number): number {
  return code <= 0x39 ? code - 0x30 : code - 0x57;
}

/** 16 bytes; `undefined` travels as zeros. */
export function writeTopicId(sink: Sink, id: TopicId | undefined): void {
  if (id === undefined) {
    sink.raw(NO_ID_BYTES);
    return;
  }
  assert(id.length === 32, `topic id of ${String(id.length)} digits`);
  for (let at = 0; at < 32; at += 2) sink.u8((hexDigit(id.charCodeAt(at)) << 4) | hexDigit(id.charCodeAt(at + 1)));
}

export function readOptionalTopicId(reader: ByteReader): TopicId | undefined {
  const bytes = reader.raw(16);
  let text = '';
  for (const byte of bytes) text += HEX[byte] as string;
  return text === NO_ID ? undefined : (text as TopicId);
}

export function readTopicId(reader: ByteReader): TopicId {
  const at = reader.at;
  const id = readOptionalTopicId(reader);
  if (id === undefined) throw new DecodeError('topic id is zero', at);
  return id;
}

function readAtLeast(reader: ByteReader, width: 'i32' | 'i64', least: number, what: string): number {
  const at = reader.at;
  const value = width === 'i32' ? reader.i32() : reader.i64();
  if (value < least) throw new DecodeError(`${what} is ${String(value)}`, at);
  return value;
}

export function readOffset(reader: ByteReader): Offset {
  return readAtLeast(reader, 'i64', 0, 'offset') as Offset;
}
/** -1: not told. */
export function readOptionalOffset(reader: ByteReader): Offset | undefined {
  const value = readAtLeast(reader, 'i64', -1, 'offset');
  return value === -1 ? undefined : (value as Offset);
}
export function readLeaderEpoch(reader: ByteReader): LeaderEpoch {
  return readAtLeast(reader, 'i32', -1, 'leader epoch') as LeaderEpoch;
}
export function readNodeId(reader: ByteReader): NodeId {
  return readAtLeast(reader, 'i32', 0, 'node id') as NodeId;
}
/** -1: none. */
export function readOptionalNodeId(reader: ByteReader): NodeId | undefined {
  const value = readAtLeast(reader, 'i32', -1, 'node id');
  return value === -1 ? undefined : (value as NodeId);
}
export function readTimestamp(reader: ByteReader): TimestampMs {
  return readAtLeast(reader, 'i64', -1, 'timestamp') as TimestampMs;
}
export function readProducerId(reader: ByteReader): ProducerId {
  return readAtLeast(reader, 'i64', -1, 'producer id') as ProducerId;
}
/** The rule for names is the broker's to apply, so that a bad one gets its own error; here only the length is bounded. */
export function readTopicName(reader: ByteReader): string {
  return reader.string(TOPIC_NAME_BYTES_MAX * 4);
}
/** One of the numbers that the grammar lists. */
export function readChoice<Choice>(reader: ByteReader, what: string, choices: readonly (Choice | undefined)[]): Choice {
  const at = reader.at;
  const value = reader.u8();
  const choice = choices[value];
  if (choice === undefined) throw new DecodeError(`${what} is ${String(value)}`, at);
  return choice;
}
/** A field that has only one value yet. */
export function readReserved(reader: ByteReader, what: string): void {
  const at = reader.at;
  const value = reader.u8();
  if (value !== 0) throw new DecodeError(`${what} is ${String(value)}, reserved as 0`, at);
}
