// Keeps the store of the applied image up behind the log. Nothing waits for it; when it fails it is out of use until the
// next start makes it again from the log.
import { imageRows, type RowChange } from '../core/metadata/rows.ts';
import type { MetadataView } from '../core/metadata/image.ts';
import type { CancelTimer, Clock } from '../ports/clock.ts';
import type { LoadedStore, MetadataStore } from '../ports/metadata-store.ts';
import type { Telemetry } from '../ports/telemetry.ts';

export class ImageFollower {
  private readonly store: MetadataStore;
  private readonly telemetry: Telemetry;
  private readonly image: () => MetadataView;
  private out: boolean;
  /** Newest value of each changed row: bounded by the image. */
  private pending = new Map<string, Uint8Array | undefined>();
  private pendingIndex = -1;
  private replaces = false;
  private running: Promise<void> | undefined;
  /** The store is not opened yet, and has nothing to do before it is. */
  private unopened:
    | { readonly load: () => Promise<LoadedStore | undefined>; readonly index: number; readonly cancel: CancelTimer }
    | undefined;

  constructor(store: MetadataStore, telemetry: Telemetry, image: () => MetadataView, usable: boolean) {
    this.store = store;
    this.telemetry = telemetry;
    this.image = image;
    this.out = !usable;
  }

  /** Opens the store only after `delayMs`: the start did not need it. The image stands at `index` now. */
  openLater(clock: Clock, delayMs: number, index: number, load: () => Promise<LoadedStore | undefined>): void {
    const cancel = clock.setTimer(delayMs, () => {
      this.openNow();
    });
    this.unopened = { load, index, cancel };
  }

  get disabled(): boolean {
    return this.out;
  }

  /** The image stands at `index` now, and these rows changed. */
  applied(index: number, changes: readonly RowChange[]): void {
    if (this.out) return;
    this.pendingIndex = index;
    if (!this.replaces) for (const { key, value } of changes) this.pending.set(key, value);
    this.start();
  }

  /** What the store has is of no use. */
  replaceAll(index: number): void {
    if (this.out) return;
    this.replaces = true;
    this.pending.clear();
    this.pendingIndex = index;
    this.start();
  }

  async idle(): Promise<void> {
    while (this.running !== undefined) await this.running;
  }

  async close(): Promise<void> {
    // Never opened: it is brought up at the next start.
    if (this.unopened !== undefined) {
      this.unopened.cancel();
      return;
    }
    await this.idle();
    try {
      await this.store.close();
    } catch (error) {
      this.disable(error);
    }
  }

  private openNow(): void {
    const { unopened } = this;
    if (unopened === undefined) return;
    this.unopened = undefined;
    this.running = this.openStore(unopened.load, unopened.index).finally(() => {
      this.running = undefined;
      this.start();
    });
  }

  private async openStore(load: () => Promise<LoadedStore | undefined>, index: number): Promise<void> {
    const loaded = await load();
    if (loaded === undefined) {
      this.out = true;
      this.pending.clear();
      return;
    }
    if (loaded.kind === 'ok' && loaded.appliedIndex === index) return;
    this.replaces = true;
    this.pending.clear();
    this.pendingIndex = Math.max(this.pendingIndex, index);
  }

  private start(): void {
    if (this.running !== undefined || this.unopened !== undefined) return;
    this.running = this.run().finally(() => {
      this.running = undefined;
    });
  }

  private async run(): Promise<void> {
    // Lets entries that are applied in the same turn share a transaction.
    await Promise.resolve();
    try {
      while (!this.out && (this.replaces || this.pendingIndex >= 0)) await this.writeOnce();
    } catch (error) {
      this.disable(error);
    }
  }

  private writeOnce(): Promise<void> {
    const index = this.pendingIndex;
    const changes = this.pending;
    this.pendingIndex = -1;
    this.pending = new Map();
    if (this.replaces) {
      this.replaces = false;
      return this.store.replace(index, imageRows(this.image()));
    }
    return this.store.apply(
      index,
      [...changes].map(([key, value]) => ({ key, value })),
    );
  }

  private disable(error: unknown): void {
    this.out = true;
    this.pending.clear();
    this.telemetry.log('warn', 'metadata.store-disabled', {
      reason: error instanceof Error ? error.message : String(error),
    });
  }
}
