import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { position } from '../../src/base/brands.ts';
import { DiskError, type DiskFile } from '../../src/ports/disk.ts';
import { SimCrash, SimDisk, type SimDiskOptions } from '../../src/sim/disk.ts';
import { SECTOR_BYTES } from '../../src/sim/disk-volume.ts';
import { Scheduler } from '../../src/sim/scheduler.ts';
import { effort } from '../effort.ts';

const at = position;

function filled(size: number, value: number): Uint8Array {
  return new Uint8Array(size).fill(value);
}

interface Bench {
  readonly scheduler: Scheduler;
  readonly disk: SimDisk;
}

function bench(seed = 1, options: SimDiskOptions = {}): Bench {
  const scheduler = new Scheduler({ seed });
  return { scheduler, disk: new SimDisk(scheduler, options) };
}

/** A file with `synced` bytes of 1, durable with its name. */
async function durableFile(disk: SimDisk, path: string, synced: number): Promise<DiskFile> {
  const file = await disk.open(path, 'create');
  if (synced > 0) file.write(filled(synced, 1), at(0));
  await file.sync();
  await disk.syncDirectory('');
  return file;
}

async function kindOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
    return 'no error';
  } catch (error) {
    return error instanceof DiskError ? error.kind : String(error);
  }
}

describe('SimDisk.crash, bytes', () => {
  test('unsynced bytes can vanish and can survive', async () => {
    const { scheduler, disk } = bench();
    const file = await scheduler.drive(() => durableFile(disk, 'a', 100));
    file.write(filled(50, 2), at(100));
    expect(disk.fork('lose-all').dump().get('a')).toEqual(filled(100, 1));
    expect(disk.fork('keep-all').dump().get('a')).toEqual(Uint8Array.from([...filled(100, 1), ...filled(50, 2)]));
    expect(disk.dumpDurable().get('a')).toEqual(filled(100, 1));
  });

  test('synced bytes survive every power cut, whatever is pending around them', async () => {
    const { scheduler, disk } = bench();
    const file = await scheduler.drive(() => durableFile(disk, 'a', 1000));
    // Shares a sector with synced bytes.
    file.write(filled(3000, 2), at(1000));
    file.write(filled(10, 3), at(4500));
    let differing = 0;
    for (let round = 0; round < 500; round += 1) {
      const after = disk.fork('random').dump().get('a');
      expect(after?.subarray(0, 1000)).toEqual(filled(1000, 1));
      if (after?.length !== 4510) differing += 1;
    }
    expect(differing).toBeGreaterThan(0);
  });

  test('a write during a sync is not covered by it', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 10);
      file.write(filled(10, 2), at(10));
      const syncing = file.sync();
      file.write(filled(10, 3), at(20));
      await syncing;
      expect(disk.dumpDurable().get('a')).toEqual(Uint8Array.from([...filled(10, 1), ...filled(10, 2)]));
    });
  });

  test('nothing of a sync counts before it resolved', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 10);
      file.write(filled(10, 2), at(10));
      const syncing = file.sync();
      await scheduler.delay(0.01, 'test', 'a moment');
      expect(disk.dumpDurable().get('a')?.length).toBe(10);
      await syncing;
      expect(disk.dumpDurable().get('a')?.length).toBe(20);
    });
  });

  test('overlapping syncs never bring older bytes back', async () => {
    for (let seed = 0; seed < effort(20, 8); seed += 1) {
      const { scheduler, disk } = bench(seed);
      await scheduler.drive(async () => {
        const file = await durableFile(disk, 'a', 10);
        file.write(filled(10, 2), at(0));
        const first = file.sync();
        file.write(filled(10, 3), at(0));
        await Promise.all([first, file.sync()]);
      });
      expect(disk.dumpDurable().get('a')).toEqual(filled(10, 3));
    }
  });

  test('writes tear at sectors: each sector is all old or all new, and all mixtures occur', async () => {
    const { scheduler, disk } = bench();
    const size = 4 * SECTOR_BYTES;
    const file = await scheduler.drive(() => durableFile(disk, 'a', size));
    file.write(filled(size - 200, 2), at(100));
    const mixtures = new Set<string>();
    for (let round = 0; round < 400; round += 1) {
      const after =
        disk
          .fork(() => 'torn')
          .dump()
          .get('a') ?? filled(0, 0);
      expect(after.length).toBe(size);
      const sectors: number[] = [];
      for (let sector = 0; sector < 4; sector += 1) {
        const from = Math.max(100, sector * SECTOR_BYTES);
        const end = Math.min(size - 100, (sector + 1) * SECTOR_BYTES);
        const values = new Set(after.subarray(from, end));
        expect(values.size).toBe(1);
        sectors.push(after[from] ?? 0);
      }
      mixtures.add(sectors.join(''));
    }
    expect(mixtures.size).toBe(16);
    expect(
      disk
        .fork(() => ({ sectors: 0b0101n }))
        .dump()
        .get('a')?.[600],
    ).toBe(1);
    expect(
      disk
        .fork(() => ({ sectors: 0b0010n }))
        .dump()
        .get('a')?.[600],
    ).toBe(2);
  });

  test('garbage puts noise into the bytes of the write only', async () => {
    const { scheduler, disk } = bench();
    const file = await scheduler.drive(() => durableFile(disk, 'a', 3 * SECTOR_BYTES));
    file.write(filled(SECTOR_BYTES, 2), at(100));
    const after =
      disk
        .fork(() => 'garbage')
        .dump()
        .get('a') ?? filled(0, 0);
    expect(after.subarray(0, 100)).toEqual(filled(100, 1));
    expect(after.subarray(100 + SECTOR_BYTES)).toEqual(filled(2 * SECTOR_BYTES - 100, 1));
    expect(after.subarray(100, 100 + SECTOR_BYTES).some((byte) => byte !== 1 && byte !== 2)).toBe(true);
  });

  test('a lost write in a grown file leaves zeros, or recycled content when asked for', async () => {
    for (const unwritten of ['zeros', 'recycled'] as const) {
      const { scheduler, disk } = bench(1, { unwritten });
      await scheduler.drive(async () => {
        const old = await disk.open('old', 'create');
        old.write(filled(2000, 7), at(0));
        await disk.unlink('old');
        const file = await durableFile(disk, 'a', 10);
        file.write(filled(100, 2), at(1000));
      });
      const after = disk
        .fork((operation) => (operation.kind === 'grow' ? 'kept' : 'lost'))
        .dump()
        .get('a');
      expect(after?.length).toBe(1100);
      expect(after?.subarray(0, 10)).toEqual(filled(10, 1));
      expect(after?.subarray(1000)).toEqual(filled(100, unwritten === 'zeros' ? 0 : 7));
    }
  });

  test('after any story of writes and syncs each byte is its synced value or one written since', async () => {
    const step = fc.oneof(
      fc.record({
        kind: fc.constant('write' as const),
        at: fc.nat(3000),
        size: fc.integer({ min: 1, max: 1500 }),
        value: fc.integer({ min: 1, max: 255 }),
      }),
      fc.record({ kind: fc.constant('sync' as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), fc.nat(), async (steps, seed) => {
        const { scheduler, disk } = bench(seed);
        const file = await scheduler.drive(() => durableFile(disk, 'a', 0));
        let durableSize = 0;
        const now = filled(4500, 0);
        let allowed = Array.from(now, (byte) => new Set([byte]));
        for (const item of steps) {
          if (item.kind === 'sync') {
            await scheduler.drive(() => file.sync());
            allowed = Array.from(now, (byte) => new Set([byte]));
            durableSize = await scheduler.drive(() => file.size());
            continue;
          }
          file.write(filled(item.size, item.value), at(item.at));
          now.fill(item.value, item.at, item.at + item.size);
          for (let byte = item.at; byte < item.at + item.size; byte += 1) allowed[byte]?.add(item.value);
        }
        const after = disk
          .fork((operation) => (operation.kind === 'write' ? 'torn' : seed % 2 === 0 ? 'kept' : 'lost'))
          .dump()
          .get('a');
        expect(after?.length ?? -1).toBeGreaterThanOrEqual(durableSize);
        for (const [index, byte] of (after ?? []).entries()) {
          if (allowed[index]?.has(byte) !== true) expect.fail(`byte ${String(index)} is ${String(byte)}`);
        }
        expect(disk.fork('keep-all').dump().get('a')).toEqual(now.subarray(0, disk.dump().get('a')?.length));
      }),
      { numRuns: effort(60, 20) },
    );
  });

  test('truncation is pending until a sync', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 100);
      await file.truncate(10);
      expect(disk.dumpDurable().get('a')?.length).toBe(100);
      await file.sync();
      expect(disk.dumpDurable().get('a')?.length).toBe(10);
    });
  });

  test('a failed sync: readers see the bytes, later syncs succeed, a power cut or a dropped cache loses them', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 5000);
      file.write(filled(5000, 2), at(0));
      disk.inject({ operation: 'sync', kind: 'io' });
      expect(await kindOf(() => file.sync())).toBe('io');
      await file.sync();
      expect(disk.dump().get('a')).toEqual(filled(5000, 2));
      expect(disk.fork('keep-all').dump().get('a')).toEqual(filled(5000, 1));
      expect(disk.dumpDurable().get('a')).toEqual(filled(5000, 1));
      await file.dropCache(at(0), 5000);
      expect(disk.dump().get('a')).toEqual(filled(5000, 1));
    });
  });

  test('dropCache leaves dirty pages alone', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 5000);
      file.write(filled(10, 2), at(0));
      await file.dropCache(at(0), 5000);
      expect(disk.dump().get('a')?.subarray(0, 10)).toEqual(filled(10, 2));
    });
  });
});

describe('SimDisk.crash, names', () => {
  test('a name can vanish although its bytes were synced, until its folder is synced', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await disk.open('a', 'create');
      file.write(filled(10, 1), at(0));
      await file.sync();
      expect([...disk.fork('lose-all').dump().keys()]).toEqual([]);
      expect(disk.fork('keep-all').dump().get('a')).toEqual(filled(10, 1));
      await disk.syncDirectory('');
      expect(disk.fork('lose-all').dump().get('a')).toEqual(filled(10, 1));
    });
  });

  test('every level of a new path needs the sync of its parent', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      await disk.makeDirectory('a/b');
      const file = await disk.open('a/b/f', 'create');
      await file.sync();
      await disk.syncDirectory('a/b');
      await disk.syncDirectory('');
      expect([...disk.dumpDurable().keys()]).toEqual([]);
      await disk.syncDirectory('a');
      expect([...disk.dumpDurable().keys()]).toEqual(['a/b/f']);
    });
  });

  test('a replaced file: old or new, never neither', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      await durableFile(disk, 'a', 10);
      const next = await disk.open('a.tmp', 'create');
      next.write(filled(20, 2), at(0));
      await next.sync();
      await disk.rename('a.tmp', 'a');
    });
    const sizes = new Set<number | undefined>();
    for (let mask = 0; mask < 2 ** disk.pendingChoices(); mask += 1)
      sizes.add(disk.crashWith(mask).dump().get('a')?.length);
    expect(sizes).toEqual(new Set([10, 20]));
  });

  test('a move between folders never loses the file; both folders synced, it is moved', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      await disk.makeDirectory('to');
      await durableFile(disk, 'a', 10);
      await disk.rename('a', 'to/a');
    });
    const seen = new Set<string>();
    for (let mask = 0; mask < 2 ** disk.pendingChoices(); mask += 1)
      seen.add([...disk.crashWith(mask).dump().keys()].join(' '));
    expect([...seen].toSorted()).toEqual(['a', 'a to/a', 'to/a']);
    await scheduler.drive(() => disk.syncDirectory(''));
    expect([...disk.dumpDurable().keys()]).toEqual(['to/a']);
  });

  test('a moved directory has one name in every outcome, and one sync of either folder settles both', async () => {
    for (const folder of ['', 'to']) {
      const { scheduler, disk } = bench();
      await scheduler.drive(async () => {
        await disk.makeDirectory('to');
        await disk.makeDirectory('d');
        await (await disk.open('d/f', 'create')).sync();
        await disk.syncDirectory('d');
        await disk.syncDirectory('');
        await disk.rename('d', 'to/d');
      });
      const seen = new Set<string>();
      for (let mask = 0; mask < 2 ** disk.pendingChoices(); mask += 1)
        seen.add([...disk.crashWith(mask).dump().keys()].join(' '));
      expect(seen).toEqual(new Set(['d/f', 'to/d/f']));
      await scheduler.drive(() => disk.syncDirectory(folder));
      expect([...disk.dumpDurable().keys()]).toEqual(['to/d/f']);
    }
  });

  test('operations on one name survive in order: a removal never without what it removed', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      for (const path of ['a', 'b']) {
        await (await disk.open(path, 'create')).close();
        await disk.unlink(path);
        await (await disk.open(path, 'create')).close();
      }
    });
    expect(disk.pendingOperations()).toEqual(['link a', 'unlink a', 'link a', 'link b', 'unlink b', 'link b']);
    const seen = new Set<string>();
    for (let mask = 0; mask < 2 ** disk.pendingChoices(); mask += 1)
      seen.add([...disk.crashWith(mask).dump().keys()].join(' '));
    expect([...seen].toSorted()).toEqual(['', 'a', 'a b', 'b']);
    // The last link of `a` without its removal before it is not a state.
    expect([...disk.crashWith(0b000_100).dump().keys()]).toEqual([]);
  });

  test('an unlinked file comes back when the removal is lost', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      await durableFile(disk, 'a', 10);
      await disk.unlink('a');
      expect([...disk.dump().keys()]).toEqual([]);
      expect([...disk.dumpDurable().keys()]).toEqual(['a']);
      await disk.syncDirectory('');
      expect([...disk.dumpDurable().keys()]).toEqual([]);
    });
  });
});

describe('SimDisk, ends of processes', () => {
  test('after crash the old view is dead and its promises never settle', async () => {
    const { scheduler, disk } = bench();
    const file = await scheduler.drive(() => durableFile(disk, 'a', 10));
    let settled = false;
    file.sync().then(
      () => {
        settled = true;
      },
      () => {
        settled = true;
      },
    );
    const next = disk.crash('lose-all');
    await scheduler.run(scheduler.nowMs + 1000);
    expect(settled).toBe(false);
    expect(() => {
      file.write(filled(1, 1), at(0));
    }).toThrow(SimCrash);
    expect(next.dump().get('a')).toEqual(filled(10, 1));
  });

  test('kill keeps the page cache, drops locks, and a later power cut still loses what is pending', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 10);
      file.write(filled(10, 2), at(10));
      await disk.lock('lock');
      expect(await kindOf(() => disk.secondProcess().lock('lock'))).toBe('locked');
      const next = disk.kill();
      await next.lock('lock');
      expect(next.dump().get('a')?.length).toBe(20);
      expect(next.fork('lose-all').dump().get('a')?.length).toBe(10);
    });
  });

  test('onBoundary numbers every change, before it takes effect', async () => {
    const { scheduler, disk } = bench();
    const seen: string[] = [];
    disk.onBoundary = (number, operation, path) => {
      seen.push(`${String(number)} ${operation} ${path} ${String(disk.dump().size)}`);
    };
    await scheduler.drive(() => durableFile(disk, 'a', 10));
    expect(seen).toEqual(['1 open a 0', '2 write a 1', '3 sync a 1', '4 syncdir  1']);
    expect(disk.boundaryCount).toBe(4);
  });

  test('retire in onBoundary stops the work there', async () => {
    const { scheduler, disk } = bench();
    disk.onBoundary = (number) => {
      if (number === 3) disk.retire();
    };
    await expect(scheduler.drive(() => durableFile(disk, 'a', 10))).rejects.toThrow('nothing left to happen');
    expect(disk.pendingOperations()).toEqual(['link a', 'grow a to 10', 'write a [0, +10)']);
  });

  test('load and dump carry a directory over', () => {
    const scheduler = new Scheduler({ seed: 1 });
    const files = new Map([
      ['a/b', filled(10, 1)],
      ['c', filled(0, 0)],
    ]);
    const disk = SimDisk.load(scheduler, files);
    expect(disk.pendingChoices()).toBe(0);
    expect(disk.crash('lose-all').dump()).toEqual(files);
  });
});

describe('SimDisk, faults', () => {
  test('no-space writes the prefix that fits, and room comes back by unlink', async () => {
    const { scheduler, disk } = bench(1, { capacityBytes: 100 });
    await scheduler.drive(async () => {
      const file = await disk.open('a', 'create');
      expect(() => {
        file.write(filled(150, 1), at(0));
      }).toThrow('no space');
      expect(await file.size()).toBe(100);
      expect((await disk.space()).freeBytes).toBe(0);
      file.write(filled(100, 2), at(0));
      const other = await disk.open('b', 'create');
      expect(await kindOf(() => other.allocate(at(0), 1))).toBe('no-space');
      await disk.unlink('a');
      await other.allocate(at(0), 60);
      expect((await disk.space()).freeBytes).toBe(40);
      disk.setCapacity(200);
      expect((await disk.space()).freeBytes).toBe(140);
    });
  });

  test('faults hit the nth matching operation, once, and print themselves', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'x.log', 0);
      disk.inject({ operation: 'write', path: /\.log$/, nth: 2, kind: 'io', writtenBytes: 3 });
      disk.inject({ operation: 'write', path: 'other', kind: 'io' });
      expect(disk.faults.list()).toEqual(['write /\\.log$/ #2 fails with io', 'write other #1 fails with io']);
      file.write(filled(10, 1), at(0));
      expect(await kindOf(async () => file.write(filled(10, 2), at(10)))).toBe('io');
      expect(await file.size()).toBe(13);
      file.write(filled(10, 3), at(10));
    });
  });

  test('a stall takes its time and nothing else', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 10);
      disk.inject({ operation: 'sync', stallMs: 5000 });
      const from = scheduler.nowMs;
      await file.sync();
      expect(scheduler.nowMs - from).toBeGreaterThanOrEqual(5000);
      const before = scheduler.nowMs;
      await file.sync();
      expect(scheduler.nowMs - before).toBeLessThan(10);
    });
  });

  test('too many open files, and room again after close', async () => {
    const { scheduler, disk } = bench(1, { openFilesMax: 1 });
    await scheduler.drive(async () => {
      const file = await disk.open('a', 'create');
      expect(await kindOf(() => disk.open('b', 'create'))).toBe('too-many-files');
      await file.close();
      await disk.open('b', 'create');
    });
  });

  test('a read-only disk refuses every change', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 10);
      disk.setReadOnly(true);
      for (const work of [
        () => disk.open('b', 'create'),
        () => disk.unlink('a'),
        () => disk.rename('a', 'b'),
        () => disk.makeDirectory('d'),
        () => file.truncate(0),
      ]) {
        expect(await kindOf(work)).toBe('read-only');
      }
      expect(await file.read(filled(10, 0), at(0))).toBe(10);
    });
  });

  test('a broken sector fails reads and populate that touch it, and only those', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 2048);
      disk.breakSector('a', 600);
      const mapping = file.map(2048);
      expect(await kindOf(() => file.read(filled(10, 0), at(1000)))).toBe('io');
      expect(await file.read(filled(512, 0), at(1024))).toBe(512);
      expect(await kindOf(() => mapping.populate(at(0), 2048))).toBe('io');
      expect(() => mapping.slice(at(512), 1)).toThrow('SIGBUS');
      expect(disk.fork('lose-all').dump().has('a')).toBe(true);
    });
  });

  test('a flipped bit shows now and after a power cut', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(() => durableFile(disk, 'a', 10));
    disk.flipBit('a', 17);
    expect(disk.dump().get('a')?.[2]).toBe(1 ^ 2);
    expect(disk.fork('lose-all').dump().get('a')?.[2]).toBe(1 ^ 2);
  });
});

describe('SimMapping', () => {
  test('slices and mappings are counted until they are given back', async () => {
    const { scheduler, disk } = bench();
    const file = await scheduler.drive(() => durableFile(disk, 'a', 100));
    const mapping = file.map(100);
    const slice = mapping.slice(at(0), 10);
    expect(disk.liveSlices).toBe(1);
    slice.release();
    expect([disk.liveSlices, disk.liveMappings]).toEqual([0, 1]);
    mapping.unmap();
    expect(disk.liveMappings).toBe(0);
  });

  test('touching beyond the end asserts, and so does truncating under a slice', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 100);
      const mapping = file.map(4096);
      expect(() => mapping.slice(at(50), 51)).toThrow('SIGBUS');
      const slice = mapping.slice(at(50), 50);
      await expect(file.truncate(80)).rejects.toThrow('SIGBUS');
      slice.release();
      await file.truncate(80);
    });
  });

  test('pages are resident until evicted and after populate', async () => {
    const { scheduler, disk } = bench();
    await scheduler.drive(async () => {
      const file = await durableFile(disk, 'a', 10_000);
      const mapping = file.map(10_000);
      expect(mapping.resident(at(0), 10_000)).toBe(true);
      disk.evictAll();
      expect(mapping.resident(at(0), 1)).toBe(false);
      mapping.slice(at(0), 1).release();
      expect(disk.blockingTouches).toBe(1);
      expect(mapping.resident(at(0), 4097)).toBe(false);
      await mapping.populate(at(4096), 10);
      expect(mapping.resident(at(0), 8192)).toBe(true);
      expect(mapping.resident(at(0), 8193)).toBe(false);
    });
  });
});

describe('SimDisk, determinism', () => {
  async function story(seed: number): Promise<string> {
    const { scheduler, disk } = bench(seed);
    await scheduler.drive(async () => {
      const files = await Promise.all(['a', 'b', 'c'].map((path) => disk.open(path, 'create')));
      await Promise.all(
        files.map(async (file, index) => {
          for (let round = 0; round < 10; round += 1) {
            file.write(filled(700, index + 1), at(round * 700));
            await file.sync();
          }
        }),
      );
      files[0]?.write(filled(2000, 9), at(0));
    });
    const after = disk.crash('random').dump();
    return `${scheduler.traceHash()} ${JSON.stringify([...after].map(([path, bytes]) => [path, bytes.join()]))}`;
  }

  test('same seed, same trace and same survivors; another seed, another trace', async () => {
    expect(await story(5)).toBe(await story(5));
    expect(await story(5)).not.toBe(await story(6));
  });
});
