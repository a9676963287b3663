// The facts that travel with errors: their names, so that both sides and the documentation spell them alike.
import type { ErrorName } from '../base/errors.ts';

export interface FactEntry {
  readonly type: 'string' | 'i64' | 'bool';
  /** Errors that carry it where the broker knows it. A client must do without. */
  readonly with: readonly ErrorName[];
  readonly sentence: string;
}

export type FactName =
  | 'spoken'
  | 'retryAfterMs'
  | 'leaderId'
  | 'leaderHost'
  | 'leaderPort'
  | 'leaderEpoch'
  | 'logStart'
  | 'highWatermark'
  | 'damagedFrom'
  | 'damagedTo'
  | 'divergingEpoch'
  | 'divergingEndOffset'
  | 'baseOffset'
  | 'lastOffset'
  | 'expectedSequence'
  | 'producerEpoch'
  | 'generation'
  | 'committedOffset'
  | 'setting'
  | 'bytesMax';

export const FACTS: Readonly<Record<FactName, FactEntry>> = {
  spoken: {
    type: 'string',
    with: ['UNSUPPORTED_OPERATION', 'UNSUPPORTED_VERSION'],
    sentence: 'What the broker speaks: `operation:lowest-highest`, separated by spaces.',
  },
  retryAfterMs: {
    type: 'i64',
    with: ['THROTTLED', 'TOO_MANY_REQUESTS', 'STORAGE_FULL', 'DISK_PRESSURE', 'SHUTTING_DOWN'],
    sentence: 'Wait this long before the next attempt.',
  },
  leaderId: {
    type: 'i64',
    with: ['NOT_LEADER', 'FENCED_LEADER_EPOCH', 'COORDINATOR_NOT_AVAILABLE'],
    sentence: 'Node id of the leader, or of the coordinator, as this node knows it.',
  },
  leaderHost: {
    type: 'string',
    with: ['NOT_LEADER', 'FENCED_LEADER_EPOCH', 'COORDINATOR_NOT_AVAILABLE'],
    sentence: 'Its host.',
  },
  leaderPort: {
    type: 'i64',
    with: ['NOT_LEADER', 'FENCED_LEADER_EPOCH', 'COORDINATOR_NOT_AVAILABLE'],
    sentence: 'Its port.',
  },
  leaderEpoch: {
    type: 'i64',
    with: ['NOT_LEADER', 'FENCED_LEADER_EPOCH', 'UNKNOWN_LEADER_EPOCH'],
    sentence: 'Leader epoch as this node knows it.',
  },
  logStart: {
    type: 'i64',
    with: ['OFFSET_EXPIRED', 'OFFSET_BEYOND_END', 'LOG_TRUNCATED', 'DAMAGED_RANGE', 'COMMIT_BEYOND_END'],
    sentence: 'First retained offset.',
  },
  highWatermark: {
    type: 'i64',
    with: ['OFFSET_EXPIRED', 'OFFSET_BEYOND_END', 'LOG_TRUNCATED', 'DAMAGED_RANGE', 'COMMIT_BEYOND_END'],
    sentence: 'Offset behind the last record that can be read.',
  },
  damagedFrom: { type: 'i64', with: ['DAMAGED_RANGE'], sentence: 'First offset of the damaged range.' },
  damagedTo: {
    type: 'i64',
    with: ['DAMAGED_RANGE'],
    sentence: 'First good offset behind it: where reading can go on.',
  },
  divergingEpoch: {
    type: 'i64',
    with: ['LOG_TRUNCATED'],
    sentence: 'The last leader epoch, up to the one asked with, that this log shares with what was read.',
  },
  divergingEndOffset: {
    type: 'i64',
    with: ['LOG_TRUNCATED'],
    sentence: 'Where that epoch ends here: records from this offset on may differ from what was read.',
  },
  baseOffset: {
    type: 'i64',
    with: ['COMMIT_TIMEOUT', 'LEADERSHIP_LOST'],
    sentence: 'Where the batches were appended.',
  },
  lastOffset: { type: 'i64', with: ['COMMIT_TIMEOUT', 'LEADERSHIP_LOST'], sentence: 'Offset of their last record.' },
  expectedSequence: {
    type: 'i64',
    with: ['OUT_OF_ORDER_SEQUENCE', 'UNKNOWN_PRODUCER'],
    sentence: 'The sequence that would be taken.',
  },
  producerEpoch: { type: 'i64', with: ['PRODUCER_FENCED'], sentence: 'The newer epoch.' },
  generation: { type: 'i64', with: ['STALE_GENERATION'], sentence: 'The generation that the member is in.' },
  committedOffset: { type: 'i64', with: ['COMMIT_BACKWARDS'], sentence: 'What is committed.' },
  setting: { type: 'string', with: ['INVALID_CONFIG'], sentence: 'Key of the setting.' },
  bytesMax: { type: 'i64', with: ['BATCH_TOO_LARGE'], sentence: 'The limit that was passed.' },
};
