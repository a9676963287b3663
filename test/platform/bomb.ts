// Run as a process of its own: makes 1 GiB of zeros in a few bytes, decompresses it with a limit of 1 MiB, and prints how
// the decoder answered and by how much the process grew at its peak.
import * as zlib from 'node:zlib';
import { writeU32 } from '../../src/base/bytes.ts';
import { compression } from '../../src/platform/compression.ts';
import { CompressionError } from '../../src/ports/compression.ts';

const MIB = 1 << 20;
const PIECE = new Uint8Array(MIB);

function bomb(codec: string): Uint8Array {
  switch (codec) {
    case 'gzip':
    case 'zstd': {
      // Of members in a row: each of 64 MiB, so that making the bomb needs little memory itself.
      const zeros = new Uint8Array(64 * MIB);
      const member = codec === 'gzip' ? zlib.gzipSync(zeros) : zlib.zstdCompressSync(zeros);
      return Buffer.concat(Array.from({ length: 16 }, () => member));
    }
    case 'lz4': {
      const frame = compression.compress('lz4', PIECE);
      return Buffer.concat(Array.from({ length: 1024 }, () => frame));
    }
    default: {
      const stream = compression.compress('snappy', PIECE);
      const body = Buffer.from(stream.subarray(16));
      const head = new Uint8Array(16);
      head.set(stream.subarray(0, 8));
      writeU32(head, 8, 1);
      writeU32(head, 12, 1);
      return Buffer.concat([head, ...Array.from({ length: 1024 }, () => body)]);
    }
  }
}

function peakKiB(): number {
  return process.resourceUsage().maxRSS;
}

const codec = process.argv[2];
if (codec === 'gzip' || codec === 'snappy' || codec === 'lz4' || codec === 'zstd') {
  const bytes = bomb(codec);
  const before = peakKiB();
  let kind = 'none';
  try {
    compression.decompress(codec, bytes, MIB);
  } catch (error) {
    if (!(error instanceof CompressionError)) throw error;
    ({ kind } = error);
  }
  process.stdout.write(JSON.stringify({ kind, grownMiB: (peakKiB() - before) / 1024, bombBytes: bytes.length }));
}
