// What a snapshot of the metadata says beside the image: the term of its last entry, and who votes from there on.
import { ByteReader, ByteWriter, DecodeError } from '../base/bytes.ts';
import type { SnapshotPoint } from '../core/raft/contract.ts';
import { decodeVoters, encodeVoters } from '../core/raft/voters.ts';

const VERSION = 1;

/** row = version u8 (1), term i64, voters */
export function encodeConsensus({ term, voters }: SnapshotPoint): Uint8Array {
  const bytes = encodeVoters(voters);
  return new ByteWriter(9 + bytes.length).u8(VERSION).i64(term).raw(bytes).finish();
}
/** Undefined: it cannot be read. */
export function decodeConsensus(index: number, bytes: Uint8Array): SnapshotPoint | undefined {
  try {
    const reader = new ByteReader(bytes);
    if (reader.u8() !== VERSION) return undefined;
    const term = reader.i64();
    return term < 0 ? undefined : { index, term, voters: decodeVoters(reader.raw(reader.remaining)) };
  } catch (error) {
    if (error instanceof DecodeError) return undefined;
    throw error;
  }
}
