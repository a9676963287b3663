import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  lastOffsetEntryAtMost,
  offsetEntriesFit,
  readOffsetEntry,
  writeOffsetEntry,
  type OffsetEntry,
} from '../../src/format/offset-index.ts';
import {
  floorTime,
  readTimeEntry,
  timeEntriesFit,
  writeTimeEntry,
  type TimeEntry,
} from '../../src/format/time-index.ts';

/** Entries that rise in both fields. */
const steps = fc.array(fc.tuple(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 1, max: 5000 })), {
  maxLength: 30,
});

function offsetsOf(pairs: readonly (readonly [number, number])[]): {
  readonly entries: OffsetEntry[];
  readonly bytes: Uint8Array;
} {
  let relativeOffset = 0;
  let position = 0;
  const bytes = new Uint8Array(pairs.length * 8);
  const entries = pairs.map(([more, further], index) => {
    relativeOffset += more;
    position += further;
    const entry = { relativeOffset, position };
    writeOffsetEntry(bytes, index * 8, entry);
    return entry;
  });
  return { entries, bytes };
}

function timesOf(pairs: readonly (readonly [number, number])[]): {
  readonly entries: TimeEntry[];
  readonly bytes: Uint8Array;
} {
  let timestamp = 2 ** 40;
  let relativeOffset = 0;
  const bytes = new Uint8Array(pairs.length * 12);
  const entries = pairs.map(([more, further], index) => {
    relativeOffset += more;
    timestamp += further;
    const entry = { timestamp, relativeOffset };
    writeTimeEntry(bytes, index * 12, entry);
    return entry;
  });
  return { entries, bytes };
}

describe('the offset index', () => {
  it('finds by offset and by position what a plain search finds', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 0, max: 20_000 }), (pairs, value) => {
        const { entries, bytes } = offsetsOf(pairs);
        for (const field of ['relativeOffset', 'position'] as const) {
          const expected = entries.filter((entry) => entry[field] <= value).at(-1) ?? {
            relativeOffset: 0,
            position: 0,
          };
          expect(readOffsetEntry(bytes, lastOffsetEntryAtMost(bytes, entries.length, value, field))).toEqual(expected);
        }
      }),
    );
  });

  it('fits exactly when its entries are whole, rise, and lie inside the segment', () => {
    fc.assert(
      fc.property(steps, (pairs) => {
        const { entries, bytes } = offsetsOf(pairs);
        const { relativeOffset, position } = entries.at(-1) ?? { relativeOffset: 0, position: 0 };
        expect(offsetEntriesFit(bytes, position + 1, relativeOffset + 1)).toBe(true);
        if (entries.length === 0) return;
        expect(offsetEntriesFit(bytes, position, relativeOffset + 1)).toBe(false);
        expect(offsetEntriesFit(bytes, position + 1, relativeOffset)).toBe(false);
        expect(offsetEntriesFit(bytes.subarray(1), position + 1, relativeOffset + 1)).toBe(false);
        const doubled = Uint8Array.from([...bytes, ...bytes.subarray(bytes.length - 8)]);
        expect(offsetEntriesFit(doubled, position + 1, relativeOffset + 1)).toBe(false);
        expect(offsetEntriesFit(new Uint8Array(8), position + 1, relativeOffset + 1)).toBe(false);
      }),
    );
    expect(offsetEntriesFit(new Uint8Array(0), 0, 0)).toBe(true);
  });
});

describe('the time index', () => {
  it('leads to an offset before which nothing is as late as the timestamp asked for, and no entry is nearer', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: -1, max: 160_000 }), (pairs, after) => {
        const { entries, bytes } = timesOf(pairs);
        const wanted = 2 ** 40 + after;
        const expected = entries.filter((entry) => entry.timestamp < wanted).at(-1)?.relativeOffset ?? 0;
        expect(floorTime(bytes, entries.length, wanted)).toBe(expected);
      }),
    );
  });

  it('fits exactly when its entries are whole, rise, and lie inside the segment', () => {
    fc.assert(
      fc.property(steps, (pairs) => {
        const { entries, bytes } = timesOf(pairs);
        const offsetCount = (entries.at(-1)?.relativeOffset ?? 0) + 1;
        expect(timeEntriesFit(bytes, offsetCount)).toBe(true);
        expect(entries.map((_, index) => readTimeEntry(bytes, index))).toEqual(entries);
        if (entries.length === 0) return;
        expect(timeEntriesFit(bytes, offsetCount - 1)).toBe(false);
        expect(timeEntriesFit(bytes.subarray(1), offsetCount)).toBe(false);
        expect(timeEntriesFit(Uint8Array.from([...bytes, ...bytes.subarray(bytes.length - 12)]), offsetCount + 1)).toBe(
          false,
        );
        const unsafe = Uint8Array.from(bytes);
        unsafe[0] = 0x7f;
        expect(timeEntriesFit(unsafe, offsetCount)).toBe(false);
      }),
    );
  });
});
