// The files of a real broker, damaged, repaired by the executable, and served again.
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { done, rivulet, SHARED_DATA, startBroker, temporaryFolder, type RunningBroker } from './harness.ts';

const folder = temporaryFolder();
let broker: RunningBroker | undefined;
afterEach(() => {
  broker?.destroy();
  folder.remove();
});

test('a running broker is left alone; damage is found, repaired, and the rest is served', async () => {
  const data = join(folder.path, 'data');
  const input = readFileSync(join(SHARED_DATA, 'Android_2k.log'));
  broker = await startBroker(data);
  await done(['topic', 'create', 't', '--partitions', '1', '--server', broker.server]);
  for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd'])
    await done(
      ['produce', 't', '--server', broker.server, '--compression', codec, '--batch-bytes', '65536', '--no-progress'],
      { input },
    );
  const live = await rivulet(['segtool', 'verify', data, '--no-progress']);
  expect(live.status).toBe(0);
  expect(live.stdout.toString()).toContain('TAIL_MAY_MOVE');
  expect((await rivulet(['segtool', 'repair', data, '--write', '--no-progress'])).status).toBe(73);
  await broker.stop();

  const topic = readdirSync(join(data, 'topics'))[0] ?? '';
  const file = openSync(join(data, 'topics', topic, '0', '00000000000000000000.log'), 'r+');
  writeSync(file, Buffer.alloc(64, 0xa5), 0, 64, 100_000);
  closeSync(file);
  const damaged = await rivulet(['segtool', 'verify', data, '--no-progress']);
  expect(damaged.status).toBe(1);
  expect(damaged.stdout.toString()).toContain('BATCH_DAMAGED');
  await done(['segtool', 'repair', data, '--write', '--no-progress']);
  expect((await done(['segtool', 'verify', data, '--no-progress'])).toString()).toContain('KNOWN_LOSS');

  broker = await startBroker(data);
  const all = await rivulet(['consume', 't', '--server', broker.server, '--from', 'earliest']);
  expect(all.status).toBe(1);
  expect(all.stderr).toContain('DAMAGED_RANGE');
  const rest = await rivulet(['consume', 't', '--server', broker.server, '--from', 'earliest', '--skip-damaged']);
  const lines = input.toString().split('\n');
  expect(rest.stdout.toString().split('\n')[0]).toBe(lines[0]);
  expect(rest.stdout.length).toBeGreaterThan(input.length * 4);
  await broker.stop();
}, 60_000);
