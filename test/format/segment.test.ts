import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseSegmentFileName, segmentFileName } from '../../src/format/segment.ts';

describe('names of segment files', () => {
  it('are read back, and sort as their offsets do', () => {
    const offsets = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
    const suffixes = fc.constantFrom('log', 'index', 'timeindex', 'seal', 'snapshot' as const);
    fc.assert(
      fc.property(offsets, offsets, suffixes, (left, right, suffix) => {
        const name = segmentFileName(left, suffix);
        expect(parseSegmentFileName(name)).toEqual({ baseOffset: left, suffix });
        expect(name < segmentFileName(right, suffix)).toBe(left < right);
      }),
    );
  });

  it('leave every other name alone', () => {
    const others = [
      '',
      'checkpoint',
      '1.log',
      `${'0'.repeat(19)}.log`,
      `${'0'.repeat(21)}.log`,
      `${'9'.repeat(20)}.log`,
    ];
    others.push(
      `${'0'.repeat(20)}.log.tmp`,
      `${'0'.repeat(20)}.LOG`,
      `${'0'.repeat(20)}.spare`,
      `-${'0'.repeat(19)}.log`,
    );
    expect(others.map((name) => parseSegmentFileName(name))).toEqual(others.map(() => undefined));
  });
});
