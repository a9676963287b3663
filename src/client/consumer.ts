import { RivuletError, isRivuletError } from '../base/errors.ts';
import type {
  Assignment,
  ConsumedBatch,
  ConsumedRecord,
  Consumer,
  ConsumerOptions,
  PositionLost,
  StartPosition,
} from './api.ts';
import type { BatchView } from './batch-view.ts';
import type { Cluster } from './cluster.ts';
import { asRivuletError } from './failure.ts';
import { Fetcher, type FetchOwner } from './fetcher.ts';
import { PartitionReader } from './partition-reader.ts';
import { settleLostPosition } from './position-lost.ts';

const PREFETCH_BYTES_DEFAULT = 8 * 1024 * 1024;

const keyOf = (topic: string, partition: number): string => `${topic}/${String(partition)}`;

export class ClientConsumer implements Consumer, FetchOwner {
  readonly #cluster: Cluster;
  readonly #options: ConsumerOptions;
  readonly #readers = new Map<string, PartitionReader>();
  #order: PartitionReader[] = [];
  #turn = 0;
  readonly #fetcher: Fetcher;
  #starting: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  #ended: RivuletError | undefined;
  #current: BatchView | undefined;
  #currentReader: PartitionReader | undefined;
  #index = 0;
  readonly #onAbort: () => void;
  readonly #onClosed: () => void;

  constructor(cluster: Cluster, options: ConsumerOptions, onClosed: () => void) {
    if ((options.topics === undefined) === (options.assignments === undefined)) {
      throw new RivuletError('INVALID_ARGUMENT', 'a consumer needs either topics or assignments');
    }
    this.#cluster = cluster;
    this.#options = options;
    this.#onClosed = onClosed;
    this.#fetcher = new Fetcher(cluster, this, options, options.prefetchBytes ?? PREFETCH_BYTES_DEFAULT);
    this.#onAbort = () => {
      this.#end(new RivuletError('ABORTED', undefined, { cause: options.signal?.reason }));
    };
    if (options.signal?.aborted === true) this.#onAbort();
    else options.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  [Symbol.asyncIterator](): AsyncIterator<ConsumedRecord> {
    return {
      next: async (): Promise<IteratorResult<ConsumedRecord>> => {
        // The common case makes one promise and nothing else.
        const record = this.#nextRecord();
        return record === undefined ? await this.#slowNext() : { done: false, value: record };
      },
      return: async () => await Promise.resolve({ done: true as const, value: undefined }),
    };
  }

  batches(): AsyncIterable<ConsumedBatch> {
    const next = async (): Promise<IteratorResult<ConsumedBatch>> => {
      const batch = await this.#nextBatch();
      if (batch === undefined) return { done: true, value: undefined };
      this.#delivered(batch, batch.lastOffset + 1);
      this.#current = undefined;
      return { done: false, value: batch };
    };
    return {
      [Symbol.asyncIterator]: () => ({
        next,
        return: async () => await Promise.resolve({ done: true as const, value: undefined }),
      }),
    };
  }

  position(topic: string, partition: number): number | undefined {
    return this.#readers.get(keyOf(topic, partition))?.position;
  }

  lag(topic: string, partition: number): number | undefined {
    const reader = this.#readers.get(keyOf(topic, partition));
    if (reader?.position === undefined || reader.highWatermark < 0) return undefined;
    return Math.max(0, reader.highWatermark - reader.position);
  }

  seek(topic: string, partition: number, to: StartPosition): void {
    const reader = this.#assigned(topic, partition);
    if (reader === this.#currentReader) this.#current = undefined;
    this.#fetcher.freed(reader.seek(to));
    this.#fetcher.pump();
  }

  pause(topic: string, partition: number): void {
    this.#assigned(topic, partition).paused = true;
  }

  resume(topic: string, partition: number): void {
    this.#assigned(topic, partition).paused = false;
    this.changed();
    this.#fetcher.pump();
  }

  async close(): Promise<void> {
    this.#end(new RivuletError('CLOSED'));
    return await Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // ---- FetchOwner ----

  get readers(): readonly PartitionReader[] {
    return this.#order;
  }

  changed(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  lost(
    reader: PartitionReader,
    reason: PositionLost['reason'],
    facts: { logStart: number; highWatermark: number; resumeAt: number },
    why: RivuletError,
  ): void {
    settleLostPosition(reader, reason, facts, why, this.#options.onPositionLost, (bytes) => {
      this.#fetcher.freed(bytes);
    });
    this.changed();
  }

  // ---- inside ----

  #assigned(topic: string, partition: number): PartitionReader {
    const reader = this.#readers.get(keyOf(topic, partition));
    if (reader === undefined)
      throw new RivuletError('INVALID_ARGUMENT', `${keyOf(topic, partition)} is not assigned to this consumer (yet)`);
    return reader;
  }

  #nextRecord(): ConsumedRecord | undefined {
    const batch = this.#current;
    if (batch === undefined || this.#ended !== undefined) return undefined;
    const index = this.#index;
    const record = batch.record(index);
    this.#index = index + 1;
    if (this.#currentReader !== undefined) this.#currentReader.position = record.offset + 1;
    if (this.#index >= batch.length) this.#current = undefined;
    return record;
  }

  async #slowNext(): Promise<IteratorResult<ConsumedRecord>> {
    const batch = await this.#nextBatch();
    if (batch === undefined) return { done: true, value: undefined };
    this.#current = batch;
    this.#index = 0;
    const record = this.#nextRecord();
    return record === undefined ? { done: true, value: undefined } : { done: false, value: record };
  }

  #delivered(batch: BatchView, next: number): void {
    if (this.#currentReader?.topic === batch.topic && this.#currentReader.partition === batch.partition)
      this.#currentReader.position = next;
  }

  /** Undefined at the end of the iteration. Throws what ended it. */
  async #nextBatch(): Promise<BatchView | undefined> {
    this.#starting ??= this.#start();
    try {
      await this.#starting;
    } catch (error) {
      this.#starting = undefined;
      throw error;
    }
    for (;;) {
      if (this.#ended !== undefined) {
        if (this.#ended.code === 'CLOSED') return undefined;
        throw this.#ended;
      }
      const batch = this.#take();
      if (batch !== undefined) return batch;
      let allDone = this.#options.until !== undefined;
      for (const reader of this.#order) {
        if (reader.failure !== undefined && !reader.hasBuffered && !reader.paused) throw reader.failure;
        if (!reader.done) allDone = false;
      }
      if (allDone) return undefined;
      const changed = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#fetcher.pump();
      await changed;
    }
  }

  /** Partitions take turns, batch by batch, so that a busy one does not starve the others. */
  #take(): BatchView | undefined {
    const count = this.#order.length;
    for (let step = 0; step < count; step += 1) {
      const reader = this.#order[(this.#turn + step) % count];
      if (reader === undefined || reader.paused || !reader.hasBuffered) continue;
      this.#currentReader = reader;
      const batch = reader.take(this.#cluster.ports, (bytes) => {
        this.#fetcher.freed(bytes);
      });
      // oxlint-disable-next-line typescript/no-unnecessary-condition -- take changes what is buffered
      if (!reader.hasBuffered && reader.pendingSeek !== undefined && reader.failure === undefined) {
        const to = reader.pendingSeek;
        reader.pendingSeek = undefined;
        this.#fetcher.freed(reader.seek(to));
        // The batch in hand was fetched before: it is delivered, but does not set the position.
        if (batch !== undefined) this.#currentReader = undefined;
      }
      this.#fetcher.pump();
      if (batch === undefined) continue;
      this.#turn = (this.#turn + step + 1) % count;
      return batch;
    }
    return undefined;
  }

  async #start(): Promise<void> {
    const from = this.#options.from ?? 'earliest';
    const assignments: Assignment[] = [...(this.#options.assignments ?? [])];
    for (const topic of this.#options.topics ?? []) {
      const view = await this.#cluster.retryingTopic(topic);
      for (let partition = 0; partition < view.partitions.length; partition += 1)
        assignments.push({ topic, partition });
    }
    for (const assignment of assignments) {
      const view = await this.#cluster.retryingTopic(assignment.topic);
      if (view.partitions[assignment.partition] === undefined) {
        throw new RivuletError(
          'UNKNOWN_PARTITION',
          `${assignment.topic} has no partition ${String(assignment.partition)}`,
        );
      }
      const reader = new PartitionReader(assignment.topic, assignment.partition, assignment.from ?? from);
      if (typeof reader.start === 'number') reader.seek(reader.start);
      this.#readers.set(keyOf(reader.topic, reader.partition), reader);
    }
    const readers = [...this.#readers.values()];
    if (this.#options.until !== undefined) await this.#fetcher.findEnds(readers);
    this.#order = readers;
  }

  #end(why: RivuletError): void {
    if (this.#ended !== undefined) return;
    this.#ended = why;
    this.#current = undefined;
    this.#fetcher.close();
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    this.changed();
    this.#onClosed();
  }

  /** The fetcher met what it cannot handle: a bug, or a client that is closed. */
  failed(error: unknown): void {
    this.#end(isRivuletError(error) ? error : asRivuletError(error, 'INTERNAL'));
  }
}
