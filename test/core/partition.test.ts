import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leaderEpoch, offset } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { findDivergence } from '../../src/core/partition/divergence.ts';
import { decodeProducerSnapshot, encodeProducerSnapshot } from '../../src/core/partition/producer-snapshot.ts';
import { PRODUCER_WINDOW, ProducerTable, type ProducerBatch } from '../../src/core/partition/producers.ts';
import { highWatermark } from '../../src/core/partition/watermark.ts';

describe('highWatermark', () => {
  const member = (
    written: number,
    synced: number,
  ): { written: ReturnType<typeof offset>; synced: ReturnType<typeof offset> } => ({
    written: offset(written),
    synced: offset(synced),
  });
  test.each([
    ['one node waits for its disk', 0, [member(10, 4)], 1, true, 4],
    ['one node that does not wait', 0, [member(10, 4)], 1, false, 10],
    ['the slowest writer bounds it', 0, [member(10, 10), member(7, 7), member(9, 9)], 2, true, 7],
    ['the slowest disk of three does not', 0, [member(10, 10), member(9, 8), member(9, 0)], 2, true, 8],
    ['it stands still below min in-sync', 3, [member(10, 10)], 2, true, 3],
    ['it never goes back', 8, [member(5, 5)], 1, true, 8],
  ] as const)('%s', (_name, before, members, minInsync, waits, expected) => {
    expect(highWatermark(offset(before), members, minInsync, waits)).toBe(expected);
  });

  test('at any progress: monotonic, written by all, synced by enough', () => {
    const members = fc.array(fc.tuple(fc.nat(50), fc.nat(50)), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(
        fc.nat(50),
        members,
        fc.integer({ min: 1, max: 5 }),
        fc.boolean(),
        (before, pairs, minInsync, waits) => {
          const set = pairs.map(([left, right]) => member(Math.max(left, right), Math.min(left, right)));
          const mark = highWatermark(offset(before), set, minInsync, waits);
          expect(mark).toBeGreaterThanOrEqual(before);
          if (mark === before) return;
          expect(set.length).toBeGreaterThanOrEqual(minInsync);
          expect(set.every(({ written }) => written >= mark)).toBe(true);
          if (waits) expect(set.filter(({ synced }) => synced >= mark).length).toBeGreaterThanOrEqual(minInsync);
        },
      ),
    );
  });
});

describe('findDivergence', () => {
  test('agrees with a comparison of the two logs, record by record', () => {
    // A history of epochs; the reader read a log that shares a prefix with it and then went its own way.
    const grow = fc.array(fc.tuple(fc.integer({ min: 1, max: 2 }), fc.integer({ min: 1, max: 4 })), { maxLength: 4 });
    fc.assert(
      fc.property(grow, fc.nat(20), grow, fc.nat(30), fc.nat(6), (mine, cut, theirs, readTo, start) => {
        const log: number[] = [];
        let epoch = -1;
        for (const [step, count] of mine) {
          epoch += step;
          for (let rest = count; rest > 0; rest -= 1) log.push(epoch);
        }
        const read = log.slice(0, cut);
        // Epochs are given once: those of the other way are in none of these records.
        let other = epoch + 1;
        const lost = theirs.flatMap(([, count], index) => Array.from({ length: count }, () => other + index));
        read.push(...lost);
        other += theirs.length;
        if (lost.length > 0) log.splice(cut, log.length, ...log.slice(cut).map(() => other));
        const at = Math.min(readTo, read.length);
        const logStart = Math.min(start, log.length);
        if (at === 0 || at < logStart) return;
        const epochs: { epoch: ReturnType<typeof leaderEpoch>; startOffset: ReturnType<typeof offset> }[] = [];
        for (let index = logStart; index < log.length; index += 1) {
          if (epochs.at(-1)?.epoch !== log[index])
            epochs.push({ epoch: leaderEpoch(log[index] ?? -1), startOffset: offset(index) });
        }
        const found = findDivergence(epochs, offset(log.length), offset(at), read[at - 1] ?? -1);
        let same = 0;
        while (same < at && same < log.length && read[same] === log[same]) same += 1;
        // What retention has removed cannot be compared.
        if (same >= at || (at === logStart && same < at)) {
          expect(found === undefined || found.endOffset <= at).toBe(true);
          if (same >= at) expect(found).toBeUndefined();
        } else if (log.length > logStart) {
          expect(found).toBeDefined();
          expect(found?.endOffset).toBeLessThanOrEqual(Math.max(same, logStart));
        }
      }),
      { numRuns: 500 },
    );
  });
});

/** All batches ever appended, and the rules said plainly over the list. */
class NaiveProducers {
  readonly log: (ProducerBatch & { readonly baseOffset: number })[] = [];
  judge(batch: ProducerBatch): string {
    const mine = this.log.filter((each) => each.producerId === batch.producerId);
    const newest = mine.at(-1);
    if (newest === undefined) return batch.baseSequence === 0 ? 'append' : 'UNKNOWN_PRODUCER';
    if (batch.producerEpoch < newest.producerEpoch) return 'PRODUCER_FENCED';
    if (batch.producerEpoch > newest.producerEpoch)
      return batch.baseSequence === 0 ? 'append' : 'OUT_OF_ORDER_SEQUENCE';
    const expected = (newest.baseSequence + newest.recordCount) % 2 ** 31;
    if (batch.baseSequence === expected) return 'append';
    const window = mine.filter((each) => each.producerEpoch === batch.producerEpoch).slice(-PRODUCER_WINDOW);
    const same = window.find(
      (each) => each.baseSequence === batch.baseSequence && each.recordCount === batch.recordCount,
    );
    if (same !== undefined) return `duplicate ${String(same.baseOffset)}`;
    const behind = (expected - batch.baseSequence + 2 ** 31) % 2 ** 31;
    return behind <= 2 ** 30 && batch.recordCount <= behind ? 'DUPLICATE_SEQUENCE' : 'OUT_OF_ORDER_SEQUENCE';
  }
  get end(): number {
    const last = this.log.at(-1);
    return last === undefined ? 0 : last.baseOffset + last.recordCount;
  }
}

function say(verdict: ReturnType<ProducerTable['judge']>): string {
  if (verdict.kind === 'append') return 'append';
  return verdict.kind === 'duplicate' ? `duplicate ${String(verdict.baseOffset)}` : verdict.code;
}

describe('ProducerTable', () => {
  const NEAR_WRAP = 2 ** 31 - 6;
  const step = fc.record({
    producerId: fc.nat(2),
    epochStep: fc.constantFrom(0, 0, 0, 0, 0, 1, -1),
    sequenceStep: fc.constantFrom(0, 0, 0, 0, 0, 0, 1, -1, -2, -5, -12),
    recordCount: fc.integer({ min: 1, max: 3 }),
    event: fc.constantFrom('produce', 'produce', 'produce', 'produce', 'produce', 'produce', 'restart', 'truncate'),
    cut: fc.nat(6),
  });

  test('agrees with a plain list of all batches, through snapshots, replays and truncations', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 80 }), fc.boolean(), (steps, nearWrap) => {
        const naive = new NaiveProducers();
        let table = new ProducerTable();
        if (nearWrap) {
          // Sequences that start at 0 cannot come near the wrap in a test: one batch that takes nearly all of them.
          const batch = { producerId: 0, producerEpoch: 0, baseSequence: 0, recordCount: NEAR_WRAP, baseOffset: 0 };
          naive.log.push(batch);
          table.record(batch, offset(0), 0);
        }
        let snapshot: { bytes: Uint8Array; covers: number } | undefined;
        for (const { producerId, epochStep, sequenceStep, recordCount, event, cut } of steps) {
          if (event === 'truncate' && naive.log.length > 0) {
            const to = naive.log.at(-1 - Math.min(cut, naive.log.length - 1))?.baseOffset ?? 0;
            naive.log.splice(naive.log.findIndex((each) => each.baseOffset === to));
            if (snapshot !== undefined && snapshot.covers > to) snapshot = undefined;
            if (table.truncate(offset(to))) continue;
            table = replay(naive, snapshot);
            continue;
          }
          if (event === 'restart') {
            const bytes = encodeProducerSnapshot(table, offset(naive.end), 5, crc32cTable);
            if (cut % 2 === 0 && bytes !== undefined) snapshot = { bytes, covers: naive.end };
            table = replay(naive, snapshot);
            continue;
          }
          const newest = naive.log.findLast((each) => each.producerId === producerId);
          const producerEpoch = Math.max(0, (newest?.producerEpoch ?? 0) + epochStep);
          const next = newest === undefined || epochStep > 0 ? 0 : newest.baseSequence + newest.recordCount;
          const batch = {
            producerId,
            producerEpoch,
            baseSequence: (next + sequenceStep + 2 ** 31) % 2 ** 31,
            recordCount,
          };
          const verdict = say(table.judge(batch));
          expect(verdict).toBe(naive.judge(batch));
          if (verdict !== 'append') continue;
          table.record(batch, offset(naive.end), 1);
          naive.log.push({ ...batch, baseOffset: naive.end });
        }
      }),
      { numRuns: 300 },
    );
  });

  function replay(naive: NaiveProducers, snapshot: { bytes: Uint8Array; covers: number } | undefined): ProducerTable {
    let table = new ProducerTable();
    if (snapshot !== undefined) {
      const restored = decodeProducerSnapshot(snapshot.bytes, 9, 100, crc32cTable);
      if (!restored.ok) throw new Error(restored.reason);
      expect(restored.covers).toBe(snapshot.covers);
      table = restored.table;
    }
    for (const batch of naive.log)
      if (batch.baseOffset >= (snapshot?.covers ?? 0)) table.record(batch, offset(batch.baseOffset), 9);
    return table;
  }

  const first = (producerId: number): ProducerBatch => ({
    producerId,
    producerEpoch: 0,
    baseSequence: 0,
    recordCount: 1,
  });

  test('too many producers: the one silent for longest is forgotten, counted, and told UNKNOWN_PRODUCER', () => {
    const table = new ProducerTable(3);
    for (const producer of [1, 2, 3]) table.record(first(producer), offset(producer), producer);
    table.record({ ...first(1), baseSequence: 1 }, offset(4), 4);
    table.record(first(9), offset(5), 5);
    expect([table.size, table.evicted]).toEqual([3, 1]);
    expect(say(table.judge({ ...first(2), baseSequence: 1 }))).toBe('UNKNOWN_PRODUCER');
    expect(say(table.judge({ ...first(1), baseSequence: 2 }))).toBe('append');
  });

  test('expiry counts from the last append, through a snapshot too', () => {
    const table = new ProducerTable();
    table.record(first(1), offset(0), 1000);
    table.record(first(2), offset(1), 2000);
    expect(table.expire(1999, 1000)).toBe(0);
    const bytes = encodeProducerSnapshot(table, offset(2), 2500, crc32cTable);
    const restored = decodeProducerSnapshot(bytes ?? new Uint8Array(), 10, 100, crc32cTable);
    if (!restored.ok) throw new Error(restored.reason);
    // Ages were 1500 and 500; the clock of this run stands at 10.
    expect(restored.table.expire(10, 1501)).toBe(0);
    expect(restored.table.expire(11, 1501)).toBe(1);
    expect(say(restored.table.judge({ ...first(2), baseSequence: 1 }))).toBe('append');
  });

  test('a snapshot for a point below appends under way tells what was there, or nothing', () => {
    const table = new ProducerTable();
    for (let sequence = 0; sequence < 8; sequence += 1)
      table.record({ ...first(1), baseSequence: sequence }, offset(sequence), 0);
    expect(
      table
        .statesBelow(offset(5))
        ?.get(1)
        ?.batches.map((batch) => batch.baseSequence),
    ).toEqual([3, 4]);
    expect(table.statesBelow(offset(3))).toBeUndefined();
    expect(table.truncate(offset(2))).toBe(false);
  });

  test('every bit flipped in a snapshot, and every cut, is noticed', () => {
    const table = new ProducerTable();
    for (const producer of [1, 2]) table.record(first(producer), offset(producer), 0);
    const bytes = encodeProducerSnapshot(table, offset(3), 7, crc32cTable) ?? new Uint8Array();
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      const copy = Uint8Array.from(bytes);
      copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(decodeProducerSnapshot(copy, 0, 10, crc32cTable).ok).toBe(false);
    }
    for (let size = 0; size < bytes.length; size += 1)
      expect(decodeProducerSnapshot(bytes.subarray(0, size), 0, 10, crc32cTable).ok).toBe(false);
  });
});
