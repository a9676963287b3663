// A member of a consumer group: reads what is assigned to it, hands records to a handler or to an iteration, commits what is done
// and gives partitions back when they move.
import type { TopicId } from '../base/brands.ts';
import { RivuletError } from '../base/errors.ts';
import type { ConsumedRecord, Producer } from './api.ts';
import type { Cluster } from './cluster.ts';
import { DeadLetters } from './dead-letters.ts';
import type { Deadline } from './deadlines.ts';
import { asRivuletError } from './failure.ts';
import { Fetcher, type FetchOwner } from './fetcher.ts';
import type { GroupConsumer, GroupConsumerOptions, PoisonEvent, RecordHandler, TopicPartition } from './group-api.ts';
import { commitOffsets, fetchOffsets, type FoundCommit, type Membership, type TopicPartitions } from './group-wire.ts';
import { Handlers, type HandlerOwner } from './handlers.ts';
import { GroupMembership } from './membership.ts';
import { OwnedPartition, type Work } from './owned-partition.ts';
import type { PartitionReader } from './partition-reader.ts';
import { settleLostPosition } from './position-lost.ts';

const PREFETCH_BYTES_DEFAULT = 8 * 1024 * 1024;
const AUTO_COMMIT_MS_DEFAULT = 1000;
const SESSION_TIMEOUT_MS_DEFAULT = 10_000;
const REBALANCE_TIMEOUT_MS_DEFAULT = 30_000;
const RETRY_DEFAULT = { retries: 5, backoffMs: 100, backoffMaxMs: 10_000 };
/** Of what a rebalance may take: the rest is for committing and for telling the coordinator. */
const DRAIN_SHARE = 0.8;
const COMMITS_MAX = 1000;

const keyOf = (topicId: TopicId, partition: number): string => `${topicId}/${String(partition)}`;

export class ClientGroupConsumer implements GroupConsumer, FetchOwner, HandlerOwner {
  readonly #cluster: Cluster;
  readonly #options: GroupConsumerOptions;
  readonly #rebalanceTimeoutMs: number;
  readonly #membership: GroupMembership;
  readonly #fetcher: Fetcher;
  readonly #makeProducer: () => Producer;
  readonly #onClosed: () => void;
  readonly #owned = new Map<string, OwnedPartition>();
  #order: OwnedPartition[] = [];
  #turn = 0;
  /** Assigned, and its committed offset is being asked for. */
  readonly #starting = new Set<string>();
  #wanted: Membership | undefined;
  #handlers: Handlers | undefined;
  #producer: Producer | undefined;
  /** In the hand of the iteration. */
  #inHand: Work | undefined;
  #wake: (() => void) | undefined;
  #ended: RivuletError | undefined;
  #closing: Promise<void> | undefined;
  #committing: Promise<void> = Promise.resolve();
  #commitTimer: Deadline | undefined;
  #onEnd: ((error: RivuletError) => void) | undefined;
  readonly #onAbort: () => void;

  constructor(cluster: Cluster, options: GroupConsumerOptions, makeProducer: () => Producer, onClosed: () => void) {
    if (options.topics.length === 0) throw new RivuletError('INVALID_ARGUMENT', 'a member of a group names topics');
    this.#cluster = cluster;
    this.#options = options;
    this.#makeProducer = makeProducer;
    this.#onClosed = onClosed;
    this.#rebalanceTimeoutMs = options.rebalanceTimeoutMs ?? REBALANCE_TIMEOUT_MS_DEFAULT;
    const membership = {
      group: options.group,
      topics: options.topics,
      instanceId: options.instanceId,
      sessionTimeoutMs: options.sessionTimeoutMs ?? SESSION_TIMEOUT_MS_DEFAULT,
      rebalanceTimeoutMs: this.#rebalanceTimeoutMs,
    };
    this.#membership = new GroupMembership(cluster, membership, {
      changed: (told) => {
        this.#follow(told);
        this.changed();
      },
      lost: (error) => {
        this.#membershipLost(error);
      },
      failed: (error) => {
        this.#end(error);
      },
      troubled: (error) => {
        this.#troubled(error);
      },
    });
    this.#fetcher = new Fetcher(cluster, this, options, options.prefetchBytes ?? PREFETCH_BYTES_DEFAULT);
    this.#onAbort = () => {
      this.#end(new RivuletError('ABORTED', undefined, { cause: options.signal?.reason }));
    };
    if (options.signal?.aborted === true) this.#onAbort();
    else options.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  async run(handler: RecordHandler): Promise<void> {
    if (this.#handlers !== undefined) throw new RivuletError('INVALID_ARGUMENT', 'the consumer runs already');
    const { onFailure = 'pause', concurrency = 1, retry } = this.#options;
    if (!Number.isSafeInteger(concurrency) || concurrency < 1)
      throw new RivuletError('INVALID_ARGUMENT', `concurrency is ${String(concurrency)}`);
    if (this.#ended === undefined && onFailure !== 'pause') this.#producer = this.#makeProducer();
    const deadLetters =
      onFailure === 'pause' || this.#producer === undefined
        ? undefined
        : new DeadLetters(this.#producer, onFailure.deadLetterTopic, this.#options.group);
    const options = { handler, concurrency, retry: { ...RETRY_DEFAULT, ...retry }, deadLetters };
    this.#handlers = new Handlers(this.#cluster, this, options);
    const ended = new Promise<void>((resolve, reject) => {
      this.#onEnd = (error): void => {
        if (error.code === 'CLOSED') resolve();
        else reject(error);
      };
    });
    if (this.#ended !== undefined) this.#onEnd?.(this.#ended);
    else this.#start();
    await ended;
  }

  [Symbol.asyncIterator](): AsyncIterator<ConsumedRecord> {
    return {
      next: async (): Promise<IteratorResult<ConsumedRecord>> => {
        this.#finishInHand(true);
        for (;;) {
          if (this.#ended?.code === 'CLOSED') return { done: true, value: undefined };
          if (this.#ended !== undefined) throw this.#ended;
          this.#start();
          const work = this.take();
          if (work !== undefined) {
            this.#inHand = work;
            work.owned.running += 1;
            return { done: false, value: work.record };
          }
          // Looking for a record may have found the end.
          // oxlint-disable-next-line typescript/no-unnecessary-condition -- take changes it
          if (this.#ended !== undefined) continue;
          const changed = new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          this.#fetcher.pump();
          await changed;
        }
      },
      // Left in the middle of a record: it is not done.
      return: async () => {
        this.#finishInHand(false);
        return await Promise.resolve({ done: true as const, value: undefined });
      },
    };
  }

  done(record: ConsumedRecord): void {
    if (this.#inHand?.record === record) this.#finishInHand(true);
  }

  async commit(): Promise<void> {
    const failures = await this.#commitAll(this.#order);
    const [failure] = failures;
    if (failure !== undefined) throw failure;
  }

  get memberId(): string | undefined {
    return this.#membership.memberId;
  }
  get assignment(): readonly TopicPartition[] {
    return this.#order.filter((owned) => !owned.draining).map(placeOf);
  }
  get paused(): readonly TopicPartition[] {
    return this.#order.filter((owned) => owned.poison !== undefined).map(placeOf);
  }

  resume(topic: string, partition: number): void {
    const owned = this.#order.find((each) => each.topic === topic && each.partition === partition);
    if (owned === undefined)
      throw new RivuletError('INVALID_ARGUMENT', `${topic}/${String(partition)} is not assigned to this member`);
    this.#handlers?.resume(owned);
  }

  get isSettled(): boolean {
    return (
      this.#wanted?.state === 'stable' && this.#starting.size === 0 && this.#order.every((owned) => !owned.draining)
    );
  }

  position(topic: string, partition: number): number | undefined {
    return this.#order.find((each) => each.topic === topic && each.partition === partition)?.done;
  }

  lag(topic: string, partition: number): number | undefined {
    return this.#order.find((each) => each.topic === topic && each.partition === partition)?.lag;
  }

  async close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(options.timeoutMs ?? this.#rebalanceTimeoutMs);
    await this.#closing;
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // ---- FetchOwner ----

  changed(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
    this.#handlers?.dispatch();
  }

  lost(...[reader, reason, facts, why]: Parameters<FetchOwner['lost']>): void {
    settleLostPosition(reader, reason, facts, why, this.#options.onPositionLost, (bytes) => {
      this.#fetcher.freed(bytes);
    });
    this.changed();
  }

  failed(error: unknown): void {
    this.#end(asRivuletError(error, 'INTERNAL'));
  }

  get readers(): readonly PartitionReader[] {
    return this.#order.filter((owned) => !owned.draining && owned.poison === undefined).map(({ reader }) => reader);
  }

  // ---- HandlerOwner ----

  /** Partitions take turns, record by record. */
  take(): Work | undefined {
    const count = this.#order.length;
    for (let step = 0; step < count; step += 1) {
      const owned = this.#order[(this.#turn + step) % count];
      if (owned === undefined) continue;
      if (owned.reader.failure !== undefined && !owned.canHandOut && !owned.draining) {
        this.#end(owned.reader.failure);
        return undefined;
      }
      if (!owned.canHandOut) continue;
      const record = owned.next(this.#cluster.ports, (bytes) => {
        this.#fetcher.freed(bytes);
      });
      this.#fetcher.pump();
      if (record === undefined) continue;
      this.#turn = (this.#turn + step + 1) % count;
      return { owned, record, attempts: 0 };
    }
    return undefined;
  }

  progressed(owned: OwnedPartition): void {
    if (owned.running === 0) owned.idle?.();
  }

  poisoned(event: PoisonEvent): void {
    this.#options.onPoison?.(event);
  }

  // ---- inside ----

  #troubled(error: RivuletError): void {
    this.#options.onError?.(error);
  }

  #start(): void {
    if (this.#commitTimer === undefined && this.#options.autoCommitMs !== false) this.#armCommit();
    this.#membership.start();
  }

  #finishInHand(isDone: boolean): void {
    const work = this.#inHand;
    if (work === undefined) return;
    this.#inHand = undefined;
    work.owned.running -= 1;
    if (isDone && !work.owned.abort.signal.aborted) work.owned.finish(work.record.offset);
    this.progressed(work.owned);
  }

  #follow(membership: Membership): void {
    this.#wanted = membership;
    const assigned = new Set<string>();
    for (const { topicId, partitions } of membership.assigned)
      for (const partition of partitions) assigned.add(keyOf(topicId, partition));
    for (const [key, owned] of this.#owned) if (!assigned.has(key) && !owned.draining) this.#giveBack(key, owned);
    for (const { topicId, partitions } of membership.release) {
      // Never begun here, or given back already: nothing holds them.
      const free = partitions.filter((partition) => !this.#owned.has(keyOf(topicId, partition)));
      this.#membership.release(topicId, free);
    }
    const fresh = membership.assigned
      .map(({ topicId, partitions }) => ({
        topicId,
        partitions: partitions.filter((partition) => this.#isFresh(keyOf(topicId, partition))),
      }))
      .filter(({ partitions }) => partitions.length > 0);
    if (fresh.length > 0) this.#take(fresh);
  }

  #isFresh(key: string): boolean {
    return !this.#owned.has(key) && !this.#starting.has(key);
  }

  #isWanted(key: string, memberId: string | undefined): boolean {
    return (
      this.#ended === undefined &&
      memberId !== undefined &&
      memberId === this.#membership.memberId &&
      this.#wanted?.assigned.some(({ topicId, partitions }) =>
        partitions.some((each) => keyOf(topicId, each) === key),
      ) === true
    );
  }

  /** Begins partitions at their committed offsets. */
  #take(fresh: readonly TopicPartitions[]): void {
    const keys = fresh.flatMap(({ topicId, partitions }) => partitions.map((partition) => keyOf(topicId, partition)));
    for (const key of keys) this.#starting.add(key);
    const { memberId } = this.#membership;
    this.#findStarts(fresh)
      .then((starts) => {
        for (const key of keys) this.#starting.delete(key);
        const begun: OwnedPartition[] = [];
        for (const { place, found } of starts) {
          const key = keyOf(place.topicId, place.partition);
          if (!this.#isWanted(key, memberId) || this.#owned.has(key)) continue;
          const start = found.offset ?? this.#options.from ?? 'earliest';
          const owned = new OwnedPartition(place, start, found.offset, found.leaderEpoch);
          this.#owned.set(key, owned);
          begun.push(owned);
        }
        this.#order = Array.from(this.#owned.values());
        if (begun.length > 0) this.#options.onAssigned?.(begun.map(placeOf));
        this.#fetcher.pump();
        // What has changed meanwhile was not begun, or has to be given back.
        if (this.#wanted !== undefined && this.#membership.memberId !== undefined) this.#follow(this.#wanted);
      })
      .catch((error: unknown) => {
        for (const key of keys) this.#starting.delete(key);
        if (this.#ended !== undefined) return;
        const failure = asRivuletError(error, 'INTERNAL');
        if (failure.retriable) this.#again(failure);
        else this.#end(failure);
      });
  }

  #again(failure: RivuletError): void {
    this.#troubled(failure);
    this.#cluster.deadlines.after(this.#cluster.settings.reconnectBackoffMaxMs, () => {
      if (this.#ended === undefined && this.#wanted !== undefined && this.#membership.memberId !== undefined)
        this.#follow(this.#wanted);
    });
  }

  async #findStarts(
    fresh: readonly TopicPartitions[],
  ): Promise<
    readonly { readonly place: TopicPartition & { readonly topicId: TopicId }; readonly found: FoundCommit }[]
  > {
    const names = new Map<TopicId, string>();
    for (const topic of this.#options.topics) {
      // One that does not exist yet has no partitions to read.
      const view = this.#cluster.topic(topic) ?? (await this.#cluster.retryingTopic(topic).catch(() => undefined));
      if (view !== undefined) names.set(view.id, topic);
    }
    if (fresh.some(({ topicId }) => !names.has(topicId))) {
      await this.#cluster.refresh(this.#options.topics);
      for (const topic of this.#options.topics) {
        const id = this.#cluster.topic(topic)?.id;
        if (id !== undefined) names.set(id, topic);
      }
    }
    const { requestTimeoutMs } = this.#cluster.settings;
    const link = await this.#cluster.controllerLink();
    const found = await fetchOffsets(link, this.#options.group, fresh, requestTimeoutMs);
    return found.flatMap((each) => {
      const topic = names.get(each.topicId);
      return topic === undefined
        ? []
        : [{ place: { topic, topicId: each.topicId, partition: each.partition }, found: each }];
    });
  }

  /** Stops, lets what is in progress come to an end within a bound, commits, and tells the coordinator. */
  #giveBack(key: string, owned: OwnedPartition): void {
    this.#drain(owned, this.#rebalanceTimeoutMs * DRAIN_SHARE)
      .then(() => {
        if (this.#owned.get(key) !== owned) return;
        this.#forget(key);
        this.#options.onRevoked?.([placeOf(owned)]);
        this.#membership.release(owned.topicId, [owned.partition]);
        // It may be ours again by now.
        if (this.#wanted !== undefined && this.#membership.memberId !== undefined) this.#follow(this.#wanted);
      })
      .catch((error: unknown) => {
        this.failed(error);
      });
  }

  async #drain(owned: OwnedPartition, withinMs: number): Promise<void> {
    this.#fetcher.freed(owned.stop());
    this.#handlers?.drop(owned);
    await this.#untilIdle(owned, withinMs);
    const failures = await this.#commitAll([owned]);
    for (const failure of failures) this.#troubled(failure);
    // Whoever still works on a record of it must not think that it counts.
    owned.abort.abort();
  }

  async #untilIdle(owned: OwnedPartition, withinMs: number): Promise<void> {
    if (owned.running === 0) return;
    await new Promise<void>((resolve) => {
      const deadline = this.#cluster.deadlines.after(withinMs, () => {
        owned.abort.abort();
        resolve();
      });
      owned.idle = (): void => {
        this.#cluster.deadlines.cancel(deadline);
        resolve();
      };
    });
    owned.idle = undefined;
  }

  #forget(key: string): void {
    this.#owned.delete(key);
    this.#order = Array.from(this.#owned.values());
  }

  #membershipLost(error: RivuletError): void {
    const lost = this.#order;
    this.#wanted = undefined;
    this.#owned.clear();
    this.#order = [];
    for (const owned of lost) {
      this.#fetcher.freed(owned.stop());
      this.#handlers?.drop(owned);
      owned.abort.abort();
      owned.idle?.();
    }
    this.#troubled(error);
    if (lost.length > 0) this.#options.onLost?.(lost.map(placeOf));
  }

  #armCommit(): void {
    const { autoCommitMs } = this.#options;
    if (autoCommitMs === false) return;
    this.#commitTimer = this.#cluster.deadlines.after(autoCommitMs ?? AUTO_COMMIT_MS_DEFAULT, () => {
      this.#commitAll(this.#order)
        .then((failures) => {
          for (const failure of failures) this.#troubled(failure);
          if (this.#ended === undefined) this.#armCommit();
        })
        .catch((error: unknown) => {
          this.failed(error);
        });
    });
  }

  /** One commit at a time, so that none overtakes another. Resolves to what failed. */
  async #commitAll(partitions: readonly OwnedPartition[]): Promise<readonly RivuletError[]> {
    const before = this.#committing;
    let failures: RivuletError[] = [];
    const run = before.then(async () => {
      failures = await this.#commitNow(partitions);
    });
    this.#committing = run.catch(() => undefined);
    await run;
    return failures;
  }

  async #commitNow(partitions: readonly OwnedPartition[]): Promise<RivuletError[]> {
    const failures: RivuletError[] = [];
    const due = partitions.flatMap((owned) => {
      const what = owned.committable;
      return what === undefined || owned.abort.signal.aborted ? [] : [{ owned, what }];
    });
    for (let from = 0; from < due.length; from += COMMITS_MAX) {
      const { memberId, generation } = this.#membership;
      if (memberId === undefined) break;
      const some = due.slice(from, from + COMMITS_MAX);
      const commits = some.map(({ owned, what }) => ({
        topicId: owned.topicId,
        partition: owned.partition,
        offset: what.offset,
        leaderEpoch: what.leaderEpoch,
      }));
      try {
        const link = await this.#cluster.controllerLink();
        const request = { group: this.#options.group, memberId, generation, commits };
        const results = await commitOffsets(link, request, this.#cluster.settings.requestTimeoutMs);
        for (const [index, { owned, what }] of some.entries()) {
          const failure = results[index];
          if (failure === undefined) owned.committed = what.offset;
          else failures.push(failure);
        }
      } catch (error) {
        failures.push(asRivuletError(error, 'INTERNAL'));
      }
    }
    return failures;
  }

  async #close(timeoutMs: number): Promise<void> {
    // What the iteration has in hand is the application's to finish; it asked to close instead.
    this.#finishInHand(false);
    if (this.#ended === undefined)
      await Promise.all(this.#order.map(async (owned) => await this.#drain(owned, timeoutMs)));
    this.#end(new RivuletError('CLOSED'));
    await this.#membership.leave(timeoutMs);
    await this.#producer?.close({ timeoutMs }).catch(() => undefined);
  }

  #end(why: RivuletError): void {
    if (this.#ended !== undefined) return;
    this.#ended = why;
    this.#cluster.deadlines.cancel(this.#commitTimer);
    this.#fetcher.close();
    for (const owned of this.#order) {
      owned.stop();
      owned.abort.abort();
    }
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
    this.#onEnd?.(why);
    if (why.code !== 'CLOSED') this.#leaveBehind();
    this.#onClosed();
  }

  /** It ends by itself: others need not wait for the session. */
  #leaveBehind(): void {
    this.#membership.leave(this.#rebalanceTimeoutMs).catch(() => undefined);
  }
}

function placeOf({ topic, partition }: TopicPartition): TopicPartition {
  return { topic, partition };
}
