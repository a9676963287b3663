// Clocks that jump, and stops in a row, under the built executable.
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { connect, type Client } from '../../src/client/index.ts';
import { startBroker, temporaryFolder } from './harness.ts';
import { expectTruth, prepare, produceUntilDown } from './until-down.ts';

const folder = temporaryFolder();
afterAll(() => {
  folder.remove();
});
let count = 0;
function dataDir(): string {
  count += 1;
  return join(folder.path, `data-${String(count)}`);
}

const FAKETIME = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1',
].find((path) => existsSync(path));

test('a wall clock that jumps an hour back and a year ahead: no session ends, no record goes early', async (context) => {
  if (FAKETIME === undefined) context.skip('needs libfaketime');
  const path = dataDir();
  const dial = join(folder.path, 'dial');
  writeFileSync(dial, '+0\n');
  const broker = await startBroker(path, {
    args: ['--segment-bytes', '4096', '--retention-ms', '1h'],
    env: {
      LD_PRELOAD: FAKETIME ?? '',
      FAKETIME_TIMESTAMP_FILE: dial,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
  });
  try {
    const client = await connect({ servers: [broker.server] });
    await client.admin.createTopic({ name: 'clock', partitions: 1 });
    const producer = client.producer();
    const send = async (round: string): Promise<void> => {
      for (let record = 0; record < 40; record += 1)
        await producer.send('clock', { value: `${round} ${String(record)} ${'x'.repeat(200)}` });
    };
    await send('before');
    for (const jump of ['-1h', '+365d', '+0']) {
      writeFileSync(dial, `${jump}\n`);
      await send(jump);
    }
    writeFileSync(dial, '+365d\n');
    // Retention comes by every half minute of the clock that does not jump, and says that it waits.
    for (let waits = 0; waits < 80 && !broker.stderr().includes('log.retention-paused'); waits += 1)
      await new Promise((resolve) => setTimeout(resolve, 500));
    await send('after');
    expect(await earliest(client)).toBe(0);
    expect(broker.stderr()).not.toMatch(/log\.segment-removed|connection\.(stalled|closed)/);
    await client.close();
    await broker.stop();
  } finally {
    broker.destroy();
  }
});

async function earliest(client: Client): Promise<number | undefined> {
  const consumer = client.consumer({ topics: ['clock'], from: 'earliest', until: 'high-watermark-at-start' });
  for await (const { offset } of consumer) return offset;
  return undefined;
}

test('ten stops by SIGTERM under load: each is clean, each next start reads no segment, and all is there', async () => {
  const path = dataDir();
  await prepare(path, 'stops');
  const all = new Map([[0, 'record 0']]);
  for (let life = 0; life < 10; life += 1) {
    const broker = await startBroker(path, { args: ['--segment-bytes', '64KiB'] });
    try {
      const producing = produceUntilDown(broker, 'stops', 1_000_000);
      await new Promise((resolve) => setTimeout(resolve, 200));
      await broker.stop();
      const acknowledged = await producing;
      expect(acknowledged.size).toBeGreaterThan(0);
      for (const [offset, value] of acknowledged) {
        expect(all.has(offset), `offset ${String(offset)} given twice`).toBe(false);
        all.set(offset, value);
      }
      // A log whose tail had to be walked says so.
      expect(broker.stderr()).not.toMatch(/log\.recovered|"level":"(error|fatal)"/);
    } finally {
      broker.destroy();
    }
  }
  await expectTruth(path, 'stops', all);
});
