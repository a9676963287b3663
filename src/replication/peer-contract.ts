// How nodes of a cluster ask each other.
import type { ErrorName } from '../base/errors.ts';

export interface PeerCall {
  readonly operation: number;
  readonly version: number;
  /** Not copied: unchanged until the answer. */
  readonly body: readonly Uint8Array[];
  readonly timeoutMs: number;
}

export type PeerAnswer =
  /** A view of the receive buffer: read it before anything else is awaited. */
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
