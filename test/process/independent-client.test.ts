// The client that was written in another language from docs/PROTOCOL.md alone, against the built executable.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { done, startBroker, temporaryFolder, type RunningBroker } from './harness.ts';

const SCRIPT = fileURLToPath(new URL('../protocol/independent_client.py', import.meta.url));
const folder = temporaryFolder();
let broker: RunningBroker;
beforeAll(async () => {
  broker = await startBroker(folder.path);
});
afterAll(async () => {
  await broker.stop();
  folder.remove();
});

interface Told {
  readonly error?: string;
  readonly produced: { readonly partition: number; readonly baseOffset: number; readonly duplicate: boolean };
  readonly repeated: { readonly baseOffset: number; readonly duplicate: boolean };
  readonly fetched: readonly { readonly offset: number; readonly key: string | null; readonly value: string }[];
  readonly latest: number;
}

async function python(topic: string): Promise<Told> {
  return await new Promise((resolve, reject) => {
    execFile('python3', [SCRIPT, broker.server, topic], { timeout: 30_000 }, (error, stdout, stderr) => {
      if (error === null) resolve(JSON.parse(stdout) as Told);
      else reject(new Error(`${stdout} ${stderr}`, { cause: error }));
    });
  });
}

test('creates a topic, produces, repeats, and reads back what it produced', async () => {
  const told = await python('foreign');
  expect(told.error).toBeUndefined();
  expect(told.produced).toMatchObject({ baseOffset: 0, duplicate: false });
  expect(told.repeated).toMatchObject({ baseOffset: 0, duplicate: true });
  expect(told.fetched.map(({ offset, key, value }) => [offset, key, value])).toEqual([
    [0, 'k1', 'v1'],
    [1, null, ''],
  ]);
  // What it stored is what our own client reads, and with the same partition for the same key.
  const lines = (await done(['consume', 'foreign', '--server', broker.server, '--json']))
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines.map(({ partition, key, value }) => [partition, key, value])).toEqual([
    [told.produced.partition, 'k1', 'v1'],
    [told.produced.partition, null, ''],
  ]);
});

test('reads what our own client produced', async () => {
  await done(['topic', 'create', 'ours', '--partitions', '2', '--server', broker.server]);
  await done(['produce', 'ours', '--server', broker.server, '-K', ':'], {
    input: Buffer.from('k1:first\nk1:second\n'),
  });
  const told = await python('ours');
  expect(told.fetched.map(({ offset, key, value }) => [offset, key, value])).toEqual([
    [0, 'k1', 'first'],
    [1, 'k1', 'second'],
    [2, 'k1', 'v1'],
    [3, null, ''],
  ]);
  expect(told.latest).toBe(4);
});
