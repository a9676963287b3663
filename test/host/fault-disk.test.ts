import { spawnSync } from 'node:child_process';
import * as path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { position as at } from '../../src/base/brands.ts';
import { withFaults } from '../../src/host/fault-disk.ts';
import { ADDON_PATH, failureOf, patternBytes, realDisk, type RealDisk } from './real-disk.ts';

let real: RealDisk;
beforeEach(() => {
  real = realDisk();
});
afterEach(() => {
  real.remove();
});

describe('withFaults', () => {
  it('hits the nth matching call, as often as asked, and nothing else', async () => {
    const disk = withFaults(real.disk, 'sync:topics/*:nth=2:count=2:EIO');
    await disk.makeDirectory('topics/x');
    const other = await disk.open('other', 'create');
    const file = await disk.open('topics/x/log', 'create');
    const outcomes: string[] = [];
    for (let index = 0; index < 4; index += 1) {
      await other.sync();
      outcomes.push(
        await file.sync().then(
          () => 'ok',
          (error: unknown) => (error instanceof Error && 'kind' in error ? String(error.kind) : 'other'),
        ),
      );
    }
    expect(outcomes).toEqual(['ok', 'io', 'io', 'ok']);
    await file.close();
    await other.close();
  });

  it('writes a prefix before a short ENOSPC', async () => {
    const disk = withFaults(real.disk, 'write:log:short=10:ENOSPC');
    const file = await disk.open('log', 'create');
    expect(() => {
      file.write(patternBytes(100), at(0));
    }).toThrow(expect.objectContaining({ kind: 'no-space', operation: 'write', path: 'log' }));
    expect(await file.size()).toBe(10);
    file.write(patternBytes(100), at(0));
    expect(await file.size()).toBe(100);
    await file.close();
  });

  it('delays without failing, and takes several faults at once', async () => {
    const disk = withFaults(real.disk, 'sync:*:delay=30; rename:a?:EROFS; syncdir:.:EACCES');
    const file = await disk.open('a1', 'create');
    let synced = false;
    const sync = file.sync().then(() => {
      synced = true;
    });
    await file.size();
    expect(synced).toBe(false);
    await sync;
    expect(await failureOf(() => disk.rename('a1', 'b'))).toMatchObject({ kind: 'read-only' });
    expect(await failureOf(() => disk.syncDirectory(''))).toMatchObject({ kind: 'denied' });
    await disk.rename('a1', 'b');
    await file.close();
  });

  it('reaches populate and map', async () => {
    const disk = withFaults(real.disk, 'populate:*:EIO;map:*:nth=2:EMFILE');
    const file = await disk.open('log', 'create');
    file.write(patternBytes(100), at(0));
    const mapping = file.map(100);
    expect(await failureOf(() => mapping.populate(at(0), 100))).toMatchObject({ kind: 'io', operation: 'populate' });
    expect(() => file.map(100)).toThrow(expect.objectContaining({ kind: 'too-many-files' }));
    mapping.unmap();
    await file.close();
  });

  it('kills the process at the named call', () => {
    const script = `
      const { loadAddon } = await import(${JSON.stringify(path.resolve('src/host/addon.ts'))});
      const { openDisk } = await import(${JSON.stringify(path.resolve('src/host/disk.ts'))});
      const { withFaults } = await import(${JSON.stringify(path.resolve('src/host/fault-disk.ts'))});
      const disk = withFaults(openDisk(${JSON.stringify(real.root)}, loadAddon(${JSON.stringify(ADDON_PATH)})), 'rename:x:KILL');
      await (await disk.open('x', 'create')).close();
      await disk.rename('x', 'y');`;
    const out = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    expect(out.signal).toBe('SIGKILL');
  });

  it('refuses what it does not understand, naming it', () => {
    for (const bad of ['fsync:*:EIO', 'sync', 'sync::EIO', 'sync:*:EWHAT', 'sync:*:nth=x', 'sync:*:delay=*']) {
      expect(() => withFaults(real.disk, bad)).toThrow('RIVULET_FAULT');
    }
  });
});
