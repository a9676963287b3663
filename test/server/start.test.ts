import { createServer, type AddressInfo, type Server } from 'node:net';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FATAL, FatalError } from '../../src/base/fatal.ts';
import { openTelemetry } from '../../src/platform/telemetry.ts';
import { ConfigError, startBroker, type Broker, type StartOptions } from '../../src/server/index.ts';
import { batchOf, RawClient } from '../broker/raw-client.ts';

let folder: string;
const running: Broker[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rivulet-server-'));
});
afterEach(async () => {
  for (const broker of running.splice(0)) await broker.close();
  rmSync(folder, { recursive: true, force: true });
});

async function start(options: StartOptions = {}): Promise<Broker> {
  const telemetry = openTelemetry({ output: new PassThrough().resume() });
  const loopback = { host: '127.0.0.1', port: 0 };
  const broker = await startBroker({
    dataDir: join(folder, 'data'),
    listen: loopback,
    adminListen: loopback,
    segmentBytes: 1024 * 1024,
    minFreeBytes: 0,
    telemetry,
    ...options,
  });
  running.push(broker);
  return broker;
}
async function failure(options: StartOptions = {}): Promise<FatalError> {
  try {
    await start(options);
  } catch (error) {
    if (error instanceof FatalError) return error;
    throw error;
  }
  throw new Error('it started');
}
function read(broker: Broker, path: string): Promise<Response> {
  return fetch(`http://127.0.0.1:${String(broker.admin?.port)}${path}`);
}

test('startBroker: ready means that a client can produce at once; /metrics, /healthz and /readyz say what goes on', async () => {
  const broker = await start();
  const client = await RawClient.tcp(broker.listen.port);
  await client.hello();
  const topicId = await client.createTopic('readings');
  await client.produce(topicId, batchOf(['a']));
  expect([(await read(broker, '/healthz')).status, (await read(broker, '/readyz')).status]).toEqual([200, 200]);
  const metrics = await (await read(broker, '/metrics')).text();
  expect(metrics).toMatch(/rivulet_requests_total\{operation="Produce"\} 1/);
  expect(metrics).toMatch(/rivulet_produce_latency_seconds_count 1/);
  expect(metrics).toMatch(/rivulet_connections 1/);
  client.end();
});

test('startBroker: what clients are told to connect to follows the address that was taken', async () => {
  const first = await start();
  expect(first.advertised).toEqual(first.listen);
  await first.close();
  const second = await start({ advertise: { host: 'edge.example', port: 4000 } });
  const client = await RawClient.tcp(second.listen.port);
  await client.hello();
  expect((await client.metadata([])).nodes).toEqual([{ nodeId: 1, host: 'edge.example', port: 4000 }]);
  client.end();
});

test('startBroker as one of several: refused before anything is touched; named alone it starts', async () => {
  const alone = { nodeId: 1, host: '127.0.0.1', port: 9400 };
  const peers = [alone, { nodeId: 2, host: '127.0.0.1', port: 9401 }];
  await expect(start({ peers })).rejects.toThrow(/--peers names 2 nodes/);
  await expect(start({ peers })).rejects.toBeInstanceOf(ConfigError);
  expect(existsSync(join(folder, 'data'))).toBe(false);
  expect((await start({ peers: [alone] })).nodeId).toBe(1);
});

test('startBroker on a data directory in use: DATA_DIR_LOCKED, and the other goes on', async () => {
  const broker = await start();
  const error = await failure();
  expect([error.reason, FATAL[error.reason].status]).toEqual(['DATA_DIR_LOCKED', 73]);
  expect((await read(broker, '/readyz')).status).toBe(200);
});

test('startBroker on an address in use: LISTEN_FAILED, and the directory is free again and clean', async () => {
  const squatter: Server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => squatter.once('listening', resolve));
  const { port } = squatter.address() as AddressInfo;
  expect((await failure({ listen: { host: '127.0.0.1', port } })).reason).toBe('LISTEN_FAILED');
  const other = await failure({ adminListen: { host: '127.0.0.1', port } });
  expect([other.reason, other.message]).toEqual(['LISTEN_FAILED', expect.stringContaining('--admin-listen')]);
  squatter.close();
  expect((await start()).clean).toBe(true);
});

test('startBroker on a directory of a newer format: FORMAT_TOO_NEW, and nothing is changed', async () => {
  await (await start()).close();
  const file = join(folder, 'data', 'store.json');
  const newer = JSON.stringify({ ...(JSON.parse(readFileSync(file, 'utf8')) as object), formatVersion: 999 });
  writeFileSync(file, newer);
  expect((await failure()).reason).toBe('FORMAT_TOO_NEW');
  expect(readFileSync(file, 'utf8')).toBe(newer);
});

test('startBroker as another node: DATA_DIR_UNUSABLE', async () => {
  await (await start()).close();
  expect((await failure({ nodeId: 2 })).reason).toBe('DATA_DIR_UNUSABLE');
});

test('startBroker where a file is in the way of the directory: DATA_DIR_UNUSABLE', async () => {
  writeFileSync(join(folder, 'file'), '');
  expect((await failure({ dataDir: join(folder, 'file', 'data') })).reason).toBe('DATA_DIR_UNUSABLE');
});

test('startBroker with settings that cannot be: refused before the directory is touched', async () => {
  await expect(start({ dataDir: join(folder, 'never'), segmentBytes: 1 })).rejects.toMatchObject({
    name: 'ConfigError',
    setting: 'segment-bytes',
  });
  await expect(start({ dataDir: join(folder, 'never'), fault: 'nonsense' })).rejects.toMatchObject({
    name: 'ConfigError',
    setting: 'fault',
  });
  await expect(
    start({ dataDir: join(folder, 'never'), tlsCert: '/nowhere/a.pem', tlsKey: '/nowhere/b.pem' }),
  ).rejects.toMatchObject({ setting: 'tls-cert' });
  expect(() => readFileSync(join(folder, 'never'))).toThrow(/ENOENT/);
});

test('startBroker with auto-create-topics: a producer that asks for a missing topic gets it, a consumer does not', async () => {
  const broker = await start({ autoCreateTopics: true, defaultPartitions: 3 });
  const client = await RawClient.tcp(broker.listen.port);
  await client.hello();
  expect((await client.metadata(['fresh'], false)).topics[0]?.failure?.code).toBe('UNKNOWN_TOPIC');
  const { topics } = await client.metadata(['fresh', 'b/ad'], true);
  expect([topics[0]?.partitions.length, topics[1]?.failure?.code]).toEqual([3, 'INVALID_TOPIC_NAME']);
  client.end();
});

test('Broker.close: twice is once, and the next start finds a clean store', async () => {
  const broker = await start();
  await Promise.all([broker.close(), broker.close()]);
  expect((await start()).clean).toBe(true);
});
