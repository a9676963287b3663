// What segtool works over on a real machine: the disk at the root of the data directory, and the path within it.
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import process from 'node:process';
import { loadAddon } from '../host/addon.ts';
import { bootClock } from '../host/clock.ts';
import { openDisk } from '../host/disk.ts';
import { crc32c } from '../platform/checksum.ts';
import { compression } from '../platform/compression.ts';
import type { Disk } from '../ports/disk.ts';
import type { ToolDeps } from '../segtool/tool.ts';
import { Progress } from './segtool-progress.ts';

export interface OpenedPath {
  readonly deps: ToolDeps;
  readonly root: string;
  /** Within the root, with '/'; '' is the root itself. */
  readonly path: string;
  /** A broker seems to be running there. */
  readonly isLive: boolean;
  readonly progress: Progress;
}

const LEVELS_UP = 4;

/** The data directory that holds the path; a copy of a topic or partition elsewhere is its own root. */
export function openPath(given: string, addonPath: () => string, showProgress: boolean): OpenedPath {
  const absolute = resolve(given);
  const isFile = statSync(absolute, { throwIfNoEntry: false })?.isFile() === true;
  const folder = isFile ? dirname(absolute) : absolute;
  const root = dataDirectory(folder) ?? folder;
  const addon = loadAddon(addonPath());
  const progress = new Progress(showProgress);
  const disk: Disk = openDisk(root, addon);
  const deps: ToolDeps = {
    disk,
    clock: bootClock(addon),
    crc32c,
    compression,
    progress: (bytes) => {
      progress.add(bytes);
    },
  };
  return { deps, root, path: relative(root, absolute).split(sep).join('/'), isLive: isLive(root), progress };
}

function dataDirectory(folder: string): string | undefined {
  let at = folder;
  for (let level = 0; level <= LEVELS_UP; level += 1) {
    if (existsSync(join(at, 'store.json')) || existsSync(join(at, 'superblock')) || existsSync(join(at, 'topics')))
      return at;
    at = dirname(at);
  }
  return undefined;
}

/** The holder of the lock writes its process id into it. The lock itself is not touched: that could stop a broker's start. */
function isLive(root: string): boolean {
  try {
    const fd = openSync(join(root, 'lock'), 'r');
    const bytes = Buffer.alloc(32);
    const text = bytes.toString('latin1', 0, readSync(fd, bytes, 0, bytes.length, 0)).trim();
    closeSync(fd);
    return /^\d+$/.test(text) && Number(text) !== process.pid && isRunning(Number(text));
  } catch {
    return false;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
