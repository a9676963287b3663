import { type ErrorFacts, type ErrorName, type Outcome, RivuletError, isRivuletError } from '../base/errors.ts';

/**
 * The failure of a publish. Its outcome follows from all attempts, not from the last error alone: a refusal after an attempt
 * that may have been appended is still 'unknown'.
 */
export class DeliveryError extends RivuletError {
  readonly #outcome: Outcome;
  constructor(
    code: ErrorName,
    outcome: Outcome,
    message: string,
    options: { facts?: ErrorFacts; cause?: unknown } = {},
  ) {
    super(code, message, options);
    this.#outcome = outcome;
  }
  override get outcome(): Outcome {
    return this.#outcome;
  }
}

/** Errors of the transport, of decoders and the like, as users of the client see them. */
export function asRivuletError(error: unknown, code: ErrorName): RivuletError {
  if (isRivuletError(error)) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new RivuletError(code, detail, { cause: error });
}

/** Rejects when the signal aborts; leaves no listener behind. The promise given must be bounded by its owner. */
export async function withSignal<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await work;
  const aborted = (): RivuletError => new RivuletError('ABORTED', undefined, { cause: signal.reason });
  if (signal.aborted) {
    work.catch(() => undefined);
    throw aborted();
  }
  return await new Promise<T>((resolve, reject) => {
    const onAbort = (): void => {
      reject(aborted());
    };
    signal.addEventListener('abort', onAbort, { once: true });
    work
      .then(resolve, reject)
      .finally(() => {
        signal.removeEventListener('abort', onAbort);
      })
      .catch(() => undefined);
  });
}
