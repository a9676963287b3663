// A real disk in a folder of its own, for the tests of this directory.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { loadAddon, type NativeAddon } from '../../src/host/addon.ts';
import { openDisk, type DiskOptions } from '../../src/host/disk.ts';
import type { Disk } from '../../src/ports/disk.ts';

export const ADDON_PATH: string = path.resolve(import.meta.dirname, '../../native/build/rivulet.node');

export interface RealDisk {
  readonly disk: Disk;
  readonly root: string;
  readonly addon: NativeAddon;
  readonly remove: () => void;
}

export function realDisk(options: DiskOptions = {}): RealDisk {
  const root = mkdtempSync(path.join(tmpdir(), 'rivulet-host-'));
  const addon = loadAddon(ADDON_PATH);
  return {
    disk: openDisk(root, addon, options),
    root,
    addon,
    remove: () => {
      rmSync(root, { recursive: true, force: true });
    },
  };
}

export function patternBytes(size: number, seed = 1): Uint8Array {
  return Uint8Array.from({ length: size }, (_, index) => (index * 31 + seed * 17 + (index >>> 8)) & 0xff);
}

/** The error that the work ends with; fails the test when it does not. */
export async function failureOf(work: () => Promise<unknown>): Promise<unknown> {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error('expected a failure');
}
