import type { CodecName } from '../base/codec.ts';

/** The compressed bytes are damaged, or hold more than the caller allows. */
export class CompressionError extends Error {
  override readonly name = 'CompressionError';
  readonly kind: 'corrupt' | 'too-large';
  constructor(kind: 'corrupt' | 'too-large', message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
  }
}

/**
 * Frames as other clients of the public format write and read them: gzip; snappy in the xerial framing (raw snappy is read
 * too); lz4 frames; zstd frames.
 */
export interface Compression {
  compress(codec: CodecName, bytes: Uint8Array): Uint8Array;
  /**
   * Never allocates more than the smaller of `bytesMax` and a bounded multiple of the real output, whatever the input
   * declares. Throws CompressionError.
   */
  decompress(codec: CodecName, bytes: Uint8Array, bytesMax: number): Uint8Array;
}
