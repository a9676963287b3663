// What a partition remembers of its producers, so that a batch sent again is stored once. Derived from batch headers; a
// snapshot saves walking the whole log.
import { assert } from '../../base/assert.ts';
import { offset, type Offset } from '../../base/brands.ts';

/** The results of so many batches are remembered for each producer: as many as may be in flight. */
export const PRODUCER_WINDOW = 5;
export const PRODUCERS_MAX_DEFAULT = 10_000;
/** Sequences go from 2^31 - 1 to 0. */
const SEQUENCE_SPAN = 2 ** 31;

/** The fields of a batch header that matter here. */
export interface ProducerBatch {
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly recordCount: number;
}

export interface RememberedBatch {
  readonly baseSequence: number;
  readonly recordCount: number;
  readonly baseOffset: Offset;
  readonly lastOffset: Offset;
}

export interface ProducerState {
  epoch: number;
  /** Oldest first, at most PRODUCER_WINDOW. */
  batches: RememberedBatch[];
  /** Last offset of the newest batch that was forgotten (by age or by a newer epoch); -1: none was. */
  forgottenTo: number;
  /** Of the caller's forward clock, at the last append. May be negative after a restart. */
  lastAppendMs: number;
}

export type SequenceVerdict =
  | { readonly kind: 'append' }
  /** In the log already, at these offsets. */
  | { readonly kind: 'duplicate'; readonly baseOffset: Offset; readonly lastOffset: Offset }
  | {
      readonly kind: 'rejected';
      readonly code: 'OUT_OF_ORDER_SEQUENCE' | 'UNKNOWN_PRODUCER';
      readonly expectedSequence: number;
    }
  | { readonly kind: 'rejected'; readonly code: 'PRODUCER_FENCED'; readonly producerEpoch: number }
  | { readonly kind: 'rejected'; readonly code: 'DUPLICATE_SEQUENCE' };

const APPEND: SequenceVerdict = { kind: 'append' };

export function nextSequence(baseSequence: number, recordCount: number): number {
  return (baseSequence + recordCount) % SEQUENCE_SPAN;
}

/** Of one producer that is known. */
export function judgeSequence(state: Pick<ProducerState, 'epoch' | 'batches'>, batch: ProducerBatch): SequenceVerdict {
  if (batch.producerEpoch < state.epoch)
    return { kind: 'rejected', code: 'PRODUCER_FENCED', producerEpoch: state.epoch };
  if (batch.producerEpoch > state.epoch) {
    return batch.baseSequence === 0 ? APPEND : { kind: 'rejected', code: 'OUT_OF_ORDER_SEQUENCE', expectedSequence: 0 };
  }
  const newest = state.batches.at(-1);
  assert(newest !== undefined, 'a known producer has a batch');
  const expected = nextSequence(newest.baseSequence, newest.recordCount);
  if (batch.baseSequence === expected) return APPEND;
  for (const known of state.batches) {
    if (known.baseSequence === batch.baseSequence && known.recordCount === batch.recordCount) {
      return { kind: 'duplicate', baseOffset: known.baseOffset, lastOffset: known.lastOffset };
    }
  }
  // Behind by less than half of the span, and wholly so, is old; all else is a gap, or has records that are not in the log.
  const behind = (expected - batch.baseSequence + SEQUENCE_SPAN) % SEQUENCE_SPAN;
  if (behind <= SEQUENCE_SPAN / 2 && batch.recordCount <= behind)
    return { kind: 'rejected', code: 'DUPLICATE_SEQUENCE' };
  return { kind: 'rejected', code: 'OUT_OF_ORDER_SEQUENCE', expectedSequence: expected };
}

export class ProducerTable {
  private readonly max: number;
  /** Least recently appended first. */
  private readonly states = new Map<number, ProducerState>();
  /** Producers forgotten because there were too many: they will be told UNKNOWN_PRODUCER. */
  evicted = 0;

  constructor(max: number = PRODUCERS_MAX_DEFAULT) {
    assert(max >= 1, 'a table for at least one producer');
    this.max = max;
  }

  get size(): number {
    return this.states.size;
  }
  entries(): IterableIterator<[number, ProducerState]> {
    return this.states.entries();
  }

  /** Only for batches that have a producer id. */
  judge(batch: ProducerBatch): SequenceVerdict {
    const state = this.states.get(batch.producerId);
    if (state !== undefined) return judgeSequence(state, batch);
    // On an empty partition too: a first request that was overtaken by the second must not be lost.
    return batch.baseSequence === 0 ? APPEND : { kind: 'rejected', code: 'UNKNOWN_PRODUCER', expectedSequence: 0 };
  }

  /** A batch was appended (or found in the log, in order). */
  record(batch: ProducerBatch, baseOffset: Offset, nowMs: number): void {
    const lastOffset = offset(baseOffset + batch.recordCount - 1);
    const remembered = { baseSequence: batch.baseSequence, recordCount: batch.recordCount, baseOffset, lastOffset };
    const state = this.states.get(batch.producerId);
    if (state === undefined) {
      if (this.states.size >= this.max) this.evictOldest();
      this.states.set(batch.producerId, {
        epoch: batch.producerEpoch,
        batches: [remembered],
        forgottenTo: -1,
        lastAppendMs: nowMs,
      });
      return;
    }
    // Moves to the end of the map: the order of the last appends.
    this.states.delete(batch.producerId);
    this.states.set(batch.producerId, state);
    if (batch.producerEpoch !== state.epoch) {
      state.forgottenTo = state.batches.at(-1)?.lastOffset ?? state.forgottenTo;
      state.epoch = batch.producerEpoch;
      state.batches = [];
    } else if (state.batches.length === PRODUCER_WINDOW) {
      state.forgottenTo = state.batches.shift()?.lastOffset ?? state.forgottenTo;
    }
    state.batches.push(remembered);
    state.lastAppendMs = nowMs;
  }

  restore(producer: number, state: ProducerState): void {
    this.states.delete(producer);
    if (this.states.size >= this.max) this.evictOldest();
    this.states.set(producer, state);
  }

  /** Forgets producers without an append for so long. Returns how many. */
  expire(nowMs: number, expiryMs: number): number {
    let count = 0;
    for (const [producer, state] of this.states) {
      if (nowMs - state.lastAppendMs < expiryMs) break;
      this.states.delete(producer);
      count += 1;
    }
    return count;
  }

  /**
   * Forgets batches at and above `to`. False: a producer would be left without the batch before them, which was forgotten
   * long ago; the table has to be made again from a snapshot and the log.
   */
  truncate(to: Offset): boolean {
    const below = this.statesBelow(to);
    if (below === undefined) return false;
    this.states.clear();
    for (const [producer, state] of below) this.states.set(producer, state);
    return true;
  }

  /** The states as of the moment when the log ended at `to`; undefined: they cannot be told any more. */
  statesBelow(to: Offset): Map<number, ProducerState> | undefined {
    const result = new Map<number, ProducerState>();
    for (const [producer, state] of this.states) {
      const batches = state.batches.filter((batch) => batch.lastOffset < to);
      if (state.forgottenTo >= to || (batches.length === 0 && state.forgottenTo >= 0)) return undefined;
      if (batches.length > 0) result.set(producer, { ...state, batches });
    }
    return result;
  }

  private evictOldest(): void {
    for (const producer of this.states.keys()) {
      this.states.delete(producer);
      this.evicted += 1;
      return;
    }
  }
}
