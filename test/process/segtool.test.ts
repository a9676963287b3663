// The files of a real broker, damaged, repaired by the executable, interrupted, and served again.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, cpSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  done,
  EXECUTABLE,
  rivulet,
  realLogs,
  startBroker,
  temporaryFolder,
  type Finished,
  type RunningBroker,
} from './harness.ts';

const folder = temporaryFolder();
const whole = join(folder.path, 'whole');
const bad = join(folder.path, 'bad');
let broker: RunningBroker | undefined;
/** Directory of the topic, within a data directory. */
let topic = '';
const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
const INPUTS = realLogs().map(({ bytes }) => bytes);
/** All values of partition 0, in the order of their offsets. */
const LINES: readonly string[] = CODECS.flatMap(() =>
  INPUTS.flatMap((input) => input.toString('latin1').replace(/\n$/, '').split('\n')),
);

beforeAll(async () => {
  broker = await startBroker(whole);
  await done(['topic', 'create', 't', '--partitions', '2', '--segment-bytes', '262144', '--server', broker.server]);
  for (const codec of CODECS)
    for (const [index, input] of INPUTS.entries()) {
      const flags = ['--compression', codec, '--batch-bytes', '65536', '--no-progress', '--server', broker.server];
      await done(['produce', 't', '--partition', '0', '-H', `event-id=${codec}-${String(index)}`, ...flags], { input });
    }
  await done(['produce', 't', '--partition', '1', '--no-progress', '--server', broker.server], {
    input: INPUTS[2] ?? Buffer.of(),
  });
  const live = await tool('verify', whole);
  expect([live.status, live.stderr]).toEqual([0, expect.stringContaining('A broker is running')]);
  expect(live.stdout.toString()).toContain('TAIL_MAY_MOVE');
  for (const refused of [
    ['repair', whole, '--write'],
    ['undo', whole, '--write'],
  ])
    expect((await tool(...refused)).status).toBe(73);
  await broker.stop();
  topic = join('topics', readdirSync(join(whole, 'topics'))[0] ?? '');
  copy(whole, bad);
  const segments = readdirSync(join(bad, topic, '0')).filter((name) => name.endsWith('.log'));
  expect(segments.length).toBeGreaterThan(1);
  overwrite(join(bad, topic, '0', segments[0] ?? ''), 100_000);
  overwrite(join(bad, topic, '0', segments[1] ?? ''), 20_000);
  rmSync(join(bad, topic, '0', '00000000000000000000.index'));
  overwrite(join(bad, topic, '1', '00000000000000000000.log'), 60_000);
}, 60_000);
afterEach(() => {
  broker?.destroy();
});
afterAll(() => {
  folder.remove();
});

async function tool(...args: readonly string[]): Promise<Finished> {
  return await rivulet(['segtool', ...args, '--no-progress']);
}

function copy(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  cpSync(from, to, { recursive: true });
}

function overwrite(path: string, at: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(64, 0xa5), 0, 64, at);
  closeSync(file);
}

/** Every file with its content; of what lies in quarantine the content only, because repairs are numbered and dated. */
function treeOf(root: string): { readonly files: readonly string[]; readonly quarantine: readonly string[] } {
  const [files, quarantine]: [string[], string[]] = [[], []];
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name).slice(root.length + 1);
    if (!entry.isFile() || path === 'lock' || entry.name === 'journal.json') continue;
    const content = createHash('sha256')
      .update(readFileSync(join(root, path)))
      .digest('hex');
    if (path.startsWith('quarantine')) quarantine.push(content);
    else files.push(`${path} ${content}`);
  }
  return { files: files.toSorted(), quarantine: quarantine.toSorted() };
}

interface Loss {
  readonly from: number;
  readonly to: number;
}

/** What verify says would stay lost, of one partition. */
async function losses(data: string, log: string): Promise<readonly Loss[]> {
  const { stdout } = await tool('verify', data, '--json');
  const report = JSON.parse(stdout.toString()) as { lostAfterRepair: readonly (Loss & { log: string })[] };
  return report.lostAfterRepair.filter((each) => each.log === log).map(({ from, to }) => ({ from, to }));
}

test('damage is found, repaired, and every other record is served at its offset', async () => {
  const data = join(folder.path, 'served');
  copy(bad, data);
  const damaged = await tool('verify', data);
  expect(damaged.status).toBe(1);
  expect(damaged.stdout.toString()).toContain('BATCH_DAMAGED');
  const lost = await losses(data, 't/0');
  expect(lost.length).toBe(2);
  const before = treeOf(data);
  const dry = await tool('repair', data);
  expect(dry.status).toBe(0);
  expect(treeOf(data)).toEqual(before);
  expect((await tool('repair', data, '--write')).status).toBe(0);
  const after = await tool('verify', data);
  expect(after.status).toBe(0);
  expect(after.stdout.toString()).toContain('KNOWN_LOSS');
  expect(await losses(data, 't/0')).toEqual(lost);

  broker = await startBroker(data);
  const flags = ['--server', broker.server, '--partition', '0', '--from', 'earliest', '--format', '%o %s\\n'];
  const stopped = await rivulet(['consume', 't', ...flags]);
  expect(stopped.status).toBe(1);
  expect(stopped.stderr).toContain('DAMAGED_RANGE');
  const rest = await rivulet(['consume', 't', ...flags, '--skip-damaged']);
  expect(rest.status).toBe(0);
  const wanted = LINES.map((line, at) => ({ line, at }))
    .filter(({ at }) => !lost.some(({ from, to }) => from <= at && at < to))
    .map(({ line, at }) => `${String(at)} ${line}\n`)
    .join('');
  expect(rest.stdout.equals(Buffer.from(wanted, 'latin1'))).toBe(true);
  expect(stopped.stdout.equals(rest.stdout.subarray(0, stopped.stdout.length))).toBe(true);
  await broker.stop();
}, 60_000);

test('another copy gives every record back; undo puts back every byte', async () => {
  const data = join(folder.path, 'from');
  copy(bad, data);
  expect((await tool('repair', data, '--from', join(folder.path, 'nowhere'), '--write')).status).toBe(3);
  // One partition is no copy of the other.
  const wrong = await tool('repair', join(data, topic, '1'), '--from', join(whole, topic, '0'), '--write');
  expect([wrong.status, wrong.stderr]).toEqual([1, expect.stringContaining('is another log')]);
  expect(treeOf(data)).toEqual(treeOf(bad));
  const given = await tool('repair', data, '--from', whole, '--write');
  expect(given.status).toBe(0);
  expect(given.stdout.toString()).toContain('restored from the other copy');
  expect((await tool('verify', data)).stdout.toString()).toMatch(/^clean/);
  expect((await tool('diff', data, whole)).status).toBe(0);
  expect((await tool('diff', bad, whole)).status).toBe(1);

  expect((await tool('undo', data)).status).toBe(2);
  expect((await tool('undo', data, '--write')).status).toBe(0);
  expect(treeOf(data).files).toEqual(treeOf(bad).files);
  expect((await tool('undo', data, '--write')).status).toBe(1);
}, 60_000);

test('a record is found by offset, time and event id; what is exported is imported again', async () => {
  const log = join(whole, topic, '0');
  const at = 12_345;
  const byOffset = await tool('find', log, '--offset', String(at), '--json');
  const found = JSON.parse(byOffset.stdout.toString()) as { offset: number; value: string; timestamp: number };
  expect([byOffset.status, found.offset, found.value]).toEqual([
    0,
    at,
    Buffer.from(LINES[at] ?? '', 'latin1').toString(),
  ]);
  const byTime = await tool('find', log, '--timestamp', new Date(found.timestamp).toISOString(), '--json');
  const first = JSON.parse(byTime.stdout.toString()) as { offset: number; timestamp: number };
  expect(first.offset).toBeLessThanOrEqual(at);
  expect(first.timestamp).toBe(found.timestamp);
  const byId = await tool('find', log, '--event-id', 'lz4-1', '--json');
  const lines = byId.stdout.toString().trimEnd().split('\n');
  expect(lines.length).toBe(2000);
  expect((JSON.parse(lines[0] ?? '') as { offset: number }).offset).toBe(20_000);
  expect((await tool('find', log, '--event-id', 'none-of-them')).status).toBe(1);
  expect((await tool('find', log, '--offset', '1', '--event-id', 'both')).status).toBe(2);
  expect((await tool('find', join(folder.path, 'nowhere'), '--offset', '1')).status).toBe(3);

  const exported = await tool('export', log);
  const imported = join(folder.path, 'imported');
  const input = { input: exported.stdout };
  const args = ['segtool', 'import', imported, '--write', '--compression', 'zstd'];
  expect((await rivulet(args, { input: Buffer.from('{"timestamp":1}\nno record\n') })).status).toBe(1);
  expect((await rivulet(args, input)).status).toBe(0);
  expect((await rivulet(args, input)).status).toBe(1);
  expect((await tool('verify', imported)).status).toBe(0);
  expect((await tool('export', imported)).stdout.equals(exported.stdout)).toBe(true);
  const raw = await tool('export', imported, '--raw');
  expect(raw.stdout.equals(Buffer.from(`${LINES.join('\n')}\n`, 'latin1'))).toBe(true);
}, 60_000);

describe('repair --write, killed', () => {
  const straceWorks = spawnSync('strace', ['-o', '/dev/null', 'true'], { timeout: 10_000 }).status === 0;
  const CALLS = ['rename', 'fsync', 'fdatasync'];
  const POINTS = 3;
  const data = join(folder.path, 'killed');
  let wanted: ReturnType<typeof treeOf>;
  const counts = new Map<string, number>();

  beforeAll(async () => {
    copy(bad, data);
    if (straceWorks) {
      const record = join(folder.path, 'strace.txt');
      traced(['-o', record, '-e', `trace=${CALLS.join(',')}`]);
      const text = readFileSync(record, 'utf8');
      for (const call of CALLS) counts.set(call, text.split(` ${call}(`).length - 1);
    } else await done(['segtool', 'repair', data, '--write', '--no-progress']);
    wanted = treeOf(data);
  });

  /** One thread does all, so that its calls are counted. */
  function traced(how: readonly string[]): NodeJS.Signals | number | null {
    const args = ['-f', ...how, EXECUTABLE, 'segtool', 'repair', data, '--write', '--no-progress'];
    const run = spawnSync('strace', args, {
      env: { ...process.env, UV_THREADPOOL_SIZE: '1', UV_USE_IO_URING: '0' },
      timeout: 20_000,
      stdio: 'ignore',
    });
    return run.signal ?? run.status;
  }

  async function again(): Promise<void> {
    expect((await tool('repair', data, '--write')).status).toBe(0);
    expect(treeOf(data)).toEqual(wanted);
  }

  test.skipIf(!straceWorks)(
    'at calls that make it durable, from the first to the last: run again it ends at the same files',
    async () => {
      let between = 0;
      for (const call of CALLS) {
        const count = counts.get(call) ?? 0;
        expect(count).toBeGreaterThan(POINTS);
        for (let point = 0; point < POINTS; point += 1) {
          copy(bad, data);
          const at = 1 + Math.round((point / (POINTS - 1)) * (count - 1));
          const end = traced([
            '-o',
            '/dev/null',
            '-e',
            `trace=${call}`,
            '-e',
            `inject=${call}:signal=SIGKILL:when=${String(at)}`,
          ]);
          expect(['SIGKILL', 137]).toContain(end);
          if (JSON.stringify(treeOf(data)) !== JSON.stringify(wanted)) between += 1;
          await again();
        }
      }
      // They did interrupt it.
      expect(between).toBeGreaterThan(CALLS.length);
    },
    60_000,
  );

  test('after some time: run again it ends at the same files', async () => {
    for (const afterMs of [40, 150, 220]) {
      copy(bad, data);
      const child = spawn(EXECUTABLE, ['segtool', 'repair', data, '--write', '--no-progress'], { stdio: 'ignore' });
      const ended = new Promise((resolve) => child.once('close', resolve));
      await sleep(afterMs);
      child.kill('SIGKILL');
      await ended;
      await again();
    }
  }, 60_000);
});
