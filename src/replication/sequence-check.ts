// Whether the batches of one produce may be appended: all of them are new, or all are in the log already.
import { offset, type Offset } from '../base/brands.ts';
import { judgeSequence, type ProducerTable, type SequenceVerdict } from '../core/partition/producers.ts';
import type { CheckedBatch } from '../storage/contract.ts';
import type { ProduceFailure } from './contract.ts';

export type RequestVerdict =
  | { readonly kind: 'append' }
  | { readonly kind: 'duplicate'; readonly baseOffset: Offset; readonly lastOffset: Offset }
  | { readonly kind: 'rejected'; readonly failure: ProduceFailure };

const APPEND: RequestVerdict = { kind: 'append' };

export function judgeRequest(table: ProducerTable, batches: readonly CheckedBatch[]): RequestVerdict {
  let base: Offset | undefined;
  let last: Offset | undefined;
  let fresh = false;
  for (let index = 0; index < batches.length; index += 1) {
    const header = batches[index]?.header;
    if (header === undefined || header.producerId < 0) {
      fresh = true;
      continue;
    }
    const verdict = judgeOne(table, batches, index);
    if (verdict.kind === 'rejected') return { kind: 'rejected', failure: failureOf(verdict) };
    if (verdict.kind === 'append') {
      fresh = true;
      continue;
    }
    if (last !== undefined && verdict.baseOffset !== last + 1) return mixed();
    base ??= verdict.baseOffset;
    last = verdict.lastOffset;
  }
  if (base === undefined || last === undefined) return APPEND;
  return fresh ? mixed() : { kind: 'duplicate', baseOffset: base, lastOffset: last };
}

function judgeOne(table: ProducerTable, batches: readonly CheckedBatch[], index: number): SequenceVerdict {
  const header = batches[index]?.header;
  if (header === undefined) return { kind: 'append' };
  const verdict = table.judge(header);
  for (let before = index - 1; before >= 0; before -= 1) {
    const earlier = batches[before]?.header;
    if (earlier === undefined || earlier.producerId !== header.producerId) continue;
    // Sent again together with its predecessor: the table has both.
    if (verdict.kind === 'duplicate') return verdict;
    const remembered = {
      baseSequence: earlier.baseSequence,
      recordCount: earlier.recordCount,
      baseOffset: offset(0),
      lastOffset: offset(0),
    };
    const staged = judgeSequence({ epoch: earlier.producerEpoch, batches: [remembered] }, header);
    // The same batch twice in one request is no retry.
    return staged.kind === 'duplicate'
      ? { kind: 'rejected', code: 'OUT_OF_ORDER_SEQUENCE', expectedSequence: header.baseSequence + header.recordCount }
      : staged;
  }
  return verdict;
}

function mixed(): RequestVerdict {
  return {
    kind: 'rejected',
    failure: {
      ok: false,
      code: 'INVALID_BATCH',
      message: 'some of the batches are in the log already: send them again as they were sent first',
    },
  };
}

function failureOf(verdict: SequenceVerdict & { readonly kind: 'rejected' }): ProduceFailure {
  switch (verdict.code) {
    case 'PRODUCER_FENCED':
      return { ok: false, code: verdict.code, message: undefined, producerEpoch: verdict.producerEpoch };
    case 'DUPLICATE_SEQUENCE':
      return { ok: false, code: verdict.code, message: undefined };
    case 'OUT_OF_ORDER_SEQUENCE':
    case 'UNKNOWN_PRODUCER':
      return { ok: false, code: verdict.code, message: undefined, expectedSequence: verdict.expectedSequence };
  }
}
