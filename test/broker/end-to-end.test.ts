import { afterEach, beforeEach, expect, test } from 'vitest';
import { decodeRecords } from '../../src/format/records.ts';
import { readBatchHeader, batchSize } from '../../src/format/batch.ts';
import { RealNode } from './real-node.ts';
import { batchOf, fetchBody, first, joined, value } from './raw-client.ts';
import { fetchV1 } from '../../src/protocol/index.ts';

let node: RealNode;
beforeEach(async () => {
  node = await RealNode.start();
});
afterEach(async () => {
  const { leaked, twice } = await node.remove();
  expect({ leaked, twice }).toEqual({ leaked: 0, twice: 0 });
});

function texts(bytes: Uint8Array): string[] {
  const found: string[] = [];
  for (let at = 0; at < bytes.length; at += batchSize(bytes, at)) {
    const header = readBatchHeader(bytes, at);
    if (header === undefined) throw new Error('no header');
    if (header.isControl) continue;
    const records = decodeRecords(bytes.subarray(at + 61, at + header.sizeInBytes), header);
    for (const record of records) found.push(new TextDecoder().decode(record.value ?? new Uint8Array(0)));
  }
  return found;
}

test('broker: what was produced is fetched, with dense offsets and the bytes that were sent', async () => {
  const client = await node.greeted();
  const topicId = await client.createTopic('readings');
  const one = await client.produce(topicId, batchOf(['a', 'b']));
  const two = await client.produce(topicId, joined([batchOf(['c']), batchOf(['d', 'e'])]));
  expect([one.baseOffset, one.lastOffset, two.baseOffset, two.lastOffset]).toEqual([0, 1, 2, 4]);
  const { batches, highWatermark, logStart, failure } = await client.fetch(topicId, 0);
  expect(failure).toBeUndefined();
  expect([logStart, highWatermark]).toEqual([0, 5]);
  expect(texts(joined(batches))).toEqual(['a', 'b', 'c', 'd', 'e']);
  expect(await client.listOffset(topicId, { kind: 'latest' })).toBe(5);
});

test('Fetch: waits for data, and is answered when it is committed', async () => {
  const consumer = await node.greeted();
  const producer = await node.greeted();
  const topicId = await producer.createTopic('readings');
  const waiting = consumer.request('Fetch', fetchBody(topicId, 0, { waitMs: 15_000, minBytes: 1 }));
  // Another request of the same connection is answered meanwhile.
  expect((await consumer.metadata(['readings'])).topics[0]?.failure).toBeUndefined();
  expect(node.broker.core.parked.size).toBe(1);
  await producer.produce(topicId, batchOf(['late']));
  const answer = await consumer.answer(waiting);
  const { partitions } = value(fetchV1.decodeResponse(answer.body));
  expect(texts(joined(first(partitions).batches))).toEqual(['late']);
  expect(node.broker.core.parked.size).toBe(0);
});

test('Fetch: without data answers empty when its time is up', async () => {
  const client = await node.greeted();
  const topicId = await client.createTopic('readings');
  const { batches, failure } = await client.fetch(topicId, 0, { waitMs: 100, minBytes: 1 });
  expect([batches.length, failure]).toEqual([0, undefined]);
});

test('Fetch: many partitions share its bound, and the first batch comes whole', async () => {
  const client = await node.greeted();
  const topicId = await client.createTopic('readings', { partitions: 3 });
  for (let partition = 0; partition < 3; partition += 1)
    await client.produce(topicId, batchOf(['x'.repeat(5000)]), { partition });
  const wanted = [0, 1, 2].map((partition) => ({
    topicId,
    partition,
    fetchOffset: 0 as never,
    currentLeaderEpoch: -1 as never,
    lastFetchedEpoch: -1 as never,
    maxBytes: 1_000_000,
  }));
  const ask = async (maxBytes: number): Promise<number[]> => {
    const body = await client.call(
      'Fetch',
      fetchV1.encodeRequest({ waitMs: 0, minBytes: 0, maxBytes, partitions: wanted }),
    );
    return value(fetchV1.decodeResponse(body)).partitions.map(({ batches }) => joined(batches).length);
  };
  const [whole] = await ask(1);
  expect(whole).toBeGreaterThan(5000);
  expect(await ask(1)).toEqual([whole, 0, 0]);
  expect(await ask(11_000)).toEqual([whole, whole, 0]);
  expect(await ask(1_000_000)).toEqual([whole, whole, whole]);
});

test('Fetch: offsets outside the log are refused with the range that is there', async () => {
  const client = await node.greeted();
  const topicId = await client.createTopic('readings');
  await client.produce(topicId, batchOf(['a']));
  const { failure } = await client.fetch(topicId, 7);
  expect(failure?.code).toBe('OFFSET_BEYOND_END');
  expect(failure?.facts).toMatchObject({ logStart: 0, highWatermark: 1 });
});

test('broker: a clean restart serves the same records under the same ids, cold at first', async () => {
  let client = await node.greeted();
  const topicId = await client.createTopic('readings');
  const sent = Array.from({ length: 40 }, (_, index) => `${String(index)} ${'y'.repeat(20_000)}`);
  for (const text of sent) await client.produce(topicId, batchOf([text]));
  await node.stop();
  await node.start();
  expect(node.broker.clean).toBe(true);
  client = await node.greeted();
  const found: string[] = [];
  while (found.length < sent.length) {
    const { batches, failure } = await client.fetch(topicId, found.length, { waitMs: 5000, minBytes: 1 });
    expect(failure).toBeUndefined();
    found.push(...texts(joined(batches)));
  }
  expect(found).toEqual(sent);
  const { baseOffset } = await client.produce(topicId, batchOf(['next']));
  expect(baseOffset).toBe(40);
});

test('Produce: a repeated batch of a producer is answered with its first offsets', async () => {
  const client = await node.greeted();
  const topicId = await client.createTopic('readings');
  const batch = batchOf(['a'], { producerId: 7, producerEpoch: 0, baseSequence: 0 });
  const once = await client.produce(topicId, batch.slice());
  const again = await client.produce(topicId, batch.slice());
  expect([again.baseOffset, again.duplicate, once.duplicate]).toEqual([once.baseOffset, true, false]);
});

test('broker: stopping answers what waits, and leaves the store clean', async () => {
  const client = await node.greeted();
  const topicId = await client.createTopic('readings');
  const waiting = client.request('Fetch', fetchBody(topicId, 0, { waitMs: 60_000, minBytes: 1 }));
  await client.metadata(['readings']);
  const closing = node.broker.close();
  const answer = await client.answer(waiting);
  expect(answer.operation).toBe(4);
  await client.closed();
  await closing;
  await node.stop();
  await node.start();
  expect(node.broker.clean).toBe(true);
});
