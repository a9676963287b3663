// Errors of the command line: one line that says what is wrong, one that says what to do, and the exit status.
import { ERRORS, isRivuletError, type ErrorName } from '../base/errors.ts';
import { FATAL, FatalError } from '../base/fatal.ts';
import { ConfigError } from '../server/config.ts';

export const STATUS_DONE = 0;
export const STATUS_FAILED = 1;
export const STATUS_USAGE = 2;

/** Wrong use of a command: exit status 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The command did its work, and its result has an exit status of its own. A message goes to standard error. */
export class EndedWith extends Error {
  override readonly name = 'EndedWith';
  readonly status: number;
  constructor(status: number, message = '') {
    super(message);
    this.status = status;
  }
}

/** A failure that the command itself explains: exit status 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly advice: string | undefined;
  constructor(message: string, advice?: string) {
    super(message);
    this.advice = advice;
  }
}

const ADVICE: Partial<Record<ErrorName, string>> = {
  UNKNOWN_TOPIC: 'Create it with: rivulet topic create NAME   (or see what there is: rivulet topic list)',
  TOPIC_EXISTS: 'Say --if-not-exists when that is fine.',
  CONFIRMATION_REQUIRED: 'Say --confirm-key-movement when that is what you want.',
  NOT_CONNECTED: 'Is a broker running there? Start one with: rivulet serve   (or name it with --server HOST:PORT)',
  CONNECTION_LOST: 'Is a broker running there? Start one with: rivulet serve   (or name it with --server HOST:PORT)',
  OFFSET_EXPIRED: 'Begin at what is retained: --from earliest   (rivulet topic describe NAME shows the range)',
  OFFSET_BEYOND_END: 'Begin at the end: --from latest   (rivulet topic describe NAME shows the range)',
  LOG_TRUNCATED:
    'Records read before were lost by an unclean restart; read again from the offset that the message names.',
  DAMAGED_RANGE:
    'Go on behind the damage with --from OFFSET, or say --skip-damaged; on the node: segtool verify DATA-DIR',
  DISK_PRESSURE:
    'Free some space on the broker\u2019s disk, or shorten retention: rivulet topic alter NAME --retention-ms …',
  STORAGE_FULL:
    'Free some space on the broker\u2019s disk, or shorten retention: rivulet topic alter NAME --retention-ms …',
  BATCH_TOO_LARGE: 'Make records or --batch-bytes smaller, or raise max.batch.bytes of the topic.',
};

export interface Explained {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly advice: string | undefined;
}

export function explain(error: unknown): Explained {
  if (error instanceof ConfigError)
    return { status: STATUS_USAGE, code: 'USAGE', message: error.message, advice: 'See rivulet serve --help.' };
  if (error instanceof UsageError)
    return { status: STATUS_USAGE, code: 'USAGE', message: error.message, advice: 'See --help.' };
  if (error instanceof EndedWith)
    return { status: error.status, code: 'FAILED', message: error.message, advice: undefined };
  if (error instanceof CommandError)
    return { status: STATUS_FAILED, code: 'FAILED', message: error.message, advice: error.advice };
  if (error instanceof FatalError) {
    return {
      status: FATAL[error.reason].status,
      code: error.reason,
      message: error.message,
      advice: FATAL[error.reason].sentence,
    };
  }
  if (isRivuletError(error)) {
    const { sentence } = ERRORS[error.code];
    const advice = ADVICE[error.code] ?? (error.message === sentence ? undefined : sentence);
    return { status: STATUS_FAILED, code: error.code, message: error.message, advice };
  }
  return {
    status: STATUS_FAILED,
    code: 'INTERNAL',
    message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    advice: undefined,
  };
}

/** One JSON line with --json, else one or two lines for people. */
export function printFailure(error: unknown, json: boolean): number {
  const { status, code, message, advice } = explain(error);
  if (json) process.stderr.write(`${JSON.stringify({ error: code, message, advice, status })}\n`);
  else
    process.stderr.write(
      `rivulet: ${code === 'USAGE' || code === 'FAILED' ? '' : `${code}: `}${message}\n${advice === undefined ? '' : `  ${advice}\n`}`,
    );
  return status;
}
