import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leaderEpoch, offset, position, timestampMs, topicId } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { ERROR_NAMES, ERRORS, errorName, isRivuletError, RivuletError } from '../../src/base/errors.ts';
import { isTopicName } from '../../src/base/limits.ts';
import { Ring } from '../../src/base/ring.ts';

describe('brands', () => {
  test('constructors refuse what is not a value of their kind', () => {
    for (const bad of [-1, 0.5, Number.NaN, 2 ** 53]) {
      expect(() => offset(bad)).toThrow();
      expect(() => position(bad)).toThrow();
    }
    expect(() => leaderEpoch(-2)).toThrow();
    expect(() => timestampMs(-2)).toThrow();
    expect(() => topicId('../../../etc/passwd')).toThrow();
    expect(offset(2 ** 53 - 1)).toBe(9007199254740991);
  });
});

describe('crc32cTable', () => {
  // RFC 3720, appendix B.4.
  test('known values of the standard', () => {
    expect(crc32cTable(new Uint8Array(32))).toBe(0x8a91_36aa);
    expect(crc32cTable(new Uint8Array(32).fill(0xff))).toBe(0x62a8_ab43);
    expect(crc32cTable(Uint8Array.from({ length: 32 }, (_, index) => index))).toBe(0x46dd_794e);
    expect(crc32cTable(new TextEncoder().encode('123456789'))).toBe(0xe306_9283);
  });
  test('continuing an earlier call is the checksum of both parts together', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array(), (first, second) => {
        const both = new Uint8Array([...first, ...second]);
        expect(crc32cTable(second, crc32cTable(first))).toBe(crc32cTable(both));
      }),
    );
  });
});

describe('error registry', () => {
  test('numbers are unique, above 0, and lead back to their names', () => {
    const codes = ERROR_NAMES.map((name) => ERRORS[name].code);
    expect(new Set(codes).size).toBe(codes.length);
    for (const name of ERROR_NAMES) {
      expect(ERRORS[name].code).toBeGreaterThan(0);
      expect(errorName(ERRORS[name].code)).toBe(name);
      expect(ERRORS[name].sentence).toMatch(/\.$/);
    }
    expect(errorName(0)).toBeUndefined();
  });
  test('isRivuletError recognises an error of another copy of the package by its brand', () => {
    expect(isRivuletError(new RivuletError('INTERNAL'))).toBe(true);
    expect(isRivuletError({ brand: 'rivulet.error' })).toBe(true);
    expect(isRivuletError(new Error('INTERNAL'))).toBe(false);
    expect(isRivuletError(undefined)).toBe(false);
  });
});

describe('isTopicName', () => {
  test('no path can be made of an accepted name', () => {
    for (const bad of ['', '.', '..', 'a/b', 'a\\b', 'a\0b', 'ü', ' ', 'x'.repeat(250), 'a\n'])
      expect(isTopicName(bad)).toBe(false);
    for (const good of ['a', 'A.b_c-9', '...', 'x'.repeat(249)]) expect(isTopicName(good)).toBe(true);
  });
});

describe('Ring', () => {
  test('it behaves as a bounded queue under any sequence of operations', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.array(fc.option(fc.nat(), { nil: undefined })),
        (capacity, operations) => {
          const ring = new Ring<number>(capacity);
          const model: number[] = [];
          for (const value of operations) {
            if (value === undefined) expect(ring.shift()).toBe(model.shift());
            else {
              expect(ring.push(value)).toBe(model.length < capacity);
              if (model.length < capacity) model.push(value);
            }
            expect(ring.length).toBe(model.length);
            expect(ring.peek()).toBe(model[0]);
            expect(ring.full).toBe(model.length === capacity);
          }
        },
      ),
    );
  });
});
