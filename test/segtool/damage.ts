// Damages of every kind to the files of a log, from a seed.
import { offset, type Offset } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import {
  decodeSyncMark,
  encodeSyncMark,
  SYNC_MARK_BYTES,
  SYNC_MARKS_BYTES,
  type SyncMark,
} from '../../src/format/sync-mark.ts';
import { SeededRandom } from '../../src/sim/random.ts';
import { DIRECTORY } from '../storage/log-bench.ts';
import { logNames, type Files, type Template } from './store-bench.ts';

export interface Damage {
  readonly kind: string;
  readonly detail: string;
  readonly files: Files;
}

type Maker = (files: Map<string, Uint8Array>, random: SeededRandom, template: Template) => string | undefined;

/** Byte ranges of a batch header, by name. */
const FIELDS: readonly (readonly [string, number, number])[] = [
  ['base offset', 0, 8],
  ['length', 8, 12],
  ['epoch', 12, 16],
  ['magic', 16, 17],
  ['crc', 17, 21],
  ['attributes', 21, 23],
  ['last offset delta', 23, 27],
  ['base timestamp', 27, 35],
  ['max timestamp', 35, 43],
  ['producer id', 43, 51],
  ['producer epoch', 51, 53],
  ['base sequence', 53, 57],
  ['record count', 57, 61],
];

function pick<Item>(random: SeededRandom, items: readonly Item[]): Item {
  const item = items[random.below(items.length)];
  if (item === undefined) throw new Error('nothing to pick from');
  return item;
}

function named(files: Files, suffix: string): readonly string[] {
  return [...files.keys()]
    .filter((path) => path.startsWith(`${DIRECTORY}/`) && path.endsWith(suffix) && (files.get(path)?.length ?? 0) > 0)
    .toSorted();
}

interface Placed {
  readonly path: string;
  readonly at: number;
  readonly size: number;
}

/** Where each batch of the template lies. */
function placed(files: Files, template: Template): readonly Placed[] {
  const found: Placed[] = [];
  const logs = logNames(files);
  let next = 0;
  for (const path of logs) {
    const bytes = files.get(path);
    let at = 0;
    while (bytes !== undefined && next < template.batches.length) {
      const batch = template.batches[next]?.bytes;
      if (
        batch === undefined ||
        at + batch.length > bytes.length ||
        Buffer.compare(bytes.subarray(at, at + batch.length), batch) !== 0
      )
        break;
      found.push({ path, at, size: batch.length });
      at += batch.length;
      next += 1;
    }
  }
  return found;
}

function edit(files: Map<string, Uint8Array>, path: string, change: (bytes: Uint8Array) => Uint8Array): void {
  files.set(path, change(Uint8Array.from(files.get(path) ?? [])));
}

function flip(files: Map<string, Uint8Array>, path: string, at: number, bit: number): void {
  edit(files, path, (bytes) => {
    bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
    return bytes;
  });
}

function flipIn(suffix: string): Maker {
  return (files, random) => {
    const paths = named(files, suffix);
    if (paths.length === 0) return undefined;
    const path = pick(random, paths);
    const at = random.below(files.get(path)?.length ?? 1);
    flip(files, path, at, random.below(8));
    return `${path} byte ${String(at)}`;
  };
}

function truncateFile(suffix: string): Maker {
  return (files, random) => {
    const paths = named(files, suffix);
    if (paths.length === 0) return undefined;
    const path = pick(random, paths);
    const to = random.below(files.get(path)?.length ?? 1);
    edit(files, path, (bytes) => bytes.slice(0, to));
    return `${path} to ${String(to)}`;
  };
}

function removeFile(suffix: string): Maker {
  return (files, random) => {
    const paths = named(files, suffix);
    if (paths.length === 0) return undefined;
    const path = pick(random, paths);
    files.delete(path);
    return path;
  };
}

function zeroFill(suffix: string): Maker {
  return (files, random) => {
    const paths = named(files, suffix);
    if (paths.length === 0) return undefined;
    const path = pick(random, paths);
    const size = files.get(path)?.length ?? 1;
    const from = random.below(size);
    const to = from + 1 + random.below(Math.min(1000, size - from));
    edit(files, path, (bytes) => bytes.fill(0, from, to));
    return `${path} ${String(from)} to ${String(to)}`;
  };
}

const flipHeader: Maker = (files, random, template) => {
  const { path, at } = pick(random, placed(files, template));
  const [name, from, to] = pick(random, FIELDS);
  const byte = from + random.below(to - from);
  flip(files, path, at + byte, random.below(8));
  return `${name} in ${path} at ${String(at)}`;
};

const flipRecords: Maker = (files, random, template) => {
  const { path, at, size } = pick(random, placed(files, template));
  flip(files, path, at + 61 + random.below(size - 61), random.below(8));
  return `records in ${path} at ${String(at)}`;
};

const duplicateBlock: Maker = (files, random, template) => {
  const { path, at, size } = pick(random, placed(files, template));
  edit(files, path, (bytes) => Buffer.concat([bytes.subarray(0, at + size), bytes.subarray(at)]));
  return `${path} ${String(at)}+${String(size)}`;
};

const swapBlocks: Maker = (files, random, template) => {
  const all = placed(files, template);
  const one = pick(random, all);
  const two = pick(
    random,
    all.filter(({ path, at }) => path === one.path && at !== one.at),
  );
  const [low, high] = one.at < two.at ? [one, two] : [two, one];
  edit(files, one.path, (bytes) =>
    Buffer.concat([
      bytes.subarray(0, low.at),
      bytes.subarray(high.at, high.at + high.size),
      bytes.subarray(low.at + low.size, high.at),
      bytes.subarray(low.at, low.at + low.size),
      bytes.subarray(high.at + high.size),
    ]),
  );
  return `${one.path} ${String(low.at)} and ${String(high.at)}`;
};

const cutBlock: Maker = (files, random, template) => {
  const { path, at, size } = pick(random, placed(files, template));
  edit(files, path, (bytes) => Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + size)]));
  return `${path} ${String(at)}+${String(size)}`;
};

const swapSegments: Maker = (files, random) => {
  const logs = logNames(files).filter((path) => (files.get(path)?.length ?? 0) > 0);
  const one = pick(random, logs);
  const two = pick(
    random,
    logs.filter((path) => path !== one),
  );
  const [first, second] = [files.get(one), files.get(two)];
  if (first === undefined || second === undefined) return undefined;
  files.set(one, second);
  files.set(two, first);
  return `${one} and ${two}`;
};

const duplicateSegment: Maker = (files, random) => {
  const logs = logNames(files).filter((path) => (files.get(path)?.length ?? 0) > 0);
  const one = pick(random, logs);
  const two = pick(
    random,
    logs.filter((path) => path !== one),
  );
  files.set(two, Uint8Array.from(files.get(one) ?? []));
  return `${one} over ${two}`;
};

const removeSegment: Maker = (files, random) => {
  const log = pick(random, logNames(files));
  for (const suffix of ['log', 'index', 'timeindex', 'seal']) files.delete(log.replace(/log$/, suffix));
  return log;
};

const garbage: Maker = (files, random, template) => {
  const { path, at } = pick(random, placed(files, template));
  const noise = random.bytes(1 + random.below(200));
  edit(files, path, (bytes) => Buffer.concat([bytes.subarray(0, at), noise, bytes.subarray(at)]));
  return `${path} ${String(noise.length)} bytes at ${String(at)}`;
};

const overwrite: Maker = (files, random) => {
  const path = pick(random, named(files, '.log'));
  const size = files.get(path)?.length ?? 1;
  const at = random.below(size);
  const noise = random.bytes(Math.min(size - at, 1 + random.below(600)));
  edit(files, path, (bytes) => {
    bytes.set(noise, at);
    return bytes;
  });
  return `${path} ${String(noise.length)} bytes at ${String(at)}`;
};

/** Of the last segment, with its marks: where they stand, and which of the two is younger. */
function marksOf(files: Files): { path: string; at: number; base: Offset; marks: readonly (SyncMark | undefined)[] } {
  const path = logNames(files).at(-1) ?? '';
  const bytes = files.get(path) ?? new Uint8Array(0);
  const at = Math.max(0, bytes.length - SYNC_MARKS_BYTES);
  const marks = [0, 1].map((slot) => {
    const decoded = decodeSyncMark(
      bytes.subarray(at + slot * SYNC_MARK_BYTES, at + (slot + 1) * SYNC_MARK_BYTES),
      crc32cTable,
    );
    return decoded.ok ? decoded.value : undefined;
  });
  return { path, at, base: offset(Number(path.slice(-24, -4))), marks };
}

/** Every second time a batch of the same segment is hit as well: then the marks decide what is a loss. */
function marksAnd(change: (files: Map<string, Uint8Array>, random: SeededRandom) => string | undefined): Maker {
  return (files, random, template) => {
    const { path, marks } = marksOf(files);
    if (marks.every((mark) => mark === undefined)) return undefined;
    const detail = change(files, random);
    if (detail === undefined || random.below(2) === 0) return detail;
    const { at, size } = pick(
      random,
      placed(template.files, template).filter((batch) => batch.path === path),
    );
    if (random.below(2) === 0) flip(files, path, at + 61 + random.below(size - 61), random.below(8));
    else edit(files, path, (bytes) => bytes.fill(0, at, marksOf(files).at));
    return `${detail}, and the batch at ${String(at)}`;
  };
}

const flipMark = marksAnd((files, random) => {
  const { path, at } = marksOf(files);
  // Most of a slot are zeros: its head every second time.
  const byte = random.below(2) * SYNC_MARK_BYTES + random.below(random.below(2) === 0 ? 36 : SYNC_MARK_BYTES);
  flip(files, path, at + byte, random.below(8));
  return `byte ${String(byte)} of the marks`;
});

const zeroMarks = marksAnd((files, random) => {
  const { path, at } = marksOf(files);
  const slot = random.below(3);
  const [from, to] = slot === 2 ? [0, SYNC_MARKS_BYTES] : [slot * SYNC_MARK_BYTES, (slot + 1) * SYNC_MARK_BYTES];
  edit(files, path, (bytes) => bytes.fill(0, at + from, at + to));
  return `marks ${String(from)} to ${String(to)}`;
});

function writeMarks(files: Map<string, Uint8Array>, change: (mark: SyncMark) => SyncMark): void {
  const { path, at, marks } = marksOf(files);
  for (const [slot, mark] of marks.entries()) {
    if (mark === undefined) continue;
    const bytes = encodeSyncMark(change(mark), crc32cTable);
    edit(files, path, (file) => {
      file.set(bytes, at + slot * SYNC_MARK_BYTES);
      return file;
    });
  }
}

/** As a write that was lost would leave it: of the log's present, or of before its last checkpoint. */
const oldMarks = marksAnd((files, random) => {
  const { base } = marksOf(files);
  const back = random.below(2) === 0 ? 1 : 1000;
  writeMarks(files, (mark) => ({
    ...mark,
    sequence: Math.max(0, mark.sequence - back),
    syncedOffset: offset(Math.max(base, mark.syncedOffset - 1 - random.below(3))),
  }));
  return `marks older by ${String(back)}`;
});

/** As if synced batches were gone: the marks claim more than the file holds. */
const marksAhead = marksAnd((files, random) => {
  const more = 1 + random.below(50);
  const sequence = random.below(2) === 0 ? 1000 : 0;
  writeMarks(files, (mark) => ({
    ...mark,
    sequence: mark.sequence + sequence,
    syncedOffset: offset(mark.syncedOffset + more),
  }));
  return `marks ahead by ${String(more)}, sequence by ${String(sequence)}`;
});

/** What a recycled file holds of its earlier life. */
const foreignMarks = marksAnd((files) => {
  writeMarks(files, (mark) => ({
    ...mark,
    sequence: mark.sequence + 1000,
    segmentBase: offset(7),
    syncedOffset: offset(900),
  }));
  return 'marks of another segment';
});

export const MAKERS: Readonly<Record<string, Maker>> = {
  'flip a bit of a batch header': flipHeader,
  'flip a bit of records': flipRecords,
  'flip a bit of an index': flipIn('.index'),
  'flip a bit of a time index': flipIn('.timeindex'),
  'flip a bit of a seal': flipIn('.seal'),
  'flip a bit of the checkpoint': flipIn('/checkpoint'),
  'truncate a segment': truncateFile('.log'),
  'truncate an index': truncateFile('.index'),
  'truncate a time index': truncateFile('.timeindex'),
  'truncate a seal': truncateFile('.seal'),
  'truncate the checkpoint': truncateFile('/checkpoint'),
  'zero-fill in a segment': zeroFill('.log'),
  'zero-fill in an index': zeroFill('.index'),
  'zero-fill in a time index': zeroFill('.timeindex'),
  'zero-fill in a seal': zeroFill('.seal'),
  'zero-fill in the checkpoint': zeroFill('/checkpoint'),
  'duplicate a block': duplicateBlock,
  'swap blocks': swapBlocks,
  'cut a block out': cutBlock,
  'swap segments': swapSegments,
  'copy a segment over another': duplicateSegment,
  'remove a log file': removeFile('.log'),
  'remove an index': removeFile('.index'),
  'remove a time index': removeFile('.timeindex'),
  'remove a seal': removeFile('.seal'),
  'remove the checkpoint': removeFile('/checkpoint'),
  'remove a segment with all its files': removeSegment,
  'insert garbage': garbage,
  'overwrite with garbage': overwrite,
  'flip a bit of the sync marks': flipMark,
  'zero sync marks': zeroMarks,
  'old sync marks': oldMarks,
  'sync marks ahead of the log': marksAhead,
  'sync marks of another segment': foreignMarks,
};

export const KINDS: readonly string[] = Object.keys(MAKERS);

/** Undefined: the template has nothing of that kind, or it came out as it was. */
export function damaged(template: Template, kind: string, seed: number): Damage | undefined {
  const files = new Map(template.files);
  const random = new SeededRandom(seed).stream(kind);
  const detail = MAKERS[kind]?.(files, random, template);
  if (detail === undefined) return undefined;
  const same =
    files.size === template.files.size &&
    [...files].every(([path, bytes]) => Buffer.compare(bytes, template.files.get(path) ?? Buffer.of(1)) === 0);
  return same ? undefined : { kind, detail, files };
}
