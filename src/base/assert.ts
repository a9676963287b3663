/** A broken invariant: a bug of ours, never a condition of the outside world. Not caught anywhere: the process stops. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/** Always on, in production too. The message says what was expected and what was found. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}

/** For the default branch of an exhaustive switch. */
export function unreachable(value: never): never {
  throw new InvariantError(`unexpected value: ${JSON.stringify(value)}`);
}
