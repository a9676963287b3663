export interface Random {
  /** Uniform in [0, below). `below` is a safe integer of at least 1. */
  below(below: number): number;
  /** Fresh random bytes: identifiers, jitter, nonces. */
  bytes(size: number): Uint8Array;
}
