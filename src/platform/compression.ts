import type * as Zlib from 'node:zlib';
import { unreachable } from '../base/assert.ts';
import type { CodecName } from '../base/codec.ts';
import { CompressionError, type Compression } from '../ports/compression.ts';
import { loadInstalled, type LoadModule } from './checksum.ts';
import { lz4DecodedBytes, lz4Frames, type Lz4Frame } from './lz4.ts';
import { compressXerial, decompressXerial, type RawSnappy } from './snappy.ts';

/** Loaded when it is first used: a broker that stores what it gets never does. */
function zlib(): typeof Zlib {
  return process.getBuiltinModule('node:zlib');
}

const GZIP_LEVEL = 6;
const ZSTD_LEVEL = 3;
/** Writers that do not know the size beforehand declare a large window for little data: 8 MiB is to be taken by any reader. */
const ZSTD_WINDOW_LOG_MIN = 23;
const ZSTD_WINDOW_LOG_MAX = 31;

interface Lz4Module {
  compressFrameSync(bytes: Buffer): Uint8Array;
  decompressFrameSync(bytes: Buffer): Uint8Array;
}

function hasFunctions(value: unknown, names: readonly string[]): value is Record<string, unknown> {
  return (
    typeof value === 'object' && value !== null && names.every((name) => typeof Reflect.get(value, name) === 'function')
  );
}

function isLz4(value: unknown): value is Lz4Module {
  return hasFunctions(value, ['compressFrameSync', 'decompressFrameSync']);
}

function isSnappy(value: unknown): value is {
  compressSync(bytes: Uint8Array): Uint8Array;
  uncompressSync(bytes: Uint8Array, options: object): Uint8Array;
} {
  return hasFunctions(value, ['compressSync', 'uncompressSync']);
}

function lazily<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Native modules are loaded at the first use of their codec: most processes use one. */
export function nativeCompression(load: LoadModule = loadInstalled): Compression {
  const lz4 = lazily((): Lz4Module => {
    const module = load('lz4-napi');
    if (!isLz4(module)) throw new Error('lz4-napi has not the functions that are needed');
    return module;
  });
  const snappy = lazily((): RawSnappy => {
    const module = load('snappy');
    if (!isSnappy(module)) throw new Error('snappy has not the functions that are needed');
    return {
      compressSync: (bytes) => module.compressSync(bytes),
      uncompressSync: (bytes) => module.uncompressSync(bytes, { asBuffer: true }),
    };
  });
  return {
    compress: (codec, bytes) => compressBy(codec, bytes, lz4, snappy),
    decompress: (codec, bytes, bytesMax) => decompressBy(codec, bytes, bytesMax, lz4, snappy),
  };
}

export const compression: Compression = nativeCompression();

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function compressBy(codec: CodecName, bytes: Uint8Array, lz4: () => Lz4Module, snappy: () => RawSnappy): Uint8Array {
  switch (codec) {
    case 'none':
      return bytes;
    case 'gzip':
      return zlib().gzipSync(bytes, { level: GZIP_LEVEL });
    case 'snappy':
      return compressXerial(snappy(), bytes);
    case 'lz4':
      return lz4().compressFrameSync(asBuffer(bytes));
    case 'zstd':
      needZstd();
      return zlib().zstdCompressSync(bytes, {
        pledgedSrcSize: bytes.length,
        params: { [zlib().constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL },
      });
    default:
      return unreachable(codec);
  }
}

function decompressBy(
  codec: CodecName,
  bytes: Uint8Array,
  bytesMax: number,
  lz4: () => Lz4Module,
  snappy: () => RawSnappy,
): Uint8Array {
  switch (codec) {
    case 'none':
      if (bytes.length > bytesMax) throw tooLarge(codec, bytesMax);
      return bytes;
    case 'gzip':
      return bounded(codec, bytesMax, (maxOutputLength) => zlib().gunzipSync(bytes, { maxOutputLength }));
    case 'snappy':
      return decompressXerial(snappy(), bytes, bytesMax);
    case 'lz4':
      return decompressLz4(lz4(), bytes, bytesMax);
    case 'zstd':
      return decompressZstd(bytes, bytesMax);
    default:
      return unreachable(codec);
  }
}

function tooLarge(codec: CodecName, bytesMax: number, cause?: unknown): CompressionError {
  return new CompressionError('too-large', `${codec}: over ${String(bytesMax)} bytes decompressed`, cause);
}

/** The decoders of Node make their output in pieces and stop at the limit. */
function bounded(codec: CodecName, bytesMax: number, decode: (maxOutputLength: number) => Uint8Array): Uint8Array {
  try {
    // Node takes no limit of 0.
    const out = decode(Math.max(1, bytesMax));
    if (out.length > bytesMax) throw tooLarge(codec, bytesMax);
    return out;
  } catch (error) {
    if (error instanceof CompressionError) throw error;
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ERR_BUFFER_TOO_LARGE' || code === 'ZSTD_error_frameParameter_windowTooLarge')
      throw tooLarge(codec, bytesMax, error);
    throw new CompressionError('corrupt', `${codec}: ${error instanceof Error ? error.message : String(error)}`, error);
  }
}

function decompressLz4(lz4: Lz4Module, bytes: Uint8Array, bytesMax: number): Uint8Array {
  const frames = lz4Frames(bytes);
  checkLz4Size(bytes, frames, bytesMax);
  try {
    const [only] = frames;
    if (only !== undefined && frames.length === 1)
      return lz4.decompressFrameSync(asBuffer(bytes.subarray(only.start, only.end)));
    return Buffer.concat(
      frames.map((frame) => lz4.decompressFrameSync(asBuffer(bytes.subarray(frame.start, frame.end)))),
    );
  } catch (error) {
    throw new CompressionError('corrupt', `lz4: ${error instanceof Error ? error.message : String(error)}`, error);
  }
}

function checkLz4Size(bytes: Uint8Array, frames: readonly Lz4Frame[], bytesMax: number): void {
  const most = frames.reduce((sum, frame) => sum + frame.outputMax, 0);
  // Nearly always: the tokens need not be walked.
  if (most <= bytesMax) return;
  let total = 0;
  for (const frame of frames) {
    total += lz4DecodedBytes(bytes, frame, bytesMax - total);
    if (total > bytesMax) throw tooLarge('lz4', bytesMax);
  }
}

function needZstd(): void {
  // Node 20 has no zstd; the client library says so instead of failing on a missing function.
  if (typeof zlib().zstdDecompressSync !== 'function') throw new Error('zstd needs Node 22.15 or later');
}

function decompressZstd(bytes: Uint8Array, bytesMax: number): Uint8Array {
  needZstd();
  if (bytes.length === 0) throw new CompressionError('corrupt', 'zstd: no frame');
  // The decoder allocates the window that a frame declares: beyond 8 MiB not more than the caller would take as output.
  const windowLog = Math.ceil(Math.log2(Math.max(2, bytesMax)));
  const windowLogMax = Math.min(ZSTD_WINDOW_LOG_MAX, Math.max(ZSTD_WINDOW_LOG_MIN, windowLog));
  return bounded('zstd', bytesMax, (maxOutputLength) =>
    zlib().zstdDecompressSync(bytes, {
      maxOutputLength,
      params: { [zlib().constants.ZSTD_d_windowLogMax]: windowLogMax },
    }),
  );
}
