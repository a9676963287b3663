import { spawnSync } from 'node:child_process';
import * as path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { position as at } from '../../src/base/brands.ts';
import type { DiskFile } from '../../src/ports/disk.ts';
import { ADDON_PATH, failureOf, patternBytes, realDisk, type RealDisk } from './real-disk.ts';

const BYTES = 1 << 20;

describe.each([{ populateByRead: false }, { populateByRead: true }])('Mapping, %o', (options) => {
  let real: RealDisk;
  let file: DiskFile;
  beforeEach(async () => {
    real = realDisk(options);
    file = await real.disk.open('segment', 'create');
    file.write(patternBytes(BYTES), at(0));
    await file.sync();
  });
  afterEach(async () => {
    await file.close();
    real.remove();
  });

  it('detaches a slice at its release: a late reader sees nothing', () => {
    const mapping = file.map(BYTES);
    const slice = mapping.slice(at(10), 100);
    const { view } = slice;
    expect(view).toEqual(patternBytes(BYTES).subarray(10, 110));
    slice.release();
    expect(view.length).toBe(0);
    expect(view.buffer.byteLength).toBe(0);
    expect(slice.view.length).toBe(0);
    mapping.unmap();
  });

  it('asserts on a second release, on unmap under a live slice, and on use after unmap', () => {
    const mapping = file.map(BYTES);
    const slice = mapping.slice(at(0), 1);
    expect(() => {
      mapping.unmap();
    }).toThrow('1 live slices');
    slice.release();
    expect(() => {
      slice.release();
    }).toThrow('released twice');
    mapping.unmap();
    expect(() => mapping.slice(at(0), 1)).toThrow('not mapped');
    expect(() => {
      mapping.unmap();
    }).toThrow('not mapped');
  });

  it('refuses ranges outside the mapping', async () => {
    const mapping = file.map(BYTES);
    expect(() => mapping.slice(at(BYTES), 1)).toThrow('outside');
    expect(() => mapping.slice(at(0), BYTES + 1)).toThrow('outside');
    expect(() => mapping.resident(at(1), BYTES)).toThrow('outside');
    expect(await failureOf(() => mapping.populate(at(1), BYTES))).toMatchObject({ name: 'InvariantError' });
    const empty = mapping.slice(at(BYTES), 0);
    expect(empty.view.length).toBe(0);
    empty.release();
    mapping.unmap();
  });

  it('shows bytes that are written after it was made, and outlives close and unlink', async () => {
    const growing = await real.disk.open('growing', 'create');
    const mapping = growing.map(BYTES);
    growing.write(patternBytes(5000, 9), at(0));
    await growing.close();
    await real.disk.unlink('growing');
    const slice = mapping.slice(at(0), 5000);
    expect(slice.view).toEqual(patternBytes(5000, 9));
    slice.release();
    mapping.unmap();
  });

  it('rejects with io when pages beyond the end of the file are populated, and the process lives', async () => {
    const mapping = file.map(4 * BYTES);
    expect(await failureOf(() => mapping.populate(at(2 * BYTES), 4096))).toMatchObject({
      kind: 'io',
      operation: 'populate',
    });
    await mapping.populate(at(0), BYTES);
    mapping.unmap();
  });

  it('keeps its memory until a populate in flight has ended', async () => {
    await file.dropCache(at(0), BYTES);
    const mapping = file.map(BYTES);
    const populated = mapping.populate(at(0), BYTES);
    mapping.unmap();
    await populated;
  });
});

describe('the addon', () => {
  it('throws on arguments that are not its own, and never follows them', () => {
    const { addon, remove } = realDisk();
    const strange: readonly unknown[] = [undefined, 1, {}, 'x', new ArrayBuffer(8)];
    for (const value of strange) {
      expect((): unknown => Reflect.apply(addon.slice, addon, [value, 0, 1])).toThrow(TypeError);
      expect((): unknown => Reflect.apply(addon.unmap, addon, [value])).toThrow(TypeError);
      expect((): unknown => Reflect.apply(addon.lock, addon, [value === 1 ? -1 : value])).toThrow(TypeError);
    }
    expect(() => addon.map(1_000_000, 4096)).toThrow(
      expect.objectContaining({ code: 'EBADF', errno: -9, syscall: 'mmap' }),
    );
    expect(() => {
      addon.lock(1_000_000);
    }).toThrow(expect.objectContaining({ code: 'EBADF', syscall: 'flock' }));
    remove();
  });

  it('rejects with code, errno and syscall from the pool', async () => {
    const { addon, remove } = realDisk();
    expect(await failureOf(() => addon.allocate(1_000_000, 0, 0, 10))).toMatchObject({
      code: 'EBADF',
      errno: -9,
      syscall: 'fallocate',
    });
    expect(await failureOf(() => addon.writeZeros(1_000_000, 0, 10))).toMatchObject({
      code: 'EBADF',
      syscall: 'pwrite',
    });
    expect(await failureOf(() => addon.startWriteback(1_000_000, 0, 10))).toMatchObject({
      code: 'EBADF',
      syscall: 'sync_file_range',
    });
    expect(await failureOf(() => addon.dropCache(1_000_000, 0, 10))).toMatchObject({
      code: 'EBADF',
      syscall: 'posix_fadvise',
    });
    remove();
  });

  it('CLOCK_BOOTTIME never goes back', () => {
    const { addon, remove } = realDisk();
    let last = addon.bootMs();
    for (let index = 0; index < 1000; index += 1) {
      const now = addon.bootMs();
      expect(now).toBeGreaterThanOrEqual(last);
      last = now;
    }
    remove();
  });
});

describe('slices and the garbage collector', () => {
  it('100,000 slices of 1 MiB cause no storm of full collections', () => {
    const script = `
      const { PerformanceObserver, constants } = await import('node:perf_hooks');
      const { mkdtempSync, rmSync } = await import('node:fs');
      const { loadAddon } = await import(${JSON.stringify(path.resolve('src/host/addon.ts'))});
      const { openDisk } = await import(${JSON.stringify(path.resolve('src/host/disk.ts'))});
      const root = mkdtempSync((await import('node:os')).tmpdir() + '/rivulet-slices-');
      const disk = openDisk(root, loadAddon(${JSON.stringify(ADDON_PATH)}));
      const file = await disk.open('segment', 'create');
      await file.allocate(0, 64 << 20);
      const mapping = file.map(64 << 20);
      let full = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (entry.detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) full += 1;
      }).observe({ entryTypes: ['gc'] });
      const held = [];
      for (let index = 0; index < 100000; index += 1) {
        held.push(mapping.slice((index % 64) << 20, 1 << 20));
        if (held.length > 8) held.shift().release();
        if (index % 100 === 99) await new Promise((resolve) => setImmediate(resolve));
      }
      for (const slice of held) slice.release();
      mapping.unmap();
      await new Promise((resolve) => setTimeout(resolve, 50));
      rmSync(root, { recursive: true });
      console.log(full);
      process.exit(0);`;
    const out = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
      timeout: 60_000,
    });
    expect(out.stdout.trim(), out.stderr).toMatch(/^\d+$/);
    // Left to the collector it is hundreds.
    expect(Number(out.stdout)).toBeLessThanOrEqual(5);
  });
});
