// What belongs to the node and must survive everything: term, vote, incarnation, and whether the last stop was clean. Two
// slots of 4096 bytes, written in place in turn and synced each time, so that one is always intact:
//
//   magic u32 "RVSB" · version u16 · flags u16 (bit 0: clean) · sequence i64 · term i64 · vote i32 · incarnation i64
//   boot id string · zeros · CRC32C u32 of all before it, in the last four bytes
import { position } from '../base/brands.ts';
import { ByteReader, ByteWriter, DecodeError, readU32, stringSize, writeU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { StorageDeps } from './config.ts';

const MAGIC = 0x5256_5342;
const VERSION = 1;
const SLOT_BYTES = 4096;
const FILE_NAME = 'superblock';

export interface Superblock {
  readonly sequence: number;
  readonly term: number;
  /** -1: none. */
  readonly vote: number;
  readonly incarnation: number;
  readonly bootId: string;
  readonly clean: boolean;
}

function encodeSlot(superblock: Superblock, crc32c: Crc32c): Uint8Array {
  const writer = new ByteWriter(4 + 2 + 2 + 8 + 8 + 4 + 8 + stringSize(superblock.bootId))
    .u32(MAGIC)
    .u16(VERSION)
    .u16(superblock.clean ? 1 : 0)
    .i64(superblock.sequence)
    .i64(superblock.term)
    .i32(superblock.vote)
    .i64(superblock.incarnation)
    .string(superblock.bootId);
  const slot = new Uint8Array(SLOT_BYTES);
  slot.set(writer.finish());
  writeU32(slot, SLOT_BYTES - 4, crc32c(slot.subarray(0, SLOT_BYTES - 4)));
  return slot;
}

function decodeSlot(slot: Uint8Array, crc32c: Crc32c): Superblock | undefined {
  if (slot.length !== SLOT_BYTES || readU32(slot, SLOT_BYTES - 4) !== crc32c(slot.subarray(0, SLOT_BYTES - 4)))
    return undefined;
  const reader = new ByteReader(slot);
  try {
    if (reader.u32() !== MAGIC || reader.u16() !== VERSION) return undefined;
    const flags = reader.u16();
    return {
      sequence: reader.i64(),
      term: reader.i64(),
      vote: reader.i32(),
      incarnation: reader.i64(),
      bootId: reader.string(),
      clean: (flags & 1) === 1,
    };
  } catch (error) {
    if (error instanceof DecodeError) return undefined;
    throw error;
  }
}

/** absent: there is no file. damaged: neither slot can be read: the votes are forgotten, and that must not pass silently. */
export type LoadedSuperblock =
  | { readonly kind: 'ok'; readonly superblock: Superblock }
  | { readonly kind: 'absent' | 'damaged' };

export class SuperblockFile {
  private readonly deps: StorageDeps;
  private readonly file: DiskFile;
  private slot: number;
  private writing: Promise<void> = Promise.resolve();
  current: Superblock;

  private constructor(deps: StorageDeps, file: DiskFile, slot: number, current: Superblock) {
    this.deps = deps;
    this.file = file;
    this.slot = slot;
    this.current = current;
  }

  static async open(deps: StorageDeps): Promise<{ readonly file: SuperblockFile; readonly loaded: LoadedSuperblock }> {
    const exists = await deps.disk.exists(FILE_NAME);
    const file = await deps.disk.open(FILE_NAME, exists ? 'write' : 'create');
    const none: Superblock = { sequence: 0, term: 0, vote: -1, incarnation: 0, bootId: '', clean: false };
    if (!exists) return { file: new SuperblockFile(deps, file, 1, none), loaded: { kind: 'absent' } };
    const bytes = new Uint8Array(2 * SLOT_BYTES);
    const got = await file.read(bytes, position(0));
    const first = decodeSlot(bytes.subarray(0, Math.min(got, SLOT_BYTES)), deps.crc32c);
    const second = decodeSlot(bytes.subarray(SLOT_BYTES, Math.max(SLOT_BYTES, got)), deps.crc32c);
    const useFirst = first !== undefined && (second === undefined || first.sequence > second.sequence);
    const superblock = useFirst ? first : second;
    if (superblock !== undefined)
      return { file: new SuperblockFile(deps, file, useFirst ? 0 : 1, superblock), loaded: { kind: 'ok', superblock } };
    // A crash in the very first write leaves a file that was never said to be there.
    const empty = bytes.subarray(0, got).every((byte) => byte === 0);
    return { file: new SuperblockFile(deps, file, 1, none), loaded: { kind: empty ? 'absent' : 'damaged' } };
  }

  /** One after another; durable when it resolves. */
  write(change: Partial<Superblock>): Promise<void> {
    this.writing = this.writing.then(async () => {
      const next = { ...this.current, ...change, sequence: this.current.sequence + 1 };
      const slot = 1 - this.slot;
      await this.file.writeSlow(encodeSlot(next, this.deps.crc32c), position(slot * SLOT_BYTES));
      await this.file.sync();
      this.slot = slot;
      this.current = next;
    });
    return this.writing;
  }

  close(): Promise<void> {
    return this.file.close();
  }
}
