// Start-up time and memory of the built executable: start to ready on an empty store, and with 200 clean segments; memory when
// idle, and while data is produced and consumed. Prints medians and spreads; judges nothing.
// Usage: node bench/footprint.ts [--gigabytes 2] [--starts 7]
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect } from '../src/client/index.ts';

const executable = fileURLToPath(new URL('../dist/rivulet', import.meta.url));
const argument = (name: string, fallback: number): number => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : Number(process.argv[at + 1]);
};
const gigabytes = argument('gigabytes', 2);
const starts = argument('starts', 7);

interface Started {
  readonly child: ChildProcess;
  readonly server: string;
  readonly readyMs: number;
}

async function start(dataDir: string, ...flags: string[]): Promise<Started> {
  const began = performance.now();
  const child = spawn(
    executable,
    ['serve', '--data-dir', dataDir, '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--json', ...flags],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  return await new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error('not ready within 30 s'));
    }, 30_000);
    child.stdout.once('data', (chunk: Buffer) => {
      clearTimeout(timer);
      const { listen } = JSON.parse(chunk.toString()) as { listen: string };
      resolve({ child, server: listen, readyMs: performance.now() - began });
    });
  });
}

async function stop({ child }: Started): Promise<void> {
  const ended = new Promise((resolve) => child.once('close', resolve));
  child.kill('SIGTERM');
  await ended;
}

function rss(child: ChildProcess, field: 'VmRSS' | 'VmHWM' | 'RssAnon'): number {
  const status = readFileSync(`/proc/${String(child.pid)}/status`, 'utf8');
  return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1024;
}

function spread(values: readonly number[], unit: string): string {
  const sorted = values.toSorted((left, right) => left - right);
  const show = (value: number | undefined): string => (value ?? 0).toFixed(0);
  return `${show(sorted[Math.floor(sorted.length / 2)])} ${unit} (${show(sorted[0])} to ${show(sorted.at(-1))})`;
}

async function readyTimes(dataDir: () => string, ...flags: string[]): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < starts; round += 1) {
    const broker = await start(dataDir(), ...flags);
    times.push(broker.readyMs);
    await stop(broker);
  }
  return times;
}

const root = mkdtempSync(join(tmpdir(), 'rivulet-footprint-'));
try {
  let count = 0;
  console.log(
    `start to ready, empty store: ${spread(await readyTimes(() => join(root, `empty-${String((count += 1))}`)), 'ms')}`,
  );

  const many = join(root, 'many');
  const filler = await start(many, '--segment-bytes', '65536', '--fsync', 'never');
  const client = await connect({ servers: [filler.server] });
  await client.admin.createTopic({ name: 'segments' });
  const small = client.producer({ batchBytes: 60_000, lingerMs: 5 });
  for (let record = 0; record < 210 * 64; record += 1)
    while (!small.enqueue('segments', { value: new Uint8Array(1000) })) await small.ready();
  await small.flush();
  await client.close();
  await stop(filler);
  console.log(
    `start to ready, 200 clean segments: ${spread(await readyTimes(() => many, '--segment-bytes', '65536'), 'ms')}`,
  );

  const broker = await start(join(root, 'load'), '--fsync', 'never');
  await new Promise((resolve) => setTimeout(resolve, 3000));
  console.log(
    `idle: ${rss(broker.child, 'VmRSS').toFixed(0)} MB resident, ${rss(broker.child, 'RssAnon').toFixed(0)} MB of it anonymous`,
  );
  const loader = await connect({ servers: [broker.server] });
  await loader.admin.createTopic({ name: 'load' });
  const producer = loader.producer({ batchBytes: 256 * 1024 });
  const value = new Uint8Array(1000).fill(0x61);
  let peak = 0;
  let peakAnonymous = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, rss(broker.child, 'VmRSS'));
    peakAnonymous = Math.max(peakAnonymous, rss(broker.child, 'RssAnon'));
  }, 50);
  const records = Math.floor((gigabytes * 1e9) / value.length);
  for (let record = 0; record < records; record += 1)
    while (!producer.enqueue('load', { value })) await producer.ready();
  await producer.flush();
  let read = 0;
  for await (const batch of loader.consumer({ topics: ['load'], until: 'high-watermark-at-start' }).batches())
    read += batch.length;
  clearInterval(watch);
  console.log(
    `${String(gigabytes)} GB produced and consumed (${String(read)} of ${String(records)} records): peak ${peak.toFixed(0)} MB resident, ${peakAnonymous.toFixed(0)} MB anonymous`,
  );
  await loader.close();
  await stop(broker);
} finally {
  rmSync(root, { recursive: true, force: true });
}
