// Whatever a client sends, it gets a clear answer, and the next client is served as before.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { BATCH_BYTES_MAX, FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import type { TopicId } from '../../src/base/brands.ts';
import { createTopicV1, encodeRequestFrame, OPERATION, parseSpoken } from '../../src/protocol/index.ts';
import { BAD_BATCHES, BAD_FRAMES, BAD_TOPIC_NAMES, header } from './bad-frames.ts';
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

async function lastWords(
  raw: RawClient,
): Promise<{ readonly code: string | undefined; readonly message: string | undefined }> {
  const { failure, operation } = await raw.answer(0);
  expect(operation).toBe(0);
  await raw.closed();
  return { code: failure?.code, message: failure?.message };
}

test.each(BAD_FRAMES)(
  'frame %s: the last words say so, and the connection ends',
  async (_what, bytes, code, message) => {
    const raw = await node.client();
    raw.send(bytes);
    const words = await lastWords(raw);
    expect(words.code).toBe(code);
    expect(words.message).toMatch(message);
  },
);

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

test.each(BAD_BATCHES)(
  'Produce of a batch with %s: refused whole, with the reason',
  async (_what, batch, code, message) => {
    const failure = await client.refused('Produce', produceBody(topicId, batch));
    expect(failure.code).toBe(code);
    expect(failure.message).toMatch(message);
  },
);

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

test.each(BAD_TOPIC_NAMES)('CreateTopic named %j: INVALID_TOPIC_NAME', async (name) => {
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
