import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { crc32cTable } from '../../src/base/checksum.ts';
import { BATCH_HEADER_BYTES, checkBatch } from '../../src/format/batch.ts';
import { newestCheckpoint } from '../../src/format/checkpoint.ts';
import { decodeOwnerSnapshot } from '../../src/format/owner-snapshot.ts';
import { readOffsetEntry } from '../../src/format/offset-index.ts';
import { decodeRecords } from '../../src/format/records.ts';
import { scanBatches } from '../../src/format/scan.ts';
import { decodeSeal } from '../../src/format/seal.ts';
import { newestSuperblock } from '../../src/format/superblock.ts';
import { readTimeEntry } from '../../src/format/time-index.ts';
import {
  CHECKPOINTS,
  FIXTURES,
  OFFSET_ENTRIES,
  ROWS,
  STORE,
  SUPERBLOCKS,
  SYNC_MARK,
  TIME_ENTRIES,
} from '../golden/format/fixtures.ts';

const folder = new URL('../golden/format/', import.meta.url);
const fixture = (name: string): Uint8Array => Uint8Array.from(readFileSync(new URL(name, folder)));
const hex = (bytes: Uint8Array | null): string | null => (bytes === null ? null : Buffer.from(bytes).toString('hex'));

/** A batch as verify.py prints it. */
function described(bytes: Uint8Array, at = 0): unknown {
  const checked = checkBatch(bytes, at, crc32cTable);
  if (!checked.ok) throw new Error(checked.detail);
  const {
    baseOffset,
    leaderEpoch,
    crc,
    attributes,
    baseTimestamp,
    maxTimestamp,
    producerId,
    producerEpoch,
    baseSequence,
    recordCount,
  } = checked.header;
  const records = decodeRecords(bytes.subarray(at + BATCH_HEADER_BYTES, at + checked.size), checked.header).map(
    ({ offset, timestamp, key, value, headers }) => [
      offset,
      timestamp,
      hex(key),
      hex(value),
      headers.map((header) => [header.key, hex(header.value)]),
    ],
  );
  return {
    baseOffset,
    leaderEpoch,
    crc,
    attributes,
    baseTimestamp,
    maxTimestamp,
    producerId,
    producerEpoch,
    baseSequence,
    recordCount,
    records,
  };
}

describe('the files of the format', () => {
  it.each(Object.entries(FIXTURES))('%s is written byte for byte as it was when it was fixed', (name, make) => {
    expect(hex(make())).toBe(hex(fixture(name)));
  });

  it('has no fixture that nothing compares', () => {
    const names = readdirSync(folder).filter((name) => name.endsWith('.bin'));
    expect(names.toSorted()).toEqual([...Object.keys(FIXTURES), 'batch-by-hand.bin'].toSorted());
  });

  it('a batch that was written by hand after the public specification is read, and its checksum is the known one', () => {
    const bytes = fixture('batch-by-hand.bin');
    expect(described(bytes)).toEqual({
      baseOffset: 1000,
      leaderEpoch: 7,
      crc: 0x8b33_68a7,
      attributes: 0,
      baseTimestamp: 1_600_000_000_000,
      maxTimestamp: 1_600_000_000_100,
      producerId: 1,
      producerEpoch: 0,
      baseSequence: 3,
      recordCount: 2,
      records: [
        [1000, 1_600_000_000_000, '61', null, []],
        [1001, 1_600_000_000_100, null, 'dead', [['h', '76']]],
      ],
    });
    expect(hex(bytes)).toBe(
      '00000000000003e8' +
        '00000047' +
        '00000007' +
        '02' +
        '8b3368a7' +
        '0000' +
        '00000001' +
        '00000174876e8000' +
        '00000174876e8064' +
        '0000000000000001' +
        '0000' +
        '00000003' +
        '00000002' +
        '0e' +
        '00' +
        '00' +
        '00' +
        '0261' +
        '01' +
        '00' +
        '1a' +
        '00' +
        'c801' +
        '02' +
        '01' +
        '04dead' +
        '02' +
        '0268' +
        '0276',
    );
  });

  it('an independent decoder reads the same from every fixture', ({ skip }) => {
    const run = spawnSync('python3', [new URL('verify.py', folder).pathname], { encoding: 'utf8', timeout: 20_000 });
    if (run.error !== undefined) skip(`python3 cannot be run: ${run.error.message}`);
    expect(run.stderr).toBe('');
    const seen: unknown = JSON.parse(run.stdout);
    const segment = fixture('segment.bin');
    const scanned = scanBatches(segment, 0, { offset: 41, epochAtLeast: -1 }, crc32cTable);
    const sealed = decodeSeal(fixture('seal.bin'), crc32cTable);
    if (!sealed.ok) throw new Error(sealed.reason);
    const { facts, baseOffset, nextOffset, epochs } = sealed.value;
    const pairs = (entries: readonly { readonly epoch: number; readonly startOffset: number }[]): unknown =>
      entries.map(({ epoch, startOffset }) => [epoch, startOffset]);
    expect(scanned).toMatchObject({ stop: 'zeros', nextOffset });
    expect(seen).toEqual({
      'batch-by-hand.bin': described(fixture('batch-by-hand.bin')),
      'batch-two-records.bin': described(fixture('batch-two-records.bin')),
      'batch-least.bin': described(fixture('batch-least.bin')),
      'batch-epoch-start.bin': described(fixture('batch-epoch-start.bin')),
      'segment.bin': { size: scanned.validUpTo, batches: [described(segment), described(segment, 82)] },
      'seal.bin': { flags: 0, baseOffset, nextOffset, ...facts, epochs: pairs(epochs) },
      'checkpoint.bin': CHECKPOINTS.map(({ clean, active, epochs: history, ...rest }) => ({
        ...rest,
        flags: (clean ? 1 : 0) + (active === undefined ? 0 : 2),
        epochs: pairs(history),
        crc: active?.crc ?? 0,
        crcKnown: active === undefined ? 0 : 1,
        recordCount: active?.recordCount ?? 0,
        batchCount: active?.batchCount ?? 0,
        firstTimestamp: active?.firstTimestamp ?? -1,
        maxTimestamp: active?.maxTimestamp ?? -1,
        firstEpoch: active?.firstEpoch ?? -1,
        lastEpoch: active?.lastEpoch ?? -1,
      })),
      'sync-marks.bin': [SYNC_MARK],
      'superblock.bin': SUPERBLOCKS.map(({ clean, ...rest }) => ({ ...rest, flags: clean ? 1 : 0 })),
      'owner-snapshot.bin': { content: hex(ownerContent()) },
      'metadata-snapshot.bin': {
        index: 77,
        rows: Object.fromEntries([...ROWS].map(([key, value]) => [key, hex(value)])),
      },
      'store-json.bin': { formatVersion: 1, ...STORE },
      'index.bin': OFFSET_ENTRIES.map((_, index) => {
        const { relativeOffset, position } = readOffsetEntry(fixture('index.bin'), index);
        return [relativeOffset, position];
      }),
      'timeindex.bin': TIME_ENTRIES.map((_, index) => {
        const entry = readTimeEntry(fixture('timeindex.bin'), index);
        return [entry?.timestamp, entry?.relativeOffset];
      }),
    });
  });

  it('of two slots the intact one with the higher sequence counts', () => {
    const checkpoints = fixture('checkpoint.bin');
    expect(newestCheckpoint(checkpoints, crc32cTable)).toEqual({
      slot: 0,
      value: { ...CHECKPOINTS[0], epochsCut: false },
    });
    checkpoints[100] = 0xff;
    expect(newestCheckpoint(checkpoints, crc32cTable)).toEqual({
      slot: 1,
      value: { ...CHECKPOINTS[1], epochsCut: false },
    });
    checkpoints[5000] = 0xff;
    expect(newestCheckpoint(checkpoints, crc32cTable)).toBeUndefined();
    const superblocks = fixture('superblock.bin');
    expect(newestSuperblock(superblocks, crc32cTable)).toEqual({ slot: 1, value: SUPERBLOCKS[1] });
    expect(newestSuperblock(superblocks.subarray(0, 8191), crc32cTable)).toEqual({ slot: 0, value: SUPERBLOCKS[0] });
    expect(newestSuperblock(superblocks.subarray(0, 4095), crc32cTable)).toBeUndefined();
    expect(newestSuperblock(new Uint8Array(8192), crc32cTable)).toBeUndefined();
  });
});

function ownerContent(): Uint8Array {
  const decoded = decodeOwnerSnapshot(fixture('owner-snapshot.bin'), crc32cTable);
  if (!decoded.ok) throw new Error(decoded.reason);
  return decoded.value;
}
