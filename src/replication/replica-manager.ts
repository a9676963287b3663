// The replicas of this node, as the metadata image wants them: opens and creates, updates, deletes, and sets strays aside.
import { topicId as asTopicId, type TopicId } from '../base/brands.ts';
import type { TopicState } from '../core/metadata/image.ts';
import type { LogConfig, StorageDeps } from '../storage/config.ts';
import { StorageFailed, isPressure } from '../storage/health.ts';
import type { Store } from '../storage/store.ts';
import type { AppliedEntry, FoundReplica, MetadataLog, Replica, Replicas } from './contract.ts';
import { PartitionReplica } from './partition-replica.ts';
import {
  logConfigOf,
  replicaMetrics,
  settingsOf,
  type ReplicaMetrics,
  type TopicDefaults,
} from './replica-settings.ts';

export interface ReplicaManagerOptions {
  readonly deps: StorageDeps;
  readonly store: Store;
  readonly metadata: MetadataLog;
  readonly nodeId: number;
  /** Of the node: fsync policy, preallocation and so on; each topic's settings go over it. */
  readonly logConfig: LogConfig;
  readonly topicDefaults?: TopicDefaults;
  /** Logs that are opened at the same time. */
  readonly opensMax?: number;
  readonly producersMax?: number;
  readonly retainEveryMs?: number;
}

const OPENS_MAX_DEFAULT = 8;
const RETAIN_EVERY_MS_DEFAULT = 30_000;
/** After a first failure; twice as long after each further one. */
const OPEN_RETRY_MS = 1000;
const OPEN_RETRY_MS_MAX = 30_000;

/** What one topic has on this node. */
interface HeldTopic {
  readonly topicId: TopicId;
  /** By partition; a partition of other nodes, or one that is not open yet, has none. */
  readonly replicas: (PartitionReplica | undefined)[];
  /** All work on the directories of the topic, one after the other. */
  work: Promise<void>;
  /** When to try again to open what could not be opened; -1: all is open. */
  retryAtMs: number;
  retryMs: number;
}

export class ReplicaManager implements Replicas {
  private readonly options: ReplicaManagerOptions;
  private readonly metrics: ReplicaMetrics;
  private readonly held = new Map<TopicId, HeldTopic>();
  private readonly unsubscribe: () => void;
  private opensLeft: number;
  private readonly opensWaiting: (() => void)[] = [];
  private closing: Promise<void> | undefined;
  private retaining: Promise<void> | undefined;
  private retainedAtMs: number;

  private constructor(options: ReplicaManagerOptions) {
    this.options = options;
    this.metrics = replicaMetrics(options.deps.telemetry);
    this.opensLeft = options.opensMax ?? OPENS_MAX_DEFAULT;
    this.retainedAtMs = options.deps.clock.bootMs();
    this.unsubscribe = options.metadata.onApplied((applied) => {
      this.applied(applied);
    });
  }

  /** Resolves when every partition of this node is open. This node's registration must have been applied before. */
  static async open(options: ReplicaManagerOptions): Promise<ReplicaManager> {
    const manager = new ReplicaManager(options);
    await manager.sweep();
    for (const id of options.metadata.image().topics.keys()) manager.reconcile(id);
    for (const topic of Array.from(manager.held.values()))
      if (manager.topic(topic.topicId) !== undefined) await topic.work;
    return manager;
  }

  find(topicId: TopicId, partition: number): FoundReplica {
    const replica = this.held.get(topicId)?.replicas[partition];
    if (replica !== undefined) return { ok: true, replica };
    const topic = this.topic(topicId);
    if (topic === undefined) return { ok: false, code: 'UNKNOWN_TOPIC' };
    const state = topic.partitions[partition];
    if (state === undefined) return { ok: false, code: 'UNKNOWN_PARTITION' };
    if (!state.replicas.some((node) => node === this.options.nodeId))
      return { ok: false, code: 'NOT_LEADER', leader: state.leader };
    return { ok: false, code: 'PARTITION_OFFLINE' };
  }

  async whenReady(topicId: TopicId): Promise<void> {
    await this.held.get(topicId)?.work;
  }

  *all(): Iterable<Replica> {
    for (const { replicas } of this.held.values())
      for (const replica of replicas) if (replica !== undefined) yield replica;
  }

  topic(topicId: TopicId): TopicState | undefined {
    return this.options.metadata.image().topics.get(topicId);
  }

  tick(): void {
    const nowMs = this.options.deps.clock.bootMs();
    for (const { replicas } of this.held.values()) for (const replica of replicas) replica?.tick(nowMs);
    if (this.closing !== undefined) return;
    for (const topic of this.held.values()) {
      if (topic.retryAtMs >= 0 && nowMs >= topic.retryAtMs) {
        topic.retryAtMs = -1;
        this.reconcile(topic.topicId);
      }
    }
    if (
      nowMs - this.retainedAtMs < (this.options.retainEveryMs ?? RETAIN_EVERY_MS_DEFAULT) ||
      this.retaining !== undefined
    )
      return;
    this.retainedAtMs = nowMs;
    this.retaining = this.retainAll().finally(() => {
      this.retaining = undefined;
    });
  }

  close(): Promise<void> {
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  private async closeOnce(): Promise<void> {
    this.unsubscribe();
    for (const topic of this.held.values()) for (const replica of topic.replicas) replica?.end('SHUTTING_DOWN');
    if (this.retaining !== undefined) await this.retaining;
    for (const topic of this.held.values()) await topic.work;
    for (const topic of this.held.values()) {
      for (const replica of topic.replicas)
        if (replica !== undefined) await this.attempt('settling a partition failed', () => replica.settle());
    }
  }

  private applied({ topics }: AppliedEntry): void {
    if (this.closing !== undefined) return;
    for (const id of topics) this.reconcile(id);
  }

  /** Brings this node's part of a topic to what the image says; `work` tells when. */
  private reconcile(topicId: TopicId): void {
    let topic = this.held.get(topicId);
    if (topic === undefined) {
      topic = { topicId, replicas: [], work: Promise.resolve(), retryAtMs: -1, retryMs: OPEN_RETRY_MS };
      this.held.set(topicId, topic);
    }
    const state = this.topic(topicId);
    // What is open takes the change at once; directories follow in their turn.
    if (state !== undefined) this.update(topic, state);
    else for (const replica of topic.replicas) replica?.end('UNKNOWN_TOPIC');
    const held = topic;
    held.work = held.work.then(() =>
      this.attempt('bringing a topic up to the metadata failed', () => this.bringUp(held)),
    );
  }

  private update(held: HeldTopic, topic: TopicState): void {
    const settings = settingsOf(topic, this.options.topicDefaults ?? {}, this.options.deps.telemetry);
    for (const [partition, replica] of held.replicas.entries()) {
      const state = topic.partitions[partition];
      if (state !== undefined) replica?.update(state, settings);
    }
  }

  private async bringUp(held: HeldTopic): Promise<void> {
    if (this.closing !== undefined) return;
    held.retryAtMs = -1;
    const topic = this.topic(held.topicId);
    if (topic === undefined) {
      await this.remove(held);
      return;
    }
    const missing = topic.partitions.flatMap((state, partition) =>
      held.replicas[partition] === undefined && state.replicas.some((node) => node === this.options.nodeId)
        ? [partition]
        : [],
    );
    await Promise.all(missing.map((partition) => this.openOne(held, topic, partition)));
    // Of several that failed one says when to try again.
    held.retryMs = held.retryAtMs < 0 ? OPEN_RETRY_MS : Math.min(2 * held.retryMs, OPEN_RETRY_MS_MAX);
    // The image may have moved on while they were being opened.
    const now = this.topic(held.topicId);
    if (now !== undefined && now !== topic) this.update(held, now);
  }

  private async openOne(held: HeldTopic, topic: TopicState, partition: number): Promise<void> {
    const { deps, store, nodeId, logConfig, topicDefaults, producersMax } = this.options;
    const state = topic.partitions[partition];
    if (state === undefined) return;
    await this.takeTurn();
    try {
      if (this.closing !== undefined) return;
      const settings = settingsOf(topic, topicDefaults ?? {}, deps.telemetry);
      const log = await store.openPartition(topic.topicId, partition, topic.name, logConfigOf(logConfig, settings));
      const limits = producersMax === undefined ? {} : { producersMax };
      try {
        held.replicas[partition] = await PartitionReplica.open(deps, log, {
          topicId: topic.topicId,
          partition,
          nodeId,
          state,
          settings,
          logConfig,
          metrics: this.metrics,
          ...limits,
        });
      } catch (error) {
        await log.close({ clean: false });
        throw error;
      }
    } catch (error) {
      // No room for a new log now: the partition stays offline and is tried again.
      if (!isPressure(error)) throw error;
      held.retryAtMs = deps.clock.bootMs() + held.retryMs;
      deps.telemetry.log('warn', 'replica.not-opened', { topicId: topic.topicId, partition, reason: String(error) });
    } finally {
      this.giveTurn();
    }
  }

  private async remove(held: HeldTopic): Promise<void> {
    const partitions =
      this.options.metadata.image().deletedTopics.get(held.topicId)?.partitions ?? held.replicas.length;
    for (const replica of held.replicas) {
      replica?.end('UNKNOWN_TOPIC');
      await replica?.closeLog(false);
    }
    held.replicas.length = 0;
    try {
      for (let partition = 0; partition < partitions; partition += 1)
        await this.options.store.removePartition(held.topicId, partition);
      this.held.delete(held.topicId);
    } catch (error) {
      if (!isPressure(error)) throw error;
      const { clock, telemetry } = this.options.deps;
      held.retryAtMs = clock.bootMs() + held.retryMs;
      held.retryMs = Math.min(2 * held.retryMs, OPEN_RETRY_MS_MAX);
      telemetry.log('warn', 'replica.not-removed', { topicId: held.topicId, reason: String(error) });
    }
  }

  /** Directories of topics that were deleted are removed; those that metadata has never heard of are set aside and reported. */
  private async sweep(): Promise<void> {
    const { store, metadata, deps } = this.options;
    const image = metadata.image();
    const doomed = new Set<TopicId>();
    for (const { topicId, partition, path } of await store.listPartitions()) {
      const id = asTopicId(topicId);
      const topic = image.topics.get(id);
      if (topic !== undefined && partition < topic.partitions.length) continue;
      if (image.deletedTopics.has(id)) doomed.add(id);
      else {
        deps.telemetry.log('error', 'replica.stray', { topicId, partition, path });
        await store.setAside(path, 'stray');
      }
    }
    // Of others the removal had begun: their directories have another name by now.
    for (const entry of (await deps.disk.exists('topics')) ? await deps.disk.readDirectory('topics') : []) {
      if (/^[0-9a-f]{32}$/.test(entry.name) && image.deletedTopics.has(asTopicId(entry.name)))
        doomed.add(asTopicId(entry.name));
    }
    for (const id of doomed) this.reconcile(id);
  }

  private async retainAll(): Promise<void> {
    for (const { replicas } of this.held.values()) {
      for (const replica of replicas) {
        if (this.closing !== undefined) return;
        if (replica !== undefined) await this.attempt('retention failed', () => replica.retain());
      }
    }
  }

  /** Work without a caller: a failed storage has said so itself and ends the process; anything else is a bug and is logged. */
  private async attempt(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (error instanceof StorageFailed) return;
      this.options.deps.telemetry.log('error', 'replica.failed', {
        what,
        reason: error instanceof Error ? (error.stack ?? error.message) : String(error),
      });
    }
  }

  private async takeTurn(): Promise<void> {
    if (this.opensLeft > 0) {
      this.opensLeft -= 1;
      return;
    }
    await new Promise<void>((resolve) => this.opensWaiting.push(resolve));
  }
  private giveTurn(): void {
    const next = this.opensWaiting.shift();
    if (next === undefined) this.opensLeft += 1;
    else next();
  }
}
