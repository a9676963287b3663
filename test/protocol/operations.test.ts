import { existsSync, readFileSync, readdirSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SPOKEN_FACT, parseSpoken } from '../../src/protocol/answer.ts';
import { highestCommon, negotiate } from '../../src/protocol/negotiate.ts';
import { OPERATION, OPERATIONS, RESERVED, admit, operationOf } from '../../src/protocol/operations.ts';
import { MESSAGES, holdsFailure } from './messages.ts';
import { effort } from '../effort.ts';

/** Every value of a byte, or some in a quick run. */
const STEP = effort(1, 17);

const golden = new URL('../golden/protocol/', import.meta.url);
const fileName = (name: string): string => name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase();
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const u32At = (bytes: Uint8Array, at: number, value: number): Uint8Array => {
  const changed = bytes.slice();
  new DataView(changed.buffer).setUint32(at, value);
  return changed;
};
/** Objects and array elements in a decoded value; views of the input are not counted. */
function elements(value: unknown): number {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return 1;
  return Object.values(value).reduce((sum: number, part) => sum + elements(part), 1);
}

describe('the table of operations', () => {
  const names = [...OPERATIONS, ...RESERVED];

  test('numbers and names are taken once, reserved ones included', () => {
    expect(new Set(names.map(({ operation }) => operation)).size).toBe(names.length);
    expect(new Set(names.map(({ name }) => name)).size).toBe(names.length);
  });

  test('numbers and names that were released are never given up or changed', () => {
    const frozen = JSON.parse(readFileSync(new URL('numbers.json', golden), 'utf8')) as Record<string, string>;
    for (const [number, name] of Object.entries(frozen)) {
      expect(names.find(({ operation }) => operation === Number(number))?.name).toBe(name);
    }
    expect(names.map(({ operation }) => String(operation)).filter((number) => !(number in frozen))).toEqual([]);
  });

  test('each version of each operation has its own file, and each file is in the table', () => {
    const expected = OPERATIONS.flatMap(({ name, min, max }) =>
      Array.from({ length: max - min + 1 }, (_, index) => `${fileName(name)}.v${String(min + index)}.ts`),
    );
    expect(readdirSync(new URL('../../src/protocol/operations/', import.meta.url)).sort()).toEqual(expected.sort());
  });

  test('each version of each operation is tested as request and response', () => {
    const expected = OPERATIONS.flatMap(({ name, min, max }) =>
      Array.from({ length: max - min + 1 }, (_, index) => `${fileName(name)}.v${String(min + index)}`).flatMap(
        (file) => [`${file}.request`, `${file}.response`],
      ),
    );
    expect(MESSAGES.map(({ name }) => name).sort()).toEqual(expected.sort());
  });
});

describe('admit', () => {
  test('takes every version in the table after Hello, and only Hello before', () => {
    for (const entry of OPERATIONS) {
      expect(admit({ operation: entry.operation, version: entry.max }, true)).toEqual({ ok: true, operation: entry });
      const early = admit({ operation: entry.operation, version: entry.min }, false);
      expect(early.ok ? undefined : early.failure.code).toBe(entry.name === 'Hello' ? undefined : 'HELLO_REQUIRED');
    }
  });

  test('lists what is spoken when it refuses an operation or a version', () => {
    const spoken = OPERATIONS.map(({ operation, min, max }) => ({ operation, min, max }));
    for (const operation of [0, 11, 30, 40, 65_535]) {
      const refused = admit({ operation, version: 1 }, true);
      expect(refused.ok ? undefined : refused.failure.code).toBe('UNSUPPORTED_OPERATION');
      expect(refused.ok ? undefined : parseSpoken(refused.failure.facts)).toEqual(spoken);
    }
    for (const version of [0, OPERATION.Fetch.max + 1, 255]) {
      const refused = admit({ operation: OPERATION.Fetch.operation, version }, true);
      expect(refused.ok ? undefined : refused.failure.code).toBe('UNSUPPORTED_VERSION');
      expect(refused.ok ? undefined : parseSpoken(refused.failure.facts)).toEqual(spoken);
    }
  });

  test('a Hello of an unknown version learns the versions before it was accepted', () => {
    const refused = admit({ operation: OPERATION.Hello.operation, version: 9 }, false);
    expect(refused.ok ? undefined : refused.failure.code).toBe('UNSUPPORTED_VERSION');
  });

  test('operationOf knows exactly the table', () => {
    expect(operationOf(OPERATION.Produce.operation)).toBe(OPERATION.Produce);
    expect(operationOf(0)).toBeUndefined();
  });
});

describe('negotiation', () => {
  const range = fc
    .tuple(fc.integer({ min: 0, max: 8 }), fc.integer({ min: 0, max: 8 }))
    .map(([low, high]) => ({ min: Math.min(low, high), max: Math.max(low, high) }));

  test('highestCommon is the largest version in both ranges', () => {
    fc.assert(
      fc.property(range, range, (ours, theirs) => {
        const common = Array.from({ length: 9 }, (_, version) => version).filter((version) =>
          [ours, theirs].every(({ min, max }) => version >= min && version <= max),
        );
        expect(highestCommon(ours, theirs)).toBe(common.at(-1));
        expect(highestCommon(theirs, ours)).toBe(common.at(-1));
      }),
    );
  });

  test('negotiate leaves out what one side does not speak', () => {
    const ours = [
      { operation: 1, min: 1, max: 3 },
      { operation: 2, min: 2, max: 2 },
      { operation: 3, min: 1, max: 1 },
    ];
    const theirs = [
      { operation: 1, min: 1, max: 2 },
      { operation: 2, min: 3, max: 4 },
      { operation: 9, min: 1, max: 1 },
    ];
    expect([...negotiate(ours, theirs)]).toEqual([[1, 2]]);
  });

  test('parseSpoken passes over what it does not understand', () => {
    expect(parseSpoken({ [SPOKEN_FACT]: '1:1-1 nonsense 3:2-4 x:1-1 5:1' })).toEqual([
      { operation: 1, min: 1, max: 1 },
      { operation: 3, min: 2, max: 4 },
    ]);
    expect(parseSpoken({})).toEqual([]);
    expect(parseSpoken({ [SPOKEN_FACT]: 5 })).toEqual([]);
  });
});

describe.each(MESSAGES)('$name', ({ name, sample, arbitrary, encode, decode, rawFrom }) => {
  const bytes = encode(sample);

  test('keeps the bytes it was released with', () => {
    const file = new URL(`${name}.hex`, golden);
    expect(existsSync(file), `${name}.hex is missing: see make-fixtures.ts`).toBe(true);
    expect(hex(bytes)).toBe(readFileSync(file, 'utf8').replaceAll(/\s/g, ''));
  });

  test('decodes what it encodes', () => {
    expect(decode(bytes)).toEqual({ ok: true, value: sample });
    fc.assert(
      fc.property(arbitrary, (value) => {
        expect(decode(encode(value))).toEqual({ ok: true, value });
      }),
    );
  });

  test('refuses every prefix and any trailing byte', () => {
    for (let size = 0; size < (rawFrom ?? bytes.length); size += 1)
      expect(decode(bytes.subarray(0, size)).ok, `prefix of ${String(size)}`).toBe(false);
    if (rawFrom === undefined) expect(decode(Uint8Array.of(...bytes, 0)).ok).toBe(false);
  });

  test('every other value of every byte is a fault inside the body or a value with exactly these bytes', () => {
    const changed = bytes.slice();
    const wrong: string[] = [];
    for (let at = 0; at < bytes.length; at += 1) {
      const right = bytes[at] as number;
      for (let value = at % STEP; value < 256; value += STEP) {
        changed[at] = value;
        const decoded = decode(changed);
        const fine = decoded.ok
          ? holdsFailure(decoded.value) || Buffer.compare(encode(decoded.value), changed) === 0
          : decoded.fault.at >= 0 && decoded.fault.at <= changed.length && decoded.fault.message !== '';
        if (!fine) wrong.push(`byte ${String(at)} as ${String(value)}`);
      }
      changed[at] = right;
    }
    expect(wrong).toEqual([]);
  });

  test('garbage never throws, and never becomes more elements than bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.integer({ min: 0, max: bytes.length }), (garbage, keep) => {
        const input = Uint8Array.of(...bytes.subarray(0, keep), ...garbage);
        const decoded = decode(input);
        if (decoded.ok) expect(elements(decoded.value)).toBeLessThanOrEqual(input.length + 8);
      }),
      { numRuns: 500 },
    );
  });

  test('a count that lies is refused, or is no count', () => {
    for (let at = 0; at + 4 <= bytes.length; at += 1) {
      for (const value of [0xffff_ffff, 0x7fff_ffff, 0x0001_0000, bytes.length]) {
        const decoded = decode(u32At(bytes, at, value));
        if (decoded.ok) expect(elements(decoded.value)).toBeLessThanOrEqual(elements(sample) + 2);
      }
    }
  });
});
