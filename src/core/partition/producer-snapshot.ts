// The remembered producers as bytes: magic, version, CRC32C of what follows, the offset that it covers everything below of,
// then one item for each producer in the order of their last appends.
import { offset, type Offset } from '../../base/brands.ts';
import { ByteReader, ByteWriter, DecodeError } from '../../base/bytes.ts';
import type { Crc32c } from '../../base/checksum.ts';
import { PRODUCER_WINDOW, ProducerTable, type ProducerState, type RememberedBatch } from './producers.ts';

const MAGIC = 0x5256_5053;
const VERSION = 1;
const HEAD_BYTES = 9;
const PRODUCER_BYTES = 8 + 2 + 8 + 8 + 1;
const BATCH_BYTES = 4 + 4 + 8;

/** Undefined: what the table was when the log ended at `covers` cannot be told. `nowMs`: of the clock of `lastAppendMs`. */
export function encodeProducerSnapshot(
  table: ProducerTable,
  covers: Offset,
  nowMs: number,
  crc32c: Crc32c,
): Uint8Array<ArrayBuffer> | undefined {
  const states = table.statesBelow(covers);
  if (states === undefined) return undefined;
  let size = HEAD_BYTES + 8 + 4;
  for (const state of states.values()) size += PRODUCER_BYTES + state.batches.length * BATCH_BYTES;
  const writer = new ByteWriter(size).u32(MAGIC).u8(VERSION).u32(0).i64(covers).u32(states.size);
  for (const [producer, state] of states) {
    // An age, not a time: clocks of two runs cannot be compared.
    const ageMs = Math.max(0, Math.floor(nowMs - state.lastAppendMs));
    writer.i64(producer).u16(state.epoch).i64(ageMs).i64(state.forgottenTo).u8(state.batches.length);
    for (const batch of state.batches) writer.u32(batch.baseSequence).u32(batch.recordCount).i64(batch.baseOffset);
  }
  const bytes = writer.finish();
  new DataView(bytes.buffer).setUint32(5, crc32c(bytes.subarray(HEAD_BYTES)));
  return bytes;
}

export type RestoredProducers =
  | { readonly ok: true; readonly table: ProducerTable; readonly covers: Offset }
  | { readonly ok: false; readonly reason: string };

export function decodeProducerSnapshot(
  bytes: Uint8Array,
  nowMs: number,
  max: number,
  crc32c: Crc32c,
): RestoredProducers {
  try {
    const reader = new ByteReader(bytes);
    if (reader.u32() !== MAGIC) return { ok: false, reason: 'not a producer snapshot' };
    const version = reader.u8();
    if (version !== VERSION) return { ok: false, reason: `producer snapshot of unknown version ${String(version)}` };
    if (reader.u32() !== crc32c(bytes.subarray(HEAD_BYTES)))
      return { ok: false, reason: 'checksum of a producer snapshot' };
    const covers = offset(reader.i64());
    const table = new ProducerTable(max);
    for (let rest = reader.count(PRODUCER_BYTES); rest > 0; rest -= 1)
      table.restore(reader.i64(), readState(reader, nowMs));
    reader.end();
    return { ok: true, table, covers };
  } catch (error) {
    if (error instanceof DecodeError) return { ok: false, reason: error.message };
    throw error;
  }
}

function readState(reader: ByteReader, nowMs: number): ProducerState {
  const epoch = reader.u16();
  const lastAppendMs = nowMs - reader.i64();
  const forgottenTo = reader.i64();
  const { at } = reader;
  const count = reader.u8();
  if (count < 1 || count > PRODUCER_WINDOW) throw new DecodeError(`${String(count)} batches of a producer`, at);
  const batches: RememberedBatch[] = [];
  for (let rest = count; rest > 0; rest -= 1) {
    const baseSequence = reader.u32();
    const recordCount = reader.u32();
    const baseOffset = offset(reader.i64());
    batches.push({ baseSequence, recordCount, baseOffset, lastOffset: offset(baseOffset + recordCount - 1) });
  }
  return { epoch, batches, forgottenTo, lastAppendMs };
}
