// The frame structure of LZ4, walked before anything is decoded: what the native decoder would allocate is known first,
// frames that end too early are told apart from complete ones, and several frames in a row are one stream.
import { CompressionError } from '../ports/compression.ts';

const FRAME_MAGIC = 0x184d_2204;
const SKIPPABLE_MAGIC = 0x184d_2a50;
const BLOCK_BYTES_MAX: readonly (number | undefined)[] = [
  undefined,
  undefined,
  undefined,
  undefined,
  1 << 16,
  1 << 18,
  1 << 20,
  1 << 22,
];
/** A length byte of 255 is the densest a block can be. */
const EXPANSION_MAX = 255;
const STORED_BLOCK = 0x8000_0000;

export interface Lz4Frame {
  readonly start: number;
  readonly end: number;
  /** Not more than this comes out. The declared size is no bound: it may lie. */
  readonly outputMax: number;
  /** The blocks as [start, end) of compressed data, or stored ones with `stored` true. */
  readonly blocks: readonly Lz4Block[];
}

export interface Lz4Block {
  readonly start: number;
  readonly end: number;
  readonly stored: boolean;
}

function corrupt(detail: string): CompressionError {
  return new CompressionError('corrupt', `lz4: ${detail}`);
}

function littleU32(bytes: Uint8Array, at: number): number {
  if (at + 4 > bytes.length) throw corrupt('the frame ends early');
  return (
    ((bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24)) >>>
    0
  );
}

/** All data frames of the input; skippable ones are left out. Throws CompressionError when the structure does not hold. */
export function lz4Frames(bytes: Uint8Array): readonly Lz4Frame[] {
  const frames: Lz4Frame[] = [];
  let at = 0;
  while (at < bytes.length) {
    const magic = littleU32(bytes, at);
    if (magic === FRAME_MAGIC) {
      const frame = readFrame(bytes, at);
      frames.push(frame);
      at = frame.end;
    } else if ((magic & 0xffff_fff0) >>> 0 === SKIPPABLE_MAGIC) {
      at += 8 + littleU32(bytes, at + 4);
      if (at > bytes.length) throw corrupt('the frame ends early');
    } else throw corrupt('not a frame');
  }
  if (frames.length === 0) throw corrupt('no frame');
  return frames;
}

function readFrame(bytes: Uint8Array, start: number): Lz4Frame {
  const flags = bytes[start + 4] ?? 0;
  const descriptor = bytes[start + 5] ?? 0;
  if (flags >>> 6 !== 1) throw corrupt(`version ${String(flags >>> 6)} of the frame`);
  if ((flags & 1) !== 0) throw corrupt('the frame wants a dictionary');
  const blockBytesMax = BLOCK_BYTES_MAX[(descriptor >>> 4) & 7];
  if (blockBytesMax === undefined) throw corrupt('unknown block size');
  const blockChecksum = (flags & 0x10) === 0 ? 0 : 4;
  let at = start + 6;
  let declared: number | undefined;
  if ((flags & 0x08) !== 0) {
    declared = littleU32(bytes, at) + littleU32(bytes, at + 4) * 2 ** 32;
    at += 8;
  }
  at += 1;
  const blocks: Lz4Block[] = [];
  let outputMax = 0;
  for (;;) {
    const word = littleU32(bytes, at);
    at += 4;
    if (word === 0) break;
    const stored = word >= STORED_BLOCK;
    const size = stored ? word - STORED_BLOCK : word;
    if (size > blockBytesMax) throw corrupt('a block is larger than the frame says');
    blocks.push({ start: at, end: at + size, stored });
    outputMax += stored ? size : Math.min(blockBytesMax, size * EXPANSION_MAX);
    at += size + blockChecksum;
  }
  if ((flags & 0x04) !== 0) at += 4;
  if (at > bytes.length) throw corrupt('the frame ends early');
  if (declared !== undefined && declared > outputMax) throw corrupt('the declared size cannot come out of the blocks');
  return { start, end: at, outputMax, blocks };
}

/** Exactly what the blocks of a frame decode to, from their tokens alone; nothing is allocated. Stops beyond `limit`. */
export function lz4DecodedBytes(bytes: Uint8Array, frame: Lz4Frame, limit: number): number {
  let total = 0;
  for (const block of frame.blocks) {
    total += block.stored ? block.end - block.start : blockDecodedBytes(bytes, block, limit - total);
    if (total > limit) return total;
  }
  return total;
}

function blockDecodedBytes(bytes: Uint8Array, block: Lz4Block, limit: number): number {
  const { end } = block;
  let at = block.start;
  let total = 0;
  while (at < end && total <= limit) {
    const token = bytes[at] as number;
    at += 1;
    let literals = token >>> 4;
    if (literals === 15) {
      let more = 255;
      while (more === 255 && at < end) {
        more = bytes[at] as number;
        at += 1;
        literals += more;
      }
    }
    at += literals;
    total += literals;
    // The last sequence has literals only.
    if (at >= end) break;
    at += 2;
    let match = token & 15;
    if (match === 15) {
      let more = 255;
      while (more === 255 && at < end) {
        more = bytes[at] as number;
        at += 1;
        match += more;
      }
    }
    total += match + 4;
  }
  return total;
}
