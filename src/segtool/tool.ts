// What every command of the tool works over, and how far it has come.
import type { Crc32c } from '../base/checksum.ts';
import type { Clock } from '../ports/clock.ts';
import type { Compression } from '../ports/compression.ts';
import type { Disk } from '../ports/disk.ts';

export interface ToolDeps {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly crc32c: Crc32c;
  readonly compression: Compression;
  /** Called with the bytes read since the last call. */
  readonly progress?: (bytes: number) => void;
}

/** A path in a folder, where '' is the root. */
export function within(folder: string, name: string): string {
  return folder === '' ? name : `${folder}/${name}`;
}
