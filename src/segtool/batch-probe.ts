// Single batches at places that may or may not hold one, and what they were before a header field outside the checksum was changed.
import { position } from '../base/brands.ts';
import { readI64, readU32, writeI64, writeU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { BATCH_BYTES_MAX } from '../base/limits.ts';
import {
  BASE_OFFSET_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  BATCH_LENGTH_OVERHEAD,
  checkBatch,
  LEADER_EPOCH_AT,
  MAGIC,
  MAGIC_AT,
  type BatchHeader,
} from '../format/batch.ts';
import type { DiskFile } from '../ports/disk.ts';

/** Bytes to be written over those at `at`. */
export interface Patch {
  readonly at: number;
  readonly bytes: Uint8Array;
}

export interface ProbedBatch {
  readonly position: number;
  readonly size: number;
  readonly header: BatchHeader;
  /** As they should be: patched already. */
  readonly bytes: Uint8Array;
  readonly patches: readonly Patch[];
}

export class BatchProbe {
  private readonly file: DiskFile;
  private readonly crc32c: Crc32c;
  private readonly to: number;
  constructor(file: DiskFile, to: number, crc32c: Crc32c) {
    this.file = file;
    this.to = to;
    this.crc32c = crc32c;
  }

  /** Structure and checksum only: offset and epoch are for the caller to judge. */
  async at(position_: number): Promise<ProbedBatch | undefined> {
    const size = await this.declaredSize(position_);
    return size === undefined ? undefined : this.checked(position_, await this.bytes(position_, size), []);
  }

  async declaredSize(at: number): Promise<number | undefined> {
    if (at + BATCH_HEADER_BYTES > this.to) return undefined;
    const size = readU32(await this.bytes(at, BATCH_LENGTH_OVERHEAD), BATCH_LENGTH_AT) + BATCH_LENGTH_OVERHEAD;
    return size >= BATCH_HEADER_BYTES && size <= BATCH_BYTES_MAX && at + size <= this.to ? size : undefined;
  }

  /** With its magic, its length, or a base offset that no log has set right: the checksum proves that the rest is whole. */
  async healed(at: number, size: number | undefined, expected: number): Promise<ProbedBatch | undefined> {
    const length = size ?? (await this.declaredSize(at));
    if (length === undefined || length < BATCH_HEADER_BYTES || length > BATCH_BYTES_MAX || at + length > this.to)
      return undefined;
    const bytes = await this.bytes(at, length);
    const patches: Patch[] = [];
    if (bytes[MAGIC_AT] !== MAGIC) patches.push(this.patch(at, bytes, MAGIC_AT, Uint8Array.of(MAGIC)));
    if (readU32(bytes, BATCH_LENGTH_AT) + BATCH_LENGTH_OVERHEAD !== length)
      patches.push(this.patch(at, bytes, BATCH_LENGTH_AT, u32(length - BATCH_LENGTH_OVERHEAD)));
    const base = readI64(bytes, BASE_OFFSET_AT);
    // One bit of the upper ones: what a batch of elsewhere has there is not known.
    if ((base === undefined || base < 0) && isOneBit(bytes, expected))
      patches.push(this.patch(at, bytes, BASE_OFFSET_AT, i64(expected)));
    return this.checked(at, bytes, patches);
  }

  /** The same batch with another base offset or epoch. */
  restamped(batch: ProbedBatch, baseOffset: number, epoch: number): ProbedBatch {
    const bytes = batch.bytes.slice();
    const patches = [...batch.patches];
    if (batch.header.baseOffset !== baseOffset)
      patches.push(this.patch(batch.position, bytes, BASE_OFFSET_AT, i64(baseOffset)));
    if (batch.header.leaderEpoch !== epoch)
      patches.push(this.patch(batch.position, bytes, LEADER_EPOCH_AT, u32(epoch)));
    return this.checked(batch.position, bytes, patches) ?? batch;
  }

  private patch(at: number, bytes: Uint8Array, field: number, value: Uint8Array): Patch {
    bytes.set(value, field);
    return { at: at + field, bytes: value };
  }

  private checked(at: number, bytes: Uint8Array, patches: readonly Patch[]): ProbedBatch | undefined {
    const found = checkBatch(bytes, 0, this.crc32c);
    return found.ok && found.size === bytes.length
      ? { position: at, size: found.size, header: found.header, bytes, patches }
      : undefined;
  }

  private async bytes(at: number, size: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(size);
    const got = await this.file.read(bytes, position(at));
    return got === size ? bytes : bytes.fill(0, got);
  }
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  writeU32(bytes, 0, value);
  return bytes;
}

function i64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  writeI64(bytes, 0, value);
  return bytes;
}

function isOneBit(bytes: Uint8Array, expected: number): boolean {
  const wanted = i64(expected);
  let bits = 0;
  for (let index = 0; index < 8; index += 1) {
    for (let rest = (bytes[index] ?? 0) ^ (wanted[index] ?? 0); rest > 0; rest &= rest - 1) bits += 1;
  }
  return bits === 1;
}
