import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CommandError } from '../../src/cli/failure.ts';
import { RecordSplitter } from '../../src/cli/record-splitter.ts';

function split(
  chunks: readonly Buffer[],
  separator: Buffer,
  recordBytesMax = 1_000_000,
): { records: string[]; rest: string | undefined } {
  const splitter = new RecordSplitter({ separator, recordBytesMax });
  const records: string[] = [];
  for (const chunk of chunks) {
    splitter.push(chunk, (record) => {
      records.push(Buffer.from(record).toString('latin1'));
    });
    // The stream may reuse its memory once the chunk was taken.
    chunk.fill(0xee);
  }
  const rest = splitter.end();
  return { records, rest: rest === undefined ? undefined : Buffer.from(rest).toString('latin1') };
}

/** The plainest way: all bytes at once. */
function model(input: Buffer, separator: Buffer): { records: string[]; rest: string | undefined } {
  const parts = input.toString('latin1').split(separator.toString('latin1'));
  const rest = parts.pop();
  return { records: parts, rest: rest === '' ? undefined : rest };
}

describe('RecordSplitter', () => {
  test('it agrees with splitting the whole input, however it is cut into chunks', () => {
    const bytes = fc
      .array(fc.constantFrom(0x61, 0x0a, 0x0d, 0x00), { maxLength: 60 })
      .map((values) => Buffer.from(values));
    const separators = fc.constantFrom('\n', '\r\n', '\0', 'a', '\n\n', 'a\na').map((text) => Buffer.from(text));
    fc.assert(
      fc.property(
        bytes,
        separators,
        fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }),
        (input, separator, sizes) => {
          const chunks: Buffer[] = [];
          for (let at = 0, turn = 0; at < input.length; turn += 1) {
            const size = sizes[turn % sizes.length] ?? 1;
            chunks.push(Buffer.from(input.subarray(at, at + size)));
            at += size;
          }
          expect(split(chunks, separator)).toEqual(model(input, separator));
        },
      ),
      { numRuns: 1000 },
    );
  });

  test('records and the rest, joined by the separator, are the input again', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (input) => {
        const { records, rest } = split([Buffer.from(input)], Buffer.from('\n'));
        expect(
          Buffer.from(records.map((record) => `${record}\n`).join('') + (rest ?? ''), 'latin1').equals(
            Buffer.from(input),
          ),
        ).toBe(true);
      }),
    );
  });

  test('a record over the limit is refused by its number, and not kept growing', () => {
    expect(() =>
      split([Buffer.from('ok\n'), Buffer.alloc(600, 0x61), Buffer.alloc(600, 0x61)], Buffer.from('\n'), 1000),
    ).toThrow(/record 2 of the input/);
    expect(() => split([Buffer.alloc(1001, 0x61)], Buffer.from('\n'), 1000)).toThrow(CommandError);
    expect(split([Buffer.alloc(1000, 0x61), Buffer.from('\n')], Buffer.from('\n'), 1000).records).toHaveLength(1);
  });
});
