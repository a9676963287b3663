// Walks the batches of a file from a known boundary, in bounded pieces, checking each: structure, checksum, offset, epoch.
import { offset, position, type Offset } from '../base/brands.ts';
import type { Crc32c } from '../base/checksum.ts';
import { BATCH_HEADER_BYTES, readBatchHeader, type BatchHeader } from '../format/batch.ts';
import type { EpochEntry } from '../format/epochs.ts';
import { declaredSize, isZero, nextBatch } from '../format/scan.ts';
import type { Clock } from '../ports/clock.ts';
import type { DiskFile } from '../ports/disk.ts';

const PIECE_BYTES = 1024 * 1024;

export interface WalkFrom {
  readonly position: number;
  readonly offset: Offset;
  /** Lowest epoch the next batch may have. */
  readonly epochAtLeast: number;
  /** Nothing is read at or above. */
  readonly to: number;
  /** Below `epochsUpTo` a batch must have the epoch that this history names. */
  readonly epochs?: readonly EpochEntry[];
  readonly epochsUpTo?: number;
}

/**
 * Where a walk stopped. end: exactly at `to`. zeros: 64 zero bytes, or zeros up to `to`. Otherwise the first fault;
 * `header` is what stood there, if enough bytes did, and is not to be trusted.
 */
export interface WalkStop {
  readonly kind: 'end' | 'zeros' | 'fault' | 'stopped';
  readonly position: number;
  readonly offset: Offset;
  readonly epoch: number;
  readonly detail: string;
  readonly header: BatchHeader | undefined;
}

export interface WalkedBatch {
  readonly header: BatchHeader;
  readonly position: number;
  /** Valid during the visit only. */
  readonly bytes: Uint8Array;
}

/** Visiting returns false to stop before the next batch. */
export async function walkFile(
  file: DiskFile,
  clock: Clock,
  crc32c: Crc32c,
  from: WalkFrom,
  visit: (batch: WalkedBatch) => boolean | undefined,
): Promise<WalkStop> {
  let buffer = new Uint8Array(Math.min(PIECE_BYTES, Math.max(from.to - from.position, BATCH_HEADER_BYTES)));
  let at = from.position;
  let next = from.offset;
  let epoch = from.epochAtLeast;
  const stop = (kind: WalkStop['kind'], detail: string, header?: BatchHeader): WalkStop => ({
    kind,
    position: at,
    offset: next,
    epoch,
    detail,
    header,
  });
  while (at < from.to) {
    const wanted = Math.min(buffer.length, from.to - at);
    const got = await file.read(buffer.subarray(0, wanted), position(at));
    const piece = buffer.subarray(0, got);
    const isLast = at + got >= from.to || got < wanted;
    let used = 0;
    for (;;) {
      const left = got - used;
      if (left === 0 && isLast) return stop('end', '');
      if (left < BATCH_HEADER_BYTES) {
        if (!isLast) break;
        return isZero(piece, used, got) ? stop('zeros', '') : stop('fault', 'fewer bytes than a header');
      }
      if (isZero(piece, used, used + BATCH_HEADER_BYTES)) return stop('zeros', '');
      const size = declaredSize(piece, used);
      if (size !== undefined && size > left && !isLast) {
        if (size > buffer.length) buffer = new Uint8Array(size);
        break;
      }
      const batch = nextBatch(piece, used, got, { ...from, offset: next, epochAtLeast: epoch }, crc32c);
      if (batch.kind === 'stop') {
        return stop('fault', `${batch.stop}: ${batch.detail}`, readBatchHeader(piece, used));
      }
      const { header } = batch;
      const more = visit({ header, position: at, bytes: piece.subarray(used, used + batch.size) });
      at += batch.size;
      used += batch.size;
      next = offset(header.lastOffset + 1);
      epoch = header.leaderEpoch;
      if (more === false) return stop('stopped', '');
    }
    await clock.yieldNow();
  }
  return stop('end', '');
}
