// The metadata image at one index, as a file beside the metadata log.
// The name is given last and by rename, so that a file of that name is whole; the checksum says so too.
import { offset, type Offset } from '../base/brands.ts';
import { CONSENSUS_KEY, imageFromRows } from '../core/metadata/rows.ts';
import type { Crc32c } from '../base/checksum.ts';
import type { MetadataImage } from '../core/metadata/image.ts';
import {
  decodeMetadataSnapshot,
  encodeMetadataSnapshot,
  METADATA_SNAPSHOT_BYTES_MAX,
} from '../format/metadata-snapshot.ts';
import type { StorageDeps } from '../storage/config.ts';
import { isPressure, type Health } from '../storage/health.ts';
import { readSmallFile, unlinkIfThere, writeSmallFile } from '../storage/small-file.ts';

/** The newest may turn out damaged: the one before it and the log from there give the same image. */
const SNAPSHOTS_KEPT = 2;

export function snapshotName(index: number): string {
  return `snapshot-${String(index).padStart(20, '0')}`;
}
function snapshotIndex(name: string): number | undefined {
  const match = /^snapshot-(\d{20})$/.exec(name);
  const index = Number(match?.[1] ?? Number.NaN);
  return Number.isSafeInteger(index) ? index : undefined;
}

export interface LoadedSnapshot {
  readonly index: number;
  readonly image: MetadataImage;
  /** The row CONSENSUS_KEY; undefined: written by a node that was alone. */
  readonly consensus: Uint8Array | undefined;
}

/** The reason when it cannot be used. */
export function snapshotFrom(bytes: Uint8Array, crc32c: Crc32c): LoadedSnapshot | string {
  const decoded = decodeMetadataSnapshot(bytes, crc32c);
  if (!decoded.ok) return decoded.reason;
  const { index, rows } = decoded.value;
  const restored = imageFromRows(rows);
  return restored.ok ? { index, image: restored.image, consensus: rows.get(CONSENSUS_KEY) } : restored.reason;
}

/** The snapshots of one directory. */
export class MetadataSnapshots {
  private readonly deps: StorageDeps;
  private readonly health: Health;
  private readonly directory: string;
  /** Known to be intact, ascending. */
  private intact: number[] = [];
  /** All names found or written, the damaged ones too. */
  private readonly present = new Set<number>();
  constructor(deps: StorageDeps, health: Health, directory: string) {
    this.deps = deps;
    this.health = health;
    this.directory = directory;
  }

  /** The newest intact one. All of them are read, so that the log is never cut at one that turns out damaged. */
  async load(): Promise<LoadedSnapshot | undefined> {
    const entries = await this.health.guard('reading the metadata snapshots failed', () =>
      this.deps.disk.readDirectory(this.directory),
    );
    let newest: LoadedSnapshot | undefined;
    for (const entry of entries) {
      const index = entry.kind === 'file' ? snapshotIndex(entry.name) : undefined;
      if (index === undefined) continue;
      this.present.add(index);
      const found = await this.read(index);
      if (typeof found === 'string') {
        this.deps.telemetry.log('error', 'metadata.snapshot-damaged', { index, reason: found });
        continue;
      }
      this.intact.push(index);
      if (newest === undefined || index > newest.index) newest = found;
    }
    this.intact = this.intact.toSorted((left, right) => left - right);
    return newest;
  }

  /** False: the disk had no room; tried again after more entries. Durable with its name when it resolves. */
  async write(index: number, rows: ReadonlyMap<string, Uint8Array>): Promise<boolean> {
    return await this.writeBytes(index, encodeMetadataSnapshot(index, rows, this.deps.crc32c));
  }
  /** The same, of a whole that was checked. */
  async writeBytes(index: number, bytes: Uint8Array): Promise<boolean> {
    try {
      await this.health.guardSpace('writing a metadata snapshot failed', async () => {
        await writeSmallFile(this.deps.disk, this.path(index), bytes);
        await this.deps.disk.syncDirectory(this.directory);
      });
    } catch (error) {
      if (!isPressure(error)) throw error;
      this.deps.telemetry.log('warn', 'metadata.snapshot-skipped', { index, reason: String(error) });
      return false;
    }
    this.present.add(index);
    this.intact = [...this.intact.filter((each) => each !== index), index]
      .toSorted((left, right) => left - right)
      .slice(-SNAPSHOTS_KEPT);
    for (const old of Array.from(this.present)) {
      if (this.intact.includes(old)) continue;
      try {
        await this.health.guardSpace('removing a metadata snapshot failed', () =>
          unlinkIfThere(this.deps.disk, this.path(old)),
        );
        this.present.delete(old);
      } catch (error) {
        // It goes with the next one.
        if (!isPressure(error)) throw error;
      }
    }
    return true;
  }

  /** The log below is needed by no snapshot that is kept; undefined: all of it is needed. */
  get logNeededFrom(): Offset | undefined {
    const oldest = this.intact.length === SNAPSHOTS_KEPT ? this.intact[0] : undefined;
    return oldest === undefined ? undefined : offset(oldest + 1);
  }

  /** The reason when it cannot be used. */
  private async read(index: number): Promise<LoadedSnapshot | string> {
    const bytes = await this.health.guard('reading a metadata snapshot failed', () =>
      readSmallFile(this.deps.disk, this.path(index), METADATA_SNAPSHOT_BYTES_MAX),
    );
    if (bytes === undefined) return 'it is gone, or too large';
    const found = snapshotFrom(bytes, this.deps.crc32c);
    return typeof found === 'string' || found.index === index ? found : `it says index ${String(found.index)}`;
  }
  private path(index: number): string {
    return `${this.directory}/${snapshotName(index)}`;
  }
}
