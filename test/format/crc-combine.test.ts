import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { crc32cTable } from '../../src/base/checksum.ts';
import { writeBatchHeader } from '../../src/format/batch.ts';
import { combineCrc32c, crcWithBatch } from '../../src/format/crc-combine.ts';

describe('combineCrc32c', () => {
  test('it is the checksum of both pieces together', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 3000 }), (first, second) => {
        expect(combineCrc32c(crc32cTable(first), crc32cTable(second), second.length)).toBe(
          crc32cTable(second, crc32cTable(first)),
        );
      }),
    );
  });
});

describe('crcWithBatch', () => {
  test('it is the checksum of all bytes, for batches read again and for those that are not', () => {
    for (const valueBytes of [10, 8000, 20_000, 300_000]) {
      const batch = new Uint8Array(61 + valueBytes).fill(7);
      const fields = { attributes: 0, recordCount: 1, baseTimestamp: 1, maxTimestamp: 1 };
      const producer = { producerId: -1, producerEpoch: -1, baseSequence: -1 };
      writeBatchHeader(batch, 0, batch.length, { ...fields, ...producer }, crc32cTable);
      const before = Uint8Array.of(1, 2, 3);
      const bytes = new Uint8Array(5 + batch.length);
      bytes.set(batch, 5);
      expect(crcWithBatch(crc32cTable, crc32cTable(before), bytes, 5, batch.length)).toBe(
        crc32cTable(batch, crc32cTable(before)),
      );
    }
  });
});
