// The settings of a topic: the one registry that the broker checks by, and that the documentation is generated from.
import { BATCH_BYTES_MAX, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN } from '../base/limits.ts';

export interface TopicSettings {
  /** −1: no limit. */
  readonly retentionMs: number;
  /** Of each partition; −1: no limit. */
  readonly retentionBytes: number;
  readonly segmentBytes: number;
  readonly minInsyncReplicas: number;
  readonly maxBatchBytes: number;
  readonly producerExpiryMs: number;
}

export type TopicConfigKey =
  | 'retention.ms'
  | 'retention.bytes'
  | 'segment.bytes'
  | 'min.insync.replicas'
  | 'max.batch.bytes'
  | 'producer.expiry.ms';

export interface TopicConfigEntry {
  readonly key: TopicConfigKey;
  /** In decimal digits on the wire. */
  readonly unit: 'milliseconds' | 'bytes' | 'replicas';
  /** Undefined: it follows from the number of replicas; see `defaultTopicConfig`. */
  readonly defaultValue: number | undefined;
  readonly min: number;
  readonly max: number;
  /** −1 is allowed beside the range and means no limit. */
  readonly unlimited: boolean;
  readonly sentence: string;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const WEEK_MS = 7 * DAY_MS;
const SAFE_MAX = Number.MAX_SAFE_INTEGER;

const entries: Readonly<Record<TopicConfigKey, Omit<TopicConfigEntry, 'key'>>> = {
  'retention.ms': {
    unit: 'milliseconds',
    defaultValue: WEEK_MS,
    min: 1,
    max: SAFE_MAX,
    unlimited: true,
    sentence:
      'Records older than this are removed, a whole segment at a time, by the largest timestamp of the segment.',
  },
  'retention.bytes': {
    unit: 'bytes',
    defaultValue: -1,
    min: 0,
    max: SAFE_MAX,
    unlimited: true,
    sentence: 'Per partition: the oldest segments are removed while the others still hold this much.',
  },
  'segment.bytes': {
    unit: 'bytes',
    defaultValue: SEGMENT_BYTES_DEFAULT,
    min: SEGMENT_BYTES_MIN,
    max: SEGMENT_BYTES_MAX,
    unlimited: false,
    sentence: 'Size at which a segment is closed and the next one begun; the unit of retention.',
  },
  'min.insync.replicas': {
    unit: 'replicas',
    defaultValue: undefined,
    min: 1,
    max: 32,
    unlimited: false,
    sentence:
      'Writes are refused with NOT_ENOUGH_REPLICAS while the in-sync set is smaller. At most the number of replicas.',
  },
  'max.batch.bytes': {
    unit: 'bytes',
    defaultValue: BATCH_BYTES_MAX,
    min: 1024,
    max: BATCH_BYTES_MAX,
    unlimited: false,
    sentence: 'Largest record batch as stored, header included; a larger one is refused with BATCH_TOO_LARGE.',
  },
  'producer.expiry.ms': {
    unit: 'milliseconds',
    defaultValue: WEEK_MS,
    min: 60_000,
    max: SAFE_MAX,
    unlimited: false,
    sentence: 'How long the sequences of a producer are remembered after its last batch.',
  },
};

export const TOPIC_CONFIG_KEYS: readonly TopicConfigKey[] = Object.keys(entries) as TopicConfigKey[];
export const TOPIC_CONFIG: Readonly<Record<TopicConfigKey, TopicConfigEntry>> = Object.fromEntries(
  TOPIC_CONFIG_KEYS.map((key) => [key, { key, ...entries[key] }]),
) as Record<TopicConfigKey, TopicConfigEntry>;

export function isTopicConfigKey(key: string): key is TopicConfigKey {
  return Object.hasOwn(entries, key);
}

/** Of a topic with so many replicas, where the topic and the broker's flags say nothing. */
export function defaultTopicConfig(key: TopicConfigKey, replicas: number): number {
  // A majority: then any two sets that took a write share a replica.
  return entries[key].defaultValue ?? Math.floor(replicas / 2) + 1;
}

export type ParsedConfig =
  | { readonly ok: true; readonly value: number }
  | { readonly ok: false; readonly message: string };

/** One setting as it came over the wire or the command line. */
export function parseTopicConfig(key: string, text: string): ParsedConfig {
  if (!isTopicConfigKey(key))
    return { ok: false, message: `there is no topic setting "${key}"; there are ${TOPIC_CONFIG_KEYS.join(', ')}` };
  const { min, max, unlimited } = entries[key];
  const range = `${String(min)} to ${String(max)}${unlimited ? ', or -1 for no limit' : ''}`;
  if (!/^-?\d{1,16}$/.test(text))
    return { ok: false, message: `${key} is "${text}"; it must be a whole number from ${range}` };
  const value = Number(text);
  if (unlimited && value === -1) return { ok: true, value };
  if (!Number.isSafeInteger(value) || value < min || value > max)
    return { ok: false, message: `${key} is ${text}; it must be ${range}` };
  return { ok: true, value };
}

export type CheckedConfig =
  | { readonly ok: true; readonly settings: TopicSettings }
  /** The first fault found; its message names the setting. */
  | { readonly ok: false; readonly key: string; readonly message: string };

/**
 * The settings in effect for what a topic sets itself. `defaults` are the broker's own, where its flags differ from the
 * registry. Refuses unknown keys, bad values, a key given twice, and more in-sync replicas than replicas.
 */
export function checkTopicConfig(
  own: readonly { readonly key: string; readonly value: string }[],
  replicas: number,
  defaults: Partial<Readonly<Record<TopicConfigKey, number>>> = {},
): CheckedConfig {
  const values = new Map<TopicConfigKey, number>();
  for (const { key, value } of own) {
    const parsed = parseTopicConfig(key, value);
    if (!parsed.ok) return { ok: false, key, message: parsed.message };
    if (values.has(key as TopicConfigKey)) return { ok: false, key, message: `${key} is given twice` };
    values.set(key as TopicConfigKey, parsed.value);
  }
  const minInsync = values.get('min.insync.replicas');
  if (minInsync !== undefined && minInsync > replicas) {
    const message = `min.insync.replicas is ${String(minInsync)}, but the topic has ${String(replicas)} replicas`;
    return { ok: false, key: 'min.insync.replicas', message };
  }
  const value = (key: TopicConfigKey): number => values.get(key) ?? defaults[key] ?? defaultTopicConfig(key, replicas);
  const settings: TopicSettings = {
    retentionMs: value('retention.ms'),
    retentionBytes: value('retention.bytes'),
    segmentBytes: value('segment.bytes'),
    minInsyncReplicas: Math.min(value('min.insync.replicas'), replicas),
    maxBatchBytes: value('max.batch.bytes'),
    producerExpiryMs: value('producer.expiry.ms'),
  };
  return { ok: true, settings };
}
