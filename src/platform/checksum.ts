import { createRequire } from 'node:module';
import { crc32cTable, type Crc32c } from '../base/checksum.ts';

/** Loads a native package by its name. The single executable passes its own, which knows where it unpacked them. */
export type LoadModule = (name: string) => unknown;

export const loadInstalled: LoadModule = createRequire(import.meta.url);

interface NativeChecksums {
  crc32c(bytes: Uint8Array, previous?: number): number;
}

function isNativeChecksums(value: unknown): value is NativeChecksums {
  return typeof value === 'object' && value !== null && 'crc32c' in value && typeof value.crc32c === 'function';
}

/** The hardware's CRC32C where the native module loads and agrees with the plain one; the plain one elsewhere. */
export function loadCrc32c(load: LoadModule = loadInstalled): Crc32c {
  try {
    const native = load('@node-rs/crc32');
    if (!isNativeChecksums(native)) return crc32cTable;
    const fast: Crc32c = (bytes, previous) => native.crc32c(bytes, previous);
    return agrees(fast) ? fast : crc32cTable;
  } catch {
    return crc32cTable;
  }
}

/** A build that is wrong on this processor must not decide what is damaged. */
function agrees(fast: Crc32c): boolean {
  const sample = Uint8Array.from({ length: 300 }, (_, index) => (index * 131 + 7) & 0xff);
  const split = fast(sample.subarray(97), fast(sample.subarray(0, 97)));
  return fast(sample) === crc32cTable(sample) && split === crc32cTable(sample);
}

export const crc32c: Crc32c = loadCrc32c();
