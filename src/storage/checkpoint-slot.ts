// One slot of a log's checkpoint, 4096 bytes, big-endian:
//
//   magic u32 "RVCP" · version u16 · flags u16 (bit 0: clean stop, bit 1: facts present) · sequence i64
//   recovery point i64 · segment base i64 · position in that segment u32 · log start i64 · high watermark i64
//   facts of the active segment: record count i64, first timestamp i64, max timestamp i64, first epoch i32, last epoch i32, crc u32, crc known u8
//   epoch count u32 · (epoch i32, start offset i64)… · zeros · CRC32C u32 of all before it, in the last four bytes
import { assert } from '../base/assert.ts';
import { leaderEpoch, offset, type Offset } from '../base/brands.ts';
import { ByteReader, ByteWriter, DecodeError, readU32, writeU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import type { EpochEntry } from './contract.ts';
import type { SegmentFacts } from './segment.ts';

export const CHECKPOINT_SLOT_BYTES = 4096;
const MAGIC = 0x5256_4350;
const VERSION = 1;
const HEAD_BYTES = 4 + 2 + 2 + 8 + 8 + 8 + 4 + 8 + 8 + (8 + 8 + 8 + 4 + 4 + 4 + 1) + 4;
const EPOCH_BYTES = 12;
/** More than an edge node sees in years; older ones are found in the log's batches. */
export const CHECKPOINT_EPOCHS_MAX: number = Math.floor((CHECKPOINT_SLOT_BYTES - HEAD_BYTES - 4) / EPOCH_BYTES);

export interface Checkpoint {
  readonly sequence: number;
  /** Written at a clean stop: `active` holds the facts of the last segment. */
  readonly clean: boolean;
  readonly recoveryPoint: Offset;
  /** The segment that holds the recovery point, and how far into it. */
  readonly segmentBase: Offset;
  readonly segmentPosition: number;
  readonly logStart: Offset;
  readonly highWatermark: Offset;
  readonly epochs: readonly EpochEntry[];
  readonly active: SegmentFacts | undefined;
}

export function encodeCheckpoint(checkpoint: Checkpoint, crc32c: Crc32c): Uint8Array {
  const epochs = checkpoint.epochs.slice(-CHECKPOINT_EPOCHS_MAX);
  const { active } = checkpoint;
  const writer = new ByteWriter(HEAD_BYTES + epochs.length * EPOCH_BYTES)
    .u32(MAGIC)
    .u16(VERSION)
    .u16((checkpoint.clean ? 1 : 0) | (active === undefined ? 0 : 2))
    .i64(checkpoint.sequence)
    .i64(checkpoint.recoveryPoint)
    .i64(checkpoint.segmentBase)
    .u32(checkpoint.segmentPosition)
    .i64(checkpoint.logStart)
    .i64(checkpoint.highWatermark)
    .i64(active?.recordCount ?? 0)
    .i64(active?.firstTimestamp ?? -1)
    .i64(active?.maxTimestamp ?? -1)
    .i32(active?.firstEpoch ?? -1)
    .i32(active?.lastEpoch ?? -1)
    .u32(active?.crc ?? 0)
    .bool(active?.crc !== undefined)
    .u32(epochs.length);
  for (const entry of epochs) writer.i32(entry.epoch).i64(entry.startOffset);
  const slot = new Uint8Array(CHECKPOINT_SLOT_BYTES);
  slot.set(writer.finish());
  writeU32(slot, CHECKPOINT_SLOT_BYTES - 4, crc32c(slot.subarray(0, CHECKPOINT_SLOT_BYTES - 4)));
  return slot;
}

/** Undefined: not a whole, intact slot of a version we know. */
export function decodeCheckpoint(slot: Uint8Array, crc32c: Crc32c): Checkpoint | undefined {
  if (slot.length !== CHECKPOINT_SLOT_BYTES) return undefined;
  if (readU32(slot, CHECKPOINT_SLOT_BYTES - 4) !== crc32c(slot.subarray(0, CHECKPOINT_SLOT_BYTES - 4)))
    return undefined;
  const reader = new ByteReader(slot);
  try {
    if (reader.u32() !== MAGIC || reader.u16() !== VERSION) return undefined;
    return decodeBody(reader);
  } catch (error) {
    if (error instanceof DecodeError) return undefined;
    throw error;
  }
}

function decodeBody(reader: ByteReader): Checkpoint | undefined {
  const flags = reader.u16();
  const sequence = reader.i64();
  const recoveryPoint = reader.i64();
  const segmentBase = reader.i64();
  const segmentPosition = reader.u32();
  const logStart = reader.i64();
  const highWatermark = reader.i64();
  const recordCount = reader.i64();
  const firstTimestamp = reader.i64();
  const maxTimestamp = reader.i64();
  const firstEpoch = reader.i32();
  const lastEpoch = reader.i32();
  const crc = reader.u32();
  const crcKnown = reader.bool();
  const count = reader.u32();
  if (count > CHECKPOINT_EPOCHS_MAX || Math.min(recoveryPoint, segmentBase, logStart, highWatermark) < 0)
    return undefined;
  const epochs: EpochEntry[] = [];
  for (let index = 0; index < count; index += 1)
    epochs.push({ epoch: leaderEpoch(reader.i32()), startOffset: offset(reader.i64()) });
  assert(reader.at <= CHECKPOINT_SLOT_BYTES - 4, 'checkpoint body ends before its checksum');
  const facts = {
    size: segmentPosition,
    recordCount,
    firstTimestamp,
    maxTimestamp,
    firstEpoch,
    lastEpoch,
    crc: crcKnown ? crc : undefined,
    rolledMs: -1,
  };
  return {
    sequence,
    clean: (flags & 1) !== 0,
    recoveryPoint: offset(recoveryPoint),
    segmentBase: offset(segmentBase),
    segmentPosition,
    logStart: offset(logStart),
    highWatermark: offset(highWatermark),
    epochs,
    active: (flags & 2) === 0 ? undefined : facts,
  };
}
