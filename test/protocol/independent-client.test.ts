// The client that was written from docs/PROTOCOL.md alone must agree with our codecs, checksums, hash and batch format.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { utf8Encode } from '../../src/base/bytes.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { keyPartition, murmur2 } from '../../src/client/murmur2.ts';
import { encodeBatch } from '../../src/format/records.ts';
import { OPERATIONS } from '../../src/protocol/operations.ts';
import { MURMUR2_KEYS } from '../golden/protocol/make-docs.ts';
import { OneTopicBroker } from './one-topic-broker.ts';

const script = fileURLToPath(new URL('independent_client.py', import.meta.url));

async function python(...parameters: string[]): Promise<{ status: number; told: Record<string, unknown> }> {
  return await new Promise((resolve, reject) => {
    execFile('python3', [script, ...parameters], { timeout: 60_000 }, (error, stdout, stderr) => {
      const status = error === null ? 0 : error.code;
      if (typeof status !== 'number') reject(error ?? new Error(stderr));
      else resolve({ status, told: JSON.parse(stdout) as Record<string, unknown> });
    });
  });
}

describe('independent_client.py', () => {
  test('agrees on checksum, hash, partition and batch bytes', async () => {
    const records = [
      { timestamp: 1_700_000_000_000, key: utf8Encode('k1'), value: utf8Encode('v1') },
      {
        timestamp: 1_700_000_000_005,
        key: null,
        value: utf8Encode(''),
        headers: [
          { key: 'event-id', value: utf8Encode('e-2') },
          { key: 'none', value: null },
        ],
      },
    ];
    const batch = encodeBatch({ records, producerId: 4711, producerEpoch: 3, baseSequence: 0 }, crc32cTable);
    const perKey = (of: (bytes: Uint8Array) => number): Record<string, number> =>
      Object.fromEntries(MURMUR2_KEYS.map((key) => [key, of(utf8Encode(key))]));
    expect((await python('--vectors')).told).toEqual({
      crc32c: crc32cTable(utf8Encode('123456789')).toString(16),
      batch: Buffer.from(batch).toString('hex'),
      murmur2: perKey(murmur2),
      partition10: perKey((bytes) => keyPartition(bytes, 10)),
    });
  });

  test('the hash agrees with the published vectors of the default partitioner', () => {
    const published = {
      '21': -973_932_308,
      foobar: -790_332_482,
      'a-little-bit-long-string': -985_981_536,
      'a-little-bit-longer-string': -1_486_304_829,
      abc: 479_470_107,
    };
    for (const [key, hash] of Object.entries(published)) expect(murmur2(utf8Encode(key))).toBe(hash);
  });

  test('holds a conversation: hello, refusal, create, metadata, produce, repeat, list, fetch', async () => {
    const broker = await OneTopicBroker.listen();
    try {
      const { status, told } = await python(`127.0.0.1:${String(broker.port)}`, 'weather');
      expect(told).not.toHaveProperty('error');
      expect(status).toBe(0);
      expect(broker.refusals).toEqual([]);
      expect(told['unsupported']).toEqual({
        code: 3,
        spoken: OPERATIONS.map(({ operation, min, max }) => `${String(operation)}:${String(min)}-${String(max)}`).join(
          ' ',
        ),
      });
      expect(told['produced']).toMatchObject({ baseOffset: 0, lastOffset: 1, leaderEpoch: 5, duplicate: false });
      expect(told['repeated']).toMatchObject({ baseOffset: 0, lastOffset: 1, duplicate: true });
      expect(told['latest']).toBe(2);
      expect(told['fetched']).toEqual([
        { offset: 0, timestamp: 1_700_000_000_000, key: 'k1', value: 'v1', headers: [] },
        {
          offset: 1,
          timestamp: 1_700_000_000_005,
          key: null,
          value: '',
          headers: [
            ['event-id', 'e-2'],
            ['none', null],
          ],
        },
      ]);
    } finally {
      await broker.close();
    }
  });
});
