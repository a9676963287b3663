// The next segment, prepared in the background before it is needed: syncs into blocks that were written before cost half.
// A full disk shows here, and not in the middle of a batch.
import { position } from '../base/brands.ts';
import { SYNC_MARKS_BYTES, syncMarksAt } from '../format/sync-mark.ts';
import type { DiskFile } from '../ports/disk.ts';
import { isNotFound, isPressure } from './health.ts';
import type { LogState } from './log-state.ts';

const ZERO_SLICE_BYTES = 4 * 1024 * 1024;
/** Retired segments kept for reuse: one is enough for a log in balance, and bounds what the pool holds. */
const SPARES_MAX = 1;

export interface PreparedSegment {
  readonly file: DiskFile;
  readonly path: string;
  readonly padded: boolean;
  readonly capacity: number;
}

export class Preallocator {
  private readonly state: LogState;
  private readonly spares: string[];
  private serial = 0;
  constructor(state: LogState, spares: readonly string[]) {
    this.state = state;
    this.spares = [...spares];
  }

  /** Undefined: no space, or no file descriptors; nothing is left behind. */
  async prepare(): Promise<PreparedSegment | undefined> {
    const { preallocate, segmentBytes } = this.state.config;
    const spare = preallocate === 'recycle' ? this.spares.pop() : undefined;
    if (spare !== undefined) {
      const reused = await this.reuse(spare, segmentBytes);
      if (reused !== undefined) return reused;
    }
    return await this.fresh();
  }

  /** Whether a retired file of the current size would be kept. */
  get wantsSpare(): boolean {
    return this.state.config.preallocate === 'recycle' && this.spares.length < SPARES_MAX;
  }
  addSpare(path: string): void {
    this.spares.push(path);
  }
  /** What is prepared but never used goes. */
  async discard(prepared: PreparedSegment): Promise<void> {
    await this.state.health.guard('closing a prepared segment failed', () => prepared.file.close());
    await this.remove(prepared.path);
  }

  private async reuse(path: string, segmentBytes: number): Promise<PreparedSegment | undefined> {
    const { health, deps } = this.state;
    const file = await health
      .guardSpace('opening a spare segment failed', () => deps.disk.open(path, 'write'))
      .catch((error: unknown) => {
        if (isPressure(error)) return undefined;
        throw error;
      });
    if (file === undefined) return undefined;
    // A spare of another size is of no use: its blocks are not the ones that will be written.
    const size = await health.guard('looking at a spare segment failed', () => file.size());
    if (size >= segmentBytes / 2 && size <= segmentBytes * 2 && (await this.fit(file, size, segmentBytes)))
      return { file, path, padded: true, capacity: segmentBytes };
    await health.guard('closing a spare segment failed', () => file.close());
    await this.remove(path);
    return undefined;
  }

  /** The sync marks have to be the end of the file, and nothing may stand there yet. False: no space. */
  private async fit(file: DiskFile, size: number, segmentBytes: number): Promise<boolean> {
    const at = syncMarksAt(segmentBytes);
    try {
      await this.state.health.guardSpace('fitting a spare segment failed', async () => {
        if (size > at) await file.truncate(at);
        await file.writeZeros(position(at), SYNC_MARKS_BYTES);
        await file.sync();
      });
      return true;
    } catch (error) {
      if (isPressure(error)) return false;
      throw error;
    }
  }

  private async fresh(): Promise<PreparedSegment | undefined> {
    const { health, deps, directory, config } = this.state;
    const { segmentBytes } = config;
    this.serial += 1;
    const path = `${directory}/next-${String(deps.random.below(0x1_0000_0000))}-${String(this.serial)}.tmp`;
    let file: DiskFile | undefined;
    try {
      file = await health.guardSpace('creating a segment failed', () => deps.disk.open(path, 'create'));
      const padded = await this.fill(file, segmentBytes);
      return { file, path, padded, capacity: segmentBytes };
    } catch (error) {
      if (!isPressure(error)) throw error;
      deps.telemetry.log('warn', 'log.segment-not-prepared', { directory, reason: String(error) });
      if (file !== undefined) await this.discard({ file, path, padded: false, capacity: segmentBytes });
      return undefined;
    }
  }

  /** True when the file is as long as the segment may become, with its sync marks behind. */
  private async fill(file: DiskFile, segmentBytes: number): Promise<boolean> {
    const { health, config } = this.state;
    // Blocks written before pay at each sync: without one after each append, reserving them does as well for half the writes.
    const how = config.preallocate === 'recycle' && config.fsync !== 'always' ? 'fallocate' : config.preallocate;
    if (how === 'none') return false;
    const fileBytes = syncMarksAt(segmentBytes) + SYNC_MARKS_BYTES;
    if (how === 'fallocate') {
      await health.guardSpace('allocating a segment failed', () => file.allocate(position(0), fileBytes));
    } else {
      for (let at = 0; at < fileBytes; at += ZERO_SLICE_BYTES) {
        const bytes = Math.min(ZERO_SLICE_BYTES, fileBytes - at);
        await health.guardSpace('writing a segment ahead failed', () => file.writeZeros(position(at), bytes));
      }
    }
    // Its blocks exist on the disk before a batch goes into them: a later fdatasync has nothing to do but the batch.
    await health.guardSpace('syncing a prepared segment failed', () => file.sync());
    return true;
  }

  private async remove(path: string): Promise<void> {
    try {
      await this.state.deps.disk.unlink(path);
    } catch (error) {
      if (!isNotFound(error)) this.state.health.fail('removing a prepared segment failed', error);
    }
  }
}
