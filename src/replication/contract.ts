// What the broker builds on: the metadata log and the replicas of partitions, and the values that go in and out of them.
import type { LeaderEpoch, NodeId, Offset, TimestampMs, TopicId } from '../base/brands.ts';
import type { ErrorName } from '../base/errors.ts';
import type { EntryOutcome } from '../core/metadata/apply.ts';
import type { MetadataEntry } from '../core/metadata/entry.ts';
import type { MetadataView, PartitionState, TopicState } from '../core/metadata/image.ts';
import type { MappedSlice } from '../ports/disk.ts';
import type { CheckedBatch, LogPlace } from '../storage/contract.ts';

export type { EntryOutcome, EntryValue } from '../core/metadata/apply.ts';
export type { MetadataEntry } from '../core/metadata/entry.ts';
export type { MetadataView, NodeState, PartitionState, TopicState } from '../core/metadata/image.ts';
export type { CheckedBatch, LogPlace } from '../storage/contract.ts';

/** One entry that was applied, with its outcome. */
export interface AppliedEntry {
  readonly index: number;
  readonly entry: MetadataEntry;
  readonly outcome: EntryOutcome;
  /** Topics whose state changed. */
  readonly topics: readonly TopicId[];
}

export interface ProposeOptions {
  /** Refused with NOT_LEADER unless this node leads in that very term. */
  readonly term?: number;
}

export interface MetadataLog {
  /**
   * Resolves with the outcome once the entry is durable and applied; serial, in the order of the calls. Rejected outcomes:
   * those of the entry, TOO_MANY_REQUESTS (bounded queue), NOT_LEADER, STORAGE_FULL, SHUTTING_DOWN. Unknown:
   * LEADERSHIP_LOST. Never rejects; stays pending when the storage has failed (the process ends).
   */
  propose(entry: MetadataEntry, options?: ProposeOptions): Promise<EntryOutcome>;
  /** What is applied now. The maps change with the next entry; the objects in them never do. */
  image(): MetadataView;
  /** Index of the last applied entry; -1: none. */
  readonly appliedIndex: number;
  /** Called for each applied entry after the image has it, before its proposer is told. Returns the unsubscription. */
  onApplied(listener: (applied: AppliedEntry) => void): () => void;
  /** Called when the whole image was replaced by a snapshot: entries in between are never seen here. */
  onReplaced(listener: () => void): () => void;
  /** Called when `leader` has changed, or this node begins or ends to have a say as leader. */
  onLeader(listener: () => void): () => void;
  /** This node leads, has applied everything before its term, and surely no other node leads now: its image is the newest. */
  hasLease(): boolean;
  /** Who takes proposals now, and in which term. */
  readonly leader: { readonly nodeId: NodeId; readonly term: number } | undefined;
  /** True when the store of the applied image is out of use after a failure; answers do not depend on it. */
  readonly storeDisabled: boolean;
  /** Waits for what was proposed, and for the store to have caught up. The log itself is closed by the data directory's owner. */
  close(): Promise<void>;
}

export type Acks = 'leader' | 'committed';

export type ProduceOutcome =
  | {
      readonly ok: true;
      readonly baseOffset: Offset;
      readonly lastOffset: Offset;
      readonly leaderEpoch: LeaderEpoch;
      readonly logStartOffset: Offset;
      /** The batches were in the log already, at these offsets. */
      readonly duplicate: boolean;
    }
  | ProduceFailure;

export interface ProduceFailure {
  readonly ok: false;
  readonly code: ErrorName;
  readonly message: string | undefined;
  /** COMMIT_TIMEOUT, LEADERSHIP_LOST: where the batches were appended. */
  readonly baseOffset?: Offset;
  readonly lastOffset?: Offset;
  /** OUT_OF_ORDER_SEQUENCE, UNKNOWN_PRODUCER. */
  readonly expectedSequence?: number;
  /** PRODUCER_FENCED. */
  readonly producerEpoch?: number;
  /** NOT_LEADER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH: as this node knows it. */
  readonly leader?: number;
  readonly leaderEpoch?: LeaderEpoch;
}

export interface ProduceCall {
  /** Copied or written before `produce` returns: the memory may be reused at once. Stamped in place. */
  readonly bytes: Uint8Array;
  /** They cover `bytes` without gaps; `checkBatch` has accepted each. All are appended or none. */
  readonly batches: readonly CheckedBatch[];
  readonly acks: Acks;
  /** For 'committed': after this COMMIT_TIMEOUT, at the resolution of the owner's ticker. */
  readonly timeoutMs: number;
  /** Epoch that the client knows; -1: any. */
  readonly leaderEpoch: number;
  /** Exactly once, during the call or later; never when the storage has failed. */
  readonly done: (outcome: ProduceOutcome) => void;
}

export type FetchOutcome =
  /** Whole batches from the one that holds the offset on; release each slice. */
  | {
      readonly kind: 'slices';
      readonly slices: readonly MappedSlice[];
      readonly bytes: number;
      readonly nextOffset: Offset;
    }
  /** At the high watermark: wait with `onAdvance`. */
  | { readonly kind: 'empty' }
  /** Await `prepare` with the same offset and bytes, then ask again. */
  | { readonly kind: 'cold' }
  | FetchFailure;

export interface FetchFailure {
  readonly kind: 'failed';
  readonly code: ErrorName;
  /** DAMAGED_RANGE: the damage is [damagedFrom, resumeOffset). LOG_TRUNCATED: where the logs part. Else undefined. */
  readonly resumeOffset?: Offset;
  readonly damagedFrom?: Offset;
  /** LOG_TRUNCATED: the last epoch that both logs share; -1: none that is retained. */
  readonly resumeEpoch?: LeaderEpoch;
  readonly leader?: number;
}

export interface FetchCall {
  readonly offset: Offset;
  readonly maxBytes: number;
  /** Epoch of the batch read before `offset`; -1: none. */
  readonly lastFetchedEpoch: number;
  /** Epoch that the client knows; -1: any. */
  readonly currentLeaderEpoch: number;
}

export type OffsetAt = 'earliest' | 'latest' | TimestampMs;
export type OffsetOutcome =
  /** `timestamp` -1: not asked by time, or no record is as young (then the offset is the high watermark). */
  | { readonly ok: true; readonly offset: Offset; readonly timestamp: TimestampMs; readonly leaderEpoch: LeaderEpoch }
  | { readonly ok: false; readonly code: ErrorName; readonly leader?: number };

/** One partition on this node. */
export interface Replica {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly state: PartitionState;
  readonly isLeader: boolean;
  readonly leaderEpoch: LeaderEpoch;
  readonly logStartOffset: Offset;
  readonly logEndOffset: Offset;
  readonly syncedOffset: Offset;
  readonly highWatermark: Offset;
  readonly sizeInBytes: number;
  readonly maxBatchBytes: number;
  /** Milliseconds since the oldest append that is not committed, at the last tick; 0: none. */
  readonly oldestUncommittedMs: number;
  readonly pendingProduces: number;
  readonly damaged: readonly { readonly from: Offset; readonly to: Offset }[];
  /** `room`: too much is unsynced; read no more from whoever sends this until it resolves. */
  produce(call: ProduceCall): { readonly room: Promise<void> | undefined };
  fetch(call: FetchCall): FetchOutcome;
  prepare(offset: Offset, maxBytes: number): Promise<void>;
  listOffset(at: OffsetAt, currentLeaderEpoch: number): Promise<OffsetOutcome>;
  /** For how far behind a reader is: by positional reads, off the hot path. */
  placeOf(offset: Offset): Promise<LogPlace>;
  /** Called when the high watermark has moved, or the replica has closed or lost leadership: fetch again. Undefined: too many. */
  onAdvance(listener: () => void): (() => void) | undefined;
}

export type FoundReplica =
  | { readonly ok: true; readonly replica: Replica }
  /** UNKNOWN_TOPIC, UNKNOWN_PARTITION, NOT_LEADER (held by other nodes), PARTITION_OFFLINE (being opened). */
  | { readonly ok: false; readonly code: ErrorName; readonly leader?: number };

export interface Replicas {
  find(topicId: TopicId, partition: number): FoundReplica;
  /** Resolves when the partitions of the topic that belong to this node are open, or the topic is gone. */
  whenReady(topicId: TopicId): Promise<void>;
  all(): Iterable<Replica>;
  /** Topics that metadata knows. */
  topic(topicId: TopicId): TopicState | undefined;
  /** The one coarse ticker, some 20 times a second: timeouts of produces, and retention now and then. */
  tick(): void;
  /** Refuses new work, then waits for background work. The logs themselves are closed by the data directory's owner. */
  close(): Promise<void>;
}
