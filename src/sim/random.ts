import { assert } from '../base/assert.ts';
import type { Random } from '../ports/random.ts';

const MASK_64 = 0xffff_ffff_ffff_ffffn;

/** SplitMix64: spreads a small seed over the whole state, as the authors of xoshiro advise. */
function splitMix(state: bigint): { readonly state: bigint; readonly value: bigint } {
  const next = (state + 0x9e37_79b9_7f4a_7c15n) & MASK_64;
  let mixed = next;
  mixed = ((mixed ^ (mixed >> 30n)) * 0xbf58_476d_1ce4_e5b9n) & MASK_64;
  mixed = ((mixed ^ (mixed >> 27n)) * 0x94d0_49bb_1331_11ebn) & MASK_64;
  return { state: next, value: mixed ^ (mixed >> 31n) };
}

function saltOf(name: string): bigint {
  let hash = 0xcbf2_9ce4_8422_2325n;
  for (let index = 0; index < name.length; index += 1) {
    hash = ((hash ^ BigInt(name.charCodeAt(index))) * 0x100_0000_01b3n) & MASK_64;
  }
  return hash;
}

export type XoshiroState = readonly [bigint, bigint, bigint, bigint];

function stateFromSeed(seed: bigint): XoshiroState {
  const first = splitMix(seed & MASK_64);
  const second = splitMix(first.state);
  const third = splitMix(second.state);
  return [first.value, second.value, third.value, splitMix(third.state).value];
}

/**
 * xoshiro256** in 32-bit halves (BigInt would make every draw allocate). `stream` depends on the seed and the name only, never
 * on how much was drawn: adding a draw to one concern leaves the others as they were.
 */
export class SeededRandom implements Random {
  readonly seed: bigint;
  /** Eight halves: word i is high at 2i, low at 2i + 1. */
  private readonly words = new Uint32Array(8);
  /** The last 64-bit output. */
  private high = 0;
  private low = 0;

  constructor(seed: number | bigint, state?: XoshiroState) {
    this.seed = BigInt(seed) & MASK_64;
    const initial = state ?? stateFromSeed(this.seed);
    for (let index = 0; index < 4; index += 1) {
      const word = initial[index] ?? 0n;
      this.words[index * 2] = Number(word >> 32n);
      this.words[index * 2 + 1] = Number(word & 0xffff_ffffn);
    }
  }

  stream(name: string): SeededRandom {
    return new SeededRandom(splitMix(this.seed ^ saltOf(name)).value);
  }

  private step(): void {
    const w = this.words;
    const high1 = w[2] as number;
    const low1 = w[3] as number;
    // rotl(s1 * 5, 7) * 9
    let low = low1 + ((low1 << 2) >>> 0);
    let high = (high1 + (((high1 << 2) | (low1 >>> 30)) >>> 0) + (low > 0xffff_ffff ? 1 : 0)) >>> 0;
    low >>>= 0;
    const rotatedHigh = ((high << 7) | (low >>> 25)) >>> 0;
    const rotatedLow = ((low << 7) | (high >>> 25)) >>> 0;
    low = rotatedLow + ((rotatedLow << 3) >>> 0);
    high = (rotatedHigh + (((rotatedHigh << 3) | (rotatedLow >>> 29)) >>> 0) + (low > 0xffff_ffff ? 1 : 0)) >>> 0;
    this.high = high;
    this.low = low >>> 0;

    const shiftedHigh = ((high1 << 17) | (low1 >>> 15)) >>> 0;
    const shiftedLow = (low1 << 17) >>> 0;
    for (let half = 0; half < 2; half += 1) {
      w[4 + half] = (w[4 + half] as number) ^ (w[half] as number);
      w[6 + half] = (w[6 + half] as number) ^ (w[2 + half] as number);
      w[2 + half] = (w[2 + half] as number) ^ (w[4 + half] as number);
      w[half] = (w[half] as number) ^ (w[6 + half] as number);
    }
    w[4] = (w[4] as number) ^ shiftedHigh;
    w[5] = (w[5] as number) ^ shiftedLow;
    // rotl(s3, 45) is a swap of halves and rotl 13.
    const high3 = w[6] as number;
    const low3 = w[7] as number;
    w[6] = (low3 << 13) | (high3 >>> 19);
    w[7] = (high3 << 13) | (low3 >>> 19);
  }

  /** For checking against published vectors. */
  next64(): bigint {
    this.step();
    return (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  /** Uniform in [0, 1), 53 bits. */
  unit(): number {
    this.step();
    return ((this.high >>> 5) * 0x400_0000 + (this.low >>> 6)) / 2 ** 53;
  }

  below(below: number): number {
    assert(Number.isSafeInteger(below) && below >= 1, `bound of a draw: ${String(below)}`);
    const whole = 2 ** 53;
    // Values of the last, incomplete run are drawn again, so that no result is favoured.
    const limit = whole - (whole % below);
    for (;;) {
      this.step();
      const value = (this.high >>> 5) * 0x400_0000 + (this.low >>> 6);
      if (value < limit) return value % below;
    }
  }

  /** Uniform in [least, most], both included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    assert(items.length > 0, 'pick from at least one item');
    return items[this.below(items.length)] as Item;
  }

  bytes(size: number): Uint8Array<ArrayBuffer> {
    const out = new Uint8Array(size);
    for (let at = 0; at < size; at += 4) {
      this.step();
      for (let byte = 0; byte < 4 && at + byte < size; byte += 1) out[at + byte] = this.high >>> (byte * 8);
    }
    return out;
  }
}
