const SEED = 0x9747_b28c;
const MIX = 0x5bd1_e995;

/** The 32-bit murmur2 with the seed of the field's default partitioner; signed, as there. */
export function murmur2(bytes: Uint8Array): number {
  const length = bytes.length;
  let hash = SEED ^ length;
  const whole = length & ~3;
  for (let at = 0; at < whole; at += 4) {
    let word =
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    word = Math.imul(word, MIX);
    word ^= word >>> 24;
    hash = Math.imul(hash, MIX) ^ Math.imul(word, MIX);
  }
  const rest = length - whole;
  if (rest >= 3) hash ^= (bytes[whole + 2] as number) << 16;
  if (rest >= 2) hash ^= (bytes[whole + 1] as number) << 8;
  if (rest >= 1) hash = Math.imul(hash ^ (bytes[whole] as number), MIX);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, MIX);
  return hash ^ (hash >>> 15);
}

/** Partition of a key: the same as every client with that default partitioner chooses. */
export function keyPartition(key: Uint8Array, partitions: number): number {
  return (murmur2(key) & 0x7fff_ffff) % partitions;
}
