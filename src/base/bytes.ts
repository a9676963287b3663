// Cursors over bytes, big-endian, used by every format on disk and on the wire. Encoders know their size first and fill
// one exact buffer; decoders never read past the end and say where and why they stopped.
import { assert } from './assert.ts';

const utf8Encoder = new TextEncoder();
const utf8Decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Input that does not follow its format. Thrown by ByteReader only; each decoder's entry point turns it into a value. */
export class DecodeError extends Error {
  override readonly name = 'DecodeError';
  /** Byte position in the decoded input where the fault was found. */
  readonly at: number;
  constructor(message: string, at: number) {
    super(`${message} (at byte ${String(at)})`);
    this.at = at;
  }
}

export function utf8Encode(text: string): Uint8Array<ArrayBuffer> {
  return utf8Encoder.encode(text);
}

/** Throws TypeError when the bytes are not UTF-8. */
export function utf8Decode(bytes: Uint8Array): string {
  return utf8Decoder.decode(bytes);
}

export function utf8Size(text: string): number {
  let size = 0;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) size += 1;
    else if (unit < 0x800) size += 2;
    else if (unit >= 0xd800 && unit < 0xdc00 && index + 1 < text.length && isLowSurrogate(text, index + 1)) {
      size += 4;
      index += 1;
    } else size += 3;
  }
  return size;
}

function isLowSurrogate(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return unit >= 0xdc00 && unit < 0xe000;
}

const TWO_32 = 0x1_0000_0000;
const HIGH_MAX = 0x1f_ffff;

export function readU32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] as number) * 0x100_0000 +
      (((bytes[at + 1] as number) << 16) | ((bytes[at + 2] as number) << 8) | (bytes[at + 3] as number))) >>>
    0
  );
}
export function readU16(bytes: Uint8Array, at: number): number {
  return ((bytes[at] as number) << 8) | (bytes[at + 1] as number);
}
export function readI32(bytes: Uint8Array, at: number): number {
  return readU32(bytes, at) | 0;
}
/** Signed 64-bit as a safe integer; undefined when it does not fit in one (hostile or damaged input). */
export function readI64(bytes: Uint8Array, at: number): number | undefined {
  const high = readI32(bytes, at);
  if (high > HIGH_MAX || high < -HIGH_MAX - 1) return undefined;
  const value = high * TWO_32 + readU32(bytes, at + 4);
  return Number.isSafeInteger(value) ? value : undefined;
}
export function writeU16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 8;
  bytes[at + 1] = value;
}
/** Also for signed 32-bit values. */
export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}
export function writeI64(bytes: Uint8Array, at: number, value: number): void {
  assert(Number.isSafeInteger(value), `not a safe integer: ${String(value)}`);
  const high = Math.floor(value / TWO_32);
  writeU32(bytes, at, high);
  writeU32(bytes, at + 4, value - high * TWO_32);
}

/** Bytes a zigzag varint of this 32-bit value takes: 1 to 5. */
export function varintSize(value: number): number {
  let rest = ((value << 1) ^ (value >> 31)) >>> 0;
  let size = 1;
  while (rest >= 0x80) {
    rest >>>= 7;
    size += 1;
  }
  return size;
}

/** Bytes a zigzag varlong of this safe integer takes: 1 to 10. */
export function varlongSize(value: number): number {
  let rest = zigzag(value);
  let size = 1;
  while (rest >= 0x80) {
    rest = Math.floor(rest / 0x80);
    size += 1;
  }
  return size;
}

// Values beyond 2^52 would lose their lowest bit when doubled; timestamps and deltas are far below.
const ZIGZAG_MAX = 2 ** 52 - 1;

function zigzag(value: number): number {
  assert(Math.abs(value) <= ZIGZAG_MAX, `varlong out of range: ${String(value)}`);
  return value >= 0 ? value * 2 : -value * 2 - 1;
}

/** Fills one exact buffer; `finish` asserts that the size computed first was right. */
export class ByteWriter {
  readonly bytes: Uint8Array<ArrayBuffer>;
  at = 0;
  constructor(size: number) {
    this.bytes = new Uint8Array(size);
  }
  u8(value: number): this {
    this.bytes[this.reserve(1)] = value;
    return this;
  }
  u16(value: number): this {
    writeU16(this.bytes, this.reserve(2), value);
    return this;
  }
  u32(value: number): this {
    writeU32(this.bytes, this.reserve(4), value);
    return this;
  }
  i32(value: number): this {
    return this.u32(value);
  }
  i64(value: number): this {
    writeI64(this.bytes, this.reserve(8), value);
    return this;
  }
  bool(value: boolean): this {
    return this.u8(value ? 1 : 0);
  }
  varint(value: number): this {
    let rest = ((value << 1) ^ (value >> 31)) >>> 0;
    while (rest >= 0x80) {
      this.u8((rest & 0x7f) | 0x80);
      rest >>>= 7;
    }
    return this.u8(rest);
  }
  varlong(value: number): this {
    let rest = zigzag(value);
    while (rest >= 0x80) {
      this.u8((rest % 0x80) | 0x80);
      rest = Math.floor(rest / 0x80);
    }
    return this.u8(rest);
  }
  raw(bytes: Uint8Array): this {
    this.bytes.set(bytes, this.reserve(bytes.length));
    return this;
  }
  /** Length u16, then UTF-8. */
  string(text: string): this {
    const size = utf8Size(text);
    assert(size <= 0xffff, `string of ${String(size)} bytes`);
    this.u16(size);
    utf8Encoder.encodeInto(text, this.bytes.subarray(this.at, this.at + size));
    this.reserve(size);
    return this;
  }
  /** Length u32, then the bytes. */
  blob(bytes: Uint8Array): this {
    return this.u32(bytes.length).raw(bytes);
  }
  finish(): Uint8Array<ArrayBuffer> {
    assert(this.at === this.bytes.length, `encoded ${String(this.at)} of ${String(this.bytes.length)} bytes`);
    return this.bytes;
  }
  private reserve(size: number): number {
    const at = this.at;
    assert(at + size <= this.bytes.length, `encoder overran its ${String(this.bytes.length)} bytes`);
    this.at = at + size;
    return at;
  }
}

export function stringSize(text: string): number {
  return 2 + utf8Size(text);
}
export function blobSize(bytes: Uint8Array): number {
  return 4 + bytes.length;
}

/** Reads a view; every method throws DecodeError instead of reading past its end. `raw` and `blob` return views. */
export class ByteReader {
  readonly bytes: Uint8Array;
  at = 0;
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
  get remaining(): number {
    return this.bytes.length - this.at;
  }
  u8(): number {
    return this.bytes[this.take(1)] as number;
  }
  u16(): number {
    return readU16(this.bytes, this.take(2));
  }
  u32(): number {
    return readU32(this.bytes, this.take(4));
  }
  i32(): number {
    return readI32(this.bytes, this.take(4));
  }
  i64(): number {
    const at = this.take(8);
    const value = readI64(this.bytes, at);
    if (value === undefined) throw new DecodeError('64-bit value beyond the safe integers', at);
    return value;
  }
  bool(): boolean {
    const at = this.at;
    const value = this.u8();
    if (value > 1) throw new DecodeError(`boolean is ${String(value)}`, at);
    return value === 1;
  }
  varint(): number {
    const start = this.at;
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.u8();
      if (shift === 28 && byte > 0x0f) throw new DecodeError('varint over 32 bits', start);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return (value >>> 1) ^ -(value & 1);
    }
    throw new DecodeError('varint longer than 5 bytes', start);
  }
  varlong(): number {
    const start = this.at;
    let value = 0;
    let scale = 1;
    for (let count = 0; count < 10; count += 1) {
      const byte = this.u8();
      value += (byte & 0x7f) * scale;
      if (value > Number.MAX_SAFE_INTEGER) throw new DecodeError('varlong beyond the safe integers', start);
      if (byte < 0x80) return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
      scale *= 0x80;
    }
    throw new DecodeError('varlong longer than 10 bytes', start);
  }
  raw(size: number): Uint8Array {
    const at = this.take(size);
    return this.bytes.subarray(at, at + size);
  }
  string(maxBytes = 0xffff): string {
    const start = this.at;
    const size = this.u16();
    if (size > maxBytes) throw new DecodeError(`string of ${String(size)} bytes, at most ${String(maxBytes)}`, start);
    const view = this.raw(size);
    try {
      return utf8Decoder.decode(view);
    } catch {
      throw new DecodeError('string is not UTF-8', start);
    }
  }
  blob(maxBytes: number): Uint8Array {
    const start = this.at;
    const size = this.u32();
    if (size > maxBytes) throw new DecodeError(`blob of ${String(size)} bytes, at most ${String(maxBytes)}`, start);
    return this.raw(size);
  }
  /** A count of elements that take at least `elementBytesMin` each: refused when the rest could not hold them. */
  count(elementBytesMin: number): number {
    const start = this.at;
    const count = this.u32();
    if (count * elementBytesMin > this.remaining) {
      throw new DecodeError(`${String(count)} elements cannot fit in ${String(this.remaining)} bytes`, start);
    }
    return count;
  }
  /** Trailing bytes are an error: an encoder that says more than we know is not understood. */
  end(): void {
    if (this.remaining !== 0) throw new DecodeError(`${String(this.remaining)} trailing bytes`, this.at);
  }
  private take(size: number): number {
    const at = this.at;
    if (size > this.bytes.length - at) {
      throw new DecodeError(`needs ${String(size)} bytes, has ${String(this.bytes.length - at)}`, at);
    }
    this.at = at + size;
    return at;
  }
}
