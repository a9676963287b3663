// The index files of a sealed segment, read through mappings: a look-up touches a few pages of a file that may have hundreds.
// Both are brought into memory off the loop before they are looked at, and one slice of each is held as long as the segment
// is loaded, which the cache of mappings bounds.
import { position } from '../base/brands.ts';
import { DiskError, type Disk, type MappedSlice, type Mapping } from '../ports/disk.ts';
import { isNotFound } from './health.ts';

/** One index file, mapped. An empty file has no mapping. */
interface MappedFile {
  readonly bytes: Uint8Array;
  readonly mapping: Mapping | undefined;
  readonly slice: MappedSlice | undefined;
}

const EMPTY: MappedFile = { bytes: new Uint8Array(0), mapping: undefined, slice: undefined };

export class MappedIndex {
  private readonly files: readonly [offsets: MappedFile, times: MappedFile];
  private released = false;
  private constructor(offsets: MappedFile, times: MappedFile) {
    this.files = [offsets, times];
  }

  /** Undefined: a file is missing, larger than it can be, or cannot be read. Derived: it is made again from the log. */
  static async open(
    disk: Disk,
    paths: readonly [string, string],
    bytesMax: readonly [number, number],
  ): Promise<MappedIndex | undefined> {
    const offsets = await mapFile(disk, paths[0], bytesMax[0]);
    if (offsets === undefined) return undefined;
    const times = await mapFile(disk, paths[1], bytesMax[1]).catch((error: unknown) => {
      releaseFile(offsets);
      throw error;
    });
    if (times === undefined) {
      releaseFile(offsets);
      return undefined;
    }
    return new MappedIndex(offsets, times);
  }

  get offsets(): Uint8Array {
    return this.files[0].bytes;
  }
  get times(): Uint8Array {
    return this.files[1].bytes;
  }
  get mappedBytes(): number {
    return this.files.reduce((sum, file) => sum + file.bytes.length, 0);
  }
  /** False: a look-up could wait for the disk. */
  get resident(): boolean {
    return this.files.every((file) => file.mapping?.resident(position(0), file.bytes.length) ?? true);
  }
  /** Exactly once. The views have length 0 afterwards. */
  release(): void {
    if (this.released) return;
    this.released = true;
    for (const file of this.files) releaseFile(file);
  }
}

function releaseFile(file: MappedFile): void {
  file.slice?.release();
  file.mapping?.unmap();
}

async function mapFile(disk: Disk, path: string, bytesMax: number): Promise<MappedFile | undefined> {
  let mapping: Mapping | undefined;
  try {
    const file = await disk.open(path, 'read');
    try {
      const size = await file.size();
      if (size > bytesMax) return undefined;
      if (size === 0) return EMPTY;
      mapping = file.map(size);
    } finally {
      await file.close();
    }
    await mapping.populate(position(0), mapping.bytes);
    const slice = mapping.slice(position(0), mapping.bytes);
    return { bytes: slice.view, mapping, slice };
  } catch (error) {
    mapping?.unmap();
    // An unreadable sector of an index is no reason to end: the log says the same.
    if (isNotFound(error) || (error instanceof DiskError && error.kind === 'io')) return undefined;
    throw error;
  }
}
