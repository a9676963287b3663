// What was synced after the last checkpoint is known from the sync marks alone: verify, repair and the broker read them alike.
import { beforeAll, describe, expect, test } from 'vitest';
import { offset } from '../../src/base/brands.ts';
import { encodeCheckpoint, newestCheckpoint } from '../../src/format/checkpoint.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { encodeSyncMark, newestSyncMark } from '../../src/format/sync-mark.ts';
import { isDamage } from '../../src/segtool/findings.ts';
import { repair } from '../../src/segtool/repair.ts';
import { verify } from '../../src/segtool/verify.ts';
import { DIRECTORY } from '../storage/log-bench.ts';
import {
  logNames,
  makeTemplate,
  openFiles,
  syncedPointOf,
  toolMachine,
  type Files,
  type Template,
} from './store-bench.ts';

let template: Template;
beforeAll(async () => {
  template = await makeTemplate('marked');
});

/** Where the active segment's data has the batch with that base offset. */
function placeOf(base: number): { readonly path: string; readonly at: number } {
  const path = logNames(template.files).at(-1) ?? '';
  const batch = template.batches.find((each) => each.base === base);
  const at = Buffer.from(template.files.get(path) ?? []).indexOf(batch?.bytes ?? Buffer.of());
  expect(at).toBeGreaterThan(0);
  return { path, at };
}

function changed(files: Files, path: string, change: (bytes: Uint8Array) => void): Files {
  const bytes = Uint8Array.from(files.get(path) ?? []);
  change(bytes);
  return new Map([...files, [path, bytes]]);
}

const CHECKPOINT = `${DIRECTORY}/checkpoint`;

describe('between the checkpoint and a younger sync mark', () => {
  test.each(['flipped', 'gone with all behind it'])(
    'a batch that is %s is a loss, for the broker and for verify',
    async (how) => {
      const { checkpoint, synced } = syncedPointOf(template.files);
      const lost = template.batches.find(({ base }) => base > checkpoint);
      if (lost === undefined) throw new Error('nothing lies above the checkpoint');
      const { path, at } = placeOf(lost.base);
      const files = changed(template.files, path, (bytes) => {
        if (how === 'flipped') bytes[at + 70] = (bytes[at + 70] ?? 0) ^ 1;
        else bytes.fill(0, at, bytes.length - 8192);
      });
      const range = { from: lost.base, to: how === 'flipped' ? lost.last + 1 : synced };
      expect((await openFiles(files, false)).read.damaged).toEqual([range]);

      const { machine, deps } = toolMachine(files);
      const report = await machine.run(() => verify(deps, ''));
      expect(report.logs[0]?.lost).toEqual([range]);
      expect(report.findings.filter(isDamage).map(({ code }) => code)).toEqual(['BATCH_DAMAGED']);
      await machine.run(() => repair(deps, '', { write: true }));
      const repaired = machine.disk.dump();
      // No mark is left that is younger than the checkpoint, and the sequence goes on above all of them.
      const after = syncedPointOf(repaired);
      expect(after.synced).toBe(after.checkpoint);
      expect(newestCheckpoint(repaired.get(CHECKPOINT) ?? Buffer.of(), crc32cTable)?.value.sequence).toBeGreaterThan(
        newestCheckpoint(files.get(CHECKPOINT) ?? Buffer.of(), crc32cTable)?.value.sequence ?? Infinity,
      );
      expect((await openFiles(repaired, false)).read.damaged).toEqual([range]);
    },
  );

  test('a repair of something else leaves what the marks say', async () => {
    // One slot of the checkpoint: it is written again as it was, not as one that is younger than the marks.
    const newest = newestCheckpoint(template.files.get(CHECKPOINT) ?? Buffer.of(), crc32cTable);
    if (newest === undefined) throw new Error('no checkpoint');
    const damagedSlot = changed(template.files, CHECKPOINT, (bytes) => {
      const at = (1 - newest.slot) * 4096 + 20;
      bytes[at] = (bytes[at] ?? 0) ^ 1;
    });
    // The mark is younger by no more than one.
    const path = logNames(template.files).at(-1) ?? '';
    const base = offset(Number(path.slice(-24, -4)));
    const files = changed(damagedSlot, path, (bytes) => {
      const mark = newestSyncMark(bytes.subarray(-8192), base, crc32cTable)?.value;
      if (mark === undefined) throw new Error('no mark');
      const slot = encodeSyncMark({ ...mark, sequence: newest.value.sequence + 1 }, crc32cTable);
      bytes.set(slot, bytes.length - 8192);
      bytes.set(slot, bytes.length - 4096);
    });
    expect(syncedPointOf(files)).toEqual(syncedPointOf(template.files));
    const { machine, deps } = toolMachine(files);
    expect((await machine.run(() => verify(deps, ''))).findings.filter(isDamage).map(({ code }) => code)).toEqual([
      'CHECKPOINT_SLOT_DAMAGED',
    ]);
    await machine.run(() => repair(deps, '', { write: true }));
    expect(syncedPointOf(machine.disk.dump())).toEqual(syncedPointOf(template.files));
  });
});

test('a mark that is younger than the checkpoint of a clean stop: the power went just after the next start', async () => {
  const newest = newestCheckpoint(template.files.get(CHECKPOINT) ?? Buffer.of(), crc32cTable);
  if (newest === undefined) throw new Error('no checkpoint');
  const { value } = newest;
  expect(logNames(template.files).at(-1)).toContain(`${String(value.recoveryPoint)}.log`);
  const slot = encodeCheckpoint(
    {
      ...value,
      clean: true,
      segmentBase: value.recoveryPoint,
      segmentPosition: 0,
      active: {
        recordCount: 0,
        batchCount: 0,
        size: 0,
        firstTimestamp: -1,
        maxTimestamp: -1,
        firstEpoch: -1,
        lastEpoch: -1,
        crc: 0,
      },
    },
    crc32cTable,
  );
  const restarted = new Map([...template.files, [CHECKPOINT, new Uint8Array([...slot, ...slot])]]);
  const whole = toolMachine(restarted);
  const report = await whole.machine.run(() => verify(whole.deps, ''));
  expect(report.findings.filter(isDamage)).toEqual([]);
  expect(report.logs[0]?.logEnd).toBe(template.end);

  const [bad] = template.batches.filter(({ base }) => base > value.recoveryPoint);
  const { path, at } = placeOf(bad?.base ?? -1);
  const { machine, deps } = toolMachine(
    changed(restarted, path, (bytes) => {
      bytes[at + 70] = (bytes[at + 70] ?? 0) ^ 1;
    }),
  );
  await machine.run(() => repair(deps, '', { write: true }));
  const opened = await openFiles(machine.disk.dump(), false);
  expect(opened.end).toBe(template.end);
  expect(opened.read.damaged).toEqual([{ from: bad?.base, to: (bad?.last ?? 0) + 1 }]);
});
