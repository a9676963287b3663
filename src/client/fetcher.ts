// Keeps a consumer's buffer filled: one fetch at a time to each broker, the next one sent as soon as an answer is in and there
// is room, so that bytes travel while records are handled.
import { topicId } from '../base/brands.ts';
import { ERRORS, type ErrorName, RivuletError } from '../base/errors.ts';
import { REQUEST_PARTITIONS_MAX } from '../base/limits.ts';
import type { ConsumerOptions, PositionLost, StartPosition } from './api.ts';
import { type BrokerNode, jittered } from './broker-node.ts';
import type { Cluster } from './cluster.ts';
import { asRivuletError } from './failure.ts';
import type { PartitionReader } from './partition-reader.ts';
import {
  type FetchAnswer,
  type FetchedPartition,
  type FoundOffset,
  type OffsetAt,
  listOffsets,
  sendFetch,
} from './wire.ts';

const MAX_BYTES_DEFAULT = 1024 * 1024;
const WAIT_MS_DEFAULT = 500;
const LOST: readonly ErrorName[] = ['OFFSET_EXPIRED', 'OFFSET_BEYOND_END', 'LOG_TRUNCATED', 'DAMAGED_RANGE'];
/** A deleted topic looks like one that the broker has not heard of yet; after so many answers it is gone. */
const UNKNOWN_TOPIC_ANSWERS_MAX = 5;
const LOOK_UPS_MAX = 8;
const NO_TOPIC = topicId('0'.repeat(32));

export interface FetchOwner {
  readonly readers: readonly PartitionReader[];
  /** Something to deliver, or an end. */
  changed(): void;
  lost(
    reader: PartitionReader,
    reason: PositionLost['reason'],
    facts: { logStart: number; highWatermark: number; resumeAt: number },
    why: RivuletError,
  ): void;
  failed(error: unknown): void;
}

interface Asked {
  readonly reader: PartitionReader;
  readonly generation: number;
}

export class Fetcher {
  readonly #cluster: Cluster;
  readonly #owner: FetchOwner;
  readonly #options: ConsumerOptions;
  readonly #prefetchBytes: number;
  readonly #fetching = new Set<BrokerNode>();
  #bufferedBytes = 0;
  #closed = false;

  constructor(cluster: Cluster, owner: FetchOwner, options: ConsumerOptions, prefetchBytes: number) {
    this.#cluster = cluster;
    this.#owner = owner;
    this.#options = options;
    this.#prefetchBytes = prefetchBytes;
  }

  freed(bytes: number): void {
    this.#bufferedBytes -= bytes;
  }

  close(): void {
    this.#closed = true;
    for (const reader of this.#owner.readers) this.#cluster.deadlines.cancel(reader.backoff);
  }

  /** Sends every fetch that may be sent now. */
  pump(): void {
    if (this.#closed || this.#bufferedBytes >= this.#prefetchBytes) return;
    let byBroker: Map<BrokerNode, PartitionReader[]> | undefined;
    for (const reader of this.#owner.readers) {
      if (reader.busy || reader.paused || reader.backoff !== undefined || reader.failure !== undefined) continue;
      if (reader.pendingSeek !== undefined || (reader.start === undefined && reader.fetchOffset >= reader.upTo))
        continue;
      const broker = this.#cluster.leader(reader.topic, reader.partition);
      const id = this.#cluster.topic(reader.topic)?.id;
      if (id !== undefined && !reader.isOf(id)) {
        this.#later(
          reader,
          new RivuletError('UNKNOWN_TOPIC', 'the topic was deleted; the one of that name now is another'),
          true,
        );
        continue;
      }
      if (reader.start !== undefined || broker?.current === undefined || id === undefined) {
        this.#prepare(reader, broker);
        continue;
      }
      if (this.#fetching.has(broker)) continue;
      byBroker ??= new Map();
      const list = byBroker.get(broker);
      if (list === undefined) byBroker.set(broker, [reader]);
      else if (list.length < REQUEST_PARTITIONS_MAX) list.push(reader);
    }
    if (byBroker !== undefined) for (const [broker, readers] of byBroker) this.#fetch(broker, readers);
  }

  /** Sets `upTo` of each to its high watermark as it is now. */
  async findEnds(readers: readonly PartitionReader[]): Promise<void> {
    for (const reader of readers) {
      const found = await Fetcher.lookUp(this.#cluster, reader.topic, reader.partition, 'latest');
      reader.upTo = found.offset;
    }
  }

  #fetch(broker: BrokerNode, readers: readonly PartitionReader[]): void {
    const link = broker.current;
    if (link === undefined) return;
    const asked: Asked[] = readers.map((reader) => ({ reader, generation: reader.generation }));
    const maxBytes = this.#options.maxBytes ?? MAX_BYTES_DEFAULT;
    const waitMs = this.#options.waitMs ?? WAIT_MS_DEFAULT;
    const partitions = readers.map((reader) => ({
      topicId: reader.topicId ?? NO_TOPIC,
      partition: reader.partition,
      offset: reader.fetchOffset,
      maxBytes,
      leaderEpoch: this.#cluster.leaderEpoch(reader.topic, reader.partition),
      lastEpoch: reader.lastEpoch,
    }));
    for (const reader of readers) reader.busy = true;
    this.#fetching.add(broker);
    const request = { partitions, maxBytes, minBytes: this.#options.minBytes ?? 1, waitMs };
    const sent = sendFetch(link, request, this.#cluster.settings.requestTimeoutMs + waitMs, (answer, failure) => {
      this.#fetching.delete(broker);
      for (const { reader } of asked) reader.busy = false;
      if (this.#closed) return;
      if (answer === undefined)
        for (const { reader } of asked) this.#later(reader, failure ?? new RivuletError('INTERNAL'));
      else {
        broker.succeeded();
        this.#answered(asked, answer);
      }
      this.#owner.changed();
      this.pump();
    });
    if (!sent) {
      this.#fetching.delete(broker);
      for (const reader of readers) {
        reader.busy = false;
        this.#later(reader, new RivuletError('CONNECTION_LOST'));
      }
    }
  }

  #answered(asked: readonly Asked[], { partitions: answers, throttleMs }: FetchAnswer): void {
    for (let index = 0; index < asked.length; index += 1) {
      const ask = asked[index];
      const answer = answers[index];
      if (ask === undefined || ask.generation !== ask.reader.generation) continue;
      const { reader } = ask;
      if (answer === undefined || answer.topicId !== reader.topicId || answer.partition !== reader.partition) {
        this.#later(reader, new RivuletError('INTERNAL', 'the answer to a fetch leaves a partition out'));
        continue;
      }
      if (answer.highWatermark >= 0) reader.highWatermark = answer.highWatermark;
      if (answer.logStart >= 0) reader.logStart = answer.logStart;
      if (answer.error !== undefined) this.#refused(reader, answer, answer.error);
      else {
        reader.failures = 0;
        // The view is the connection's own buffer, which the next frame overwrites.
        if (answer.batches.length > 0)
          this.#bufferedBytes += reader.accept(answer.batches.slice(), this.#cluster.ports);
        if (throttleMs > 0) this.#wait(reader, throttleMs);
      }
    }
  }

  #refused(reader: PartitionReader, answer: FetchedPartition, error: RivuletError): void {
    const lost = LOST.find((name) => name === error.code);
    if (lost !== undefined) {
      const facts = { logStart: answer.logStart, highWatermark: answer.highWatermark, resumeAt: answer.resumeAt };
      this.#owner.lost(reader, lost as PositionLost['reason'], facts, error);
      return;
    }
    this.#later(reader, error);
  }

  /** Tries again after a pause, or gives the partition up. */
  #later(reader: PartitionReader, error: RivuletError, isFinal = false): void {
    const { clock } = this.#cluster.ports;
    if (reader.failures === 0) reader.failingSinceMs = clock.bootMs();
    reader.failures += 1;
    const isTimeUp =
      clock.bootMs() - reader.failingSinceMs > (this.#options.retryTimeoutMs ?? Number.POSITIVE_INFINITY);
    const gone = isFinal || (error.code === 'UNKNOWN_TOPIC' && reader.failures >= UNKNOWN_TOPIC_ANSWERS_MAX);
    if (!error.retriable || gone || isTimeUp) {
      const facts = { ...error.facts, topic: reader.topic, partition: reader.partition };
      reader.failure = new RivuletError(error.code, `${reader.label}: ${error.message}`, { facts, cause: error });
      this.#owner.changed();
      return;
    }
    const { reconnectBackoffMs, reconnectBackoffMaxMs } = this.#cluster.settings;
    const { action } = ERRORS[error.code];
    // The look-up after the pause reports it, should this fail.
    if (action === 'refresh' || action === 'reconnect') this.#cluster.refresh([reader.topic]).catch(() => undefined);
    const told = error.facts['retryAfterMs'];
    const grown = Math.min(reconnectBackoffMaxMs, reconnectBackoffMs * 2 ** Math.min(reader.failures - 1, 16));
    const pauseMs = typeof told === 'number' ? Math.max(1, told) : jittered(grown, this.#cluster.ports);
    this.#wait(reader, pauseMs);
  }

  #wait(reader: PartitionReader, ms: number): void {
    this.#cluster.deadlines.cancel(reader.backoff);
    reader.backoff = this.#cluster.deadlines.after(ms, () => {
      reader.backoff = undefined;
      this.pump();
    });
  }

  /** Connects to the leader, and finds the offset of its start where that is not a number. */
  #prepare(reader: PartitionReader, broker: BrokerNode | undefined): void {
    reader.busy = true;
    const { generation, start } = reader;
    this.#reach(reader, broker, start)
      .then(
        (offset) => {
          reader.busy = false;
          if (offset !== undefined && reader.generation === generation) {
            reader.start = undefined;
            reader.position = offset;
            reader.fetchOffset = offset;
          }
          this.#owner.changed();
          this.pump();
        },
        (error: unknown) => {
          reader.busy = false;
          if (!this.#closed) this.#later(reader, asRivuletError(error, 'INTERNAL'));
        },
      )
      .catch((error: unknown) => {
        this.#owner.failed(error);
      });
  }

  async #reach(
    reader: PartitionReader,
    broker: BrokerNode | undefined,
    start: StartPosition | undefined,
  ): Promise<number | undefined> {
    if (broker !== undefined && (start === undefined || typeof start === 'number')) {
      await broker.link();
      return start;
    }
    const at = start === undefined || typeof start === 'number' ? 'latest' : offsetAt(start);
    const found = await lookUpOnce(this.#cluster, reader.topic, reader.partition, at);
    return start === undefined ? undefined : found.offset;
  }

  /** Asks the leader, with patience while leadership moves. Rejects with RivuletError. */
  static async lookUp(cluster: Cluster, topic: string, partition: number, at: OffsetAt): Promise<FoundOffset> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await lookUpOnce(cluster, topic, partition, at);
      } catch (error) {
        const failure = asRivuletError(error, 'INTERNAL');
        if (!failure.retriable || attempt >= LOOK_UPS_MAX) throw failure;
        await cluster.pause(cluster.settings.reconnectBackoffMs * 2 ** attempt);
        // The next attempt reports it, should this fail.
        await cluster.refresh([topic]).catch(() => undefined);
      }
    }
  }
}

async function lookUpOnce(cluster: Cluster, topic: string, partition: number, at: OffsetAt): Promise<FoundOffset> {
  if (cluster.leader(topic, partition) === undefined) await cluster.refresh([topic]);
  const view = cluster.topic(topic);
  if (view === undefined) throw new RivuletError('UNKNOWN_TOPIC', `there is no topic "${topic}"`);
  const broker = cluster.leader(topic, partition);
  if (broker === undefined)
    throw new RivuletError('PARTITION_OFFLINE', `${topic}/${String(partition)} has no leader now`);
  const link = await broker.link();
  const [found] = await listOffsets(link, [{ topicId: view.id, partition, at }], cluster.settings.requestTimeoutMs);
  if (found === undefined) throw new RivuletError('INTERNAL', 'the answer holds no offset');
  return found;
}

export function offsetAt(start: Exclude<StartPosition, number>): OffsetAt {
  if (start === 'earliest' || start === 'latest') return start;
  return { timestamp: start instanceof Date ? start.getTime() : start.timestamp };
}
