import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  ByteReader,
  ByteWriter,
  DecodeError,
  readI64,
  stringSize,
  utf8Decode,
  utf8Encode,
  utf8Size,
  varintSize,
  varlongSize,
  writeI64,
} from '../../src/base/bytes.ts';

const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const safe = fc.maxSafeInteger();
const varlong = fc.integer({ min: -(2 ** 52 - 1), max: 2 ** 52 - 1 });

describe('varint', () => {
  test('every 32-bit value comes back, in the size computed first', () => {
    fc.assert(
      fc.property(int32, (value) => {
        const writer = new ByteWriter(varintSize(value)).varint(value);
        expect(new ByteReader(writer.finish()).varint()).toBe(value);
      }),
    );
  });
  test('the edges of each length take the bytes that the format says', () => {
    expect([0, -1, 63, -64, 64, -65, 8191, 8192, 2 ** 31 - 1, -(2 ** 31)].map(varintSize)).toEqual([
      1, 1, 1, 1, 2, 2, 2, 3, 5, 5,
    ]);
  });
  test('known bytes of the public encoding', () => {
    expect([...new ByteWriter(2).varint(150).finish()]).toEqual([0xac, 0x02]);
    expect([...new ByteWriter(1).varint(-1).finish()]).toEqual([0x01]);
  });
  test('an overlong one and one over 32 bits are refused', () => {
    expect(() => new ByteReader(new Uint8Array([0x80, 0x80, 0x80, 0x80, 0x80, 0x01])).varint()).toThrow(DecodeError);
    expect(() => new ByteReader(new Uint8Array([0xff, 0xff, 0xff, 0xff, 0x1f])).varint()).toThrow(DecodeError);
  });
});

describe('varlong', () => {
  test('every value within 2^52 comes back, in the size computed first', () => {
    fc.assert(
      fc.property(varlong, (value) => {
        expect(new ByteReader(new ByteWriter(varlongSize(value)).varlong(value).finish()).varlong()).toBe(value);
      }),
    );
  });
  test('it agrees with varint where both can say the value', () => {
    fc.assert(
      fc.property(int32, (value) => {
        expect(new ByteWriter(varlongSize(value)).varlong(value).finish()).toEqual(
          new ByteWriter(varintSize(value)).varint(value).finish(),
        );
      }),
    );
  });
});

describe('i64', () => {
  test('every safe integer comes back and agrees with the platform', () => {
    fc.assert(
      fc.property(safe, (value) => {
        const bytes = new Uint8Array(8);
        writeI64(bytes, 0, value);
        expect(new DataView(bytes.buffer).getBigInt64(0)).toBe(BigInt(value));
        expect(readI64(bytes, 0)).toBe(value);
      }),
    );
  });
  test('a value beyond the safe integers is undefined, never a wrong number', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
        const bytes = new Uint8Array(8);
        new DataView(bytes.buffer).setBigInt64(0, value);
        const expected =
          Number.isSafeInteger(Number(value)) && BigInt(Number(value)) === value ? Number(value) : undefined;
        expect(readI64(bytes, 0)).toBe(expected);
      }),
    );
  });
});

describe('strings', () => {
  test('utf8Size is the size of the encoding, unpaired surrogates included', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(utf8Size(text)).toBe(utf8Encode(text).length);
      }),
    );
  });
  test('a byte order mark is kept', () => {
    expect(utf8Decode(utf8Encode('\ufeffx'))).toBe('\ufeffx');
  });
  test('bytes that are not UTF-8 are a DecodeError', () => {
    expect(() => new ByteReader(new Uint8Array([0, 2, 0xc3, 0x28])).string()).toThrow(DecodeError);
  });
});

describe('ByteReader', () => {
  test('any bytes give values or DecodeError, and it never reads past the end', () => {
    const reads = ['u8', 'u16', 'u32', 'i32', 'i64', 'bool', 'varint', 'varlong', 'string'] as const;
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 40 }),
        fc.array(fc.constantFrom(...reads), { maxLength: 12 }),
        (bytes, operations) => {
          const reader = new ByteReader(bytes);
          try {
            for (const operation of operations) reader[operation]();
          } catch (error) {
            expect(error).toBeInstanceOf(DecodeError);
          }
          expect(reader.at).toBeLessThanOrEqual(bytes.length);
        },
      ),
    );
  });
  test('a count that cannot fit is refused before anything is made', () => {
    const lying = new ByteWriter(4).u32(0xffff_ffff).finish();
    expect(() => new ByteReader(lying).count(1)).toThrow(/cannot fit/);
  });
  test('trailing bytes are an error', () => {
    expect(() => new ByteReader(new Uint8Array(1)).end()).toThrow(DecodeError);
  });
});

describe('ByteWriter', () => {
  test('finish fails when the size computed first was wrong, either way', () => {
    expect(() => new ByteWriter(3).u16(1).finish()).toThrow();
    expect(() => new ByteWriter(1).u16(1)).toThrow();
    expect(new ByteWriter(stringSize('añ€😀')).string('añ€😀').finish().length).toBe(12);
  });
});
