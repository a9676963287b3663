import { assert } from '../base/assert.ts';
import type { LoadedStore, MetadataStore, StoreChange } from '../ports/metadata-store.ts';
import type { Owner, Scheduler } from './scheduler.ts';

interface Image {
  readonly appliedIndex: number;
  readonly entries: ReadonlyMap<string, Uint8Array>;
}

/** What is on the disk: committed images that a power cut may roll back, newest last. */
interface StoreFiles {
  durable: Image | undefined;
  /** Committed and visible, not yet known to be durable. */
  recent: Image[];
  damage: string | undefined;
  /** How often the store was set aside. */
  setAside: number;
}

/**
 * The applied image in memory, with the traps of the real one: a transaction is visible when `apply` resolves and durable
 * only when the next one was committed, so that a power cut may bring back the image before the last.
 */
export class SimMetadataStore implements MetadataStore {
  private readonly scheduler: Scheduler;
  private readonly owner: Owner;
  private readonly files: StoreFiles;
  private state: 'new' | 'open' | 'failed' | 'closed' | 'gone' = 'new';
  private failure: Error | undefined;

  constructor(scheduler: Scheduler, owner: Owner = 'metadata store', files?: StoreFiles) {
    this.scheduler = scheduler;
    this.owner = owner;
    this.files = files ?? { durable: undefined, recent: [], damage: undefined, setAside: 0 };
  }

  // Faults

  /** The next write fails with this error. */
  failNext(error: Error): void {
    this.failure = error;
  }

  /** The next `load` finds the store damaged. */
  damage(reason: string): void {
    this.files.damage = reason;
  }

  /** The files are gone. */
  delete(): void {
    this.files.durable = undefined;
    this.files.recent = [];
  }

  /** A power cut. 'lose-last': back to what is surely durable; 'keep': as visible; 'random': drawn. */
  crash(choice: 'random' | 'lose-last' | 'keep' = 'random'): SimMetadataStore {
    this.state = 'gone';
    const random = this.scheduler.random.stream(`metadata store crash ${this.owner} ${String(this.scheduler.steps)}`);
    const keeps =
      choice === 'random'
        ? random.below(this.files.recent.length + 1)
        : choice === 'keep'
          ? this.files.recent.length
          : 0;
    const durable = keeps === 0 ? this.files.durable : this.files.recent[keeps - 1];
    return new SimMetadataStore(this.scheduler, this.owner, { ...this.files, durable, recent: [] });
  }

  /** The process ends; everything visible stays. */
  kill(): SimMetadataStore {
    this.state = 'gone';
    return new SimMetadataStore(this.scheduler, this.owner, this.files);
  }

  private visible(): Image | undefined {
    return this.files.recent.at(-1) ?? this.files.durable;
  }

  private later<Value>(label: string, effect: () => Value): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.scheduler.after(0.1, this.owner, `metadata store ${label}`, () => {
        if (this.state === 'gone') return;
        try {
          resolve(effect());
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  // MetadataStore

  load(): Promise<LoadedStore> {
    assert(this.state === 'new', 'load is called once, first');
    this.state = 'open';
    return this.later('load', () => {
      if (this.files.damage !== undefined) {
        const reason = this.files.damage;
        this.files.damage = undefined;
        this.files.setAside += 1;
        this.delete();
        return { kind: 'damaged', reason, movedTo: `meta.bad-${String(this.files.setAside)}` };
      }
      const image = this.visible();
      if (image === undefined) return { kind: 'empty' };
      const entries = new Map([...image.entries].map(([key, value]) => [key, Uint8Array.from(value)]));
      return { kind: 'ok', appliedIndex: image.appliedIndex, entries };
    });
  }

  private write(label: string, next: () => Image): Promise<void> {
    assert(this.state === 'open', `the metadata store is ${this.state}`);
    return this.later(label, () => {
      assert(this.state === 'open', `the metadata store is ${this.state}`);
      if (this.failure !== undefined) {
        const error = this.failure;
        this.failure = undefined;
        this.state = 'failed';
        throw error;
      }
      // The commit before this one is durable: its pages were flushed before the new root.
      this.files.durable = this.visible();
      this.files.recent = [next()];
    });
  }

  apply(appliedIndex: number, changes: readonly StoreChange[]): Promise<void> {
    const copies = changes.map(({ key, value }) => ({
      key,
      value: value === undefined ? undefined : Uint8Array.from(value),
    }));
    return this.write('apply', () => {
      const entries = new Map(this.visible()?.entries);
      for (const { key, value } of copies) {
        if (value === undefined) entries.delete(key);
        else entries.set(key, value);
      }
      return { appliedIndex, entries };
    });
  }

  replace(appliedIndex: number, entries: ReadonlyMap<string, Uint8Array>): Promise<void> {
    const copy = new Map([...entries].map(([key, value]) => [key, Uint8Array.from(value)]));
    return this.write('replace', () => ({ appliedIndex, entries: copy }));
  }

  close(): Promise<void> {
    return this.later('close', () => {
      this.state = 'closed';
    });
  }
}
