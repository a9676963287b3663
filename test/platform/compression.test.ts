import { spawnSync } from 'node:child_process';
import * as path from 'node:path';
import * as zlib from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CodecName } from '../../src/base/codec.ts';
import { loadInstalled } from '../../src/platform/checksum.ts';
import { compression } from '../../src/platform/compression.ts';
import { effort } from '../effort.ts';
import { CompressionError } from '../../src/ports/compression.ts';

const MIB = 1 << 20;
const PACKED: readonly CodecName[] = ['gzip', 'snappy', 'lz4', 'zstd'];
const LARGE: Uint8Array = Uint8Array.from({ length: 5 * MIB + 3 }, (_, index) => (index * index) >>> 7);
const ALL: readonly CodecName[] = ['none', ...PACKED];

function faultOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof CompressionError) return error.kind;
    throw error;
  }
  return 'none';
}

function same(left: Uint8Array, right: Uint8Array): boolean {
  return Buffer.compare(left, right) === 0;
}

describe.each(ALL)('compression %s', (codec) => {
  it('gives back any bytes, at a limit of exactly their size', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 5000 }), fc.integer({ min: 1, max: 40 }), (piece, times) => {
        const bytes = new Uint8Array(Buffer.concat(Array.from({ length: times }, () => piece)));
        const packed = compression.compress(codec, bytes);
        expect(same(compression.decompress(codec, packed, bytes.length), bytes)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it('gives back sizes around the block sizes of the formats', () => {
    for (const size of [0, 1, 32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 262_145, 5 * MIB + 3]) {
      const bytes = LARGE.subarray(0, size);
      expect(same(compression.decompress(codec, compression.compress(codec, bytes), size), bytes)).toBe(true);
    }
  });

  it('refuses one byte more than the limit', () => {
    const bytes = new Uint8Array(100_000).fill(7);
    const packed = compression.compress(codec, bytes);
    expect(faultOf(() => compression.decompress(codec, packed, 99_999))).toBe('too-large');
    expect(faultOf(() => compression.decompress(codec, packed, 0))).toBe('too-large');
  });
});

describe.each(PACKED)('decompress %s of hostile bytes', (codec) => {
  it('throws CompressionError and nothing else, whatever bit is wrong', () => {
    const packed = compression.compress(codec, new TextEncoder().encode('a line of a log, as they come\n'.repeat(300)));
    for (let at = 0; at < packed.length * 8; at += packed.length > 400 ? effort(3, 17) : effort(1, 5)) {
      const copy = packed.slice();
      copy[at >>> 3] = (copy[at >>> 3] ?? 0) ^ (1 << (at & 7));
      expect(['none', 'corrupt', 'too-large']).toContain(faultOf(() => compression.decompress(codec, copy, MIB)));
    }
  });

  it('says corrupt to every prefix that lacks data', () => {
    const whole = Uint8Array.from({ length: 70_000 }, (_, index) => (index * 2_654_435_761) >>> 13);
    const packed = compression.compress(codec, whole);
    for (let size = 0; size < packed.length; size += 997) {
      // The xerial stream has no end mark: a cut between blocks is a shorter stream, which the batch's record count tells.
      const fault = faultOf(() => {
        const out = compression.decompress(codec, packed.subarray(0, size), whole.length);
        expect(codec).toBe('snappy');
        expect(same(out, whole.subarray(0, out.length))).toBe(true);
      });
      expect(['none', 'corrupt']).toContain(fault);
    }
  });

  it('survives random bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(['none', 'corrupt', 'too-large']).toContain(faultOf(() => compression.decompress(codec, bytes, MIB)));
      }),
      { numRuns: 200 },
    );
  });

  it('refuses a bomb of 1 GiB without holding it', () => {
    // In a process of its own, so that its peak of memory is the decoder's.
    const out = spawnSync(process.execPath, [path.join(import.meta.dirname, 'bomb.ts'), codec], {
      encoding: 'utf8',
      timeout: 60_000,
    });
    expect(out.stderr).toBe('');
    const { kind, grownMiB } = JSON.parse(out.stdout) as { kind: string; grownMiB: number };
    expect(kind).toBe('too-large');
    expect(grownMiB).toBeLessThan(64);
  });
});

describe('formats of other writers', () => {
  const text = Buffer.from('the same words again and again, the same words again and again\n'.repeat(2000));

  it('reads raw snappy without framing', () => {
    const snappy = loadInstalled('snappy') as { compressSync(bytes: Buffer): Buffer };
    expect(same(compression.decompress('snappy', snappy.compressSync(text), text.length), text)).toBe(true);
  });

  it('writes the xerial header and blocks of 32 KiB', () => {
    const packed = Buffer.from(compression.compress('snappy', text));
    expect(packed.subarray(0, 16).toString('hex')).toBe('82534e41505059000000000100000001');
    const first = packed.readUInt32BE(16);
    const snappy = loadInstalled('snappy') as { uncompressSync(bytes: Buffer): Buffer };
    expect(snappy.uncompressSync(packed.subarray(20, 20 + first)).length).toBe(32 * 1024);
  });

  it('writes lz4 frames of independent blocks, and reads several frames and skippable ones in a row', () => {
    const packed = Buffer.from(compression.compress('lz4', text));
    expect(packed.readUInt32LE(0)).toBe(0x184d_2204);
    expect(packed.readUInt8(4) & 0xe0).toBe(0x60);
    const skippable = Buffer.from([0x52, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    const joined = Buffer.concat([packed, skippable, packed]);
    expect(same(compression.decompress('lz4', joined, 2 * text.length), Buffer.concat([text, text]))).toBe(true);
    expect(faultOf(() => compression.decompress('lz4', joined, 2 * text.length - 1))).toBe('too-large');
  });

  it('reads zstd and gzip of any level, and members in a row', () => {
    const zstd = zlib.zstdCompressSync(text, { params: { [zlib.constants.ZSTD_c_compressionLevel]: 19 } });
    expect(
      same(compression.decompress('zstd', Buffer.concat([zstd, zstd]), 2 * text.length), Buffer.concat([text, text])),
    ).toBe(true);
    const gzip = zlib.gzipSync(text, { level: 9 });
    expect(
      same(compression.decompress('gzip', Buffer.concat([gzip, gzip]), 2 * text.length), Buffer.concat([text, text])),
    ).toBe(true);
  });

  it('refuses a zstd frame that wants a window far larger than the caller takes', () => {
    // Frame header: window of 2 GiB, then an empty last block.
    const frame = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00]);
    expect(faultOf(() => compression.decompress('zstd', frame, MIB))).toBe('too-large');
  });

  it('refuses a snappy block that declares more than it can hold', () => {
    expect(faultOf(() => compression.decompress('snappy', Buffer.from([0xff, 0xff, 0xff, 0x07, 0x00]), 2 ** 31))).toBe(
      'corrupt',
    );
  });
});
