import { afterEach, describe, expect, test } from 'vitest';
import { writeU32 } from '../../src/base/bytes.ts';
import type { ConsumedRecord, Consumer } from '../../src/client/api.ts';
import { BatchWriter, BufferPool, identify } from '../../src/client/batch-writer.ts';
import { connectWith } from '../../src/client/client.ts';
import { crc32c } from '../../src/platform/checksum.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { compression } from '../../src/platform/compression.ts';
import { systemRandom } from '../../src/platform/random.ts';
import { tcpNetwork } from '../../src/platform/tcp.ts';
import { FakeBroker, type FakeOptions } from './fake-broker.ts';

const ports = { clock: systemClock(), random: systemRandom, network: tcpNetwork(), compression, crc32c };
const owned: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const resource of owned.splice(0).reverse()) await resource.stop();
});

async function begin(
  options: FakeOptions,
): Promise<{ broker: FakeBroker; client: Awaited<ReturnType<typeof connectWith>> }> {
  const broker = await FakeBroker.start(options);
  owned.push(broker);
  const client = await connectWith(
    ports,
    { servers: [broker.server], reconnectBackoffMs: 1, reconnectBackoffMaxMs: 4 },
    1,
  );
  owned.push({ stop: async () => await client.close({ timeoutMs: 100 }) });
  return { broker, client };
}

const pool = new BufferPool(65_536, 65_536);
const IDENTITY = { producerId: -1, producerEpoch: -1, baseSequence: -1 };

function batchOf(values: readonly string[], change?: (bytes: Uint8Array) => void): Uint8Array {
  const writer = new BatchWriter(pool, 1000);
  for (const value of values)
    writer.append(
      Buffer.from(`k${value}`),
      Buffer.from(value),
      [{ key: Buffer.from('h'), value: Buffer.from(value) }],
      5000 + Number(value),
    );
  const bytes = writer.seal('none', compression).slice();
  change?.(bytes);
  identify(bytes, IDENTITY, crc32c);
  return bytes;
}

function fill(broker: FakeBroker, count: number, perBatch: number, partition = 0): void {
  for (let start = 0; start < count; start += perBatch) {
    broker
      .partition('t', partition)
      .append(batchOf(Array.from({ length: perBatch }, (_, index) => String(start + index))));
  }
}

const text = (bytes: Uint8Array | null): string => (bytes === null ? 'null' : Buffer.from(bytes).toString());

async function take(consumer: Consumer, most: number): Promise<ConsumedRecord[]> {
  const records: ConsumedRecord[] = [];
  for await (const record of consumer) {
    records.push(record);
    if (records.length >= most) break;
  }
  return records;
}

describe('iteration', () => {
  test('delivers key, value, headers, timestamp and offset, up to the high watermark at the start', async () => {
    const { broker, client } = await begin({ topics: { t: 1 } });
    fill(broker, 100, 10);
    const consumer = client.consumer({ topics: ['t'], until: 'high-watermark-at-start' });
    const records = await take(consumer, 1000);
    expect(records).toHaveLength(100);
    const record = records[57];
    expect(
      record === undefined
        ? undefined
        : {
            key: text(record.key),
            value: text(record.value),
            offset: record.offset,
            timestamp: record.timestamp,
            header: text(record.headers[0]?.value ?? null),
          },
    ).toEqual({ key: 'k57', value: '57', offset: 57, timestamp: 5057, header: '57' });
    expect(consumer.position('t', 0)).toBe(100);
    expect(consumer.lag('t', 0)).toBe(0);
  });

  test('an empty topic ends at once with until', async () => {
    const { client } = await begin({ topics: { t: 3 } });
    expect(await take(client.consumer({ topics: ['t'], until: 'high-watermark-at-start' }), 10)).toEqual([]);
  });

  test('records below the offset asked for are left out of the first batch', async () => {
    const { broker, client } = await begin({ topics: { t: 1 } });
    fill(broker, 30, 10);
    const records = await take(
      client.consumer({ assignments: [{ topic: 't', partition: 0, from: 17 }], until: 'high-watermark-at-start' }),
      100,
    );
    expect(records.map(({ offset }) => offset)).toEqual(Array.from({ length: 13 }, (_, index) => 17 + index));
  });

  test('control batches are passed over', async () => {
    const { broker, client } = await begin({ topics: { t: 1 } });
    fill(broker, 10, 10);
    broker.partition('t').append(
      batchOf(['0'], (bytes) => {
        bytes[22] = 0x20;
      }),
    );
    fill(broker, 10, 10);
    const records = await take(client.consumer({ topics: ['t'], until: 'high-watermark-at-start' }), 100);
    expect(records.map(({ offset }) => offset)).toEqual([
      ...Array(10).keys(),
      ...Array.from({ length: 10 }, (_, index) => 11 + index),
    ]);
  });

  test('partitions take turns, pause holds one back', async () => {
    const { broker, client } = await begin({ topics: { t: 2 } });
    fill(broker, 20, 5, 0);
    fill(broker, 20, 5, 1);
    const consumer = client.consumer({ topics: ['t'] });
    await take(consumer, 1);
    consumer.pause('t', 0);
    const after = await take(consumer, 20);
    expect(after.filter(({ partition }) => partition === 1).length).toBeGreaterThanOrEqual(15);
    consumer.resume('t', 0);
    const rest = await take(consumer, 40 - 21);
    expect(
      new Set([...after, ...rest].filter(({ partition }) => partition === 0).map(({ offset }) => offset)).size,
    ).toBeGreaterThanOrEqual(15);
  });

  test('goes on over cut connections and moved leaders without gap or repeat', async () => {
    const { broker, client } = await begin({
      topics: { t: 1 },
      onFetch: (count) => (count % 3 === 0 ? 'NOT_LEADER' : undefined),
    });
    fill(broker, 2000, 10);
    const consumer = client.consumer({ topics: ['t'], maxBytes: 2000, until: 'high-watermark-at-start' });
    const offsets: number[] = [];
    for await (const record of consumer) {
      offsets.push(record.offset);
      if (offsets.length % 150 === 0) for (const connection of broker.connections) connection.destroy();
    }
    expect(offsets).toEqual([...Array(2000).keys()]);
  }, 30_000);

  test('seek goes back and delivers again', async () => {
    const { broker, client } = await begin({ topics: { t: 1 } });
    fill(broker, 30, 10);
    const consumer = client.consumer({ topics: ['t'] });
    await take(consumer, 25);
    consumer.seek('t', 0, 3);
    expect((await take(consumer, 2)).map(({ offset }) => offset)).toEqual([3, 4]);
  });

  test('a broker that is gone for longer than wanted ends the iteration with why', async () => {
    const { broker, client } = await begin({ topics: { t: 1 } });
    fill(broker, 4, 2);
    const consumer = client.consumer({ topics: ['t'], retryTimeoutMs: 50 });
    const seen: string[] = [];
    await expect(
      (async () => {
        for await (const record of consumer) {
          seen.push(text(record.value));
          if (seen.length === 4) await broker.stop();
        }
      })(),
    ).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
    expect(seen).toEqual(['0', '1', '2', '3']);
  });

  test('an aborted signal ends a wait', async () => {
    const { client } = await begin({ topics: { t: 1 } });
    const controller = new AbortController();
    const waiting = take(client.consumer({ topics: ['t'], signal: controller.signal }), 1);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'ABORTED' });
  });

  test('close ends a wait', async () => {
    const { client } = await begin({ topics: { t: 1 } });
    const consumer = client.consumer({ topics: ['t'] });
    const waiting = take(consumer, 1);
    await consumer.close();
    expect(await waiting).toEqual([]);
  });
});

describe('bad data', () => {
  const failing = async (consumer: Consumer): Promise<{ delivered: number; error: unknown }> => {
    let delivered = 0;
    try {
      for await (const _ of consumer) delivered += 1;
    } catch (error) {
      return { delivered, error };
    }
    return { delivered, error: undefined };
  };

  test.each<[string, (bytes: Uint8Array) => void]>([
    [
      'record count',
      (bytes) => {
        writeU32(bytes, 57, 11);
        writeU32(bytes, 23, 10);
      },
    ],
    [
      'record length',
      (bytes) => {
        bytes[61] = 2;
      },
    ],
    [
      'codec that is not that of the data',
      (bytes) => {
        bytes[22] = 1;
      },
    ],
    [
      'unknown codec',
      (bytes) => {
        bytes[22] = 7;
      },
    ],
  ])('a lying %s names the range after all records before it, and seek goes on behind it', async (_, change) => {
    const { broker, client } = await begin({ topics: { t: 1 } });
    fill(broker, 10, 10);
    broker.partition('t').append(
      batchOf(
        Array.from({ length: 10 }, (_unused, index) => String(index)),
        change,
      ),
    );
    const partition = broker.partition('t');
    const behind = partition.end;
    fill(broker, 10, 10);
    const consumer = client.consumer({ topics: ['t'], until: 'high-watermark-at-start' });
    const { delivered, error } = await failing(consumer);
    expect(delivered).toBe(10);
    expect(error).toMatchObject({
      code: 'POISONED_BATCH',
      facts: { topic: 't', partition: 0, fromOffset: 10, toOffset: behind - 1 },
    });
    consumer.seek('t', 0, behind);
    expect(await failing(consumer)).toEqual({ delivered: 10, error: undefined });
  });

  test('a changed byte fails the checksum', async () => {
    const { broker, client } = await begin({
      topics: { t: 1 },
      onFetchBytes: (bytes) => {
        const changed = bytes.slice();
        changed[80] = (changed[80] ?? 0) ^ 1;
        return changed;
      },
    });
    fill(broker, 10, 10);
    const { delivered, error } = await failing(client.consumer({ topics: ['t'], until: 'high-watermark-at-start' }));
    expect(delivered).toBe(0);
    expect(error).toMatchObject({ code: 'POISONED_BATCH', facts: { fromOffset: 0 } });
  });

  test('a gap is an error', async () => {
    const { broker, client } = await begin({ topics: { t: 1 } });
    fill(broker, 30, 10);
    broker.partition('t').batches.splice(1, 1);
    const { delivered, error } = await failing(client.consumer({ topics: ['t'], until: 'high-watermark-at-start' }));
    expect(delivered).toBe(10);
    expect(error).toMatchObject({ code: 'POISONED_BATCH', facts: { fromOffset: 10 } });
  });
});

describe('a lost position', () => {
  test('stops by default, with the retained range', async () => {
    const { broker, client } = await begin({ topics: { t: 1 } });
    fill(broker, 30, 10);
    broker.partition('t').logStart = 20;
    const waiting = take(client.consumer({ topics: ['t'], from: 5 }), 1);
    await expect(waiting).rejects.toMatchObject({
      code: 'OFFSET_EXPIRED',
      facts: { position: 5, logStart: 20, highWatermark: 30 },
    });
  });

  test('goes on where the application says', async () => {
    const { broker, client } = await begin({ topics: { t: 1 } });
    fill(broker, 30, 10);
    broker.partition('t').logStart = 20;
    const reasons: string[] = [];
    const consumer = client.consumer({
      topics: ['t'],
      from: 5,
      onPositionLost: ({ reason, logStart }) => {
        reasons.push(`${reason} ${String(logStart)}`);
        return 'earliest';
      },
    });
    expect((await take(consumer, 10)).map(({ offset }) => offset)).toEqual(
      Array.from({ length: 10 }, (_, index) => 20 + index),
    );
    expect(reasons).toEqual(['OFFSET_EXPIRED 20']);
  });

  test('LOG_TRUNCATED is told after what was fetched before it', async () => {
    const { broker, client } = await begin({
      topics: { t: 1 },
      onFetch: (_count, offset) => (offset >= 20 ? 'LOG_TRUNCATED' : undefined),
    });
    fill(broker, 20, 10);
    broker.resumeAt = 15;
    const delivered: number[] = [];
    const consumer = client.consumer({ topics: ['t'] });
    const all = (async (): Promise<void> => {
      for await (const record of consumer) delivered.push(record.offset);
    })();
    await expect(all).rejects.toMatchObject({ code: 'LOG_TRUNCATED', facts: { position: 20, resumeAt: 15 } });
    expect(delivered).toHaveLength(20);
  });
});

test('prefetch is bounded', async () => {
  const { broker, client } = await begin({ topics: { t: 1 } });
  fill(broker, 10_000, 100);
  const consumer = client.consumer({ topics: ['t'], maxBytes: 10_000, prefetchBytes: 20_000 });
  await take(consumer, 1);
  const before = broker.fetches;
  await new Promise((resolve) => setTimeout(resolve, 50));
  // Each answer is at most 10,000 bytes: two fill the buffer, a third may have been out.
  expect(broker.fetches - before).toBeLessThanOrEqual(3);
  expect(await take(consumer, 9999)).toHaveLength(9999);
});
