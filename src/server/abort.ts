// How the process ends when going on would break a promise: one line that says why, then abort.
import { writeSync } from 'node:fs';
import { FATAL, type FatalReason } from '../base/fatal.ts';

const STANDARD_ERROR = 2;
/** What a shell makes of the signal that abort ends with. */
const ABORT_STATUS = 134;
const BUG_ADVICE = 'The program found itself in a state that must not be: a bug. What was acknowledged is on disk.';

/** Conditions of the outside world, and bugs of ours. */
export type AbortReason = FatalReason | 'INVARIANT_BROKEN';

/**
 * Writes one line of JSON to standard error and aborts. Not `process.exit`: exit hooks of native modules sync files again,
 * and a sync after a failed one claims success for bytes that are lost.
 */
export function abortProcess(reason: AbortReason, detail: string, cause: unknown): never {
  const line = {
    level: 'fatal',
    time: new Date().toISOString(),
    event: 'fatal',
    reason,
    status: ABORT_STATUS,
    detail,
    cause: cause instanceof Error ? (cause.stack ?? cause.message) : cause,
    advice: reason === 'INVARIANT_BROKEN' ? BUG_ADVICE : FATAL[reason].sentence,
    pid: process.pid,
  };
  try {
    writeSync(STANDARD_ERROR, `${JSON.stringify(line)}\n`);
  } catch {
    // Nobody reads it; the end comes all the same.
  }
  process.abort();
}
