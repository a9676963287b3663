// What a log reports about itself. One set per store: the numbers are sums over its logs.
import type { Counter, Histogram, Telemetry } from '../ports/telemetry.ts';

export interface LogMetrics {
  readonly appendBytes: Counter;
  readonly slowWrites: Counter;
  readonly syncSeconds: Histogram;
  readonly groupCommitBatches: Histogram;
  readonly rolls: Counter;
  readonly recoveries: Counter;
  readonly quarantinedBytes: Counter;
  readonly damagedRanges: Counter;
  readonly retainedBytes: Counter;
  readonly storageFull: Counter;
  readonly verifiedBytes: Counter;
  readonly scrubbedBytes: Counter;
  readonly indexRebuilds: Counter;
}

/** Asking twice gives the same metrics. */
export function logMetrics(telemetry: Telemetry): LogMetrics {
  return {
    appendBytes: telemetry.counter('rivulet_log_append_bytes_total', 'Bytes of batches written to logs.'),
    slowWrites: telemetry.counter(
      'rivulet_log_slow_writes_total',
      'Writes that were handed off the event loop because the disk was slow or a roll was under way.',
    ),
    syncSeconds: telemetry.histogram('rivulet_log_sync_seconds', 'Time of one fdatasync of a segment.'),
    groupCommitBatches: telemetry.histogram(
      'rivulet_log_group_commit_batches',
      'Batches made durable by one group commit.',
    ),
    rolls: telemetry.counter('rivulet_log_rolls_total', 'Segments rolled.'),
    recoveries: telemetry.counter(
      'rivulet_log_recoveries_total',
      'Logs whose tail was walked at open because the last stop was not clean.',
    ),
    quarantinedBytes: telemetry.counter(
      'rivulet_log_quarantined_bytes_total',
      'Bytes taken out of logs and kept in quarantine.',
    ),
    damagedRanges: telemetry.counter('rivulet_log_damaged_ranges_total', 'Damaged ranges found.'),
    retainedBytes: telemetry.counter(
      'rivulet_log_retention_removed_bytes_total',
      'Bytes removed at the head by retention.',
    ),
    storageFull: telemetry.counter('rivulet_log_storage_full_total', 'Appends refused because the disk had no room.'),
    verifiedBytes: telemetry.counter(
      'rivulet_log_verified_bytes_total',
      'Bytes whose checksums were checked before they were served.',
    ),
    scrubbedBytes: telemetry.counter(
      'rivulet_log_scrubbed_bytes_total',
      'Bytes of sealed segments compared with their seals.',
    ),
    indexRebuilds: telemetry.counter('rivulet_log_index_rebuilds_total', 'Index files rebuilt from the log.'),
  };
}
