// Reads entries back from the metadata log. What cannot be read or understood stops the node: an entry cannot be skipped.
import { offset, type Offset } from '../base/brands.ts';
import { DecodeError } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { FatalError } from '../base/fatal.ts';
import { decodeEntry, type MetadataEntry } from '../core/metadata/entry.ts';
import { BATCH_HEADER_BYTES, checkBatch } from '../format/batch.ts';
import { decodeRecords } from '../format/records.ts';
import type { PartitionLog } from '../storage/log.ts';

const READ_BYTES = 1024 * 1024;
/** A read that stays cold so often means that the memory is thrashing; the start fails with a reason then. */
const COLD_READS_MAX = 64;

/** `value` undefined: a control record. The bytes are good during the call only. */
export type RecordVisit = (index: number, term: number, value: Uint8Array | undefined) => void;

export async function replayEntries(
  log: PartitionLog,
  from: Offset,
  crc32c: Crc32c,
  visit: (index: number, entry: MetadataEntry) => void,
): Promise<void> {
  await readRecords(log, from, crc32c, (index, _term, value) => {
    if (value !== undefined) visit(index, entryOf(value, index));
  });
}

export async function readRecords(log: PartitionLog, from: Offset, crc32c: Crc32c, visit: RecordVisit): Promise<void> {
  const end = log.logEndOffset;
  let next = from;
  let cold = 0;
  while (next < end) {
    const result = log.read(next, READ_BYTES, end);
    if (result.kind === 'cold') {
      cold += 1;
      if (cold > COLD_READS_MAX) throw damaged(next, 'it cannot be brought into memory');
      await log.prepare(next, READ_BYTES);
      continue;
    }
    if (result.kind !== 'slices') throw damaged(next, `reading says "${result.kind}"`);
    cold = 0;
    const bytes = new Uint8Array(result.bytes);
    let filled = 0;
    for (const slice of result.slices) {
      bytes.set(slice.view, filled);
      filled += slice.view.length;
      slice.release();
    }
    next = visitBatches(bytes, next, crc32c, visit);
  }
}

function visitBatches(bytes: Uint8Array, from: Offset, crc32c: Crc32c, visit: RecordVisit): Offset {
  let next = from;
  for (let at = 0; at < bytes.length;) {
    const checked = checkBatch(bytes, at, crc32c);
    if (!checked.ok) throw damaged(next, checked.detail);
    const { header, size } = checked;
    if (header.codec !== 0) throw damaged(next, 'it is compressed');
    for (const record of recordsOf(bytes.subarray(at + BATCH_HEADER_BYTES, at + size), header, next)) {
      if (record.offset < from) continue;
      if (record.value === null) throw damaged(record.offset, 'it has no value');
      visit(record.offset, header.leaderEpoch, header.isControl ? undefined : record.value);
    }
    next = offset(header.lastOffset + 1);
    at += size;
  }
  return next;
}

export function entryOf(bytes: Uint8Array, at: number): MetadataEntry {
  const decoded = decodeEntry(bytes);
  if (decoded.ok) return decoded.entry;
  if (decoded.why === 'damaged') throw damaged(at, decoded.reason);
  throw new FatalError(
    'FORMAT_TOO_NEW',
    `The metadata log holds at index ${String(at)} what this version does not know: ${decoded.reason}.`,
  );
}

function recordsOf(
  bytes: Uint8Array,
  header: Parameters<typeof decodeRecords>[1],
  at: number,
): ReturnType<typeof decodeRecords> {
  try {
    return decodeRecords(bytes, header);
  } catch (error) {
    if (error instanceof DecodeError) throw damaged(at, error.message);
    throw error;
  }
}

function damaged(index: number, reason: string): FatalError {
  return new FatalError(
    'STORE_DAMAGED',
    `The metadata log cannot be read at index ${String(index)}: ${reason}. Use segtool verify.`,
  );
}
