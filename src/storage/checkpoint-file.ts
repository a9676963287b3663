// The `checkpoint` of one log: two slots, written in place. Between two fsyncs of it only one slot is written over, so that
// the other is intact on the disk whatever a power cut does. A recovery point that is too low is safe, one that is too high
// never is: it is recorded only after the fdatasync of the segment has returned.
import { assert } from '../base/assert.ts';
import { offset, position, type Offset } from '../base/brands.ts';
import { CHECKPOINT_SLOT_BYTES, encodeCheckpoint, newestCheckpoint, type Checkpoint } from '../format/checkpoint.ts';
import type { CancelTimer } from '../ports/clock.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { StorageDeps } from './config.ts';
import { isPressure } from './health.ts';
import type { LogState } from './log-state.ts';

const FILE_NAME = 'checkpoint';
const SYNC_DELAY_MS = 1000;

export type LoadedCheckpoint =
  | { readonly kind: 'ok'; readonly checkpoint: Checkpoint; readonly slot: number }
  /** There is no file. */
  | { readonly kind: 'absent' }
  /** Neither slot can be read. */
  | { readonly kind: 'lost' };

export async function loadCheckpoint(
  deps: StorageDeps,
  directory: string,
): Promise<{ readonly file: DiskFile; readonly loaded: LoadedCheckpoint }> {
  const path = `${directory}/${FILE_NAME}`;
  if (!(await deps.disk.exists(path))) return { file: await create(deps, path), loaded: { kind: 'absent' } };
  const file = await deps.disk.open(path, 'write');
  try {
    const bytes = new Uint8Array(2 * CHECKPOINT_SLOT_BYTES);
    const got = await file.read(bytes, position(0));
    const best = newestCheckpoint(bytes.subarray(0, got), deps.crc32c);
    if (got < bytes.length && best === undefined) await reserve(file);
    return {
      file,
      loaded: best === undefined ? { kind: 'lost' } : { kind: 'ok', checkpoint: best.value, slot: best.slot },
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Without room for it nothing is left: an empty one would look like one that was lost. */
async function create(deps: StorageDeps, path: string): Promise<DiskFile> {
  const file = await deps.disk.open(path, 'create');
  try {
    await reserve(file);
    return file;
  } catch (error) {
    await file.close();
    if (isPressure(error)) await deps.disk.unlink(path);
    throw error;
  }
}

/** Both slots get their blocks at once: on a disk that is full later, writing them over needs no more. */
async function reserve(file: DiskFile): Promise<void> {
  await file.writeZeros(position(0), 2 * CHECKPOINT_SLOT_BYTES);
}

/** The segment that holds the recovery point, and how far into it that lies. */
export interface SyncedPlace {
  readonly baseOffset: Offset;
  readonly size: number;
}

export class CheckpointFile {
  private readonly state: LogState;
  private readonly file: DiskFile;
  private slot: number;
  private dirty = false;
  private slotDurable = true;
  private cancelTimer: CancelTimer | undefined;
  private syncing: Promise<void> | undefined;
  /** Came while the file was being synced: it must not touch the slot that is on its way to the disk. */
  private held: { readonly active: SyncedPlace } | undefined;
  private syncedOffset: Offset;
  /** Of the recovery point recorded last. */
  private lastPlace: SyncedPlace;

  constructor(state: LogState, file: DiskFile, loaded: LoadedCheckpoint) {
    this.state = state;
    this.file = file;
    if (loaded.kind === 'ok') state.sequence = Math.max(state.sequence, loaded.checkpoint.sequence);
    this.slot = loaded.kind === 'ok' ? loaded.slot : 1;
    this.syncedOffset = state.synced;
    this.lastPlace = { baseOffset: state.active.baseOffset, size: state.active.size };
  }

  /** Everything below is durable: the fdatasync has returned. */
  recordSynced(synced: Offset, active: SyncedPlace): void {
    assert(synced <= this.state.written, 'recovery point above the written offset');
    this.syncedOffset = synced;
    this.lastPlace = active;
    if (this.syncing === undefined) this.writeIfRoom(active);
    else this.held = { active };
    this.cancelTimer ??= this.state.deps.clock.setTimer(SYNC_DELAY_MS, () => {
      this.cancelTimer = undefined;
      this.state.runInBackground(() => this.flush());
    });
  }

  /**
   * Records the present state and makes it durable: before the head or the tail of the log goes, and at close. Pressure is
   * thrown on: what was recorded before stays.
   */
  async recordDurably(synced: Offset, active: SyncedPlace, clean = false): Promise<void> {
    // A sync under way may have begun before this write: it says nothing about it.
    while (this.syncing !== undefined) await this.syncing;
    this.syncedOffset = synced;
    this.lastPlace = active;
    await this.recordNow(clean);
  }

  /** The same, in both slots: damage at rest in one of them must not bring back a log start or an end that was given up. */
  async recordTwice(synced: Offset, active: SyncedPlace): Promise<void> {
    await this.recordDurably(synced, active);
    await this.recordNow(false);
  }

  /** The recovery point is the newest known; what else has changed becomes durable, in both slots. */
  async recordAgain(): Promise<void> {
    await this.recordNow(false);
    await this.recordNow(false);
  }

  /** What was recorded so far is durable when it resolves. */
  settle(): Promise<void> {
    return this.flush();
  }

  async close(): Promise<void> {
    this.cancelTimer?.();
    this.cancelTimer = undefined;
    if (this.syncing !== undefined) await this.syncing;
    if (!this.state.health.failed)
      await this.state.health.guard('closing a checkpoint failed', () => this.file.close());
  }

  /** The recovery point is taken when nothing is under way any more: it may have risen meanwhile. */
  private async recordNow(clean: boolean): Promise<void> {
    while (this.syncing !== undefined) await this.syncing;
    this.held = undefined;
    this.write(this.lastPlace, clean);
    await this.flush();
  }

  /** Without room for it an older recovery point stays, which is safe; a half-written slot is written again by the next. */
  private writeIfRoom(active: SyncedPlace): void {
    try {
      this.write(active, false);
    } catch (error) {
      if (!isPressure(error)) throw error;
    }
  }

  private write(active: SyncedPlace, clean: boolean): void {
    const { state } = this;
    state.health.check();
    if (this.slotDurable) {
      this.slot = 1 - this.slot;
      this.slotDurable = false;
    }
    state.sequence += 1;
    const bytes = encodeCheckpoint(
      {
        sequence: state.sequence,
        clean,
        recoveryPoint: this.syncedOffset,
        segmentBase: active.baseOffset,
        segmentPosition: active.size,
        logStart: state.logStart,
        highWatermark: offset(Math.min(state.highWatermark, this.syncedOffset)),
        epochs: state.epochs.entries.filter((entry) => entry.startOffset < this.syncedOffset),
        active: clean ? state.active.facts : undefined,
      },
      state.deps.crc32c,
    );
    try {
      this.file.write(bytes, position(this.slot * CHECKPOINT_SLOT_BYTES));
    } catch (error) {
      if (isPressure(error)) throw error;
      state.health.fail('writing a checkpoint failed', error, { directory: state.directory });
    }
    this.dirty = true;
  }

  private async flush(): Promise<void> {
    while (this.syncing !== undefined) await this.syncing;
    if (!this.dirty) return;
    this.dirty = false;
    const run = this.state.health
      .guard('fdatasync of a checkpoint failed', () => this.file.sync())
      .then(() => {
        this.slotDurable = true;
      });
    this.syncing = run.then(
      () => undefined,
      () => undefined,
    );
    try {
      await run;
    } finally {
      this.syncing = undefined;
    }
    const { held } = this;
    this.held = undefined;
    if (held !== undefined) this.writeIfRoom(held.active);
  }
}
