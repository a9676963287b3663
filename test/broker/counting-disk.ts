// A disk that counts the mapped slices which were taken and not given back.
import type { Disk, DiskFile, Mapping } from '../../src/ports/disk.ts';

export interface SliceCount {
  live: number;
  taken: number;
  /** A slice was released twice. */
  twice: number;
}

export function countingDisk(disk: Disk): { readonly disk: Disk; readonly slices: SliceCount } {
  const slices: SliceCount = { live: 0, taken: 0, twice: 0 };
  const counted = wrap(disk, {
    open: async (path: string, mode: Parameters<Disk['open']>[1]) => countingFile(await disk.open(path, mode), slices),
  });
  return { disk: counted, slices };
}

function countingFile(file: DiskFile, slices: SliceCount): DiskFile {
  return wrap(file, { map: (bytes: number) => countingMapping(file.map(bytes), slices) });
}

function countingMapping(mapping: Mapping, slices: SliceCount): Mapping {
  return wrap(mapping, {
    slice: (at: Parameters<Mapping['slice']>[0], length: number) => {
      const slice = mapping.slice(at, length);
      slices.live += 1;
      slices.taken += 1;
      let isReleased = false;
      return {
        get view(): Uint8Array {
          return slice.view;
        },
        release: (): void => {
          if (isReleased) slices.twice += 1;
          isReleased = true;
          slices.live -= 1;
          slice.release();
        },
      };
    },
  });
}

/** The target with some members replaced; methods keep their own `this`. */
function wrap<Target extends object>(target: Target, replaced: Partial<Target>): Target {
  return new Proxy(target, {
    get(from, name): unknown {
      if (Object.hasOwn(replaced, name)) return Reflect.get(replaced, name);
      const member: unknown = Reflect.get(from, name, from);
      return typeof member === 'function' ? (member.bind(from) as unknown) : member;
    },
  });
}
