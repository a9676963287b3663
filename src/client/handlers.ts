// Runs the handler over records: so many at once, records with the same key in order, each again until it works or the failure
// policy takes over. What failed for good stops its partition, or goes to the dead-letter topic and is done once it is there.
import { jittered } from './broker-node.ts';
import type { Cluster } from './cluster.ts';
import type { DeadLetters } from './dead-letters.ts';
import type { PoisonEvent, RecordHandler, RetryPolicy } from './group-api.ts';
import type { OwnedPartition, Work } from './owned-partition.ts';

/** Records taken ahead for each handler, that wait for others with their key. */
const QUEUED_PER_HANDLER = 8;

export interface HandlerOwner {
  /** The next record of any partition. */
  take(): Work | undefined;
  /** A record is done, or its partition has come to rest. */
  progressed(owned: OwnedPartition): void;
  poisoned(event: PoisonEvent): void;
  /** A bug, not a failure of the handler. */
  failed(error: unknown): void;
}

export interface HandlerOptions {
  readonly handler: RecordHandler;
  readonly concurrency: number;
  readonly retry: Required<RetryPolicy>;
  /** Undefined: the policy is to pause. */
  readonly deadLetters: DeadLetters | undefined;
}

export class Handlers {
  readonly #cluster: Cluster;
  readonly #owner: HandlerOwner;
  readonly #options: HandlerOptions;
  /** By partition and key: a record is being handled, and these wait behind it. */
  readonly #lanes = new Map<string, Work[]>();
  /** Were handed out before, and go on. */
  #again: Work[] = [];
  #running = 0;
  #queued = 0;
  #dispatching = false;

  constructor(cluster: Cluster, owner: HandlerOwner, options: HandlerOptions) {
    this.#cluster = cluster;
    this.#owner = owner;
    this.#options = options;
  }

  /** Starts what may be started. */
  dispatch(): void {
    // A handler that ends at once calls here again.
    if (this.#dispatching) return;
    this.#dispatching = true;
    const { concurrency } = this.#options;
    while (this.#running < concurrency && this.#queued < concurrency * QUEUED_PER_HANDLER) {
      const work = this.#again.shift() ?? this.#owner.take();
      if (work === undefined) break;
      const lane = this.#lanes.get(this.#laneOf(work));
      if (lane === undefined) {
        this.#lanes.set(this.#laneOf(work), []);
        this.#start(work);
      } else {
        lane.push(work);
        this.#queued += 1;
      }
    }
    this.#dispatching = false;
  }

  /** The partition goes on at the record that failed. */
  resume(owned: OwnedPartition): void {
    const { poison } = owned;
    if (poison === undefined) return;
    owned.poison = undefined;
    poison.attempts = 0;
    this.#again.push(poison, ...owned.held.splice(0));
    this.dispatch();
  }

  /** Nothing of it is started any more. */
  drop(owned: OwnedPartition): void {
    this.#again = this.#again.filter((work) => work.owned !== owned);
    for (const [key, lane] of this.#lanes) {
      const kept = lane.filter((work) => work.owned !== owned);
      this.#queued -= lane.length - kept.length;
      this.#lanes.set(key, kept);
    }
  }

  #laneOf({ owned, record }: Work): string {
    const place = `${owned.topic}/${String(owned.partition)}`;
    if (this.#options.concurrency === 1) return place;
    // Without a key there is nothing to keep in order.
    return record.key === null
      ? `${place}#${String(record.offset)}`
      : `${place}:${Buffer.from(record.key).toString('latin1')}`;
  }

  #start(work: Work): void {
    const { owned } = work;
    if (owned.poison !== undefined) {
      owned.held.push(work);
      this.#next(work);
      return;
    }
    this.#running += 1;
    owned.running += 1;
    this.#handle(work)
      .then((isDone) => {
        if (isDone) owned.finish(work.record.offset);
        this.#running -= 1;
        owned.running -= 1;
        this.#next(work);
        this.#owner.progressed(owned);
        this.dispatch();
      })
      .catch((error: unknown) => {
        this.#owner.failed(error);
      });
  }

  #next(work: Work): void {
    const key = this.#laneOf(work);
    const next = this.#lanes.get(key)?.shift();
    if (next === undefined) {
      this.#lanes.delete(key);
      return;
    }
    this.#queued -= 1;
    this.#start(next);
  }

  /** False: it is not done. */
  async #handle(work: Work): Promise<boolean> {
    const { owned, record } = work;
    const { handler, retry } = this.#options;
    const { signal } = owned.abort;
    for (;;) {
      if (signal.aborted) return false;
      work.attempts += 1;
      try {
        await handler(record, { signal, attempt: work.attempts });
        return !signal.aborted;
      } catch (error) {
        // oxlint-disable-next-line typescript/no-unnecessary-condition -- aborted while the handler was at work
        if (signal.aborted) return false;
        if (work.attempts > retry.retries) return await this.#poison(work, error);
      }
      const pauseMs = Math.min(retry.backoffMaxMs, retry.backoffMs * 2 ** Math.min(work.attempts - 1, 20));
      await this.#pause(pauseMs, signal);
    }
  }

  async #poison(work: Work, error: unknown): Promise<boolean> {
    const { owned, record, attempts } = work;
    const { deadLetters } = this.#options;
    if (deadLetters !== undefined) {
      try {
        await deadLetters.send(record, error, attempts);
        this.#owner.poisoned({ record, error, attempts, policy: 'dead-lettered' });
        return !owned.abort.signal.aborted;
      } catch (failure) {
        // It is neither handled nor kept: progress must not pass it.
        this.#stop(work, new AggregateError([error, failure], 'the record could not be sent to the dead-letter topic'));
        return false;
      }
    }
    this.#stop(work, error);
    return false;
  }

  #stop(work: Work, error: unknown): void {
    const { owned, record, attempts } = work;
    // Another one of the partition may have failed before it: it waits behind that one.
    if (owned.poison === undefined) owned.poison = work;
    else if (owned.poison.record.offset > record.offset) {
      owned.held.unshift(owned.poison);
      owned.poison = work;
    } else owned.held.push(work);
    this.#owner.poisoned({ record, error, attempts, policy: 'paused' });
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    const { deadlines, ports } = this.#cluster;
    await new Promise<void>((resolve) => {
      const ended = (): void => {
        deadlines.cancel(deadline);
        signal.removeEventListener('abort', ended);
        resolve();
      };
      const deadline = deadlines.after(jittered(ms, ports), ended);
      signal.addEventListener('abort', ended, { once: true });
    });
  }
}
