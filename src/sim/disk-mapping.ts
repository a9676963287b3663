import { assert } from '../base/assert.ts';
import type { Position } from '../base/brands.ts';
import type { MappedSlice, Mapping } from '../ports/disk.ts';
import type { SimDisk } from './disk.ts';
import { PAGE_BYTES, type FileNode, type LiveSlice } from './disk-volume.ts';

/** What memory that was given back reads as, until its buffer is detached. */
const MANGLED = 0xcc;

/**
 * Slices are copies that later writes to the file are carried into, so that a late reader can be caught: releasing one
 * overwrites and detaches it.
 */
export class SimMapping implements Mapping {
  readonly bytes: number;
  private readonly disk: SimDisk;
  private readonly file: FileNode;
  private readonly path: string;
  private readonly live = new Set<LiveSlice>();
  private mapped = true;

  constructor(disk: SimDisk, file: FileNode, path: string, bytes: number) {
    assert(bytes > 0, 'a mapping has at least one byte');
    this.disk = disk;
    this.file = file;
    this.path = path;
    this.bytes = bytes;
    disk.liveMappings += 1;
  }

  private check(at: number, length: number): void {
    this.disk.alive();
    assert(this.mapped, `${this.path} is unmapped`);
    assert(
      at >= 0 && length >= 0 && at + length <= this.bytes,
      `range [${String(at)}, +${String(length)}) is outside the mapping of ${this.path}`,
    );
  }

  slice(at: Position, length: number): MappedSlice {
    this.check(at, length);
    const { file, disk } = this;
    assert(
      at + length <= file.current.size,
      `touching ${this.path} at ${String(at + length)}, beyond its end ${String(file.current.size)} (SIGBUS)`,
    );
    if (!this.resident(at, length)) disk.blockingTouches += 1;
    assert(
      file.unreadable(at, length) === undefined,
      `touching an unreadable sector of ${this.path} through a mapping (SIGBUS)`,
    );
    file.touch(at, length);
    let view = Uint8Array.from(file.current.view(at, length));
    const slice: LiveSlice = { at, view };
    file.slices.add(slice);
    this.live.add(slice);
    disk.liveSlices += 1;
    return {
      get view(): Uint8Array {
        return view;
      },
      release: () => {
        assert(this.live.delete(slice), `a slice of ${this.path} is released exactly once`);
        file.slices.delete(slice);
        disk.liveSlices -= 1;
        view.fill(MANGLED);
        // Detaches: whoever kept the view sees length 0.
        view.buffer.transfer(0);
        view = new Uint8Array(0);
      },
    };
  }

  /** Nothing to do: the page cache is all there is here. */
  forget(_at: Position, _length: number): void {}
  resident(at: Position, length: number): boolean {
    this.check(at, length);
    for (let page = Math.floor(at / PAGE_BYTES); page * PAGE_BYTES < at + length; page += 1) {
      if (!this.file.resident.has(page)) return false;
    }
    return true;
  }

  populate(at: Position, length: number): Promise<void> {
    this.check(at, length);
    return this.disk.later('populate', this.path, (fault) => {
      this.disk.failIf(fault, 'populate', this.path);
      this.disk.guardRead(this.file, 'populate', this.path, at, length);
      this.file.touch(at, length);
    });
  }

  unmap(): void {
    assert(this.mapped, `${this.path} is unmapped once`);
    assert(this.live.size === 0, `${this.path} is unmapped with ${String(this.live.size)} live slices`);
    this.mapped = false;
    this.disk.liveMappings -= 1;
  }
}
