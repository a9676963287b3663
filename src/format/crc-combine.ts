// The checksum of two pieces from those of each, so that a segment's is had without reading its batches a second time.
// Polynomials over GF(2), bit-reflected as CRC32C is: multiplying by x^8n moves a checksum past n bytes.
import { readU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { CRC_AT, CRC_COVERS_FROM } from './batch.ts';

const POLYNOMIAL = 0x82f6_3b78;
const ONE = 0x8000_0000;

function multiply(left: number, right: number): number {
  let product = 0;
  let shifted = right;
  for (let mask = ONE; mask !== 0; mask >>>= 1) {
    if ((left & mask) !== 0) product ^= shifted;
    shifted = (shifted & 1) === 0 ? shifted >>> 1 : (shifted >>> 1) ^ POLYNOMIAL;
  }
  return product >>> 0;
}

/** x^(2^n) */
const powers: number[] = [0x4000_0000];
for (let index = 1; index < 40; index += 1) {
  const last = powers[index - 1] ?? 0;
  powers.push(multiply(last, last));
}

let knownBytes = 0;
let knownShift = ONE;

/** Batches of one size follow one another: the last one is kept. */
function shiftBy(bytes: number): number {
  if (bytes === knownBytes) return knownShift;
  let shift = ONE;
  let rest = bytes;
  for (let index = 3; rest > 0; index += 1) {
    if (rest % 2 === 1) shift = multiply(powers[index] ?? ONE, shift);
    rest = Math.floor(rest / 2);
  }
  knownBytes = bytes;
  knownShift = shift;
  return shift;
}

/** CRC32C of a followed by b; `bytes` is the length of b. */
export function combineCrc32c(a: number, b: number, bytes: number): number {
  return (multiply(shiftBy(bytes), a) ^ b) >>> 0;
}

/** A smaller batch is read again in less time than its checksum is moved past it. */
const COMBINE_FROM_BYTES = 8192;

/** The checksum of a segment, with one more batch that was found intact behind it: its own covers all but its head. */
export function crcWithBatch(crc32c: Crc32c, crc: number, bytes: Uint8Array, at: number, size: number): number {
  if (size < COMBINE_FROM_BYTES) return crc32c(bytes.subarray(at, at + size), crc);
  const withHead = crc32c(bytes.subarray(at, at + CRC_COVERS_FROM), crc);
  return combineCrc32c(withHead, readU32(bytes, at + CRC_AT), size - CRC_COVERS_FROM);
}
