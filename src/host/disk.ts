import * as fs from 'node:fs';
import * as path from 'node:path';
import { assert } from '../base/assert.ts';
import {
  DiskError,
  type DirectoryEntry,
  type Disk,
  type DiskFile,
  type DiskLock,
  type DiskOperation,
  type DiskSpace,
  type OpenMode,
} from '../ports/disk.ts';
import type { NativeAddon } from './addon.ts';
import { diskErrorOf, errnoOf } from './disk-errors.ts';
import { fsCall, HostFile, type FileDeps } from './disk-file.ts';
import { diskLanes } from './lanes.ts';

export interface DiskOptions {
  /** UV_THREADPOOL_SIZE of this process; 4 where it is not set. */
  readonly poolThreads?: number;
  readonly populateByRead?: boolean;
}

const POOL_THREADS_DEFAULT = 4;
const DIRECTORY_MODE = 0o750;
const FILE_MODE = 0o640;
const LOCK_ATTEMPTS_MAX = 8;

const FLAGS: Readonly<Record<OpenMode, number>> = {
  read: fs.constants.O_RDONLY,
  write: fs.constants.O_RDWR,
  create: fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_EXCL,
};

/** The directory at `root`, which `makeDirectory('')` creates when it is missing. Does nothing yet. */
export function openDisk(root: string, addon: NativeAddon, options: DiskOptions = {}): Disk {
  const lanes = diskLanes(options.poolThreads ?? POOL_THREADS_DEFAULT);
  return new HostDisk(path.resolve(root), { addon, lanes, populateByRead: options.populateByRead ?? false });
}

class HostDisk implements Disk {
  private readonly root: string;
  private readonly deps: FileDeps;
  constructor(root: string, deps: FileDeps) {
    this.root = root;
    this.deps = deps;
  }
  async open(relative: string, mode: OpenMode): Promise<DiskFile> {
    const fd = await this.call('open', relative, () => openFd(this.absolute(relative), FLAGS[mode]));
    return new HostFile(this.deps, relative, fd, mode);
  }
  async makeDirectory(relative: string): Promise<void> {
    const absolute = this.absolute(relative);
    const first = await this.call('mkdir', relative, () =>
      fsCall<string>((done) => {
        fs.mkdir(absolute, { recursive: true, mode: DIRECTORY_MODE }, done);
      }),
    );
    // Nobody can name the folders above the root, so their durability is seen to here.
    if (first !== undefined) await this.syncAboveRoot(first);
  }
  async readDirectory(relative: string): Promise<readonly DirectoryEntry[]> {
    const absolute = this.absolute(relative);
    const entries = await this.call('readdir', relative, () =>
      fsCall<fs.Dirent[]>((done) => {
        fs.readdir(absolute, { withFileTypes: true }, done);
      }),
    );
    return (entries ?? [])
      .map((entry): DirectoryEntry => ({
        name: entry.name,
        kind: entry.isFile() ? 'file' : entry.isDirectory() ? 'directory' : 'other',
      }))
      .sort((left, right) => (left.name < right.name ? -1 : 1));
  }
  async rename(from: string, to: string): Promise<void> {
    const [source, target] = [this.absolute(from), this.absolute(to)];
    await this.call('rename', from, () =>
      fsCall((done) => {
        fs.rename(source, target, done);
      }),
    );
  }
  async unlink(relative: string): Promise<void> {
    const absolute = this.absolute(relative);
    // Some 60 ms for a cached GiB: never a reason to hold up a sync.
    await this.call('unlink', relative, () =>
      this.deps.lanes.bulk.run(() =>
        fsCall((done) => {
          fs.unlink(absolute, done);
        }),
      ),
    );
  }
  async removeDirectory(relative: string): Promise<void> {
    const absolute = this.absolute(relative);
    await this.call('unlink', relative, () =>
      fsCall((done) => {
        fs.rmdir(absolute, done);
      }),
    );
  }
  async syncDirectory(relative: string): Promise<void> {
    const absolute = this.absolute(relative);
    await this.call('syncdir', relative, () => this.deps.lanes.sync.run(() => syncFolder(absolute)));
  }
  async exists(relative: string): Promise<boolean> {
    const absolute = this.absolute(relative);
    try {
      await fsCall<fs.Stats>((done) => {
        fs.lstat(absolute, done);
      });
      return true;
    } catch (error) {
      const mapped = diskErrorOf(error, 'stat', relative);
      if (mapped.kind === 'not-found') return false;
      throw mapped;
    }
  }
  async space(): Promise<DiskSpace> {
    const stats = await this.call('stat', '', () =>
      fsCall<fs.StatsFs>((done) => {
        fs.statfs(this.root, done);
      }),
    );
    assert(stats !== undefined, 'statfs answers with figures');
    return { freeBytes: stats.bavail * stats.bsize, totalBytes: stats.blocks * stats.bsize };
  }
  async lock(relative: string): Promise<DiskLock> {
    const absolute = this.absolute(relative);
    const fd = await this.call('lock', relative, () => lockFile(absolute, relative, this.deps.addon));
    let held = true;
    return {
      release: async () => {
        if (!held) return;
        held = false;
        await this.call('close', relative, () => closeFd(fd));
      },
    };
  }
  private absolute(relative: string): string {
    if (relative === '') return this.root;
    const parts = relative.split('/');
    const fine = parts.every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0'));
    assert(fine, `not a path inside the data directory: ${JSON.stringify(relative)}`);
    return path.join(this.root, ...parts);
  }
  private async call<Value>(operation: DiskOperation, relative: string, work: () => Promise<Value>): Promise<Value> {
    try {
      return await work();
    } catch (error) {
      throw diskErrorOf(error, operation, relative);
    }
  }
  private async syncAboveRoot(firstCreated: string): Promise<void> {
    if (this.root !== firstCreated && !this.root.startsWith(firstCreated + path.sep)) return;
    const top = path.dirname(firstCreated);
    for (let folder = path.dirname(this.root); folder.length >= top.length; folder = path.dirname(folder)) {
      const held = folder;
      await this.call('syncdir', '', () => this.deps.lanes.sync.run(() => syncFolder(held)));
      // The topmost folder is its own parent.
      if (folder === path.dirname(folder)) return;
    }
  }
}

async function openFd(absolute: string, flags: number): Promise<number> {
  const fd = await fsCall<number>((done) => {
    fs.open(absolute, flags, FILE_MODE, done);
  });
  assert(fd !== undefined, 'open answers with a descriptor');
  return fd;
}

async function closeFd(fd: number): Promise<void> {
  await fsCall((done) => {
    fs.close(fd, done);
  });
}

async function syncFolder(absolute: string): Promise<void> {
  const fd = await openFd(absolute, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  try {
    await fsCall((done) => {
      fs.fsync(fd, done);
    });
  } finally {
    await closeFd(fd);
  }
}

/** Locks the file that the name means: another process may have replaced it between our open and our lock. */
async function lockFile(absolute: string, relative: string, addon: NativeAddon): Promise<number> {
  for (let attempt = 0; attempt < LOCK_ATTEMPTS_MAX; attempt += 1) {
    const fd = await openFd(absolute, fs.constants.O_RDWR | fs.constants.O_CREAT);
    try {
      addon.lock(fd);
      if (isNamed(absolute, fd)) {
        nameHolder(fd);
        return fd;
      }
    } catch (error) {
      const holder = readHolder(fd);
      await closeFd(fd);
      if (errnoOf(error) !== 'EAGAIN') throw error;
      throw new DiskError(
        'locked',
        'lock',
        relative,
        holder === undefined ? 'another process holds it' : `process ${holder} holds it`,
        error,
      );
    }
    await closeFd(fd);
  }
  throw new DiskError('locked', 'lock', relative, 'the lock file is being replaced all the time');
}

function isNamed(absolute: string, fd: number): boolean {
  const ours = fs.fstatSync(fd);
  const named = fs.statSync(absolute, { throwIfNoEntry: false });
  return named?.ino === ours.ino && named.dev === ours.dev;
}

/** Only for the message that a second process prints: a full disk is no reason not to start. */
function nameHolder(fd: number): void {
  try {
    fs.ftruncateSync(fd, 0);
    fs.writeSync(fd, `${String(process.pid)}\n`, 0);
  } catch (error) {
    if (diskErrorOf(error, 'lock', 'lock').kind !== 'no-space') throw error;
  }
}

function readHolder(fd: number): string | undefined {
  try {
    const bytes = Buffer.alloc(32);
    const text = bytes.toString('latin1', 0, fs.readSync(fd, bytes, 0, bytes.length, 0)).trim();
    return /^\d+$/.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}
