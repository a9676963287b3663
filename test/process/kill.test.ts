// SIGKILL at random moments under load: every acknowledged record is there, at the offset that was acknowledged, in order,
// and once. A killed process loses no page cache, so this holds for every fsync policy.
import { describe, expect, test } from 'vitest';
import { connect, isRivuletError } from '../../src/client/index.ts';
import { startBroker, temporaryFolder } from './harness.ts';

const KILLS = Number(process.env['RIVULET_TEST_KILLS'] ?? 30);
const PARTITIONS = 2;

interface Sent {
  readonly value: string;
  /** Undefined: the outcome is unknown, or it was rejected. */
  offset: number | undefined;
  outcome: 'committed' | 'unknown' | 'rejected';
}

/** Deterministic by seed, so that a failure can be run again with the same moments. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

interface Load {
  /** To be called when the broker is gone: what has no answer by now gets none. */
  stop(): Promise<void>;
}

/** Sends numbered records without a pause until it is stopped; what each outcome was is noted in `sent`. */
async function startLoad(server: string, life: number, sent: Sent[][]): Promise<Load> {
  const client = await connect({ servers: [server], connectTimeoutMs: 2000, requestTimeoutMs: 5000 });
  const producer = client.producer({ deliveryTimeoutMs: 1000, lingerMs: 0, batchBytes: 4096 });
  const settled: Promise<void>[] = [];
  const state = { stopped: false };
  const sendOne = async (record: Sent, partition: number): Promise<void> => {
    try {
      record.offset = (await producer.send('kill', { value: record.value, partition })).offset;
      record.outcome = 'committed';
    } catch (error) {
      record.outcome = isRivuletError(error) && error.outcome === 'rejected' ? 'rejected' : 'unknown';
    }
  };
  const sending = (async () => {
    for (let count = 0; !state.stopped; count += 1) {
      const partition = count % PARTITIONS;
      const value = `life ${String(life)} record ${String(count)} ${'x'.repeat(count % 300)}`;
      const record: Sent = { value, offset: undefined, outcome: 'unknown' };
      sent[partition]?.push(record);
      settled.push(sendOne(record, partition));
      if (count % 50 === 49) await new Promise((resolve) => setImmediate(resolve));
      if (producer.full) await producer.ready().catch(() => undefined);
    }
  })();
  return {
    stop: async () => {
      state.stopped = true;
      await producer.close({ timeoutMs: 50 }).catch(() => undefined);
      await sending;
      await Promise.all(settled);
      await client.close({ timeoutMs: 50 }).catch(() => undefined);
    },
  };
}

async function readAll(server: string): Promise<string[][]> {
  const client = await connect({ servers: [server] });
  const seen: string[][] = Array.from({ length: PARTITIONS }, () => []);
  const consumer = client.consumer({ topics: ['kill'], from: 'earliest', until: 'high-watermark-at-start' });
  for await (const record of consumer) {
    const partition = seen[record.partition] ?? [];
    partition[record.offset] = Buffer.from(record.value ?? new Uint8Array()).toString();
  }
  await client.close();
  return seen;
}

/** One life of the broker: started over what the last one left, put under load, and killed at a moment of `random`. */
async function liveAndDie(
  dataDir: string,
  args: readonly string[],
  life: number,
  sent: Sent[][],
  random: () => number,
): Promise<void> {
  const broker = await startBroker(dataDir, { args });
  if (life === 0) {
    const client = await connect({ servers: [broker.server] });
    await client.admin.createTopic({ name: 'kill', partitions: PARTITIONS });
    await client.close();
  }
  const load = await startLoad(broker.server, life, sent);
  await new Promise((resolve) => setTimeout(resolve, 30 + random() * 300));
  broker.kill('SIGKILL');
  await broker.ended;
  await load.stop();
}

/** Gives how many records were acknowledged. */
function expectKept(log: readonly string[], records: readonly Sent[]): number {
  const places = new Map<string, number>();
  log.forEach((value, offset) => {
    expect(places.has(value), `${value} is there twice`).toBe(false);
    places.set(value, offset);
  });
  let last = -1;
  let committed = 0;
  for (const { value, offset, outcome } of records) {
    const place = places.get(value);
    if (outcome === 'committed') {
      committed += 1;
      expect(log[offset ?? -1], `acknowledged at ${String(offset)}`).toBe(value);
    }
    if (outcome === 'rejected') expect(place, `${value} was rejected`).toBeUndefined();
    if (place === undefined) continue;
    expect(place, 'in the order sent').toBeGreaterThan(last);
    last = place;
  }
  return committed;
}

describe('a broker that is killed', () => {
  for (const [index, policy] of (['always', 'interval', 'never'] as const).entries()) {
    const title = `${String(KILLS)} times under load with --fsync ${policy} keeps every acknowledged record once`;
    test(title, { timeout: 120_000 }, async () => {
      const folder = temporaryFolder();
      const random = randomOf(20261201 + index);
      const sent: Sent[][] = Array.from({ length: PARTITIONS }, () => []);
      const args = ['--fsync', policy, '--segment-bytes', '65536'];
      try {
        for (let life = 0; life < KILLS; life += 1) await liveAndDie(folder.path, args, life, sent, random);
        const broker = await startBroker(folder.path, { args });
        const seen = await readAll(broker.server);
        await broker.stop();
        let committed = 0;
        for (const [partition, records] of sent.entries()) committed += expectKept(seen[partition] ?? [], records);
        console.log(`--fsync ${policy}: ${String(KILLS)} kills, ${String(committed)} records acknowledged, all there`);
        expect(committed).toBeGreaterThan(KILLS * 10);
      } finally {
        folder.remove();
      }
    });
  }
});
