// Connections to the other nodes of the cluster: one to each, made again whenever it ends, with requests pipelined on it.
import { FRAME_BYTES_MAX } from '../base/limits.ts';
import type { ErrorName } from '../base/errors.ts';
import type { CancelTimer, Clock } from '../ports/clock.ts';
import type { Address, Connection, ConnectionHandler, Network, TlsOptions } from '../ports/network.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { decodeAnswer, encodeRequestFrame } from '../protocol/answer.ts';
import { CONNECTION_OPERATION, FrameReader, type Frame } from '../protocol/frame.ts';
import { OPERATION, PROTOCOL_MAX, PROTOCOL_MIN } from '../protocol/operations.ts';
import { decodeResponse as decodeHello, encodeRequest as encodeHello } from '../protocol/operations/hello.v1.ts';
import type { PeerAnswer, PeerCall, Peers } from './peer-contract.ts';

export interface PeerAddress extends Address {
  readonly nodeId: number;
}

export interface PeerLinksOptions {
  readonly nodeId: number;
  /** The others; this node is passed over. */
  readonly peers: readonly PeerAddress[];
  readonly network: Network;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly softwareVersion: string;
  readonly tls?: TlsOptions;
  readonly connectTimeoutMs?: number;
}

const CONNECT_TIMEOUT_MS = 1000;
const RETRY_MS_MIN = 20;
const RETRY_MS_MAX = 300;
/** A peer that takes nothing is not to fill this node's memory. */
const UNSENT_BYTES_MAX = 16 * 1024 * 1024;
const PENDING_MAX = 4096;
const SWEEP_MS = 50;
const NO_BYTES = new Uint8Array(0);

function failed(code: ErrorName, message: string | undefined): PeerAnswer {
  return { ok: false, code, message };
}

export class PeerLinks implements Peers {
  private readonly links = new Map<number, PeerLink>();
  private readonly listeners = new Set<(nodeId: number, up: boolean) => void>();

  constructor(options: PeerLinksOptions) {
    for (const peer of options.peers) {
      if (peer.nodeId === options.nodeId) continue;
      const link = new PeerLink(options, peer, (up) => {
        for (const listener of this.listeners) listener(peer.nodeId, up);
      });
      this.links.set(peer.nodeId, link);
    }
  }

  /** Begins to connect. */
  open(): void {
    for (const link of this.links.values()) link.open();
  }
  call(nodeId: number, call: PeerCall): Promise<PeerAnswer> {
    const link = this.links.get(nodeId);
    if (link === undefined)
      return Promise.resolve(failed('NOT_CONNECTED', `node ${String(nodeId)} is not one of the peers`));
    return link.call(call);
  }
  isUp(nodeId: number): boolean {
    return this.links.get(nodeId)?.isUp ?? false;
  }
  onChange(listener: (nodeId: number, up: boolean) => void): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }
  close(): void {
    for (const link of this.links.values()) link.close();
    this.listeners.clear();
  }
}

interface Pending {
  readonly operation: number;
  readonly deadlineMs: number;
  readonly onBody: PeerCall['onBody'];
  readonly resolve: (answer: PeerAnswer) => void;
}

/** What one connection has in flight; ends with it. */
interface Wire {
  readonly connection: Connection;
  readonly input: FrameReader;
  readonly pending: Map<number, Pending>;
}

class PeerLink {
  private readonly options: PeerLinksOptions;
  private readonly peer: PeerAddress;
  private readonly changed: (up: boolean) => void;
  private wire: Wire | undefined;
  private up = false;
  private closed = false;
  private retryMs = RETRY_MS_MIN;
  private correlation = 0;
  private cancelRetry: CancelTimer = () => undefined;
  private cancelSweep: CancelTimer | undefined;

  constructor(options: PeerLinksOptions, peer: PeerAddress, changed: (up: boolean) => void) {
    this.options = options;
    this.peer = peer;
    this.changed = changed;
  }

  get isUp(): boolean {
    return this.up;
  }

  open(): void {
    if (this.closed) return;
    this.connect().then(
      () => undefined,
      (error: unknown) => {
        this.options.telemetry.log('debug', 'peer.not-connected', {
          peer: this.peer.nodeId,
          reason: error instanceof Error ? error.message : String(error),
        });
        this.retry();
      },
    );
  }

  close(): void {
    this.closed = true;
    this.cancelRetry();
    const { wire } = this;
    this.lose(wire, 'the node is stopping');
    wire?.connection.end(0);
  }

  async call(call: PeerCall): Promise<PeerAnswer> {
    const { wire } = this;
    if (wire === undefined || !this.up)
      return failed('NOT_CONNECTED', `node ${String(this.peer.nodeId)} is not connected`);
    return await this.send(wire, call);
  }

  private async connect(): Promise<void> {
    const { network, connectTimeoutMs = CONNECT_TIMEOUT_MS, tls } = this.options;
    let wire: Wire | undefined;
    await network.connect(
      this.peer,
      connectTimeoutMs,
      (connection) => {
        const made = {
          connection,
          input: new FrameReader({ expect: 'answers', bodyBytesMax: FRAME_BYTES_MAX }),
          pending: new Map<number, Pending>(),
        };
        wire = made;
        return this.handler(made);
      },
      tls,
    );
    if (wire === undefined) throw new Error('a connection without its handler');
    if (this.closed) {
      wire.connection.destroy();
      return;
    }
    this.wire = wire;
    try {
      await this.hello(wire, connectTimeoutMs);
    } catch (error) {
      this.lose(wire, 'no Hello');
      wire.connection.destroy();
      throw error;
    }
  }

  private async hello(wire: Wire, timeoutMs: number): Promise<void> {
    const { nodeId, softwareVersion } = this.options;
    const body = encodeHello({
      protocolMin: PROTOCOL_MIN,
      protocolMax: PROTOCOL_MAX,
      clientId: `node-${String(nodeId)}`,
      softwareName: 'rivulet-node',
      softwareVersion,
      authentication: undefined,
    });
    const answer = await this.send(wire, { operation: OPERATION.Hello.operation, version: 1, body, timeoutMs });
    if (!answer.ok)
      throw new Error(`Hello: ${answer.code}${answer.message === undefined ? '' : `: ${answer.message}`}`);
    const decoded = decodeHello(answer.body);
    const said = decoded.ok ? decoded.value.nodeId : -1;
    if (said !== this.peer.nodeId)
      throw new Error(
        `${this.peer.host}:${String(this.peer.port)} is node ${String(said)}, not ${String(this.peer.nodeId)}`,
      );
    if (this.wire !== wire) throw new Error('the connection ended during Hello');
    this.retryMs = RETRY_MS_MIN;
    this.up = true;
    this.changed(true);
  }

  private send(wire: Wire, call: PeerCall): Promise<PeerAnswer> {
    const { operation, version, body, timeoutMs, onBody } = call;
    if (wire.pending.size >= PENDING_MAX || wire.connection.unsentBytes > UNSENT_BYTES_MAX)
      return Promise.resolve(failed('NOT_CONNECTED', `node ${String(this.peer.nodeId)} takes nothing now`));
    this.correlation = this.correlation >= 0xffff_ffff ? 1 : this.correlation + 1;
    const correlationId = this.correlation;
    const deadlineMs = this.options.clock.bootMs() + timeoutMs;
    return new Promise((resolve) => {
      wire.pending.set(correlationId, { operation, deadlineMs, onBody, resolve });
      this.sweepLater();
      wire.connection.send(encodeRequestFrame({ operation, version, correlationId }, body));
    });
  }

  private handler(wire: Wire): ConnectionHandler {
    return {
      receiveBuffer: () => wire.input.writable(),
      received: (bytes) => {
        this.received(wire, bytes);
      },
      drained: () => undefined,
      closed: (error) => {
        this.lose(wire, error?.message ?? 'closed by the peer');
      },
    };
  }

  private received(wire: Wire, bytes: number): void {
    wire.input.advance(bytes);
    for (let next = wire.input.next(); next !== undefined; next = wire.input.next()) {
      const fault = 'fault' in next ? next.message : this.frame(wire, next);
      if (fault === undefined) continue;
      this.lose(wire, fault);
      wire.connection.destroy();
      return;
    }
  }

  /** Why the connection is of no more use; undefined: it is. */
  private frame(wire: Wire, frame: Frame): string | undefined {
    const answer = decodeAnswer(frame.body);
    if (!answer.ok) return answer.fault.message;
    const { value } = answer;
    if (frame.operation === CONNECTION_OPERATION) return value.failure?.message ?? 'an answer without a request';
    const pending = wire.pending.get(frame.correlationId);
    // One that came too late: whoever asked has been told so.
    if (pending === undefined) return undefined;
    if (pending.operation !== frame.operation) return 'the answer to another request';
    wire.pending.delete(frame.correlationId);
    if (value.failure !== undefined) pending.resolve(failed(value.failure.code, value.failure.message));
    else if (pending.onBody === undefined) pending.resolve({ ok: true, body: value.response.slice() });
    else {
      pending.onBody(value.response);
      pending.resolve({ ok: true, body: NO_BYTES });
    }
    return undefined;
  }

  private lose(wire: Wire | undefined, why: string): void {
    if (wire === undefined) return;
    const current = this.wire === wire;
    if (current) this.wire = undefined;
    for (const { resolve } of wire.pending.values()) resolve(failed('CONNECTION_LOST', why));
    wire.pending.clear();
    if (!current) return;
    const wasUp = this.up;
    this.up = false;
    if (wasUp) {
      this.options.telemetry.log('info', 'peer.lost', { peer: this.peer.nodeId, reason: why });
      this.changed(false);
      // Of a connection that never got so far the attempt itself says so.
      this.retry();
    }
  }

  private retry(): void {
    if (this.closed) return;
    this.cancelRetry();
    this.cancelRetry = this.options.clock.setTimer(this.retryMs, () => {
      this.open();
    });
    this.retryMs = Math.min(2 * this.retryMs, RETRY_MS_MAX);
  }

  private sweepLater(): void {
    this.cancelSweep ??= this.options.clock.setTimer(SWEEP_MS, () => {
      this.cancelSweep = undefined;
      this.sweep();
    });
  }

  private sweep(): void {
    const { wire } = this;
    if (wire === undefined) return;
    const nowMs = this.options.clock.bootMs();
    for (const [correlationId, { deadlineMs, resolve }] of wire.pending) {
      if (nowMs < deadlineMs) continue;
      wire.pending.delete(correlationId);
      resolve(failed('REQUEST_TIMEOUT', `no answer from node ${String(this.peer.nodeId)}`));
    }
    if (wire.pending.size > 0) this.sweepLater();
  }
}
