// The values that go in and out of a log: what an append or a read answers, and what recovery found.
import type { Offset, Position, TimestampMs } from '../base/brands.ts';
import type { BatchHeader } from '../format/batch.ts';
import type { MappedSlice } from '../ports/disk.ts';

/** One batch inside the bytes given to `append`: `checkBatch` has accepted it. `at` is where it starts in those bytes. */
export interface CheckedBatch {
  readonly at: number;
  readonly size: number;
  readonly header: BatchHeader;
}

/** [from, to) */
export interface OffsetRange {
  readonly from: Offset;
  readonly to: Offset;
}

export type { EpochEntry } from '../format/epochs.ts';

export type AppendResult =
  | {
      readonly ok: true;
      readonly baseOffset: Offset;
      readonly lastOffset: Offset;
      /**
       * The disk is slow: the bytes were copied and will be written off the loop; resolves once the kernel has them
       * (`writtenOffset` says the same). Absent: written already. Never rejects; never resolves when the storage failed.
       */
      readonly whenWritten?: Promise<void>;
      /** Too much is unsynced: accept no more from whoever sends this until it resolves. */
      readonly room?: Promise<void>;
    }
  /** STORAGE_FULL: the disk has no room. THROTTLED: more than twice `unsyncedBytesMax` waits. STORAGE_FAILED: closed or failed. */
  | { readonly ok: false; readonly code: 'STORAGE_FULL' | 'THROTTLED' | 'STORAGE_FAILED' };

export type ReadResult =
  /** Whole batches, the first one holding `from` (it may start before it) and whole even over `maxBytes`; release each slice. */
  | {
      readonly kind: 'slices';
      readonly slices: readonly MappedSlice[];
      readonly nextOffset: Offset;
      readonly bytes: number;
    }
  /** `from` is the end of what may be read. */
  | { readonly kind: 'empty' }
  /** Not in memory, or not verified yet: await `prepare` with the same arguments, then read again. */
  | { readonly kind: 'cold' }
  /** `from` is below the log start. */
  | { readonly kind: 'expired'; readonly logStart: Offset; readonly logEnd: Offset }
  /** `from` is above the end of the log. */
  | { readonly kind: 'beyond'; readonly logEnd: Offset }
  /** `from` lies in a damaged range; the next good record is at `to`. */
  | { readonly kind: 'damaged'; readonly from: Offset; readonly to: Offset };

/** What opening a log found and did. */
export interface RecoveryReport {
  /** clean: nothing was read. tail: the log was walked from the recovery point. created: there was nothing. */
  readonly kind: 'created' | 'clean' | 'tail';
  readonly recoveryPoint: Offset;
  readonly bytesScanned: number;
  /** Bytes cut off the tail and copied to quarantine. */
  readonly bytesQuarantined: number;
  /** Why the tail was cut; undefined: it was not. */
  readonly cutReason: string | undefined;
  /** Valid batches lay behind a bad one above the recovery point: write-back left a hole. */
  readonly tailHole: boolean;
  /** Neither slot of the checkpoint could be read. */
  readonly checkpointLost: boolean;
  readonly damaged: readonly OffsetRange[];
}

/** Where an offset stands in the log. */
export interface LogPlace {
  /** Bytes of batches from the one that holds the offset to the end. */
  readonly bytesToEnd: number;
  /** Of the first record of that batch; -1: nothing is there yet. */
  readonly timestamp: TimestampMs;
  /** Until retention by time may remove it; undefined: there is no such retention, or nothing is there yet. */
  readonly retainedForMs: number | undefined;
  /** What may still be appended until retention by size may remove it. */
  readonly retainedForBytes: number | undefined;
}

export interface TimestampLookup {
  /** The first record of the first batch whose largest timestamp is at least the one asked for; the client looks inside. */
  readonly offset: Offset;
  readonly timestamp: TimestampMs;
}

/** One batch seen by `scanHeaders`: where it lies and what its header says. */
export type HeaderVisit = (header: BatchHeader, at: { readonly segment: Offset; readonly position: Position }) => void;
