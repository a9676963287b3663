import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Progress } from '../../src/client/progress.ts';

describe('Progress', () => {
  test('42 unfinished keeps 44 from being committed', () => {
    const progress = new Progress(40);
    for (const offset of [40, 41, 42, 43, 44]) progress.hand(offset);
    for (const offset of [44, 43, 41, 40]) progress.finish(offset);
    expect(progress.done).toBe(42);
    expect(progress.unfinished).toBe(1);
    expect(progress.window).toBe(3);
    progress.finish(42);
    expect(progress.done).toBe(45);
    expect(progress.window).toBe(0);
  });

  test('offsets that hold no record are passed when nothing below them is open', () => {
    const progress = new Progress(0);
    progress.hand(0);
    progress.skipTo(5);
    expect(progress.done).toBe(0);
    progress.finish(0);
    expect(progress.done).toBe(5);
    progress.skipTo(9);
    expect(progress.done).toBe(9);
  });

  test('in any order: done is the first that is not finished, and never goes back', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3000 }),
        fc.nat(),
        (gaps, seed) => {
          const progress = new Progress(0);
          const offsets: number[] = [];
          let at = 0;
          for (const gap of gaps) {
            progress.skipTo(at);
            progress.hand(at);
            offsets.push(at);
            at += gap;
          }
          const order = offsets.toSorted(
            (left, right) => ((left * 7919 + seed) % 1009) - ((right * 7919 + seed) % 1009),
          );
          const finished = new Set<number>();
          for (const offset of order) {
            const before = progress.done;
            progress.finish(offset);
            finished.add(offset);
            const first = offsets.find((each) => !finished.has(each));
            // Up to the last that was finished, and what is known to be empty behind it.
            if (first === undefined) expect(progress.done).toBe(progress.passed);
            else {
              const below = offsets[offsets.indexOf(first) - 1];
              expect(progress.done).toBe(below === undefined ? 0 : below + 1);
            }
            expect(progress.done).toBeGreaterThanOrEqual(before);
            if (finished.size % 50 !== 0 && finished.size < offsets.length - 3) continue;
            expect(progress.unfinished).toBe(offsets.length - finished.size);
          }
        },
      ),
      { numRuns: 20 },
    );
  });
});
