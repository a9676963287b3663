import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { leaderEpoch, offset } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { LEADER_EPOCH_AT, stampBatch } from '../../src/format/batch.ts';
import { epochAt, type EpochEntry } from '../../src/format/epochs.ts';
import { encodeBatch, encodeEpochStart } from '../../src/format/records.ts';
import { scanBatches } from '../../src/format/scan.ts';
import { eachBitFlip, mutate, mutation } from './arbitraries.ts';

const EPOCHS: readonly EpochEntry[] = [
  { epoch: leaderEpoch(3), startOffset: offset(100) },
  { epoch: leaderEpoch(4), startOffset: offset(103) },
];
const EXPECTED = { offset: 100, epochAtLeast: -1 };

/** Offsets 100 to 102 of epoch 3, then 103 (the control batch) and 104, 105 of epoch 4. */
function segment(): { readonly bytes: Uint8Array; readonly starts: readonly number[] } {
  const record = { timestamp: 1_700_000_000_000, key: null, value: Uint8Array.of(1, 2, 3) };
  const batches = [
    encodeBatch({ records: [record, record] }, crc32cTable),
    encodeBatch({ records: [record] }, crc32cTable),
    encodeEpochStart(4, 1, 1_700_000_000_001, crc32cTable),
    encodeBatch({ records: [record, record] }, crc32cTable),
  ];
  const starts: number[] = [];
  const bytes = new Uint8Array(batches.reduce((sum, batch) => sum + batch.length, 0));
  let at = 0;
  for (const [index, batch] of batches.entries()) {
    stampBatch(batch, 0, [100, 102, 103, 104][index] ?? 0, index < 2 ? 3 : 4);
    bytes.set(batch, at);
    starts.push(at);
    at += batch.length;
  }
  return { bytes, starts };
}

describe('scanBatches', () => {
  it('walks good batches to the end, and stops when the visitor has seen enough', () => {
    const { bytes, starts } = segment();
    const seen: number[] = [];
    expect(scanBatches(bytes, 0, EXPECTED, crc32cTable, (_, at) => seen.push(at) > 0)).toEqual({
      validUpTo: bytes.length,
      nextOffset: 106,
      epoch: 4,
      stop: 'end',
      detail: '',
    });
    expect(seen).toEqual(starts);
    expect(scanBatches(bytes, 0, EXPECTED, crc32cTable, () => false)).toMatchObject({
      validUpTo: starts[1],
      nextOffset: 102,
      stop: 'end',
    });
    expect(
      scanBatches(bytes, starts[2] ?? 0, { offset: 103, epochAtLeast: 3, epochs: EPOCHS }, crc32cTable),
    ).toMatchObject({ nextOffset: 106, stop: 'end' });
  });

  it('tells prepared space, a cut batch, a wrong offset and a wrong epoch apart', () => {
    const { bytes, starts } = segment();
    const padded = new Uint8Array(bytes.length + 100);
    padded.set(bytes);
    expect(scanBatches(padded, 0, EXPECTED, crc32cTable)).toMatchObject({ validUpTo: bytes.length, stop: 'zeros' });
    expect(scanBatches(padded.subarray(0, bytes.length + 5), 0, EXPECTED, crc32cTable)).toMatchObject({
      validUpTo: bytes.length,
      stop: 'zeros',
    });
    expect(scanBatches(bytes.subarray(0, bytes.length - 1), 0, EXPECTED, crc32cTable)).toMatchObject({
      validUpTo: starts[3],
      nextOffset: 104,
      stop: 'incomplete',
    });
    expect(scanBatches(bytes.subarray(0, (starts[3] ?? 0) + 20), 0, EXPECTED, crc32cTable)).toMatchObject({
      validUpTo: starts[3],
      stop: 'incomplete',
    });
    expect(scanBatches(bytes, 0, { offset: 99, epochAtLeast: -1 }, crc32cTable)).toMatchObject({
      validUpTo: 0,
      nextOffset: 99,
      epoch: -1,
      stop: 'offset',
    });
    expect(scanBatches(bytes, 0, { offset: 100, epochAtLeast: 4 }, crc32cTable)).toMatchObject({
      validUpTo: 0,
      stop: 'epoch',
    });
    const history = [{ epoch: leaderEpoch(3), startOffset: offset(100) }];
    expect(scanBatches(bytes, 0, { ...EXPECTED, epochs: history }, crc32cTable)).toMatchObject({
      validUpTo: starts[2],
      stop: 'epoch',
    });
  });

  it('asks a history only where it reaches: from its first entry up to its end', () => {
    const { bytes, starts } = segment();
    const wrong = [{ epoch: leaderEpoch(9), startOffset: offset(102) }];
    expect(scanBatches(bytes, 0, { ...EXPECTED, epochs: wrong }, crc32cTable)).toMatchObject({
      validUpTo: starts[1],
      stop: 'epoch',
    });
    expect(scanBatches(bytes, 0, { ...EXPECTED, epochs: wrong, epochsUpTo: 102 }, crc32cTable)).toMatchObject({
      nextOffset: 106,
      stop: 'end',
    });
  });

  it('does not take what a recycled block still holds for data: its offsets are lower', () => {
    const { bytes, starts } = segment();
    const recycled = Uint8Array.from(bytes);
    const fresh = encodeBatch(
      { records: [{ timestamp: 1, key: null, value: new Uint8Array((starts[1] ?? 0) - 68) }] },
      crc32cTable,
    );
    stampBatch(fresh, 0, 500, 9);
    recycled.set(fresh);
    expect(fresh.length).toBe(starts[1]);
    expect(scanBatches(recycled, 0, { offset: 500, epochAtLeast: 9 }, crc32cTable)).toMatchObject({
      validUpTo: starts[1],
      nextOffset: 501,
      stop: 'offset',
    });
  });

  it('never fails another way than by a stop, for any change, and never reaches further than the change allows', () => {
    const { bytes } = segment();
    fc.assert(
      fc.property(fc.array(mutation, { minLength: 1, maxLength: 4 }), (mutations) => {
        const changed = mutate(bytes, mutations);
        const result = scanBatches(changed, 0, EXPECTED, crc32cTable);
        expect(result.validUpTo).toBeLessThanOrEqual(changed.length);
      }),
      { numRuns: 400 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (garbage) => {
        expect(scanBatches(garbage, 0, EXPECTED, crc32cTable).validUpTo).toBe(0);
      }),
    );
  });
});

describe('every single flipped bit of a segment', () => {
  it('is found by structure, checksums, expected offset and epoch history together, with no exception', () => {
    const { bytes } = segment();
    const missed: number[] = [];
    eachBitFlip(bytes, (bit) => {
      const result = scanBatches(bytes, 0, { ...EXPECTED, epochs: EPOCHS }, crc32cTable);
      if (result.stop === 'end') missed.push(bit);
      // What stands before the flipped batch is kept.
      else expect(result.validUpTo).toBeLessThanOrEqual(bit >> 3);
    });
    expect(missed).toEqual([]);
  });

  it('without a history is missed only in the leader epoch, where the epoch stays between those beside it', () => {
    const { bytes, starts } = segment();
    const missed: number[] = [];
    eachBitFlip(bytes, (bit) => {
      if (scanBatches(bytes, 0, EXPECTED, crc32cTable).stop === 'end') missed.push(bit);
    });
    // 3, 3, 4, 4: a first batch of any epoch up to 3, and a last one of any epoch from 4 on.
    const epochBit = (batch: number, value: number): number =>
      ((starts[batch] ?? 0) + LEADER_EPOCH_AT) * 8 + 31 - value;
    const first = [1, 0].map((bit) => epochBit(0, bit));
    const last = Array.from({ length: 31 }, (_, index) => 30 - index)
      .filter((bit) => bit !== 2)
      .map((bit) => epochBit(3, bit));
    expect(missed).toEqual([...first, ...last]);
  });

  it('changes the checksum of the file, which the seal holds', () => {
    const { bytes } = segment();
    const sealed = crc32cTable(bytes);
    let same = 0;
    eachBitFlip(bytes, () => {
      if (crc32cTable(bytes) === sealed) same += 1;
    });
    expect(same).toBe(0);
  });
});

describe('epochAt', () => {
  it('names the epoch whose start is the last at or below the offset', () => {
    expect([99, 100, 102, 103, 2 ** 50].map((at) => epochAt(EPOCHS, at))).toEqual([undefined, 3, 3, 4, 4]);
    expect(epochAt([], 5)).toBeUndefined();
  });
});
