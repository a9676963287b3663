// Entries of the consensus core as batches of the metadata log: one batch each, its leader epoch the term.
import { assert } from '../base/assert.ts';
import { leaderEpoch, offset, type TimestampMs } from '../base/brands.ts';
import type { Crc32c } from '../base/checksum.ts';
import { decodeEntry, encodeEntry } from '../core/metadata/entry.ts';
import type { Entry } from '../core/raft/contract.ts';
import { checkBatch } from '../format/batch.ts';
import { encodeBatch, encodeEpochStart } from '../format/records.ts';
import type { CheckedBatch } from '../storage/contract.ts';
import type { PartitionLog } from '../storage/log.ts';
import { readRecords } from './metadata-replay.ts';

const NO_BYTES = new Uint8Array(0);
const VOTERS_KIND = 11;

export function encodeRaftEntry(entry: Entry, nodeId: number, timestamp: TimestampMs, crc32c: Crc32c): Uint8Array {
  if (entry.kind === 'noop') return encodeEpochStart(entry.term, nodeId, timestamp, crc32c);
  const value = entry.kind === 'voters' ? encodeEntry({ kind: 'Voters', bytes: entry.bytes }) : entry.bytes;
  return encodeBatch({ records: [{ timestamp, key: null, value }] }, crc32c);
}

/** Entries of one term, one behind the other. */
export function appendEntries(
  log: PartitionLog,
  entries: readonly Entry[],
  nodeId: number,
  timestamp: TimestampMs,
  crc32c: Crc32c,
): ReturnType<PartitionLog['append']> {
  const parts = entries.map((entry) => encodeRaftEntry(entry, nodeId, timestamp, crc32c));
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  const batches: CheckedBatch[] = [];
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    const checked = checkBatch(bytes, at, crc32c);
    assert(checked.ok, 'what was encoded just now is a batch');
    batches.push({ at, size: checked.size, header: checked.header });
    at += part.length;
  }
  return log.append(bytes, batches, leaderEpoch(entries[0]?.term ?? 0));
}

/** All from `from` on. Throws FatalError STORE_DAMAGED when one cannot be read. */
export async function readEntries(log: PartitionLog, from: number, crc32c: Crc32c): Promise<Entry[]> {
  const entries: Entry[] = [];
  await readRecords(log, offset(from), crc32c, (index, term, value) => {
    if (value === undefined) entries.push({ index, term, kind: 'noop', bytes: NO_BYTES });
    else if (value[0] === VOTERS_KIND) {
      const decoded = decodeEntry(value);
      assert(decoded.ok && decoded.entry.kind === 'Voters', `the entry at index ${String(index)} names no voters`);
      entries.push({ index, term, kind: 'voters', bytes: decoded.entry.bytes });
    } else entries.push({ index, term, kind: 'command', bytes: value.slice() });
  });
  return entries;
}

/** Undefined: not in the log. */
export function termAt(log: PartitionLog, index: number): number | undefined {
  if (index < log.logStartOffset || index >= log.logEndOffset) return undefined;
  return log.epochs.findLast(({ startOffset }) => startOffset <= index)?.epoch;
}
