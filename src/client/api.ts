// What users of the library see: shapes, units and meanings. The code behind each is in the file of its name.
import type { GroupAdmin, GroupConsumer, GroupConsumerOptions } from './group-api.ts';
import type { CodecName } from '../base/codec.ts';
import type { Crc32c } from '../base/checksum.ts';
import type { RivuletError } from '../base/errors.ts';
import type { Clock } from '../ports/clock.ts';
import type { Compression } from '../ports/compression.ts';
import type { Network, TlsOptions } from '../ports/network.ts';
import type { Random } from '../ports/random.ts';

/** The world as the client sees it. `connect` passes the real one; a simulator passes its own. */
export interface ClientPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly network: Network;
  readonly compression: Compression;
  readonly crc32c: Crc32c;
}

export interface ConnectOptions {
  /**
   * `host:port` each, in a list or separated by commas; any one that answers is enough, the rest of the cluster is learnt from
   * it. Default: 127.0.0.1:9400.
   */
  readonly servers?: string | readonly string[];
  /** Shown in the broker's logs and quotas; up to 255 bytes. */
  readonly clientId?: string;
  /** Bound of one attempt to connect and say Hello. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** Bound of one request from sending to its answer (a fetch: on top of its own wait). Default 30,000. */
  readonly requestTimeoutMs?: number;
  /** First pause after a failed attempt; doubles with jitter up to `reconnectBackoffMaxMs`. Default 50. */
  readonly reconnectBackoffMs?: number;
  /** Default 2,000. */
  readonly reconnectBackoffMaxMs?: number;
  readonly tls?: TlsOptions;
  /** Aborting gives up connecting; it does not close a client that is connected. */
  readonly signal?: AbortSignal;
}

export interface CloseOptions {
  /** How long buffered records may still be delivered. Default 30,000. */
  readonly timeoutMs?: number;
}

export interface Client extends AsyncDisposable {
  producer(options?: ProducerOptions): Producer;
  consumer(options: ConsumerOptions): Consumer;
  /**
   * Joins the group when it is run, or iterated. Each member holds one waiting request on the client's connection, which the broker
   * bounds (256 by default): a process with hundreds of members needs a client for each hundred or so.
   */
  groupConsumer(options: GroupConsumerOptions): GroupConsumer;
  readonly admin: Admin;
  /** Closes producers (flushing within the bound), consumers and connections. Idempotent. */
  close(options?: CloseOptions): Promise<void>;
}

// ---- Producer ----

export interface ProducerOptions {
  /**
   * How long an incomplete batch waits for more records. 0 (default): until the end of the current turn of the event loop,
   * or longer while `maxInFlight` requests are out.
   */
  readonly lingerMs?: number;
  /** A batch is sent when it holds this many uncompressed bytes. Default 262,144; at most the broker's largest batch. */
  readonly batchBytes?: number;
  readonly compression?: CodecName;
  /** Requests in flight per partition; order is kept for every value. 1 to 5, default 5. */
  readonly maxInFlight?: number;
  /** Record bytes held at most, sent and unanswered ones included. Default 33,554,432. */
  readonly bufferBytesMax?: number;
  /** From `send` to the outcome, retries included. Default 120,000. */
  readonly deliveryTimeoutMs?: number;
  /** `committed` (default): stored under the replication and fsync policy. `leader`: appended at the leader, may still be lost. */
  readonly acks?: 'committed' | 'leader';
  /**
   * Default true: retries never duplicate or reorder. False: after an unknown outcome nothing is retried, since a repeat
   * could be a second copy.
   */
  readonly idempotent?: boolean;
  /** A durable producer name: a new session of it fences the older one. */
  readonly name?: string;
  /** Partition of a record without an explicit one. Default: murmur2 of the key; without key one partition per batch in turn. */
  readonly partitioner?: (topic: string, key: Uint8Array | null, partitions: number) => number;
  /** Called once per batch with its outcome, before the promises of its records settle. Must not throw. */
  readonly onDelivery?: (report: DeliveryReport) => void;
  /**
   * Called when a batch was not taken for now and is tried again until `deliveryTimeoutMs`: so that somebody learns why nothing
   * moves. Must not throw.
   */
  readonly onRetry?: (event: RetryEvent) => void;
}

export interface RetryEvent {
  readonly topic: string;
  readonly partition: number;
  /** Why the last attempt failed. */
  readonly error: RivuletError;
  /** Until the next attempt. */
  readonly pauseMs: number;
}

export interface ProducerHeader {
  readonly key: string;
  readonly value: string | Uint8Array | null;
}
/** By name, or as a list where their order counts or a name occurs more than once. Strings travel as UTF-8. */
export type ProducerHeaders = Readonly<Record<string, string | Uint8Array | null>> | readonly ProducerHeader[];

export interface ProducerRecord {
  /** Strings travel as UTF-8. */
  readonly key?: string | Uint8Array | null;
  readonly value: string | Uint8Array | null;
  readonly headers?: ProducerHeaders;
  /** Milliseconds since 1970 or a Date; default: now. */
  readonly timestamp?: number | Date;
  readonly partition?: number;
  /** Travels as header `event-id`: what a consumer deduplicates by. */
  readonly eventId?: string;
  /** Travels as header `schema-version`. */
  readonly schemaVersion?: string | number;
}

export interface RecordMetadata {
  readonly outcome: 'committed' | 'appended';
  readonly topic: string;
  readonly partition: number;
  /** -1 when the broker knows only that the record is in the log (a repeat of long ago). */
  readonly offset: number;
  readonly leaderEpoch: number;
  /** As stored with the record. */
  readonly timestamp: number;
}

/** One batch's outcome. `error.outcome` is 'rejected' or 'unknown'. */
export interface DeliveryReport {
  readonly topic: string;
  readonly partition: number;
  readonly recordCount: number;
  readonly baseOffset: number;
  readonly leaderEpoch: number;
  readonly error: RivuletError | undefined;
}

/**
 * What `send` returns: awaitable like a promise, but one small object until someone asks. It settles with its batch:
 * fulfilled when committed, rejected with RivuletError whose `outcome` is 'rejected' or 'unknown'. An outcome that nobody
 * awaits is not lost: `flush`, `close` and `onDelivery` report it.
 */
export interface Delivery extends PromiseLike<RecordMetadata> {
  readonly state: 'pending' | 'committed' | 'failed';
  /** A real promise, for Promise.all and the like (which take the Delivery itself too). */
  promise(): Promise<RecordMetadata>;
}

export interface Producer extends AsyncDisposable {
  /**
   * Buffers one record and returns at once. When the buffer is full the record waits for room; at most 1,024 records may
   * wait like that, further ones are rejected with BUFFER_FULL (not sent). Awaiting each `send`, or `ready()` after
   * `full`, never gets there.
   */
  send(topic: string, record: ProducerRecord): Delivery;
  /** All records, with waiting for room; resolves when all are settled, in order; rejects with the first failure after that. */
  sendBatch(topic: string, records: readonly ProducerRecord[]): Promise<RecordMetadata[]>;
  /** Cheapest form: no object per record. False: no room, nothing was taken; await `ready()`. Outcomes by onDelivery and flush. */
  enqueue(topic: string, record: ProducerRecord): boolean;
  readonly full: boolean;
  /** Resolves when there is room. Rejects when the producer is closed, failed, or the signal aborts. */
  ready(signal?: AbortSignal): Promise<void>;
  /**
   * Sends what is buffered and resolves when all of it is settled. Rejects with the first failure since the last flush
   * whose record's Delivery nobody awaited.
   */
  flush(options?: { readonly signal?: AbortSignal }): Promise<void>;
  readonly bufferedBytes: number;
  /** Flushes within the bound; what is not settled then ends 'unknown' (sent) or 'rejected' (never sent). */
  close(options?: CloseOptions): Promise<void>;
}

// ---- Consumer ----

/** Where to begin: first retained record, end of the log, an offset, or the first record at or after a time. */
export type StartPosition = 'earliest' | 'latest' | number | Date | { readonly timestamp: number };

export interface Assignment {
  readonly topic: string;
  readonly partition: number;
  /** Default: the consumer's `from`. */
  readonly from?: StartPosition;
}

export interface ConsumerOptions {
  /** All partitions of these topics, as they are at the start. Either this or `assignments`. */
  readonly topics?: readonly string[];
  readonly assignments?: readonly Assignment[];
  /** Default 'earliest'. */
  readonly from?: StartPosition;
  /** Bytes of one fetch answer. Default 1,048,576. */
  readonly maxBytes?: number;
  /** Fetched and not yet consumed bytes, over all partitions. Default 8,388,608. */
  readonly prefetchBytes?: number;
  /** How long the broker may hold a fetch that finds nothing. Default 500. */
  readonly waitMs?: number;
  readonly minBytes?: number;
  /** A partition that could not be read for so long ends the iteration with the last error. Default: tries for ever. */
  readonly retryTimeoutMs?: number;
  /** End the iteration once everything below the high watermarks found at the start was delivered. */
  readonly until?: 'high-watermark-at-start';
  readonly signal?: AbortSignal;
  /**
   * Asked when the position is not readable any more. Return where to go on, or 'stop'. Default: stop, that is, the iteration
   * throws the error after all records before it.
   */
  readonly onPositionLost?: (event: PositionLost) => 'stop' | 'earliest' | 'latest' | number;
}

export interface PositionLost {
  readonly reason: 'OFFSET_EXPIRED' | 'OFFSET_BEYOND_END' | 'LOG_TRUNCATED' | 'DAMAGED_RANGE';
  readonly topic: string;
  readonly partition: number;
  /** The next offset that would have been read. */
  readonly position: number;
  /** Retained range: [logStart, highWatermark). -1: not told. */
  readonly logStart: number;
  readonly highWatermark: number;
  /** LOG_TRUNCATED: records from here on may differ from what was read. DAMAGED_RANGE: end of the range. -1: not told. */
  readonly resumeAt: number;
  readonly error: RivuletError;
}

export interface RecordHeaderValue {
  readonly key: string;
  readonly value: Uint8Array | null;
}

/**
 * One record. Bytes are views of its batch, valid as long as they are referenced, decoded when asked for; copy what is kept
 * for long, or the whole batch is kept.
 */
export interface ConsumedRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly timestamp: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeaderValue[];
}

export interface ConsumedBatch extends Iterable<ConsumedRecord> {
  readonly topic: string;
  readonly partition: number;
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly leaderEpoch: number;
  readonly highWatermark: number;
  /** Records from the position on: fewer than stored when the position was inside the batch. */
  readonly length: number;
  record(index: number): ConsumedRecord;
}

/** One iteration at a time; a second one continues where the first ended. */
export interface Consumer extends AsyncIterable<ConsumedRecord>, AsyncDisposable {
  batches(): AsyncIterable<ConsumedBatch>;
  /** Next offset to be delivered; undefined before it is resolved or when not assigned. */
  position(topic: string, partition: number): number | undefined;
  seek(topic: string, partition: number, to: StartPosition): void;
  pause(topic: string, partition: number): void;
  resume(topic: string, partition: number): void;
  /** High watermark as last told, minus position; undefined before the first answer. */
  lag(topic: string, partition: number): number | undefined;
  close(): Promise<void>;
}

// ---- Admin ----

export interface TopicSpec {
  readonly name: string;
  /** Default 1. */
  readonly partitions?: number;
  /** Default: as many as the cluster allows, up to 3. */
  readonly replicas?: number;
  /** As in the broker's documentation, for example `{ 'retention.ms': '604800000' }`. */
  readonly config?: Readonly<Record<string, string>>;
}

export interface PartitionDescription {
  readonly partition: number;
  /** -1: none now. */
  readonly leader: number;
  readonly leaderEpoch: number;
  readonly replicas: readonly number[];
  readonly inSync: readonly number[];
}

export interface TopicDescription {
  readonly name: string;
  readonly id: string;
  readonly config: Readonly<Record<string, string>>;
  readonly partitions: readonly PartitionDescription[];
}

export interface PartitionOffset {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** Of the record found; -1 when not asked by time. */
  readonly timestamp: number;
  readonly leaderEpoch: number;
}

export interface NodeDescription {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
  readonly state: 'offline' | 'online' | 'draining';
  readonly softwareVersion: string;
  /** Milliseconds since 1970; -1: not known. */
  readonly startedAt: number;
  /** Partitions that it leads, and of which it holds a replica. */
  readonly leaders: number;
  readonly replicas: number;
}

export interface ClusterDescription {
  readonly clusterId: string;
  /** -1: none now. */
  readonly controllerId: number;
  readonly nodes: readonly NodeDescription[];
  readonly topics: number;
  readonly partitions: number;
  /** Without a leader. */
  readonly offlinePartitions: number;
  readonly underReplicatedPartitions: number;
  /** They take no writes. */
  readonly underMinInSyncPartitions: number;
  readonly damagedPartitions: number;
}

export interface Admin extends GroupAdmin {
  createTopic(spec: TopicSpec): Promise<TopicDescription>;
  listTopics(): Promise<readonly TopicDescription[]>;
  describeTopic(name: string): Promise<TopicDescription>;
  /** More partitions move keys to other partitions: needs `confirmKeyMove: true`. A config value of null resets to the default. */
  alterTopic(
    name: string,
    change: {
      readonly partitions?: number;
      readonly confirmKeyMove?: boolean;
      readonly config?: Readonly<Record<string, string | null>>;
    },
  ): Promise<TopicDescription>;
  deleteTopic(name: string): Promise<void>;
  /** 'latest' is the high watermark: the offset that the next committed record gets. By time: the first record at or after it, else the end. */
  listOffsets(
    topic: string,
    at: 'earliest' | 'latest' | Date | { readonly timestamp: number },
  ): Promise<readonly PartitionOffset[]>;
  clusterStatus(): Promise<ClusterDescription>;
}

export type Connect = (options?: ConnectOptions) => Promise<Client>;
export type ConnectWith = (ports: ClientPorts, options?: ConnectOptions) => Promise<Client>;
