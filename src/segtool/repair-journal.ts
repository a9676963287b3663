// A repair as it is recorded before it is done: which files it replaces, adds and takes out. Everything new is complete and
// durable before the record is, and every step after it can be done again: what was interrupted is finished by the next run.
//
//   quarantine/repair-<4 digits>/journal.json   the record; a directory without one is a repair that never began
//   quarantine/repair-<4 digits>/new/<n>        what will be put in place
//   quarantine/repair-<4 digits>/old/<n>        what was there
//   quarantine/repair-<4 digits>/undone/<n>     after undo: what the repair had put in place
import { position } from '../base/brands.ts';
import { utf8Decode, utf8Encode } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import type { Disk } from '../ports/disk.ts';
import { QUARANTINE_DIRECTORY } from '../storage/quarantine.ts';
import { readSmallFile, writeSmallFile } from '../storage/small-file.ts';
import type { ToolDeps } from './tool.ts';

export interface FileState {
  readonly bytes: number;
  readonly crc32c: string;
}

export interface Change {
  readonly path: string;
  /** What is there before; undefined: nothing. */
  readonly before: FileState | undefined;
  /** What is there afterwards; undefined: nothing. */
  readonly after: FileState | undefined;
  readonly why: string;
}

export type RepairState = 'planned' | 'done' | 'undoing' | 'undone';

export interface Journal {
  readonly id: string;
  readonly state: RepairState;
  readonly atMs: number;
  readonly changes: readonly Change[];
  readonly lost: readonly { readonly log: string; readonly from: number; readonly to: number }[];
}

const NAME = /^repair-(\d{4,})$/;
const JOURNAL_BYTES_MAX = 256 * 1024 * 1024;

export function repairDirectory(id: string): string {
  return `${QUARANTINE_DIRECTORY}/${id}`;
}

export async function repairIds(disk: Disk): Promise<readonly string[]> {
  if (!(await disk.exists(QUARANTINE_DIRECTORY))) return [];
  const entries = await disk.readDirectory(QUARANTINE_DIRECTORY);
  return entries.filter(({ kind, name }) => kind === 'directory' && NAME.test(name)).map(({ name }) => name);
}

export async function readJournal(deps: ToolDeps, id: string): Promise<Journal | undefined> {
  const bytes = await readSmallFile(deps.disk, `${repairDirectory(id)}/journal.json`, JOURNAL_BYTES_MAX);
  if (bytes === undefined) return undefined;
  try {
    const whole: unknown = JSON.parse(utf8Decode(bytes));
    if (typeof whole !== 'object' || whole === null || !('journal' in whole) || !('crc32c' in whole)) return undefined;
    const text = JSON.stringify(whole.journal);
    return checksum(utf8Encode(text), deps.crc32c) === whole.crc32c && isJournal(whole.journal)
      ? whole.journal
      : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/** Under its checksum: only this program can have written it. */
function isJournal(value: unknown): value is Journal {
  return (
    typeof value === 'object' &&
    value !== null &&
    'state' in value &&
    'changes' in value &&
    Array.isArray(value.changes)
  );
}

/** Durable, name too, when it resolves. */
export async function writeJournal(deps: ToolDeps, journal: Journal): Promise<void> {
  const directory = repairDirectory(journal.id);
  const crc = checksum(utf8Encode(JSON.stringify(journal)), deps.crc32c);
  await writeSmallFile(
    deps.disk,
    `${directory}/journal.json`,
    utf8Encode(`${JSON.stringify({ journal, crc32c: crc })}\n`),
  );
  await deps.disk.syncDirectory(directory);
}

export function checksum(bytes: Uint8Array, crc32c: Crc32c): string {
  return crc32c(bytes).toString(16).padStart(8, '0');
}

export async function unfinishedRepairs(deps: ToolDeps): Promise<readonly string[]> {
  const unfinished: string[] = [];
  for (const id of await repairIds(deps.disk)) {
    const journal = await readJournal(deps, id);
    if (journal?.state === 'planned' || journal?.state === 'undoing') unfinished.push(repairDirectory(id));
  }
  return unfinished;
}

const PIECE_BYTES = 1024 * 1024;

/** Undefined: there is no such file. */
export async function stateOf(deps: ToolDeps, path: string): Promise<FileState | undefined> {
  if (!(await deps.disk.exists(path))) return undefined;
  const file = await deps.disk.open(path, 'read');
  try {
    const bytes = await file.size();
    const buffer = new Uint8Array(Math.min(PIECE_BYTES, Math.max(1, bytes)));
    let crc = 0;
    for (let at = 0; at < bytes;) {
      const got = await file.read(buffer.subarray(0, Math.min(buffer.length, bytes - at)), position(at));
      if (got === 0) break;
      crc = deps.crc32c(buffer.subarray(0, got), crc);
      at += got;
    }
    return { bytes, crc32c: crc.toString(16).padStart(8, '0') };
  } finally {
    await file.close();
  }
}
