// One segment: its file, what lies in it, its indexes, and its mapping with the slices that readers hold.
import { assert } from '../base/assert.ts';
import { position, type Offset } from '../base/brands.ts';
import type { Disk, DiskFile, MappedSlice, Mapping } from '../ports/disk.ts';
import { PositionRanges } from './position-ranges.ts';
import type { SegmentIndex } from './segment-index.ts';

/** What is known of the records of a segment: exact while it is active, from its seal or a walk afterwards. */
export interface SegmentFacts {
  /** Bytes of batches: where the next one goes. */
  size: number;
  batchCount: number;
  recordCount: number;
  firstTimestamp: number;
  /** -1: no record has one. */
  maxTimestamp: number;
  firstEpoch: number;
  lastEpoch: number;
  /** CRC32C of all bytes; undefined when it has to be computed from the file. */
  crc: number | undefined;
  /** Wall clock at its last append, known once it is rolled; -1: still active, or not known. */
  rolledMs: number;
}

export function emptyFacts(): SegmentFacts {
  return {
    size: 0,
    batchCount: 0,
    recordCount: 0,
    firstTimestamp: -1,
    maxTimestamp: -1,
    firstEpoch: -1,
    lastEpoch: -1,
    crc: 0,
    rolledMs: -1,
  };
}

/** A mapping, how many slices of it are out, and which of its bytes have been verified since it was made. */
export interface SegmentMapping {
  readonly mapping: Mapping;
  readonly verified: PositionRanges;
  refs: number;
  /** Of the segment: shared by all its mappings, retired ones too. */
  readonly slicesOut: { count: number };
  retired: boolean;
  /** Bytes read through it since it was last asked to forget them. */
  readBytes: number;
}

/** Mapped pages that were read count as memory of this process: a mapping may hold about this much of them. */
const READ_BYTES_KEPT = 8 * 1024 * 1024;

export class Segment {
  readonly baseOffset: Offset;
  path: string;
  sealed: boolean;
  /** Bytes a mapping has to cover: what may be written into the segment. */
  capacity: number;
  nextOffset: Offset;
  /** Undefined: a sealed segment that nobody has looked at yet. */
  facts: SegmentFacts | undefined;
  /** The append handle: open from the segment's first day until it is sealed. Whoever reads has a handle of his own. */
  file: DiskFile | undefined;
  mapped: SegmentMapping | undefined;
  /** Slices that readers hold, of this mapping and of those before it: the file must not be written over. */
  readonly slicesOut: { count: number } = { count: 0 };
  /** The file may be longer than its data: preallocated, or with the tail of an earlier life. */
  padded: boolean;
  /** Resolves once the file's name survives a power cut. */
  named: Promise<void>;
  /** Wall clock; -1: nothing since it was opened. */
  lastAppendMs: number;
  /** What lies at and above this position was appended by this process, after its checksum was checked. */
  appendedFrom = 0;
  removed = false;
  /** Where its sync marks begin, and which of the two is written next; undefined: it has none yet. */
  marks: { readonly at: number; readonly slot: number } | undefined;
  /** Covered by an fdatasync of this segment that has returned. */
  synced: { readonly offset: Offset; readonly position: number };
  /** A walk that makes facts and indexes anew: one at a time, for all who want it. */
  rebuilding: Promise<void> | undefined;
  /** The last writing of index files and seal. */
  deriving: Promise<void> = Promise.resolve();
  /** Where good batches begin again behind damaged ones, ascending. */
  readonly resyncs: { readonly position: number; readonly offset: Offset }[] = [];

  private currentIndex: SegmentIndex | undefined;

  constructor(baseOffset: Offset, path: string, nextOffset: Offset, capacity: number) {
    this.baseOffset = baseOffset;
    this.path = path;
    this.nextOffset = nextOffset;
    this.capacity = capacity;
    this.sealed = false;
    this.padded = false;
    this.named = Promise.resolve();
    this.lastAppendMs = -1;
    this.synced = { offset: baseOffset, position: 0 };
  }

  /** Never kept across a wait: the one that is replaced is let go. */
  get index(): SegmentIndex | undefined {
    return this.currentIndex;
  }
  set index(next: SegmentIndex | undefined) {
    if (this.currentIndex !== next) this.currentIndex?.release();
    this.currentIndex = next;
  }

  get size(): number {
    assert(this.facts !== undefined, `segment ${String(this.baseOffset)} has not been looked at`);
    return this.facts.size;
  }

  /** Opens the file for appends. */
  async open(disk: Disk): Promise<DiskFile> {
    assert(this.file === undefined && !this.sealed, `segment ${String(this.baseOffset)} is open or sealed`);
    this.file = await disk.open(this.path, 'write');
    return this.file;
  }

  /** The append handle is used by nobody else when it resolves. */
  async close(): Promise<void> {
    const { file } = this;
    this.file = undefined;
    if (file !== undefined) await file.close();
  }

  /** A batch boundary at or below the offset, with no damage between the two. */
  boundaryBelow(at: number): { readonly position: number; readonly offset: number } {
    const hit = this.index?.floorOffset(Math.max(0, at - this.baseOffset)) ?? { relativeOffset: 0, position: 0 };
    const boundary = { position: hit.position, offset: this.baseOffset + hit.relativeOffset };
    return this.resyncs.findLast((resync) => resync.offset <= at && resync.position > boundary.position) ?? boundary;
  }

  /** Made once, over the append handle or the one that is given. The mapping lives on without either. */
  map(reading?: DiskFile): SegmentMapping {
    if (this.mapped === undefined) {
      const file = this.file ?? reading;
      assert(file !== undefined, `segment ${String(this.baseOffset)} is not open`);
      const bytes = this.sealed ? this.size : this.capacity;
      const verified = new PositionRanges();
      if (!this.sealed) verified.add(this.appendedFrom, this.size);
      const { slicesOut } = this;
      this.mapped = { mapping: file.map(bytes), verified, refs: 0, slicesOut, retired: false, readBytes: 0 };
    }
    return this.mapped;
  }

  /** The mapping goes now, or with the last slice that is out. */
  retireMapping(): void {
    if (this.index?.isMapped === true) this.index = undefined;
    const mapped = this.mapped;
    if (mapped === undefined) return;
    this.mapped = undefined;
    mapped.retired = true;
    if (mapped.refs === 0) mapped.mapping.unmap();
  }
}

/** A counted slice: the mapping outlives it whatever happens to the segment. */
export function takeSlice(mapped: SegmentMapping, at: number, length: number): MappedSlice {
  const native = mapped.mapping.slice(position(at), length);
  return countedSlice(mapped, native, native.view);
}

/** A part of a slice that was taken, which it replaces: releasing the part releases the whole. */
export function narrowSlice(whole: MappedSlice, from: number, to: number): MappedSlice {
  if (from === 0 && to === whole.view.length) return whole;
  const view = whole.view.subarray(from, to);
  return {
    get view(): Uint8Array {
      return view;
    },
    release(): void {
      whole.release();
    },
  };
}

function countedSlice(mapped: SegmentMapping, native: MappedSlice, view: Uint8Array): MappedSlice {
  mapped.refs += 1;
  mapped.slicesOut.count += 1;
  // Once released, the view has no length any more.
  const size = view.length;
  let released = false;
  return {
    get view(): Uint8Array {
      return view;
    },
    release(): void {
      assert(!released, 'a slice was released twice');
      released = true;
      native.release();
      mapped.refs -= 1;
      mapped.slicesOut.count -= 1;
      mapped.readBytes += size;
      if (mapped.retired && mapped.refs === 0) mapped.mapping.unmap();
      else if (mapped.readBytes >= READ_BYTES_KEPT) {
        mapped.mapping.forget(position(0), mapped.mapping.bytes);
        mapped.readBytes = 0;
      }
    },
  };
}
