// Every byte that recovery, truncation or repair takes out of a log goes here first, with a note that says whence and why.
import { position } from '../base/brands.ts';
import { utf8Encode } from '../base/bytes.ts';
import type { Disk, DiskFile } from '../ports/disk.ts';
import type { StorageDeps } from './config.ts';
import { isPressure } from './health.ts';
import { unlinkIfThere, writeSmallFile } from './small-file.ts';

export const QUARANTINE_DIRECTORY = 'quarantine';
const COPY_BYTES = 1024 * 1024;

export interface QuarantineNote {
  /** Path of the file the bytes were in, relative to the data directory. */
  readonly from: string;
  readonly position: number;
  readonly bytes: number;
  readonly reason: string;
  readonly [fact: string]: string | number | boolean | undefined;
}

function quarantineName(deps: StorageDeps, from: string, at: number): string {
  const random = [...deps.random.bytes(4)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return `${QUARANTINE_DIRECTORY}/${from.replaceAll('/', '_')}-${String(at)}-${random}`;
}

async function makeQuarantine(disk: Disk): Promise<void> {
  if (await disk.exists(QUARANTINE_DIRECTORY)) return;
  await disk.makeDirectory(QUARANTINE_DIRECTORY);
  await disk.syncDirectory('');
}

/** Copies [from, to) of the file. Copy and note are durable, names too, when it resolves to the path of the copy. */
export async function quarantineBytes(
  deps: StorageDeps,
  file: DiskFile,
  from: number,
  to: number,
  reason: string,
): Promise<string> {
  await makeQuarantine(deps.disk);
  const name = quarantineName(deps, file.path, from);
  const target = await deps.disk.open(`${name}.bin`, 'create');
  try {
    const buffer = new Uint8Array(Math.min(COPY_BYTES, Math.max(1, to - from)));
    for (let at = from; at < to;) {
      const got = await file.read(buffer.subarray(0, Math.min(buffer.length, to - at)), position(at));
      if (got === 0) break;
      await target.writeSlow(buffer.slice(0, got), position(at - from));
      at += got;
    }
    await target.sync();
  } catch (error) {
    await target.close();
    // On a full disk each further try would leave one more.
    if (isPressure(error)) await deps.disk.unlink(`${name}.bin`);
    throw error;
  }
  await target.close();
  await writeNote(deps, name, { from: file.path, position: from, bytes: to - from, reason });
  return `${name}.bin`;
}

/** Moves a whole file or directory; without its note where there is no room for one. The caller syncs the folder it came from. */
export async function quarantineMove(deps: StorageDeps, path: string, reason: string, bytes: number): Promise<string> {
  await makeQuarantine(deps.disk);
  const name = quarantineName(deps, path, 0);
  await writeNote(deps, name, { from: path, position: 0, bytes, reason });
  try {
    await deps.disk.rename(path, `${name}.bin`);
  } catch (error) {
    if (isPressure(error)) await unlinkIfThere(deps.disk, `${name}.json`);
    throw error;
  }
  await deps.disk.syncDirectory(QUARANTINE_DIRECTORY);
  return `${name}.bin`;
}

async function writeNote(deps: StorageDeps, name: string, note: QuarantineNote): Promise<void> {
  const text = `${JSON.stringify({ ...note, atMs: deps.clock.wallMs() })}\n`;
  try {
    await writeSmallFile(deps.disk, `${name}.json`, utf8Encode(text));
  } catch (error) {
    // The name of the copy says where it comes from; that it is there matters more.
    if (!isPressure(error)) throw error;
    deps.telemetry.log('warn', 'quarantine.no-note', { ...note, copy: `${name}.bin` });
  }
  await deps.disk.syncDirectory(QUARANTINE_DIRECTORY);
}
