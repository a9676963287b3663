// Segments are rolled, retired, removed and written over while connections that do not read hold slices of them: what they get in
// the end is what was there when they asked, and nothing outlives its last reader.
import { expect, test } from 'vitest';
import { crc32cTable } from '../../src/base/checksum.ts';
import { checkBatch } from '../../src/format/batch.ts';
import { fetchV1 } from '../../src/protocol/index.ts';
import { PartitionReplica } from '../../src/replication/partition-replica.ts';
import { batchOf, fetchBody, first, joined, value, type RawClient } from './raw-client.ts';
import { RealNode } from './real-node.ts';

test('slow readers get whole what retention has removed and recycling has written over meanwhile', async () => {
  const node = await RealNode.start({ config: { fsync: 'never', maxOutputBytes: 4 * 1024 * 1024 } });
  const producer = await node.greeted();
  const topicId = await producer.createTopic('t', {
    config: [
      { key: 'retention.bytes', value: String(512 * 1024) },
      { key: 'segment.bytes', value: String(256 * 1024) },
    ],
  });
  const replica = first(Array.from(node.broker.core.replicas.all()));
  if (!(replica instanceof PartitionReplica)) throw new Error('not a real replica');
  let next = 0;
  const produce = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at += 1) {
      await producer.produce(topicId, batchOf([`${String(next)} ${'x'.repeat(8000)}`]));
      next += 1;
    }
  };
  const waiting: { readonly reader: RawClient; readonly asked: number; readonly from: number }[] = [];
  for (let round = 0; round < 40; round += 1) {
    await produce(20);
    const reader = await node.greeted();
    reader.pauseReading();
    const from = Math.max(replica.logStartOffset, next - 40);
    for (let each = 0; each < 3; each += 1)
      waiting.push({
        reader,
        asked: reader.request('Fetch', fetchBody(topicId, from, { maxBytes: 512 * 1024 })),
        from,
      });
    await replica.retain();
  }
  expect(replica.logStartOffset).toBeGreaterThan(600);
  let gone = 0;
  for (const { reader, asked, from } of waiting) {
    reader.resumeReading();
    const answer = await reader.answer(asked);
    const { batches, failure } = first(value(fetchV1.decodeResponse(answer.body)).partitions);
    if (failure !== undefined) throw new Error(failure.code);
    const bytes = joined(batches);
    let offset = from;
    for (let at = 0; at < bytes.length;) {
      const checked = checkBatch(bytes, at, crc32cTable);
      if (!checked.ok) throw new Error(`at ${String(at)}: ${checked.detail}`);
      expect(checked.header.baseOffset).toBe(offset);
      expect(Buffer.from(bytes.buffer, bytes.byteOffset + at, checked.size).includes(`${String(offset)} xxx`)).toBe(
        true,
      );
      if (offset < replica.logStartOffset) gone += 1;
      offset += 1;
      at += checked.size;
    }
    expect(offset).toBeGreaterThan(from);
  }
  // Most of what was read had been removed by then.
  expect(gone).toBeGreaterThan(1000);
  expect(await node.remove()).toMatchObject({ leaked: 0, twice: 0 });
});
