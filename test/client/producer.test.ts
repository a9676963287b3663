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

async function begin(options: FakeOptions, requestTimeoutMs = 5000): Promise<{ broker: FakeBroker; client: Awaited<ReturnType<typeof connectWith>> }> {
  const broker = await FakeBroker.start(options);
  owned.push(broker);
  const client = await connectWith(ports, { servers: [broker.server], reconnectBackoffMs: 1, reconnectBackoffMaxMs: 4, requestTimeoutMs }, 1);
  owned.push({ stop: async () => client.close({ timeoutMs: 100 }).catch(() => undefined) });
  return { broker, client };
}

function values(partition: FakePartition): string[] {
  const found: string[] = [];
  for (const { bytes } of partition.batches) {
    const stored = readStoredBatch(bytes, 0, crc32c);
    if (stored === undefined) throw new Error('short batch');
    const view = openBatch(bytes, stored, { topic: 't', partition: 0, highWatermark: 0, from: 0, upTo: Number.MAX_SAFE_INTEGER }, compression);
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
    for (let index = 0; index < 100; index += 1) deliveries.push(producer.send('t', { value: String(index), timestamp: 1000 + index }));
    const settled = await Promise.all(deliveries);
    expect(settled[42]).toEqual({ outcome: 'committed', topic: 't', partition: 0, offset: 42, leaderEpoch: 3, timestamp: 1042 });
    expect(values(broker.partition('t'))).toEqual(numbers(100));
  });

  test('each record once and in order over many dropped connections', async () => {
    const { client, broker } = await begin({
      topics: { t: 1 },
      onPublish: (count) => (count % 3 === 0 ? 'drop-after-append' : count % 7 === 0 ? 'drop-before-append' : count % 11 === 0 ? { refuse: 'NOT_LEADER' } : 'none'),
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
    const { client, broker } = await begin({ topics: { t: 1 }, onPublish: (count) => (count === 3 ? { refuse: 'INVALID_BATCH' } : 'none') });
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
