// Who decides, and when enough of them agree.
import { ByteReader, ByteWriter, DecodeError, stringSize } from '../../base/bytes.ts';
import type { Peer, Voter } from './contract.ts';

const VERSION = 1;
const VOTERS_MAX = 64;
const DISK_ID_BYTES_MAX = 64;

/** voters = version u8 (1), count u32, count × (node id i32, disk id string). All disks are known. */
export function encodeVoters(voters: readonly Voter[]): Uint8Array<ArrayBuffer> {
  const size = voters.reduce((sum, { diskId }) => sum + 4 + stringSize(diskId ?? ''), 5);
  const writer = new ByteWriter(size).u8(VERSION).u32(voters.length);
  for (const { nodeId, diskId } of voters) writer.i32(nodeId).string(diskId ?? '');
  return writer.finish();
}

/** Throws DecodeError. */
export function decodeVoters(bytes: Uint8Array): Voter[] {
  const reader = new ByteReader(bytes);
  const version = reader.u8();
  if (version !== VERSION) throw new DecodeError(`voters of version ${String(version)}`, 0);
  const count = reader.count(6);
  if (count < 1 || count > VOTERS_MAX) throw new DecodeError(`${String(count)} voters`, 1);
  const voters: Voter[] = [];
  for (let index = 0; index < count; index += 1) {
    const nodeId = reader.i32();
    const diskId = reader.string(DISK_ID_BYTES_MAX);
    if (diskId === '' || voters.some((other) => other.nodeId === nodeId))
      throw new DecodeError(`voter ${String(nodeId)} without a disk, or twice`, 0);
    voters.push({ nodeId, diskId });
  }
  reader.end();
  return voters;
}

export function sameVoters(left: readonly Voter[], right: readonly Voter[]): boolean {
  return (
    left.length === right.length &&
    left.every(({ nodeId, diskId }) => right.some((other) => other.nodeId === nodeId && other.diskId === diskId))
  );
}

export function isForming(voters: readonly Voter[]): boolean {
  return voters.some(({ diskId }) => diskId === undefined);
}

/** The peer is that voter: a new disk in the same node is not. */
export function isThat(voter: Voter, peer: Peer): boolean {
  return voter.nodeId === peer.nodeId && (voter.diskId === undefined || voter.diskId === peer.diskId);
}

/**
 * The sets of voters of which each must agree. There are two while a replaced disk is not settled: one disk for another is no
 * single-server change, and a majority of the new set may have nobody in common with one of the old set.
 */
export class Electorate {
  readonly sets: readonly (readonly Voter[])[];
  constructor(current: readonly Voter[], before?: readonly Voter[]) {
    this.sets = before === undefined || sameVoters(before, current) ? [current] : [current, before];
  }
  /** Of the newest set. */
  get voters(): readonly Voter[] {
    return this.sets[0] ?? [];
  }
  /** Nodes of all sets, each once. */
  get nodeIds(): readonly number[] {
    return [...new Set(this.sets.flat().map(({ nodeId }) => nodeId))];
  }
  /** Of all sets the least of what a majority of it has reached; of a set that is being formed, what all of it have. */
  reached(of: (voter: Voter) => number): number {
    let least = Number.POSITIVE_INFINITY;
    for (const voters of this.sets) {
      const values = voters.map(of).toSorted((left, right) => right - left);
      const needed = isForming(voters) ? voters.length : Math.floor(voters.length / 2) + 1;
      least = Math.min(least, values[needed - 1] ?? Number.NEGATIVE_INFINITY);
    }
    return least;
  }
  agrees(granted: (voter: Voter) => boolean): boolean {
    return this.reached((voter) => (granted(voter) ? 1 : 0)) === 1;
  }
  /** Whether those who have not refused could still agree. */
  mayAgree(refused: (voter: Voter) => boolean): boolean {
    return this.agrees((voter) => !refused(voter));
  }
}
