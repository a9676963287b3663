import type * as Crypto from 'node:crypto';
import { assert } from '../base/assert.ts';
import type { Random } from '../ports/random.ts';

/** Loaded when it is first used. */
function crypto(): typeof Crypto {
  return process.getBuiltinModule('node:crypto');
}

/** node:crypto draws integers below 2^48 only. */
const DRAW_BELOW_MAX = 2 ** 48 - 1;

export const systemRandom: Random = {
  below: (below) => {
    assert(Number.isSafeInteger(below) && below >= 1, `random below ${String(below)}`);
    if (below === 1) return 0;
    return below <= DRAW_BELOW_MAX ? crypto().randomInt(below) : wideBelow(below);
  },
  // A copy of exact size: a Buffer from the pool would share its array buffer with others.
  bytes: (size) => new Uint8Array(crypto().randomBytes(size)),
};

/** 53 bits, rejecting the uneven rest, so that every value is as likely as another. */
function wideBelow(below: number): number {
  const limit = Number.MAX_SAFE_INTEGER - (Number.MAX_SAFE_INTEGER % below);
  // Half of all draws fit at worst: 128 misses in a row do not happen.
  for (let attempt = 0; attempt < 128; attempt += 1) {
    const value = crypto().randomInt(2 ** 26) * 2 ** 27 + crypto().randomInt(2 ** 27);
    if (value < limit) return value % below;
  }
  assert(false, 'the random source repeats itself');
}
