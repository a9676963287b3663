import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  TOPIC_CONFIG,
  TOPIC_CONFIG_KEYS,
  checkTopicConfig,
  defaultTopicConfig,
  isTopicConfigKey,
  parseTopicConfig,
} from '../../src/protocol/topic-config.ts';

describe('parseTopicConfig', () => {
  test.each(TOPIC_CONFIG_KEYS)('%s takes exactly its range', (key) => {
    const { min, max, unlimited } = TOPIC_CONFIG[key];
    expect(parseTopicConfig(key, String(min))).toEqual({ ok: true, value: min });
    expect(parseTopicConfig(key, String(max))).toEqual({ ok: true, value: max });
    expect(parseTopicConfig(key, String(min - 1)).ok).toBe(unlimited && min === 0);
    expect(parseTopicConfig(key, '-1').ok).toBe(unlimited);
    expect(parseTopicConfig(key, '-2').ok).toBe(false);
    if (max < Number.MAX_SAFE_INTEGER) expect(parseTopicConfig(key, String(max + 1)).ok).toBe(false);
  });

  test('refuses what is no whole number, and says which setting', () => {
    for (const text of [
      '',
      ' 1',
      '1 ',
      '1.5',
      '1e9',
      '0x10',
      '1_000',
      'max',
      '+5',
      '--1',
      '9007199254740993',
      '99999999999999999',
      '١',
    ]) {
      const parsed = parseTopicConfig('retention.ms', text);
      expect(parsed.ok, text).toBe(false);
      expect(parsed.ok ? '' : parsed.message).toContain('retention.ms');
    }
  });

  test('refuses unknown keys, names of the language included, and lists the known ones', () => {
    for (const key of ['', 'retention', 'RETENTION.MS', 'constructor', '__proto__', 'toString']) {
      expect(isTopicConfigKey(key)).toBe(false);
      const parsed = parseTopicConfig(key, '1');
      expect(parsed.ok ? '' : parsed.message).toContain('segment.bytes');
    }
  });

  test('every accepted value comes back as the same text', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...TOPIC_CONFIG_KEYS),
        fc.oneof(fc.maxSafeInteger(), fc.integer({ min: -5, max: 5_000_000 })),
        (key, value) => {
          const parsed = parseTopicConfig(key, String(value));
          if (parsed.ok) expect(parsed.value).toBe(value);
        },
      ),
    );
  });
});

describe('checkTopicConfig', () => {
  test('gives the defaults of the registry, a majority as min.insync.replicas', () => {
    const checked = checkTopicConfig([], 3);
    expect(checked).toEqual({
      ok: true,
      settings: {
        retentionMs: 604_800_000,
        retentionBytes: -1,
        segmentBytes: 67_108_864,
        minInsyncReplicas: 2,
        maxBatchBytes: 9_437_184,
        producerExpiryMs: 604_800_000,
      },
    });
    expect([1, 2, 3, 4, 5].map((replicas) => defaultTopicConfig('min.insync.replicas', replicas))).toEqual([
      1, 2, 2, 3, 3,
    ]);
  });

  test('the topic wins over the broker, the broker over the registry', () => {
    const checked = checkTopicConfig([{ key: 'retention.ms', value: '5' }], 1, {
      'retention.ms': 7,
      'segment.bytes': 2048,
    });
    expect(checked).toMatchObject({ ok: true, settings: { retentionMs: 5, segmentBytes: 2048, retentionBytes: -1 } });
  });

  test('refuses a key given twice, a bad value, an unknown key, and more in-sync replicas than replicas', () => {
    const twice = [
      { key: 'retention.ms', value: '5' },
      { key: 'retention.ms', value: '5' },
    ];
    expect(checkTopicConfig(twice, 1)).toMatchObject({ ok: false, key: 'retention.ms' });
    expect(checkTopicConfig([{ key: 'segment.bytes', value: '1' }], 1)).toMatchObject({
      ok: false,
      key: 'segment.bytes',
    });
    expect(checkTopicConfig([{ key: 'cleanup.policy', value: 'compact' }], 1)).toMatchObject({
      ok: false,
      key: 'cleanup.policy',
    });
    expect(checkTopicConfig([{ key: 'min.insync.replicas', value: '2' }], 1)).toMatchObject({
      ok: false,
      key: 'min.insync.replicas',
    });
    expect(checkTopicConfig([{ key: 'min.insync.replicas', value: '2' }], 2)).toMatchObject({
      ok: true,
      settings: { minInsyncReplicas: 2 },
    });
  });

  test('a default of the broker for larger topics never asks for more replicas than there are', () => {
    expect(checkTopicConfig([], 1, { 'min.insync.replicas': 2 })).toMatchObject({
      ok: true,
      settings: { minInsyncReplicas: 1 },
    });
  });
});
