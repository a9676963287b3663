// `checkpoint` of one log: two slots of 4096 bytes, written in turn. The slot with the higher sequence that is intact counts.
//
//   magic u32 "RVCP" · version u16 = 1 · flags u16 (bit 0: clean stop, bit 1: facts present, bit 2: there were more epochs)
//   sequence i64 · recovery point i64 · segment base i64 · position in that segment u32 · log start i64 · high watermark i64
//   facts of the active segment: record count i64, batch count u32, first timestamp i64, max timestamp i64, first epoch i32,
//   last epoch i32, crc u32, crc known u8 · epoch count u32 · (epoch i32, start offset i64)… · zeros
//   CRC32C u32 of all before it, in the last four bytes
import { offset, type Offset } from '../base/brands.ts';
import { ByteWriter, type ByteReader } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { need, seal32, type Decoded } from './decoded.ts';
import { EPOCH_ENTRY_BYTES, readEpochs, writeEpochs, type EpochEntry } from './epochs.ts';
import { readSummary, SUMMARY_BYTES, writeSummary, type SegmentSummary } from './facts.ts';
import { decodeSlot, newestSlot, SLOT_BYTES, type LoadedSlot } from './slots.ts';

export const CHECKPOINT_SLOT_BYTES: number = SLOT_BYTES;
const MAGIC = 0x5256_4350;
const VERSION = 1;
const CLEAN_BIT = 1;
const FACTS_BIT = 2;
const EPOCHS_CUT_BIT = 4;
const HEAD_BYTES: number = 4 + 2 + 2 + 8 + 8 + 8 + 4 + 8 + 8 + SUMMARY_BYTES + 4 + 1 + 4;
/** More than an edge node sees in years. Of more, the last ones are kept, and older ones are found in seals and batches. */
export const CHECKPOINT_EPOCHS_MAX: number = Math.floor((SLOT_BYTES - HEAD_BYTES - 4) / EPOCH_ENTRY_BYTES);

export interface ActiveFacts extends SegmentSummary {
  /** CRC32C of all `size` bytes; undefined: it has to be computed from the file. */
  readonly crc: number | undefined;
}

export interface Checkpoint {
  readonly sequence: number;
  /** Written at a clean stop: `active` holds the facts of the last segment. */
  readonly clean: boolean;
  /** Everything below was synced when this was written. */
  readonly recoveryPoint: Offset;
  /** The segment that holds the recovery point, and how far into it that lies. */
  readonly segmentBase: Offset;
  readonly segmentPosition: number;
  readonly logStart: Offset;
  readonly highWatermark: Offset;
  readonly epochs: readonly EpochEntry[];
  /** True: there were older epochs, for which there was no room. */
  readonly epochsCut: boolean;
  readonly active: ActiveFacts | undefined;
}

/** Epochs before the last `CHECKPOINT_EPOCHS_MAX` are left out, and the checkpoint says so. */
export function encodeCheckpoint(checkpoint: Omit<Checkpoint, 'epochsCut'>, crc32c: Crc32c): Uint8Array<ArrayBuffer> {
  const epochs = checkpoint.epochs.slice(-CHECKPOINT_EPOCHS_MAX);
  const { active } = checkpoint;
  const cut = epochs.length < checkpoint.epochs.length;
  const writer = new ByteWriter(HEAD_BYTES + epochs.length * EPOCH_ENTRY_BYTES)
    .u32(MAGIC)
    .u16(VERSION)
    .u16((checkpoint.clean ? CLEAN_BIT : 0) | (active === undefined ? 0 : FACTS_BIT) | (cut ? EPOCHS_CUT_BIT : 0))
    .i64(checkpoint.sequence)
    .i64(checkpoint.recoveryPoint)
    .i64(checkpoint.segmentBase)
    .u32(checkpoint.segmentPosition)
    .i64(checkpoint.logStart)
    .i64(checkpoint.highWatermark);
  writeSummary(writer, active ?? NO_FACTS);
  writeEpochs(writer.u32(active?.crc ?? 0).bool(active?.crc !== undefined), epochs);
  const slot = new Uint8Array(SLOT_BYTES);
  slot.set(writer.finish());
  seal32(slot, crc32c);
  return slot;
}

const NO_FACTS: SegmentSummary = {
  size: 0,
  batchCount: 0,
  recordCount: 0,
  firstTimestamp: -1,
  maxTimestamp: -1,
  firstEpoch: -1,
  lastEpoch: -1,
};

export function decodeCheckpoint(slot: Uint8Array, crc32c: Crc32c): Decoded<Checkpoint> {
  return decodeSlot(slot, crc32c, readCheckpoint);
}

/** Both slots, as they stand in the file. */
export function newestCheckpoint(file: Uint8Array, crc32c: Crc32c): LoadedSlot<Checkpoint> | undefined {
  return newestSlot(file, (slot) => decodeCheckpoint(slot, crc32c));
}

function readCheckpoint(reader: ByteReader): Checkpoint {
  need(reader.u32() === MAGIC, 'not a checkpoint', 0);
  need(reader.u16() === VERSION, 'a checkpoint of another version', 4);
  const flags = reader.u16();
  need(flags < 8, `flags ${String(flags)}`, 6);
  const sequence = reader.i64();
  const recoveryPoint = reader.i64();
  const segmentBase = reader.i64();
  const segmentPosition = reader.u32();
  const logStart = reader.i64();
  const highWatermark = reader.i64();
  need(
    Math.min(sequence, recoveryPoint, segmentBase, logStart, highWatermark) >= 0,
    'a negative offset or sequence',
    8,
  );
  const summary = readSummary(reader, segmentPosition);
  const crc = reader.u32();
  const crcKnown = reader.bool();
  const epochs = readEpochs(reader);
  return {
    sequence,
    clean: (flags & CLEAN_BIT) !== 0,
    recoveryPoint: offset(recoveryPoint),
    segmentBase: offset(segmentBase),
    segmentPosition,
    logStart: offset(logStart),
    highWatermark: offset(highWatermark),
    epochs,
    epochsCut: (flags & EPOCHS_CUT_BIT) !== 0,
    active: (flags & FACTS_BIT) === 0 ? undefined : { ...summary, crc: crcKnown ? crc : undefined },
  };
}
