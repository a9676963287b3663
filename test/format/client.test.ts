// The client writes and reads batches with code of its own, which is lazy and allocates little. Both must speak one format.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DecodeError, utf8Encode, writeU32 } from '../../src/base/bytes.ts';
import { CODECS } from '../../src/base/codec.ts';
import { openBatch, readStoredBatch, type BatchPlace } from '../../src/client/batch-view.ts';
import { ANONYMOUS, BatchWriter, BufferPool, identify } from '../../src/client/batch-writer.ts';
import { ATTRIBUTES_AT, BATCH_HEADER_BYTES, checkBatch, CRC_AT, stampBatch } from '../../src/format/batch.ts';
import { checkRecords, decodeRecords, encodeBatch, type RecordInput } from '../../src/format/records.ts';
import { crc32c } from '../../src/platform/checksum.ts';
import { compression } from '../../src/platform/compression.ts';
import { mutate, records as someRecords, type Mutation } from './arbitraries.ts';

const PLACE: BatchPlace = { topic: 't', partition: 0, highWatermark: 2 ** 50, from: 0, upTo: 2 ** 50 };

const flip: fc.Arbitrary<Mutation> = fc.record({
  kind: fc.constant('flip' as const),
  at: fc.integer({ min: 0, max: 9999 }).map((place) => place / 10_000),
  bit: fc.integer({ min: 0, max: 7 }),
});

type Plain = readonly [number, number, string | null, string | null, readonly (readonly [string, string | null])[]];
const hex = (bytes: Uint8Array | null): string | null => (bytes === null ? null : Buffer.from(bytes).toString('hex'));

function plain(record: RecordInput & { readonly offset: number }): Plain {
  const headers = (record.headers ?? []).map((header) => [header.key, hex(header.value)] as const);
  return [record.offset, record.timestamp, hex(record.key), hex(record.value), headers];
}

/** What the client reads; undefined when it refuses. */
function clientReads(batch: Uint8Array): readonly Plain[] | undefined {
  try {
    const stored = readStoredBatch(batch, 0, crc32c);
    if (stored === undefined) return undefined;
    return [...openBatch(batch, stored, PLACE, compression)].map((record) => [
      record.offset,
      record.timestamp,
      hex(record.key),
      hex(record.value),
      record.headers.map(({ key, value }) => [key, hex(value)] as const),
    ]);
  } catch (error) {
    // A header name that is not UTF-8 is a TypeError.
    if (error instanceof DecodeError || error instanceof TypeError) return undefined;
    throw error;
  }
}

function formatReads(batch: Uint8Array): readonly Plain[] | undefined {
  const checked = checkBatch(batch, 0, crc32c);
  if (!checked.ok) return undefined;
  const records = batch.subarray(BATCH_HEADER_BYTES, checked.size);
  if (checkRecords(records, checked.header.recordCount) !== undefined) return undefined;
  return decodeRecords(records, checked.header).map(plain);
}

function clientWrites(records: readonly RecordInput[], codec: keyof typeof CODECS): Uint8Array {
  const writer = new BatchWriter(new BufferPool(4_194_304, 4_194_304), 4096);
  for (const { key, value, headers = [], timestamp } of records) {
    const encoded = headers.map((header) => ({ key: utf8Encode(header.key), value: header.value }));
    expect(writer.append(key, value, encoded.length === 0 ? undefined : encoded, timestamp)).toBe(true);
  }
  const batch = writer.seal(codec, compression);
  identify(batch, ANONYMOUS, crc32c);
  return Uint8Array.from(batch);
}

describe('the client and format', () => {
  it('write the same bytes for the same records', () => {
    fc.assert(
      fc.property(someRecords, (records) => {
        expect(hex(clientWrites(records, 'none'))).toBe(hex(encodeBatch({ records }, crc32c)));
      }),
      { numRuns: 150 },
    );
  });

  it.each(['gzip', 'snappy', 'lz4', 'zstd'] as const)('read what the other compresses with %s', (codec) => {
    const records = Array.from({ length: 40 }, (_, index) => ({
      timestamp: 1_700_000_000_000 + index,
      key: null,
      value: utf8Encode('the same again and again '),
    }));
    const compress = (name: keyof typeof CODECS, bytes: Uint8Array): Uint8Array => compression.compress(name, bytes);
    const written = clientWrites(records, codec);
    const checked = checkBatch(written, 0, crc32c);
    if (!checked.ok) throw new Error(checked.detail);
    expect(checked.header.codec).toBe(CODECS[codec]);
    const unpacked = compression.decompress(codec, written.subarray(BATCH_HEADER_BYTES), 1_000_000);
    expect(decodeRecords(unpacked, checked.header)).toHaveLength(40);
    expect(clientReads(encodeBatch({ records, codec, compress }, crc32c))).toEqual(
      records.map((record, offset) => plain({ ...record, offset })),
    );
  });

  it('read the same records from the same bytes', () => {
    fc.assert(
      fc.property(someRecords, fc.integer({ min: 0, max: 2 ** 40 }), (records, baseOffset) => {
        const batch = encodeBatch({ records }, crc32c);
        stampBatch(batch, 0, baseOffset, 3);
        const expected = JSON.stringify(formatReads(batch));
        expect(expected).toBe(
          JSON.stringify(records.map((record, index) => plain({ ...record, offset: baseOffset + index }))),
        );
        expect(JSON.stringify(clientReads(batch))).toBe(expected);
      }),
      { numRuns: 150 },
    );
  });

  it('read the same from changed records wherever format accepts them', () => {
    let accepted = 0;
    fc.assert(
      fc.property(someRecords, fc.array(flip, { minLength: 1, maxLength: 2 }), (records, mutations) => {
        const whole = encodeBatch({ records }, crc32c);
        const changed = mutate(whole.subarray(BATCH_HEADER_BYTES), mutations);
        const batch = new Uint8Array(BATCH_HEADER_BYTES + changed.length);
        batch.set(whole.subarray(0, BATCH_HEADER_BYTES));
        batch.set(changed, BATCH_HEADER_BYTES);
        writeU32(batch, 8, batch.length - 12);
        writeU32(batch, CRC_AT, crc32c(batch.subarray(ATTRIBUTES_AT)));
        const expected = formatReads(batch);
        const seen = clientReads(batch);
        if (expected === undefined) return;
        accepted += 1;
        expect(JSON.stringify(seen)).toBe(JSON.stringify(expected));
      }),
      { numRuns: 800 },
    );
    expect(accepted).toBeGreaterThan(50);
  });
});
