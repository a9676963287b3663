// The seal of a rolled segment: what the file must hold. The scrubber and the reader compare; a lost seal is made again
// from the log, whose batches carry their own checksums.
//
//   magic u32 "RVSL" · version u16 · reserved u16 · base offset i64 · next offset i64 · size u32 · CRC32C of the file u32
//   record count i64 · first timestamp i64 · max timestamp i64 · first epoch i32 · last epoch i32 · rolled at i64
//   epoch count u32 · (epoch i32, start offset i64)… · CRC32C u32 of all before it
import { leaderEpoch, offset, type Offset } from '../base/brands.ts';
import { ByteReader, ByteWriter, DecodeError, readU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import type { EpochEntry } from './contract.ts';
import type { SegmentFacts } from './segment.ts';

const MAGIC = 0x5256_534c;
const VERSION = 1;
const HEAD_BYTES = 4 + 2 + 2 + 8 + 8 + 4 + 4 + 8 + 8 + 8 + 4 + 4 + 8 + 4;
const EPOCH_BYTES = 12;
export const SEAL_BYTES_MAX: number = 1024 * 1024;

export interface Seal {
  readonly baseOffset: Offset;
  readonly nextOffset: Offset;
  readonly facts: SegmentFacts & { readonly crc: number };
  /** Epochs that begin in this segment. */
  readonly epochs: readonly EpochEntry[];
}

export function encodeSeal(seal: Seal, crc32c: Crc32c): Uint8Array {
  const { facts } = seal;
  const epochs = seal.epochs.slice(0, Math.floor((SEAL_BYTES_MAX - HEAD_BYTES - 4) / EPOCH_BYTES));
  const writer = new ByteWriter(HEAD_BYTES + epochs.length * EPOCH_BYTES + 4)
    .u32(MAGIC)
    .u16(VERSION)
    .u16(0)
    .i64(seal.baseOffset)
    .i64(seal.nextOffset)
    .u32(facts.size)
    .u32(facts.crc)
    .i64(facts.recordCount)
    .i64(facts.firstTimestamp)
    .i64(facts.maxTimestamp)
    .i32(facts.firstEpoch)
    .i32(facts.lastEpoch)
    .i64(facts.rolledMs)
    .u32(epochs.length);
  for (const entry of epochs) writer.i32(entry.epoch).i64(entry.startOffset);
  return writer.u32(crc32c(writer.bytes.subarray(0, writer.at))).finish();
}

/** Undefined: torn, damaged, or of a version we do not know. */
export function decodeSeal(bytes: Uint8Array, crc32c: Crc32c): Seal | undefined {
  if (bytes.length < HEAD_BYTES + 4 || readU32(bytes, bytes.length - 4) !== crc32c(bytes.subarray(0, bytes.length - 4)))
    return undefined;
  const reader = new ByteReader(bytes);
  try {
    if (reader.u32() !== MAGIC || reader.u16() !== VERSION || reader.u16() !== 0) return undefined;
    const baseOffset = offset(reader.i64());
    const nextOffset = offset(reader.i64());
    const facts = {
      size: reader.u32(),
      crc: reader.u32(),
      recordCount: reader.i64(),
      firstTimestamp: reader.i64(),
      maxTimestamp: reader.i64(),
      firstEpoch: reader.i32(),
      lastEpoch: reader.i32(),
      rolledMs: reader.i64(),
    };
    const epochs: EpochEntry[] = [];
    for (let left = reader.u32(); left > 0; left -= 1)
      epochs.push({ epoch: leaderEpoch(reader.i32()), startOffset: offset(reader.i64()) });
    reader.u32();
    reader.end();
    return { baseOffset, nextOffset, facts, epochs };
  } catch (error) {
    if (error instanceof DecodeError) return undefined;
    throw error;
  }
}
