import { assert } from '../base/assert.ts';
import type { Position } from '../base/brands.ts';
import type { DiskFile, DiskOperation, Mapping } from '../ports/disk.ts';
import type { DiskFault } from './disk-faults.ts';
import { SimMapping } from './disk-mapping.ts';
import { PAGE_BYTES, type FileNode, type Volume } from './disk-volume.ts';
import type { SimDisk } from './disk.ts';

/** One open file of one process. Only SimDisk makes them. */
export class SimFile implements DiskFile {
  readonly path: string;
  private readonly disk: SimDisk;
  private readonly file: FileNode;
  private readonly writable: boolean;
  private readonly onClose: () => void;
  private closed = false;

  constructor(disk: SimDisk, file: FileNode, path: string, writable: boolean, onClose: () => void) {
    this.disk = disk;
    this.file = file;
    this.path = path;
    this.writable = writable;
    this.onClose = onClose;
  }

  private usable(): void {
    this.disk.alive();
    assert(!this.closed, `${this.path} is closed`);
  }

  private later<Value>(operation: DiskOperation, effect: (fault: DiskFault | undefined) => Value): Promise<Value> {
    assert(!this.closed, `${this.path} is closed`);
    return this.disk.later(operation, this.path, effect);
  }

  private guardWrite(operation: DiskOperation): void {
    if (!this.writable) this.disk.fail('denied', operation, this.path, 'opened for reading');
    this.disk.guardWrite(operation, this.path);
  }

  size(): Promise<number> {
    return this.later('stat', (fault) => {
      this.disk.failIf(fault, 'stat', this.path);
      return this.file.current.size;
    });
  }

  write(bytes: Uint8Array, at: Position): void {
    this.usable();
    this.put(bytes, at, this.disk.faults.match('write', this.path));
  }

  writeSlow(bytes: Uint8Array, at: Position): Promise<void> {
    return this.later('write', (fault) => {
      this.put(bytes, at, fault);
    });
  }

  private put(bytes: Uint8Array, at: number, fault: DiskFault | undefined): void {
    this.disk.boundary('write', this.path);
    this.guardWrite('write');
    if (fault?.kind !== undefined) {
      this.fit(bytes.subarray(0, fault.writtenBytes ?? bytes.length >> 1), at);
      this.disk.failIf(fault, 'write', this.path);
    }
    if (this.fit(bytes, at) < bytes.length) this.disk.fail('no-space', 'write', this.path, 'no space left on device');
  }

  /** Writes what there is room for. */
  private fit(bytes: Uint8Array, at: number): number {
    const { volume } = this.disk;
    const room = Math.max(0, volume.capacityBytes - volume.usedBytes);
    const fits = Math.max(0, Math.min(bytes.length, this.file.current.size + room - at));
    volume.write(this.file, this.path, bytes.subarray(0, fits), at);
    return fits;
  }

  read(target: Uint8Array, at: Position): Promise<number> {
    return this.later('read', (fault) => this.fill(target, at, fault));
  }

  readNow(target: Uint8Array, at: Position): number {
    this.usable();
    return this.fill(target, at, this.disk.faults.match('read', this.path));
  }

  private fill(target: Uint8Array, at: number, fault: DiskFault | undefined): number {
    this.disk.failIf(fault, 'read', this.path);
    this.disk.guardRead(this.file, 'read', this.path, at, target.length);
    const found = at >= this.file.current.size ? new Uint8Array(0) : this.file.current.view(at, target.length);
    target.set(found);
    this.file.touch(at, found.length);
    return found.length;
  }

  sync(): Promise<void> {
    const operations = this.disk.volume.pendingOf(this.file);
    return this.later('sync', (fault) => {
      this.disk.boundary('sync', this.path);
      if (fault?.kind !== undefined) {
        this.disk.volume.forget(operations);
        this.disk.failIf(fault, 'sync', this.path);
      }
      this.disk.volume.makeDurable(this.file, operations);
    });
  }

  startWriteback(at: Position, bytes: number): void {
    this.usable();
    assert(at >= 0 && bytes >= 0, 'a range to write back');
  }

  allocate(at: Position, bytes: number): Promise<void> {
    return this.later('allocate', (fault) => {
      this.disk.boundary('allocate', this.path);
      this.disk.failIf(fault, 'allocate', this.path);
      this.guardWrite('allocate');
      const { volume } = this.disk;
      const size = Math.max(this.file.current.size, at + bytes);
      if (size - this.file.current.size > volume.capacityBytes - volume.usedBytes) {
        this.disk.fail('no-space', 'allocate', this.path, 'no space left on device');
      }
      if (size === this.file.current.size) return;
      volume.setSize(this.file, size);
      volume.pending.push({ kind: 'grow', file: this.file, path: this.path, size, allocated: true });
    });
  }

  writeZeros(at: Position, bytes: number): Promise<void> {
    return this.later('write', (fault) => {
      this.put(new Uint8Array(bytes), at, fault);
    });
  }

  truncate(size: number): Promise<void> {
    return this.later('truncate', (fault) => {
      this.disk.boundary('truncate', this.path);
      this.disk.failIf(fault, 'truncate', this.path);
      this.guardWrite('truncate');
      const { volume } = this.disk;
      const grown = size - this.file.current.size;
      if (grown > volume.capacityBytes - volume.usedBytes)
        this.disk.fail('no-space', 'truncate', this.path, 'no space left on device');
      volume.setSize(this.file, size);
      volume.pending.push({ kind: 'truncate', file: this.file, path: this.path, size });
    });
  }

  dropCache(at: Position, bytes: number): Promise<void> {
    return this.later('read', (fault) => {
      this.disk.failIf(fault, 'read', this.path);
      dropPages(this.disk.volume, this.file, at, at + bytes);
    });
  }

  map(bytes: number): Mapping {
    this.usable();
    this.disk.failIf(this.disk.faults.match('map', this.path), 'map', this.path);
    return new SimMapping(this.disk, this.file, this.path, bytes);
  }

  close(): Promise<void> {
    const done = this.later('close', (fault) => {
      this.disk.failIf(fault, 'close', this.path);
    });
    this.closed = true;
    this.onClose();
    return done;
  }
}

/** Whole clean pages of the range leave memory: readers see what the disk has, which differs after a failed sync. */
function dropPages(volume: Volume, file: FileNode, from: number, end: number): void {
  const pending = volume.pendingOf(file);
  for (let page = Math.floor(from / PAGE_BYTES); page * PAGE_BYTES < end; page += 1) {
    const at = page * PAGE_BYTES;
    const dirty = pending.some(
      (operation) =>
        operation.kind === 'write' && operation.at < at + PAGE_BYTES && at < operation.at + operation.bytes.length,
    );
    if (dirty) continue;
    file.resident.delete(page);
    file.current.copyFrom(file.durable, at, at + PAGE_BYTES);
  }
}
