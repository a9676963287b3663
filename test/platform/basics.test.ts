import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32cTable } from '../../src/base/checksum.ts';
import { crc32c, loadCrc32c, loadInstalled, setModuleLoader } from '../../src/platform/checksum.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { systemRandom } from '../../src/platform/random.ts';

describe('crc32c', () => {
  it('equals the plain one, continued at any point', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 3000 }), fc.nat(), (bytes, cut) => {
        const at = bytes.length === 0 ? 0 : cut % bytes.length;
        expect(crc32c(bytes)).toBe(crc32cTable(bytes));
        expect(crc32c(bytes.subarray(at), crc32c(bytes.subarray(0, at)))).toBe(crc32cTable(bytes));
      }),
    );
  });

  it('is the native one here, and the plain one where that cannot load or is wrong', () => {
    expect(loadCrc32c()).not.toBe(crc32cTable);
    expect(
      loadCrc32c(() => {
        throw new Error('no such module');
      }),
    ).toBe(crc32cTable);
    expect(loadCrc32c(() => ({}))).toBe(crc32cTable);
    expect(loadCrc32c(() => ({ crc32c: () => 7 }))).toBe(crc32cTable);
  });
});

describe('setModuleLoader', () => {
  it('says where native packages come from, from then on', () => {
    const asked: string[] = [];
    const before = loadInstalled;
    setModuleLoader((name) => {
      asked.push(name);
      return { crc32c: crc32cTable };
    });
    expect(crc32c(new Uint8Array([1, 2, 3]))).toBe(crc32cTable(new Uint8Array([1, 2, 3])));
    expect(before('lz4-napi')).toHaveProperty('crc32c');
    expect(asked).toEqual(['@node-rs/crc32', 'lz4-napi']);
  });
});

describe('systemRandom', () => {
  it('below stays below, for all sizes of range', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), (below) => {
        const value = systemRandom.below(below);
        expect(Number.isSafeInteger(value) && value >= 0 && value < below).toBe(true);
      }),
    );
    expect(new Set(Array.from({ length: 200 }, () => systemRandom.below(3)))).toEqual(new Set([0, 1, 2]));
    expect(() => systemRandom.below(0)).toThrow('random below 0');
  });

  it('bytes own their buffer', () => {
    const bytes = systemRandom.bytes(16);
    expect(bytes.buffer.byteLength).toBe(16);
    expect(Buffer.compare(bytes, systemRandom.bytes(16))).not.toBe(0);
  });
});

describe('systemClock', () => {
  it('fires timers in the order of their delays, not before them, and not once cancelled', async () => {
    const clock = systemClock();
    const start = clock.bootMs();
    const fired: string[] = [];
    let early = false;
    clock.setTimer(1, () => fired.push('cancelled'))();
    await new Promise<void>((resolve) => {
      clock.setTimer(12, () => {
        fired.push('second');
        early = clock.bootMs() - start < 12;
        resolve();
      });
      clock.setTimer(3, () => fired.push('first'));
      // A delay that overflows Node's timers would fire at once.
      const cancel = clock.setTimer(2 ** 40, () => fired.push('far'));
      clock.setTimer(11, cancel);
    });
    expect(fired).toEqual(['first', 'second']);
    expect(early).toBe(false);
  });

  it('uses the reading that it is given', () => {
    let reading = 5;
    const clock = systemClock(() => reading);
    expect(clock.bootMs()).toBe(5);
    reading = 9;
    expect(clock.bootMs()).toBe(9);
  });
});
