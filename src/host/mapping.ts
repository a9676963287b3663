import { assert } from '../base/assert.ts';
import type { Position } from '../base/brands.ts';
import type { MappedSlice, Mapping } from '../ports/disk.ts';
import type { NativeAddon, NativeMapping } from './addon.ts';
import { diskErrorOf } from './disk-errors.ts';
import type { DiskLanes } from './lanes.ts';

const NOTHING = new Uint8Array(0);

class NativeSlice implements MappedSlice {
  private bytes: Uint8Array;
  private readonly buffer: ArrayBuffer;
  private readonly owner: NativeFileMapping;
  private live = true;
  constructor(owner: NativeFileMapping, buffer: ArrayBuffer) {
    this.owner = owner;
    this.buffer = buffer;
    this.bytes = new Uint8Array(buffer);
  }
  get view(): Uint8Array {
    return this.bytes;
  }
  release(): void {
    assert(this.live, 'a mapped slice is released twice');
    this.live = false;
    this.bytes = NOTHING;
    this.owner.releaseBuffer(this.buffer);
  }
}

export class NativeFileMapping implements Mapping {
  readonly bytes: number;
  private readonly path: string;
  private readonly addon: NativeAddon;
  private readonly lanes: DiskLanes;
  private handle: NativeMapping | undefined;
  constructor(addon: NativeAddon, lanes: DiskLanes, path: string, fd: number, bytes: number, populateByRead: boolean) {
    assert(Number.isSafeInteger(bytes) && bytes > 0, `mapping of ${String(bytes)} bytes`);
    this.addon = addon;
    this.lanes = lanes;
    this.path = path;
    this.bytes = bytes;
    try {
      this.handle = addon.map(fd, bytes, populateByRead);
    } catch (error) {
      throw diskErrorOf(error, 'map', path);
    }
  }
  slice(at: Position, length: number): MappedSlice {
    this.checkRange(at, length);
    return new NativeSlice(this, this.addon.slice(this.mapped(), at, length));
  }
  resident(at: Position, length: number): boolean {
    this.checkRange(at, length);
    try {
      return this.addon.resident(this.mapped(), at, length);
    } catch (error) {
      throw diskErrorOf(error, 'map', this.path);
    }
  }
  forget(at: Position, length: number): void {
    this.checkRange(at, length);
    try {
      this.addon.forget(this.mapped(), at, length);
    } catch (error) {
      throw diskErrorOf(error, 'map', this.path);
    }
  }
  async populate(at: Position, length: number): Promise<void> {
    this.checkRange(at, length);
    try {
      // The mapping may be gone when a place in the lane comes free: nobody needs its pages then.
      await this.lanes.bulk.run(async () =>
        this.handle === undefined ? undefined : await this.addon.populate(this.handle, at, length),
      );
    } catch (error) {
      throw diskErrorOf(error, 'populate', this.path);
    }
  }
  unmap(): void {
    const handle = this.mapped();
    const live = this.addon.liveSlices(handle);
    assert(live === 0, `unmap of ${this.path} with ${String(live)} live slices`);
    this.handle = undefined;
    this.addon.unmap(handle);
  }
  releaseBuffer(buffer: ArrayBuffer): void {
    this.addon.release(this.mapped(), buffer);
  }
  private mapped(): NativeMapping {
    assert(this.handle !== undefined, `${this.path} is not mapped any more`);
    return this.handle;
  }
  private checkRange(at: number, length: number): void {
    assert(
      Number.isSafeInteger(at) && Number.isSafeInteger(length) && at >= 0 && length >= 0 && at + length <= this.bytes,
      'a range outside the mapping',
    );
  }
}
