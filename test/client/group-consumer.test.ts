// Groups from the client library to the disk and back: a real broker in this process, on loopback.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  connect,
  DEAD_LETTER_HEADERS,
  type Client,
  type ConsumedRecord,
  type GroupConsumerOptions,
} from '../../src/client/index.ts';
import { openTelemetry } from '../../src/platform/telemetry.ts';
import { startBroker, type Broker, type StartOptions } from '../../src/server/index.ts';

let folder: string;
const owned: { close(): Promise<void> }[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rivulet-groups-'));
});
afterEach(async () => {
  for (const each of owned.splice(0).toReversed()) await each.close().catch(() => undefined);
  rmSync(folder, { recursive: true, force: true });
});

async function start(options: StartOptions = {}): Promise<Broker> {
  const loopback = { host: '127.0.0.1', port: 0 };
  const broker = await startBroker({
    dataDir: join(folder, 'data'),
    listen: loopback,
    adminListen: loopback,
    segmentBytes: 1024 * 1024,
    minFreeBytes: 0,
    fsync: 'never',
    telemetry: openTelemetry({ output: new PassThrough().resume() }),
    ...options,
  });
  owned.push(broker);
  return broker;
}

async function open(broker: Broker): Promise<Client> {
  const client = await connect({
    servers: `127.0.0.1:${String(broker.listen.port)}`,
    reconnectBackoffMs: 5,
    reconnectBackoffMaxMs: 50,
  });
  owned.push({ close: async () => await client.close({ timeoutMs: 500 }) });
  return client;
}

async function fill(client: Client, topic: string, count: number, partitions = 1): Promise<void> {
  await client.admin.createTopic({ name: topic, partitions });
  const producer = client.producer();
  for (let index = 0; index < count; index += 1)
    await producer.send(topic, { key: `k${String(index % 7)}`, value: String(index), partition: index % partitions });
  await producer.close();
}

async function until(what: () => boolean | Promise<boolean>, why: string, withinMs = 10_000): Promise<void> {
  for (let round = 0; round < withinMs / 10; round += 1) {
    if (await what()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`not within ${String(withinMs)} ms: ${why}`);
}

const text = (record: ConsumedRecord): string => Buffer.from(record.value ?? []).toString();
const GROUP: GroupConsumerOptions = {
  group: 'g',
  topics: ['t'],
  autoCommitMs: 20,
  rebalanceTimeoutMs: 2000,
  waitMs: 50,
};

async function committed(client: Client, group = 'g'): Promise<readonly (number | undefined)[]> {
  const { partitions } = await client.admin.describeGroup(group);
  return partitions.map((each) => each.committed);
}

describe('a member of a group', () => {
  test('reads all, commits what is done, and another one goes on behind it', async () => {
    const client = await open(await start());
    await fill(client, 't', 20);
    const first = client.groupConsumer(GROUP);
    const seen: string[] = [];
    for await (const record of first) {
      seen.push(text(record));
      if (seen.length === 8) {
        first.done(record);
        break;
      }
    }
    await first.close();
    expect(await committed(client)).toEqual([8]);
    const second = client.groupConsumer(GROUP);
    for await (const record of second) {
      seen.push(text(record));
      if (seen.length === 20) break;
    }
    expect(seen).toEqual(Array.from({ length: 20 }, (_, index) => String(index)));
    await second.close();
    // The last one was in hand when the loop was left.
    expect(await committed(client)).toEqual([19]);
    expect(await client.admin.listGroups()).toMatchObject([{ group: 'g', state: 'empty', members: 0, offsets: 1 }]);
  });

  test('42 unfinished keeps 44 from being committed, with commits by time', async () => {
    const client = await open(await start());
    await fill(client, 't', 60);
    const consumer = client.groupConsumer({ ...GROUP, concurrency: 100 });
    let finish: () => void = () => undefined;
    const stuck = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const done = new Set<number>();
    const running = consumer.run(async (record) => {
      if (record.offset === 42) await stuck;
      done.add(record.offset);
    });
    // Records with the same key wait behind the one that is stuck; the others are done.
    await until(async () => done.has(44) && (await committed(client))[0] === 42, 'commits up to 42');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await committed(client)).toEqual([42]);
    finish();
    await until(async () => (await committed(client))[0] === 60, 'commits of all');
    await consumer.close();
    await running;
  });

  test('order per key with many handlers at once', async () => {
    const client = await open(await start());
    await fill(client, 't', 300, 3);
    const byKey = new Map<string, number[]>();
    let atOnce = 0;
    let most = 0;
    const consumer = client.groupConsumer({ ...GROUP, concurrency: 16 });
    let count = 0;
    const running = consumer.run(async (record) => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      await new Promise((resolve) => setTimeout(resolve, record.offset % 5));
      const key = `${String(record.partition)}/${Buffer.from(record.key ?? []).toString()}`;
      byKey.set(key, [...(byKey.get(key) ?? []), record.offset]);
      atOnce -= 1;
      count += 1;
    });
    await until(() => count === 300, 'all handled');
    await consumer.close();
    await running;
    expect(most).toBeGreaterThan(4);
    expect(most).toBeLessThanOrEqual(16);
    for (const offsets of byKey.values()) expect(offsets).toEqual(offsets.toSorted((left, right) => left - right));
    expect(await committed(client)).toEqual([100, 100, 100]);
  });

  test('two members share the partitions; what moves is done and committed first, nothing is skipped or seen twice', async () => {
    const client = await open(await start());
    await fill(client, 't', 400, 4);
    const seen: string[] = [];
    const events: string[] = [];
    const member = (name: string): GroupConsumerOptions => ({
      ...GROUP,
      onAssigned: (partitions) => events.push(...partitions.map(({ partition }) => `${name}+${String(partition)}`)),
      onRevoked: (partitions) => events.push(...partitions.map(({ partition }) => `${name}-${String(partition)}`)),
    });
    const handler = async (record: ConsumedRecord): Promise<void> => {
      seen.push(`${String(record.partition)}/${String(record.offset)}`);
      await new Promise((resolve) => setTimeout(resolve, 3));
    };
    const first = client.groupConsumer(member('a'));
    const firstRun = first.run(handler);
    await until(() => seen.length > 20, 'the first one reads');
    const second = client.groupConsumer(member('b'));
    const secondRun = second.run(handler);
    await until(() => second.assignment.length === 2 && first.assignment.length === 2, 'two each');
    await until(() => seen.length >= 400, 'all read');
    await second.close();
    await secondRun;
    await until(() => first.assignment.length === 4, 'the first one has all again');
    await first.close();
    await firstRun;
    expect(new Set(seen).size).toBe(400);
    expect(seen).toHaveLength(400);
    expect(events.filter((event) => event.startsWith('a-'))).toHaveLength(2);
    expect(await committed(client)).toEqual([100, 100, 100, 100]);
  });

  test('a broker that is killed and comes back: members go on, and nothing that was committed is lost', async () => {
    const broker = await start();
    const { port } = broker.listen;
    const client = await open(broker);
    await fill(client, 't', 200);
    const seen = new Set<number>();
    const consumer = client.groupConsumer(GROUP);
    const running = consumer.run(async (record) => {
      seen.add(record.offset);
      await new Promise((resolve) => setTimeout(resolve, 2));
    });
    await until(() => seen.size > 50, 'some are read');
    await broker.close();
    await start({ listen: { host: '127.0.0.1', port } });
    await until(() => seen.size === 200, 'all are read');
    await consumer.close();
    await running;
    expect(await committed(client)).toEqual([200]);
  });
});

describe('a record that cannot be handled', () => {
  test('pauses its partition after the retries; others go on, and resume tries it again', async () => {
    const client = await open(await start());
    await fill(client, 't', 40, 2);
    let broken = true;
    let attempts = 0;
    const seen = new Set<string>();
    const poison: string[] = [];
    const consumer = client.groupConsumer({
      ...GROUP,
      retry: { retries: 2, backoffMs: 1 },
      onPoison: ({ record, attempts: count, policy }) =>
        poison.push(`${String(record.offset)} ${String(count)} ${policy}`),
    });
    const running = consumer.run((record) => {
      if (record.partition === 1 && record.offset === 5 && broken) {
        attempts += 1;
        throw new Error('no');
      }
      seen.add(`${String(record.partition)}/${String(record.offset)}`);
    });
    await until(() => seen.size === 25 && consumer.paused.length === 1, 'the other partition is read');
    expect(poison).toEqual(['5 3 paused']);
    expect(attempts).toBe(3);
    expect(consumer.paused).toEqual([{ topic: 't', partition: 1 }]);
    await until(async () => JSON.stringify(await committed(client)) === '[20,5]', 'commits up to it');
    broken = false;
    consumer.resume('t', 1);
    await until(() => seen.size === 40, 'all are read');
    await consumer.close();
    await running;
    expect(await committed(client)).toEqual([20, 20]);
  });

  test('goes to the dead-letter topic with its coordinates before progress passes it', async () => {
    const client = await open(await start());
    await fill(client, 't', 10);
    await client.admin.createTopic({ name: 'dead' });
    const consumer = client.groupConsumer({
      ...GROUP,
      retry: { retries: 1, backoffMs: 1 },
      onFailure: { deadLetterTopic: 'dead' },
    });
    const running = consumer.run((record) => {
      if (record.offset % 4 === 3) throw new TypeError(`cannot handle ${text(record)}`);
    });
    await until(async () => (await committed(client).catch(() => []))[0] === 10, 'all passed');
    await consumer.close();
    await running;
    const found: Record<string, string>[] = [];
    for await (const record of client.consumer({ topics: ['dead'], until: 'high-watermark-at-start' })) {
      const headers = Object.fromEntries(
        record.headers.map(({ key, value }) => [key, Buffer.from(value ?? []).toString()]),
      );
      found.push({ value: text(record), key: Buffer.from(record.key ?? []).toString(), ...headers });
    }
    expect(found).toMatchObject([
      {
        value: '3',
        key: 'k3',
        [DEAD_LETTER_HEADERS.topic]: 't',
        [DEAD_LETTER_HEADERS.partition]: '0',
        [DEAD_LETTER_HEADERS.offset]: '3',
        [DEAD_LETTER_HEADERS.group]: 'g',
        [DEAD_LETTER_HEADERS.attempts]: '2',
        [DEAD_LETTER_HEADERS.error]: 'TypeError: cannot handle 3',
      },
      { value: '7', [DEAD_LETTER_HEADERS.offset]: '7' },
    ]);
  });
});

describe('headers of a dead letter', () => {
  test('keep their order, those of one name too; what an earlier time there left is replaced', async () => {
    const client = await open(await start());
    await client.admin.createTopic({ name: 't' });
    await client.admin.createTopic({ name: 'dead' });
    const producer = client.producer();
    const headers = [
      { key: 'via', value: 'a' },
      { key: DEAD_LETTER_HEADERS.offset, value: '99' },
      { key: 'none', value: null },
      { key: 'via', value: 'b' },
    ];
    await producer.send('t', { value: 'x', headers });
    const consumer = client.groupConsumer({ ...GROUP, retry: { retries: 0 }, onFailure: { deadLetterTopic: 'dead' } });
    const running = consumer.run(() => {
      throw new TypeError('no');
    });
    await until(async () => (await committed(client).catch(() => []))[0] === 1, 'it has passed');
    await consumer.close();
    await running;
    const found: (readonly [string, string | null])[] = [];
    for await (const record of client.consumer({ topics: ['dead'], until: 'high-watermark-at-start' })) {
      for (const { key, value } of record.headers)
        found.push([key, value === null ? null : Buffer.from(value).toString()]);
    }
    expect(found.slice(0, 3)).toEqual([
      ['via', 'a'],
      ['none', null],
      ['via', 'b'],
    ]);
    expect(found.filter(([key]) => key === DEAD_LETTER_HEADERS.offset)).toEqual([[DEAD_LETTER_HEADERS.offset, '0']]);
  });
});

describe('replay', () => {
  test('is refused with active members, and with a pause they go on where it says', async () => {
    const client = await open(await start());
    await fill(client, 't', 30);
    const seen: number[] = [];
    const consumer = client.groupConsumer(GROUP);
    const running = consumer.run((record) => {
      seen.push(record.offset);
    });
    await until(() => seen.length === 30, 'all are read');
    await expect(client.admin.resetGroup('g', { topics: ['t'], to: 10 })).rejects.toMatchObject({
      code: 'GROUP_NOT_EMPTY',
    });
    await until(async () => (await committed(client))[0] === 30, 'all are committed');
    expect(await client.admin.resetGroup('g', { to: 10, pause: true })).toEqual([
      { topic: 't', partition: 0, before: 30, after: 10 },
    ]);
    await until(() => seen.length === 50, 'read again from 10');
    expect(seen.slice(30)).toEqual(Array.from({ length: 20 }, (_, index) => index + 10));
    await consumer.close();
    await running;
    await client.admin.deleteGroup('g');
    expect(await client.admin.listGroups()).toEqual([]);
  });
});
