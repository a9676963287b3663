import { afterEach, describe, expect, test } from 'vitest';
import { isRivuletError } from '../../src/base/errors.ts';
import type { Delivery } from '../../src/client/api.ts';
import { openBatch, readStoredBatch } from '../../src/client/batch-view.ts';
import { connectWith } from '../../src/client/client.ts';
import { compression } from '../../src/platform/compression.ts';
import { crc32c } from '../../src/platform/checksum.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { systemRandom } from '../../src/platform/random.ts';
import { tcpNetwork } from '../../src/platform/tcp.ts';
import { FakeBroker, type FakeOptions, type FakePartition } from './fake-broker.ts';

const ports = { clock: systemClock(), random: systemRandom, network: tcpNetwork(), compression, crc32c };
const owned: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const resource of owned.splice(0).reverse()) await resource.stop();
});

async function begin(
  options: FakeOptions,
  requestTimeoutMs = 5000,
): Promise<{ broker: FakeBroker; client: Awaited<ReturnType<typeof connectWith>> }> {
  const broker = await FakeBroker.start(options);
  owned.push(broker);
  const client = await connectWith(
    ports,
    { servers: [broker.server], reconnectBackoffMs: 1, reconnectBackoffMaxMs: 4, requestTimeoutMs },
    1,
  );
  owned.push({ stop: async () => await client.close({ timeoutMs: 100 }).catch(() => undefined) });
  return { broker, client };
}

function values(partition: FakePartition): string[] {
  const found: string[] = [];
  for (const { bytes } of partition.batches) {
    const stored = readStoredBatch(bytes, 0, crc32c);
    if (stored === undefined) throw new Error('short batch');
    const view = openBatch(
      bytes,
      stored,
      { topic: 't', partition: 0, highWatermark: 0, from: 0, upTo: Number.MAX_SAFE_INTEGER },
      compression,
    );
    for (const record of view) found.push(Buffer.from(record.value ?? new Uint8Array()).toString());
  }
  return found;
}

const numbers = (count: number): string[] => Array.from({ length: count }, (_, index) => String(index));

describe('send', () => {
  test('settles with offset, leader epoch and timestamp', async () => {
    const { client, broker } = await begin({ topics: { t: 1 } });
    const producer = client.producer();
    const deliveries: Delivery[] = [];
    for (let index = 0; index < 100; index += 1)
      deliveries.push(producer.send('t', { value: String(index), timestamp: 1000 + index }));
    const settled = await Promise.all(deliveries);
    expect(settled[42]).toEqual({
      outcome: 'committed',
      topic: 't',
      partition: 0,
      offset: 42,
      leaderEpoch: 3,
      timestamp: 1042,
    });
    expect(values(broker.partition('t'))).toEqual(numbers(100));
  });

  test('each record once and in order over many dropped connections', async () => {
    const { client, broker } = await begin({
      topics: { t: 1 },
      onPublish: (count) =>
        count % 3 === 0
          ? 'drop-after-append'
          : count % 7 === 0
            ? 'drop-before-append'
            : count % 11 === 0
              ? { refuse: 'NOT_LEADER' }
              : 'none',
    });
    const producer = client.producer({ batchBytes: 1024 });
    const count = 20_000;
    for (let index = 0; index < count; index += 1) {
      while (!producer.enqueue('t', { value: String(index) })) await producer.ready();
    }
    await producer.flush();
    expect(values(broker.partition('t'))).toEqual(numbers(count));
    expect(broker.hellos).toBeGreaterThan(100);
  }, 60_000);

  test('a refused batch is rejected, and the ones behind it arrive once and in order', async () => {
    const { client, broker } = await begin({
      topics: { t: 1 },
      onPublish: (count) => (count === 3 ? { refuse: 'INVALID_BATCH' } : 'none'),
    });
    const producer = client.producer({ batchBytes: 1024 });
    const deliveries: Delivery[] = [];
    for (let index = 0; index < 2000; index += 1) deliveries.push(producer.send('t', { value: String(index) }));
    const settled = await Promise.allSettled(deliveries);
    const delivered = numbers(2000).filter((_, index) => settled[index]?.status === 'fulfilled');
    const failed = settled.filter((result) => result.status === 'rejected');
    expect(failed.length).toBeGreaterThan(0);
    for (const { reason } of failed) expect(isRivuletError(reason) && reason.outcome).toBe('rejected');
    expect(values(broker.partition('t'))).toEqual(delivered);
  });
});

describe('outcomes', () => {
  test('unknown when the batch may be in the log at the delivery timeout; later records go on, once each', async () => {
    let swallowed = 0;
    const { client, broker } = await begin(
      {
        topics: { t: 2 },
        onPublish: (_count, partition) => {
          if (partition !== 0 || swallowed >= 3) return 'none';
          swallowed += 1;
          return swallowed === 1 ? 'silent-before-append' : 'drop-before-append';
        },
      },
      100,
    );
    const producer = client.producer({ deliveryTimeoutMs: 60 });
    const lost = producer.send('t', { value: 'lost', partition: 0 });
    const other = producer.send('t', { value: 'other', partition: 1 });
    await expect(lost).rejects.toMatchObject({ outcome: 'unknown', facts: { topic: 't', partition: 0 } });
    // The request that hangs holds both partitions back for its own timeout, longer than the delivery timeout of these.
    await Promise.allSettled([other]);
    const after = client.producer();
    await after.send('t', { value: 'fresh', partition: 0 });
    let settled: PromiseSettledResult<unknown>[] = [];
    for (let attempt = 0; attempt < 20; attempt += 1) {
      settled = await Promise.allSettled([producer.send('t', { value: `after-${String(attempt)}`, partition: 0 })]);
      if (settled[0]?.status === 'fulfilled') break;
    }
    expect(settled[0]?.status).toBe('fulfilled');
    const stored = values(broker.partition('t', 0));
    expect(new Set(stored).size).toBe(stored.length);
    expect(stored.filter((value) => value.startsWith('after-'))).toHaveLength(1);
    const epochs = [...broker.epochs.values()];
    expect(Math.max(...epochs)).toBeGreaterThan(0);
  });

  test('rejected when the broker refuses for good, with its code', async () => {
    const { client } = await begin({ topics: { t: 1 }, onPublish: () => ({ refuse: 'BATCH_TOO_LARGE' }) });
    await expect(client.producer().send('t', { value: 'x' })).rejects.toMatchObject({
      code: 'BATCH_TOO_LARGE',
      outcome: 'rejected',
    });
  });

  test('what holds a batch back is told at each attempt, until it is taken', async () => {
    const { client } = await begin({
      topics: { t: 1 },
      onPublish: (count) => (count <= 3 ? { refuse: 'DISK_PRESSURE' } : 'none'),
    });
    const told: string[] = [];
    const producer = client.producer({ onRetry: ({ topic, error }) => told.push(`${topic} ${error.code}`) });
    await producer.send('t', { value: 'x' });
    expect(told).toEqual(['t DISK_PRESSURE', 't DISK_PRESSURE', 't DISK_PRESSURE']);
  });

  test('unknown when a refusal follows an attempt that may have been appended', async () => {
    const { client } = await begin({
      topics: { t: 1 },
      onPublish: (count) => (count === 1 ? 'drop-after-append' : { refuse: 'INVALID_BATCH' }),
    });
    await expect(client.producer().send('t', { value: 'x' })).rejects.toMatchObject({
      code: 'INVALID_BATCH',
      outcome: 'unknown',
    });
  });

  test('without idempotence nothing that may be appended is sent again', async () => {
    const { client, broker } = await begin({
      topics: { t: 1 },
      onPublish: (count) => (count === 1 ? 'drop-after-append' : 'none'),
    });
    const producer = client.producer({ idempotent: false });
    await expect(producer.send('t', { value: 'x' })).rejects.toMatchObject({ outcome: 'unknown' });
    expect(values(broker.partition('t'))).toEqual(['x']);
  });

  test('a broker that lost the producer state gets a new epoch, nothing twice', async () => {
    const { client, broker } = await begin({ topics: { t: 1 } });
    const producer = client.producer();
    await producer.send('t', { value: '0' });
    broker.partition('t').producers.clear();
    await producer.send('t', { value: '1' });
    expect(values(broker.partition('t'))).toEqual(['0', '1']);
    expect(broker.epochs.get(1000)).toBe(1);
  });

  test('a newer session of the same name fences the older one', async () => {
    const { client, broker } = await begin({ topics: { t: 1 } });
    const older = client.producer({ name: 'import' });
    await older.send('t', { value: '0' });
    const newer = client.producer({ name: 'import' });
    await newer.send('t', { value: '1' });
    await expect(older.send('t', { value: '2' })).rejects.toMatchObject({
      code: 'PRODUCER_FENCED',
      outcome: 'rejected',
    });
    await expect(older.send('t', { value: '3' })).rejects.toMatchObject({ code: 'PRODUCER_FENCED' });
    expect(values(broker.partition('t'))).toEqual(['0', '1']);
  });

  test('garbage instead of an answer costs one connection, not a record', async () => {
    const { client, broker } = await begin({
      topics: { t: 1 },
      onPublish: (count) => (count === 1 ? 'garbage' : 'none'),
    });
    await client.producer().send('t', { value: 'x' });
    expect(values(broker.partition('t'))).toEqual(['x']);
    expect(broker.hellos).toBe(2);
  });

  test('a topic that does not exist is rejected as such', async () => {
    const { client } = await begin({ topics: {} });
    await expect(client.producer().send('missing', { value: 'x' })).rejects.toMatchObject({
      code: 'UNKNOWN_TOPIC',
      outcome: 'rejected',
    });
  });
});

describe('memory', () => {
  test('the buffer is bounded, and room is told', async () => {
    const { client, broker } = await begin({ topics: { t: 1 } });
    const producer = client.producer({ bufferBytesMax: 64 * 1024, batchBytes: 8192 });
    const value = new Uint8Array(1000);
    let most = 0;
    for (let index = 0; index < 2000; index += 1) {
      while (!producer.enqueue('t', { value })) await producer.ready();
      most = Math.max(most, producer.bufferedBytes);
    }
    await producer.flush();
    expect(most).toBeLessThanOrEqual(64 * 1024 + 1100);
    expect(producer.bufferedBytes).toBe(0);
    expect(broker.partition('t').end).toBe(2000);
  });

  test('records beyond the buffer and the waiting room are refused, the rest arrives in order', async () => {
    const { client, broker } = await begin({ topics: { t: 1 } });
    const producer = client.producer({ bufferBytesMax: 4096, batchBytes: 1024 });
    const settled = await Promise.allSettled(numbers(3000).map((value) => producer.send('t', { value })));
    const refused = settled.filter((result) => result.status === 'rejected');
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.every(({ reason }) => isRivuletError(reason) && reason.code === 'BUFFER_FULL')).toBe(true);
    expect(values(broker.partition('t'))).toEqual(
      numbers(3000).filter((_, index) => settled[index]?.status === 'fulfilled'),
    );
    expect(producer.bufferedBytes).toBe(0);
  });
});

describe('flush and close', () => {
  test('flush reports the failure that nobody awaited, once', async () => {
    const { client } = await begin({
      topics: { t: 1 },
      onPublish: (count) => (count === 1 ? { refuse: 'INVALID_BATCH' } : 'none'),
    });
    const producer = client.producer();
    await producer.ready();
    producer.send('t', { value: 'x' });
    await expect(producer.flush()).rejects.toMatchObject({ code: 'INVALID_BATCH' });
    await producer.flush();
  });

  test('close ends within its bound and says what is open', async () => {
    const { client } = await begin({ topics: { t: 1 }, onPublish: () => 'silent-after-append' });
    const producer = client.producer();
    const delivery = producer.send('t', { value: 'x' });
    const outcome = expect(delivery).rejects.toMatchObject({ code: 'CLOSED', outcome: 'unknown' });
    await producer.close({ timeoutMs: 50 });
    await outcome;
    await expect(producer.send('t', { value: 'y' })).rejects.toMatchObject({ code: 'CLOSED', outcome: 'rejected' });
  });

  test('close flushes', async () => {
    const { client, broker } = await begin({ topics: { t: 1 } });
    {
      await using producer = client.producer({ lingerMs: 1000 });
      producer.send('t', { value: 'x' });
    }
    expect(values(broker.partition('t'))).toEqual(['x']);
  });
});
