import { createRequire } from 'node:module';
import { crc32cTable, type Crc32c } from '../base/checksum.ts';

/** Loads a native package by its name. */
export type LoadModule = (name: string) => unknown;

let installed: LoadModule | undefined;

/**
 * Where native packages come from, for all that is not told otherwise. The single executable, which has no node_modules
 * beside it, calls this once, first, with a loader that knows where it unpacked them.
 */
export function setModuleLoader(load: LoadModule): void {
  installed = load;
  chosen = undefined;
}

/** Not made before it is needed: a bundle in CommonJS has no import.meta.url. */
export const loadInstalled: LoadModule = (name) => (installed ??= createRequire(import.meta.url))(name);

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

let chosen: Crc32c | undefined;

/** The one to use; chosen at the first call. */
export const crc32c: Crc32c = (bytes, previous) => (chosen ??= loadCrc32c())(bytes, previous);
