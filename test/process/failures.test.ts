// What an unlucky node meets, in the real executable: each gets a clear end or a clear error, and costs nothing else.
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { connect, isRivuletError } from '../../src/client/index.ts';
import { done, EXECUTABLE, rivulet, startBroker, temporaryFolder } from './harness.ts';
import { expectAll, mayMount, produceUntilDown } from './until-down.ts';

const folder = temporaryFolder();
afterAll(() => {
  folder.remove();
});
let count = 0;
function dataDir(): string {
  count += 1;
  return join(folder.path, `data-${String(count)}`);
}

async function serveOnce(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<{ status: number | null; stderr: string }> {
  const { status, stderr } = await rivulet(
    ['serve', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', ...args],
    { timeoutMs: 20_000, env },
  );
  return { status, stderr };
}

describe('a data directory that cannot be used', () => {
  test('one in use: status 73, and the holder goes on', async () => {
    const path = dataDir();
    const broker = await startBroker(path);
    const second = await serveOnce(['--data-dir', path]);
    expect(second.status).toBe(73);
    expect(second.stderr).toMatch(/DATA_DIR_LOCKED/);
    expect(second.stderr).toContain(String(broker.pid));
    await done(['topic', 'create', 'still-served', '--server', broker.server]);
    await broker.stop();
  });

  test('one of a newer format: status 75, and nothing is changed', async () => {
    const path = dataDir();
    const broker = await startBroker(path);
    await broker.stop();
    const file = join(path, 'store.json');
    const newer = readFileSync(file, 'utf8').replace(/"formatVersion":\s*1/, '"formatVersion":999');
    expect(newer).toContain('999');
    writeFileSync(file, newer);
    const { status, stderr } = await serveOnce(['--data-dir', path]);
    expect(status).toBe(75);
    expect(stderr).toMatch(/FORMAT_TOO_NEW/);
    expect(readFileSync(file, 'utf8')).toBe(newer);
  });

  test('a file where the directory should be: status 74', async () => {
    const path = dataDir();
    writeFileSync(path, 'not a folder');
    const { status, stderr } = await serveOnce(['--data-dir', path]);
    expect(status).toBe(74);
    expect(stderr).toMatch(/DATA_DIR_UNUSABLE/);
  });

  test('a read-only file system: status 74, said in one line', async (context) => {
    if (!mayMount()) context.skip('needs the right to mount');
    const path = dataDir();
    mkdirSync(path);
    const script = `mount -t tmpfs -o ro,size=64m tmpfs '${path}' && exec '${EXECUTABLE}' serve --data-dir '${path}/data' --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0`;
    const { status, stderr } = spawnSync('unshare', ['-m', 'sh', '-c', script], { encoding: 'utf8', timeout: 20_000 });
    expect(stderr).toMatch(/DATA_DIR_UNUSABLE/);
    expect(status).toBe(74);
  });

  test('an address in use: status 76, and the data directory is free again', async () => {
    const broker = await startBroker(dataDir());
    const path = dataDir();
    const { status, stderr } = await rivulet(
      ['serve', '--data-dir', path, '--listen', broker.server, '--admin-listen', '127.0.0.1:0'],
      { timeoutMs: 20_000 },
    );
    expect(status).toBe(76);
    expect(stderr).toMatch(/LISTEN_FAILED/);
    await broker.stop();
    const after = await startBroker(path);
    await after.stop();
  });
});

describe('a disk that fails', () => {
  for (const fault of ['sync:topics/*.log:nth=20:EIO', 'write:topics/*.log:nth=20:EIO']) {
    test(`${fault}: no answer after it, the process aborts with one line, the next start tells truth`, async () => {
      const path = dataDir();
      const prepared = await startBroker(path);
      await done(['topic', 'create', 'f', '--server', prepared.server]);
      await prepared.stop();
      const broker = await startBroker(path, { env: { RIVULET_FAULT: fault } });
      const acknowledged = await produceUntilDown(broker, 'f');
      const end = await broker.ended;
      expect(end).toEqual({ status: null, signal: 'SIGABRT' });
      expect(acknowledged.size).toBeGreaterThan(0);
      expect(acknowledged.size).toBeLessThan(20);
      const lines = broker
        .stderr()
        .split('\n')
        .filter((line) => line.includes('STORAGE_FAILED'));
      expect(lines, broker.stderr()).toHaveLength(1);
      expect(JSON.parse(lines[0] ?? '{}')).toMatchObject({ event: 'fatal', reason: 'STORAGE_FAILED' });
      const again = await startBroker(path);
      await expectAll(again.server, 'f', acknowledged);
      await again.stop();
    });
  }

  test('a sync that hangs for a second holds up its own partition only, and nothing is lost', async () => {
    const path = dataDir();
    const prepared = await startBroker(path);
    await done(['topic', 'create', 'slow', '--server', prepared.server]);
    await prepared.stop();
    const broker = await startBroker(path, { env: { RIVULET_FAULT: 'sync:topics/*.log:nth=3:delay=1000' } });
    const acknowledged = await produceUntilDown(broker, 'slow', 10);
    expect(acknowledged.size).toBe(10);
    await expectAll(broker.server, 'slow', acknowledged);
    await broker.stop();
  });

  test('want of room in mid-append: an explicit error, reads go on, and writing goes on by itself when there is room', async () => {
    const path = dataDir();
    const prepared = await startBroker(path);
    await done(['topic', 'create', 'full', '--server', prepared.server]);
    await prepared.stop();
    const broker = await startBroker(path, {
      env: { RIVULET_FAULT: 'write:topics/*.log:nth=5:short=30:count=5:ENOSPC' },
    });
    const client = await connect({ servers: [broker.server] });
    const producer = client.producer({ idempotent: false, deliveryTimeoutMs: 60 });
    const outcomes: string[] = [];
    const kept: string[] = [];
    const open = new Set<string>();
    for (
      let record = 0;
      record < 200 && !(outcomes.includes('STORAGE_FULL') && outcomes.at(-1) === 'ok');
      record += 1
    ) {
      const value = `record ${String(record)}`;
      try {
        await producer.send('full', { value });
        outcomes.push('ok');
        kept.push(value);
      } catch (error) {
        outcomes.push(isRivuletError(error) ? error.code : String(error));
        // An answer that is late on a busy machine says nothing about the record.
        if (!isRivuletError(error) || error.outcome === 'unknown') open.add(value);
      }
    }
    await client.close();
    const consumed = async (server: string): Promise<readonly string[]> =>
      (await done(['consume', 'full', '--server', server])).toString().trim().split('\n');
    expect(outcomes.filter((outcome) => outcome === 'STORAGE_FULL').length).toBeGreaterThan(0);
    expect(outcomes.at(-1)).toBe('ok');
    const found = await consumed(broker.server);
    expect(found.filter((value) => !open.has(value))).toEqual(kept);
    await broker.stop();
    const again = await startBroker(path);
    expect(await consumed(again.server)).toEqual(found);
    await again.stop();
  });

  test('a small file system that fills up: DISK_PRESSURE or STORAGE_FULL, reads go on, and it recovers when there is room', async (context) => {
    if (!mayMount()) context.skip('needs the right to mount');
    const path = dataDir();
    mkdirSync(path);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=48m', 'tmpfs', path]);
    try {
      const broker = await startBroker(join(path, 'data'), {
        args: ['--min-free-bytes', '0', '--segment-bytes', '1MiB'],
      });
      await done(['topic', 'create', 'small', '--server', broker.server]);
      const ballast = join(path, 'ballast');
      writeFileSync(ballast, Buffer.alloc(30 * 1024 * 1024));
      const client = await connect({ servers: [broker.server] });
      const producer = client.producer({ deliveryTimeoutMs: 300, batchBytes: 60_000 });
      const value = 'x'.repeat(50_000);
      let acknowledged = 0;
      let refused = '';
      for (let record = 0; record < 1000 && refused === ''; record += 1) {
        try {
          await producer.send('small', { value });
          acknowledged += 1;
        } catch (error) {
          refused = isRivuletError(error) ? error.code : String(error);
        }
      }
      expect(['STORAGE_FULL', 'DISK_PRESSURE', 'REQUEST_TIMEOUT', 'ABORTED']).toContain(refused);
      expect(acknowledged).toBeGreaterThan(0);
      const read = await done(['consume', 'small', '--server', broker.server, '--format', '%o\\n']);
      expect(read.toString().trim().split('\n').length).toBeGreaterThanOrEqual(acknowledged);
      rmSync(ballast);
      const recovered = client.producer({ deliveryTimeoutMs: 30_000 });
      const { offset } = await recovered.send('small', { value: 'after' });
      expect(offset).toBeGreaterThanOrEqual(acknowledged);
      await client.close();
      await broker.stop();
    } finally {
      execFileSync('umount', ['-l', path]);
    }
  }, 120_000);
});

/** The image is opened behind the start: a broker that stops at once has never made it. */
async function imageMade(meta: string): Promise<void> {
  for (let round = 0; round < 500 && !existsSync(join(meta, 'image.mdb')); round += 1)
    await new Promise((resolve) => setTimeout(resolve, 20));
  expect(existsSync(join(meta, 'image.mdb'))).toBe(true);
}

describe('the metadata image', () => {
  test('deleting or damaging the whole folder costs nothing but its rebuilding', async () => {
    const path = dataDir();
    const broker = await startBroker(path);
    await done([
      'topic',
      'create',
      'kept',
      '--partitions',
      '3',
      '--retention-ms',
      '123456789',
      '--server',
      broker.server,
    ]);
    await done(['produce', 'kept', '--partition', '1', '--server', broker.server], {
      input: Buffer.from('one\ntwo\n'),
    });
    const before = (await done(['topic', 'describe', 'kept', '--json', '--server', broker.server])).toString();
    const meta = join(path, 'meta');
    await imageMade(meta);
    await broker.stop();
    const damages: readonly (() => void)[] = [
      () => {
        rmSync(meta, { recursive: true });
      },
      () => {
        for (const name of readdirSync(meta)) writeFileSync(join(meta, name), Buffer.alloc(10_000, 0x5a));
      },
      () => {
        for (const name of readdirSync(meta)) writeFileSync(join(meta, name), '');
      },
    ];
    for (const damage of damages) {
      damage();
      const again = await startBroker(path);
      expect((await done(['topic', 'describe', 'kept', '--json', '--server', again.server])).toString()).toBe(before);
      expect((await done(['consume', 'kept', '--server', again.server])).toString()).toBe('one\ntwo\n');
      await imageMade(meta);
      await again.stop();
    }
  });
});

/** The checkout may lie in /tmp itself, which is hidden next. Seen by the one process only. */
const OUT_OF_TMP = `mount --bind '${dirname(EXECUTABLE)}' /mnt`;

describe('the executable', () => {
  test('has every native part in use: the metadata image is open, and nothing is said on standard error', async () => {
    const broker = await startBroker(dataDir());
    const ready = (await (await fetch(`http://${broker.admin}/readyz`)).json()) as { metadataStore?: boolean };
    expect(ready.metadataStore).toBe(true);
    await broker.stop();
    expect(broker.stderr()).not.toMatch(/"level":"(warn|error|fatal)"/);
  });
});

describe('where the native parts go', () => {
  const run = (env: Record<string, string>): ReturnType<typeof spawnSync> =>
    spawnSync(EXECUTABLE, ['serve', '--data-dir', '/nonexistent/rivulet', '--listen', '127.0.0.1:0'], {
      env: { PATH: '/nonexistent', ...env },
      encoding: 'utf8',
      timeout: 20_000,
    });

  test('a folder that others may write to is refused, and the error names the flag and the variable', () => {
    const open = join(folder.path, 'open');
    mkdirSync(open, { mode: 0o777 });
    chmodSync(open, 0o777);
    const { status, stderr } = run({ RIVULET_NATIVE_DIR: open });
    expect(status).toBe(1);
    expect(stderr).toMatch(/others may write to it[\s\S]*RIVULET_NATIVE_DIR[\s\S]*--native-dir/);
  });

  test('a link in place of the folder is refused', () => {
    const link = join(folder.path, 'link');
    symlinkSync('/tmp', link);
    expect(run({ RIVULET_NATIVE_DIR: link }).stderr).toMatch(/not a folder/);
  });

  test('a file there with other bytes is replaced, not loaded', async () => {
    const native = join(folder.path, 'native');
    const env = { RIVULET_NATIVE_DIR: native };
    const first = await startBroker(dataDir(), { env });
    await first.stop();
    for (const name of readdirSync(native)) writeFileSync(join(native, name), 'not a shared object');
    const second = await startBroker(dataDir(), { env });
    await second.stop();
  });

  test('no writable home and /tmp mounted noexec: another place is found', async (context) => {
    if (!mayMount()) context.skip('needs the right to mount');
    const path = dataDir();
    const script = [
      OUT_OF_TMP,
      'mount -t tmpfs -o noexec tmpfs /tmp',
      'mount -t tmpfs -o noexec tmpfs /var/tmp',
      `mkdir /tmp/data && exec /mnt/rivulet serve --data-dir /tmp/data --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --json`,
    ].join(' && ');
    // Ends by itself: the shell's bound sends SIGTERM, and a clean stop gives status 0.
    const { stdout, stderr } = spawnSync('unshare', ['-m', 'timeout', '-k', '5', '4', 'sh', '-c', script], {
      env: { PATH: process.env['PATH'], HOME: '/proc', XDG_CACHE_HOME: '' },
      encoding: 'utf8',
      timeout: 20_000,
    });
    expect(stdout, stderr).toMatch(/"event":"ready"/);
    rmSync(path, { recursive: true, force: true });
  });

  test('nowhere at all: the error lists every folder with its reason', (context) => {
    if (!mayMount()) context.skip('needs the right to mount');
    const script = `${OUT_OF_TMP} && mount -t tmpfs -o noexec tmpfs /tmp && exec /mnt/rivulet serve --data-dir /tmp/data --listen 127.0.0.1:0`;
    const { status, stderr } = spawnSync('unshare', ['-m', 'sh', '-c', script], {
      env: { PATH: process.env['PATH'], RIVULET_NATIVE_DIR: '/tmp/native' },
      encoding: 'utf8',
      timeout: 20_000,
    });
    expect(status).toBe(1);
    expect(stderr).toMatch(/\/tmp\/native: .*(failed to map|cannot open|Operation not permitted)/);
  });
});
