// What a replica is told: the settings of its topic over the defaults of the node.
import { checkTopicConfig, type TopicConfigKey, type TopicSettings } from '../protocol/topic-config.ts';
import type { TopicState } from '../core/metadata/image.ts';
import type { LogConfig } from '../storage/config.ts';
import type { Telemetry, Counter } from '../ports/telemetry.ts';

export type TopicDefaults = Partial<Readonly<Record<TopicConfigKey, number>>>;

export function logConfigOf(node: LogConfig, settings: TopicSettings): LogConfig {
  return {
    ...node,
    segmentBytes: settings.segmentBytes,
    retentionMs: settings.retentionMs,
    retentionBytes: settings.retentionBytes,
  };
}

/**
 * Proposals were checked, so a setting that is refused here was written by another version: the topic is served, and of its
 * settings those that can be read are in force.
 */
export function settingsOf(topic: TopicState, defaults: TopicDefaults, telemetry: Telemetry): TopicSettings {
  const replicas = topic.partitions[0]?.replicas.length ?? 1;
  const own = [...topic.config].map(([key, value]) => ({ key, value }));
  for (;;) {
    const checked = checkTopicConfig(own, replicas, defaults);
    if (checked.ok) return checked.settings;
    telemetry.log('error', 'topic.setting-ignored', {
      topic: topic.name,
      setting: checked.key,
      reason: checked.message,
    });
    own.splice(
      own.findIndex(({ key }) => key === checked.key),
      1,
    );
  }
}

export interface ReplicaMetrics {
  readonly duplicates: Counter;
  readonly sequencesRejected: Counter;
  readonly producersEvicted: Counter;
  readonly producersExpired: Counter;
  readonly commitTimeouts: Counter;
}

export function replicaMetrics(telemetry: Telemetry): ReplicaMetrics {
  return {
    duplicates: telemetry.counter(
      'rivulet_duplicate_batches_total',
      'Batches that were in the log already and were answered with their first offsets.',
    ),
    sequencesRejected: telemetry.counter(
      'rivulet_sequences_rejected_total',
      'Batches refused for their producer epoch or sequence.',
    ),
    producersEvicted: telemetry.counter(
      'rivulet_producers_evicted_total',
      'Producers forgotten because a partition remembers no more of them.',
    ),
    producersExpired: telemetry.counter(
      'rivulet_producers_expired_total',
      'Producers forgotten after producer.expiry.ms without a batch.',
    ),
    commitTimeouts: telemetry.counter('rivulet_commit_timeouts_total', 'Produces answered COMMIT_TIMEOUT.'),
  };
}
