// What a disk holds: the content that processes see (page cache) beside the content that a power cut leaves, and the
// operations that are in the first and not yet in the second.
import { assert } from '../base/assert.ts';
import type { SeededRandom } from './random.ts';

export const SECTOR_BYTES = 512;
export const PAGE_BYTES = 4096;

/** Bytes with a size; what lies beyond the size is always zero, so that growing shows zeros. */
export class Content {
  private store: Uint8Array<ArrayBuffer>;
  size = 0;

  constructor(bytes: Uint8Array = new Uint8Array(0)) {
    this.store = Uint8Array.from(bytes);
    this.size = bytes.length;
  }

  view(at: number, length: number): Uint8Array {
    return this.store.subarray(at, Math.min(at + length, this.size));
  }

  bytes(): Uint8Array {
    return this.store.subarray(0, this.size);
  }

  resize(size: number): void {
    if (size < this.size) this.store.fill(0, size, this.size);
    else if (size > this.store.length) {
      const grown = new Uint8Array(Math.max(size, this.store.length * 2, 256));
      grown.set(this.store);
      this.store = grown;
    }
    this.size = size;
  }

  put(bytes: Uint8Array, at: number): void {
    if (at + bytes.length > this.size) this.resize(at + bytes.length);
    this.store.set(bytes, at);
  }

  /** Copies [at, end) of `from`, as far as both reach. */
  copyFrom(from: Content, at: number, end: number): void {
    const until = Math.min(end, from.size, this.size);
    if (until > at) this.store.set(from.store.subarray(at, until), at);
  }

  flip(bit: number): void {
    const at = bit >>> 3;
    if (at < this.size) this.store[at] = (this.store[at] as number) ^ (1 << (bit & 7));
  }
}

/** A slice handed out of a mapping: later writes to the file show in it. */
export interface LiveSlice {
  readonly at: number;
  readonly view: Uint8Array;
}

export class FileNode {
  readonly kind = 'file' as const;
  readonly id: number;
  current: Content = new Content();
  durable: Content = new Content();
  /** Names in the visible tree. */
  links = 0;
  /** Pages in memory. */
  readonly resident: Set<number> = new Set();
  readonly slices: Set<LiveSlice> = new Set();
  /** First bytes of sectors that cannot be read. */
  readonly badSectors: Set<number> = new Set();
  constructor(id: number) {
    this.id = id;
  }

  touch(at: number, length: number): void {
    for (let page = Math.floor(at / PAGE_BYTES); page * PAGE_BYTES < at + length; page += 1) this.resident.add(page);
  }

  /** The first byte of an unreadable sector in the range. */
  unreadable(at: number, length: number): number | undefined {
    for (const sector of this.badSectors) if (sector < at + length && at < sector + SECTOR_BYTES) return sector;
    return undefined;
  }
}

export class DirectoryNode {
  readonly kind = 'directory' as const;
  readonly id: number;
  readonly current: Map<string, TreeNode> = new Map();
  readonly durable: Map<string, TreeNode> = new Map();
  constructor(id: number) {
    this.id = id;
  }
}

export type TreeNode = FileNode | DirectoryNode;

/** Operations that a power cut may undo, wholly or partly. `path` is the name at the time, for printing. */
export type PendingOperation =
  | {
      readonly kind: 'write';
      readonly file: FileNode;
      readonly path: string;
      readonly at: number;
      readonly bytes: Uint8Array;
    }
  /** The file got longer (by a write or an allocation). */
  | {
      readonly kind: 'grow';
      readonly file: FileNode;
      readonly path: string;
      readonly size: number;
      readonly allocated: boolean;
    }
  | { readonly kind: 'truncate'; readonly file: FileNode; readonly path: string; readonly size: number }
  | {
      readonly kind: 'link';
      readonly directory: DirectoryNode;
      readonly path: string;
      readonly name: string;
      readonly node: TreeNode;
    }
  | { readonly kind: 'unlink'; readonly directory: DirectoryNode; readonly path: string; readonly name: string }
  | {
      readonly kind: 'rename';
      readonly directory: DirectoryNode;
      readonly path: string;
      readonly from: string;
      readonly to: string;
      readonly node: TreeNode;
    }
  /** Second half of a rename to another directory: the old name goes. Never without the first half, `link`. */
  | {
      readonly kind: 'unlink-moved';
      readonly directory: DirectoryNode;
      readonly path: string;
      readonly name: string;
      readonly link: PendingOperation & { readonly kind: 'link' };
    };

/** What a power cut leaves of one pending operation. Tears and garbage apply to writes only; elsewhere they mean 'lost'. */
export type Survival =
  | 'lost'
  | 'kept'
  /** Each sector of the write survives or not, drawn. */
  | 'torn'
  /** One drawn sector of the write holds noise, the others survive. */
  | 'garbage'
  /** Bit i: the i-th sector that the write touches survives. */
  | { readonly sectors: bigint };

export type CrashChoice =
  | 'random'
  | 'lose-all'
  | 'keep-all'
  | ((operation: PendingOperation, index: number) => Survival);

export function describePending(operation: PendingOperation): string {
  switch (operation.kind) {
    case 'write':
      return `write ${operation.path} [${String(operation.at)}, +${String(operation.bytes.length)})`;
    case 'grow':
    case 'truncate':
      return `${operation.kind} ${operation.path} to ${String(operation.size)}`;
    case 'rename':
      return `rename ${operation.path} ${operation.from} -> ${operation.to}`;
    case 'link':
    case 'unlink':
    case 'unlink-moved':
      return `${operation.kind} ${operation.path}`;
  }
}

export function namesOf(operation: PendingOperation): readonly string[] {
  if (operation.kind === 'rename') return [operation.from, operation.to];
  return 'name' in operation ? [operation.name] : [];
}

export interface VolumeOptions {
  /** No limit unless given. */
  readonly capacityBytes?: number;
  /** What blocks that were never written hold after a power cut. Default 'zeros'; 'recycled': content of deleted files. */
  readonly unwritten?: 'zeros' | 'recycled';
}

/** Hard cap on remembered content of deleted files. */
const STALE_BYTES_MAX = 1024 * 1024;

export class Volume {
  root: DirectoryNode;
  /** In the order they were issued. */
  pending: PendingOperation[] = [];
  capacityBytes: number;
  usedBytes = 0;
  readOnly = false;
  readonly unwritten: 'zeros' | 'recycled';
  stale: Uint8Array = new Uint8Array(0);
  /** Who holds which lock. */
  readonly locks: Map<string, object> = new Map();
  private nextId = 1;

  constructor(options: VolumeOptions = {}) {
    this.capacityBytes = options.capacityBytes ?? Number.MAX_SAFE_INTEGER;
    this.unwritten = options.unwritten ?? 'zeros';
    this.root = this.newDirectory();
  }

  newFile(): FileNode {
    this.nextId += 1;
    return new FileNode(this.nextId);
  }

  newDirectory(): DirectoryNode {
    this.nextId += 1;
    return new DirectoryNode(this.nextId);
  }

  lookUp(path: string): TreeNode | undefined {
    let node: TreeNode = this.root;
    if (path === '') return node;
    for (const name of path.split('/')) {
      if (node.kind !== 'directory') return undefined;
      const next = node.current.get(name);
      if (next === undefined) return undefined;
      node = next;
    }
    return node;
  }

  /** Sets the visible size, keeping the books of used space. */
  setSize(file: FileNode, size: number): void {
    if (file.links > 0) this.usedBytes += size - file.current.size;
    if (size < file.current.size) {
      for (const slice of file.slices) {
        assert(slice.at + slice.view.length <= size, 'a file is not truncated under a live slice (SIGBUS)');
      }
    }
    file.current.resize(size);
  }

  attach(directory: DirectoryNode, name: string, node: TreeNode): void {
    const replaced = directory.current.get(name);
    if (replaced !== undefined) this.detach(directory, name);
    directory.current.set(name, node);
    if (node.kind !== 'file') return;
    if (node.links === 0) this.usedBytes += node.current.size;
    node.links += 1;
  }

  detach(directory: DirectoryNode, name: string): void {
    const node = directory.current.get(name);
    directory.current.delete(name);
    if (node?.kind !== 'file') return;
    node.links -= 1;
    if (node.links > 0) return;
    this.usedBytes -= node.current.size;
    if (this.unwritten === 'recycled') this.stale = node.current.bytes().slice(0, STALE_BYTES_MAX);
  }

  /** The bytes of the write are in the page cache; the caller has checked the room. */
  write(file: FileNode, path: string, bytes: Uint8Array, at: number): void {
    if (bytes.length === 0) return;
    const copy = Uint8Array.from(bytes);
    if (at + copy.length > file.current.size) {
      this.setSize(file, at + copy.length);
      this.pending.push({ kind: 'grow', file, path, size: at + copy.length, allocated: false });
    }
    file.current.put(copy, at);
    this.pending.push({ kind: 'write', file, path, at, bytes: copy });
    file.touch(at, copy.length);
    for (const slice of file.slices) {
      const from = Math.max(at, slice.at);
      const end = Math.min(at + copy.length, slice.at + slice.view.length);
      if (from < end) slice.view.set(copy.subarray(from - at, end - at), from - slice.at);
    }
  }

  /** What a sync started now will make durable. */
  pendingOf(file: FileNode): readonly PendingOperation[] {
    return this.pending.filter((operation) => 'file' in operation && operation.file === file);
  }

  makeDurable(file: FileNode, operations: readonly PendingOperation[]): void {
    const still = new Set(this.pending);
    for (const operation of operations) {
      // A sync that started later may have made it durable already, with newer bytes on top.
      if (still.has(operation)) applyToContent(file.durable, operation);
    }
    this.forget(operations);
  }

  /** As ext4 and xfs after a failed fsync: pages count as clean, readers still see them, a power cut loses them. */
  forget(operations: readonly PendingOperation[]): void {
    const gone = new Set(operations);
    this.pending = this.pending.filter((operation) => !gone.has(operation));
  }

  pendingOfDirectory(directory: DirectoryNode): readonly PendingOperation[] {
    const chosen = new Set<PendingOperation>();
    const add = (target: DirectoryNode, upTo: PendingOperation | undefined): void => {
      for (const operation of this.pending) {
        if ('directory' in operation && operation.directory === target && !chosen.has(operation)) {
          chosen.add(operation);
          // A rename to another folder is one transaction of the journal: its second half brings the first, and what it is built on.
          if (operation.kind === 'unlink-moved' && this.pending.includes(operation.link))
            add(operation.link.directory, operation.link);
          // A directory has one name at any time: its first half brings the second too.
          const second =
            operation.kind === 'link' && operation.node.kind === 'directory' ? this.secondHalf(operation) : undefined;
          if (second !== undefined) add(second.directory, second);
        }
        if (operation === upTo) return;
      }
    };
    add(directory, undefined);
    return this.pending.filter((operation) => chosen.has(operation));
  }

  private secondHalf(link: PendingOperation): (PendingOperation & { readonly kind: 'unlink-moved' }) | undefined {
    for (const operation of this.pending)
      if (operation.kind === 'unlink-moved' && operation.link === link) return operation;
    return undefined;
  }

  makeDirectoryDurable(operations: readonly PendingOperation[]): void {
    const still = new Set(this.pending);
    for (const operation of operations) {
      if (still.has(operation)) applyToDirectory(operation);
    }
    this.forget(operations);
  }

  /** Calls for every file and directory that is, was or may become reachable, by id. */
  private reachable(): TreeNode[] {
    const found = new Map<number, TreeNode>();
    const visit = (node: TreeNode): void => {
      if (found.has(node.id)) return;
      found.set(node.id, node);
      if (node.kind !== 'directory') return;
      for (const child of node.current.values()) visit(child);
      for (const child of node.durable.values()) visit(child);
    };
    visit(this.root);
    for (const operation of this.pending) if ('node' in operation) visit(operation.node);
    return [...found.values()];
  }

  /** The volume after a power cut; this one stays as it is. */
  afterCrash(choice: CrashChoice, random: SeededRandom): Volume {
    const next = new Volume({ capacityBytes: this.capacityBytes, unwritten: this.unwritten });
    next.stale = this.stale;
    next.readOnly = this.readOnly;
    next.nextId = this.nextId;
    const survival = this.pending.map((operation, index) => survivalOf(choice, operation, index, random));
    const copies = new Map<number, TreeNode>();
    for (const node of this.reachable()) {
      copies.set(node.id, node.kind === 'file' ? new FileNode(node.id) : new DirectoryNode(node.id));
    }
    for (const node of this.reachable()) {
      const copy = copies.get(node.id);
      if (node.kind === 'file') this.crashFile(node, copy as FileNode, survival, random);
    }
    this.crashNames(copies, survival);
    next.root = copies.get(this.root.id) as DirectoryNode;
    next.adoptDurable();
    return next;
  }

  private crashFile(file: FileNode, copy: FileNode, survival: readonly Survival[], random: SeededRandom): void {
    copy.durable = new Content(file.durable.bytes());
    for (const sector of file.badSectors) copy.badSectors.add(sector);
    for (const [index, operation] of this.pending.entries()) {
      if (!('file' in operation) || operation.file !== file) continue;
      const outcome = survival[index] ?? 'lost';
      if (operation.kind === 'write') crashWrite(copy.durable, operation, outcome, random);
      else if (outcome === 'kept') {
        const from = copy.durable.size;
        applyToContent(copy.durable, operation);
        if (operation.kind === 'grow' && this.unwritten === 'recycled') fillStale(copy.durable, from, this.stale);
      }
    }
  }

  /** Any subset of the operations on names, where each name's own operations survive up to some point. */
  private crashNames(copies: ReadonlyMap<number, TreeNode>, survival: readonly Survival[]): void {
    const directoryCopy = (node: DirectoryNode): DirectoryNode => copies.get(node.id) as DirectoryNode;
    for (const node of this.reachable()) {
      if (node.kind !== 'directory') continue;
      for (const [name, child] of node.durable) directoryCopy(node).durable.set(name, copies.get(child.id) as TreeNode);
    }
    const stopped = new Set<string>();
    const lost = new Set<PendingOperation>();
    for (const [index, operation] of this.pending.entries()) {
      if (!('directory' in operation)) continue;
      if (operation.kind === 'unlink-moved' && operation.link.node.kind === 'directory') {
        // Both halves or none.
        const { durable } = directoryCopy(operation.directory);
        if (!lost.has(operation.link) && durable.get(operation.name) === copies.get(operation.link.node.id))
          durable.delete(operation.name);
        continue;
      }
      const keys = namesOf(operation).map((name) => `${String(operation.directory.id)}/${name}`);
      const blocked =
        keys.some((key) => stopped.has(key)) || (operation.kind === 'unlink-moved' && lost.has(operation.link));
      if (survival[index] !== 'kept' || blocked) {
        for (const key of keys) stopped.add(key);
        lost.add(operation);
        continue;
      }
      const directory = directoryCopy(operation.directory);
      applyToDirectory(
        'node' in operation
          ? { ...operation, directory, node: copies.get(operation.node.id) as TreeNode }
          : { ...operation, directory },
      );
    }
  }

  /** After a start of the machine, what is durable is what is seen. */
  adoptDurable(): void {
    const visit = (directory: DirectoryNode): void => {
      directory.current.clear();
      for (const [name, node] of directory.durable) {
        if (node.kind === 'file' && node.links === 0) {
          node.current = new Content(node.durable.bytes());
          node.resident.clear();
        }
        this.attach(directory, name, node);
        if (node.kind === 'directory') visit(node);
      }
    };
    this.usedBytes = 0;
    visit(this.root);
  }
}

function applyToContent(content: Content, operation: PendingOperation): void {
  if (operation.kind === 'write') content.put(operation.bytes, operation.at);
  else if (operation.kind === 'grow') content.resize(Math.max(content.size, operation.size));
  else if (operation.kind === 'truncate') content.resize(operation.size);
}

function applyToDirectory(operation: PendingOperation): void {
  if (operation.kind === 'link') operation.directory.durable.set(operation.name, operation.node);
  else if (operation.kind === 'unlink' || operation.kind === 'unlink-moved')
    operation.directory.durable.delete(operation.name);
  else if (operation.kind === 'rename') {
    operation.directory.durable.delete(operation.from);
    operation.directory.durable.set(operation.to, operation.node);
  }
}

function survivalOf(choice: CrashChoice, operation: PendingOperation, index: number, random: SeededRandom): Survival {
  if (typeof choice === 'function') return choice(operation, index);
  if (choice === 'lose-all') return 'lost';
  if (choice === 'keep-all') return 'kept';
  if (operation.kind !== 'write') return random.chance(0.5) ? 'kept' : 'lost';
  const draw = random.below(100);
  return draw < 35 ? 'lost' : draw < 70 ? 'kept' : draw < 95 ? 'torn' : 'garbage';
}

function crashWrite(
  content: Content,
  operation: PendingOperation & { readonly kind: 'write' },
  outcome: Survival,
  random: SeededRandom,
): void {
  if (outcome === 'lost') return;
  if (outcome === 'kept') {
    content.put(operation.bytes, operation.at);
    return;
  }
  const { at, bytes } = operation;
  const first = Math.floor(at / SECTOR_BYTES);
  const sectors = Math.floor((at + bytes.length - 1) / SECTOR_BYTES) - first + 1;
  const noisy = outcome === 'garbage' ? random.below(sectors) : -1;
  for (let sector = 0; sector < sectors; sector += 1) {
    // Noise stays inside the bytes of this write: synced neighbours in the sector are promised to survive.
    const from = Math.max(at, (first + sector) * SECTOR_BYTES);
    const end = Math.min(at + bytes.length, (first + sector + 1) * SECTOR_BYTES);
    if (sector === noisy) content.put(random.bytes(end - from), from);
    else if (survives(outcome, sector, random)) content.put(bytes.subarray(from - at, end - at), from);
  }
}

function survives(outcome: Survival, sector: number, random: SeededRandom): boolean {
  if (outcome === 'garbage') return true;
  if (typeof outcome === 'object') return ((outcome.sectors >> BigInt(sector)) & 1n) === 1n;
  return random.chance(0.5);
}

function fillStale(content: Content, from: number, stale: Uint8Array): void {
  const end = Math.min(content.size, stale.length);
  if (end > from) content.put(stale.subarray(from, end), from);
}
