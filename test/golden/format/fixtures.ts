// The content of every fixture, as values; make.ts writes the files, test/format/golden.test.ts compares.
import { leaderEpoch, offset } from '../../../src/base/brands.ts';
import { utf8Encode } from '../../../src/base/bytes.ts';
import { crc32cTable } from '../../../src/base/checksum.ts';
import { stampBatch } from '../../../src/format/batch.ts';
import { encodeCheckpoint, type Checkpoint } from '../../../src/format/checkpoint.ts';
import { encodeMetadataSnapshot } from '../../../src/format/metadata-snapshot.ts';
import { writeOffsetEntry, type OffsetEntry } from '../../../src/format/offset-index.ts';
import { encodeOwnerSnapshot } from '../../../src/format/owner-snapshot.ts';
import { encodeBatch, encodeEpochStart } from '../../../src/format/records.ts';
import { encodeSeal, type Seal } from '../../../src/format/seal.ts';
import { encodeStoreFile } from '../../../src/format/store-file.ts';
import { encodeSuperblock, type Superblock } from '../../../src/format/superblock.ts';
import { encodeSyncMark, SYNC_MARKS_BYTES, type SyncMark } from '../../../src/format/sync-mark.ts';
import { writeTimeEntry, type TimeEntry } from '../../../src/format/time-index.ts';

const AT = 1_700_000_000_000;

/** The worked example of docs/FORMAT.md: two records, the second without key and with two headers. */
export function twoRecords(): Uint8Array {
  const batch = encodeBatch(
    {
      records: [
        { timestamp: AT, key: utf8Encode('k1'), value: utf8Encode('hello') },
        {
          timestamp: AT + 250,
          key: null,
          value: utf8Encode('world'),
          headers: [
            { key: 'event-id', value: utf8Encode('e-7') },
            { key: 'flag', value: null },
          ],
        },
      ],
      producerId: 4711,
      producerEpoch: 2,
      baseSequence: 10,
    },
    crc32cTable,
  );
  stampBatch(batch, 0, 42, 5);
  return batch;
}

export function leastBatch(): Uint8Array {
  return encodeBatch({ records: [{ timestamp: -1, key: null, value: null }] }, crc32cTable);
}

export function epochStart(): Uint8Array {
  const batch = encodeEpochStart(5, 1, AT, crc32cTable);
  stampBatch(batch, 0, 41, 5);
  return batch;
}

/** Base offset 41: the control batch, the worked example, and 61 bytes of prepared space. */
export function segmentFile(): Uint8Array {
  const first = epochStart();
  const second = twoRecords();
  const file = new Uint8Array(first.length + second.length + 61);
  file.set(first);
  file.set(second, first.length);
  return file;
}

export const SEAL: Omit<Seal, 'epochsCut'> = {
  baseOffset: offset(41),
  nextOffset: offset(44),
  facts: {
    size: 189,
    crc: 0,
    batchCount: 2,
    recordCount: 3,
    firstTimestamp: AT,
    maxTimestamp: AT + 250,
    firstEpoch: 5,
    lastEpoch: 5,
    rolledMs: AT + 60_000,
  },
  epochs: [{ epoch: leaderEpoch(5), startOffset: offset(41) }],
};

/** Of the segment above, without its prepared space. */
export function sealFile(): Uint8Array {
  const bytes = segmentFile();
  const data = bytes.subarray(0, bytes.length - 61);
  return encodeSeal({ ...SEAL, facts: { ...SEAL.facts, size: data.length, crc: crc32cTable(data) } }, crc32cTable);
}

export const CHECKPOINTS: readonly Omit<Checkpoint, 'epochsCut'>[] = [
  {
    sequence: 18,
    clean: true,
    recoveryPoint: offset(44),
    segmentBase: offset(41),
    segmentPosition: 189,
    logStart: offset(7),
    highWatermark: offset(44),
    epochs: [
      { epoch: leaderEpoch(3), startOffset: offset(7) },
      { epoch: leaderEpoch(5), startOffset: offset(41) },
    ],
    active: {
      size: 189,
      batchCount: 2,
      recordCount: 3,
      firstTimestamp: AT,
      maxTimestamp: AT + 250,
      firstEpoch: 5,
      lastEpoch: 5,
      crc: 3_254_574_076,
    },
  },
  {
    sequence: 17,
    clean: false,
    recoveryPoint: offset(42),
    segmentBase: offset(41),
    segmentPosition: 82,
    logStart: offset(7),
    highWatermark: offset(41),
    epochs: [{ epoch: leaderEpoch(3), startOffset: offset(7) }],
    active: undefined,
  },
];

export const SUPERBLOCKS: readonly Superblock[] = [
  { sequence: 4, term: 12, vote: 2, incarnation: 3, bootId: 'f3b0c442-98fc-4c14-9afb-f4c8996fb924', clean: false },
  { sequence: 5, term: 12, vote: 2, incarnation: 3, bootId: 'f3b0c442-98fc-4c14-9afb-f4c8996fb924', clean: true },
];

export const OFFSET_ENTRIES: readonly OffsetEntry[] = [
  { relativeOffset: 31, position: 4112 },
  { relativeOffset: 64, position: 8260 },
  { relativeOffset: 300, position: 70_001 },
];
export const TIME_ENTRIES: readonly TimeEntry[] = [
  { timestamp: AT + 9, relativeOffset: 31 },
  { timestamp: AT + 12, relativeOffset: 300 },
];

export const ROWS: ReadonlyMap<string, Uint8Array> = new Map([
  ['next-producer-id', Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 3, 232)],
  ['node/1', Uint8Array.of(1)],
]);

export const STORE: { readonly nodeId: number; readonly diskId: string } = {
  nodeId: 17,
  diskId: '0123456789abcdef0123456789abcdef',
};

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(first.length + second.length);
  bytes.set(first);
  bytes.set(second, first.length);
  return bytes;
}

/** Of the segment above: its first batch is synced, the fdatasync that comes will cover the second one too. */
export const SYNC_MARK: SyncMark = {
  sequence: 19,
  segmentBase: offset(41),
  syncedOffset: offset(42),
  syncedPosition: 82,
};

export const FIXTURES: Readonly<Record<string, () => Uint8Array>> = {
  'batch-two-records.bin': twoRecords,
  'batch-least.bin': leastBatch,
  'batch-epoch-start.bin': epochStart,
  'segment.bin': segmentFile,
  'seal.bin': sealFile,
  'checkpoint.bin': () =>
    joined(...(CHECKPOINTS.map((checkpoint) => encodeCheckpoint(checkpoint, crc32cTable)) as [Uint8Array, Uint8Array])),
  // The second slot was not written yet.
  'sync-marks.bin': () => joined(encodeSyncMark(SYNC_MARK, crc32cTable), new Uint8Array(SYNC_MARKS_BYTES / 2)),
  'superblock.bin': () =>
    joined(...(SUPERBLOCKS.map((superblock) => encodeSuperblock(superblock, crc32cTable)) as [Uint8Array, Uint8Array])),
  'owner-snapshot.bin': () => encodeOwnerSnapshot(utf8Encode('what the owner knew'), crc32cTable),
  'metadata-snapshot.bin': () => encodeMetadataSnapshot(77, ROWS, crc32cTable),
  'store-json.bin': () => encodeStoreFile(STORE, crc32cTable),
  'index.bin': () => {
    const bytes = new Uint8Array(8 * OFFSET_ENTRIES.length);
    for (const [index, entry] of OFFSET_ENTRIES.entries()) writeOffsetEntry(bytes, index * 8, entry);
    return bytes;
  },
  'timeindex.bin': () => {
    const bytes = new Uint8Array(12 * TIME_ENTRIES.length);
    for (const [index, entry] of TIME_ENTRIES.entries()) writeTimeEntry(bytes, index * 12, entry);
    return bytes;
  },
};
