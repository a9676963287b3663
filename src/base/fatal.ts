// Conditions in which stopping is the repair. Each has its own exit status, documented in README and OPERATIONS.md.
export interface FatalEntry {
  readonly status: number;
  readonly sentence: string;
}
export type FatalReason =
  | 'DATA_DIR_LOCKED'
  | 'DATA_DIR_UNUSABLE'
  | 'FORMAT_TOO_NEW'
  | 'LISTEN_FAILED'
  | 'STORE_DAMAGED'
  | 'STORAGE_FAILED';

const table: Readonly<Record<FatalReason, FatalEntry>> = {
  DATA_DIR_LOCKED: { status: 73, sentence: 'Another process uses the data directory.' },
  DATA_DIR_UNUSABLE: { status: 74, sentence: 'The data directory cannot be created, read or written.' },
  FORMAT_TOO_NEW: { status: 75, sentence: 'The data directory was written by a newer version; use that version.' },
  LISTEN_FAILED: { status: 76, sentence: 'The listening address cannot be used.' },
  STORE_DAMAGED: {
    status: 77,
    sentence: 'The store has damage that must be looked at before it can be served; use segtool verify.',
  },
  /** Reported by the line only: the process ends by abort, so that no exit hook can sync again. */
  STORAGE_FAILED: {
    status: 134,
    sentence: 'A write, sync or read of the data directory failed; what was not answered is unknown.',
  },
};

export const FATAL: Readonly<Record<FatalReason, FatalEntry>> = table;

export class FatalError extends Error {
  override readonly name = 'FatalError';
  readonly reason: FatalReason;
  constructor(reason: FatalReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.reason = reason;
  }
}
