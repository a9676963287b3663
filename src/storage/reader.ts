// Reads: find the segment, the sparse index, the batch; hand out slices of the mapping. Nothing that could block the loop
// is touched here, and nothing whose checksum has not been checked since its mapping was made: that is `prepare`.
import { assert } from '../base/assert.ts';
import { offset, position, type Offset } from '../base/brands.ts';
import { readI64, readU32 } from '../base/bytes.ts';
import { BATCH_HEADER_BYTES, BATCH_LENGTH_OVERHEAD, checkBatch } from '../format/batch.ts';
import type { MappedSlice } from '../ports/disk.ts';
import type { ReadResult } from './contract.ts';
import { recordDamage, type Fault } from './damage.ts';
import { isPressure } from './health.ts';
import type { LogState } from './log-state.ts';
import { narrowSlice, takeSlice, type Segment, type SegmentMapping } from './segment.ts';
import { loadForReading, mapSegment, rebuildSegment } from './segment-loader.ts';
import { withFile } from './sealing.ts';

const VERIFY_PIECE_BYTES = 1024 * 1024;
const DAMAGE_ROUNDS_MAX = 1000;
const LAST_OFFSET_DELTA_AT = 23;

type SegmentRead =
  | { readonly kind: 'slice'; readonly slice: MappedSlice; readonly nextOffset: Offset }
  | { readonly kind: 'cold' }
  | { readonly kind: 'nothing' };

export class Reader {
  private readonly state: LogState;
  /** Segments whose index pointed at something else than it said. */
  private readonly suspects = new Set<Segment>();
  constructor(state: LogState) {
    this.state = state;
  }

  read(from: Offset, maxBytes: number, upTo: Offset): ReadResult {
    const { state } = this;
    if (from < state.logStart) return { kind: 'expired', logStart: state.logStart, logEnd: state.logEnd };
    if (from > state.logEnd) return { kind: 'beyond', logEnd: state.logEnd };
    const damage = state.damageAt(from);
    if (damage !== undefined) return { kind: 'damaged', from: damage.from, to: damage.to };
    const limit = Math.min(upTo, state.written, state.nextDamage(from) ?? state.written);
    if (from >= limit) return { kind: 'empty' };
    const slices: MappedSlice[] = [];
    let next = from;
    let bytes = 0;
    for (let index = state.segmentIndexAt(from); index < state.segments.length && next < limit; index += 1) {
      const segment = state.segments[index];
      assert(segment !== undefined, 'a segment holds the offset');
      const found = this.readSegment(segment, next, maxBytes - bytes, limit, slices.length === 0);
      if (found.kind === 'cold' && slices.length === 0) return { kind: 'cold' };
      if (found.kind !== 'slice') break;
      slices.push(found.slice);
      bytes += found.slice.view.length;
      next = found.nextOffset;
      if (next < segment.nextOffset || bytes >= maxBytes) break;
    }
    return slices.length === 0 ? { kind: 'empty' } : { kind: 'slices', slices, nextOffset: next, bytes };
  }

  /** Loads, brings into memory and verifies what `read` with the same arguments needs first. */
  async prepare(from: Offset, maxBytes: number): Promise<void> {
    const { state } = this;
    state.health.check();
    if (from < state.logStart || from >= state.written) return;
    const segment = state.segments[state.segmentIndexAt(from)];
    if (segment === undefined) return;
    if (this.suspects.delete(segment)) await rebuildSegment(state, segment);
    await loadForReading(state, segment);
    const mapped = segment.mapped;
    if (segment.removed || mapped === undefined || segment.index === undefined) return;
    mapped.refs += 1;
    try {
      // Each round that meets damage records it; the next one starts behind it.
      for (let round = 0; round < DAMAGE_ROUNDS_MAX && state.damageAt(from) === undefined; round += 1) {
        if (await this.verify(segment, mapped, from, maxBytes)) break;
      }
    } finally {
      mapped.refs -= 1;
      if (mapped.retired && mapped.refs === 0) mapped.mapping.unmap();
    }
  }

  private readSegment(segment: Segment, from: Offset, maxBytes: number, limit: number, isFirst: boolean): SegmentRead {
    const { facts } = segment;
    if (segment.index === undefined || facts === undefined) return { kind: 'cold' };
    if ((segment.mapped === undefined && segment.sealed) || !segment.index.resident) return { kind: 'cold' };
    const mapped = this.mappingOf(segment);
    if (mapped === undefined) return { kind: 'cold' };
    if (segment.sealed) this.state.cache.touch(segment);
    const hit = segment.boundaryBelow(from);
    const verifiedEnd = Math.min(mapped.verified.verifiedEnd(hit.position), facts.size);
    if (verifiedEnd - hit.position < BATCH_HEADER_BYTES) return { kind: 'cold' };
    // Room to skip the batches between the index entry and the one that is wanted.
    let want = maxBytes + this.state.config.indexIntervalBytes + BATCH_HEADER_BYTES;
    for (;;) {
      const length = Math.min(want, verifiedEnd - hit.position);
      if (!mapped.mapping.resident(position(hit.position), length)) return { kind: 'cold' };
      const whole = takeSlice(mapped, hit.position, length);
      const cut = cutBatches(whole.view, hit.offset, { from, maxBytes, limit, isFirst });
      if (cut.kind === 'batches')
        return { kind: 'slice', slice: narrowSlice(whole, cut.start, cut.end), nextOffset: offset(cut.nextOffset) };
      whole.release();
      if (cut.kind === 'nothing') return { kind: 'nothing' };
      if (cut.kind === 'foreign') {
        this.suspects.add(segment);
        return { kind: 'cold' };
      }
      if (length === verifiedEnd - hit.position) return { kind: 'cold' };
      want = Math.max(cut.needs, length * 2);
    }
  }

  /** Undefined: too many mappings; `prepare` meets that again, and says so. */
  private mappingOf(segment: Segment): SegmentMapping | undefined {
    try {
      return mapSegment(this.state, segment);
    } catch (error) {
      if (isPressure(error)) return undefined;
      throw error;
    }
  }

  /** Checks batches until `maxBytes` of them lie at and behind `from`. False: damage was met and recorded. */
  private async verify(segment: Segment, mapped: SegmentMapping, from: Offset, maxBytes: number): Promise<boolean> {
    const { state } = this;
    const start = segment.boundaryBelow(from);
    const end = segment.size;
    const { generation } = state;
    let at = start.position;
    let next = offset(start.offset);
    let wantedAt = -1;
    let piece = VERIFY_PIECE_BYTES;
    while (at < end && (wantedAt < 0 || at - wantedAt < maxBytes)) {
      if (segment.removed || segment.mapped !== mapped) return true;
      const length = Math.min(piece, end - at);
      const damage = state.damageAt(next);
      if (damage !== undefined) return true;
      await state.health.guard('reading a segment failed', () => mapped.mapping.populate(position(at), length));
      // oxlint-disable-next-line typescript/no-unnecessary-condition -- changed by others while this waited
      if (segment.removed || segment.mapped !== mapped || state.generation !== generation) return true;
      const step = this.verifyPiece(mapped, at, next, length, at + length === end);
      if (step.kind === 'fault') {
        await this.faulty(
          segment,
          end,
          { position: step.position, offset: step.offset, header: undefined, detail: step.detail },
          step.position === start.position,
        );
        // What lies before it, and is wanted, has been verified.
        return step.offset > from;
      }
      if (step.position === at) piece = Math.max(step.needs, piece * 2);
      else if (wantedAt < 0 && step.offset > from) wantedAt = at;
      at = step.position;
      next = step.offset;
      await state.deps.clock.yieldNow();
    }
    return true;
  }

  private verifyPiece(
    mapped: SegmentMapping,
    at: number,
    expected: Offset,
    length: number,
    isLast: boolean,
  ): PieceResult {
    const { crc32c } = this.state.deps;
    const slice = takeSlice(mapped, at, length);
    const bytes = slice.view;
    let used = 0;
    let next = expected;
    const known = mapped.verified.verifiedEnd(at) - at;
    try {
      while (used < length) {
        const size =
          length - used < BATCH_HEADER_BYTES ? BATCH_HEADER_BYTES : readU32(bytes, used + 8) + BATCH_LENGTH_OVERHEAD;
        if (used + size > length && !isLast) {
          if (used > 0 || size <= MAX_STEP_BYTES) return { kind: 'ok', position: at + used, offset: next, needs: size };
          return { kind: 'fault', position: at + used, offset: next, detail: `batch of ${String(size)} bytes` };
        }
        if (used + size > known) {
          const checked = checkBatch(bytes, used, crc32c);
          if (!checked.ok)
            return { kind: 'fault', position: at + used, offset: next, detail: `${checked.fault}: ${checked.detail}` };
          if (checked.header.baseOffset !== next) {
            return {
              kind: 'fault',
              position: at + used,
              offset: next,
              detail: `base offset ${String(checked.header.baseOffset)}, expected ${String(next)}`,
            };
          }
          // Outside the checksum, and known: the last offset, because the history may begin inside a batch.
          const epoch = this.state.epochs.epochAt(offset(checked.header.lastOffset));
          if (epoch !== undefined && epoch !== checked.header.leaderEpoch) {
            return {
              kind: 'fault',
              position: at + used,
              offset: next,
              detail: `leader epoch ${String(checked.header.leaderEpoch)}, the history has ${String(epoch)}`,
            };
          }
          this.state.metrics.verifiedBytes.add(size);
        }
        next = offset(next + readU32(bytes, used + LAST_OFFSET_DELTA_AT) + 1);
        used += size;
      }
      return { kind: 'ok', position: at + used, offset: next, needs: 0 };
    } finally {
      mapped.verified.add(at, at + used);
      slice.release();
    }
  }

  private async faulty(segment: Segment, end: number, fault: Fault, atIndexEntry: boolean): Promise<void> {
    const { state } = this;
    // The index may have led to a place that is no boundary: the log decides, walked from its start.
    if (atIndexEntry && fault.position > 0) {
      await rebuildSegment(state, segment);
      if (segment.removed) return;
      const hit = segment.index?.floorPosition(fault.position);
      if (hit?.position !== fault.position && !segment.resyncs.some((resync) => resync.position === fault.position))
        return;
    }
    await withFile(state, segment, (file) => recordDamage(state, segment, file, end, fault));
  }
}

const MAX_STEP_BYTES = 16 * 1024 * 1024;

type PieceResult =
  | { readonly kind: 'ok'; readonly position: number; readonly offset: Offset; readonly needs: number }
  | { readonly kind: 'fault'; readonly position: number; readonly offset: Offset; readonly detail: string };

type Cut =
  | { readonly kind: 'batches'; readonly start: number; readonly end: number; readonly nextOffset: number }
  /** The wanted batch does not end inside the bytes. */
  | { readonly kind: 'short'; readonly needs: number }
  /** The wanted batch is over the limit. */
  | { readonly kind: 'nothing' }
  /** What stands there is not what the index said. */
  | { readonly kind: 'foreign' };

interface CutWish {
  readonly from: number;
  readonly maxBytes: number;
  readonly limit: number;
  /** The first batch is given even when it is over `maxBytes`. */
  readonly isFirst: boolean;
}

/** Whole batches from the one that holds `from`, in bytes that were verified. */
function cutBatches(bytes: Uint8Array, expected: number, wish: CutWish): Cut {
  let at = 0;
  let next = expected;
  let start = -1;
  while (at + BATCH_HEADER_BYTES <= bytes.length && next < wish.limit) {
    if (readI64(bytes, at) !== next)
      return start < 0 ? { kind: 'foreign' } : { kind: 'batches', start, end: at, nextOffset: next };
    const size = readU32(bytes, at + 8) + BATCH_LENGTH_OVERHEAD;
    const after = next + readU32(bytes, at + LAST_OFFSET_DELTA_AT) + 1;
    if (after > wish.from) {
      const first = start < 0;
      if (after > wish.limit || (at + size - (first ? at : start) > wish.maxBytes && !(first && wish.isFirst))) break;
      if (at + size > bytes.length) {
        if (first) return { kind: 'short', needs: at + size };
        break;
      }
      if (first) start = at;
    }
    at += size;
    next = after;
  }
  if (start >= 0) return { kind: 'batches', start, end: at, nextOffset: next };
  return next < wish.limit && at + BATCH_HEADER_BYTES > bytes.length
    ? { kind: 'short', needs: at + BATCH_HEADER_BYTES }
    : { kind: 'nothing' };
}
