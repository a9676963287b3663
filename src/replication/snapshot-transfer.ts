// A snapshot of the metadata from the leader to a node that is behind the start of the log, in parts.
import type { NodeId } from '../base/brands.ts';
import {
  encodeRequest,
  decodeResponse,
  SNAPSHOT_PART_BYTES_MAX,
  type InstallSnapshotRequest,
} from '../protocol/between-nodes/install-snapshot.v1.ts';
import { METADATA_SNAPSHOT_BYTES_MAX } from '../format/metadata-snapshot.ts';
import type { Peers } from './peer-contract.ts';

export const INSTALL_SNAPSHOT = 47;
const PART_TIMEOUT_MS = 10_000;

export interface SnapshotToSend {
  readonly term: number;
  readonly index: number;
  readonly indexTerm: number;
  readonly bytes: Uint8Array;
}

/** True: the other side has all of it. */
export async function sendSnapshot(
  peers: Peers,
  from: NodeId,
  to: number,
  { term, index, indexTerm, bytes }: SnapshotToSend,
): Promise<boolean> {
  let at = 0;
  while (at < bytes.length) {
    const part = bytes.subarray(at, Math.min(bytes.length, at + SNAPSHOT_PART_BYTES_MAX));
    const body = encodeRequest({ from, term, index, indexTerm, size: bytes.length, at, part });
    const answer = await peers.call(to, { operation: INSTALL_SNAPSHOT, version: 1, body, timeoutMs: PART_TIMEOUT_MS });
    if (!answer.ok) return false;
    const decoded = decodeResponse(answer.body);
    if (!decoded.ok || decoded.value.have <= at) return false;
    at = decoded.value.have;
  }
  return true;
}

/** One at a time: a part of another snapshot begins anew. */
export class SnapshotReceiver {
  private key = '';
  private parts: Uint8Array[] = [];
  private have = 0;

  /** How far it is, and all of it once it is whole. */
  take(request: InstallSnapshotRequest): { readonly have: number; readonly whole: Uint8Array | undefined } {
    const { from, term, index, size, at, part } = request;
    const key = [from, term, index, size].join(' ');
    if (key !== this.key || at === 0) {
      this.forget();
      this.key = key;
    }
    if (size > METADATA_SNAPSHOT_BYTES_MAX || at !== this.have) return { have: this.have, whole: undefined };
    this.parts.push(part.slice());
    this.have += part.length;
    if (this.have < size) return { have: this.have, whole: undefined };
    const whole = new Uint8Array(size);
    let filled = 0;
    for (const each of this.parts) {
      whole.set(each, filled);
      filled += each.length;
    }
    this.forget();
    return { have: size, whole };
  }
  private forget(): void {
    this.key = '';
    this.parts = [];
    this.have = 0;
  }
}
