// The framing of snappy that clients of the public format write: the xerial stream (blocks of raw snappy, each behind its
// length), and raw snappy without framing, which is read too.
import { readU32, writeU32 } from '../base/bytes.ts';
import { CompressionError } from '../ports/compression.ts';

const STREAM_MAGIC: readonly number[] = [0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00];
const STREAM_HEADER_BYTES = 16;
const STREAM_VERSION = 1;
/** What the reference writer uses; a reader must not rely on it. */
const BLOCK_BYTES = 32 * 1024;
/** The densest element copies 64 bytes out of 3 (a copy with a two-byte offset); literals only grow. */
const EXPANSION_MAX = 22;

export interface RawSnappy {
  compressSync(bytes: Uint8Array): Uint8Array;
  uncompressSync(bytes: Uint8Array): Uint8Array;
}

function corrupt(detail: string, cause?: unknown): CompressionError {
  return new CompressionError('corrupt', `snappy: ${detail}`, cause);
}

export function compressXerial(raw: RawSnappy, bytes: Uint8Array): Uint8Array {
  const blocks: Uint8Array[] = [];
  let size = STREAM_HEADER_BYTES;
  for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
    const block = raw.compressSync(bytes.subarray(at, at + BLOCK_BYTES));
    blocks.push(block);
    size += 4 + block.length;
  }
  const out = new Uint8Array(size);
  out.set(STREAM_MAGIC);
  writeU32(out, 8, STREAM_VERSION);
  writeU32(out, 12, STREAM_VERSION);
  let at = STREAM_HEADER_BYTES;
  for (const block of blocks) {
    writeU32(out, at, block.length);
    out.set(block, at + 4);
    at += 4 + block.length;
  }
  return out;
}

export function decompressXerial(raw: RawSnappy, bytes: Uint8Array, bytesMax: number): Uint8Array {
  const blocks = isStream(bytes) ? streamBlocks(bytes) : [bytes];
  let total = 0;
  for (const block of blocks) {
    total += declaredBytes(block);
    if (total > bytesMax)
      throw new CompressionError('too-large', `snappy: over ${String(bytesMax)} bytes decompressed`);
  }
  const [only] = blocks;
  if (only !== undefined && blocks.length === 1) return decompressBlock(raw, only);
  const out = new Uint8Array(total);
  let at = 0;
  for (const block of blocks) {
    const piece = decompressBlock(raw, block);
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}

function isStream(bytes: Uint8Array): boolean {
  return STREAM_MAGIC.every((value, index) => bytes[index] === value);
}

function streamBlocks(bytes: Uint8Array): readonly Uint8Array[] {
  if (bytes.length < STREAM_HEADER_BYTES) throw corrupt('the stream ends early');
  const blocks: Uint8Array[] = [];
  let at = STREAM_HEADER_BYTES;
  while (at < bytes.length) {
    if (at + 4 > bytes.length) throw corrupt('the stream ends early');
    const size = readU32(bytes, at);
    at += 4;
    if (size === 0 || size > bytes.length - at) throw corrupt('a block reaches beyond the stream');
    blocks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return blocks;
}

/** The varint at the start of a raw block, refused when the block cannot hold that much. */
function declaredBytes(block: Uint8Array): number {
  let value = 0;
  for (let index = 0; index < 5; index += 1) {
    const byte = block[index];
    if (byte === undefined) throw corrupt('a block ends early');
    value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) {
      if (value > block.length * EXPANSION_MAX) throw corrupt('a block declares more than it can hold');
      return value;
    }
  }
  throw corrupt('the size of a block is overlong');
}

function decompressBlock(raw: RawSnappy, block: Uint8Array): Uint8Array {
  try {
    return raw.uncompressSync(block);
  } catch (error) {
    throw corrupt('a block is damaged', error);
  }
}
