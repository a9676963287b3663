import { assert } from '../base/assert.ts';
import type { Address, Connection, ConnectionHandler } from '../ports/network.ts';
import type { SeededRandom } from './random.ts';
import type { CancelEvent, Owner, Scheduler } from './scheduler.ts';

export type NetworkErrorCode = 'ECONNREFUSED' | 'ECONNRESET' | 'ETIMEDOUT' | 'EADDRINUSE' | 'ECANCELED';

export class SimNetworkError extends Error {
  override readonly name = 'SimNetworkError';
  readonly code: NetworkErrorCode;
  constructor(code: NetworkErrorCode, message: string) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

/** What a connection needs to know of the way to its peer. All times in simulated milliseconds. */
export interface Path {
  /** Drawn delay of one chunk of this size, bandwidth and losses (resent by TCP) included. */
  delayMs(bytes: number): number;
  /** Nothing gets through now. */
  blocked(): boolean;
}

export interface ConnectionSettings {
  readonly scheduler: Scheduler;
  readonly random: SeededRandom;
  readonly path: Path;
  readonly owner: Owner;
  readonly remote: Address;
  readonly remoteLabel: string;
  readonly peerIdentity: string | undefined;
  /** Bytes on the way and unread at the peer before the kernel takes no more. */
  readonly windowBytes: number;
  readonly outputMarkBytes: number;
  readonly onGone: () => void;
}

interface Output {
  readonly piece: Uint8Array;
  readonly sent: (() => void) | undefined;
  taken: number;
}

type Transit =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array; readonly arrivesAt: number }
  | { readonly kind: 'fin' | 'reset'; readonly arrivesAt: number };

/** Time until TCP tries a blocked path again. */
const RETRY_MS = 20;
const CHUNK_BYTES_MAX = 16 * 1024;

/** One end of a simulated TCP connection. Both ends live in one scheduler; bytes go through a window and a path. */
export class SimConnection implements Connection {
  readonly remote: Address;
  readonly remoteLabel: string;
  readonly peerIdentity: string | undefined;
  private readonly to: ConnectionSettings;
  private peer: SimConnection | undefined;
  private handler: ConnectionHandler | undefined;
  private readonly output: Output[] = [];
  /** Taken by the kernel; their owners are about to be told. */
  private readonly givenBack: (() => void)[] = [];
  private unsent = 0;
  private overMark = false;
  private taking = false;
  /** On the way to the peer, in order; one event moves the head. */
  private readonly transit: Transit[] = [];
  private moving = false;
  /** Taken by the kernel, not yet read by the peer. */
  private inWindow = 0;
  private inbound: Uint8Array[] = [];
  private reading = false;
  private paused = false;
  private ending = false;
  private finSent = false;
  private finArrived = false;
  private gone = false;
  /** The host lost power: nothing is called or sent any more. */
  private dark = false;
  private cancelLinger: CancelEvent | undefined;

  constructor(settings: ConnectionSettings) {
    this.to = settings;
    this.remote = settings.remote;
    this.remoteLabel = settings.remoteLabel;
    this.peerIdentity = settings.peerIdentity;
  }

  /** Wires the two ends; called by the network before either is handed out. */
  join(peer: SimConnection): void {
    this.peer = peer;
  }

  attach(handler: ConnectionHandler): void {
    this.handler = handler;
    this.scheduleRead();
  }

  get unsentBytes(): number {
    return this.unsent;
  }

  get isGone(): boolean {
    return this.gone || this.dark;
  }

  send(pieces: readonly Uint8Array[], sent?: () => void): boolean {
    const full = pieces.filter((piece) => piece.length > 0);
    if (this.gone || this.ending) {
      if (sent !== undefined) this.giveBack(sent);
      return false;
    }
    // Nothing to send keeps its place in the order too.
    if (full.length === 0) full.push(new Uint8Array(0));
    for (const [index, piece] of full.entries()) {
      this.output.push({ piece, sent: index === full.length - 1 ? sent : undefined, taken: 0 });
      this.unsent += piece.length;
    }
    this.scheduleTake();
    if (this.unsent > this.to.outputMarkBytes) this.overMark = true;
    return !this.overMark;
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
    this.scheduleRead();
  }

  end(lingerMs: number): void {
    if (this.gone || this.ending) return;
    this.ending = true;
    this.paused = false;
    this.cancelLinger = this.to.scheduler.after(lingerMs, this.to.owner, 'network linger', () => {
      this.destroy();
    });
    this.scheduleRead();
    this.scheduleTake();
  }

  destroy(reason?: Error): void {
    if (this.gone || this.dark) return;
    // What the kernel had taken may arrive wholly or in part; the peer sees an end or a reset, as in life.
    const orderly = reason === undefined && this.to.random.chance(0.5);
    if (!orderly) this.transit.length = this.to.random.below(this.transit.length + 1);
    this.push({ kind: orderly ? 'fin' : 'reset', arrivesAt: this.arrival(0) });
    this.finish(reason);
  }

  /** A fault: the connection breaks for both ends, with a part of what was on the way delivered. */
  breakDown(message: string): void {
    if (this.isGone) return;
    this.destroy(new SimNetworkError('ECONNRESET', message));
  }

  /** The host lost power. The peer learns nothing until it sends and the host answers again. */
  goDark(): void {
    this.dark = true;
    this.cancelLinger?.();
    this.transit.length = 0;
  }

  /** The process was killed: the kernel of its host tells the peer; nothing is called here. */
  abandon(): void {
    if (this.isGone) return;
    this.dark = true;
    this.cancelLinger?.();
    this.output.length = 0;
    this.push({ kind: 'reset', arrivesAt: this.arrival(0) });
  }

  // Sending side

  /** Each on an event of its own, in the order of the sends. */
  private giveBack(sent: () => void): void {
    this.givenBack.push(sent);
    this.to.scheduler.after(0, this.to.owner, `network sent ${this.remoteLabel}`, () => {
      if (!this.dark) this.givenBack.shift()?.();
    });
  }

  private scheduleTake(): void {
    if (this.taking || this.gone) return;
    this.taking = true;
    this.to.scheduler.after(this.to.random.unit() * 0.05, this.to.owner, `network take ${this.remoteLabel}`, () => {
      this.taking = false;
      if (!this.isGone) this.take();
    });
  }

  /** The kernel copies what fits into the window, in chunks of drawn size. */
  private take(): void {
    while (this.output.length > 0 && this.inWindow < this.to.windowBytes) {
      const chunk = this.cutChunk(Math.min(this.drawChunkBytes(), this.to.windowBytes - this.inWindow));
      if (chunk.length === 0) continue;
      this.inWindow += chunk.length;
      this.push({ kind: 'bytes', bytes: chunk, arrivesAt: this.arrival(chunk.length) });
      if (this.gone) return;
    }
    if (this.overMark && this.unsent <= this.to.outputMarkBytes) {
      this.overMark = false;
      this.handler?.drained();
    }
    if (this.ending && this.output.length === 0 && !this.finSent && !this.gone) {
      this.finSent = true;
      this.push({ kind: 'fin', arrivesAt: this.arrival(0) });
      if (this.finArrived) this.finish(undefined);
    }
  }

  private drawChunkBytes(): number {
    return this.to.random.chance(0.2) ? 1 + this.to.random.below(16) : 1 + this.to.random.below(CHUNK_BYTES_MAX);
  }

  private cutChunk(most: number): Uint8Array {
    const parts: Uint8Array[] = [];
    let size = 0;
    while (size < most) {
      const head = this.output[0];
      if (head === undefined) break;
      const part = head.piece.slice(head.taken, head.taken + most - size);
      parts.push(part);
      size += part.length;
      head.taken += part.length;
      if (head.taken < head.piece.length) break;
      this.output.shift();
      if (head.sent !== undefined) this.giveBack(head.sent);
    }
    this.unsent -= size;
    const chunk = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      chunk.set(part, at);
      at += part.length;
    }
    return chunk;
  }

  private arrival(bytes: number): number {
    const last = this.transit.at(-1)?.arrivesAt ?? 0;
    return Math.max(last, this.to.scheduler.nowMs + this.to.path.delayMs(bytes));
  }

  private push(item: Transit): void {
    this.transit.push(item);
    this.move();
  }

  /** Events of the wire belong to nobody: they go on when the sender has died. */
  private move(delayMs?: number): void {
    const head = this.transit[0];
    if (this.moving || head === undefined) return;
    this.moving = true;
    const wait = Math.max(0, delayMs ?? head.arrivesAt - this.to.scheduler.nowMs);
    this.to.scheduler.after(wait, 'network', `${head.kind} to ${this.remoteLabel}`, () => {
      this.moving = false;
      if (this.to.path.blocked()) {
        this.move(RETRY_MS * (1 + this.to.random.unit()));
        return;
      }
      const item = this.transit.shift();
      if (item !== undefined) this.peer?.arrive(item);
      this.move();
    });
  }

  // Receiving side

  private arrive(item: Transit): void {
    if (this.gone || this.dark) {
      // A host without that connection answers with a reset, once it runs again.
      if (item.kind !== 'reset' && this.gone) this.peer?.arrive({ kind: 'reset', arrivesAt: 0 });
      return;
    }
    if (item.kind === 'reset') {
      this.finish(new SimNetworkError('ECONNRESET', `by ${this.remoteLabel}`));
      return;
    }
    if (item.kind === 'bytes') this.inbound.push(item.bytes);
    else this.finArrived = true;
    this.scheduleRead();
  }

  /** After power came back: the connection is unknown there. */
  forget(): void {
    this.dark = true;
    this.gone = true;
  }

  private scheduleRead(): void {
    if (this.reading || this.paused || this.handler === undefined || (this.inbound.length === 0 && !this.finArrived))
      return;
    this.reading = true;
    this.to.scheduler.after(0, this.to.owner, `network read ${this.remoteLabel}`, () => {
      this.reading = false;
      if (!this.isGone && !this.paused) this.readOnce();
    });
  }

  private readOnce(): void {
    const { handler } = this;
    const head = this.inbound[0];
    if (handler === undefined) return;
    if (head === undefined) {
      if (this.finArrived) this.endOfInput();
      return;
    }
    if (this.ending) {
      // Its owner has ended it: what still arrives is read and dropped, so that the peer's end is seen.
      this.inbound.shift();
      this.peer?.windowOpened(head.length);
      this.scheduleRead();
      return;
    }
    const room = handler.receiveBuffer();
    assert(room.length > 0, 'receiveBuffer is never empty');
    const bytes = Math.min(room.length, head.length);
    room.set(head.subarray(0, bytes));
    if (bytes === head.length) this.inbound.shift();
    else this.inbound[0] = head.subarray(bytes);
    this.peer?.windowOpened(bytes);
    this.scheduleRead();
    handler.received(bytes);
  }

  private windowOpened(bytes: number): void {
    this.inWindow -= bytes;
    if (this.output.length > 0) this.scheduleTake();
  }

  private endOfInput(): void {
    if (this.finSent) {
      this.finish(undefined);
      return;
    }
    this.ending = true;
    this.scheduleTake();
  }

  private finish(error: Error | undefined): void {
    if (this.gone) return;
    this.gone = true;
    this.cancelLinger?.();
    this.inbound = [];
    const waiting = this.output.splice(0).flatMap(({ sent }) => (sent === undefined ? [] : [sent]));
    this.unsent = 0;
    this.to.onGone();
    // `closed` comes last: after every `sent`, so in the same event.
    this.to.scheduler.afterReady(this.to.owner, `network closed ${this.remoteLabel}`, () => {
      if (this.dark) return;
      for (const sent of waiting) sent();
      this.handler?.closed(error);
    });
  }
}
