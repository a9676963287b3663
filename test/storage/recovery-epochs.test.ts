import { describe, expect, test } from 'vitest';
import { leaderEpoch, offset, position } from '../../src/base/brands.ts';
import { CHECKPOINT_EPOCHS_MAX } from '../../src/format/checkpoint.ts';
import { appendWritten, batch, DIRECTORY, Machine, readAll, SMALL } from './log-bench.ts';

const FIRST = `${DIRECTORY}/00000000000000000000.log`;
const BATCH_BYTES = batch().length;

/** Three batches of epoch 1, then two of epoch 2, all synced. */
async function twoEpochs(machine: Machine): Promise<void> {
  const log = await machine.open();
  await machine.run(async () => {
    for (const epoch of [1, 1, 1, 2, 2]) await appendWritten(log, batch(), leaderEpoch(epoch));
    await log.sync();
  });
  machine.powerCut('keep-all');
}

describe('recovery and the epoch history', () => {
  test('a segment that lost synced bytes before a change of epoch is opened, and what is lost is reported', async () => {
    const machine = new Machine();
    await twoEpochs(machine);
    await machine.run(async () => {
      const file = await machine.disk.open(FIRST, 'write');
      await file.truncate(position(2 * BATCH_BYTES));
      await file.sync();
      await file.close();
    });
    const log = await machine.open();
    expect(log.damaged).toEqual([{ from: 2, to: 5 }]);
    expect(log.logEndOffset).toBe(5);
    expect((await machine.run(() => readAll(log))).batches.map(({ baseOffset }) => baseOffset)).toEqual([0, 1]);
  });

  test('a leader epoch changed below the recovery point is found when the file is walked again', async () => {
    const machine = new Machine();
    await twoEpochs(machine);
    await machine.run(async () => {
      const file = await machine.disk.open(FIRST, 'write');
      // The second batch says epoch 2, which its checksum does not cover; the last one is cut, so that all is walked.
      await file.writeSlow(Uint8Array.of(2), position(BATCH_BYTES + 15));
      await file.truncate(position(4 * BATCH_BYTES));
      await file.sync();
      await file.close();
    });
    const log = await machine.open();
    expect(log.damaged).toEqual([
      { from: 1, to: 2 },
      { from: 4, to: 5 },
    ]);
    expect(log.epochs).toEqual([
      { epoch: 1, startOffset: 0 },
      { epoch: 2, startOffset: 3 },
    ]);
  });

  test.each([true, false])(
    'more epochs than a checkpoint holds are found again in the seals, after a clean stop: %s',
    async (clean) => {
      const machine = new Machine();
      let log = await machine.open();
      const count = CHECKPOINT_EPOCHS_MAX + 70;
      await machine.run(async () => {
        for (let epoch = 1; epoch <= count; epoch += 1) await appendWritten(log, batch(), leaderEpoch(epoch));
        await log.sync();
      });
      if (clean) await machine.run(() => log.close({ clean: true }));
      // Time for seals and checkpoint to become durable.
      else await machine.scheduler.run(machine.scheduler.nowMs + 10_000);
      machine.powerCut('keep-all');
      log = await machine.open(SMALL, clean);
      expect(log.recovery.kind).toBe(clean ? 'clean' : 'tail');
      expect(log.epochs).toEqual(
        Array.from({ length: count }, (_, index) => ({ epoch: leaderEpoch(index + 1), startOffset: offset(index) })),
      );
    },
  );
});
