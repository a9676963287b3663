// What a log is told: its policies, and the ports it works over.
import type { Crc32c } from '../base/checksum.ts';
import type { FatalReason } from '../base/fatal.ts';
import { INDEX_INTERVAL_BYTES_DEFAULT, SEGMENT_BYTES_DEFAULT } from '../base/limits.ts';
import type { Clock } from '../ports/clock.ts';
import type { Disk } from '../ports/disk.ts';
import type { Random } from '../ports/random.ts';
import type { Telemetry } from '../ports/telemetry.ts';

export type FsyncPolicy = 'always' | 'interval' | 'never';
export type Preallocation = 'recycle' | 'zero' | 'fallocate' | 'none';

export interface LogConfig {
  readonly fsync: FsyncPolicy;
  /** `interval` only: the most that a power loss costs. */
  readonly fsyncIntervalMs: number;
  /** A group commit starts at once, without lingering, when this much waits for it. */
  readonly groupCommitMaxBytes: number;
  /** How long a first batch waits for company before the fdatasync starts; 0: not at all. */
  readonly groupCommitLingerMs: number;
  readonly segmentBytes: number;
  readonly indexIntervalBytes: number;
  readonly preallocate: Preallocation;
  /** -1: no limit. */
  readonly retentionMs: number;
  /** -1: no limit. */
  readonly retentionBytes: number;
  /** Mappings of sealed segments kept when nobody reads them. */
  readonly mappedSegmentsMax: number;
  /** Appends beyond this much unsynced data wait (`room`); beyond twice as much they are refused. */
  readonly unsyncedBytesMax: number;
}

/**
 * `recycle` by bench/storage-append.ts on ext4 (16 KiB batches, 8 MiB segments, medians of 5 interleaved rounds, in MiB/s):
 * always: none 13, fallocate 19, zero 21, recycle 33; never: none 88, fallocate 84, zero 69, recycle 137. Until something
 * is retired, recycling zero-fills the next segment under `always`, which writes every block twice, and reserves it under
 * the other policies (1 KiB records, never: 354,000/s against 256,000/s zero-filled).
 */
export const LOG_CONFIG_DEFAULT: LogConfig = {
  fsync: 'always',
  fsyncIntervalMs: 1000,
  groupCommitMaxBytes: 1024 * 1024,
  groupCommitLingerMs: 0,
  segmentBytes: SEGMENT_BYTES_DEFAULT,
  indexIntervalBytes: INDEX_INTERVAL_BYTES_DEFAULT,
  preallocate: 'recycle',
  retentionMs: -1,
  retentionBytes: -1,
  mappedSegmentsMax: 64,
  unsyncedBytesMax: 64 * 1024 * 1024,
};

export interface StorageDeps {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly random: Random;
  readonly crc32c: Crc32c;
  readonly telemetry: Telemetry;
  /** Called once when the storage has failed: no answer may leave after it. Ends the process, or throws in a test. */
  readonly fatal: (reason: FatalReason, detail: string, cause: unknown) => never;
}
