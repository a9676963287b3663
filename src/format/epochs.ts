// Which leader epoch began where: a list in which offsets and epochs both rise. It is kept in checkpoints and seals, and it
// is what finds a changed epoch in a batch header, which no checksum of the batch covers.
import { leaderEpoch, offset, type LeaderEpoch, type Offset } from '../base/brands.ts';
import { assert } from '../base/assert.ts';
import type { ByteReader, ByteWriter } from '../base/bytes.ts';
import { need } from './decoded.ts';

export interface EpochEntry {
  readonly epoch: LeaderEpoch;
  readonly startOffset: Offset;
}

/** Bytes of an entry in a file: epoch i32, start offset i64. */
export const EPOCH_ENTRY_BYTES = 12;

/** The epoch of the record at `at`; undefined where the history does not reach back to it. */
export function epochAt(entries: readonly EpochEntry[], at: number): LeaderEpoch | undefined {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((entries[middle]?.startOffset ?? Number.POSITIVE_INFINITY) <= at) low = middle + 1;
    else high = middle;
  }
  return entries[low - 1]?.epoch;
}

/** Count u32, then the entries. */
export function writeEpochs(writer: ByteWriter, entries: readonly EpochEntry[]): void {
  writer.u32(entries.length);
  let last: EpochEntry | undefined;
  for (const entry of entries) {
    // What cannot be read back must not be written: the file would be lost.
    assert(
      last === undefined || (entry.epoch > last.epoch && entry.startOffset > last.startOffset),
      `epoch ${String(entry.epoch)} at offset ${String(entry.startOffset)} is out of order`,
    );
    writer.i32(entry.epoch).i64(entry.startOffset);
    last = entry;
  }
}

/** Throws DecodeError unless epochs and offsets both rise. */
export function readEpochs(reader: ByteReader): readonly EpochEntry[] {
  const entries: EpochEntry[] = [];
  let lastEpoch = -2;
  let lastStart = -1;
  for (let rest = reader.count(EPOCH_ENTRY_BYTES); rest > 0; rest -= 1) {
    const at = reader.at;
    const epoch = reader.i32();
    const start = reader.i64();
    need(
      epoch > lastEpoch && start > lastStart,
      `epoch ${String(epoch)} at offset ${String(start)} behind ${String(lastEpoch)} at ${String(lastStart)}`,
      at,
    );
    entries.push({ epoch: leaderEpoch(epoch), startOffset: offset(start) });
    lastEpoch = epoch;
    lastStart = start;
  }
  return entries;
}
