// What the log's owner keeps beside a segment at roll: its state of everything below, so that a start need not walk the
// whole log. Opaque here, with a checksum: a damaged or torn one is passed over for an older one.
import { offset, type Offset } from '../base/brands.ts';
import { decodeOwnerSnapshot, encodeOwnerSnapshot, OWNER_SNAPSHOT_BYTES_MAX } from '../format/owner-snapshot.ts';
import { segmentFileName } from '../format/segment.ts';
import type { LogState } from './log-state.ts';
import { isPressure } from './health.ts';
import { readSmallFile, unlinkIfThere, writeSmallFile } from './small-file.ts';

/** The newest may be torn; the one before it is intact. */
const SNAPSHOTS_KEPT = 2;

export interface OwnerSnapshot {
  /** It covers everything below. */
  readonly offset: Offset;
  readonly bytes: Uint8Array;
}

export class OwnerSnapshots {
  private readonly state: LogState;
  /** Ascending. */
  private offsets: Offset[];
  constructor(state: LogState, offsets: readonly Offset[]) {
    this.state = state;
    this.offsets = [...offsets].toSorted((left, right) => left - right);
  }

  /** Left out when the disk is full: the owner walks a little more at the next start. */
  async write(at: Offset, bytes: Uint8Array): Promise<void> {
    const { deps, health } = this.state;
    const file = encodeOwnerSnapshot(bytes, deps.crc32c);
    try {
      await health.guardSpace('writing a snapshot failed', () => writeSmallFile(deps.disk, this.path(at), file));
    } catch (error) {
      if (isPressure(error)) return;
      throw error;
    }
    if (!this.offsets.includes(at)) this.offsets.push(at);
    while (this.offsets.length > SNAPSHOTS_KEPT) await this.remove(this.offsets[0]);
  }

  /** The newest intact one at or below `end`. */
  async latest(end: Offset): Promise<OwnerSnapshot | undefined> {
    const { deps, health } = this.state;
    for (const at of this.offsets.toReversed()) {
      if (at > end) continue;
      const file = await health.guardSpace('reading a snapshot failed', () =>
        readSmallFile(deps.disk, this.path(at), OWNER_SNAPSHOT_BYTES_MAX),
      );
      if (file === undefined) continue;
      const content = decodeOwnerSnapshot(file, deps.crc32c);
      if (content.ok) return { offset: at, bytes: content.value };
      deps.telemetry.log('warn', 'log.snapshot-damaged', {
        directory: this.state.directory,
        offset: at,
        why: content.reason,
      });
    }
    return undefined;
  }

  /** Those that speak of records that are gone. */
  async truncate(end: Offset): Promise<void> {
    for (const at of this.offsets.filter((each) => each > end)) await this.remove(at);
  }

  private async remove(at: Offset | undefined): Promise<void> {
    if (at === undefined) return;
    this.offsets = this.offsets.filter((each) => each !== at);
    await this.state.health.guard('removing a snapshot failed', () =>
      unlinkIfThere(this.state.deps.disk, this.path(at)),
    );
  }
  private path(at: Offset): string {
    return `${this.state.directory}/${segmentFileName(at, 'snapshot')}`;
  }
}

export function snapshotOffset(name: string): Offset | undefined {
  const match = /^(\d{20})\.snapshot$/.exec(name);
  const value = Number(match?.[1] ?? Number.NaN);
  return Number.isSafeInteger(value) ? offset(value) : undefined;
}
