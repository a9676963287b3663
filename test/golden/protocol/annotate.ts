// Worked examples: real frames taken apart field by field. Each call reads the next field, so that a note can never stand
// beside other bytes than it speaks of; `end` insists that nothing is left.
import { ByteReader } from '../../../src/base/bytes.ts';

export class Annotated {
  readonly #reader: ByteReader;
  readonly #lines: string[] = [];
  constructor(bytes: Uint8Array) {
    this.#reader = new ByteReader(bytes);
  }
  u8(note: string): this {
    return this.#line(1, (reader) => String(reader.u8()), note);
  }
  u16(note: string): this {
    return this.#line(2, (reader) => String(reader.u16()), note);
  }
  u32(note: string): this {
    return this.#line(4, (reader) => String(reader.u32()), note);
  }
  i32(note: string): this {
    return this.#line(4, (reader) => String(reader.i32()), note);
  }
  i64(note: string): this {
    return this.#line(8, (reader) => String(reader.i64()), note);
  }
  i16(note: string): this {
    return this.#line(2, (reader) => String((reader.u16() << 16) >> 16), note);
  }
  string(note: string): this {
    const size = new ByteReader(this.#reader.bytes.subarray(this.#reader.at)).u16();
    return this.#line(2 + size, (reader) => JSON.stringify(reader.string()), note);
  }
  raw(size: number, note: string): this {
    return this.#line(size, (reader) => (reader.raw(size), ''), note);
  }
  /** A zigzag varint that must be `value`, which the note explains. */
  varint(value: number, note: string): this {
    const probe = new ByteReader(this.#reader.bytes.subarray(this.#reader.at));
    const found = probe.varlong();
    if (found !== value) throw new Error(`${note}: ${String(found)} where ${String(value)} was meant`);
    return this.#line(probe.at, (reader) => String(reader.varlong()), note);
  }
  /** The header that all frames have. */
  frame(operation: string, answer: boolean): this {
    this.u32('length of what follows')
      .u16(`operation: ${operation}`)
      .u8('version')
      .u8(answer ? 'flags: an answer' : 'flags: a request');
    return this.u32('correlation id');
  }
  end(): string {
    this.#reader.end();
    return `\`\`\`\n${this.#lines.join('\n')}\n\`\`\``;
  }

  #line(size: number, read: (reader: ByteReader) => string, note: string): this {
    const { at } = this.#reader;
    const value = read(this.#reader);
    const text = value === '' ? note : `${note} = ${value}`;
    for (let from = 0; from < size; from += 16) {
      const part = this.#reader.bytes.subarray(at + from, at + Math.min(size, from + 16));
      const hex = Array.from(part, (byte) => byte.toString(16).padStart(2, '0')).join(' ');
      this.#lines.push(from === 0 ? `${hex.padEnd(49)} ${text}` : hex);
    }
    return this;
  }
}
