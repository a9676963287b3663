// One connection over a socket of Node. Bytes arrive by one of two ways: read by the system straight into the handler's
// buffer ("onread"), or copied there from 'data' events, where the first way is not to be had (TLS).
import type * as net from 'node:net';
import type { Address, Connection, ConnectionHandler } from '../ports/network.ts';

/** Above this many unsent bytes `send` answers false; `drained` comes when half of it has left. */
export const OUTPUT_MARK_BYTES: number = 4 * 1024 * 1024;

/** An onread buffer is wanted before the handler is known: so the first byte comes here, all others to the handler. */
const FIRST_BYTE = 1;

interface Sent {
  readonly bytes: number;
  readonly sent: (() => void) | undefined;
}

export interface ConnectionFacts {
  readonly remote: Address;
  readonly peerIdentity: string | undefined;
}

/** Where `net` puts what it reads. Made before its socket, bound to a connection later. */
export class DirectReceiver {
  private readonly first = new Uint8Array(FIRST_BYTE);
  private owner: TcpConnection | undefined;
  readonly onread: { buffer: () => Uint8Array; callback: (bytes: number, buffer: Uint8Array) => boolean };
  constructor() {
    this.onread = {
      buffer: () => this.owner?.directBuffer() ?? this.first,
      callback: (bytes, buffer) => {
        if (this.owner === undefined) return false;
        return buffer === this.first || buffer.buffer === this.first.buffer
          ? this.owner.receivedCopy(buffer.subarray(0, bytes))
          : this.owner.receivedInPlace(bytes);
      },
    };
  }
  bind(owner: TcpConnection): void {
    this.owner = owner;
  }
}

export class TcpConnection implements Connection {
  readonly remote: Address;
  readonly remoteLabel: string;
  readonly peerIdentity: string | undefined;
  private readonly socket: net.Socket;
  private handler: ConnectionHandler | undefined;
  private readonly queue: Sent[] = [];
  private queueHead = 0;
  private unsent = 0;
  private overMark = false;
  private paused = false;
  private ending = false;
  private over = false;
  private fault: Error | undefined;
  private linger: NodeJS.Timeout | undefined;
  /** A chunk of a 'data' event whose rest waits for `resume`. */
  private rest: Uint8Array | undefined;
  private restScheduled = false;

  constructor(socket: net.Socket, facts: ConnectionFacts) {
    this.socket = socket;
    this.remote = facts.remote;
    this.remoteLabel = facts.remote.host;
    this.peerIdentity = facts.peerIdentity;
    socket.on('error', (error) => {
      this.fault ??= error;
    });
    socket.on('close', () => {
      this.finish();
    });
  }

  /** From here on events reach the handler. `events`: also listen for 'data', because nothing is read in place. */
  attach(handler: ConnectionHandler, events: boolean): void {
    this.handler = handler;
    if (events) {
      this.socket.on('data', (chunk: Uint8Array) => {
        if (this.receivedCopy(chunk)) return;
        this.socket.pause();
      });
    }
    // Accepted sockets are handed over paused, so that nothing is read before there is a handler.
    if (this.paused) this.socket.pause();
    else this.socket.resume();
    // The peer's end: with allowHalfOpen off, Node sends what is queued and closes.
    this.socket.on('end', () => {
      this.ending = true;
    });
  }

  get unsentBytes(): number {
    return this.unsent;
  }

  send(pieces: readonly Uint8Array[], sent?: () => void): boolean {
    if (this.over || this.ending || this.socket.destroyed || !this.socket.writable) {
      if (sent !== undefined) process.nextTick(sent);
      return false;
    }
    let bytes = 0;
    for (const piece of pieces) bytes += piece.length;
    this.queue.push({ bytes, sent });
    this.unsent += bytes;
    if (pieces.length === 1) this.socket.write(pieces[0] ?? EMPTY, this.taken);
    else this.writeTogether(pieces);
    if (this.unsent > OUTPUT_MARK_BYTES) this.overMark = true;
    return !this.overMark;
  }

  pause(): void {
    this.paused = true;
    if (this.handler !== undefined) this.socket.pause();
  }

  resume(): void {
    this.paused = false;
    if (this.handler === undefined || this.over) return;
    if (this.rest !== undefined) this.scheduleRest();
    else this.socket.resume();
  }

  end(lingerMs: number): void {
    if (this.over || this.linger !== undefined) return;
    this.ending = true;
    this.linger = setTimeout(() => {
      this.socket.destroy();
    }, lingerMs);
    this.socket.end();
    // Unread bytes would make the system answer with a reset, which can overtake our last answer: read and drop them.
    this.rest = undefined;
    this.paused = false;
    this.socket.resume();
  }

  destroy(reason?: Error): void {
    if (reason !== undefined) this.fault ??= reason;
    this.ending = true;
    this.rest = undefined;
    this.socket.destroy();
  }

  /** Where the system may put the next bytes; undefined before there is a handler. */
  directBuffer(): Uint8Array | undefined {
    return this.ending ? DISCARDED : this.handler?.receiveBuffer();
  }

  /** False: read no more. */
  receivedInPlace(bytes: number): boolean {
    if (this.ending) return true;
    this.handler?.received(bytes);
    return !this.paused;
  }

  /** Copies into the handler's buffer, piece by piece; what a pause leaves over waits. False: read no more. */
  receivedCopy(chunk: Uint8Array): boolean {
    let at = 0;
    while (at < chunk.length && !this.paused && !this.ending && this.handler !== undefined) {
      const target = this.handler.receiveBuffer();
      const size = Math.min(target.length, chunk.length - at);
      target.set(chunk.subarray(at, at + size));
      at += size;
      this.handler.received(size);
    }
    if (this.ending) return true;
    // A copy: the system reuses what it read into.
    if (at < chunk.length) this.rest = chunk.slice(at);
    return !this.paused;
  }

  private scheduleRest(): void {
    if (this.restScheduled) return;
    this.restScheduled = true;
    process.nextTick(() => {
      this.restScheduled = false;
      const { rest } = this;
      if (rest === undefined || this.over || this.ending || this.paused) return;
      this.rest = undefined;
      if (this.receivedCopy(rest)) this.socket.resume();
    });
  }

  private writeTogether(pieces: readonly Uint8Array[]): void {
    const last = pieces.length - 1;
    if (last < 0) {
      this.socket.write(EMPTY, this.taken);
      return;
    }
    this.socket.cork();
    for (let index = 0; index < last; index += 1) this.socket.write(pieces[index] ?? EMPTY);
    this.socket.write(pieces[last] ?? EMPTY, this.taken);
    this.socket.uncork();
  }

  /** The oldest send is out of our hands: writes complete, or fail, in order. */
  private readonly taken = (): void => {
    const done = this.queue[this.queueHead];
    if (done === undefined) return;
    this.queueHead += 1;
    if (this.queueHead === this.queue.length || this.queueHead === 1024) {
      this.queue.splice(0, this.queueHead);
      this.queueHead = 0;
    }
    this.unsent -= done.bytes;
    done.sent?.();
    if (this.overMark && this.unsent <= OUTPUT_MARK_BYTES / 2 && !this.over && !this.socket.destroyed) {
      this.overMark = false;
      this.handler?.drained();
    }
  };

  /** The descriptor is closed: nothing is read from the pieces any more, so what is still owed is given back. */
  private finish(): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.linger);
    this.rest = undefined;
    while (this.queueHead < this.queue.length) this.taken();
    this.handler?.closed(this.fault);
  }
}

const EMPTY = new Uint8Array(0);
/** What comes after our end goes here, from all connections. */
const DISCARDED = new Uint8Array(64 * 1024);
