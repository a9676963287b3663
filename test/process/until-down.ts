// Load on a broker that is going to fail, and what must be left of it.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { connect, isRivuletError } from '../../src/client/index.ts';
import { done, startBroker, type RunningBroker } from './harness.ts';

/** Mounting needs privileges: without them such a test says that it did not run. */
export function mayMount(): boolean {
  return process.getuid?.() === 0 && spawnSync('unshare', ['-m', 'true']).status === 0;
}

/** Produces until it no longer can; gives the offsets that were acknowledged. */
export async function produceUntilDown(
  broker: RunningBroker,
  topic: string,
  limit = 5000,
): Promise<Map<number, string>> {
  const acknowledged = new Map<number, string>();
  const client = await connect({ servers: [broker.server], connectTimeoutMs: 1000, requestTimeoutMs: 3000 });
  const producer = client.producer({ deliveryTimeoutMs: 1500 });
  try {
    for (let record = 0; record < limit; record += 1) {
      const value = `record ${String(record)}`;
      const { offset } = await producer.send(topic, { value });
      acknowledged.set(offset, value);
    }
  } catch (error) {
    expect(isRivuletError(error)).toBe(true);
  } finally {
    await producer.close({ timeoutMs: 500 }).catch(() => undefined);
    await client.close({ timeoutMs: 500 }).catch(() => undefined);
  }
  return acknowledged;
}

export async function expectAll(
  server: string,
  topic: string,
  acknowledged: ReadonlyMap<number, string>,
): Promise<void> {
  const lines = (await done(['consume', topic, '--server', server, '--from', 'earliest'])).toString().split('\n');
  for (const [offset, value] of acknowledged) expect(lines[offset]).toBe(value);
}

/** A data directory with a topic and one record; gives the path of the topic's log. */
export async function prepare(path: string, topic: string): Promise<string> {
  const broker = await startBroker(path);
  await done(['topic', 'create', topic, '--server', broker.server]);
  await done(['produce', topic, '--server', broker.server], { input: Buffer.from('record 0\n') });
  await broker.stop();
  const [id = ''] = readdirSync(join(path, 'topics'));
  return join(path, 'topics', id, '0', `${'0'.repeat(20)}.log`);
}

/** Acknowledged values by offset, with those that were there before. */
export async function expectTruth(
  path: string,
  topic: string,
  acknowledged: ReadonlyMap<number, string>,
): Promise<void> {
  const again = await startBroker(path);
  try {
    await expectVisible(again, topic, acknowledged);
    await done(['produce', topic, '--server', again.server], { input: Buffer.from('after\n') });
    await again.stop();
  } finally {
    again.destroy();
  }
}

async function expectVisible(
  broker: RunningBroker,
  topic: string,
  acknowledged: ReadonlyMap<number, string>,
): Promise<void> {
  const shown = await done(['consume', topic, '--server', broker.server, '--format', '%o %s\\n']);
  const lines = new Set(shown.toString().split('\n'));
  for (const [offset, value] of acknowledged) expect(lines).toContain(`${String(offset)} ${value}`);
}
