// One partition's log: the facade over segments, the committer and the reader.
import type { LeaderEpoch, Offset } from '../base/brands.ts';
import type { LogConfig, StorageDeps } from './config.ts';
import type {
  AppendResult,
  CheckedBatch,
  EpochEntry,
  HeaderVisit,
  OffsetRange,
  ReadResult,
  RecoveryReport,
  TimestampLookup,
} from './contract.ts';

export interface OpenHow {
  /** The store was stopped cleanly: the checkpoint is the truth. */
  readonly clean: boolean;
  /** Make the directory when it does not exist. */
  readonly create: boolean;
}

/** Kept beside the segment that starts at `offset`, written at roll: the owner's producer state of everything below it. */
export interface OwnerSnapshot {
  readonly offset: Offset;
  readonly bytes: Uint8Array;
}

export declare class PartitionLog {
  static open(deps: StorageDeps, directory: string, config: LogConfig, how: OpenHow): Promise<PartitionLog>;
  readonly directory: string;
  readonly recovery: RecoveryReport;
  /** Called after each advance of the synced offset and, for `interval` and `never`, of the written offset. One listener. */
  onAdvance: (() => void) | undefined;
  /** Called at each roll; what it returns is kept beside the new segment (CRC-checked) and given back by `latestSnapshot`. */
  onRoll: ((nextBaseOffset: Offset) => Uint8Array | undefined) | undefined;
  get logStartOffset(): Offset;
  /** The offset the next append gets. */
  get logEndOffset(): Offset;
  /** The kernel has everything below. Equal to `logEndOffset` unless the disk is slow. */
  get writtenOffset(): Offset;
  /** Everything below is durable. */
  get syncedOffset(): Offset;
  get damaged(): readonly OffsetRange[];
  /** Ascending; each epoch starts where the next ends the one before. */
  get epochs(): readonly EpochEntry[];
  get config(): LogConfig;
  get sizeInBytes(): number;
  /** As the leader: stamps base offset and epoch into `bytes`, which the batches cover without gaps. */
  append(bytes: Uint8Array, batches: readonly CheckedBatch[], epoch: LeaderEpoch): AppendResult;
  /** As a follower: offsets and epochs stay; the first batch must start at `logEndOffset`. */
  appendReplicated(bytes: Uint8Array, batches: readonly CheckedBatch[]): AppendResult;
  /** All that was appended before the call is durable when it resolves. */
  sync(): Promise<void>;
  read(from: Offset, maxBytes: number, upTo: Offset): ReadResult;
  prepare(from: Offset, maxBytes: number): Promise<void>;
  offsetForTimestamp(timestamp: number): Promise<TimestampLookup | undefined>;
  /** Where the epoch ended in this log: the start of the next greater one, or the log end. Undefined: older than the log. */
  epochEndOffset(epoch: LeaderEpoch): { readonly epoch: LeaderEpoch; readonly endOffset: Offset } | undefined;
  /** Walks verified batch headers from the batch that holds `from`, in slices that do not hold the loop. */
  scanHeaders(from: Offset, visit: HeaderVisit): Promise<void>;
  /** The newest owner snapshot at or below the log end that is intact. */
  latestSnapshot(): Promise<OwnerSnapshot | undefined>;
  roll(): Promise<void>;
  /** Removes [offset, end) into quarantine. Never below the log start. */
  truncateTo(offset: Offset): Promise<void>;
  /** Removes whole segments at the head by time and size. */
  retain(nowMs: number): Promise<void>;
  /** Moves the log start; segments wholly below it go. */
  deleteTo(offset: Offset): Promise<void>;
  /** Recorded in the checkpoint, as a lower bound for the next start. */
  setHighWatermark(offset: Offset): void;
  get checkpointedHighWatermark(): Offset;
  updateConfig(config: LogConfig): void;
  /** Verifies sealed segments against their seals, once through, at a bounded rate. */
  scrubOnce(budgetBytesPerSecond: number): Promise<{ readonly bytes: number; readonly damaged: readonly OffsetRange[] }>;
  close(how: { readonly clean: boolean }): Promise<void>;
}
