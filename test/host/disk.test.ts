import { execFileSync, spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { position } from '../../src/base/brands.ts';
import { openDisk } from '../../src/host/disk.ts';
import { DiskError } from '../../src/ports/disk.ts';
import { ADDON_PATH, failureOf, patternBytes, realDisk, type RealDisk } from './real-disk.ts';

let real: RealDisk;
beforeEach(() => {
  real = realDisk();
});
afterEach(() => {
  real.remove();
});

const at = position;

describe('openDisk', () => {
  it('creates a missing root several levels deep', async () => {
    const root = path.join(real.root, 'a/b/c');
    const disk = openDisk(root, real.addon);
    await disk.makeDirectory('');
    expect(fs.statSync(root).isDirectory()).toBe(true);
    await disk.makeDirectory('');
  });

  it('refuses paths that leave the root, as a bug of the caller', async () => {
    for (const bad of ['../x', '/etc/passwd', 'a//b', 'a/./b', 'a/../b', 'a\0b', 'a/']) {
      expect(await failureOf(() => real.disk.exists(bad))).toMatchObject({ name: 'InvariantError' });
    }
  });

  it('says no-space where the file may not grow', async () => {
    // A limit on file size stands for the full disk: the same error path, without a file system of our own.
    const script = `
      const { loadAddon } = await import(${JSON.stringify(path.resolve('src/host/addon.ts'))});
      const { openDisk } = await import(${JSON.stringify(path.resolve('src/host/disk.ts'))});
      const disk = openDisk(${JSON.stringify(real.root)}, loadAddon(${JSON.stringify(ADDON_PATH)}));
      const file = await disk.open('x', 'create');
      const kinds = [];
      try { file.write(new Uint8Array(300 * 1024), 0); } catch (error) { kinds.push(error.kind); }
      try { await file.allocate(0, 1024 * 1024); } catch (error) { kinds.push(error.kind); }
      try { await file.writeZeros(0, 1024 * 1024); } catch (error) { kinds.push(error.kind); }
      file.write(new Uint8Array(10), 0);
      await file.sync();
      console.log(kinds.join());`;
    const out = spawnSync(
      'sh',
      ['-c', 'trap "" XFSZ; ulimit -f 256; exec "$0" "$@"', process.execPath, '--input-type=module', '-e', script],
      { encoding: 'utf8' },
    );
    expect(out.stdout.trim(), out.stderr).toBe('no-space,no-space,no-space');
  });
});

describe('HostFile', () => {
  it('reads back what was written, by every way of reading', async () => {
    const file = await real.disk.open('log', 'create');
    const bytes = patternBytes(300_000);
    file.write(bytes.subarray(0, 100_000), at(0));
    await file.writeSlow(bytes.subarray(100_000), at(100_000));
    await file.sync();
    const target = new Uint8Array(300_001);
    expect(await file.read(target, at(0))).toBe(300_000);
    expect(target.subarray(0, 300_000)).toEqual(bytes);
    expect(file.readNow(target, at(299_990))).toBe(10);
    const mapping = file.map(300_000);
    const slice = mapping.slice(at(5), 1000);
    expect(slice.view).toEqual(bytes.subarray(5, 1005));
    slice.release();
    mapping.unmap();
    await file.close();
  });

  it('allocates zeros, grows the file, and keeps what is there', async () => {
    const file = await real.disk.open('log', 'create');
    file.write(patternBytes(100), at(0));
    await file.allocate(at(50), 100_000);
    expect(await file.size()).toBe(100_050);
    const target = new Uint8Array(200);
    await file.read(target, at(0));
    expect(target.subarray(0, 100)).toEqual(patternBytes(100));
    expect(target.subarray(100)).toEqual(new Uint8Array(100));
    await file.close();
  });

  it('writeZeros clears exactly its range', async () => {
    const file = await real.disk.open('log', 'create');
    const bytes = patternBytes(600_000);
    file.write(bytes, at(0));
    await file.writeZeros(at(1001), 500_000);
    const target = new Uint8Array(600_000);
    await file.read(target, at(0));
    bytes.fill(0, 1001, 501_001);
    expect(Buffer.from(target).equals(Buffer.from(bytes))).toBe(true);
    await file.close();
  });

  it('close waits for the work in flight, and nothing starts after it', async () => {
    const file = await real.disk.open('log', 'create');
    const work = [file.writeZeros(at(0), 8 << 20), file.sync(), file.allocate(at(0), 1 << 20), file.sync()];
    file.startWriteback(at(0), 4096);
    const closed = file.close();
    expect(() => {
      file.write(new Uint8Array(1), at(0));
    }).toThrow('closed');
    await closed;
    expect(await Promise.allSettled(work)).toEqual(work.map(() => ({ status: 'fulfilled', value: undefined })));
  });

  it('takes no write or sync after a failed sync', async () => {
    const file = await real.disk.open('log', 'create');
    file.write(patternBytes(10), at(0));
    // The descriptor is taken from under the file: fdatasync fails with EBADF, which stands for EIO here.
    const fd: unknown = Reflect.get(file, 'fd');
    Reflect.set(file, 'fd', 1_000_000);
    expect(await failureOf(() => file.sync())).toMatchObject({ kind: 'io', operation: 'sync' });
    Reflect.set(file, 'fd', fd);
    expect(await failureOf(() => file.sync())).toMatchObject({ kind: 'io', operation: 'sync' });
    expect(() => {
      file.write(patternBytes(10), at(0));
    }).toThrow('earlier failure');
    expect(file.readNow(new Uint8Array(10), at(0))).toBe(10);
    await file.close();
  });

  it('dropCache makes synced pages leave the memory', async () => {
    const file = await real.disk.open('log', 'create');
    file.write(patternBytes(1 << 20), at(0));
    await file.sync();
    const mapping = file.map(1 << 20);
    expect(mapping.resident(at(0), 1 << 20)).toBe(true);
    await file.dropCache(at(0), 1 << 20);
    expect(mapping.resident(at(0), 1 << 20)).toBe(false);
    await mapping.populate(at(0), 1 << 20);
    expect(mapping.resident(at(0), 1 << 20)).toBe(true);
    mapping.unmap();
    await file.close();
  });
});

describe('Disk errors', () => {
  it('are told apart by kind', async () => {
    const { disk } = real;
    expect(await failureOf(() => disk.open('none', 'read'))).toMatchObject({
      kind: 'not-found',
      operation: 'open',
      path: 'none',
    });
    const file = await disk.open('file', 'create');
    expect(await failureOf(() => disk.open('file', 'create'))).toMatchObject({ kind: 'exists' });
    await disk.makeDirectory('folder');
    await disk.rename('file', 'folder/file');
    expect(await failureOf(() => disk.removeDirectory('folder'))).toMatchObject({ kind: 'exists' });
    expect(await failureOf(() => disk.makeDirectory('folder/file'))).toMatchObject({ kind: 'exists' });
    expect(await failureOf(() => disk.unlink('none'))).toMatchObject({ kind: 'not-found' });
    await file.close();
    const reader = await disk.open('folder/file', 'read');
    expect(() => {
      reader.write(new Uint8Array(1), at(0));
    }).toThrow(DiskError);
    expect(await failureOf(() => reader.sync())).toMatchObject({ kind: 'denied' });
    await reader.close();
  });

  it('say too-many-files when the descriptors are used up, and the disk goes on afterwards', () => {
    const script = `
      const { loadAddon } = await import(${JSON.stringify(path.resolve('src/host/addon.ts'))});
      const { openDisk } = await import(${JSON.stringify(path.resolve('src/host/disk.ts'))});
      const disk = openDisk(${JSON.stringify(real.root)}, loadAddon(${JSON.stringify(ADDON_PATH)}));
      const files = []; let kind = '';
      for (let index = 0; index < 200 && kind === ''; index += 1) {
        try { files.push(await disk.open('f' + index, 'create')); } catch (error) { kind = error.kind; }
      }
      await files.pop().close();
      await (await disk.open('again', 'create')).close();
      console.log(kind);`;
    const out = spawnSync(
      'sh',
      ['-c', 'ulimit -n 64; exec "$0" "$@"', process.execPath, '--input-type=module', '-e', script],
      { encoding: 'utf8' },
    );
    expect(out.stdout.trim(), out.stderr).toBe('too-many-files');
  });
});

describe('Disk.lock', () => {
  it('is refused to a second holder and names the first', async () => {
    const lock = await real.disk.lock('lock');
    const error = await failureOf(() => openDisk(real.root, real.addon).lock('lock'));
    expect(error).toMatchObject({ kind: 'locked', operation: 'lock' });
    expect(String(error)).toContain(`process ${String(process.pid)} holds it`);
    await lock.release();
    await (await real.disk.lock('lock')).release();
  });

  it('ends with the process that is killed, and is not inherited by its children', async () => {
    const script = `
      const { loadAddon } = await import(${JSON.stringify(path.resolve('src/host/addon.ts'))});
      const { openDisk } = await import(${JSON.stringify(path.resolve('src/host/disk.ts'))});
      await openDisk(${JSON.stringify(real.root)}, loadAddon(${JSON.stringify(ADDON_PATH)})).lock('lock');
      const child = (await import('node:child_process')).spawn('sleep', ['20'], { stdio: 'ignore', detached: true });
      console.log(child.pid);
      setInterval(() => undefined, 1000);`;
    const holder = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const sleeper = await new Promise<number>((resolve, reject) => {
      holder.stdout.once('data', (line: Buffer) => {
        resolve(Number(line.toString()));
      });
      holder.once('exit', () => {
        reject(new Error('the holder ended early'));
      });
    });
    try {
      expect(await failureOf(() => real.disk.lock('lock'))).toMatchObject({ kind: 'locked' });
      const gone = new Promise<void>((resolve) => {
        holder.once('exit', () => {
          resolve();
        });
      });
      holder.kill('SIGKILL');
      await gone;
      const lock = await real.disk.lock('lock');
      await lock.release();
    } finally {
      process.kill(sleeper, 'SIGKILL');
    }
  });

  it('is taken on the file that the name means now', async () => {
    const first = await real.disk.lock('lock');
    fs.unlinkSync(path.join(real.root, 'lock'));
    const second = await real.disk.lock('lock');
    expect(await failureOf(() => real.disk.lock('lock'))).toMatchObject({ kind: 'locked' });
    await first.release();
    await second.release();
  });
});

describe('a read-only directory', () => {
  it.skipIf(process.getuid?.() === 0)('gives denied, and nothing is written', async () => {
    fs.chmodSync(real.root, 0o500);
    expect(await failureOf(() => real.disk.open('x', 'create'))).toMatchObject({ kind: 'denied' });
    fs.chmodSync(real.root, 0o700);
  });
});

describe('Disk.space', () => {
  it('agrees with df', async () => {
    const space = await real.disk.space();
    const [, total] = execFileSync('df', ['-B1', '--output=size', real.root], { encoding: 'utf8' }).trim().split('\n');
    expect(space.totalBytes).toBe(Number(total));
    expect(space.freeBytes).toBeGreaterThan(0);
    expect(space.freeBytes).toBeLessThan(space.totalBytes);
  });
});
