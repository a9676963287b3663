// Native parts of the single executable. The system loads shared objects only from files, so each part is written once to a
// private folder and loaded from there. A file found there is used only if it holds exactly the bytes we carry.
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { CommandError } from './failure.ts';

export const NATIVE_DIR_VARIABLE = 'RIVULET_NATIVE_DIR';

export interface NativeSource {
  /** Bytes of a part by its asset name (`rivulet.node`, …). */
  asset(name: string): Uint8Array;
  /** Content hash of a part, in hex: part of the file's name, so that versions do not meet. */
  hash(name: string): string;
}

interface Part {
  readonly path: string;
  readonly exports: unknown;
}

/** Loads parts by name; each is loaded once. Throws CommandError that names every folder that was tried, and why not. */
export class NativeAssets {
  readonly #source: NativeSource;
  readonly #loaded = new Map<string, Part>();
  #folder: string | undefined;

  constructor(source: NativeSource) {
    this.#source = source;
  }

  load(name: string): unknown {
    return this.#part(name).exports;
  }

  /** Where the part was unpacked; it has been loaded from there. */
  path(name: string): string {
    return this.#part(name).path;
  }

  #part(name: string): Part {
    const known = this.#loaded.get(name);
    if (known !== undefined) return known;
    const part = this.#folder === undefined ? this.#loadAnywhere(name) : loadFrom(this.#folder, name, this.#source);
    this.#loaded.set(name, part);
    return part;
  }

  #loadAnywhere(name: string): Part {
    const refusals: string[] = [];
    for (const folder of candidates()) {
      try {
        const part = loadFrom(folder, name, this.#source);
        this.#folder = folder;
        return part;
      } catch (error) {
        refusals.push(`${folder}: ${error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)}`);
      }
    }
    throw new CommandError(
      `no folder for the native parts of this executable could be used:\n    ${refusals.join('\n    ')}`,
      `Name one that you own, can write to, and that is not mounted noexec: ${NATIVE_DIR_VARIABLE}=/some/folder rivulet …   (or --native-dir /some/folder)`,
    );
  }
}

function candidates(): readonly string[] {
  const named = process.env[NATIVE_DIR_VARIABLE];
  if (named !== undefined && named !== '') return [named];
  const owner = `rivulet-${String(process.getuid?.() ?? 0)}`;
  const { XDG_CACHE_HOME: cache, XDG_RUNTIME_DIR: runtime } = process.env;
  return [
    ...(cache === undefined || cache === '' ? [] : [join(cache, 'rivulet')]),
    ...(homedir() === '' ? [] : [join(homedir(), '.cache', 'rivulet')]),
    ...(runtime === undefined || runtime === '' ? [] : [join(runtime, 'rivulet')]),
    join(tmpdir(), owner),
    join('/var/tmp', owner),
    join('/dev/shm', owner),
    join(dirname(process.execPath), '.rivulet-native'),
  ];
}

function loadFrom(folder: string, name: string, source: NativeSource): Part {
  privateFolder(folder);
  const path = join(folder, `${source.hash(name).slice(0, 16)}-${name}`);
  const bytes = source.asset(name);
  if (!holds(path, bytes)) replace(path, bytes);
  const module = { exports: {} as unknown };
  process.dlopen(module, path);
  return { path, exports: module.exports };
}

/** Ours alone: in a shared folder such as /tmp somebody else could have made it first. */
function privateFolder(folder: string): void {
  makeFolders(folder);
  const facts = lstatSync(folder);
  if (!facts.isDirectory()) throw new Error('not a folder');
  const uid = process.getuid?.();
  if (uid !== undefined && facts.uid !== uid) throw new Error('belongs to another user');
  if ((facts.mode & 0o022) !== 0) throw new Error('others may write to it');
}

/** Level by level: the recursive form of Node never returns where a parent refuses with ENOENT, as below /proc. */
function makeFolders(folder: string): void {
  const missing: string[] = [];
  for (let path = folder; !existsSync(path) && dirname(path) !== path; path = dirname(path)) missing.push(path);
  for (const path of missing.reverse()) {
    try {
      mkdirSync(path, { mode: 0o700 });
    } catch (error) {
      // Another process that starts at the same time was quicker.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

function holds(path: string, bytes: Uint8Array): boolean {
  try {
    return lstatSync(path).isFile() && readFileSync(path).equals(bytes);
  } catch {
    return false;
  }
}

/** By a name of its own and a rename: another process that starts at the same time sees a whole file or none. */
function replace(path: string, bytes: Uint8Array): void {
  const temporary = `${path}.${String(process.pid)}.tmp`;
  const file = openSync(
    temporary,
    constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW,
    0o700,
  );
  try {
    for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at);
    fchmodSync(file, 0o700);
  } finally {
    closeSync(file);
  }
  try {
    renameSync(temporary, path);
  } catch (error) {
    unlinkSync(temporary);
    throw error;
  }
}
