// The metadata log of a cluster of one: an entry is appended, synced, applied and answered, in this order. The interface is
// the one that a replicated log will have.
import { assert } from '../base/assert.ts';
import { leaderEpoch, nodeId, offset, type NodeId } from '../base/brands.ts';
import { FatalError } from '../base/fatal.ts';
import { Ring } from '../base/ring.ts';
import { apply } from '../core/metadata/apply.ts';
import { encodeEntry, type MetadataEntry } from '../core/metadata/entry.ts';
import { emptyImage, type MetadataImage, type MetadataView } from '../core/metadata/image.ts';
import { imageFromRows, imageRows, type RowChange } from '../core/metadata/rows.ts';
import { encodeBatch } from '../format/records.ts';
import { checkBatch } from '../format/batch.ts';
import type { LoadedStore, MetadataStore } from '../ports/metadata-store.ts';
import type { StorageDeps } from '../storage/config.ts';
import { Health, StorageFailed } from '../storage/health.ts';
import type { PartitionLog } from '../storage/log.ts';
import type { AppliedEntry, EntryOutcome, MetadataLog, ProposeOptions } from './contract.ts';
import { ImageFollower } from './image-follower.ts';
import { replayEntries } from './metadata-replay.ts';
import { MetadataSnapshots, type LoadedSnapshot } from './metadata-snapshot.ts';

export interface MetadataLogOptions {
  readonly nodeId: number;
  /** Applied entries between snapshots; what a start without the store replays at most twice over. */
  readonly snapshotEvery?: number;
  /** A log with no more entries to replay than this is replayed without opening the store first. */
  readonly replayDirectlyMax?: number;
  /** Proposals that wait for their sync. */
  readonly pendingMax?: number;
}

const SNAPSHOT_EVERY_DEFAULT = 4096;
const PENDING_MAX_DEFAULT = 4096;
const REPLAY_DIRECTLY_MAX_DEFAULT = 2048;
/** By then a start is over. */
const OPEN_STORE_AFTER_MS = 300;
const GROUP_ENTRIES_MAX = 1024;
const GROUP_BYTES_MAX = 1024 * 1024;
/** One node: one leadership, for ever. */
const TERM = leaderEpoch(0);

interface Proposal {
  readonly entry: MetadataEntry;
  readonly bytes: Uint8Array;
  readonly resolve: (outcome: EntryOutcome) => void;
}

/** Where replay begins, and whether the store may be brought up from there. */
interface Base {
  readonly image: MetadataImage;
  readonly index: number;
  readonly fromStore: boolean;
}

export class LocalMetadataLog implements MetadataLog {
  readonly leader: { readonly nodeId: NodeId; readonly term: number };
  private readonly deps: StorageDeps;
  private readonly log: PartitionLog;
  private readonly current: MetadataImage;
  private readonly follower: ImageFollower;
  private readonly snapshots: MetadataSnapshots;
  private readonly snapshotEvery: number;
  /** Not appended yet. */
  private readonly waiting: Ring<Proposal>;
  /** In the one batch that is not synced yet. */
  private group: readonly Proposal[] = [];
  private readonly listeners = new Set<(applied: AppliedEntry) => void>();
  private applied: number;
  private snapshotIndex: number;
  private snapshotting: Promise<void> | undefined;
  private readonly idleWaiters: (() => void)[] = [];
  private closing: Promise<void> | undefined;

  private constructor(
    deps: StorageDeps,
    log: PartitionLog,
    parts: {
      snapshots: MetadataSnapshots;
      snapshotIndex: number;
      image: MetadataImage;
      applied: number;
      follower: ImageFollower;
    },
    options: MetadataLogOptions,
  ) {
    this.deps = deps;
    this.log = log;
    this.snapshots = parts.snapshots;
    this.snapshotIndex = parts.snapshotIndex;
    this.current = parts.image;
    this.applied = parts.applied;
    this.follower = parts.follower;
    this.leader = { nodeId: nodeId(options.nodeId), term: TERM };
    this.snapshotEvery = options.snapshotEvery ?? SNAPSHOT_EVERY_DEFAULT;
    this.waiting = new Ring(options.pendingMax ?? PENDING_MAX_DEFAULT);
    log.onAdvance = (): void => {
      this.advance();
    };
  }

  /**
   * `log`: opened with fsync 'always'. FatalError STORE_DAMAGED or FORMAT_TOO_NEW when what it says cannot be known; the
   * state of `store` never matters for that.
   */
  static async open(
    deps: StorageDeps,
    log: PartitionLog,
    store: MetadataStore,
    options: MetadataLogOptions,
  ): Promise<LocalMetadataLog> {
    assert(log.config.fsync === 'always', 'the metadata log is always synced');
    assert(log.syncedOffset === log.logEndOffset, 'what recovery kept is durable');
    const snapshots = new MetadataSnapshots(deps, new Health(deps.telemetry, deps.fatal), log.directory);
    const snapshot = await snapshots.load();
    if (log.damaged.length > 0)
      deps.telemetry.log('error', 'metadata.log-damaged', {
        ranges: log.damaged.map((range) => `${String(range.from)}-${String(range.to)}`).join(' '),
      });
    if (log.logStartOffset > (snapshot?.index ?? -1) + 1) {
      throw new FatalError(
        'STORE_DAMAGED',
        `The metadata log begins at index ${String(log.logStartOffset)}, and no intact snapshot reaches up to there. Use segtool verify.`,
      );
    }
    if (snapshot !== undefined && snapshot.index >= log.logEndOffset) {
      throw new FatalError(
        'STORE_DAMAGED',
        `The metadata log ends at index ${String(log.logEndOffset)}, below the snapshot of index ${String(snapshot.index)}: it has lost entries. Use segtool verify.`,
      );
    }
    // Replaying a short log is quicker than opening the store, which then comes up once the node serves.
    const isShort =
      log.logEndOffset - (snapshot?.index ?? -1) - 1 <= (options.replayDirectlyMax ?? REPLAY_DIRECTLY_MAX_DEFAULT);
    const loaded = isShort ? undefined : await loadStore(deps, store);
    const base = chooseBase(deps, log, snapshot, loaded);
    const { image } = base;
    let applied = base.index;
    const changes: RowChange[] = [];
    await replayEntries(log, offset(base.index + 1), deps.crc32c, (index, entry) => {
      const result = apply(image, index, entry);
      if (base.fromStore) changes.push(...result.changes);
      applied = index;
    });
    applied = Math.max(applied, log.logEndOffset - 1);
    const follower = new ImageFollower(store, deps.telemetry, () => image, isShort || loaded !== undefined);
    if (isShort) follower.openLater(deps.clock, OPEN_STORE_AFTER_MS, applied, async () => await loadStore(deps, store));
    else if (!base.fromStore) follower.replaceAll(applied);
    else if (applied > base.index) follower.applied(applied, changes);
    return new LocalMetadataLog(
      deps,
      log,
      { snapshots, snapshotIndex: snapshot?.index ?? -1, image, applied, follower },
      options,
    );
  }

  image(): MetadataView {
    return this.current;
  }
  get appliedIndex(): number {
    return this.applied;
  }
  get storeDisabled(): boolean {
    return this.follower.disabled;
  }
  onApplied(listener: (applied: AppliedEntry) => void): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }

  /** Never: nobody else has a snapshot for a node that is alone. */
  onReplaced(): () => void {
    return () => undefined;
  }
  /** Never: it leads from the start on. */
  onLeader(): () => void {
    return () => undefined;
  }
  hasLease(): boolean {
    return true;
  }

  propose(entry: MetadataEntry, options: ProposeOptions = {}): Promise<EntryOutcome> {
    if (options.term !== undefined && options.term !== TERM) return refused('NOT_LEADER', 'of another term');
    if (this.closing !== undefined || this.log.isClosed) return refused('SHUTTING_DOWN', 'the node is stopping');
    if (this.waiting.full)
      return refused('TOO_MANY_REQUESTS', `${String(this.waiting.capacity)} changes of metadata wait already`);
    return new Promise((resolve) => {
      const pushed = this.waiting.push({ entry, bytes: encodeEntry(entry), resolve });
      assert(pushed, 'room for a proposal was seen before');
      this.appendGroup();
    });
  }

  /** A snapshot of what is applied now; also made by itself after every so many entries. */
  snapshot(): Promise<void> {
    this.snapshotting ??= this.snapshotOnce().finally(() => {
      this.snapshotting = undefined;
    });
    return this.snapshotting;
  }

  close(): Promise<void> {
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  private async closeOnce(): Promise<void> {
    while (this.group.length + this.waiting.length > 0 && !this.log.failed)
      await new Promise<void>((resolve) => this.idleWaiters.push(resolve));
    if (this.snapshotting !== undefined) await this.snapshotting;
    await this.follower.close();
  }

  private advance(): void {
    const { group } = this;
    if (group.length === 0 || this.log.syncedOffset <= this.applied + group.length) return;
    this.group = [];
    for (const proposal of group) this.applyOne(proposal);
    this.appendGroup();
    if (this.group.length === 0 && this.idleWaiters.length > 0) {
      for (const resolve of this.idleWaiters.splice(0)) resolve();
    }
    if (this.applied - this.snapshotIndex >= this.snapshotEvery && this.snapshotting === undefined)
      this.snapshotInBackground();
  }

  /**
   * One batch at a time is not synced, and it holds all that came meanwhile. So a power cut can leave a torn batch at the
   * end, never a hole before a good one, which would have to be taken for damage.
   */
  private appendGroup(): void {
    while (this.group.length === 0 && this.waiting.length > 0) {
      const group = this.takeGroup();
      const timestamp = this.deps.clock.wallMs();
      const bytes = encodeBatch(
        { records: group.map((proposal) => ({ timestamp, key: null, value: proposal.bytes })) },
        this.deps.crc32c,
      );
      const checked = checkBatch(bytes, 0, this.deps.crc32c);
      assert(checked.ok, 'what was encoded just now is a batch');
      const appended = this.log.append(bytes, [{ at: 0, size: checked.size, header: checked.header }], TERM);
      if (appended.ok) {
        assert(
          appended.baseOffset === this.applied + 1,
          `entry ${String(appended.baseOffset)} appended behind ${String(this.applied)}`,
        );
        this.group = group;
        return;
      }
      // The storage has failed: no answer leaves any more.
      if (this.log.failed) return;
      const code = appended.code === 'STORAGE_FAILED' ? 'SHUTTING_DOWN' : appended.code;
      for (const { resolve } of group) resolve({ ok: false, code, message: 'the metadata log takes no entry now' });
    }
  }

  private takeGroup(): Proposal[] {
    const group: Proposal[] = [];
    let size = 0;
    for (
      let next = this.waiting.peek();
      next !== undefined && group.length < GROUP_ENTRIES_MAX;
      next = this.waiting.peek()
    ) {
      size += next.bytes.length;
      if (group.length > 0 && size > GROUP_BYTES_MAX) break;
      this.waiting.shift();
      group.push(next);
    }
    return group;
  }

  private applyOne({ entry, resolve }: Proposal): void {
    const index = this.applied + 1;
    const { outcome, changes, topics } = apply(this.current, index, entry);
    this.applied = index;
    this.follower.applied(index, changes);
    for (const listener of this.listeners) listener({ index, entry, outcome, topics });
    resolve(outcome);
  }

  private snapshotInBackground(): void {
    this.snapshot().catch((error: unknown) => {
      // The storage has failed and the process is ending, or this is a bug; it is not lost either way.
      if (!(error instanceof StorageFailed))
        this.deps.telemetry.log('error', 'metadata.snapshot-failed', { reason: String(error) });
    });
  }

  private async snapshotOnce(): Promise<void> {
    const index = this.applied;
    if (index <= this.snapshotIndex) return;
    // Counted even when there is no room: the next attempt comes after as many entries again.
    this.snapshotIndex = index;
    if (!(await this.snapshots.write(index, imageRows(this.current)))) return;
    const from = this.snapshots.logNeededFrom;
    if (from !== undefined && from > this.log.logStartOffset && !this.log.isClosed) await this.log.deleteTo(from);
  }
}

function refused(code: 'SHUTTING_DOWN' | 'TOO_MANY_REQUESTS' | 'NOT_LEADER', message: string): Promise<EntryOutcome> {
  return Promise.resolve({ ok: false, code, message });
}

/** Undefined: the store cannot be used at all. */
export async function loadStore(deps: StorageDeps, store: MetadataStore): Promise<LoadedStore | undefined> {
  try {
    const loaded = await store.load();
    if (loaded.kind === 'damaged')
      deps.telemetry.log('warn', 'metadata.store-damaged', { reason: loaded.reason, movedTo: loaded.movedTo });
    return loaded;
  } catch (error) {
    deps.telemetry.log('warn', 'metadata.store-disabled', {
      reason: error instanceof Error ? error.message : String(error),
    });
    return undefined;
  }
}

/** The newest state that the log can be replayed from. A store ahead of the log belongs to another history. */
function chooseBase(
  deps: StorageDeps,
  log: PartitionLog,
  snapshot: LoadedSnapshot | undefined,
  loaded: LoadedStore | undefined,
): Base {
  const fallback: Base = { image: snapshot?.image ?? emptyImage(), index: snapshot?.index ?? -1, fromStore: false };
  if (loaded?.kind !== 'ok') return fallback;
  const discard = (reason: string): Base => {
    deps.telemetry.log('warn', 'metadata.store-discarded', {
      reason,
      index: loaded.appliedIndex,
      logEnd: log.logEndOffset,
    });
    return fallback;
  };
  if (loaded.appliedIndex >= log.logEndOffset) return discard('it is ahead of the log');
  if (loaded.appliedIndex < fallback.index) return discard('it is behind the snapshot');
  if (loaded.appliedIndex < log.logStartOffset - 1) return discard('it is behind the start of the log');
  const restored = imageFromRows(loaded.entries);
  return restored.ok
    ? { image: restored.image, index: loaded.appliedIndex, fromStore: true }
    : discard(restored.reason);
}
