import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { writeI64, writeU16, writeU32 } from '../../src/base/bytes.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { BATCH_BYTES_MAX } from '../../src/base/limits.ts';
import {
  ATTRIBUTES_AT,
  BASE_OFFSET_AT,
  BASE_TIMESTAMP_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  batchLastOffset,
  batchSize,
  checkBatch,
  CRC_AT,
  LAST_OFFSET_DELTA_AT,
  LEADER_EPOCH_AT,
  MAGIC_AT,
  PRODUCER_EPOCH_AT,
  PRODUCER_ID_AT,
  readBatchHeader,
  RECORD_COUNT_AT,
  stampBatch,
  type BatchFault,
} from '../../src/format/batch.ts';
import { encodeBatch } from '../../src/format/records.ts';
import { eachBitFlip, mutate, mutation, records as someRecords } from './arbitraries.ts';

const sample = (): Uint8Array =>
  encodeBatch(
    {
      records: [
        { timestamp: 1_700_000_000_000, key: Uint8Array.of(1), value: Uint8Array.of(2, 3) },
        { timestamp: 1_700_000_000_005, key: null, value: null },
      ],
      producerId: 9,
      producerEpoch: 1,
      baseSequence: 40,
    },
    crc32cTable,
  );

/** Changes a field under the checksum and makes the checksum right again: what only the producer can do. */
function forged(change: (bytes: Uint8Array) => void): Uint8Array {
  const bytes = sample();
  change(bytes);
  writeU32(bytes, CRC_AT, crc32cTable(bytes.subarray(ATTRIBUTES_AT)));
  return bytes;
}

function faultOf(bytes: Uint8Array, bytesMax?: number): BatchFault | 'none' {
  const checked = checkBatch(bytes, 0, crc32cTable, bytesMax);
  return checked.ok ? 'none' : checked.fault;
}

describe('readBatchHeader', () => {
  it('reads every field and what follows from them', () => {
    const bytes = sample();
    stampBatch(bytes, 0, 2 ** 40 + 1, 6);
    expect(readBatchHeader(bytes, 0)).toEqual({
      baseOffset: 2 ** 40 + 1,
      batchLength: bytes.length - 12,
      leaderEpoch: 6,
      magic: 2,
      crc: crc32cTable(bytes.subarray(21)),
      attributes: 0,
      lastOffsetDelta: 1,
      baseTimestamp: 1_700_000_000_000,
      maxTimestamp: 1_700_000_000_005,
      producerId: 9,
      producerEpoch: 1,
      baseSequence: 40,
      recordCount: 2,
      sizeInBytes: bytes.length,
      codec: 0,
      isControl: false,
      lastOffset: 2 ** 40 + 2,
    });
    expect(batchSize(bytes, 0)).toBe(bytes.length);
    expect(batchLastOffset(bytes, 0)).toBe(2 ** 40 + 2);
    expect(readBatchHeader(bytes, bytes.length - BATCH_HEADER_BYTES + 1)).toBeUndefined();
  });

  it('reads −1 for absent producer, epoch and sequence', () => {
    const bytes = encodeBatch({ records: [{ timestamp: -1, key: null, value: null }] }, crc32cTable);
    expect(readBatchHeader(bytes, 0)).toMatchObject({
      producerId: -1,
      producerEpoch: -1,
      baseSequence: -1,
      baseTimestamp: -1,
      maxTimestamp: -1,
      leaderEpoch: -1,
    });
  });
});

describe('checkBatch', () => {
  it('accepts a good batch wherever it stands', () => {
    const batch = sample();
    const framed = Uint8Array.from([9, 9, 9, ...batch, 9]);
    const checked = checkBatch(framed, 3, crc32cTable);
    expect(checked).toMatchObject({ ok: true, size: batch.length, header: { recordCount: 2 } });
  });

  it('names each fault of structure', () => {
    const bytes = sample();
    const changed = (change: (copy: Uint8Array) => void): Uint8Array => {
      const copy = Uint8Array.from(bytes);
      change(copy);
      return copy;
    };
    expect(faultOf(bytes.subarray(0, 60))).toBe('short');
    expect(faultOf(bytes.subarray(0, bytes.length - 1))).toBe('short');
    expect(faultOf(changed((copy) => writeU32(copy, BATCH_LENGTH_AT, 48)))).toBe('length');
    expect(faultOf(changed((copy) => writeU32(copy, BATCH_LENGTH_AT, -1)))).toBe('length');
    expect(faultOf(changed((copy) => writeU32(copy, BATCH_LENGTH_AT, BATCH_BYTES_MAX - 11)))).toBe('length');
    expect(faultOf(changed((copy) => writeU32(copy, BATCH_LENGTH_AT, BATCH_BYTES_MAX - 12)))).toBe('short');
    expect(faultOf(bytes, bytes.length - 1)).toBe('length');
    expect(faultOf(bytes, bytes.length)).toBe('none');
    expect(faultOf(changed((copy) => copy.set([1], MAGIC_AT)))).toBe('magic');
    expect(faultOf(changed((copy) => writeU32(copy, CRC_AT, 0)))).toBe('crc');
    expect(faultOf(changed((copy) => writeI64(copy, BASE_OFFSET_AT, -1)))).toBe('offset');
    expect(faultOf(changed((copy) => copy.set([0x40], BASE_OFFSET_AT)))).toBe('offset');
    expect(faultOf(changed((copy) => writeI64(copy, BASE_OFFSET_AT, Number.MAX_SAFE_INTEGER)))).toBe('offset');
  });

  it('names each field that a producer set wrongly under a right checksum', () => {
    expect(faultOf(forged(() => undefined))).toBe('none');
    for (const codec of [1, 2, 3, 4])
      expect(faultOf(forged((bytes) => writeU16(bytes, ATTRIBUTES_AT, codec)))).toBe('none');
    for (const codec of [5, 6, 7])
      expect(faultOf(forged((bytes) => writeU16(bytes, ATTRIBUTES_AT, codec)))).toBe('codec');
    for (const bit of [4, 6, 7, 8, 15])
      expect(faultOf(forged((bytes) => writeU16(bytes, ATTRIBUTES_AT, 1 << bit)))).toBe('attributes');
    for (const bit of [3, 5]) expect(faultOf(forged((bytes) => writeU16(bytes, ATTRIBUTES_AT, 1 << bit)))).toBe('none');
    const counts =
      (count: number, lastDelta: number) =>
      (bytes: Uint8Array): void => {
        writeU32(bytes, RECORD_COUNT_AT, count);
        writeU32(bytes, LAST_OFFSET_DELTA_AT, lastDelta);
      };
    expect(faultOf(forged(counts(0, -1)))).toBe('count');
    expect(faultOf(forged(counts(-5, -6)))).toBe('count');
    expect(faultOf(forged(counts(2, 2)))).toBe('count');
    expect(faultOf(forged(counts(1_000_001, 1_000_000)))).toBe('count');
    expect(faultOf(forged(counts(3, 2)))).toBe('count');
    expect(faultOf(forged((bytes) => writeI64(bytes, BASE_TIMESTAMP_AT, -2)))).toBe('timestamp');
    expect(faultOf(forged((bytes) => bytes.set([0x7f], BASE_TIMESTAMP_AT)))).toBe('timestamp');
    expect(faultOf(forged((bytes) => bytes.set([0x7f], PRODUCER_ID_AT)))).toBe('producer');
    expect(faultOf(forged((bytes) => writeI64(bytes, PRODUCER_ID_AT, -2)))).toBe('producer');
    expect(faultOf(forged((bytes) => writeI64(bytes, PRODUCER_ID_AT, -1)))).toBe('producer');
    expect(faultOf(forged((bytes) => writeU16(bytes, PRODUCER_EPOCH_AT, 0xffff)))).toBe('producer');
  });

  it('finds every single flipped bit but 53 of the base offset and the 32 of the leader epoch', () => {
    const bytes = sample();
    stampBatch(bytes, 0, 0, 5);
    const missed: number[] = [];
    eachBitFlip(bytes, (bit) => {
      if (checkBatch(bytes, 0, crc32cTable).ok) missed.push(bit);
    });
    const baseOffsetBits = Array.from({ length: 53 }, (_, index) => 11 + index);
    const epochBits = Array.from({ length: 32 }, (_, index) => LEADER_EPOCH_AT * 8 + index);
    expect(missed).toEqual([...baseOffsetBits, ...epochBits]);
  });

  it('answers every prefix, change and garbage with a value or a reason, and allocates nothing for what it refuses', () => {
    const big = new Uint8Array(16);
    writeU32(big, 8, 0x7fff_ffff);
    expect(faultOf(big)).toBe('short');
    fc.assert(
      fc.property(someRecords, fc.array(mutation, { minLength: 1, maxLength: 3 }), (records, mutations) => {
        const batch = mutate(encodeBatch({ records }, crc32cTable), mutations);
        const checked = checkBatch(batch, 0, crc32cTable);
        if (checked.ok) expect(checked.size).toBeLessThanOrEqual(batch.length);
        else expect(checked.detail).not.toBe('');
      }),
      { numRuns: 300 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (garbage) => {
        expect(checkBatch(garbage, 0, crc32cTable).ok).toBe(false);
      }),
      { numRuns: 500 },
    );
    const whole = sample();
    for (let end = 0; end < whole.length; end += 1) expect(faultOf(whole.subarray(0, end))).toBe('short');
  });
});

describe('stampBatch', () => {
  it('leaves the checksum right', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2 ** 52 }),
        fc.integer({ min: 0, max: 2 ** 31 - 1 }),
        (baseOffset, epoch) => {
          const bytes = sample();
          stampBatch(bytes, 0, baseOffset, epoch);
          expect(checkBatch(bytes, 0, crc32cTable)).toMatchObject({
            ok: true,
            header: { baseOffset, leaderEpoch: epoch },
          });
        },
      ),
    );
  });
});
