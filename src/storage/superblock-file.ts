// The node's superblock on disk: two slots, written in place in turn and synced each time, so that one is always intact.
import { position } from '../base/brands.ts';
import { encodeSuperblock, newestSuperblock, SUPERBLOCK_SLOT_BYTES, type Superblock } from '../format/superblock.ts';
import type { DiskFile } from '../ports/disk.ts';
import type { StorageDeps } from './config.ts';

const FILE_NAME = 'superblock';

/** absent: there is no file. damaged: neither slot can be read: the votes are forgotten, and that must not pass silently. */
export type LoadedSuperblock =
  | { readonly kind: 'ok'; readonly superblock: Superblock }
  | { readonly kind: 'absent' | 'damaged' };

export class SuperblockFile {
  private readonly deps: StorageDeps;
  private readonly file: DiskFile;
  private slot: number;
  private writing: Promise<void> = Promise.resolve();
  current: Superblock;

  private constructor(deps: StorageDeps, file: DiskFile, slot: number, current: Superblock) {
    this.deps = deps;
    this.file = file;
    this.slot = slot;
    this.current = current;
  }

  static async open(deps: StorageDeps): Promise<{ readonly file: SuperblockFile; readonly loaded: LoadedSuperblock }> {
    const exists = await deps.disk.exists(FILE_NAME);
    const file = await deps.disk.open(FILE_NAME, exists ? 'write' : 'create');
    const none: Superblock = { sequence: 0, term: 0, vote: -1, incarnation: 0, bootId: '', clean: false };
    if (!exists) return { file: new SuperblockFile(deps, file, 1, none), loaded: { kind: 'absent' } };
    const bytes = new Uint8Array(2 * SUPERBLOCK_SLOT_BYTES);
    const got = await file.read(bytes, position(0));
    const newest = newestSuperblock(bytes.subarray(0, got), deps.crc32c);
    if (newest !== undefined) {
      const { value, slot } = newest;
      return { file: new SuperblockFile(deps, file, slot, value), loaded: { kind: 'ok', superblock: value } };
    }
    // A crash in the very first write leaves a file that was never said to be there.
    const empty = bytes.subarray(0, got).every((byte) => byte === 0);
    return { file: new SuperblockFile(deps, file, 1, none), loaded: { kind: empty ? 'absent' : 'damaged' } };
  }

  /**
   * One after another; durable when it resolves, in both slots: were it in one, damage at rest there would silently bring
   * back an older vote, or the clean marker of an earlier stop.
   */
  write(change: Partial<Superblock>): Promise<void> {
    this.writing = this.writing.then(async () => {
      await this.writeSlot(change);
      await this.writeSlot({});
    });
    return this.writing;
  }

  private async writeSlot(change: Partial<Superblock>): Promise<void> {
    const next = { ...this.current, ...change, sequence: this.current.sequence + 1 };
    const slot = 1 - this.slot;
    await this.file.writeSlow(encodeSuperblock(next, this.deps.crc32c), position(slot * SUPERBLOCK_SLOT_BYTES));
    await this.file.sync();
    this.slot = slot;
    this.current = next;
  }

  close(): Promise<void> {
    return this.file.close();
  }
}
