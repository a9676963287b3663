export type CodecName = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';

/** Numbers as in the attributes of the public batch format. */
export const CODECS: Readonly<Record<CodecName, number>> = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 };
export const CODEC_NAMES: readonly CodecName[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];

/** Undefined for numbers that the format does not define. */
export function codecName(code: number): CodecName | undefined {
  return CODEC_NAMES[code];
}
