// Consumer groups as applications see them.
import type { RivuletError } from '../base/errors.ts';
import type { ConsumedRecord, PositionLost } from './api.ts';

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

/** How often a record whose handler failed is tried again before the failure policy takes over. */
export interface RetryPolicy {
  /** After the first failure. Default 5. */
  readonly retries?: number;
  /** Pause before the first retry; doubles with jitter. Default 100. */
  readonly backoffMs?: number;
  /** Default 10,000. */
  readonly backoffMaxMs?: number;
}

export type FailurePolicy =
  /** Default. The partition stops at the record, others go on; `resume` tries it again. */
  | 'pause'
  /**
   * The record goes to that topic with its coordinates and the error in headers; once it is committed there, progress passes
   * it here. When that fails the partition is paused.
   */
  | { readonly deadLetterTopic: string };

/** A record that its handler could not handle, or that could not be sent to the dead-letter topic. */
export interface PoisonEvent {
  readonly record: ConsumedRecord;
  readonly error: unknown;
  readonly attempts: number;
  readonly policy: 'paused' | 'dead-lettered';
}

export interface GroupConsumerOptions {
  readonly group: string;
  readonly topics: readonly string[];
  /** Static membership: who comes back under the same id within the session gets its partitions back, without a rebalance. */
  readonly instanceId?: string;
  /** Where to begin in a partition in which the group has committed nothing. Default 'earliest'. */
  readonly from?: 'earliest' | 'latest';
  /** Milliseconds between commits of what is done; false: only by `commit()`. Default 1,000. */
  readonly autoCommitMs?: number | false;
  /** Without a word from this member for so long its partitions go to others. Default 10,000. */
  readonly sessionTimeoutMs?: number;
  /** What it may take to finish what is in progress when partitions move. Default 30,000. */
  readonly rebalanceTimeoutMs?: number;
  /** Handlers at work at once; records with the same key in order. Default 1: all records of a partition in order. */
  readonly concurrency?: number;
  readonly retry?: RetryPolicy;
  readonly onFailure?: FailurePolicy;
  readonly maxBytes?: number;
  readonly prefetchBytes?: number;
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
  /** As for a consumer: default stop. */
  readonly onPositionLost?: (event: PositionLost) => 'stop' | 'earliest' | 'latest' | number;
  /** Partitions to be read from now on. */
  readonly onAssigned?: (partitions: readonly TopicPartition[]) => void;
  /** Finished, committed and given back. */
  readonly onRevoked?: (partitions: readonly TopicPartition[]) => void;
  /** The session has ended: others may read them already. What is in progress is not committed any more. */
  readonly onLost?: (partitions: readonly TopicPartition[]) => void;
  readonly onPoison?: (event: PoisonEvent) => void;
  /** A commit that did not work and will be tried again, or a membership that has to be begun anew. */
  readonly onError?: (error: RivuletError) => void;
}

export interface HandlerContext {
  /** Aborts when the partition was lost or the consumer is closed past its bound: stop, nothing of it is committed any more. */
  readonly signal: AbortSignal;
  /** 1 for the first time. */
  readonly attempt: number;
}
export type RecordHandler = (record: ConsumedRecord, context: HandlerContext) => Promise<void> | void;

/**
 * A member of a consumer group. Either `run` with a handler, or `for await`: there a record is done when the next one is asked
 * for. Commits advance over records that are done without a gap: what comes behind one that is not done is not committed.
 */
export interface GroupConsumer extends AsyncIterable<ConsumedRecord>, AsyncDisposable {
  /** Handles records until `close`; rejects with what ends the consumer. */
  run(handler: RecordHandler): Promise<void>;
  /** The record in hand is done although no other is asked for: before a loop is left, for one. */
  done(record: ConsumedRecord): void;
  /** Commits what is done now. Rejects with the first failure. */
  commit(): Promise<void>;
  /** Undefined before it has joined. */
  readonly memberId: string | undefined;
  /** It owns what it is to own, and reads it. */
  readonly isSettled: boolean;
  readonly assignment: readonly TopicPartition[];
  /** Stopped at a record that failed. */
  readonly paused: readonly TopicPartition[];
  /** Goes on at the record that failed. */
  resume(topic: string, partition: number): void;
  /** Everything below is done: the next offset to commit. Undefined when it is not assigned, or not known yet. */
  position(topic: string, partition: number): number | undefined;
  /** Records between what is done and the high watermark as last told; undefined: not known yet. */
  lag(topic: string, partition: number): number | undefined;
  /** Finishes what is in progress within `timeoutMs` (default: the rebalance timeout), commits, and leaves the group. */
  close(options?: { readonly timeoutMs?: number }): Promise<void>;
}

// ---- Administration ----

export interface GroupListing {
  readonly group: string;
  readonly state: 'empty' | 'stable' | 'rebalancing' | 'paused';
  readonly generation: number;
  readonly members: number;
  /** Partitions with a committed offset. */
  readonly offsets: number;
}

export interface GroupMemberDescription {
  readonly memberId: string;
  readonly instanceId: string | undefined;
  readonly clientId: string;
  readonly topics: readonly string[];
  readonly silentMs: number;
  readonly assigned: number;
  readonly releasing: number;
}

export interface GroupPartitionDescription extends TopicPartition {
  readonly memberId: string | undefined;
  /** Next offset to read; undefined: nothing is committed. */
  readonly committed: number | undefined;
  readonly committedAt: number;
  readonly metadata: string;
  readonly logStart: number | undefined;
  readonly highWatermark: number | undefined;
  readonly lagRecords: number | undefined;
  readonly lagBytes: number | undefined;
  /** Age of the next record to read; 0 when there is none. */
  readonly lagMs: number | undefined;
  /** Until retention by time may remove the next record to read; undefined: it will not, or it is not known. */
  readonly retentionMarginMs: number | undefined;
  readonly retentionMarginBytes: number | undefined;
}

export interface GroupDescription {
  readonly group: string;
  readonly state: GroupListing['state'];
  readonly generation: number;
  readonly members: readonly GroupMemberDescription[];
  readonly partitions: readonly GroupPartitionDescription[];
}

export interface ResetResult extends TopicPartition {
  readonly before: number | undefined;
  readonly after: number;
}

export interface ResetOptions {
  readonly topics?: readonly string[];
  /** Only this one, of a single topic. */
  readonly partition?: number;
  readonly to: 'earliest' | 'latest' | number | Date;
  /** With active members: stops them, resets, and lets them go on. */
  readonly pause?: boolean;
  /** What members get to stop. Default 60,000. */
  readonly timeoutMs?: number;
}

export interface GroupAdmin {
  listGroups(): Promise<readonly GroupListing[]>;
  describeGroup(group: string): Promise<GroupDescription>;
  /** Sets where the group goes on. Without `topics`: all in which it has committed something. */
  resetGroup(group: string, options: ResetOptions): Promise<readonly ResetResult[]>;
  deleteGroup(group: string): Promise<void>;
}
