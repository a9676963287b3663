// Inputs for properties of the formats. Text of header names has no lone surrogates: UTF-8 has none.
import fc from 'fast-check';
import type { RecordHeader, RecordInput } from '../../src/format/records.ts';

const bytes = (maxLength: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ maxLength });
export const nullableBytes: fc.Arbitrary<Uint8Array | null> = fc.option(
  fc.oneof(
    { weight: 20, arbitrary: bytes(40) },
    { weight: 2, arbitrary: fc.constant(new Uint8Array(200).fill(0xa5)) },
    { weight: 1, arbitrary: fc.constant(new Uint8Array(9000).fill(0x5a)) },
  ),
);

const header: fc.Arbitrary<RecordHeader> = fc.record({
  key: fc.string({ unit: 'grapheme', maxLength: 12 }),
  value: nullableBytes,
});

/** Timestamps far apart as well as close together; −1 is "none". */
export const timestamp: fc.Arbitrary<number> = fc.oneof(
  fc.integer({ min: 1_700_000_000_000, max: 1_700_000_001_000 }),
  fc.integer({ min: -1, max: 2 ** 50 }),
);

export const record: fc.Arbitrary<RecordInput> = fc.record({
  timestamp,
  key: nullableBytes,
  value: nullableBytes,
  headers: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(header, { maxLength: 4 }) },
  ),
});

export const records: fc.Arbitrary<RecordInput[]> = fc.oneof(
  { weight: 6, arbitrary: fc.array(record, { minLength: 1, maxLength: 12 }) },
  // Offset deltas of two bytes.
  { weight: 1, arbitrary: fc.array(record, { minLength: 66, maxLength: 90 }) },
);

/** A change to bytes: what disks, wires and hostile peers do. */
export type Mutation =
  | { readonly kind: 'flip'; readonly at: number; readonly bit: number }
  | { readonly kind: 'set'; readonly at: number; readonly value: number }
  | { readonly kind: 'cut'; readonly at: number }
  | { readonly kind: 'insert'; readonly at: number; readonly value: number };

const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
export const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ kind: fc.constant('flip' as const), at: place, bit: fc.integer({ min: 0, max: 7 }) }),
  fc.record({ kind: fc.constant('set' as const), at: place, value: fc.constantFrom(0, 1, 0x7f, 0x80, 0xff) }),
  fc.record({ kind: fc.constant('cut' as const), at: place }),
  fc.record({ kind: fc.constant('insert' as const), at: place, value: fc.integer({ min: 0, max: 255 }) }),
);

export function mutate(source: Uint8Array, mutations: readonly Mutation[]): Uint8Array {
  let bytes = Uint8Array.from(source);
  for (const change of mutations) {
    const at = Math.floor(change.at * bytes.length);
    if (change.kind === 'cut') bytes = bytes.slice(0, at);
    else if (change.kind === 'insert') {
      const longer = new Uint8Array(bytes.length + 1);
      longer.set(bytes.subarray(0, at));
      longer[at] = change.value;
      longer.set(bytes.subarray(at), at + 1);
      bytes = longer;
    } else if (at < bytes.length)
      bytes[at] = change.kind === 'set' ? change.value : (bytes[at] ?? 0) ^ (1 << change.bit);
  }
  return bytes;
}

/** Every bit of `bytes`, flipped alone; put back afterwards. */
export function eachBitFlip(bytes: Uint8Array, visit: (bit: number) => void): void {
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const mask = 0x80 >> (bit & 7);
    bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ mask;
    visit(bit);
    bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ mask;
  }
}
