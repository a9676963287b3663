import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { leaderEpoch, offset } from '../../src/base/brands.ts';
import { ByteReader, ByteWriter, DecodeError, writeU32 } from '../../src/base/bytes.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import {
  CHECKPOINT_EPOCHS_MAX,
  decodeCheckpoint,
  encodeCheckpoint,
  type Checkpoint,
} from '../../src/format/checkpoint.ts';
import type { Decoded } from '../../src/format/decoded.ts';
import { readEpochs, type EpochEntry } from '../../src/format/epochs.ts';
import { decodeMetadataSnapshot, encodeMetadataSnapshot } from '../../src/format/metadata-snapshot.ts';
import { decodeOwnerSnapshot, encodeOwnerSnapshot } from '../../src/format/owner-snapshot.ts';
import { decodeSeal, encodeSeal, SEAL_BYTES_MAX, SEAL_EPOCHS_MAX, type Seal } from '../../src/format/seal.ts';
import { decodeStoreFile, encodeStoreFile } from '../../src/format/store-file.ts';
import { decodeSuperblock, encodeSuperblock, type Superblock } from '../../src/format/superblock.ts';
import { crc32c } from '../../src/platform/checksum.ts';
import { CHECKPOINTS, ROWS, sealFile, SUPERBLOCKS, SYNC_MARK } from '../golden/format/fixtures.ts';
import { decodeSyncMark, encodeSyncMark } from '../../src/format/sync-mark.ts';
import { eachBitFlip, mutate, mutation } from './arbitraries.ts';

const someOffset = fc
  .oneof(fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }))
  .map(offset);
const u32 = fc.integer({ min: 0, max: 0xffff_ffff });

const epochs: fc.Arbitrary<EpochEntry[]> = fc
  .array(fc.tuple(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 10_000 })), { maxLength: 30 })
  .map((steps) => {
    let epoch = -1;
    let start = -1;
    return steps.map(([more, further]) => {
      epoch += more;
      start += further;
      return { epoch: leaderEpoch(epoch), startOffset: offset(start) };
    });
  });

const summary = fc
  .record({
    size: u32,
    batchCount: fc.integer({ min: 0, max: 1000 }),
    more: fc.integer({ min: 0, max: 2 ** 40 }),
    firstTimestamp: fc.integer({ min: -1, max: 2 ** 45 }),
    maxTimestamp: fc.integer({ min: -1, max: 2 ** 45 }),
    firstEpoch: fc.integer({ min: -1, max: 100 }),
    laterEpochs: fc.integer({ min: 0, max: 100 }),
  })
  .map(({ more, laterEpochs, ...rest }) => ({
    ...rest,
    recordCount: rest.batchCount + more,
    lastEpoch: rest.firstEpoch + laterEpochs,
  }));

const seal: fc.Arbitrary<Omit<Seal, 'epochsCut'>> = fc
  .record({
    ends: fc.tuple(someOffset, someOffset),
    facts: summary,
    crc: u32,
    rolledMs: fc.integer({ min: -1, max: 2 ** 45 }),
    epochs,
  })
  .map(({ ends, facts, crc, rolledMs, epochs: entries }) => ({
    baseOffset: offset(Math.min(...ends)),
    nextOffset: offset(Math.max(...ends)),
    facts: { ...facts, crc, rolledMs },
    epochs: entries,
  }));

const checkpoint: fc.Arbitrary<Omit<Checkpoint, 'epochsCut'>> = fc
  .record({
    sequence: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
    clean: fc.boolean(),
    recoveryPoint: someOffset,
    segmentBase: someOffset,
    logStart: someOffset,
    highWatermark: someOffset,
    epochs,
    facts: summary,
    crc: fc.option(u32, { nil: undefined }),
    present: fc.boolean(),
  })
  .map(({ facts, crc, present, ...rest }) => ({
    ...rest,
    segmentPosition: facts.size,
    active: present ? { ...facts, crc } : undefined,
  }));

const superblock: fc.Arbitrary<Superblock> = fc.record({
  sequence: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  term: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  vote: fc.integer({ min: -1, max: 2 ** 31 - 1 }),
  incarnation: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  bootId: fc.string({ unit: 'grapheme', maxLength: 36 }).filter((text) => Buffer.byteLength(text) <= 256),
  clean: fc.boolean(),
});

function valueOf<Value>(decoded: Decoded<Value>): Value {
  if (!decoded.ok) throw new Error(decoded.reason);
  return decoded.value;
}

/** Bytes of each codec, how they are decoded, and where their checksum stands. */
const CODECS: readonly {
  readonly name: string;
  readonly bytes: () => Uint8Array;
  readonly decode: (bytes: Uint8Array) => Decoded<unknown>;
  readonly reseal: (bytes: Uint8Array) => void;
}[] = [
  {
    name: 'checkpoint slot',
    bytes: () => encodeCheckpoint(CHECKPOINTS[0] ?? expect.fail('no checkpoint'), crc32c),
    decode: (bytes) => decodeCheckpoint(bytes, crc32c),
    reseal: resealEnd,
  },
  {
    name: 'sync mark',
    bytes: () => encodeSyncMark(SYNC_MARK, crc32c),
    decode: (bytes) => decodeSyncMark(bytes, crc32c),
    reseal: resealEnd,
  },
  {
    name: 'superblock slot',
    bytes: () => encodeSuperblock(SUPERBLOCKS[1] ?? expect.fail('no superblock'), crc32c),
    decode: (bytes) => decodeSuperblock(bytes, crc32c),
    reseal: resealEnd,
  },
  { name: 'seal', bytes: sealFile, decode: (bytes) => decodeSeal(bytes, crc32c), reseal: resealEnd },
  {
    name: 'owner snapshot',
    bytes: () => encodeOwnerSnapshot(Uint8Array.of(1, 2, 3, 4, 5), crc32c),
    decode: (bytes) => decodeOwnerSnapshot(bytes, crc32c),
    reseal: (bytes) => {
      if (bytes.length >= 8) writeU32(bytes, 4, crc32c(bytes.subarray(8)));
    },
  },
  {
    name: 'metadata snapshot',
    bytes: () => encodeMetadataSnapshot(77, ROWS, crc32c),
    decode: (bytes) => decodeMetadataSnapshot(bytes, crc32c),
    reseal: resealAt5,
  },
];

function resealAt5(bytes: Uint8Array): void {
  if (bytes.length >= 9) writeU32(bytes, 5, crc32c(bytes.subarray(9)));
}

function resealEnd(bytes: Uint8Array): void {
  if (bytes.length >= 4) writeU32(bytes, bytes.length - 4, crc32c(bytes.subarray(0, bytes.length - 4)));
}

describe('encode and decode', () => {
  it('give back every seal', () => {
    fc.assert(
      fc.property(seal, (value) => {
        expect(valueOf(decodeSeal(encodeSeal(value, crc32cTable), crc32cTable))).toEqual({
          ...value,
          epochsCut: false,
        });
      }),
    );
  });
  it('give back every checkpoint', () => {
    fc.assert(
      fc.property(checkpoint, (value) => {
        expect(valueOf(decodeCheckpoint(encodeCheckpoint(value, crc32c), crc32c))).toEqual({
          ...value,
          epochsCut: false,
        });
      }),
    );
  });
  it('give back every superblock', () => {
    fc.assert(
      fc.property(superblock, (value) => {
        expect(valueOf(decodeSuperblock(encodeSuperblock(value, crc32c), crc32c))).toEqual(value);
      }),
    );
  });
  it('give back every owner snapshot', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (value) => {
        expect(valueOf(decodeOwnerSnapshot(encodeOwnerSnapshot(value, crc32c), crc32c))).toEqual(value);
      }),
    );
  });
});

describe('a metadata snapshot', () => {
  it('gives back every set of rows', () => {
    const rows = fc.uniqueArray(
      fc.tuple(fc.string({ unit: 'grapheme', maxLength: 20 }), fc.uint8Array({ maxLength: 40 })),
      {
        selector: ([key]) => key,
      },
    );
    fc.assert(
      fc.property(fc.nat(), rows, (index, entries) => {
        const decoded = valueOf(
          decodeMetadataSnapshot(encodeMetadataSnapshot(index, new Map(entries), crc32c), crc32c),
        );
        expect([decoded.index, [...decoded.rows]]).toEqual([index, entries]);
      }),
    );
  });
});

describe.each(CODECS)('$name', ({ bytes, decode, reseal }) => {
  it('is refused with any single bit flipped', () => {
    const file = Uint8Array.from(bytes());
    expect(decode(file).ok).toBe(true);
    const missed: number[] = [];
    eachBitFlip(file, (bit) => {
      if (decode(file).ok) missed.push(bit);
    });
    expect(missed).toEqual([]);
  });

  it('is refused cut anywhere, or with a byte more', () => {
    const file = bytes();
    const accepted: number[] = [];
    for (let end = 0; end < file.length; end += 1) if (decode(file.subarray(0, end)).ok) accepted.push(end);
    expect(accepted).toEqual([]);
    expect(decode(Uint8Array.from([...file, 0])).ok).toBe(false);
  });

  it('answers garbage under a right checksum with a value or a reason, never by throwing', () => {
    const file = bytes();
    let refused = 0;
    fc.assert(
      fc.property(fc.array(mutation, { minLength: 1, maxLength: 6 }), (mutations) => {
        // Most changes fall into the content, also where it is short beside its padding.
        const near = mutations.map((change) =>
          change.kind === 'flip' || change.kind === 'set'
            ? { ...change, at: (change.at * Math.min(file.length, 140)) / file.length }
            : change,
        );
        const changed = mutate(file, near);
        reseal(changed);
        const decoded = decode(changed);
        if (!decoded.ok) {
          refused += 1;
          expect(decoded.reason).not.toBe('');
        }
      }),
      { numRuns: 500 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), (garbage) => {
        expect(decode(garbage).ok).toBe(false);
      }),
    );
    expect(refused).toBeGreaterThan(0);
  });
});

describe('more epochs than there is room for', () => {
  const many = (count: number): EpochEntry[] =>
    Array.from({ length: count }, (_, index) => ({ epoch: leaderEpoch(index + 1), startOffset: offset(index * 10) }));

  it('a checkpoint keeps the last ones and says that there were more', () => {
    const [first] = CHECKPOINTS;
    if (first === undefined) throw new Error('no checkpoint');
    const full = valueOf(
      decodeCheckpoint(encodeCheckpoint({ ...first, epochs: many(CHECKPOINT_EPOCHS_MAX) }, crc32c), crc32c),
    );
    expect(full).toMatchObject({ epochsCut: false, epochs: many(CHECKPOINT_EPOCHS_MAX) });
    const over = valueOf(
      decodeCheckpoint(encodeCheckpoint({ ...first, epochs: many(CHECKPOINT_EPOCHS_MAX + 2) }, crc32c), crc32c),
    );
    expect(over.epochsCut).toBe(true);
    expect(over.epochs).toEqual(many(CHECKPOINT_EPOCHS_MAX + 2).slice(2));
  });

  it('a seal keeps the first ones and says that there were more', () => {
    const facts = {
      size: 9,
      crc: 1,
      batchCount: 1,
      recordCount: 1,
      firstTimestamp: 1,
      maxTimestamp: 1,
      firstEpoch: 1,
      lastEpoch: 90_000,
      rolledMs: -1,
    };
    const bytes = encodeSeal(
      { baseOffset: offset(0), nextOffset: offset(2 ** 40), facts, epochs: many(SEAL_EPOCHS_MAX + 1) },
      crc32c,
    );
    expect(bytes.length).toBeLessThanOrEqual(SEAL_BYTES_MAX);
    const { epochs: kept, epochsCut } = valueOf(decodeSeal(bytes, crc32c));
    expect([kept.length, kept.at(-1)?.epoch, epochsCut]).toEqual([SEAL_EPOCHS_MAX, SEAL_EPOCHS_MAX, true]);
  });

  it('a list whose epochs or offsets do not rise is refused, and never written', () => {
    const [first] = CHECKPOINTS;
    if (first === undefined) throw new Error('no checkpoint');
    for (const entries of [
      many(2).toReversed(),
      [...many(1), ...many(1)],
      [...many(2).slice(1), { epoch: leaderEpoch(9), startOffset: offset(3) }],
    ]) {
      expect(() => encodeCheckpoint({ ...first, epochs: entries }, crc32c)).toThrow('out of order');
      const writer = new ByteWriter(4 + entries.length * 12).u32(entries.length);
      for (const { epoch, startOffset } of entries) writer.i32(epoch).i64(startOffset);
      expect(() => readEpochs(new ByteReader(writer.finish()))).toThrow(DecodeError);
    }
  });
});

describe('store.json', () => {
  const STORE = { nodeId: 17, diskId: '0123456789abcdef0123456789abcdef' };
  const file = encodeStoreFile(STORE, crc32c);

  it('is one line that people can read, and is read back', () => {
    expect(Buffer.from(file).toString()).toBe(
      '{"formatVersion":1,"nodeId":17,"diskId":"0123456789abcdef0123456789abcdef","crc32c":"2d066b9b"}\n',
    );
    expect(decodeStoreFile(file, crc32c)).toEqual({ ok: true, value: { kind: 'known', formatVersion: 1, ...STORE } });
  });

  it('is never taken for another one when any single bit is flipped', () => {
    const bytes = Uint8Array.from(file);
    const missed: number[] = [];
    eachBitFlip(bytes, (bit) => {
      const decoded = decodeStoreFile(bytes, crc32c);
      if (decoded.ok && decoded.value.kind === 'known') missed.push(bit);
    });
    expect(missed).toEqual([]);
  });

  it('tells a newer version from damage, and never throws', () => {
    const decoded = (text: string): string => {
      const result = decodeStoreFile(Buffer.from(text), crc32c);
      return result.ok ? result.value.kind : result.reason;
    };
    expect(decoded('{"formatVersion":99,"more":true}')).toBe('newer');
    expect(decoded('{"formatVersion":1,')).toBe('it is not JSON');
    expect(decoded('null')).toBe('it is not JSON');
    expect(decoded('[]')).toBe('it has no format version');
    expect(decoded('{"formatVersion":0}')).toBe('it has no format version');
    expect(decoded('{"formatVersion":1,"nodeId":-1}')).toBe('it has no node id');
    expect(decoded('{"formatVersion":1,"nodeId":1,"diskId":"x"}')).toBe('it has no disk id');
    expect(decoded(`{"formatVersion":1,"nodeId":17,"diskId":"${STORE.diskId}"}`)).toMatch(/^checksum/);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (garbage) => {
        expect(decodeStoreFile(garbage, crc32c).ok).toBe(false);
      }),
    );
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(decoded(text)).not.toBe('known');
      }),
    );
  });
});
