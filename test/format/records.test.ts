import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteWriter, DecodeError } from '../../src/base/bytes.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { BATCH_HEADER_BYTES, checkBatch, readBatchHeader, type BatchHeader } from '../../src/format/batch.ts';
import {
  checkRecords,
  decodeEpochStart,
  decodeRecords,
  encodeBatch,
  encodeEpochStart,
  encodeRecords,
  type RecordInput,
} from '../../src/format/records.ts';
import { mutate, mutation, records as someRecords } from './arbitraries.ts';

function headerFor(recordCount: number): BatchHeader {
  const sample = encodeBatch({ records: [{ timestamp: 0, key: null, value: null }] }, crc32cTable);
  const header = readBatchHeader(sample, 0);
  if (header === undefined) throw new Error('a sample batch has a header');
  return { ...header, recordCount };
}

/** Fields in one order, bytes as hex: compared as text, which is quick. */
function inHex(records: readonly (RecordInput & { readonly offset: number })[]): string {
  const hex = (bytes: Uint8Array | null): string | null => (bytes === null ? null : Buffer.from(bytes).toString('hex'));
  return JSON.stringify(
    records.map(({ offset, timestamp, key, value, headers = [] }) => [
      offset,
      timestamp,
      hex(key),
      hex(value),
      headers.map((header) => [header.key, hex(header.value)]),
    ]),
  );
}

/** Undefined: decoded. Any error but DecodeError goes through and fails the test. */
function decodeFault(bytes: Uint8Array, recordCount: number): string | undefined {
  try {
    decodeRecords(bytes, headerFor(recordCount));
    return undefined;
  } catch (error) {
    if (error instanceof DecodeError) return error.message;
    throw error;
  }
}

describe('encodeBatch and decodeRecords', () => {
  it('give back what was put in, whatever the records hold', () => {
    fc.assert(
      fc.property(someRecords, (records) => {
        const batch = encodeBatch({ records }, crc32cTable);
        const checked = checkBatch(batch, 0, crc32cTable);
        if (!checked.ok) throw new Error(checked.detail);
        const decoded = decodeRecords(batch.subarray(BATCH_HEADER_BYTES), checked.header);
        expect(inHex(decoded)).toBe(inHex(records.map((record, index) => ({ offset: index, ...record }))));
      }),
      { numRuns: 150 },
    );
  });

  it('count offsets from the stamped base offset and take append time for every record', () => {
    const batch = encodeBatch(
      {
        records: [
          { timestamp: 5, key: null, value: null },
          { timestamp: 9, key: null, value: null },
        ],
      },
      crc32cTable,
    );
    const header = readBatchHeader(batch, 0);
    if (header === undefined) throw new Error('no header');
    const decoded = decodeRecords(batch.subarray(BATCH_HEADER_BYTES), {
      ...header,
      baseOffset: 1000,
      attributes: 8,
      maxTimestamp: 77,
    });
    expect(decoded.map(({ offset, timestamp }) => [offset, timestamp])).toEqual([
      [1000, 77],
      [1001, 77],
    ]);
  });
});

describe('checkRecords', () => {
  it('accepts exactly what decodeRecords decodes, for changed records and for garbage', () => {
    let accepted = 0;
    let refused = 0;
    const agree = (bytes: Uint8Array, count: number): void => {
      const decoded = decodeFault(bytes, count);
      const checked = checkRecords(bytes, count);
      if ((decoded === undefined) !== (checked === undefined)) {
        expect.fail(
          `${Buffer.from(bytes).toString('hex')}, ${String(count)} records; checked: ${String(checked)}; decoded: ${String(decoded)}`,
        );
      }
      if (decoded === undefined) accepted += 1;
      else refused += 1;
    };
    fc.assert(
      fc.property(
        someRecords,
        fc.array(mutation, { maxLength: 2 }),
        fc.integer({ min: -1, max: 1 }),
        (records, mutations, more) => {
          agree(
            mutate(encodeRecords(records, records[0]?.timestamp ?? 0), mutations),
            Math.max(1, records.length + (mutations.length === 0 ? more : 0)),
          );
        },
      ),
      { numRuns: 1500 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.integer({ min: 1, max: 6 }), (garbage, count) => {
        agree(garbage, count);
      }),
      { numRuns: 1500 },
    );
    // Bytes that are likely in records, so that more of them are nearly good.
    const small = fc.array(fc.constantFrom(0, 0, 0, 1, 2, 4, 12, 14, 16, 0x80, 0x81, 0xff), {
      minLength: 7,
      maxLength: 24,
    });
    fc.assert(
      fc.property(small, fc.integer({ min: 1, max: 3 }), (body, count) => {
        agree(Uint8Array.from([(body.length - 1) * 2, 0, ...body.slice(2)]), count);
        agree(Uint8Array.from(body), count);
      }),
      { numRuns: 3000 },
    );
    expect(Math.min(accepted, refused)).toBeGreaterThan(200);
  });

  it('names what is wrong, record by record', () => {
    const good = encodeRecords(
      [
        { timestamp: 0, key: null, value: null },
        { timestamp: 0, key: null, value: null },
      ],
      0,
    );
    expect([...good]).toEqual([12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 2, 1, 1, 0]);
    const changed = (at: number, value: number): Uint8Array =>
      Uint8Array.from(good, (byte, index) => (index === at ? value : byte));
    expect(checkRecords(good, 2)).toBeUndefined();
    expect(checkRecords(good, 3)).toBe('3 records cannot be in 14 bytes');
    expect(checkRecords(good, 1)).toBe('7 bytes behind the last record');
    expect(checkRecords(changed(8, 1), 2)).toBe('record 1 has attributes');
    expect(checkRecords(changed(10, 4), 2)).toBe('record 1 has offset delta 2');
    expect(checkRecords(changed(10, 0), 2)).toBe('record 1 has offset delta 0');
    expect(checkRecords(changed(7, 14), 2)).toBe('record 1 does not end inside the batch');
    expect(checkRecords(changed(0, 10), 2)).toBe('record 0 does not end inside the batch');
    expect(checkRecords(changed(4, 3), 2)).toBe('record 0 has a key or value that does not end inside it');
    expect(checkRecords(changed(13, 2), 2)).toBe('record 1 has a header without a name');
    expect(checkRecords(changed(13, 1), 2)).toBe('record 1 has a header count that is not one');
    expect(checkRecords(changed(5, 0), 2)).toBeUndefined();
  });

  it('refuses varints over 32 bits, timestamps beyond the safe integers and header names that are not UTF-8', () => {
    const body = (...bytes: number[]): Uint8Array => Uint8Array.from([bytes.length * 2, ...bytes]);
    expect(checkRecords(body(0, 0, 0, 0x81, 0x80, 0x80, 0x80, 0x00, 1, 0), 1)).toBeUndefined();
    expect(checkRecords(body(0, 0, 0, 0x81, 0x80, 0x80, 0x80, 0x10, 1, 0), 1)).toMatch(/key or value/);
    expect(checkRecords(body(0, 0, 0, 0x81, 0x80, 0x80, 0x80, 0x80, 0, 1, 0), 1)).toMatch(/key or value/);
    expect(checkRecords(body(0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 1, 1, 0), 1)).toBeUndefined();
    expect(checkRecords(body(0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 1, 1, 0), 1)).toMatch(/timestamp/);
    expect(checkRecords(body(0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 1, 1, 0), 1)).toMatch(
      /timestamp/,
    );
    for (const [name, good] of [
      [[0x41], true],
      [[0xc3, 0xa9], true],
      [[0xc1, 0x81], false],
      [[0xed, 0xa0, 0x80], false],
      [[0xf4, 0x90, 0x80, 0x80], false],
      [[0xe2, 0x82], false],
      [[0xf0, 0x9f, 0x98, 0x80], true],
      [[0xef, 0xbb, 0xbf], true],
    ] as const) {
      const bytes = body(0, 0, 0, 1, 1, 2, name.length * 2, ...name, 1);
      expect(checkRecords(bytes, 1) === undefined, String(name)).toBe(good);
      expect(decodeFault(bytes, 1) === undefined, String(name)).toBe(good);
    }
  });

  it('looks only at the range it is given', () => {
    const good = encodeRecords([{ timestamp: 3, key: null, value: Uint8Array.of(1, 2, 3) }], 3);
    const framed = Uint8Array.from([0xff, 0xff, ...good, 0xff]);
    expect(checkRecords(framed, 1, 2, framed.length - 1)).toBeUndefined();
    expect(checkRecords(framed, 1, 2)).toMatch(/behind the last record/);
    expect(checkRecords(framed, 1, 2, framed.length - 2)).toMatch(/does not end/);
  });
});

describe('encodeEpochStart', () => {
  it('makes a control batch of one record that says who leads since when', () => {
    const batch = encodeEpochStart(7, 3, 1_700_000_000_000, crc32cTable);
    const checked = checkBatch(batch, 0, crc32cTable);
    if (!checked.ok) throw new Error(checked.detail);
    expect(checked.header).toMatchObject({ isControl: true, recordCount: 1, producerId: -1 });
    const [record] = decodeRecords(batch.subarray(BATCH_HEADER_BYTES), checked.header);
    if (record === undefined) throw new Error('no record');
    expect(decodeEpochStart(record)).toEqual({ epoch: 7, node: 3 });
    expect(decodeEpochStart({ ...record, key: new ByteWriter(4).u16(0).u16(1).finish() })).toBeUndefined();
    expect(decodeEpochStart({ ...record, key: null })).toBeUndefined();
    expect(() => decodeEpochStart({ ...record, value: Uint8Array.of(0, 0, 0) })).toThrow(DecodeError);
  });
});
