import { expect, test } from 'vitest';
import { appendWritten, batch, Machine, SMALL } from './log-bench.ts';

test('an append made the moment another was written is not left in the queue', async () => {
  const machine = new Machine();
  // Each batch fills a segment, so that every append waits for a roll and is queued.
  const log = await machine.open({ ...SMALL, segmentBytes: 1024 });
  await machine.run(async () => {
    for (let index = 0; index < 50; index += 1) expect(await appendWritten(log, batch({ bytes: 900 }))).toBe(index);
    await log.close({ clean: true });
  });
});
