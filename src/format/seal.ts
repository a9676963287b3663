// `<base offset>.seal`: what a rolled segment's file must hold. The scrubber, the reader and replicas compare with it. It is
// derived: one that is lost or damaged is made again from the log, whose batches carry their own checksums.
//
//   magic u32 "RVSL" · version u16 = 1 · flags u16 (bit 0: there were more epochs) · base offset i64 · next offset i64
//   size u32 · CRC32C of the log file's first `size` bytes u32
//   record count i64 · batch count u32 · first timestamp i64 · max timestamp i64 · first epoch i32 · last epoch i32
//   rolled at i64 · epoch count u32 · (epoch i32, start offset i64)… · CRC32C u32 of all before it
import { assert } from '../base/assert.ts';
import { offset, type Offset } from '../base/brands.ts';
import { ByteWriter, type ByteReader } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { decodeWhole, need, seal32, unseal32, type Decoded } from './decoded.ts';
import { EPOCH_ENTRY_BYTES, readEpochs, writeEpochs, type EpochEntry } from './epochs.ts';
import { readSummary, SUMMARY_BYTES, writeSummary, type SegmentSummary } from './facts.ts';

const MAGIC = 0x5256_534c;
const VERSION = 1;
const EPOCHS_CUT_BIT = 1;
const HEAD_BYTES: number = 4 + 2 + 2 + 8 + 8 + 4 + 4 + SUMMARY_BYTES + 8;
const CHECKSUM_BYTES = 4;
/** A larger file is no seal: it is not read. */
export const SEAL_BYTES_MAX: number = 1024 * 1024;
/** Of these many epochs, each with a batch of its own, a segment has the first ones in its seal. */
export const SEAL_EPOCHS_MAX: number = Math.floor(
  (SEAL_BYTES_MAX - HEAD_BYTES - 4 - CHECKSUM_BYTES) / EPOCH_ENTRY_BYTES,
);

export interface SealedFacts extends SegmentSummary {
  /** CRC32C of all `size` bytes. */
  readonly crc: number;
  /** Wall clock when it was rolled, in milliseconds; −1: not known. */
  readonly rolledMs: number;
}

export interface Seal {
  readonly baseOffset: Offset;
  readonly nextOffset: Offset;
  readonly facts: SealedFacts;
  /** Epochs that begin in this segment, ascending. The one in force before the first of them is `facts.firstEpoch`. */
  readonly epochs: readonly EpochEntry[];
  /** True: more epochs begin in it than a seal holds. The others are found in its batches. */
  readonly epochsCut: boolean;
}

/** Epochs beyond `SEAL_EPOCHS_MAX` are left out, and the seal says so. */
export function encodeSeal(seal: Omit<Seal, 'epochsCut'>, crc32c: Crc32c): Uint8Array<ArrayBuffer> {
  const { facts } = seal;
  assert(
    seal.nextOffset >= seal.baseOffset,
    `seal of offsets ${String(seal.baseOffset)} to ${String(seal.nextOffset)}`,
  );
  const epochs = seal.epochs.slice(0, SEAL_EPOCHS_MAX);
  const writer = new ByteWriter(HEAD_BYTES + 4 + epochs.length * EPOCH_ENTRY_BYTES + CHECKSUM_BYTES)
    .u32(MAGIC)
    .u16(VERSION)
    .u16(epochs.length < seal.epochs.length ? EPOCHS_CUT_BIT : 0)
    .i64(seal.baseOffset)
    .i64(seal.nextOffset)
    .u32(facts.size)
    .u32(facts.crc);
  writeSummary(writer, facts);
  writeEpochs(writer.i64(facts.rolledMs), epochs);
  const bytes = writer.u32(0).finish();
  seal32(bytes, crc32c);
  return bytes;
}

export function decodeSeal(bytes: Uint8Array, crc32c: Crc32c): Decoded<Seal> {
  const body = unseal32(bytes, crc32c);
  return body.ok ? decodeWhole(body.value, readSeal) : body;
}

function readSeal(reader: ByteReader): Seal {
  need(reader.u32() === MAGIC, 'not a seal', 0);
  need(reader.u16() === VERSION, 'a seal of another version', 4);
  const flags = reader.u16();
  need(flags <= EPOCHS_CUT_BIT, `flags ${String(flags)}`, 6);
  const baseOffset = reader.i64();
  const nextOffset = reader.i64();
  need(baseOffset >= 0 && nextOffset >= baseOffset, `offsets ${String(baseOffset)} to ${String(nextOffset)}`, 8);
  const size = reader.u32();
  const crc = reader.u32();
  const summary = readSummary(reader, size);
  const rolledMs = reader.i64();
  const epochs = readEpochs(reader);
  return {
    baseOffset: offset(baseOffset),
    nextOffset: offset(nextOffset),
    facts: { ...summary, crc, rolledMs },
    epochs,
    epochsCut: flags === EPOCHS_CUT_BIT,
  };
}
