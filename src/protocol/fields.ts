// Field types of operation bodies. An operation declares its request and response once, as a structure of these; size,
// encoder, decoder, grammar in docs/PROTOCOL.md and generated test values all come from that one declaration.
import { assert } from '../base/assert.ts';
import { blobSize, ByteReader, ByteWriter, DecodeError, stringSize } from '../base/bytes.ts';
import { topicId, type TopicId } from '../base/brands.ts';

export interface Field<Value> {
  /** As printed in the grammar. */
  readonly grammar: string;
  /** Smallest encoding, so that a lying count is refused before anything is allocated. */
  readonly bytesMin: number;
  /** For structures: their parts, for the documentation. */
  readonly parts?: readonly Part[];
  /** For arrays and optionals: what they hold. */
  readonly element?: Shape;
  size(value: Value): number;
  write(writer: ByteWriter, value: Value): void;
  /** Throws DecodeError. */
  read(reader: ByteReader): Value;
}

/** A field without its value type: what the documentation needs. */
export interface Shape {
  readonly grammar: string;
  readonly parts?: readonly Part[];
  readonly element?: Shape;
}
export interface Part {
  readonly name: string;
  readonly about: string;
  readonly shape: Shape;
}

/** A field of a structure with its sentence. */
export interface Documented<Value> {
  readonly field: Field<Value>;
  readonly about: string;
}
export function is<Value>(field: Field<Value>, about: string): Documented<Value> {
  return { field, about };
}

function fixed<Value>(
  grammar: string,
  bytes: number,
  write: (writer: ByteWriter, value: Value) => void,
  read: (reader: ByteReader) => Value,
): Field<Value> {
  return { grammar, bytesMin: bytes, size: () => bytes, write, read };
}

export const u8: Field<number> = fixed('u8', 1, (writer, value) => void writer.u8(value), (reader) => reader.u8());
export const u16: Field<number> = fixed('u16', 2, (writer, value) => void writer.u16(value), (reader) => reader.u16());
export const u32: Field<number> = fixed('u32', 4, (writer, value) => void writer.u32(value), (reader) => reader.u32());
export const i32: Field<number> = fixed('i32', 4, (writer, value) => void writer.i32(value), (reader) => reader.i32());
export const i64: Field<number> = fixed('i64', 8, (writer, value) => void writer.i64(value), (reader) => reader.i64());
export const bool: Field<boolean> = fixed('bool', 1, (writer, value) => void writer.bool(value), (reader) => reader.bool());

const HEX = '0123456789abcdef';

/** 16 raw bytes on the wire, 32 hex digits in code. */
export const topicIdField: Field<TopicId> = fixed(
  'uuid',
  16,
  (writer, value) => {
    for (let index = 0; index < 32; index += 2) writer.u8(Number.parseInt(value.slice(index, index + 2), 16));
  },
  (reader) => {
    let text = '';
    for (const byte of reader.raw(16)) text += `${HEX.charAt(byte >> 4)}${HEX.charAt(byte & 15)}`;
    return topicId(text);
  },
);

/** A number restricted to a range that both sides check. */
export function within(field: Field<number>, least: number, most: number): Field<number> {
  return {
    ...field,
    grammar: `${field.grammar} (${String(least)} to ${String(most)})`,
    read: (reader) => {
      const at = reader.at;
      const value = field.read(reader);
      if (value < least || value > most) throw new DecodeError(`${String(value)} is not within ${String(least)} to ${String(most)}`, at);
      return value;
    },
  };
}

export function string(bytesMax: number): Field<string> {
  return {
    grammar: `string (up to ${String(bytesMax)} bytes)`,
    bytesMin: 2,
    size: stringSize,
    write: (writer, value) => {
      assert(stringSize(value) - 2 <= bytesMax, `string over ${String(bytesMax)} bytes`);
      writer.string(value);
    },
    read: (reader) => reader.string(bytesMax),
  };
}

export function blob(bytesMax: number): Field<Uint8Array> {
  return {
    grammar: `bytes (up to ${String(bytesMax)})`,
    bytesMin: 4,
    size: blobSize,
    write: (writer, value) => void writer.blob(value),
    read: (reader) => reader.blob(bytesMax),
  };
}

export function optional<Value>(field: Field<Value>): Field<Value | undefined> {
  return {
    grammar: `optional ${field.grammar}`,
    bytesMin: 1,
    element: field,
    size: (value) => 1 + (value === undefined ? 0 : field.size(value)),
    write: (writer, value) => {
      writer.bool(value !== undefined);
      if (value !== undefined) field.write(writer, value);
    },
    read: (reader) => (reader.bool() ? field.read(reader) : undefined),
  };
}

export function array<Value>(field: Field<Value>, countMax: number): Field<readonly Value[]> {
  return {
    grammar: `array of ${field.grammar} (up to ${String(countMax)})`,
    bytesMin: 4,
    element: field,
    size: (values) => values.reduce((sum, value) => sum + field.size(value), 4),
    write: (writer, values) => {
      assert(values.length <= countMax, `array of ${String(values.length)} elements`);
      writer.u32(values.length);
      for (const value of values) field.write(writer, value);
    },
    read: (reader) => {
      const at = reader.at;
      const count = reader.count(field.bytesMin);
      if (count > countMax) throw new DecodeError(`${String(count)} elements, at most ${String(countMax)}`, at);
      const values: Value[] = [];
      for (let index = 0; index < count; index += 1) values.push(field.read(reader));
      return values;
    },
  };
}

export interface KeyValue {
  readonly key: string;
  readonly value: string;
}

type Fields<Value extends object> = { readonly [Name in keyof Value]-?: Documented<Value[Name]> };

/** Parts in the order of their declaration. */
export function struct<Value extends object>(fields: Fields<Value>): Field<Value> {
  const names = Object.keys(fields) as (keyof Value & string)[];
  return {
    grammar: 'structure',
    bytesMin: names.reduce((sum, name) => sum + fields[name].field.bytesMin, 0),
    parts: names.map((name) => ({ name, about: fields[name].about, shape: fields[name].field })),
    size: (value) => names.reduce((sum, name) => sum + fields[name].field.size(value[name]), 0),
    write: (writer, value) => {
      for (const name of names) fields[name].field.write(writer, value[name]);
    },
    read: (reader) => {
      const value: Partial<Value> = {};
      for (const name of names) value[name] = fields[name].field.read(reader);
      return value as Value;
    },
  };
}
