import { assert } from '../base/assert.ts';
import {
  DiskError,
  type DirectoryEntry,
  type Disk,
  type DiskErrorKind,
  type DiskFile,
  type DiskLock,
  type DiskOperation,
  type DiskSpace,
  type OpenMode,
} from '../ports/disk.ts';
import { DiskFaults, type DiskFault } from './disk-faults.ts';
import { SimFile } from './disk-file.ts';
import {
  describePending,
  SECTOR_BYTES,
  Volume,
  type CrashChoice,
  type DirectoryNode,
  type FileNode,
  type PendingOperation,
  type TreeNode,
  type VolumeOptions,
} from './disk-volume.ts';
import type { SeededRandom } from './random.ts';
import type { Owner, Scheduler } from './scheduler.ts';

/** Thrown by calls on the calling thread after the process "died": nothing of that process may go on. */
export class SimCrash extends Error {
  override readonly name = 'SimCrash';
}

/** Bounds of the drawn latency, in milliseconds. */
export type Latency = readonly [least: number, most: number];

export interface SimDiskOptions extends VolumeOptions {
  /** Whose events the completions are. Default 'disk'. */
  readonly owner?: Owner;
  /** Default [0.02, 0.2] for all but sync and syncdir, which default to [0.3, 3]. */
  readonly latency?: Partial<Record<DiskOperation, Latency>>;
  /** Open files beyond this fail with 'too-many-files'. */
  readonly openFilesMax?: number;
}

/** Called right before an operation takes effect; numbers go up by one from 1. */
export type BoundaryHook = (number: number, operation: DiskOperation, path: string) => void;

const DEFAULT_LATENCY: Latency = [0.02, 0.2];
const SYNC_LATENCY: Latency = [0.3, 3];

function checkPath(path: string): void {
  const parts = path.split('/');
  assert(
    path === '' || parts.every((part) => part !== '' && part !== '.' && part !== '..'),
    `not a relative path: ${path}`,
  );
}

function splitPath(path: string): { readonly folder: string; readonly name: string } {
  const slash = path.lastIndexOf('/');
  return { folder: slash < 0 ? '' : path.slice(0, slash), name: path.slice(slash + 1) };
}

/**
 * One process's view of a simulated disk. `crash` is a power cut: it ends this view and gives the disk as the next start of
 * the machine finds it. `kill` ends the process only. `fork` answers "what if the power went now" and leaves this view alive.
 */
export class SimDisk implements Disk {
  readonly volume: Volume;
  readonly scheduler: Scheduler;
  readonly owner: Owner;
  readonly faults: DiskFaults;
  onBoundary: BoundaryHook | undefined;
  openFilesMax: number;
  /** Slices handed out and not released. */
  liveSlices = 0;
  liveMappings = 0;
  /** Slices taken from pages that were not in memory: each would have blocked the calling thread. */
  blockingTouches = 0;
  private readonly options: SimDiskOptions;
  private readonly latencies: SeededRandom;
  private readonly crashes: SeededRandom;
  private boundaries = 0;
  private openFiles = 0;
  private retired = false;

  constructor(scheduler: Scheduler, options: SimDiskOptions = {}, volume?: Volume, faults?: DiskFaults) {
    this.scheduler = scheduler;
    this.options = options;
    this.owner = options.owner ?? 'disk';
    this.volume = volume ?? new Volume(options);
    this.faults = faults ?? new DiskFaults();
    this.openFilesMax = options.openFilesMax ?? Number.MAX_SAFE_INTEGER;
    const stream = scheduler.random.stream(`disk ${this.owner} ${scheduler.nowMs.toFixed(6)}`);
    this.latencies = stream.stream('latency');
    this.crashes = stream.stream('crash');
  }

  // Faults and ends

  inject(fault: DiskFault): () => void {
    return this.faults.add(fault);
  }

  /** Operations that took effect so far: what `onBoundary` counts. */
  get boundaryCount(): number {
    return this.boundaries;
  }

  /** Operations of which a power cut now could leave any part: the number of bits of `crashWith`. */
  pendingChoices(): number {
    return this.volume.pending.length;
  }

  pendingOperations(): readonly string[] {
    return this.volume.pending.map(describePending);
  }

  /** The disk after a power cut now, while this view goes on. The choices of 'random' come from `random`. */
  fork(choice: CrashChoice, random: SeededRandom = this.crashes): SimDisk {
    return new SimDisk(
      this.scheduler,
      { ...this.options, capacityBytes: this.volume.capacityBytes },
      this.volume.afterCrash(choice, random),
    );
  }

  /** Bit i set: the i-th pending operation survives whole; clear: it is lost. */
  crashWith(mask: bigint | number): SimDisk {
    const bits = BigInt(mask);
    return this.fork((_operation, index) => (((bits >> BigInt(index)) & 1n) === 1n ? 'kept' : 'lost'));
  }

  /** A power cut: this view is dead, the result is what the next start finds. */
  crash(choice: CrashChoice = 'random'): SimDisk {
    const next = this.fork(choice);
    this.scheduler.note(`${this.owner} disk loses power with ${String(this.pendingChoices())} operations pending`);
    this.retire();
    return next;
  }

  /** The process ends without a word: the page cache stays, its locks and descriptors go. */
  kill(): SimDisk {
    this.retire();
    return this.secondProcess();
  }

  /** Another process on the same disk, at the same time. */
  secondProcess(): SimDisk {
    return new SimDisk(this.scheduler, this.options, this.volume);
  }

  /** Promises of this view never settle any more; calls on the calling thread throw SimCrash. */
  retire(): void {
    this.retired = true;
    for (const [path, holder] of this.volume.locks) if (holder === this) this.volume.locks.delete(path);
  }

  setCapacity(bytes: number): void {
    this.volume.capacityBytes = bytes;
  }

  setReadOnly(readOnly: boolean): void {
    this.volume.readOnly = readOnly;
  }

  /** Drops every page from memory: nothing is resident. (Contents stay as they are seen.) */
  evictAll(): void {
    for (const [, file] of this.walk()) file.resident.clear();
  }

  /** Damage at rest: the bit differs for readers now and after a power cut. */
  flipBit(path: string, bit: number): void {
    const file = this.fileAt(path, 'read');
    file.current.flip(bit);
    file.durable.flip(bit);
  }

  /** The sector that holds `at` cannot be read any more. */
  breakSector(path: string, at: number): void {
    this.fileAt(path, 'read').badSectors.add(Math.floor(at / SECTOR_BYTES) * SECTOR_BYTES);
  }

  /** Every visible file with its content. */
  dump(): Map<string, Uint8Array> {
    return new Map([...this.walk()].map(([path, file]) => [path, Uint8Array.from(file.current.bytes())]));
  }

  /** Every file that a power cut is sure to leave, with its durable bytes. */
  dumpDurable(): Map<string, Uint8Array> {
    // Not `dump` when nothing is pending: after a failed sync the two differ although every page counts as clean.
    return this.fork('lose-all').dump();
  }

  /** A disk that holds these files, all durable. */
  static load(scheduler: Scheduler, files: ReadonlyMap<string, Uint8Array>, options: SimDiskOptions = {}): SimDisk {
    const disk = new SimDisk(scheduler, options);
    for (const [path, bytes] of files) disk.place(path, bytes);
    return disk;
  }

  private place(path: string, bytes: Uint8Array): void {
    checkPath(path);
    const { folder, name } = splitPath(path);
    const file = this.volume.newFile();
    this.createFolders(folder, false).directory.current.set(name, file);
    file.links = 1;
    file.current.put(bytes, 0);
    file.durable.put(bytes, 0);
    this.volume.usedBytes += bytes.length;
    (this.volume.lookUp(folder) as DirectoryNode).durable.set(name, file);
  }

  private *walk(): Generator<[string, FileNode]> {
    const stack: [string, TreeNode][] = [['', this.volume.root]];
    for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
      const [path, node] = entry;
      if (node.kind === 'file') {
        yield [path, node];
        continue;
      }
      const names = [...node.current.keys()].toSorted().toReversed();
      for (const name of names)
        stack.push([path === '' ? name : `${path}/${name}`, node.current.get(name) as TreeNode]);
    }
  }

  // What files and mappings use

  alive(): void {
    if (this.retired) throw new SimCrash('this process has ended');
  }

  boundary(operation: DiskOperation, path: string): void {
    this.boundaries += 1;
    this.onBoundary?.(this.boundaries, operation, path);
    this.alive();
  }

  fail(kind: DiskErrorKind, operation: DiskOperation, path: string, detail: string): never {
    this.scheduler.note(`${this.owner} ${operation} ${path} fails: ${kind}`);
    throw new DiskError(kind, operation, path, detail);
  }

  /** `effect` happens when the operation ends, on its own event; a dead process's operations never end. */
  later<Value>(
    operation: DiskOperation,
    path: string,
    effect: (fault: DiskFault | undefined) => Value,
  ): Promise<Value> {
    return new Promise((resolve, reject) => {
      if (this.retired) return;
      const fault = this.faults.match(operation, path);
      const [least, most] =
        this.options.latency?.[operation] ??
        (operation === 'sync' || operation === 'syncdir' ? SYNC_LATENCY : DEFAULT_LATENCY);
      const delay = least + this.latencies.unit() * (most - least) + (fault?.stallMs ?? 0);
      this.scheduler.after(delay, this.owner, `disk ${operation} ${path}`, () => {
        if (this.retired) return;
        try {
          resolve(effect(fault));
        } catch (error) {
          // An operation that was cut by the end of its process has no outcome.
          if (!(error instanceof SimCrash)) reject(error as Error);
        }
      });
    });
  }

  /** For effects that do nothing but fail when a fault says so. */
  failIf(fault: DiskFault | undefined, operation: DiskOperation, path: string): void {
    if (fault?.kind !== undefined) this.fail(fault.kind, operation, path, 'injected fault');
  }

  guardRead(file: FileNode, operation: DiskOperation, path: string, at: number, length: number): void {
    const sector = file.unreadable(at, length);
    if (sector !== undefined) this.fail('io', operation, path, `unreadable sector at ${String(sector)}`);
  }

  guardWrite(operation: DiskOperation, path: string): void {
    if (this.volume.readOnly) this.fail('read-only', operation, path, 'read-only file system');
  }

  private change<Value>(operation: DiskOperation, path: string, effect: () => Value): Promise<Value> {
    checkPath(path);
    return this.later(operation, path, (fault) => {
      this.boundary(operation, path);
      this.failIf(fault, operation, path);
      this.guardWrite(operation, path);
      return effect();
    });
  }

  private directoryAt(path: string, operation: DiskOperation): DirectoryNode {
    const node = this.volume.lookUp(path);
    if (node === undefined) return this.fail('not-found', operation, path, 'no such directory');
    if (node.kind !== 'directory') return this.fail('not-found', operation, path, 'not a directory');
    return node;
  }

  private fileAt(path: string, operation: DiskOperation): FileNode {
    const node = this.volume.lookUp(path);
    if (node === undefined) return this.fail('not-found', operation, path, 'no such file');
    if (node.kind !== 'file') return this.fail('exists', operation, path, 'is a directory');
    return node;
  }

  private link(
    folder: string,
    directory: DirectoryNode,
    name: string,
    node: TreeNode,
  ): PendingOperation & { readonly kind: 'link' } {
    this.volume.attach(directory, name, node);
    const operation = {
      kind: 'link',
      directory,
      path: folder === '' ? name : `${folder}/${name}`,
      name,
      node,
    } as const;
    this.volume.pending.push(operation);
    return operation;
  }

  private createFolders(path: string, pending: boolean): { readonly directory: DirectoryNode } {
    let directory = this.volume.root;
    let folder = '';
    for (const name of path === '' ? [] : path.split('/')) {
      const next = directory.current.get(name);
      if (next?.kind === 'file') this.fail('exists', 'mkdir', path, 'a file has that name');
      if (next?.kind === 'directory') directory = next;
      else {
        const made = this.volume.newDirectory();
        if (pending) this.link(folder, directory, name, made);
        else {
          directory.current.set(name, made);
          directory.durable.set(name, made);
        }
        directory = made;
      }
      folder = folder === '' ? name : `${folder}/${name}`;
    }
    return { directory };
  }

  // Disk

  open(path: string, mode: OpenMode): Promise<DiskFile> {
    checkPath(path);
    return this.later('open', path, (fault) => {
      if (mode === 'create') this.boundary('open', path);
      this.failIf(fault, 'open', path);
      if (this.openFiles >= this.openFilesMax) this.fail('too-many-files', 'open', path, 'too many open files');
      if (mode !== 'read') this.guardWrite('open', path);
      const file = mode === 'create' ? this.create(path) : this.fileAt(path, 'open');
      this.openFiles += 1;
      return new SimFile(this, file, path, mode !== 'read', () => {
        this.openFiles -= 1;
      });
    });
  }

  private create(path: string): FileNode {
    const { folder, name } = splitPath(path);
    const directory = this.directoryAt(folder, 'open');
    if (directory.current.has(name)) this.fail('exists', 'open', path, 'it exists already');
    const file = this.volume.newFile();
    this.link(folder, directory, name, file);
    return file;
  }

  makeDirectory(path: string): Promise<void> {
    return this.change('mkdir', path, () => {
      this.createFolders(path, true);
    });
  }

  readDirectory(path: string): Promise<readonly DirectoryEntry[]> {
    checkPath(path);
    return this.later('readdir', path, (fault) => {
      this.failIf(fault, 'readdir', path);
      const entries = [...this.directoryAt(path, 'readdir').current].map(([name, node]) => ({ name, kind: node.kind }));
      return entries.toSorted((left, right) => (left.name < right.name ? -1 : 1));
    });
  }

  rename(from: string, to: string): Promise<void> {
    checkPath(to);
    return this.change('rename', from, () => {
      const source = splitPath(from);
      const target = splitPath(to);
      const sourceDirectory = this.directoryAt(source.folder, 'rename');
      const node = sourceDirectory.current.get(source.name);
      if (node === undefined) return this.fail('not-found', 'rename', from, 'no such file or directory');
      const targetDirectory = this.directoryAt(target.folder, 'rename');
      const replaced = targetDirectory.current.get(target.name);
      if (from === to) return;
      if (node.kind === 'directory' && `${to}/`.startsWith(`${from}/`))
        this.fail('io', 'rename', from, 'a directory cannot go into itself');
      if (replaced !== undefined && (replaced.kind === 'directory' || node.kind === 'directory')) {
        this.fail('exists', 'rename', to, 'only a file can be replaced, by a file');
      }
      this.move(sourceDirectory, source.name, targetDirectory, target, node);
    });
  }

  private move(
    from: DirectoryNode,
    name: string,
    to: DirectoryNode,
    target: { readonly folder: string; readonly name: string },
    node: TreeNode,
  ): void {
    if (from === to) {
      this.volume.attach(to, target.name, node);
      this.volume.detach(from, name);
      this.volume.pending.push({
        kind: 'rename',
        directory: from,
        path: target.folder,
        from: name,
        to: target.name,
        node,
      });
      return;
    }
    const link = this.link(target.folder, to, target.name, node);
    this.volume.detach(from, name);
    this.volume.pending.push({ kind: 'unlink-moved', directory: from, path: name, name, link });
  }

  unlink(path: string): Promise<void> {
    return this.change('unlink', path, () => {
      this.fileAt(path, 'unlink');
      this.remove(path);
    });
  }

  removeDirectory(path: string): Promise<void> {
    return this.change('unlink', path, () => {
      assert(path !== '', 'the root stays');
      if (this.directoryAt(path, 'unlink').current.size > 0) this.fail('exists', 'unlink', path, 'directory not empty');
      this.remove(path);
    });
  }

  private remove(path: string): void {
    const { folder, name } = splitPath(path);
    const directory = this.directoryAt(folder, 'unlink');
    this.volume.detach(directory, name);
    this.volume.pending.push({ kind: 'unlink', directory, path, name });
  }

  syncDirectory(path: string): Promise<void> {
    checkPath(path);
    if (this.retired) return new Promise(() => undefined);
    const node = this.volume.lookUp(path);
    const operations = node?.kind === 'directory' ? this.volume.pendingOfDirectory(node) : [];
    return this.later('syncdir', path, (fault) => {
      if (node === undefined) this.fail('not-found', 'syncdir', path, 'no such directory');
      this.boundary('syncdir', path);
      if (fault?.kind !== undefined) {
        this.volume.forget(operations);
        this.failIf(fault, 'syncdir', path);
      }
      this.volume.makeDirectoryDurable(operations);
    });
  }

  exists(path: string): Promise<boolean> {
    checkPath(path);
    return this.later('stat', path, (fault) => {
      this.failIf(fault, 'stat', path);
      return this.volume.lookUp(path) !== undefined;
    });
  }

  space(): Promise<DiskSpace> {
    return this.later('stat', '', (fault) => {
      this.failIf(fault, 'stat', '');
      const { capacityBytes, usedBytes } = this.volume;
      return { freeBytes: Math.max(0, capacityBytes - usedBytes), totalBytes: capacityBytes };
    });
  }

  lock(path: string): Promise<DiskLock> {
    checkPath(path);
    return this.later('lock', path, (fault) => {
      this.failIf(fault, 'lock', path);
      if (this.volume.locks.has(path)) this.fail('locked', 'lock', path, 'held by another process');
      if (this.volume.lookUp(path) === undefined) this.create(path);
      this.volume.locks.set(path, this);
      return {
        release: () =>
          this.later('lock', path, () => {
            if (this.volume.locks.get(path) === this) this.volume.locks.delete(path);
          }),
      };
    });
  }
}
