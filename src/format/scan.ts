// Walks batches that stand one behind the other, and says where the good ones end and why.
import { readU32 } from '../base/bytes.ts';
import type { Crc32c } from '../base/checksum.ts';
import { BATCH_BYTES_MAX } from '../base/limits.ts';
import {
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  BATCH_LENGTH_OVERHEAD,
  checkBatch,
  type BatchFault,
  type BatchHeader,
} from './batch.ts';
import { epochAt, type EpochEntry } from './epochs.ts';

/** What the next batch of a log has to say of itself. */
export interface Expected {
  readonly offset: number;
  /** Lowest epoch that may come now. */
  readonly epochAtLeast: number;
  /** From its first entry up to `epochsUpTo` (absent: without end), the epoch of a batch must be the one it names. */
  readonly epochs?: readonly EpochEntry[];
  readonly epochsUpTo?: number;
}

/**
 * end: the bytes end where a batch ends. zeros: prepared space that nobody has written. incomplete: a batch, so far good,
 * that the bytes end inside of. Otherwise what is wrong; 'epoch' is an epoch that went back or is not that of the history.
 */
export type ScanStop = 'end' | 'zeros' | 'incomplete' | 'epoch' | BatchFault;

export type NextBatch =
  | { readonly kind: 'batch'; readonly header: BatchHeader; readonly size: number }
  | { readonly kind: 'stop'; readonly stop: ScanStop; readonly detail: string };

function stopped(stop: ScanStop, detail: string): NextBatch {
  return { kind: 'stop', stop, detail };
}

/** The batch at `at`, checked: structure, checksum, offset, epoch. Looks at nothing behind `to`. */
export function nextBatch(bytes: Uint8Array, at: number, to: number, expected: Expected, crc32c: Crc32c): NextBatch {
  const left = to - at;
  if (left === 0) return stopped('end', '');
  if (isZero(bytes, at, at + Math.min(left, BATCH_HEADER_BYTES))) return stopped('zeros', '');
  if (left < BATCH_HEADER_BYTES)
    return stopped('incomplete', `${String(left)} bytes, a header has ${String(BATCH_HEADER_BYTES)}`);
  const checked = checkBatch(to === bytes.length ? bytes : bytes.subarray(0, to), at, crc32c);
  if (!checked.ok) return stopped(checked.fault === 'short' ? 'incomplete' : checked.fault, checked.detail);
  const { header, size } = checked;
  if (header.baseOffset !== expected.offset)
    return stopped('offset', `base offset ${String(header.baseOffset)}, expected ${String(expected.offset)}`);
  if (header.leaderEpoch < expected.epochAtLeast) {
    return stopped('epoch', `leader epoch ${String(header.leaderEpoch)} after ${String(expected.epochAtLeast)}`);
  }
  const { epochs, epochsUpTo = Number.POSITIVE_INFINITY } = expected;
  const known =
    epochs === undefined || header.baseOffset >= epochsUpTo ? undefined : epochAt(epochs, header.baseOffset);
  if (known !== undefined && header.leaderEpoch !== known) {
    return stopped(
      'epoch',
      `leader epoch ${String(header.leaderEpoch)}, the history has ${String(known)} at that offset`,
    );
  }
  return { kind: 'batch', header, size };
}

export interface ScanResult {
  /** Behind the last good batch. */
  readonly validUpTo: number;
  readonly nextOffset: number;
  /** Epoch of the last good batch, or `epochAtLeast` when there is none. */
  readonly epoch: number;
  readonly stop: ScanStop;
  readonly detail: string;
}

/** All good batches from `from` on, in order. `visit` may say false to end before the next batch ('end'). */
export function scanBatches(
  source: Uint8Array,
  from: number,
  expected: Expected,
  crc32c: Crc32c,
  visit?: (header: BatchHeader, at: number) => boolean | undefined,
): ScanResult {
  let at = from;
  let { offset, epochAtLeast } = expected;
  for (;;) {
    const next = nextBatch(source, at, source.length, { ...expected, offset, epochAtLeast }, crc32c);
    if (next.kind === 'stop')
      return { validUpTo: at, nextOffset: offset, epoch: epochAtLeast, stop: next.stop, detail: next.detail };
    const more = visit?.(next.header, at);
    at += next.size;
    offset = next.header.lastOffset + 1;
    epochAtLeast = next.header.leaderEpoch;
    if (more === false) return { validUpTo: at, nextOffset: offset, epoch: epochAtLeast, stop: 'end', detail: '' };
  }
}

/** Would this be a batch, were there more bytes: the length is one that is allowed, and reaches behind `to`. */
export function declaredSize(bytes: Uint8Array, at: number): number | undefined {
  const size = readU32(bytes, at + BATCH_LENGTH_AT) + BATCH_LENGTH_OVERHEAD;
  return size >= BATCH_HEADER_BYTES && size <= BATCH_BYTES_MAX ? size : undefined;
}

export function isZero(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if (bytes[at] !== 0) return false;
  return true;
}
