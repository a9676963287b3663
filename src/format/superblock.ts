// `superblock`: what belongs to the node and must survive everything. Two slots of 4096 bytes, each synced before the next
// is written:
//
//   magic u32 "RVSB" · version u16 = 1 · flags u16 (bit 0: clean) · sequence i64 · term i64 · vote i32 · incarnation i64
//   boot id: length u16, UTF-8 · zeros · CRC32C u32 of all before it, in the last four bytes
import { assert } from '../base/assert.ts';
import { ByteWriter, stringSize, type ByteReader } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { need, seal32, type Decoded } from './decoded.ts';
import { decodeSlot, newestSlot, SLOT_BYTES, type LoadedSlot } from './slots.ts';

export const SUPERBLOCK_SLOT_BYTES: number = SLOT_BYTES;
const MAGIC = 0x5256_5342;
const VERSION = 1;
const CLEAN_BIT = 1;
const HEAD_BYTES: number = 4 + 2 + 2 + 8 + 8 + 4 + 8;
export const BOOT_ID_BYTES_MAX = 256;

export interface Superblock {
  readonly sequence: number;
  readonly term: number;
  /** −1: none. */
  readonly vote: number;
  /** Counts the starts of the store. */
  readonly incarnation: number;
  /** Of the running system: another one means that the machine was started again, not only the process. */
  readonly bootId: string;
  /** Everything was synced and recorded before the process ended. */
  readonly clean: boolean;
}

export function encodeSuperblock(superblock: Superblock, crc32c: Crc32c): Uint8Array<ArrayBuffer> {
  const bootIdBytes = stringSize(superblock.bootId);
  assert(bootIdBytes <= 2 + BOOT_ID_BYTES_MAX, `boot id of ${String(bootIdBytes)} bytes`);
  const writer = new ByteWriter(HEAD_BYTES + bootIdBytes)
    .u32(MAGIC)
    .u16(VERSION)
    .u16(superblock.clean ? CLEAN_BIT : 0)
    .i64(superblock.sequence)
    .i64(superblock.term)
    .i32(superblock.vote)
    .i64(superblock.incarnation)
    .string(superblock.bootId);
  const slot = new Uint8Array(SLOT_BYTES);
  slot.set(writer.finish());
  seal32(slot, crc32c);
  return slot;
}

export function decodeSuperblock(slot: Uint8Array, crc32c: Crc32c): Decoded<Superblock> {
  return decodeSlot(slot, crc32c, readSuperblock);
}

/** Both slots, as they stand in the file. */
export function newestSuperblock(file: Uint8Array, crc32c: Crc32c): LoadedSlot<Superblock> | undefined {
  return newestSlot(file, (slot) => decodeSuperblock(slot, crc32c));
}

function readSuperblock(reader: ByteReader): Superblock {
  need(reader.u32() === MAGIC, 'not a superblock', 0);
  need(reader.u16() === VERSION, 'a superblock of another version', 4);
  const flags = reader.u16();
  need(flags <= CLEAN_BIT, `flags ${String(flags)}`, 6);
  const sequence = reader.i64();
  const term = reader.i64();
  const vote = reader.i32();
  const incarnation = reader.i64();
  need(Math.min(sequence, term, incarnation) >= 0 && vote >= -1, 'a negative number', 8);
  return { sequence, term, vote, incarnation, bootId: reader.string(BOOT_ID_BYTES_MAX), clean: flags === CLEAN_BIT };
}
