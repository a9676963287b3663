import type { Position } from '../base/brands.ts';

/**
 * Why an operation on the disk failed. `no-space` and `too-many-files` are pressure: nothing is damaged, the caller goes on.
 * `not-found`, `exists`, `locked`, `read-only`, `denied` are facts about the directory. `io` is everything else (EIO and kin):
 * after it, nothing may be retried on that file and the process must stop (storage decides).
 */
export type DiskErrorKind =
  | 'no-space'
  | 'too-many-files'
  | 'not-found'
  | 'exists'
  | 'locked'
  | 'read-only'
  | 'denied'
  | 'io';

export type DiskOperation =
  | 'open'
  | 'read'
  | 'write'
  | 'sync'
  | 'allocate'
  | 'truncate'
  | 'map'
  | 'populate'
  | 'rename'
  | 'unlink'
  | 'mkdir'
  | 'readdir'
  | 'syncdir'
  | 'stat'
  | 'lock'
  | 'close';

export class DiskError extends Error {
  override readonly name = 'DiskError';
  readonly kind: DiskErrorKind;
  readonly operation: DiskOperation;
  readonly path: string;
  constructor(kind: DiskErrorKind, operation: DiskOperation, path: string, detail: string, cause?: unknown) {
    super(`${operation} ${path}: ${detail}`, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.operation = operation;
    this.path = path;
  }
}

export type OpenMode =
  /** Must exist; writes throw. */
  | 'read'
  /** Must exist. */
  | 'write'
  /** Must not exist: 'exists' otherwise. The name is durable only after syncDirectory of its folder. */
  | 'create';

export interface DirectoryEntry {
  readonly name: string;
  readonly kind: 'file' | 'directory' | 'other';
}

export interface DiskSpace {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

export interface DiskLock {
  release(): Promise<void>;
}

/**
 * One data directory. Paths are relative to it, with '/', never absolute, never with '..'; '' is the directory itself.
 * Methods that return a promise work off the event loop; the others are for bytes known to be quick (page cache).
 * What survives a power cut: bytes of a file up to its last resolved `sync`, provided that the file's name is durable;
 * names (create, rename, unlink, mkdir) once `syncDirectory` of the containing folder has resolved. Everything else may
 * survive wholly, partly, or not at all, in any order, and unwritten parts read as zeros or as what the block held before.
 */
export interface Disk {
  open(path: string, mode: OpenMode): Promise<DiskFile>;
  /** Creates missing parents too; fine when it exists. Each new level is durable after syncDirectory of its parent. */
  makeDirectory(path: string): Promise<void>;
  /** Unordered by nature; returned sorted by name, so that a run can be repeated. */
  readDirectory(path: string): Promise<readonly DirectoryEntry[]>;
  /** Replaces an existing file atomically; the name is durable after syncDirectory of both folders. */
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  /** Must be empty. */
  removeDirectory(path: string): Promise<void>;
  syncDirectory(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  space(): Promise<DiskSpace>;
  /** Exclusive for the life of the process; DiskError 'locked' says who holds it where that is known. */
  lock(path: string): Promise<DiskLock>;
}

export interface DiskFile {
  readonly path: string;
  /** Size in bytes as the file system says: not the end of the data when the file is preallocated. */
  size(): Promise<number>;
  /**
   * Writes all bytes at `at` into the page cache, on the calling thread (5 to 12 µs for 64 KiB). Short writes are
   * continued. On 'no-space' a prefix may have been written; the caller overwrites or clears it.
   */
  write(bytes: Uint8Array, at: Position): void;
  /** The same, off the loop, for a disk that has become slow. The bytes must stay unchanged until it resolves. */
  writeSlow(bytes: Uint8Array, at: Position): Promise<void>;
  /** Fills `target` from `at`; resolves to the bytes read, fewer only at the end of the file. */
  read(target: Uint8Array, at: Position): Promise<number>;
  /** The same on the calling thread: only for bytes known to be in the page cache. */
  readNow(target: Uint8Array, at: Position): number;
  /** fdatasync. Resolves when everything written before the call is durable. Rejects once; then the file is not to be used. */
  sync(): Promise<void>;
  /** Starts write-back of a range without waiting for it; gives no durability. */
  startWriteback(at: Position, bytes: number): void;
  /** Reserves blocks (they read as zeros), growing the file to `at + bytes`. */
  allocate(at: Position, bytes: number): Promise<void>;
  /** Writes zeros over a range, off the loop, so that its blocks are written once and later syncs are cheap. */
  writeZeros(at: Position, bytes: number): Promise<void>;
  truncate(size: number): Promise<void>;
  /** Drops the range from the page cache, so that the next read comes from the disk. Only synced ranges can be dropped. */
  dropCache(at: Position, bytes: number): Promise<void>;
  /**
   * Maps [0, bytes) read-only. May reach beyond the end of a growing file: pages beyond the end must not be touched.
   * The mapping lives on after `close` and `unlink`.
   */
  map(bytes: number): Mapping;
  close(): Promise<void>;
}

/**
 * A read-only mapping, held as a native handle so that it never weighs on the garbage collector. Not reference-counted:
 * its one owner counts and calls `unmap` when the last slice was released (an assertion fails otherwise).
 */
export interface Mapping {
  readonly bytes: number;
  /** A view of [at, at + length), valid until released. Touching a page that is not resident blocks the calling thread. */
  slice(at: Position, length: number): MappedSlice;
  /** True when every page of the range is in memory now (a hint: it can be evicted later, which costs time, not safety). */
  resident(at: Position, length: number): boolean;
  /** Brings the range into memory off the loop. An unreadable sector rejects with 'io' here, and does not kill the process. */
  populate(at: Position, length: number): Promise<void>;
  /** Stops counting the range as memory of this process; what is touched again comes back from the page cache. Slices stay valid. */
  forget(at: Position, length: number): void;
  unmap(): void;
}

export interface MappedSlice {
  /** Length 0 once released. */
  readonly view: Uint8Array;
  /** Exactly once. The array buffer is detached at once: a late reader sees length 0, never unmapped memory. */
  release(): void;
}
