// Every promise of the Disk port that a program can see without a power cut. Run against the simulator and the real host.
import { describe, expect, test } from 'vitest';
import { position } from '../../src/base/brands.ts';
import { DiskError, type Disk, type DiskErrorKind, type DiskFile } from '../../src/ports/disk.ts';

/** A fresh, empty data directory and how to run work on it (the simulator has to be driven). */
export interface DiskUnderTest {
  readonly disk: Disk;
  /** The same directory as another process or another handle of this one sees it. */
  readonly second: Disk;
  run<Value>(work: () => Promise<Value>): Promise<Value>;
  close(): Promise<void>;
}

const at = position;

function filled(size: number, value: number): Uint8Array {
  return new Uint8Array(size).fill(value);
}

async function kindOf(work: Promise<unknown>): Promise<DiskErrorKind | 'no error'> {
  try {
    await work;
    return 'no error';
  } catch (error) {
    if (error instanceof DiskError) return error.kind;
    throw error;
  }
}

async function content(file: DiskFile): Promise<Uint8Array> {
  const target = new Uint8Array(await file.size());
  expect(await file.read(target, at(0))).toBe(target.length);
  return target;
}

export function diskConformance(name: string, makeDisk: () => Promise<DiskUnderTest>): void {
  const check = (title: string, body: (disk: Disk, second: Disk) => Promise<void>): void => {
    test(title, async () => {
      const target = await makeDisk();
      try {
        await target.run(() => body(target.disk, target.second));
      } finally {
        await target.close();
      }
    });
  };

  describe(`${name}: names`, () => {
    check('open read and write need the file, create needs its absence', async (disk) => {
      expect(await kindOf(disk.open('a', 'read'))).toBe('not-found');
      expect(await kindOf(disk.open('a', 'write'))).toBe('not-found');
      const file = await disk.open('a', 'create');
      expect(file.path).toBe('a');
      await file.close();
      expect(await kindOf(disk.open('a', 'create'))).toBe('exists');
      await (await disk.open('a', 'write')).close();
      expect(await kindOf(disk.open('none/a', 'create'))).toBe('not-found');
    });

    check('a file opened for reading refuses writes', async (disk) => {
      await (await disk.open('a', 'create')).close();
      const file = await disk.open('a', 'read');
      expect(() => {
        file.write(filled(1, 1), at(0));
      }).toThrow(DiskError);
      expect(await file.size()).toBe(0);
      await file.close();
    });

    check('makeDirectory makes missing parents and is fine when it exists', async (disk) => {
      await disk.makeDirectory('a/b/c');
      await disk.makeDirectory('a/b/c');
      await disk.makeDirectory('a');
      expect(await disk.readDirectory('a/b')).toEqual([{ name: 'c', kind: 'directory' }]);
      await (await disk.open('file', 'create')).close();
      expect(await kindOf(disk.makeDirectory('file'))).toBe('exists');
    });

    check('readDirectory is sorted by name and tells files from directories', async (disk) => {
      for (const file of ['b', 'a', 'C', 'b1']) await (await disk.open(file, 'create')).close();
      await disk.makeDirectory('aa');
      expect(await disk.readDirectory('')).toEqual([
        { name: 'C', kind: 'file' },
        { name: 'a', kind: 'file' },
        { name: 'aa', kind: 'directory' },
        { name: 'b', kind: 'file' },
        { name: 'b1', kind: 'file' },
      ]);
      expect(await kindOf(disk.readDirectory('none'))).toBe('not-found');
    });

    check('rename replaces a file, moves between directories, and an open file stays usable', async (disk) => {
      await disk.makeDirectory('d');
      const first = await disk.open('a', 'create');
      first.write(filled(3, 1), at(0));
      const second = await disk.open('d/b', 'create');
      second.write(filled(5, 2), at(0));
      await disk.rename('a', 'd/b');
      expect(await disk.exists('a')).toBe(false);
      const replaced = await disk.open('d/b', 'read');
      expect(await content(replaced)).toEqual(filled(3, 1));
      expect(await content(second)).toEqual(filled(5, 2));
      first.write(filled(1, 9), at(3));
      expect(await replaced.size()).toBe(4);
      await disk.rename('d/b', 'd/c');
      await disk.rename('d/c', 'd/c');
      expect((await disk.readDirectory('d')).map((entry) => entry.name)).toEqual(['c']);
      expect(await kindOf(disk.rename('none', 'x'))).toBe('not-found');
      expect(await kindOf(disk.rename('d/c', 'none/x'))).toBe('not-found');
      await Promise.all([first.close(), second.close(), replaced.close()]);
    });

    check('rename moves a directory with what is in it', async (disk) => {
      await disk.makeDirectory('a/b');
      await (await disk.open('a/b/f', 'create')).close();
      await disk.rename('a', 'z');
      expect(await disk.exists('a')).toBe(false);
      expect(await disk.exists('z/b/f')).toBe(true);
    });

    check('unlink removes a name; an open file lives on', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(4, 7), at(0));
      await disk.unlink('a');
      expect(await disk.exists('a')).toBe(false);
      expect(await content(file)).toEqual(filled(4, 7));
      await file.close();
      expect(await kindOf(disk.unlink('a'))).toBe('not-found');
      await (await disk.open('a', 'create')).close();
    });

    check('removeDirectory wants an empty one', async (disk) => {
      await disk.makeDirectory('a/b');
      expect(await kindOf(disk.removeDirectory('a'))).toBe('exists');
      await disk.removeDirectory('a/b');
      await disk.removeDirectory('a');
      expect(await disk.exists('a')).toBe(false);
      expect(await kindOf(disk.removeDirectory('a'))).toBe('not-found');
    });

    check('syncDirectory resolves for a directory and fails for none', async (disk) => {
      await disk.makeDirectory('a');
      await disk.syncDirectory('a');
      await disk.syncDirectory('');
      expect(await kindOf(disk.syncDirectory('none'))).toBe('not-found');
    });

    check('paths out of the data directory are refused', async (disk) => {
      for (const path of ['../a', '/a', 'a/../b', 'a//b', './a']) {
        await expect((async () => await disk.open(path, 'create'))()).rejects.toThrow(path.slice(0, 1));
        await expect((async () => await disk.exists(path))()).rejects.toThrow(path.slice(0, 1));
      }
    });

    check('space is positive and no more than the total', async (disk) => {
      const space = await disk.space();
      expect(space.freeBytes).toBeGreaterThan(0);
      expect(space.totalBytes).toBeGreaterThanOrEqual(space.freeBytes);
    });

    check('lock is exclusive until released', async (disk, second) => {
      const lock = await disk.lock('lock');
      expect(await kindOf(second.lock('lock'))).toBe('locked');
      expect(await disk.exists('lock')).toBe(true);
      await lock.release();
      await (await second.lock('lock')).release();
    });
  });

  describe(`${name}: bytes`, () => {
    check('writes are seen at once, also far beyond the end, with zeros between', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(10, 1), at(0));
      file.write(filled(4, 2), at(5));
      await file.writeSlow(filled(3, 3), at(10_000));
      expect(await file.size()).toBe(10_003);
      const all = await content(file);
      expect([...all.subarray(0, 12)]).toEqual([1, 1, 1, 1, 1, 2, 2, 2, 2, 1, 0, 0]);
      expect(all.subarray(12, 10_000).every((byte) => byte === 0)).toBe(true);
      expect([...all.subarray(10_000)]).toEqual([3, 3, 3]);
      await file.close();
    });

    check('write copies: the bytes may change right after', async (disk) => {
      const file = await disk.open('a', 'create');
      const bytes = filled(4, 1);
      file.write(bytes, at(0));
      bytes.fill(9);
      expect([...(await content(file))]).toEqual([1, 1, 1, 1]);
      await file.close();
    });

    check('read and readNow give fewer bytes only at the end', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(100, 5), at(0));
      const target = filled(64, 0);
      expect(await file.read(target, at(0))).toBe(64);
      expect(target).toEqual(filled(64, 5));
      expect(await file.read(target, at(90))).toBe(10);
      expect(await file.read(target, at(100))).toBe(0);
      expect(await file.read(target, at(5000))).toBe(0);
      expect(file.readNow(target, at(40))).toBe(60);
      expect(file.readNow(target, at(5000))).toBe(0);
      await file.close();
    });

    check('sync, startWriteback and dropCache keep what readers see', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(8192, 5), at(0));
      file.startWriteback(at(0), 8192);
      await file.sync();
      file.write(filled(10, 6), at(0));
      await file.dropCache(at(0), 8192);
      const all = await content(file);
      expect(all.subarray(0, 10)).toEqual(filled(10, 6));
      expect(all.subarray(10)).toEqual(filled(8182, 5));
      await file.close();
    });

    check('allocate grows with zeros and leaves what was there', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(10, 5), at(0));
      await file.allocate(at(0), 8192);
      expect(await file.size()).toBe(8192);
      const all = await content(file);
      expect(all.subarray(0, 10)).toEqual(filled(10, 5));
      expect(all.subarray(10).every((byte) => byte === 0)).toBe(true);
      await file.allocate(at(0), 100);
      expect(await file.size()).toBe(8192);
      await file.close();
    });

    check('writeZeros overwrites a range', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(9000, 5), at(0));
      await file.writeZeros(at(100), 8000);
      const all = await content(file);
      expect(all.subarray(0, 100)).toEqual(filled(100, 5));
      expect(all.subarray(100, 8100).every((byte) => byte === 0)).toBe(true);
      expect(all.subarray(8100)).toEqual(filled(900, 5));
      await file.close();
    });

    check('truncate cuts; growing again shows zeros', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(9000, 5), at(0));
      await file.truncate(10);
      expect(await file.size()).toBe(10);
      await file.truncate(20);
      expect([...(await content(file))]).toEqual([...filled(10, 5), ...filled(10, 0)]);
      await file.close();
    });
  });

  describe(`${name}: mappings`, () => {
    check('a mapping beyond the end shows bytes written later', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(100, 1), at(0));
      const mapping = file.map(64 * 1024);
      expect(mapping.bytes).toBe(64 * 1024);
      file.write(filled(100, 2), at(100));
      const slice = mapping.slice(at(50), 100);
      expect([...slice.view]).toEqual([...filled(50, 1), ...filled(50, 2)]);
      file.write(filled(1, 9), at(50));
      expect(slice.view[0]).toBe(9);
      slice.release();
      mapping.unmap();
      await file.close();
    });

    check('what is forgotten comes back when it is touched again, for slices that are out too', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(20_000, 7), at(0));
      const mapping = file.map(64 * 1024);
      const slice = mapping.slice(at(0), 20_000);
      mapping.forget(at(0), 64 * 1024);
      expect(slice.view.every((byte) => byte === 7)).toBe(true);
      expect(mapping.resident(at(0), 20_000)).toBe(true);
      slice.release();
      mapping.unmap();
      await file.close();
    });

    check('a released slice is detached: its view has length 0, also for who kept it', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(100, 1), at(0));
      const mapping = file.map(100);
      const slice = mapping.slice(at(0), 100);
      const kept = slice.view;
      expect(kept.length).toBe(100);
      slice.release();
      expect(kept.length).toBe(0);
      expect(slice.view.length).toBe(0);
      expect(() => {
        slice.release();
      }).toThrow('release');
      mapping.unmap();
      await file.close();
    });

    check('unmap with live slices fails an assertion', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(100, 1), at(0));
      const mapping = file.map(100);
      const slice = mapping.slice(at(0), 1);
      expect(() => {
        mapping.unmap();
      }).toThrow('live slices');
      slice.release();
      mapping.unmap();
      await file.close();
    });

    check('slices stay within the mapping', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(8192, 1), at(0));
      const mapping = file.map(4096);
      expect(() => mapping.slice(at(4000), 97)).toThrow('outside the mapping');
      mapping.slice(at(4000), 96).release();
      mapping.unmap();
      await file.close();
    });

    check('the mapping lives on after close and unlink', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(5000, 3), at(0));
      const mapping = file.map(5000);
      await file.close();
      await disk.unlink('a');
      const slice = mapping.slice(at(4000), 1000);
      expect(slice.view).toEqual(filled(1000, 3));
      slice.release();
      mapping.unmap();
    });

    check('populate makes the range resident', async (disk) => {
      const file = await disk.open('a', 'create');
      file.write(filled(20_000, 3), at(0));
      await file.sync();
      const mapping = file.map(20_000);
      await mapping.populate(at(0), 20_000);
      expect(mapping.resident(at(0), 20_000)).toBe(true);
      mapping.unmap();
      await file.close();
    });
  });
}
