// The batches of one partition on their way: in order, up to `maxInFlight` out at once, repeated under the same sequence until
// their outcome is known. Synchronous; answers, timers and room call in.
//
// After a failure nothing is sent until everything in flight was answered: then what is left is sent again in its old order.
// A batch whose outcome stays open, or a hole in the sequences, makes the queue `poisoned`: what is surely not in the log
// gives its sequence back and waits for the next epoch of the producer; what may be in the log is asked for until it is known.
import { ERRORS, type ErrorName, RivuletError } from '../base/errors.ts';
import type { CodecName } from '../base/codec.ts';
import type { DeliveryReport, RetryEvent } from './api.ts';
import { ANONYMOUS, type BatchIdentity, BatchWriter, type BufferPool, identify } from './batch-writer.ts';
import { jittered } from './broker-node.ts';
import type { Cluster } from './cluster.ts';
import type { Deadline } from './deadlines.ts';
import { Settlement } from './delivery.ts';
import { DeliveryError } from './failure.ts';
import type { ProducerSession, SessionMember } from './producer-session.ts';
import { type ProduceAnswer, sendProduce } from './wire.ts';

const SEQUENCE_MASK = 0x7fff_ffff;

export interface QueueOptions {
  readonly topic: string;
  readonly partition: number;
  readonly compression: CodecName;
  /** Undefined: as many as order allows. */
  readonly maxInFlight: number | undefined;
  readonly deliveryTimeoutMs: number;
  readonly acks: 'committed' | 'leader';
  readonly onRetry: ((event: RetryEvent) => void) | undefined;
}

/** What the queue needs of its producer. */
export interface QueueOwner {
  readonly cluster: Cluster;
  readonly session: ProducerSession;
  readonly pool: BufferPool;
  /** The batch is settled: room of its records is free, flushes go on. `unasked`: records whose outcome nobody asked for. */
  settled(batch: Batch, report: DeliveryReport, unasked: number): void;
  /** Leadership is in doubt. */
  refresh(topic: string): void;
}

/** What was handed over between two flushes. */
export interface FlushAge {
  readonly number: number;
  unsettled: number;
  readonly flushed: (() => void)[];
}

export class Batch {
  readonly writer: BatchWriter;
  readonly settlement: Settlement;
  readonly ordinal: number;
  /** Bytes accounted for in the producer's buffer. */
  heldBytes = 0;
  /** Of its oldest record. */
  age: FlushAge | undefined;
  bytes: Uint8Array | undefined;
  identity: BatchIdentity | undefined;
  /** The sealed bytes carry `identity` and the checksum that goes with it. */
  identified = false;
  deadline: Deadline | undefined;
  inFlight = false;
  /** An attempt ended without an answer, or with one that leaves it open. */
  maybeAppended = false;
  lastError: RivuletError | undefined;
  constructor(writer: BatchWriter, settlement: Settlement, ordinal: number) {
    this.writer = writer;
    this.settlement = settlement;
    this.ordinal = ordinal;
  }
}

export class PartitionQueue implements SessionMember {
  readonly #owner: QueueOwner;
  readonly #options: QueueOptions;
  readonly #deadlines: Cluster['deadlines'];
  #open: Batch | undefined;
  /** Sealed or to be repeated, in order. */
  #pending: Batch[] = [];
  /** In order of sending, which is the order of their ordinals. */
  #inFlight: Batch[] = [];
  /** Requests without an answer yet; more than `inFlight` when a batch was settled before its answer. */
  #outstanding = 0;
  #openDue = false;
  #nextOrdinal = 0;
  #nextSequence = 0;
  #poisoned = false;
  #recovering = false;
  #lastRefusal: RivuletError | undefined;
  #failures = 0;
  #pause: Deadline | undefined;
  #connecting = false;
  #lastBytes = 0;
  readonly #pumpBound = (): void => {
    this.pump();
  };

  constructor(owner: QueueOwner, options: QueueOptions) {
    this.#owner = owner;
    this.#options = options;
    this.#deadlines = owner.cluster.deadlines;
    owner.session.join(this);
  }

  get topic(): string {
    return this.#options.topic;
  }
  get partition(): number {
    return this.#options.partition;
  }
  get unresolved(): number {
    let count = this.#outstanding;
    for (const batch of this.#pending) if (batch.identity !== undefined) count += 1;
    return count;
  }
  /** Nothing buffered, waiting or in flight. */
  get idle(): boolean {
    return this.#open === undefined && this.#pending.length === 0 && this.#inFlight.length === 0;
  }
  /** The batch that takes records now. */
  get open(): Batch | undefined {
    return this.#open;
  }

  /** Opens a batch; its delivery time starts. */
  begin(): Batch {
    const { topic, partition, acks, deliveryTimeoutMs } = this.#options;
    const settlement = new Settlement(topic, partition, acks === 'committed' ? 'committed' : 'appended');
    const batch = new Batch(new BatchWriter(this.#owner.pool, this.#lastBytes), settlement, this.#nextOrdinal);
    this.#nextOrdinal += 1;
    batch.deadline = this.#deadlines.after(deliveryTimeoutMs, () => {
      this.#expire(batch);
    });
    this.#open = batch;
    return batch;
  }

  /** The open batch is complete, or has waited long enough. */
  close(): void {
    const batch = this.#open;
    if (batch === undefined) return;
    this.#open = undefined;
    this.#openDue = false;
    this.#lastBytes = batch.writer.sizeInBytes;
    this.#pending.push(batch);
  }

  /** The open batch has waited long enough: it goes as soon as something can be sent, and takes records until then. */
  release(): void {
    this.#openDue = this.#open !== undefined;
    this.pump();
  }

  /** Sends what may be sent now. Calls back here whenever that may have changed. */
  pump(): void {
    const { session } = this.#owner;
    if (session.failure !== undefined) {
      this.failAll(session.failure);
      return;
    }
    if (this.#recovering && this.#outstanding === 0) this.#recovering = false;
    if (this.#recovering || this.#pause !== undefined) return;
    const limit = this.#options.maxInFlight ?? (session.idempotent ? 5 : 1);
    while (this.#outstanding < limit) {
      if (this.#pending.length === 0 && this.#openDue && session.ready) this.close();
      const batch = this.#pending[0];
      if (batch === undefined || (batch.identity === undefined && (this.#poisoned || !session.ready))) return;
      if (!this.#send(batch)) return;
    }
  }

  restart(): void {
    this.#nextSequence = 0;
    this.#poisoned = false;
  }

  /** Everything not settled ends now: 'unknown' where it may be in the log. */
  failAll(why: RivuletError): void {
    this.#deadlines.cancel(this.#pause);
    this.#pause = undefined;
    this.close();
    const batches = [...this.#inFlight, ...this.#pending].sort((left, right) => left.ordinal - right.ordinal);
    this.#pending = [];
    this.#inFlight = [];
    for (const batch of batches) this.#fail(batch, why);
  }

  #send(batch: Batch): boolean {
    const { cluster, session } = this.#owner;
    const broker = cluster.leader(this.topic, this.partition);
    const link = broker?.current;
    const topic = cluster.topic(this.topic);
    if (broker === undefined || link === undefined || topic === undefined) {
      this.#connect();
      return false;
    }
    if (!link.hasRoom) {
      broker.whenRoom(this.#pumpBound);
      return false;
    }
    this.#pending.shift();
    const bytes = this.#prepare(batch, session);
    if (bytes === undefined) return true;
    batch.inFlight = true;
    this.#outstanding += 1;
    this.#inFlight.push(batch);
    const request = { topicId: topic.id, partition: this.partition, acks: this.#options.acks, batches: bytes };
    const sent = sendProduce(link, request, cluster.settings.requestTimeoutMs, (answer, failure) => {
      this.#answered(batch, answer, failure);
      if (answer !== undefined) broker.succeeded();
    });
    if (sent) return true;
    this.#inFlight.pop();
    this.#outstanding -= 1;
    this.#pending.unshift(batch);
    batch.inFlight = false;
    this.#connect();
    return false;
  }

  /** Undefined: it cannot be encoded and was refused. */
  #prepare(batch: Batch, session: ProducerSession): Uint8Array | undefined {
    const { ports } = this.#owner.cluster;
    try {
      batch.bytes ??= batch.writer.seal(this.#options.compression, ports.compression);
    } catch (error) {
      this.#fail(batch, new RivuletError('INVALID_ARGUMENT', 'the batch cannot be compressed', { cause: error }));
      return undefined;
    }
    let identity = batch.identity;
    if (identity === undefined && session.idempotent) {
      identity = {
        producerId: session.producerId,
        producerEpoch: session.producerEpoch,
        baseSequence: this.#nextSequence,
      };
      this.#nextSequence = (this.#nextSequence + batch.writer.recordCount) & SEQUENCE_MASK;
      batch.identity = identity;
    }
    if (!batch.identified) {
      identify(batch.bytes, identity ?? ANONYMOUS, ports.crc32c);
      batch.identified = true;
    }
    return batch.bytes;
  }

  #answered(batch: Batch, answer: ProduceAnswer | undefined, failure: RivuletError | undefined): void {
    const place = this.#inFlight.indexOf(batch);
    batch.inFlight = false;
    this.#outstanding -= 1;
    // Settled meanwhile by its delivery timeout or by close.
    if (place < 0) {
      this.#owner.session.settled();
      this.pump();
      return;
    }
    this.#inFlight.splice(place, 1);
    if (failure === undefined && answer !== undefined) this.#commit(batch, answer);
    else this.#failed(batch, failure ?? new RivuletError('INTERNAL'));
    this.#owner.session.settled();
    this.pump();
  }

  #commit(batch: Batch, answer: ProduceAnswer): void {
    this.#failures = 0;
    this.#lastRefusal = undefined;
    batch.settlement.commit(answer.baseOffset, answer.leaderEpoch);
    this.#finish(batch, undefined);
  }

  #failed(batch: Batch, error: RivuletError): void {
    const { session } = this.#owner;
    batch.lastError = error;
    this.#lastRefusal = error;
    if (error.code === 'DUPLICATE_SEQUENCE') {
      this.#commit(batch, { baseOffset: -1, leaderEpoch: -1 });
      return;
    }
    if (error.code === 'PRODUCER_FENCED') {
      session.fail(error);
      this.#fail(batch, error);
      return;
    }
    if (batch.identity !== undefined && (error.code === 'OUT_OF_ORDER_SEQUENCE' || error.code === 'UNKNOWN_PRODUCER')) {
      // Behind an earlier batch that failed this is expected. At the head it means that the broker lost what it had, or
      // that the batch before ended unknown; either way this one is not in the log.
      batch.maybeAppended = false;
      if (this.#isHead(batch)) {
        this.#poison();
        this.#backOff(error);
      }
      this.#requeue(batch);
      return;
    }
    if (ERRORS[error.code].outcome === 'unknown') {
      batch.maybeAppended = true;
      if (!session.idempotent) {
        this.#fail(batch, error);
        return;
      }
    }
    if (error.retriable) {
      this.#requeue(batch);
      this.#backOff(error);
      return;
    }
    this.#refused(batch, error);
  }

  /** Not in the log by this attempt and never will be. Its sequence is used again, or the epoch ends. */
  #refused(batch: Batch, error: RivuletError): void {
    if (batch.identity !== undefined) {
      const last = (batch.identity.baseSequence + batch.writer.recordCount) & SEQUENCE_MASK;
      if (!batch.maybeAppended && last === this.#nextSequence) this.#nextSequence = batch.identity.baseSequence;
      else this.#poison();
    }
    this.#fail(batch, error);
  }

  #isHead(batch: Batch): boolean {
    const earlier = (other: Batch): boolean => other.ordinal < batch.ordinal && other.identity !== undefined;
    return !this.#inFlight.some(earlier) && !this.#pending.some(earlier);
  }

  #poison(): void {
    this.#poisoned = true;
    this.#strip();
    this.#owner.session.drain();
  }

  /**
   * What is surely not in the log gives its sequence back, and so does all behind it: the broker takes no sequence after a
   * hole.
   */
  #strip(): void {
    let hole = false;
    for (const batch of this.#pending) {
      if (!batch.maybeAppended) hole = true;
      if (!hole) continue;
      batch.identity = undefined;
      batch.identified = false;
      batch.maybeAppended = false;
    }
  }

  #requeue(batch: Batch): void {
    const place = this.#pending.findIndex((other) => other.ordinal > batch.ordinal);
    if (place < 0) this.#pending.push(batch);
    else this.#pending.splice(place, 0, batch);
    if (this.#poisoned) this.#strip();
    this.#recovering = this.#outstanding > 0;
  }

  #backOff(error: RivuletError): void {
    if (ERRORS[error.code].action === 'refresh' || ERRORS[error.code].action === 'reconnect')
      this.#owner.refresh(this.topic);
    if (this.#pause !== undefined) return;
    const { reconnectBackoffMs, reconnectBackoffMaxMs } = this.#owner.cluster.settings;
    const told = error.facts['retryAfterMs'];
    const grown = Math.min(reconnectBackoffMaxMs, reconnectBackoffMs * 2 ** Math.min(this.#failures, 16));
    this.#failures += 1;
    const pauseMs = typeof told === 'number' ? Math.max(told, 1) : jittered(grown, this.#owner.cluster.ports);
    this.#pauseFor(pauseMs);
    this.#options.onRetry?.({ topic: this.topic, partition: this.partition, error, pauseMs });
  }

  #pauseFor(ms: number): void {
    this.#pause = this.#deadlines.after(ms, () => {
      this.#pause = undefined;
      this.pump();
    });
  }

  /** Finds the leader and connects to it, then pumps. */
  #connect(): void {
    if (this.#connecting) return;
    this.#connecting = true;
    this.#reach()
      .then(
        () => {
          this.#connecting = false;
          this.pump();
        },
        (error: unknown) => {
          this.#connecting = false;
          const failure =
            error instanceof RivuletError ? error : new RivuletError('NOT_CONNECTED', undefined, { cause: error });
          const head = this.#pending[0];
          if (head !== undefined) head.lastError = failure;
          if (failure.code !== 'CLOSED') this.#backOff(failure);
        },
      )
      .catch((error: unknown) => {
        // A bug in pump: it must not vanish in a promise.
        this.#owner.session.fail(new RivuletError('INTERNAL', 'the producer failed', { cause: error }));
      });
  }

  async #reach(): Promise<void> {
    const { cluster } = this.#owner;
    const broker = cluster.leader(this.topic, this.partition);
    if (broker === undefined) {
      await cluster.refresh([this.topic]);
      const view = cluster.topic(this.topic);
      if (view === undefined) throw new RivuletError('UNKNOWN_TOPIC', `there is no topic "${this.topic}"`);
      if (cluster.leader(this.topic, this.partition) === undefined) {
        throw new RivuletError('PARTITION_OFFLINE', `${this.topic}/${String(this.partition)} has no leader now`);
      }
      return;
    }
    await broker.link();
  }

  #expire(batch: Batch): void {
    if (this.#open === batch) this.close();
    const sequenced = batch.identity !== undefined;
    this.#pending = this.#pending.filter((other) => other !== batch);
    this.#inFlight = this.#inFlight.filter((other) => other !== batch);
    // Later batches would wait for its sequence for ever. What is still out is answered first; then a new epoch starts.
    if (sequenced) this.#poison();
    // A batch that only waited its turn failed for the reason of the one before it.
    const last = batch.lastError ?? this.#lastRefusal;
    const timeout = `not delivered within ${String(this.#options.deliveryTimeoutMs)} ms`;
    const detail = last === undefined ? timeout : `${timeout}; last: ${last.message}`;
    this.#fail(batch, new RivuletError(last?.code ?? 'REQUEST_TIMEOUT', detail, { cause: last }));
    this.#owner.session.settled();
    this.pump();
  }

  #fail(batch: Batch, why: RivuletError): void {
    const open = batch.inFlight || batch.maybeAppended;
    const outcome = open ? 'unknown' : 'rejected';
    const code: ErrorName = why.code;
    const facts = { ...why.facts, topic: this.topic, partition: this.partition };
    const error = new DeliveryError(code, outcome, why.message, { facts, cause: why });
    batch.settlement.fail(error);
    this.#finish(batch, error);
  }

  #finish(batch: Batch, error: RivuletError | undefined): void {
    this.#deadlines.cancel(batch.deadline);
    const { settlement } = batch;
    const recordCount = batch.writer.recordCount;
    // While the socket may still read the buffer it cannot be used again; the collector takes it then.
    if (!batch.inFlight) batch.writer.release();
    batch.bytes = undefined;
    const report: DeliveryReport = {
      topic: this.topic,
      partition: this.partition,
      recordCount,
      baseOffset: settlement.baseOffset,
      leaderEpoch: settlement.leaderEpoch,
      error,
    };
    this.#owner.settled(batch, report, recordCount - settlement.asked);
  }
}
