import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { crc32cTable } from '../../src/base/checksum.ts';
import { combineCrc32c } from '../../src/segtool/crc-combine.ts';

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
