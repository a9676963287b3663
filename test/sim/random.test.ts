import { describe, expect, test } from 'vitest';
import { SeededRandom } from '../../src/sim/random.ts';

describe('SeededRandom', () => {
  test('gives the published numbers of xoshiro256** for the state 1, 2, 3, 4', () => {
    const random = new SeededRandom(0, [1n, 2n, 3n, 4n]);
    expect([random.next64(), random.next64(), random.next64(), random.next64()]).toEqual([
      11520n,
      0n,
      1509978240n,
      1215971899390074240n,
    ]);
  });

  test('agrees with the definition in 64-bit arithmetic over many draws', () => {
    const mask = 0xffff_ffff_ffff_ffffn;
    const rotate = (value: bigint, by: bigint): bigint => ((value << by) | (value >> (64n - by))) & mask;
    let [s0, s1, s2, s3] = [
      0x0123_4567_89ab_cdefn,
      0xfedc_ba98_7654_3210n,
      0xffff_ffff_0000_0001n,
      0x8000_0000_8000_0000n,
    ];
    const random = new SeededRandom(0, [s0, s1, s2, s3]);
    for (let draw = 0; draw < 5000; draw += 1) {
      const expected = (rotate((s1 * 5n) & mask, 7n) * 9n) & mask;
      const shifted = (s1 << 17n) & mask;
      s2 ^= s0;
      s3 ^= s1;
      s1 ^= s2;
      s0 ^= s3;
      s2 ^= shifted;
      s3 = rotate(s3, 45n);
      expect(random.next64()).toBe(expected);
    }
  });

  test('same seed, same draws; other seed, other draws', () => {
    const draws = (seed: number): number[] => {
      const random = new SeededRandom(seed);
      return Array.from({ length: 20 }, () => random.below(1_000_000));
    };
    expect(draws(7)).toEqual(draws(7));
    expect(draws(7)).not.toEqual(draws(8));
  });

  test('a stream depends on seed and name, not on what others drew', () => {
    const one = new SeededRandom(7);
    const other = new SeededRandom(7);
    for (let draw = 0; draw < 100; draw += 1) other.stream('network').below(10);
    other.below(10);
    expect(one.stream('disk').bytes(32)).toEqual(other.stream('disk').bytes(32));
    expect(one.stream('disk').bytes(32)).not.toEqual(one.stream('network').bytes(32));
  });

  test('below stays in its bounds, reaches all of them about equally, also above 32 bits', () => {
    const random = new SeededRandom(1);
    const counts = Array.from({ length: 7 }, () => 0);
    for (let draw = 0; draw < 70_000; draw += 1) {
      const value = random.below(7);
      counts[value] = (counts[value] ?? Number.NaN) + 1;
    }
    for (const count of counts) expect(Math.abs(count - 10_000)).toBeLessThan(500);
    const large = Array.from({ length: 1000 }, () => random.below(2 ** 50));
    expect(large.every((value) => Number.isSafeInteger(value) && value >= 0 && value < 2 ** 50)).toBe(true);
    expect(large.some((value) => value > 2 ** 49)).toBe(true);
    expect(random.below(1)).toBe(0);
    expect(() => random.below(0)).toThrow('bound');
  });
});
