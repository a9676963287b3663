/** Where to connect or listen. Port 0 when listening: any free port. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * What the owner of a connection does with its events. Bytes are received in place: the transport asks `receiveBuffer` for
 * room, puts bytes at its start and calls `received`. The owner may hand out a part of one large buffer each time, so that
 * a frame is assembled without copying. Views of the buffer are valid until the owner itself reuses it.
 */
export interface ConnectionHandler {
  /** Never empty. Called before each read. */
  receiveBuffer(): Uint8Array;
  received(bytes: number): void;
  /** The output has drained below its mark after a `send` returned false. */
  drained(): void;
  /** Called exactly once, last. `error` when the connection broke; undefined at an orderly end by either side. */
  closed(error: Error | undefined): void;
}

export interface Connection {
  readonly remote: Address;
  /** For logs and for limits by address. */
  readonly remoteLabel: string;
  /** Who the peer proved to be at the transport level (TLS client certificate subject), if anyone. */
  readonly peerIdentity: string | undefined;
  /**
   * Queues the pieces in order, without copying. `sent` is called once, when the kernel has taken all of them or the
   * connection is gone: only then may their memory be reused or unmapped. False: the output is over its mark, send no more
   * than what is owed until `drained`.
   */
  send(pieces: readonly Uint8Array[], sent?: () => void): boolean;
  /** Bytes queued and not yet taken by the kernel. */
  readonly unsentBytes: number;
  /** Stops reading: the peer is slowed down by its own full buffers. */
  pause(): void;
  resume(): void;
  /** Sends what is queued, then closes; destroys after `lingerMs`. */
  end(lingerMs: number): void;
  /** Closes at once; queued output is dropped. */
  destroy(reason?: Error): void;
}

export interface Listener {
  readonly address: Address;
  /** Stops accepting; existing connections go on. */
  close(): Promise<void>;
}

export interface TlsOptions {
  /** PEM. */
  readonly certificate?: string;
  readonly key?: string;
  readonly clientAuthorities?: string;
  readonly authorities?: string;
  readonly serverName?: string;
}

export interface Network {
  /** The callback returns the handler of a new connection, or undefined to refuse it (it is then closed). */
  listen(
    address: Address,
    accept: (connection: Connection) => ConnectionHandler | undefined,
    tls?: TlsOptions,
  ): Promise<Listener>;
  /** Rejects when not connected within `timeoutMs`. */
  connect(
    address: Address,
    timeoutMs: number,
    attach: (connection: Connection) => ConnectionHandler,
    tls?: TlsOptions,
  ): Promise<Connection>;
}
