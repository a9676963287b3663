// Small files written whole: the old content or the new one is there after a crash, never a mixture.
import { position } from '../base/brands.ts';
import type { Disk } from '../ports/disk.ts';
import { isNotFound } from './health.ts';

/**
 * Replaces `path`. The content is durable before the name changes; the name is after `syncDirectory` by the caller. On an error
 * the old content stays, and no half-written file takes up room.
 */
export async function writeSmallFile(disk: Disk, path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.tmp`;
  await unlinkIfThere(disk, temporary);
  try {
    const file = await disk.open(temporary, 'create');
    try {
      if (bytes.length > 0) await file.writeSlow(bytes, position(0));
      await file.sync();
    } finally {
      await file.close();
    }
    await disk.rename(temporary, path);
  } catch (error) {
    await unlinkIfThere(disk, temporary).catch(() => false);
    throw error;
  }
}

/** Undefined: there is no such file, or it is larger than `bytesMax`. */
export async function readSmallFile(disk: Disk, path: string, bytesMax: number): Promise<Uint8Array | undefined> {
  let file;
  try {
    file = await disk.open(path, 'read');
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
  try {
    const size = await file.size();
    if (size > bytesMax) return undefined;
    const bytes = new Uint8Array(size);
    const got = size === 0 ? 0 : await file.read(bytes, position(0));
    return bytes.subarray(0, got);
  } finally {
    await file.close();
  }
}

export async function unlinkIfThere(disk: Disk, path: string): Promise<boolean> {
  try {
    await disk.unlink(path);
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
