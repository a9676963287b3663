// How nodes of a cluster ask each other.
import type { ErrorName } from '../base/errors.ts';

export interface PeerCall {
  readonly operation: number;
  readonly version: number;
  /** Not copied: unchanged until the answer. */
  readonly body: readonly Uint8Array[];
  readonly timeoutMs: number;
  /**
   * Called with the answer's body where it lies in the receive buffer, good during this call only; the promise's body is empty then.
   * For large answers: without it they are copied.
   */
  readonly onBody?: (view: Uint8Array) => void;
}

export type PeerAnswer =
  | { readonly ok: true; readonly body: Uint8Array }
  /** NOT_CONNECTED: surely not sent. CONNECTION_LOST, REQUEST_TIMEOUT: unknown. Others: what the peer answered. */
  | { readonly ok: false; readonly code: ErrorName; readonly message: string | undefined };

export interface Peers {
  /** Never rejects. */
  call(nodeId: number, call: PeerCall): Promise<PeerAnswer>;
  /** A connection to it stands, and it has said Hello. */
  isUp(nodeId: number): boolean;
  onChange(listener: (nodeId: number, up: boolean) => void): () => void;
}
