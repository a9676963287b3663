// Whatever is sent to the built executable, it answers clearly, goes on serving the next client, and does not grow by it.
import { readFileSync } from 'node:fs';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { TopicId } from '../../src/base/brands.ts';
import { FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import { compression } from '../../src/platform/compression.ts';
import { createTopicV1, encodeRequestFrame, OPERATION, parseSpoken } from '../../src/protocol/index.ts';
import { BAD_BATCHES, BAD_FRAMES, BAD_TOPIC_NAMES, header } from '../broker/bad-frames.ts';
import { batchOf, fetchBody, joined, produceBody, RawClient } from '../broker/raw-client.ts';
import { portOf, startBroker, temporaryFolder, type RunningBroker } from './harness.ts';

const MIB = 1024 * 1024;
/** What a broker may come to hold, whatever it is sent. */
// What is idle, the budget for requests and one frame more, and buffers that the collector has not come to yet.
const RSS_MAX = 400 * MIB;
const CROWD = 2000;

const folder = temporaryFolder();
let broker: RunningBroker;
let port: number;
let client: RawClient;
let topicId: TopicId;
let witnessId: TopicId;
let witnessed = 0;
let greedy: RawClient;

beforeAll(async () => {
  broker = await startBroker(folder.path, {
    args: ['--handshake-timeout', '2s', '--validate-compressed', 'true', '--fsync', 'never', '--min-free-bytes', '0'],
  });
  port = portOf(broker.server);
  client = await greeted();
  topicId = await client.createTopic('readings');
  witnessId = await client.createTopic('witness');
  greedy = await sendAndNeverRead();
});
afterEach(async () => {
  await stillServes();
});
afterAll(async () => {
  await broker.stop();
  broker.destroy();
  folder.remove();
});

async function greeted(): Promise<RawClient> {
  const raw = await RawClient.tcp(port);
  await raw.hello();
  return raw;
}

function memory(field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${String(broker.pid)}/status`, 'utf8');
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024;
}

/** Another client goes round, nothing of what was refused is in the log, and no memory stays taken. */
async function stillServes(): Promise<void> {
  const other = await greeted();
  const batch = batchOf([`round ${String(witnessed)}`]);
  expect((await other.produce(witnessId, batch)).baseOffset).toBe(witnessed);
  const { batches } = await other.fetch(witnessId, witnessed);
  expect(joined(batches).subarray(-20)).toEqual(batch.subarray(-20));
  witnessed += 1;
  expect(await other.listOffset(topicId, { kind: 'latest' })).toBe(0);
  expect(memory('VmRSS')).toBeLessThan(RSS_MAX);
  other.end();
}

/** Asks for 400 MiB at once, and takes none of it. */
async function sendAndNeverRead(): Promise<RawClient> {
  const raw = await greeted();
  const id = await raw.createTopic('plenty');
  for (let index = 0; index < 20; index += 1) await raw.produce(id, batchOf(['f'.repeat(100_000)]));
  raw.pauseReading();
  for (let index = 0; index < 200; index += 1) raw.request('Fetch', fetchBody(id, 0, { maxBytes: 2 * MIB }));
  return raw;
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`http://${broker.admin}/metrics`, { signal: AbortSignal.timeout(10_000) })).text();
  const found = [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))];
  return found.reduce((sum, [, value]) => sum + Number(value), 0);
}

describe('frames', () => {
  test.each(BAD_FRAMES)('%s: the last words say so, and the connection ends', async (_what, bytes, code, message) => {
    const raw = await RawClient.tcp(port);
    raw.send(bytes);
    const { failure, operation } = await raw.answer(0);
    expect(operation).toBe(0);
    expect(failure?.code).toBe(code);
    expect(failure?.message).toMatch(message);
    await raw.closed();
  });

  test('larger than allowed after Hello: refused before its body is buffered', async () => {
    const raw = await greeted();
    raw.send(header(FRAME_BYTES_MAX + 9, OPERATION.Produce.operation));
    expect((await raw.answer(0)).failure?.code).toBe('FRAME_TOO_LARGE');
    await raw.closed();
  });

  test('cut off by the end of the connection: forgotten', async () => {
    for (const left of [1, 3, 50]) {
      const raw = await greeted();
      const request = { operation: OPERATION.Produce.operation, version: 1, correlationId: 1 };
      const frame = joined(encodeRequestFrame(request, produceBody(topicId, batchOf(['never']))));
      raw.send(frame.subarray(0, frame.length - left));
      raw.end();
      await raw.closed();
    }
  });

  test('a hundred connections that promise the largest frame and send a part of it: no more than they sent is held', async () => {
    const crowd = await Promise.all(Array.from({ length: 100 }, greeted));
    for (const raw of crowd) raw.send(header(FRAME_BYTES_MAX, OPERATION.Produce.operation));
    for (const raw of crowd) raw.send(new Uint8Array(8 * MIB));
    await stillServes();
    for (const raw of crowd) raw.end();
  });

  test('random bytes behind a good Hello, 200 times', async () => {
    let state = 42;
    for (let round = 0; round < 200; round += 1) {
      const raw = await greeted();
      const garbage = Uint8Array.from({ length: 1 + (round % 60) * 7 }, () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state >>> 24;
      });
      raw.send(garbage);
      raw.end();
    }
  });

  test('of an unknown operation or version, or before Hello: refused with what is spoken, and the connection goes on', async () => {
    client.send(joined(encodeRequestFrame({ operation: 999, version: 1, correlationId: 7777 }, [])));
    const { failure } = await client.answer(7777);
    expect(failure?.code).toBe('UNSUPPORTED_OPERATION');
    expect(parseSpoken(failure?.facts ?? {}).map(({ operation }) => operation)).toContain(OPERATION.Fetch.operation);
    expect((await client.refused('Fetch', [], 200)).code).toBe('UNSUPPORTED_VERSION');
    const silent = await RawClient.tcp(port);
    expect((await silent.refused('Metadata', [])).code).toBe('HELLO_REQUIRED');
    await silent.hello();
    silent.end();
  });
});

describe('batches', () => {
  test.each(BAD_BATCHES)('%s: refused whole, with the reason', async (_what, batch, code, message) => {
    const failure = await client.refused('Produce', produceBody(topicId, batch));
    expect(failure.code).toBe(code);
    expect(failure.message).toMatch(message);
  });

  const bombs: readonly (readonly ['gzip' | 'zstd' | 'lz4' | 'snappy', () => Uint8Array])[] = [
    ['gzip', () => gzipSync(new Uint8Array(256 * MIB))],
    ['zstd', () => zstdCompressSync(new Uint8Array(256 * MIB))],
    ['lz4', () => Buffer.concat(Array.from({ length: 256 }, () => compression.compress('lz4', new Uint8Array(MIB))))],
    ['snappy', () => compression.compress('snappy', new Uint8Array(100 * MIB))],
  ];
  test.each(bombs)('a bomb of %s: refused within the bound of memory', async (codec, make) => {
    const bomb = make();
    expect(bomb.length).toBeLessThan(6 * MIB);
    const failure = await client.refused(
      'Produce',
      produceBody(topicId, batchOf(['x'], { codec, compress: () => bomb })),
    );
    expect(failure.code).toBe('INVALID_BATCH');
    expect(failure.message).toMatch(codec);
  });
});

describe('names', () => {
  test.each(BAD_TOPIC_NAMES)('%j: INVALID_TOPIC_NAME', async (name) => {
    const settings = {
      partitions: 1,
      replicas: 0,
      config: [],
      validateOnly: false,
      ifNotExists: true,
      timeoutMs: 1000,
    };
    const body = createTopicV1.encodeRequest({ name, ...settings });
    expect((await client.refused('CreateTopic', body)).code).toBe('INVALID_TOPIC_NAME');
  });
});

describe('clients that keep something', () => {
  test('one that connects and says nothing: told, and closed', async () => {
    const raw = await RawClient.tcp(port);
    expect((await raw.answer(0)).failure?.code).toBe('HELLO_REQUIRED');
    await raw.closed();
  });

  test('2,000 connections: all are served, and all places come free again', async () => {
    const before = await metric('rivulet_connections');
    const crowd: RawClient[] = [];
    for (let index = 0; index < CROWD; index += 100) {
      crowd.push(...(await Promise.all(Array.from({ length: 100 }, greeted))));
    }
    expect(await metric('rivulet_connections')).toBe(before + CROWD);
    await stillServes();
    await Promise.all(crowd.map((raw) => raw.metadata(['readings'])));
    for (const raw of crowd) raw.end();
    for (let waits = 0; waits < 100 && (await metric('rivulet_connections')) > before; waits += 1) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(await metric('rivulet_connections')).toBeLessThanOrEqual(before);
  });

  test('one that sends and never reads: held to its bound, and ended when nothing has drained for half a minute', async () => {
    for (let waits = 0; waits < 100 && !broker.stderr().includes('connection.stalled'); waits += 1) {
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    expect(broker.stderr()).toContain('connection.stalled');
    greedy.end();
  });

  test('at no moment did the process hold more than 400 MiB, and it has said nothing of a bug', () => {
    expect(memory('VmHWM')).toBeLessThan(RSS_MAX);
    expect(broker.stderr()).not.toMatch(/"level":"(error|fatal)"/);
  });
});
