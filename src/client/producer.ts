import { utf8Encode } from '../base/bytes.ts';
import { BATCH_BYTES_MAX, RECORD_BYTES_MAX, isTopicName } from '../base/limits.ts';
import { RivuletError } from '../base/errors.ts';
import type {
  CloseOptions,
  Delivery,
  DeliveryReport,
  Producer,
  ProducerOptions,
  ProducerRecord,
  RecordMetadata,
} from './api.ts';
import { BufferPool, type EncodedHeader, encodeHeaders, recordBytesMax } from './batch-writer.ts';
import type { CancelTimer } from '../ports/clock.ts';
import type { Cluster } from './cluster.ts';
import { RecordDelivery, Settlement } from './delivery.ts';
import { DeliveryError, asRivuletError, withSignal } from './failure.ts';
import { keyPartition } from './murmur2.ts';
import { type Batch, type FlushAge, PartitionQueue, type QueueOwner } from './partition-queue.ts';
import { ProducerSession } from './producer-session.ts';

const BATCH_BYTES_DEFAULT = 256 * 1024;
const BUFFER_BYTES_DEFAULT = 32 * 1024 * 1024;
const DELIVERY_TIMEOUT_MS_DEFAULT = 120_000;
const CLOSE_TIMEOUT_MS_DEFAULT = 30_000;
const WAITING_MAX = 1024;
/** The wall clock is read once for so many records: their times differ by microseconds. */
const RECORDS_PER_CLOCK_READING = 64;
const TOPIC_ATTEMPTS = 3;

interface Waiting {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly EncodedHeader[] | undefined;
  readonly timestamp: number;
  readonly partition: number | undefined;
  readonly delivery: RecordDelivery;
  readonly age: FlushAge;
  readonly bytes: number;
}

interface TopicSender {
  readonly topic: string;
  /** Empty until the topic's partitions are known. */
  queues: PartitionQueue[];
  loading: boolean;
  sticky: number;
  waiting: Waiting[];
}

const bytesOf = (value: string | Uint8Array | null | undefined): Uint8Array | null =>
  typeof value === 'string' ? utf8Encode(value) : (value ?? null);

function checkRange(name: string, value: number | undefined, least: number, most: number): void {
  if (value !== undefined && !(value >= least && value <= most)) {
    throw new RivuletError(
      'INVALID_ARGUMENT',
      `${name} is ${String(value)}; it must be ${String(least)} to ${String(most)}`,
    );
  }
}

function checkOptions(options: ProducerOptions): void {
  checkRange('lingerMs', options.lingerMs, 0, 60_000);
  checkRange('batchBytes', options.batchBytes, 1024, BATCH_BYTES_MAX);
  checkRange('maxInFlight', options.maxInFlight, 1, 5);
  checkRange('bufferBytesMax', options.bufferBytesMax, 1024, 2 ** 40);
  checkRange('deliveryTimeoutMs', options.deliveryTimeoutMs, 1, 2 ** 31);
  if (options.name !== undefined && options.idempotent === false) {
    throw new RivuletError('INVALID_ARGUMENT', 'a named producer is idempotent: leave out idempotent: false');
  }
}

export class ClientProducer implements Producer, QueueOwner {
  readonly cluster: Cluster;
  readonly session: ProducerSession;
  readonly pool: BufferPool;
  readonly #options: ProducerOptions;
  readonly #lingerMs: number;
  readonly #bufferBytesMax: number;
  readonly #senders = new Map<string, TopicSender>();
  #lastSender: TopicSender | undefined;
  /** Bytes in batches, and of records that wait for one: two counts, for room is made by batches alone. */
  #held = 0;
  #waitingBytes = 0;
  #waitingCount = 0;
  #loadingCount = 0;
  #admitting = false;
  #ready: (() => void)[] = [];
  #age: FlushAge = { number: 0, unsettled: 0, flushed: [] };
  readonly #ages: FlushAge[] = [this.#age];
  #lingering: PartitionQueue[] = [];
  #lingerArmed = false;
  #cancelLinger: CancelTimer | undefined;
  #now = 0;
  #nowUses = 0;
  #unreported: RivuletError | undefined;
  #closing: Promise<void> | undefined;
  #ended: RivuletError | undefined;
  readonly #onClosed: () => void;

  constructor(cluster: Cluster, options: ProducerOptions, onClosed: () => void) {
    checkOptions(options);
    this.cluster = cluster;
    this.#options = options;
    this.#lingerMs = options.lingerMs ?? 0;
    this.#bufferBytesMax = options.bufferBytesMax ?? BUFFER_BYTES_DEFAULT;
    this.session = new ProducerSession(cluster, { idempotent: options.idempotent, name: options.name });
    this.pool = new BufferPool(options.batchBytes ?? BATCH_BYTES_DEFAULT, this.#bufferBytesMax);
    this.#onClosed = onClosed;
  }

  get bufferedBytes(): number {
    return this.#held + this.#waitingBytes;
  }
  get full(): boolean {
    return this.#held + this.#waitingBytes >= this.#bufferBytesMax;
  }

  send(topic: string, record: ProducerRecord): Delivery {
    const sender = topic === this.#lastSender?.topic ? this.#lastSender : this.#sender(topic);
    const key = bytesOf(record.key);
    const value = bytesOf(record.value);
    const headers = encodeHeaders(record.headers, record.eventId, record.schemaVersion);
    const timestamp = this.#timestamp(record.timestamp);
    const invalid = this.#end ?? invalidRecord(sender, key, value, record.partition, timestamp);
    if (invalid !== undefined) return refused(topic, timestamp, invalid);
    if (sender.queues.length === 0 || sender.waiting.length > 0 || this.full) {
      return this.#wait(sender, key, value, headers, timestamp, record.partition);
    }
    const batch = this.#append(sender, key, value, headers, timestamp, record.partition);
    return new RecordDelivery(batch.settlement, batch.writer.recordCount - 1, timestamp);
  }

  enqueue(topic: string, record: ProducerRecord): boolean {
    const sender = topic === this.#lastSender?.topic ? this.#lastSender : this.#sender(topic);
    if (this.#end !== undefined) throw this.#end;
    if (sender.queues.length === 0 || sender.waiting.length > 0 || this.full) {
      if (sender.queues.length === 0) this.#load(sender);
      return false;
    }
    const key = bytesOf(record.key);
    const value = bytesOf(record.value);
    const timestamp = this.#timestamp(record.timestamp);
    const invalid = invalidRecord(sender, key, value, record.partition, timestamp);
    if (invalid !== undefined) throw invalid;
    this.#append(
      sender,
      key,
      value,
      encodeHeaders(record.headers, record.eventId, record.schemaVersion),
      timestamp,
      record.partition,
    );
    return true;
  }

  async sendBatch(topic: string, records: readonly ProducerRecord[]): Promise<RecordMetadata[]> {
    const deliveries: Delivery[] = [];
    for (const record of records) {
      if (this.full) await this.ready();
      deliveries.push(this.send(topic, record));
    }
    // Asked for all before any is awaited: none counts as unreported.
    const settled = await Promise.allSettled(deliveries.map(async (delivery) => await delivery.promise()));
    return settled.map((result) => {
      if (result.status === 'rejected') throw asRivuletError(result.reason, 'INTERNAL');
      return result.value;
    });
  }

  async ready(signal?: AbortSignal): Promise<void> {
    while (this.full || this.#loadingCount > 0) {
      if (this.#end !== undefined) break;
      const room = new Promise<void>((resolve) => {
        this.#ready.push(resolve);
      });
      await withSignal(room, signal);
    }
    if (this.#end !== undefined) throw this.#end;
  }

  async flush(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const age = this.#age;
    const done = new Promise<void>((resolve) => {
      age.flushed.push(resolve);
    });
    this.#age = { number: age.number + 1, unsettled: 0, flushed: [] };
    this.#ages.push(this.#age);
    this.#releaseAll();
    this.#agesSettled();
    await withSignal(done, options.signal);
    const unreported = this.#unreported;
    this.#unreported = undefined;
    if (unreported !== undefined) throw unreported;
  }

  async close(options: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(options.timeoutMs ?? CLOSE_TIMEOUT_MS_DEFAULT);
    return await this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // ---- QueueOwner ----

  settled(batch: Batch, report: DeliveryReport, unasked: number): void {
    this.#held -= batch.heldBytes;
    if (report.error !== undefined && unasked > 0) this.#unreported ??= report.error;
    this.#options.onDelivery?.(report);
    if (batch.age !== undefined) batch.age.unsettled -= 1;
    this.#agesSettled();
    if (this.#waitingCount > 0) this.#admit();
    if (!this.full) this.#wake();
  }

  refresh(topic: string): void {
    // The queue tries again after its pause and asks anew then, should this fail.
    this.cluster.refresh([topic]).catch(() => undefined);
  }

  // ---- inside ----

  get #end(): RivuletError | undefined {
    return this.#ended ?? this.session.failure;
  }

  #timestamp(given: number | Date | undefined): number {
    if (given !== undefined) return typeof given === 'number' ? given : given.getTime();
    if (this.#nowUses === 0) {
      this.#now = this.cluster.ports.clock.wallMs();
      this.#nowUses = RECORDS_PER_CLOCK_READING;
    }
    this.#nowUses -= 1;
    return this.#now;
  }

  #sender(topic: string): TopicSender {
    let sender = this.#senders.get(topic);
    if (sender === undefined) {
      if (!isTopicName(topic)) throw new RivuletError('INVALID_TOPIC_NAME', undefined, { facts: { topic } });
      sender = { topic, queues: [], loading: false, sticky: 0, waiting: [] };
      this.#senders.set(topic, sender);
    }
    this.#lastSender = sender;
    return sender;
  }

  #append(
    sender: TopicSender,
    key: Uint8Array | null,
    value: Uint8Array | null,
    headers: readonly EncodedHeader[] | undefined,
    timestamp: number,
    partition: number | undefined,
  ): Batch {
    const queue = this.#queueFor(sender, key, partition);
    let batch = queue.open ?? this.#begin(queue);
    let before = batch.writer.sizeInBytes;
    if (!batch.writer.append(key, value, headers, timestamp)) {
      queue.close();
      if (key === null) this.#turn(sender);
      queue.pump();
      batch = this.#begin(queue);
      before = batch.writer.sizeInBytes;
      batch.writer.append(key, value, headers, timestamp);
    }
    const added = batch.writer.sizeInBytes - before;
    batch.heldBytes += added;
    this.#held += added;
    return batch;
  }

  #queueFor(sender: TopicSender, key: Uint8Array | null, partition: number | undefined): PartitionQueue {
    const count = sender.queues.length;
    let chosen = partition;
    if (chosen === undefined) {
      const { partitioner } = this.#options;
      if (partitioner !== undefined) chosen = partitioner(sender.topic, key, count);
      else chosen = key === null ? sender.sticky : keyPartition(key, count);
    }
    const queue = sender.queues[chosen];
    if (queue === undefined)
      throw new RivuletError('UNKNOWN_PARTITION', `${sender.topic} has no partition ${String(chosen)}`);
    return queue;
  }

  /** The next keyless records go to the next partition. */
  #turn(sender: TopicSender): void {
    sender.sticky = (sender.sticky + 1) % Math.max(1, sender.queues.length);
  }

  #begin(queue: PartitionQueue): Batch {
    const batch = queue.begin();
    batch.age = this.#age;
    this.#age.unsettled += 1;
    this.#lingering.push(queue);
    if (!this.#lingerArmed) this.#armLinger();
    return batch;
  }

  #armLinger(): void {
    this.#lingerArmed = true;
    const { clock } = this.cluster.ports;
    if (this.#lingerMs > 0) {
      this.#cancelLinger = clock.setTimer(this.#lingerMs, () => {
        this.#releaseAll();
      });
      return;
    }
    clock.yieldNow().then(
      () => {
        this.#releaseAll();
      },
      (error: unknown) => {
        this.session.fail(asRivuletError(error, 'INTERNAL'));
      },
    );
  }

  /** Batches that waited for more records go now. */
  #releaseAll(): void {
    this.#lingerArmed = false;
    this.#cancelLinger?.();
    this.#cancelLinger = undefined;
    this.#nowUses = 0;
    const queues = this.#lingering;
    this.#lingering = [];
    for (const queue of queues) queue.release();
    for (const sender of this.#senders.values()) if (sender.queues.length > 1) this.#turn(sender);
  }

  #wait(
    sender: TopicSender,
    key: Uint8Array | null,
    value: Uint8Array | null,
    headers: readonly EncodedHeader[] | undefined,
    timestamp: number,
    partition: number | undefined,
  ): Delivery {
    const full = this.full;
    if (full && this.#waitingCount >= WAITING_MAX)
      return refused(sender.topic, timestamp, new RivuletError('BUFFER_FULL'));
    const delivery = new RecordDelivery(new Settlement(sender.topic, partition ?? -1, 'committed'), 0, timestamp);
    const bytes = recordBytesMax(key, value, headers);
    this.#waitingBytes += bytes;
    this.#waitingCount += 1;
    this.#age.unsettled += 1;
    sender.waiting.push({ key, value, headers, timestamp, partition, delivery, age: this.#age, bytes });
    if (sender.queues.length === 0) this.#load(sender);
    return delivery;
  }

  /** Records that waited move to batches as far as there is room, in their order. */
  #admit(): void {
    // Appending can settle batches, which calls here again.
    if (this.#admitting) return;
    this.#admitting = true;
    for (const sender of this.#senders.values()) {
      if (sender.queues.length === 0 || sender.waiting.length === 0) continue;
      let taken = 0;
      for (const waiting of sender.waiting) {
        if (this.#held >= this.#bufferBytesMax) break;
        taken += 1;
        this.#admitOne(sender, waiting);
      }
      // Not cut off while it is walked: only then do new records see that they need not wait.
      sender.waiting = sender.waiting.slice(taken);
    }
    this.#admitting = false;
    // Somebody waits for a flush: what was just admitted does not linger.
    if (this.#ages.length > 1 && this.#lingering.length > 0) this.#releaseAll();
    this.#agesSettled();
  }

  #admitOne(sender: TopicSender, waiting: Waiting): void {
    const { key, value, headers, timestamp, partition, delivery } = waiting;
    this.#waitingBytes -= waiting.bytes;
    this.#waitingCount -= 1;
    const invalid = this.#end ?? invalidRecord(sender, key, value, partition, timestamp);
    if (invalid !== undefined) {
      waiting.age.unsettled -= 1;
      this.#refuseWaiting(delivery, invalid);
      return;
    }
    const anteroom = delivery.settlement;
    const batch = this.#append(sender, key, value, headers, timestamp, partition);
    delivery.settlement = batch.settlement;
    delivery.index = batch.writer.recordCount - 1;
    anteroom.moveAskers(batch.settlement);
    // A flush that was called while the record waited waits for its batch.
    if (batch.age !== undefined && waiting.age.number < batch.age.number) {
      batch.age.unsettled -= 1;
      waiting.age.unsettled += 1;
      batch.age = waiting.age;
    }
    waiting.age.unsettled -= 1;
  }

  #refuseWaiting(delivery: RecordDelivery, why: RivuletError): void {
    const { settlement } = delivery;
    const error = new DeliveryError(why.code, 'rejected', why.message, { facts: why.facts, cause: why });
    settlement.fail(error);
    if (settlement.asked === 0) this.#unreported ??= error;
  }

  #load(sender: TopicSender): void {
    if (sender.loading) return;
    sender.loading = true;
    this.#loadingCount += 1;
    this.#loadTopic(sender)
      .catch((error: unknown) => {
        const why = asRivuletError(error, 'INTERNAL');
        const waiting = sender.waiting;
        sender.waiting = [];
        for (const record of waiting) {
          this.#waitingBytes -= record.bytes;
          this.#waitingCount -= 1;
          record.age.unsettled -= 1;
          this.#refuseWaiting(record.delivery, why);
        }
      })
      .finally(() => {
        sender.loading = false;
        this.#loadingCount -= 1;
        this.#admit();
        this.#wake();
      })
      .catch((error: unknown) => {
        this.session.fail(asRivuletError(error, 'INTERNAL'));
      });
  }

  async #loadTopic(sender: TopicSender): Promise<void> {
    const { cluster } = this;
    const untilMs = cluster.ports.clock.bootMs() + (this.#options.deliveryTimeoutMs ?? DELIVERY_TIMEOUT_MS_DEFAULT);
    for (let attempt = 1; this.#end === undefined; attempt += 1) {
      try {
        cluster.produces(sender.topic);
        const view = await cluster.requireTopic(sender.topic);
        sender.queues = view.partitions.map((_, partition) => this.#newQueue(sender.topic, partition));
        sender.sticky = cluster.ports.random.below(Math.max(1, sender.queues.length));
        return;
      } catch (error) {
        const failure = asRivuletError(error, 'INTERNAL');
        const missing = failure.code === 'UNKNOWN_TOPIC' && attempt >= TOPIC_ATTEMPTS;
        if (missing || !failure.retriable || cluster.ports.clock.bootMs() >= untilMs) throw failure;
        await cluster.pause(cluster.settings.reconnectBackoffMs * 2 ** Math.min(attempt, 5));
      }
    }
  }

  #newQueue(topic: string, partition: number): PartitionQueue {
    return new PartitionQueue(this, {
      topic,
      partition,
      compression: this.#options.compression ?? 'none',
      maxInFlight: this.#options.maxInFlight,
      deliveryTimeoutMs: this.#options.deliveryTimeoutMs ?? DELIVERY_TIMEOUT_MS_DEFAULT,
      acks: this.#options.acks ?? 'committed',
      onRetry: this.#options.onRetry,
    });
  }

  #agesSettled(): void {
    for (;;) {
      const [oldest] = this.#ages;
      if (oldest === undefined || oldest === this.#age || oldest.unsettled > 0) return;
      this.#ages.shift();
      for (const flushed of oldest.flushed) flushed();
    }
  }

  #wake(): void {
    const ready = this.#ready;
    if (ready.length === 0) return;
    this.#ready = [];
    for (const resolve of ready) resolve();
  }

  async #close(timeoutMs: number): Promise<void> {
    let failure: unknown;
    const deadline = this.cluster.deadlines.after(timeoutMs, () => {
      this.abandon(new RivuletError('CLOSED', `closed; not delivered within ${String(timeoutMs)} ms`));
    });
    try {
      await this.flush();
    } catch (error) {
      failure = error;
    } finally {
      this.cluster.deadlines.cancel(deadline);
      this.abandon(new RivuletError('CLOSED'));
      this.#onClosed();
    }
    if (failure !== undefined) throw asRivuletError(failure, 'INTERNAL');
  }

  /** Everything not settled ends now. */
  abandon(why: RivuletError): void {
    this.#ended ??= why;
    for (const sender of this.#senders.values()) {
      const waiting = sender.waiting;
      sender.waiting = [];
      for (const record of waiting) {
        this.#waitingBytes -= record.bytes;
        this.#waitingCount -= 1;
        record.age.unsettled -= 1;
        this.#refuseWaiting(record.delivery, why);
      }
    }
    this.#cancelLinger?.();
    this.session.fail(why);
    this.#agesSettled();
    this.#wake();
  }
}

function invalidRecord(
  sender: TopicSender,
  key: Uint8Array | null,
  value: Uint8Array | null,
  partition: number | undefined,
  timestamp: number,
): RivuletError | undefined {
  if ((key?.length ?? 0) > RECORD_BYTES_MAX || (value?.length ?? 0) > RECORD_BYTES_MAX) {
    return new RivuletError('BATCH_TOO_LARGE', `key and value may have ${String(RECORD_BYTES_MAX)} bytes each`);
  }
  if (!Number.isSafeInteger(timestamp) || timestamp < -1)
    return new RivuletError('INVALID_ARGUMENT', `timestamp is ${String(timestamp)}`);
  if (partition !== undefined && sender.queues.length > 0 && sender.queues[partition] === undefined) {
    return new RivuletError('UNKNOWN_PARTITION', `${sender.topic} has no partition ${String(partition)}`);
  }
  return undefined;
}

function refused(topic: string, timestamp: number, why: RivuletError): Delivery {
  const settlement = new Settlement(topic, -1, 'committed');
  settlement.fail(new DeliveryError(why.code, 'rejected', why.message, { facts: why.facts, cause: why }));
  return new RecordDelivery(settlement, 0, timestamp);
}
