import { describe, expect, it } from 'vitest';
import { offset } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { checkBatch } from '../../src/format/batch.ts';
import { scanBatches } from '../../src/format/scan.ts';
import {
  encodeSyncMark,
  newestSyncMark,
  SYNC_MARK_BYTES,
  SYNC_MARKS_BYTES,
  syncMarksAt,
  type SyncMark,
} from '../../src/format/sync-mark.ts';

const BASE = offset(1000);
const MARK: SyncMark = { sequence: 7, segmentBase: BASE, syncedOffset: offset(1200), syncedPosition: 4711 };

function slots(first: SyncMark | undefined, second: SyncMark | undefined): Uint8Array {
  const bytes = new Uint8Array(SYNC_MARKS_BYTES);
  for (const [slot, mark] of [first, second].entries())
    if (mark !== undefined) bytes.set(encodeSyncMark(mark, crc32cTable), slot * SYNC_MARK_BYTES);
  return bytes;
}

describe('newestSyncMark', () => {
  it('takes the younger one that is intact', () => {
    const both = slots(MARK, { ...MARK, sequence: 9 });
    expect(newestSyncMark(both, BASE, crc32cTable)?.value.sequence).toBe(9);
    both[SYNC_MARK_BYTES + 20] = 0xff;
    expect(newestSyncMark(both, BASE, crc32cTable)).toEqual({ value: MARK, slot: 0 });
    both[20] = 0xff;
    expect(newestSyncMark(both, BASE, crc32cTable)).toBeUndefined();
    expect(newestSyncMark(new Uint8Array(SYNC_MARKS_BYTES), BASE, crc32cTable)).toBeUndefined();
  });

  it('passes over what an earlier life of the file has left', () => {
    const stale = { ...MARK, segmentBase: offset(500), syncedOffset: offset(700), sequence: 99 };
    expect(newestSyncMark(slots(stale, MARK), BASE, crc32cTable)?.value).toEqual(MARK);
    expect(newestSyncMark(slots(stale, undefined), BASE, crc32cTable)).toBeUndefined();
  });

  it('refuses a mark that claims less than its segment begins with', () => {
    expect(newestSyncMark(slots({ ...MARK, syncedOffset: offset(999) }, undefined), BASE, crc32cTable)).toBeUndefined();
  });
});

describe('a sync mark', () => {
  it('is never a batch, whatever it says', () => {
    for (const sequence of [0, 1, 2 ** 32, Number.MAX_SAFE_INTEGER]) {
      for (const base of [0, 2, 2 ** 40, Number.MAX_SAFE_INTEGER]) {
        const mark = { sequence, segmentBase: offset(base), syncedOffset: offset(base), syncedPosition: 0xffff_ffff };
        const bytes = encodeSyncMark(mark, crc32cTable);
        expect(bytes[16]).not.toBe(2);
        expect(checkBatch(bytes, 0, crc32cTable).ok).toBe(false);
        expect(scanBatches(bytes, 0, { offset: base, epochAtLeast: -1 }, crc32cTable).validUpTo).toBe(0);
      }
    }
  });

  it('stands behind all that the segment may hold, at a multiple of its size', () => {
    for (const capacity of [1, 400, 4095, 4096, 4097, 64 * 1024 * 1024]) {
      const at = syncMarksAt(capacity);
      expect(at).toBeGreaterThanOrEqual(capacity);
      expect(at - capacity).toBeLessThan(SYNC_MARK_BYTES);
      expect(at % SYNC_MARK_BYTES).toBe(0);
    }
  });
});
