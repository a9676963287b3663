// One connection: frames in, calls to handlers, answers out, and when to stop reading.
import { assert, InvariantError } from '../base/assert.ts';
import type { MonotonicMs } from '../base/brands.ts';
import type { ErrorName } from '../base/errors.ts';
import { FRAME_BYTES_MAX, UNAUTHENTICATED_FRAME_BYTES_MAX } from '../base/limits.ts';
import type { MappedSlice } from '../ports/disk.ts';
import type { Connection, ConnectionHandler } from '../ports/network.ts';
import { encodeFailureFrame } from '../protocol/answer.ts';
import type { Failure } from '../protocol/failure.ts';
import { CONNECTION_OPERATION, FrameReader, RECEIVE_BYTES_INITIAL, type Frame } from '../protocol/frame.ts';
import { admit } from '../protocol/operations.ts';
import type { Pieces } from '../protocol/wire.ts';
import { isPressure, StorageFailed } from '../storage/health.ts';
import { Call, type CallSession } from './call.ts';
import { refusal } from './failures.ts';
import { HANDLERS } from './handlers.ts';
import type { BudgetUser } from './input-budget.ts';
import type { BrokerNode } from './node.ts';

/** A client that is slower than this, in either direction, is taken for one that does nothing. */
const SLOWEST_BYTES_PER_MS = 16;
const ASIDE_BYTES = 64;
/** For the last words of a connection to reach the client. */
const LINGER_MS = 2000;

export class Session implements ConnectionHandler, CallSession, BudgetUser {
  readonly id: string;
  private readonly node: BrokerNode;
  private readonly connection: Connection;
  private readonly onClosed: (session: Session) => void;
  private readonly reader: FrameReader;
  private readonly calls = new Set<Call>();
  private readonly drainListeners = new Set<() => void>();
  private readonly overListeners = new Set<() => void>();
  private helloDone = false;
  private client = '';
  private over = false;
  private ending = false;
  private pumping = false;
  private isPaused = false;
  /** Why nothing is read: too much output, appends that wait for room, other sessions' turn. */
  private outputHeld = false;
  private roomHolds = 0;
  private turnHeld = false;
  /** Since when it waits for memory to receive a frame into. */
  private memoryHeldMs: number | undefined;
  private aside: Uint8Array | undefined;
  private isAside = false;
  /** Of the receive buffer, as the budget knows it. */
  private countedBytes = RECEIVE_BYTES_INITIAL;
  private readonly openedMs: MonotonicMs;
  private activeMs: number;
  private drainedMs: number;
  /** Since when the frame that is not whole yet is being received; undefined: none is. */
  private frameSinceMs: number | undefined;

  constructor(node: BrokerNode, connection: Connection, id: string, onClosed: (session: Session) => void) {
    this.node = node;
    this.connection = connection;
    this.id = id;
    this.onClosed = onClosed;
    this.reader = new FrameReader({
      expect: 'requests',
      bodyBytesMax: UNAUTHENTICATED_FRAME_BYTES_MAX,
      mayGrow: (bytes) => node.input.fits(bytes),
    });
    this.openedMs = node.ports.clock.bootMs();
    this.activeMs = this.openedMs;
    this.drainedMs = this.openedMs;
  }

  get isOver(): boolean {
    return this.over;
  }
  get inFlight(): number {
    return this.calls.size;
  }
  get outputFull(): boolean {
    return this.connection.unsentBytes > this.node.settings.outputBytesMax;
  }
  get remoteHost(): string {
    return this.connection.remote.host;
  }

  receiveBuffer(): Uint8Array {
    // A transport asks before it knows that it is paused: what it reads first when it goes on lands here.
    this.isAside = this.memoryHeldMs !== undefined;
    if (this.isAside) return (this.aside ??= new Uint8Array(ASIDE_BYTES));
    const room = this.reader.writable();
    this.countMemory(this.reader.capacity);
    return room;
  }

  /** Others have given back memory. */
  roomAgain(): void {
    this.memoryHeldMs = undefined;
    this.pump();
  }

  received(bytes: number): void {
    if (this.over || this.ending) return;
    this.node.metrics.receivedBytes.add(bytes);
    this.activeMs = this.node.ports.clock.bootMs();
    if (this.isAside) this.takeAside(bytes);
    this.reader.advance(bytes);
    this.pump();
  }

  drained(): void {
    this.relieve();
  }

  closed(error: Error | undefined): void {
    this.over = true;
    this.countMemory(RECEIVE_BYTES_INITIAL);
    this.node.input.settled(this);
    if (error !== undefined)
      this.node.ports.telemetry.log('debug', 'connection.broken', {
        session: this.id,
        remote: this.connection.remoteLabel,
        reason: error.message,
      });
    this.onClosed(this);
    for (const listener of Array.from(this.overListeners)) listener();
    this.relieve();
  }

  accept(hello: { readonly clientId: string; readonly software: string }): void {
    this.helloDone = true;
    this.client = hello.clientId;
    this.reader.bodyBytesMax = FRAME_BYTES_MAX;
    this.node.ports.telemetry.log('debug', 'connection.hello', {
      session: this.id,
      remote: this.connection.remoteLabel,
      client: hello.clientId,
      software: hello.software,
    });
  }

  onDrained(listener: () => void): void {
    this.drainListeners.add(listener);
  }
  onOver(listener: () => void): void {
    this.overListeners.add(listener);
  }
  offOver(listener: () => void): void {
    this.overListeners.delete(listener);
  }

  sendAnswer(frame: Pieces, slices: readonly MappedSlice[]): void {
    if (this.over || this.ending) {
      for (const slice of slices) slice.release();
      return;
    }
    const first = slices[0];
    if (first === undefined) this.send(frame, undefined);
    else {
      // Slice by slice: each is given back as soon as its own bytes are taken, and progress shows.
      const headPieces = frame.length - slices.length + 1;
      assert(
        headPieces >= 1 && frame.at(-1)?.length === slices.at(-1)?.view.length,
        'the last pieces of an answer are its slices',
      );
      this.send(frame.slice(0, headPieces), first);
      for (let index = 1; index < slices.length; index += 1)
        this.send([frame[headPieces + index - 1] as Uint8Array], slices[index]);
    }
    if (this.outputFull && !this.outputHeld) {
      this.outputHeld = true;
      this.steer();
    }
  }

  holdUntil(room: Promise<void>): void {
    this.roomHolds += 1;
    this.steer();
    // It never rejects; when the storage has failed it never resolves either, and nothing is read any more.
    room.then(
      () => {
        this.roomHolds -= 1;
        this.pump();
      },
      () => undefined,
    );
  }

  refused(failure: Failure): void {
    this.node.metrics.refused(failure.code);
  }

  callDone(call: Call): void {
    this.calls.delete(call);
    this.activeMs = this.node.ports.clock.bootMs();
  }

  crashed(call: Call, error: unknown): void {
    // The process is ending: no answer leaves any more.
    if (error instanceof StorageFailed) return;
    const { telemetry, onBug } = this.node.ports;
    if (isPressure(error)) {
      // Nothing is damaged: it can be asked again.
      telemetry.log('warn', 'request.postponed', { operation: call.header.operation, reason: String(error) });
      if (!call.isAnswered) call.refuse(refusal('THROTTLED', 'the node is out of file descriptors or disk space'));
      return;
    }
    if (error instanceof InvariantError) onBug(error);
    telemetry.log('error', 'request.failed', {
      session: this.id,
      operation: call.header.operation,
      reason: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    if (!call.isAnswered) call.refuse(refusal('INTERNAL'));
  }

  /** The last words, then the end. */
  fail(code: ErrorName, message: string | undefined): void {
    if (this.over || this.ending) return;
    const failure = refusal(code, message);
    this.refused(failure);
    this.node.ports.telemetry.log('info', 'connection.refused', {
      session: this.id,
      remote: this.connection.remoteLabel,
      client: this.client,
      code,
      reason: failure.message,
    });
    this.connection.send(
      encodeFailureFrame({ operation: CONNECTION_OPERATION, version: 1, correlationId: 0 }, failure),
    );
    this.end();
  }

  /** Sends what is queued, then closes. */
  end(): void {
    if (this.over || this.ending) return;
    this.ending = true;
    this.connection.end(LINGER_MS);
  }

  destroy(): void {
    this.ending = true;
    this.connection.destroy();
  }

  /** Every now and then: what has taken too long ends here. */
  tick(nowMs: MonotonicMs): void {
    const { settings } = this.node;
    if (this.over || this.ending) return;
    const unsent = this.connection.unsentBytes;
    if (unsent === 0) this.drainedMs = nowMs;
    else if (nowMs - this.drainedMs > settings.drainTimeoutMs) {
      this.node.ports.telemetry.log('info', 'connection.stalled', {
        session: this.id,
        remote: this.connection.remoteLabel,
        client: this.client,
        unsentBytes: unsent,
      });
      this.destroy();
      return;
    }
    // A transport with a higher mark than ours never calls.
    if (this.outputHeld || this.drainListeners.size > 0) this.relieve();
    if (!this.helloDone && nowMs - this.openedMs > settings.handshakeTimeoutMs) {
      this.fail('HELLO_REQUIRED', `no Hello within ${String(settings.handshakeTimeoutMs)} ms`);
    } else if (
      this.frameSinceMs !== undefined &&
      !this.isHeld &&
      nowMs - this.frameSinceMs > settings.frameTimeoutMs + this.patienceMs
    ) {
      this.fail('MALFORMED_FRAME', `a frame was not whole within ${String(settings.frameTimeoutMs)} ms`);
    } else if (this.memoryHeldMs !== undefined && nowMs - this.memoryHeldMs > settings.frameTimeoutMs) {
      this.fail('TOO_MANY_REQUESTS', 'other connections have all the memory for requests: try again later');
    } else if (this.calls.size === 0 && !this.isHeld && nowMs - this.activeMs > settings.idleTimeoutMs) this.end();
  }

  /** A large frame may take its time, unless others wait for the memory that it has. */
  private get patienceMs(): number {
    return this.node.input.holdsUp(this) ? 0 : this.reader.buffered / SLOWEST_BYTES_PER_MS;
  }

  private get isHeld(): boolean {
    return this.outputHeld || this.roomHolds > 0 || this.turnHeld || this.memoryHeldMs !== undefined;
  }

  private send(pieces: Pieces, slice: MappedSlice | undefined): void {
    this.connection.send(pieces, () => {
      slice?.release();
      if (!this.over) this.drainedMs = this.node.ports.clock.bootMs();
    });
  }

  /** The output has drained, or the connection is gone. */
  private relieve(): void {
    if (!this.over && this.outputFull) return;
    for (const listener of Array.from(this.drainListeners)) {
      if (!this.over && this.outputFull) break;
      this.drainListeners.delete(listener);
      listener();
    }
    if (this.outputHeld && !this.outputFull) {
      this.outputHeld = false;
      this.pump();
    }
  }

  private pump(): void {
    if (this.pumping) return;
    this.pumping = true;
    let turns = this.node.settings.framesPerTurn;
    let took = false;
    while (!this.over && !this.ending && !this.isHeld) {
      const next = this.reader.next();
      if (next === undefined) break;
      if ('fault' in next) {
        this.fail(next.fault, next.message);
        break;
      }
      took = true;
      this.dispatch(next);
      turns -= 1;
      if (turns === 0) this.giveWay();
    }
    this.pumping = false;
    if (!this.isHeld) this.askForMemory(took);
    if (this.reader.buffered === 0) this.frameSinceMs = undefined;
    else if (took || this.frameSinceMs === undefined || this.isHeld) this.frameSinceMs = this.node.ports.clock.bootMs();
    this.steer();
  }

  /** The frame under way may need more than there is for all. */
  private askForMemory(tookFrame: boolean): void {
    const { input, ports } = this.node;
    if (this.over || this.ending) return;
    const { growth } = this.reader;
    if (growth === 0) {
      if (tookFrame) input.settled(this);
      return;
    }
    const wanted = this.reader.capacity + growth - this.countedBytes;
    if (wanted <= 0) return;
    if (input.admit(this, wanted)) this.countedBytes += wanted;
    else this.memoryHeldMs = ports.clock.bootMs();
  }

  private takeAside(bytes: number): void {
    assert(this.aside !== undefined && this.memoryHeldMs === undefined, 'read on only when there is memory');
    const room = this.reader.writable();
    this.countMemory(this.reader.capacity);
    room.set(this.aside.subarray(0, bytes));
    this.isAside = false;
  }

  /** What was admitted and is not taken yet stays counted. */
  private countMemory(bytes: number): void {
    const more = bytes - this.countedBytes;
    if (more === 0 || (more < 0 && !this.over && this.reader.growth > 0)) return;
    this.countedBytes = bytes;
    this.node.input.account(more);
  }

  /** Others have their turn before this connection goes on. */
  private giveWay(): void {
    this.turnHeld = true;
    this.node.ports.clock.yieldNow().then(
      () => {
        this.turnHeld = false;
        this.pump();
      },
      () => undefined,
    );
  }

  private steer(): void {
    if (this.over || this.ending || this.pumping) return;
    if (this.isHeld === this.isPaused) return;
    this.isPaused = this.isHeld;
    if (this.isPaused) this.connection.pause();
    else this.connection.resume();
  }

  private dispatch(frame: Frame): void {
    const { node } = this;
    const header = { operation: frame.operation, version: frame.version, correlationId: frame.correlationId };
    const call = new Call(this, header, node.ports.clock.bootMs());
    const admission = admit(frame, this.helloDone);
    if (!admission.ok) {
      call.refuse(admission.failure);
      return;
    }
    if (this.calls.size >= node.settings.requestsInFlightMax) {
      call.refuse(
        refusal('TOO_MANY_REQUESTS', `${String(this.calls.size)} requests of this connection are in flight already`),
      );
      return;
    }
    this.calls.add(call);
    node.metrics.request(admission.operation);
    if (node.stopping && admission.operation.changesState) {
      call.refuse(refusal('SHUTTING_DOWN'));
      return;
    }
    try {
      const pending = HANDLERS[admission.operation.name](node, call, frame.body);
      if (pending !== undefined) this.watch(call, pending);
    } catch (error) {
      this.crashed(call, error);
    }
  }

  private watch(call: Call, pending: Promise<void>): void {
    pending.catch((error: unknown) => {
      this.crashed(call, error);
    });
  }
}
