// What lies in the directory of one log, read and sorted by segment; nothing is judged here.
import { CHECKPOINT_SLOT_BYTES, decodeCheckpoint, newestCheckpoint, type Checkpoint } from '../format/checkpoint.ts';
import { parseSegmentFileName, segmentFileName, type SegmentSuffix } from '../format/segment.ts';
import { isZero } from '../format/scan.ts';
import { readSmallFile } from '../storage/small-file.ts';
import { within, type ToolDeps } from './tool.ts';

export interface LogFiles {
  readonly directory: string;
  /** Base offsets of the `.log` files, ascending. */
  readonly bases: readonly number[];
  readonly names: ReadonlySet<string>;
  /** Index files and seals whose `.log` is not there. */
  readonly orphans: readonly string[];
  readonly leftovers: readonly string[];
  readonly snapshots: readonly string[];
  readonly checkpoint: CheckpointState;
  /** Marked as lost by earlier repairs. */
  readonly knownLosses: readonly KnownLoss[];
}

export interface CheckpointState {
  readonly kind: 'ok' | 'slot-damaged' | 'lost' | 'missing';
  readonly value: Checkpoint | undefined;
}

export interface KnownLoss {
  readonly from: number;
  readonly to: number;
}

export const LOSSES_FILE = 'losses.json';
const LOSSES_BYTES_MAX = 4 * 1024 * 1024;

export async function readLogFiles(deps: ToolDeps, directory: string): Promise<LogFiles> {
  const entries = await deps.disk.readDirectory(directory);
  const names = new Set(entries.filter(({ kind }) => kind === 'file').map(({ name }) => name));
  const bases: number[] = [];
  const orphans: string[] = [];
  const leftovers: string[] = [];
  const snapshots: string[] = [];
  for (const name of names) {
    const parsed = parseSegmentFileName(name);
    if (/\.(?:tmp|deleted|spare)$/.test(name)) leftovers.push(name);
    else if (parsed?.suffix === 'log') bases.push(parsed.baseOffset);
    else if (parsed?.suffix === 'snapshot') snapshots.push(name);
    else if (parsed !== undefined && !names.has(segmentFileName(parsed.baseOffset, 'log'))) orphans.push(name);
  }
  return {
    directory,
    bases: bases.toSorted((left, right) => left - right),
    names,
    orphans,
    leftovers,
    snapshots,
    checkpoint: await readCheckpoint(deps, directory),
    knownLosses: await readLosses(deps, directory),
  };
}

export function sideName(base: number, suffix: SegmentSuffix): string {
  return segmentFileName(base, suffix);
}

async function readCheckpoint(deps: ToolDeps, directory: string): Promise<CheckpointState> {
  const bytes = await readSmallFile(deps.disk, within(directory, 'checkpoint'), 16 * CHECKPOINT_SLOT_BYTES);
  if (bytes === undefined) return { kind: 'missing', value: undefined };
  const newest = newestCheckpoint(bytes, deps.crc32c);
  if (newest === undefined) return { kind: 'lost', value: undefined };
  const { value, slot } = newest;
  const other = bytes.subarray((1 - slot) * CHECKPOINT_SLOT_BYTES, (2 - slot) * CHECKPOINT_SLOT_BYTES);
  // A slot that was never written is empty; the second one is written once the first has been synced.
  const isEmpty = isZero(other, 0, other.length) && (other.length === 0 || other.length === CHECKPOINT_SLOT_BYTES);
  const isGood = (isEmpty && slot === 0) || decodeCheckpoint(other, deps.crc32c).ok;
  return { kind: isGood ? 'ok' : 'slot-damaged', value };
}

async function readLosses(deps: ToolDeps, directory: string): Promise<readonly KnownLoss[]> {
  const bytes = await readSmallFile(deps.disk, within(directory, LOSSES_FILE), LOSSES_BYTES_MAX);
  return bytes === undefined ? [] : decodeLosses(bytes);
}

/** One that cannot be read marks nothing: what it marked is reported as lost again. */
function decodeLosses(bytes: Uint8Array): readonly KnownLoss[] {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    if (typeof value !== 'object' || value === null || !('losses' in value) || !Array.isArray(value.losses)) return [];
    return value.losses.filter(isLoss);
  } catch {
    return [];
  }
}

function isLoss(value: unknown): value is KnownLoss {
  return (
    typeof value === 'object' &&
    value !== null &&
    'from' in value &&
    'to' in value &&
    Number.isSafeInteger(value.from) &&
    Number.isSafeInteger(value.to)
  );
}

export function encodeLosses(losses: readonly KnownLoss[]): Uint8Array {
  return new TextEncoder().encode(
    `${JSON.stringify({ version: 1, losses: losses.map(({ from, to }) => ({ from, to })) })}\n`,
  );
}
