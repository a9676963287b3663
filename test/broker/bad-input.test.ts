// Whatever a client sends, it gets a clear answer, and the next client is served as before.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { crc32cTable } from '../../src/base/checksum.ts';
import { BATCH_BYTES_MAX, FRAME_BYTES_MAX, UNAUTHENTICATED_FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import type { TopicId } from '../../src/base/brands.ts';
import { writeU16, writeU32 } from '../../src/base/bytes.ts';
import {
  ATTRIBUTES_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  CRC_AT,
  CRC_COVERS_FROM,
  LAST_OFFSET_DELTA_AT,
  MAGIC_AT,
  RECORD_COUNT_AT,
} from '../../src/format/batch.ts';
import { createTopicV1, encodeRequestFrame, OPERATION, parseSpoken } from '../../src/protocol/index.ts';
import { batchOf, joined, produceBody, type RawClient } from './raw-client.ts';
import { RealNode } from './real-node.ts';

let node: RealNode;
let client: RawClient;
let topicId: TopicId;
beforeEach(async () => {
  node = await RealNode.start();
  client = await node.greeted();
  topicId = await client.createTopic('readings');
});
afterEach(async () => {
  await stillServes();
  const { leaked, twice } = await node.remove();
  expect({ leaked, twice }).toEqual({ leaked: 0, twice: 0 });
});

async function stillServes(): Promise<void> {
  const other = await node.greeted();
  const name = 'witness';
  const id = await other.createTopic(name);
  const { baseOffset } = await other.produce(id, batchOf(['still here']));
  const { batches } = await other.fetch(id, 0);
  expect([baseOffset, joined(batches).length]).toEqual([0, batchOf(['still here']).length]);
  // Nothing of what was refused has reached the log.
  expect(await other.listOffset(topicId, { kind: 'latest' })).toBe(0);
}

function header(length: number, operation: number, version = 1, flags = 0): Uint8Array {
  const bytes = new Uint8Array(12);
  writeU32(bytes, 0, length);
  writeU16(bytes, 4, operation);
  bytes[6] = version;
  bytes[7] = flags;
  writeU32(bytes, 8, 99);
  return bytes;
}

async function lastWords(
  raw: RawClient,
): Promise<{ readonly code: string | undefined; readonly message: string | undefined }> {
  const { failure, operation } = await raw.answer(0);
  expect(operation).toBe(0);
  await raw.closed();
  return { code: failure?.code, message: failure?.message };
}

test.each([
  ['shorter than its header', header(3, 1), 'MALFORMED_FRAME', /length is 3/],
  ['longer than allowed before Hello', header(UNAUTHENTICATED_FRAME_BYTES_MAX + 100, 1), 'FRAME_TOO_LARGE', /at most/],
  ['of a length that lies by gigabytes', header(0xffff_fff0, 3), 'FRAME_TOO_LARGE', /at most/],
  ['an answer', header(8, 1, 1, 1), 'MALFORMED_FRAME', /flags/],
  ['HTTP', new TextEncoder().encode('GET / HTTP/1.1\r\nHost: broker\r\n\r\n'), 'FRAME_TOO_LARGE', /HTTP/],
  ['TLS', Uint8Array.from([0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0]), 'FRAME_TOO_LARGE', /TLS/],
  [
    'garbage',
    Uint8Array.from({ length: 4096 }, (_, index) => (index * 197 + 91) & 0xff),
    'FRAME_TOO_LARGE',
    /frame length/,
  ],
])('frame %s: the last words say so, and the connection ends', async (_what, bytes, code, message) => {
  const raw = await node.client();
  raw.send(bytes);
  const words = await lastWords(raw);
  expect(words.code).toBe(code);
  expect(words.message).toMatch(message);
});

test('frame larger than allowed after Hello: refused before its body is buffered', async () => {
  client.send(header(FRAME_BYTES_MAX + 9, 3));
  expect((await lastWords(client)).code).toBe('FRAME_TOO_LARGE');
});

test('request before Hello: refused, and the connection goes on', async () => {
  const raw = await node.client();
  expect((await raw.refused('Metadata', [])).code).toBe('HELLO_REQUIRED');
  expect((await raw.hello()).softwareName).toBe('rivulet');
});

test('unknown operation and version: refused with what is spoken', async () => {
  client.send(joined(encodeRequestFrame({ operation: 999, version: 1, correlationId: 77 }, [])));
  const { failure } = await client.answer(77);
  expect(failure?.code).toBe('UNSUPPORTED_OPERATION');
  expect(parseSpoken(failure?.facts ?? {}).map(({ operation }) => operation)).toContain(OPERATION.Produce.operation);
  expect((await client.refused('Fetch', [], 200)).code).toBe('UNSUPPORTED_VERSION');
});

test.each([
  'Metadata',
  'Produce',
  'Fetch',
  'ListOffsets',
  'InitProducer',
  'CreateTopic',
  'AlterTopic',
  'DeleteTopic',
  'ClusterStatus',
  'Hello',
] as const)('%s with a body that does not follow its grammar: refused, and the connection goes on', async (name) => {
  const failure = await client.refused(name, [Uint8Array.of(0xff, 0xff, 0xff, 0xff, 7)]);
  expect(failure.code).toBe('MALFORMED_REQUEST');
  expect(failure.message).toMatch(/at byte/);
  await client.metadata([]);
});

test('request cut off by the end of its connection: forgotten', async () => {
  const body = joined(
    encodeRequestFrame(
      { operation: OPERATION.Produce.operation, version: 1, correlationId: 1 },
      produceBody(topicId, batchOf(['never'])),
    ),
  );
  client.send(body.subarray(0, body.length - 3));
  client.end();
  await client.closed();
});

/** A good batch, spoilt; `sealed`: with a checksum that is right for the spoilt bytes. */
function spoilt(change: (batch: Uint8Array) => void, sealed: boolean): Uint8Array {
  const batch = batchOf(['one', 'two', 'three']);
  change(batch);
  if (sealed) writeU32(batch, CRC_AT, crc32cTable(batch.subarray(CRC_COVERS_FROM)));
  return batch;
}

test.each([
  [
    'flipped bit',
    spoilt((batch) => {
      batch[batch.length - 2] = (batch[batch.length - 2] ?? 0) ^ 1;
    }, false),
    'CORRUPT_BATCH',
    /checksum/,
  ],
  [
    'magic of another version',
    spoilt((batch) => {
      batch[MAGIC_AT] = 1;
    }, true),
    'INVALID_BATCH',
    /magic/,
  ],
  [
    'length that lies upwards',
    spoilt((batch) => {
      writeU32(batch, BATCH_LENGTH_AT, batch.length + 100);
    }, true),
    'INVALID_BATCH',
    /short/,
  ],
  [
    'length that lies downwards',
    spoilt((batch) => {
      writeU32(batch, BATCH_LENGTH_AT, 10);
    }, true),
    'INVALID_BATCH',
    /length/,
  ],
  [
    'negative length',
    spoilt((batch) => {
      writeU32(batch, BATCH_LENGTH_AT, 0xffff_ffff);
    }, true),
    'INVALID_BATCH',
    /length/,
  ],
  [
    'unknown codec',
    spoilt((batch) => {
      writeU16(batch, ATTRIBUTES_AT, 5);
    }, true),
    'UNKNOWN_CODEC',
    /codec 5/,
  ],
  [
    'unknown attributes',
    spoilt((batch) => {
      writeU16(batch, ATTRIBUTES_AT, 0x4000);
    }, true),
    'INVALID_BATCH',
    /attribute/,
  ],
  [
    'control bit',
    spoilt((batch) => {
      writeU16(batch, ATTRIBUTES_AT, 0x20);
    }, true),
    'INVALID_BATCH',
    /control/,
  ],
  [
    'record count that lies upwards',
    spoilt((batch) => {
      writeU32(batch, RECORD_COUNT_AT, 4);
      writeU32(batch, LAST_OFFSET_DELTA_AT, 3);
    }, true),
    'INVALID_BATCH',
    /record/,
  ],
  [
    'record count that lies downwards',
    spoilt((batch) => {
      writeU32(batch, RECORD_COUNT_AT, 2);
      writeU32(batch, LAST_OFFSET_DELTA_AT, 1);
    }, true),
    'INVALID_BATCH',
    /record/,
  ],
  [
    'last offset delta that is not dense',
    spoilt((batch) => {
      writeU32(batch, LAST_OFFSET_DELTA_AT, 9);
    }, true),
    'INVALID_BATCH',
    /delta/,
  ],
  [
    'offset delta inside a record that is not dense',
    spoilt((batch) => {
      batch[BATCH_HEADER_BYTES + 3] = 8;
    }, true),
    'INVALID_BATCH',
    /record 0/,
  ],
  ['half a header', spoilt(() => undefined, false).subarray(0, 30), 'INVALID_BATCH', /short/],
  ['bytes behind the batch', joined([batchOf(['fine']), Uint8Array.of(1, 2, 3)]), 'INVALID_BATCH', /batch 1/],
])('Produce of a batch with %s: refused whole, with the reason', async (_what, batch, code, message) => {
  const failure = await client.refused('Produce', produceBody(topicId, batch));
  expect(failure.code).toBe(code);
  expect(failure.message).toMatch(message);
});

test('Produce of a batch over max.batch.bytes: BATCH_TOO_LARGE with the limit', async () => {
  const small = await client.createTopic('small', { config: [{ key: 'max.batch.bytes', value: '2048' }] });
  const failure = await client.refused('Produce', produceBody(small, batchOf(['z'.repeat(4000)])));
  expect([failure.code, failure.facts['bytesMax']]).toEqual(['BATCH_TOO_LARGE', 2048]);
  const huge = await client.refused('Produce', produceBody(topicId, batchOf(['z'.repeat(BATCH_BYTES_MAX)])));
  expect(huge.code).toBe('BATCH_TOO_LARGE');
});

test('Produce with more batches than a request may hold: refused', async () => {
  const failure = await client.refused(
    'Produce',
    produceBody(topicId, joined(Array.from({ length: 1025 }, () => batchOf(['x'])))),
  );
  expect(failure.message).toMatch(/at most 1024/);
});

test('Produce to what is not there: refused with the reason', async () => {
  expect((await client.refused('Produce', produceBody('ab'.repeat(16) as TopicId, batchOf(['x'])))).code).toBe(
    'UNKNOWN_TOPIC',
  );
  expect((await client.refused('Produce', produceBody(topicId, batchOf(['x']), { partition: 5 }))).code).toBe(
    'UNKNOWN_PARTITION',
  );
  expect(
    (await client.refused('Produce', produceBody(topicId, batchOf(['x']), { leaderEpoch: 9 as never }))).code,
  ).toBe('UNKNOWN_LEADER_EPOCH');
});

test('Produce by an unknown producer in mid-sequence: refused with the sequence that would be taken', async () => {
  const batch = batchOf(['x'], { producerId: 900, producerEpoch: 0, baseSequence: 5 });
  const failure = await client.refused('Produce', produceBody(topicId, batch));
  expect([failure.code, failure.facts['expectedSequence']]).toEqual(['UNKNOWN_PRODUCER', 0]);
});

test.each([
  '',
  '.',
  '..',
  'a/b',
  '../../etc/passwd',
  'nul\0inside',
  'x'.repeat(250),
  'x'.repeat(300),
  'ümlaut',
  'sp ace',
])('CreateTopic named %j: INVALID_TOPIC_NAME', async (name) => {
  const body = createTopicV1.encodeRequest({
    name,
    partitions: 1,
    replicas: 0,
    config: [],
    validateOnly: false,
    ifNotExists: true,
    timeoutMs: 1000,
  });
  expect((await client.refused('CreateTopic', body)).code).toBe('INVALID_TOPIC_NAME');
  const { topics } = await client.metadata([name]);
  expect(topics[0]?.failure?.code).toBe('INVALID_TOPIC_NAME');
});

test('CreateTopic with impossible numbers and settings: refused with the one that is wrong', async () => {
  const ask = async (given: Partial<createTopicV1.CreateTopicRequest>): Promise<string> => {
    const request = {
      name: 'other',
      partitions: 1,
      replicas: 0,
      config: [],
      validateOnly: false,
      ifNotExists: false,
      timeoutMs: 1000,
      ...given,
    };
    const { code, facts } = await client.refused('CreateTopic', createTopicV1.encodeRequest(request));
    return `${code} ${String(facts['setting'] ?? '')}`.trim();
  };
  expect(await ask({ partitions: 5000 })).toBe('INVALID_ARGUMENT');
  expect(await ask({ replicas: 3 })).toBe('INVALID_ARGUMENT');
  expect(await ask({ config: [{ key: 'retention.hours', value: '1' }] })).toBe('INVALID_CONFIG retention.hours');
  expect(await ask({ config: [{ key: 'segment.bytes', value: '-5' }] })).toBe('INVALID_CONFIG segment.bytes');
  expect(await ask({ name: 'readings' })).toBe('TOPIC_EXISTS');
});
