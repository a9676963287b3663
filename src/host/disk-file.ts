import * as fs from 'node:fs';
import { assert } from '../base/assert.ts';
import type { Position } from '../base/brands.ts';
import { DiskError, type DiskFile, type DiskOperation, type Mapping, type OpenMode } from '../ports/disk.ts';
import type { NativeAddon } from './addon.ts';
import { diskErrorOf, errnoOf } from './disk-errors.ts';
import type { DiskLanes, Lane } from './lanes.ts';
import { NativeFileMapping } from './mapping.ts';

export interface FileDeps {
  readonly addon: NativeAddon;
  readonly lanes: DiskLanes;
  /** Populate mappings by reading, as on kernels before 5.14. */
  readonly populateByRead: boolean;
}

/** A call of node:fs with a callback, as a promise; several times cheaper than fs.promises for these. */
export function fsCall<Value>(
  start: (done: (error: Error | null, value?: Value) => void) => void,
): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    start((error, value) => {
      if (error === null) resolve(value);
      else reject(error);
    });
  });
}

export class HostFile implements DiskFile {
  readonly path: string;
  private readonly deps: FileDeps;
  private readonly writable: boolean;
  private fd: number;
  private pending = 0;
  private whenIdle: (() => void) | undefined;
  /** After an error that says nothing of what reached the disk, no second write or sync may pretend that all is well. */
  private failure: DiskError | undefined;
  constructor(deps: FileDeps, path: string, fd: number, mode: OpenMode) {
    this.deps = deps;
    this.path = path;
    this.fd = fd;
    this.writable = mode !== 'read';
  }
  async size(): Promise<number> {
    const stats = await this.offLoop('stat', (fd) =>
      fsCall<fs.Stats>((done) => {
        fs.fstat(fd, done);
      }),
    );
    assert(stats !== undefined, 'fstat answers with stats');
    return stats.size;
  }
  write(bytes: Uint8Array, at: Position): void {
    const fd = this.writableFd('write');
    try {
      let done = 0;
      while (done < bytes.length) {
        const written = fs.writeSync(fd, bytes, done, bytes.length - done, at + done);
        if (written === 0) throw new Error('the disk takes no bytes');
        done += written;
      }
    } catch (error) {
      throw this.failed(error, 'write');
    }
  }
  async writeSlow(bytes: Uint8Array, at: Position): Promise<void> {
    this.writableFd('write');
    await this.offLoop('write', async (fd) => {
      let done = 0;
      while (done < bytes.length) {
        const from = done;
        const written = await fsCall<number>((called) => {
          fs.write(fd, bytes, from, bytes.length - from, at + from, called);
        });
        if (written === undefined || written === 0) throw new Error('the disk takes no bytes');
        done += written;
      }
    });
  }
  async read(target: Uint8Array, at: Position): Promise<number> {
    return await this.offLoop('read', async (fd) => {
      let done = 0;
      while (done < target.length) {
        const from = done;
        const got = await fsCall<number>((called) => {
          fs.read(fd, target, from, target.length - from, at + from, called);
        });
        if (got === undefined || got === 0) break;
        done += got;
      }
      return done;
    });
  }
  readNow(target: Uint8Array, at: Position): number {
    const fd = this.openFd();
    try {
      let done = 0;
      while (done < target.length) {
        const got = fs.readSync(fd, target, done, target.length - done, at + done);
        if (got === 0) break;
        done += got;
      }
      return done;
    } catch (error) {
      throw diskErrorOf(error, 'read', this.path);
    }
  }
  async sync(): Promise<void> {
    this.writableFd('sync');
    await this.offLoop(
      'sync',
      (fd) =>
        fsCall((done) => {
          fs.fdatasync(fd, done);
        }),
      this.deps.lanes.sync,
    );
  }
  startWriteback(at: Position, bytes: number): void {
    this.writableFd('sync');
    // A hint: whatever it meets, the sync that gives durability reports.
    this.hint((fd) => this.deps.addon.startWriteback(fd, at, bytes)).catch(() => undefined);
  }
  async allocate(at: Position, bytes: number): Promise<void> {
    this.writableFd('allocate');
    await this.offLoop('allocate', (fd) => this.allocateBlocks(fd, at, bytes), this.deps.lanes.bulk);
  }
  async writeZeros(at: Position, bytes: number): Promise<void> {
    this.writableFd('write');
    await this.offLoop('write', (fd) => this.deps.addon.writeZeros(fd, at, bytes), this.deps.lanes.bulk);
  }
  async truncate(size: number): Promise<void> {
    this.writableFd('truncate');
    await this.offLoop('truncate', (fd) =>
      fsCall((done) => {
        fs.ftruncate(fd, size, done);
      }),
    );
  }
  async dropCache(at: Position, bytes: number): Promise<void> {
    this.openFd();
    await this.offLoop('read', (fd) => this.deps.addon.dropCache(fd, at, bytes), this.deps.lanes.bulk);
  }
  map(bytes: number): Mapping {
    return new NativeFileMapping(
      this.deps.addon,
      this.deps.lanes,
      this.path,
      this.openFd(),
      bytes,
      this.deps.populateByRead,
    );
  }
  async close(): Promise<void> {
    const fd = this.openFd();
    // From here on nothing new starts; a descriptor must not be closed under work that uses its number.
    this.fd = -1;
    if (this.pending > 0) {
      await new Promise<void>((resolve) => {
        this.whenIdle = resolve;
      });
    }
    try {
      await fsCall((done) => {
        fs.close(fd, done);
      });
    } catch (error) {
      throw diskErrorOf(error, 'close', this.path);
    }
  }
  private async allocateBlocks(fd: number, at: number, bytes: number): Promise<void> {
    try {
      await this.deps.addon.allocate(fd, 0, at, bytes);
    } catch (error) {
      if (errnoOf(error) !== 'EOPNOTSUPP') throw error;
      // A file system without allocation: writing zeros beyond the end does the same; holes before it stay.
      const stats = await fsCall<fs.Stats>((done) => {
        fs.fstat(fd, done);
      });
      const from = Math.max(at, stats?.size ?? 0);
      if (from < at + bytes) await this.deps.addon.writeZeros(fd, from, at + bytes - from);
    }
  }
  /** Runs work with the descriptor held open; a failure is mapped, and remembered where it leaves the content unknown. */
  private async offLoop<Value>(
    operation: DiskOperation,
    work: (fd: number) => Promise<Value>,
    lane?: Lane,
  ): Promise<Value> {
    const fd = this.openFd();
    this.pending += 1;
    try {
      return await (lane === undefined ? work(fd) : lane.run(() => work(fd)));
    } catch (error) {
      throw this.failed(error, operation);
    } finally {
      this.leave();
    }
  }
  private async hint(work: (fd: number) => Promise<void>): Promise<void> {
    const { fd } = this;
    if (fd < 0) return;
    this.pending += 1;
    try {
      await this.deps.lanes.bulk.run(() => work(fd));
    } finally {
      this.leave();
    }
  }
  private leave(): void {
    this.pending -= 1;
    if (this.pending === 0) this.whenIdle?.();
  }
  private openFd(): number {
    assert(this.fd >= 0, `${this.path} is closed`);
    return this.fd;
  }
  private writableFd(operation: DiskOperation): number {
    const fd = this.openFd();
    if (!this.writable) throw new DiskError('denied', operation, this.path, 'the file was opened for reading');
    if (this.failure !== undefined) {
      throw new DiskError(
        'io',
        operation,
        this.path,
        `refused after an earlier failure (${this.failure.operation})`,
        this.failure,
      );
    }
    return fd;
  }
  private failed(error: unknown, operation: DiskOperation): DiskError {
    const mapped = diskErrorOf(error, operation, this.path);
    const unknownContent = mapped.kind === 'io' && operation !== 'read' && operation !== 'stat';
    // Even when a flush fails for want of room, the kernel has dropped what it could not write.
    if (unknownContent || operation === 'sync') this.failure ??= mapped;
    return mapped;
  }
}
