import * as fs from 'node:fs/promises';
import * as path from 'node:path';
import { assert } from '../base/assert.ts';
import type { Crc32c } from '../base/checksum.ts';
import { crc32c as fastCrc32c, loadInstalled, type LoadModule } from '../platform/checksum.ts';
import type { LoadedStore, MetadataStore, StoreChange } from '../ports/metadata-store.ts';
import { errnoOf } from './disk-errors.ts';
import { checkLmdbFile } from './lmdb-check.ts';
import {
  decodeHead,
  Digest,
  encodeHead,
  entryKey,
  entryName,
  HEAD_KEY,
  openValue,
  sealValue,
  type ImageHead,
} from './lmdb-image.ts';

export interface LmdbStoreOptions {
  /** Absolute; holds nothing but the image. DATA/meta. */
  readonly folder: string;
  /** Absolute, on the same file system: where a damaged image goes. DATA/quarantine. */
  readonly quarantine: string;
  /** Where `lmdb` comes from: the installed package, or the copy of the executable. */
  readonly load?: LoadModule;
  readonly crc32c?: Crc32c;
  /** Most bytes that the image may take; address space only. */
  readonly mapBytes?: number;
}

const MAP_BYTES_DEFAULT = 1024 * 1024 * 1024;
const READERS_MAX = 16;
/** LMDB takes the page size of the system, which is 4 KiB on x64 and mostly on arm64; a fixed one can be moved. */
const PAGE_BYTES = 4096;
/**
 * A process that LMDB aborts in a later commit leaves no sign but an unclean end. After so many in a row the image is
 * set aside: it costs a rebuild at worst, and a crash loop ends by itself.
 */
const UNCLEAN_SESSIONS_MAX = 5;
const IMAGE = 'image.mdb';
/** There from before LMDB opens the file until all of it was read and a first commit was made. */
const OPENING = 'opening';
/** There while the store is in use; holds the number of unclean ends so far. */
const RUNNING = 'running';

interface Database {
  put(key: Buffer, value: Buffer): unknown;
  remove(key: Buffer): unknown;
  transaction<Value>(work: () => Value): Promise<Value>;
  getRange(options: object): Iterable<{ readonly key: Uint8Array; readonly value: Uint8Array }>;
  close(): Promise<void>;
}

function isLmdb(value: unknown): value is { open(options: object): Database } {
  return typeof value === 'object' && value !== null && 'open' in value && typeof value.open === 'function';
}

interface Image {
  readonly head: ImageHead | undefined;
  readonly entries: Map<string, Uint8Array>;
  readonly checksums: Map<string, number>;
}

class DamagedImage extends Error {}

/** The applied metadata image in LMDB. Nothing is opened before `load`. */
export function lmdbStore(options: LmdbStoreOptions): MetadataStore {
  return new LmdbStore(options);
}

class LmdbStore implements MetadataStore {
  private readonly options: LmdbStoreOptions;
  private readonly crc32c: Crc32c;
  private database: Database | undefined;
  private checksums = new Map<string, number>();
  private digest = new Digest();
  private failure: unknown;
  private uncleanSessions = 0;
  constructor(options: LmdbStoreOptions) {
    this.options = options;
    this.crc32c = options.crc32c ?? fastCrc32c;
  }

  async load(): Promise<LoadedStore> {
    assert(this.database === undefined, 'the metadata store is loaded twice');
    await fs.mkdir(this.options.folder, { recursive: true });
    const distrust = await this.reasonToDistrust();
    if (distrust !== undefined) return await this.startAnew(distrust);
    try {
      const image = await this.openImage();
      await this.markRunning();
      this.checksums = image.checksums;
      if (image.head === undefined) return { kind: 'empty' };
      this.digest = image.head.digest;
      return { kind: 'ok', appliedIndex: image.head.appliedIndex, entries: image.entries };
    } catch (error) {
      if (isPressure(error)) throw error;
      return await this.startAnew(error instanceof Error ? error.message : String(error));
    }
  }

  async apply(appliedIndex: number, changes: readonly StoreChange[]): Promise<void> {
    await this.commit((database) => {
      for (const change of changes) this.change(database, change);
      this.putHead(database, appliedIndex);
    });
  }

  async replace(appliedIndex: number, entries: ReadonlyMap<string, Uint8Array>): Promise<void> {
    await this.commit((database) => {
      for (const key of this.checksums.keys()) {
        if (!entries.has(key)) this.change(database, { key, value: undefined });
      }
      for (const [key, value] of entries) this.change(database, { key, value });
      this.putHead(database, appliedIndex);
    });
  }

  async close(): Promise<void> {
    const { database } = this;
    if (database === undefined) return;
    this.database = undefined;
    await database.close();
    if (this.failure === undefined) await fs.rm(this.file(RUNNING), { force: true });
  }

  private async commit(work: (database: Database) => void): Promise<void> {
    const { database } = this;
    assert(database !== undefined, 'the metadata store is not open');
    // After a failed commit LMDB may show values that are not on the disk; nothing may be built on them.
    assert(this.failure === undefined, 'the metadata store is used after a commit failed');
    try {
      await database.transaction(() => {
        work(database);
      });
    } catch (error) {
      this.failure = error;
      muteCommitError(error);
      throw error;
    }
  }

  private change(database: Database, { key, value }: StoreChange): void {
    const name = entryKey(key);
    const before = this.checksums.get(key);
    if (before !== undefined) this.digest.remove(before);
    if (value === undefined) {
      this.checksums.delete(key);
      if (before !== undefined) database.remove(name);
      return;
    }
    const sealed = sealValue(this.crc32c, name, value);
    this.checksums.set(key, sealed.crc);
    this.digest.add(sealed.crc);
    database.put(name, sealed.bytes);
  }

  private putHead(database: Database, appliedIndex: number): void {
    const head = encodeHead({ appliedIndex, entryCount: this.checksums.size, digest: this.digest });
    database.put(HEAD_KEY, sealValue(this.crc32c, HEAD_KEY, head).bytes);
  }

  /** What speaks against handing the file to LMDB at all; undefined for a sound or a missing one. */
  private async reasonToDistrust(): Promise<string | undefined> {
    if (await isThere(this.file(OPENING))) return 'the last start ended while it opened the image';
    this.uncleanSessions = await readCount(this.file(RUNNING));
    if (this.uncleanSessions >= UNCLEAN_SESSIONS_MAX) return `${String(this.uncleanSessions)} unclean ends in a row`;
    let bytes: Buffer;
    try {
      bytes = await fs.readFile(this.file(IMAGE));
    } catch (error) {
      // An unreadable sector is met here, by read, and not as a signal inside LMDB.
      return errnoOf(error) === 'ENOENT' ? undefined : `the image cannot be read: ${String(error)}`;
    }
    if (bytes.length > this.mapBytes()) return 'the image is larger than its limit';
    return checkLmdbFile(bytes, PAGE_BYTES);
  }

  private async openImage(): Promise<Image> {
    await fs.writeFile(this.file(OPENING), '');
    const lmdb = (this.options.load ?? loadInstalled)('lmdb');
    assert(isLmdb(lmdb), 'lmdb has not the functions that are needed');
    // overlappingSync would confirm commits whose meta page never reached the disk; safeRestore trusts only what did.
    const database = lmdb.open({
      path: this.file(IMAGE),
      noSubdir: true,
      overlappingSync: false,
      safeRestore: true,
      mapSize: this.mapBytes(),
      maxReaders: READERS_MAX,
      pageSize: PAGE_BYTES,
      encoding: 'binary',
      keyEncoding: 'binary',
      cache: false,
      compression: false,
      noMemInit: false,
      eventTurnBatching: true,
    });
    try {
      const image = this.readImage(database);
      // The first commit reads the free list: better here, under the marker, than in the middle of work.
      if (image.head !== undefined)
        await database.transaction(() => database.put(HEAD_KEY, this.sealedHead(image.head)));
      this.database = database;
      await fs.rm(this.file(OPENING));
      return image;
    } catch (error) {
      muteCommitError(error);
      this.database = undefined;
      await database.close();
      throw error;
    }
  }

  private sealedHead(head: ImageHead | undefined): Buffer {
    assert(head !== undefined, 'there is a head');
    return sealValue(this.crc32c, HEAD_KEY, encodeHead(head)).bytes;
  }

  private readImage(database: Database): Image {
    const image = {
      head: undefined as ImageHead | undefined,
      entries: new Map<string, Uint8Array>(),
      checksums: new Map<string, number>(),
    };
    const digest = new Digest();
    for (const { key, value } of database.getRange({})) {
      const opened = openValue(this.crc32c, key, value);
      if (opened === undefined) throw new DamagedImage('a value does not match its checksum');
      if (HEAD_KEY.equals(key)) {
        image.head = decodeHead(opened.value);
        if (image.head === undefined) throw new DamagedImage('the head record has another shape');
        continue;
      }
      const name = entryName(key);
      if (name === undefined || image.entries.has(name))
        throw new DamagedImage('a key that is not an entry, or is there twice');
      image.entries.set(name, opened.value);
      image.checksums.set(name, opened.crc);
      digest.add(opened.crc);
    }
    if (image.head === undefined && image.entries.size > 0) throw new DamagedImage('the head record is missing');
    if (
      image.head !== undefined &&
      (image.head.entryCount !== image.entries.size || !image.head.digest.equals(digest))
    ) {
      throw new DamagedImage('entries are missing or stale');
    }
    return image;
  }

  private async startAnew(reason: string): Promise<LoadedStore> {
    const movedTo = await this.setAside(reason);
    await fs.mkdir(this.options.folder, { recursive: true });
    this.uncleanSessions = 0;
    await this.openImage();
    await this.markRunning();
    return { kind: 'damaged', reason, movedTo };
  }

  private async setAside(reason: string): Promise<string | undefined> {
    const { folder, quarantine } = this.options;
    await fs.mkdir(quarantine, { recursive: true });
    const stamp = new Date().toISOString().replaceAll(/[-:]/g, '').replace(/\.\d+/, '');
    for (let attempt = 0; attempt < 1000; attempt += 1) {
      const target = path.join(quarantine, `${path.basename(folder)}-${stamp}-${String(attempt)}`);
      if (await isThere(target)) continue;
      await fs.rename(folder, target);
      const note = { from: folder, reason, at: new Date().toISOString() };
      await fs.writeFile(`${target}.json`, `${JSON.stringify(note)}\n`).catch(() => undefined);
      return target;
    }
    throw new Error(`no free name in ${quarantine}`);
  }

  private async markRunning(): Promise<void> {
    await fs.writeFile(this.file(RUNNING), String(this.uncleanSessions + 1));
  }
  private mapBytes(): number {
    return this.options.mapBytes ?? MAP_BYTES_DEFAULT;
  }
  private file(name: string): string {
    return path.join(this.options.folder, name);
  }
}

/** lmdb-js rejects a second promise with the same failure; nobody waits for it, and it would end the process. */
function muteCommitError(error: unknown): void {
  if (!(error instanceof Error) || !('commitError' in error)) return;
  const { commitError } = error;
  if (commitError instanceof Promise) commitError.catch(() => undefined);
}

/** A full disk or too few descriptors say nothing of the image. */
function isPressure(error: unknown): boolean {
  const code = errnoOf(error) ?? '';
  return ['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE', 'EROFS', 'EACCES', 'EPERM'].includes(code);
}

async function isThere(file: string): Promise<boolean> {
  try {
    await fs.lstat(file);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function readCount(file: string): Promise<number> {
  try {
    const count = Number(await fs.readFile(file, 'utf8'));
    return Number.isSafeInteger(count) && count >= 0 ? count : UNCLEAN_SESSIONS_MAX;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return 0;
    throw error;
  }
}
