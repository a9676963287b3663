// What a path names: a data directory, the directory of a topic or of one log, or a single segment.
import { utf8Decode } from '../base/bytes.ts';
import { parseSegmentFileName } from '../format/segment.ts';
import { DiskError, type Disk } from '../ports/disk.ts';
import { readSmallFile } from '../storage/small-file.ts';
import { within } from './tool.ts';

/** One log to look at. `only` limits it to the segments with these base offsets. */
export interface LogTarget {
  readonly directory: string;
  /** For people: name of the topic and number of the partition, or what the directory is called. */
  readonly label: string;
  readonly only: number | undefined;
}

export interface Targets {
  /** The path is the root of a data directory: its own files are looked at too. */
  readonly isStore: boolean;
  readonly logs: readonly LogTarget[];
}

const TOPIC_ID = /^[0-9a-f]{32}$/;
const NUMBER = /^\d{1,10}$/;
const NAME_BYTES_MAX = 1024;

/** DiskError 'not-found' when nothing is there. */
export async function findTargets(disk: Disk, path: string): Promise<Targets> {
  const slash = path.lastIndexOf('/');
  const parsed = parseSegmentFileName(path.slice(slash + 1));
  if (parsed !== undefined) {
    if (!(await disk.exists(path))) throw new DiskError('not-found', 'open', path, 'there is no such file');
    const directory = slash < 0 ? '' : path.slice(0, slash);
    return { isStore: false, logs: [await target(disk, directory, parsed.baseOffset)] };
  }
  const logs: LogTarget[] = [];
  await collect(disk, path, logs, 0);
  const isStore = (await disk.exists(within(path, 'store.json'))) || (await disk.exists(within(path, 'superblock')));
  return { isStore: path === '' && isStore, logs };
}

const DEPTH_MAX = 4;

async function collect(disk: Disk, directory: string, logs: LogTarget[], depth: number): Promise<void> {
  const entries = await disk.readDirectory(directory);
  if (entries.some(({ kind, name }) => kind === 'file' && isLogFile(name))) {
    logs.push(await target(disk, directory, undefined));
    return;
  }
  if (depth === DEPTH_MAX) return;
  for (const { kind, name } of entries.toSorted((left, right) => order(left.name, right.name))) {
    if (kind === 'directory' && (name === 'topics' || name === 'meta-log' || TOPIC_ID.test(name) || NUMBER.test(name)))
      await collect(disk, within(directory, name), logs, depth + 1);
  }
}

function order(left: string, right: string): number {
  if (NUMBER.test(left) && NUMBER.test(right)) return Number(left) - Number(right);
  return left < right ? -1 : 1;
}

function isLogFile(name: string): boolean {
  return name === 'checkpoint' || parseSegmentFileName(name) !== undefined;
}

async function target(disk: Disk, directory: string, only: number | undefined): Promise<LogTarget> {
  const parts = directory.split('/');
  const partition = parts.at(-1) ?? '';
  const topic = parts.slice(0, -1).join('/');
  const hint = parts.length > 1 ? await readSmallFile(disk, within(topic, 'name'), NAME_BYTES_MAX) : undefined;
  const name = hint === undefined ? undefined : decoded(hint);
  if (name !== undefined) return { directory, label: `${name}/${partition}`, only };
  return { directory, label: directory === '' ? '.' : directory, only };
}

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return utf8Decode(bytes).trim();
  } catch {
    return undefined;
  }
}
