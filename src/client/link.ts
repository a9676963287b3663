// One connection to one broker: pipelined requests by correlation id, frames assembled in place. A request that is not
// answered in time ends the whole connection: what else is in flight there would wait behind it, and a late answer could not
// be told from a lost one.
import { FRAME_BYTES_MAX } from '../base/limits.ts';
import { RivuletError } from '../base/errors.ts';
import type { Address, Connection, ConnectionHandler, TlsOptions } from '../ports/network.ts';
import type { ClientPorts } from './api.ts';
import type { Deadline, Deadlines } from './deadlines.ts';
import { addressKey } from './servers.ts';
import { decodeAnswer, encodeRequestFrame } from '../protocol/answer.ts';
import { CONNECTION_OPERATION, type Frame, FrameReader } from '../protocol/frame.ts';
import { OPERATION } from '../protocol/operations.ts';
import { type Answered, DIALECT_UNKNOWN, type Dialect, errorOf, helloBody, readHello } from './wire.ts';

/** Room that is left for requests which are not counted, such as metadata. */
const UNCOUNTED_REQUESTS = 16;
const CORRELATION_MAX = 0xffff_ffff;
const NO_BYTES = new Uint8Array(0);

/** Exactly one of the two is given. The answer's views are valid during the call only. */
export type OnAnswer = (answer: Answered | undefined, failure: RivuletError | undefined) => void;

interface Pending {
  readonly operation: number;
  readonly onAnswer: OnAnswer;
  readonly deadline: Deadline;
}

export interface LinkOptions {
  readonly clientId: string;
  readonly connectTimeoutMs: number;
  readonly tls: TlsOptions | undefined;
}

export class Link {
  readonly address: Address;
  readonly #deadlines: Deadlines;
  readonly #input = new FrameReader({ expect: 'answers', bodyBytesMax: FRAME_BYTES_MAX });
  readonly #pending = new Map<number, Pending>();
  #connection: Connection | undefined;
  #dialect: Dialect = DIALECT_UNKNOWN;
  #nextCorrelation = 1;
  #blocked = false;
  #ended: RivuletError | undefined;
  /** One owner each: called when there is room again, and once at the end. */
  onRoom: (() => void) | undefined;
  onEnd: ((why: RivuletError) => void) | undefined;

  private constructor(address: Address, deadlines: Deadlines) {
    this.address = address;
    this.#deadlines = deadlines;
  }

  /** Connects and says Hello within the bound. Rejects with RivuletError (NOT_CONNECTED, or what the broker answered). */
  static async open(ports: ClientPorts, deadlines: Deadlines, address: Address, options: LinkOptions): Promise<Link> {
    const link = new Link(address, deadlines);
    const startedMs = ports.clock.bootMs();
    try {
      await ports.network.connect(
        address,
        options.connectTimeoutMs,
        (connection) => link.#attach(connection),
        options.tls,
      );
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      throw new RivuletError('NOT_CONNECTED', `cannot connect to ${addressKey(address)}: ${detail}`, { cause: error });
    }
    const rest = Math.max(1, options.connectTimeoutMs - (ports.clock.bootMs() - startedMs));
    await link.#hello(options.clientId, rest);
    return link;
  }

  get ended(): RivuletError | undefined {
    return this.#ended;
  }
  get inFlight(): number {
    return this.#pending.size;
  }
  /** False: hold requests back until `onRoom`. Small ones (metadata, fetch) may still be sent. */
  get hasRoom(): boolean {
    return !this.#blocked && this.#ended === undefined && this.#pending.size < this.#inFlightMax;
  }
  /** What both sides speak. */
  get dialect(): Dialect {
    return this.#dialect;
  }
  get #inFlightMax(): number {
    return Math.max(1, this.#dialect.requestsInFlightMax - UNCOUNTED_REQUESTS);
  }

  /**
   * Sends one request; `pieces` are not copied and must stay unchanged until the answer. `onAnswer` is called exactly once,
   * never during this call when the link has ended already: then the caller gets false and nothing was sent.
   */
  request(
    operation: number,
    version: number,
    pieces: readonly Uint8Array[],
    timeoutMs: number,
    onAnswer: OnAnswer,
  ): boolean {
    const connection = this.#connection;
    if (connection === undefined || this.#ended !== undefined) return false;
    const correlation = this.#nextCorrelation;
    this.#nextCorrelation = correlation === CORRELATION_MAX ? 1 : correlation + 1;
    const deadline = this.#deadlines.after(timeoutMs, () => {
      this.#end(
        new RivuletError(
          'REQUEST_TIMEOUT',
          `no answer from ${addressKey(this.address)} within ${String(timeoutMs)} ms`,
        ),
      );
    });
    this.#pending.set(correlation, { operation, onAnswer, deadline });
    if (!connection.send(encodeRequestFrame({ operation, version, correlationId: correlation }, pieces)))
      this.#blocked = true;
    return true;
  }

  /** Sends what is queued, then closes. Requests in flight fail with CONNECTION_LOST. */
  close(lingerMs: number): void {
    const connection = this.#connection;
    this.#finish(
      new RivuletError('CONNECTION_LOST', `connection to ${addressKey(this.address)}: closed by this client`),
    );
    connection?.end(lingerMs);
  }

  #attach(connection: Connection): ConnectionHandler {
    this.#connection = connection;
    return {
      receiveBuffer: () => this.#input.writable(),
      received: (bytes) => {
        this.#received(bytes);
      },
      drained: () => {
        this.#blocked = false;
        if (this.hasRoom) this.onRoom?.();
      },
      closed: (error) => {
        const detail = error === undefined ? 'closed by the broker' : error.message;
        this.#finish(
          new RivuletError('CONNECTION_LOST', `connection to ${addressKey(this.address)}: ${detail}`, { cause: error }),
        );
      },
    };
  }

  async #hello(clientId: string, timeoutMs: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const sent = this.request(OPERATION.Hello.operation, 1, helloBody(clientId), timeoutMs, (answer, failure) => {
        if (answer === undefined) {
          reject(failure ?? new RivuletError('CONNECTION_LOST'));
          return;
        }
        try {
          this.#dialect = readHello(answer);
          resolve();
        } catch (error) {
          const why =
            error instanceof RivuletError
              ? error
              : new RivuletError('MALFORMED_FRAME', 'the answer to Hello cannot be read', { cause: error });
          this.#end(why);
          reject(why);
        }
      });
      if (!sent) reject(this.#ended ?? new RivuletError('CONNECTION_LOST'));
    });
  }

  #received(bytes: number): void {
    this.#input.advance(bytes);
    const wasFull = this.#pending.size >= this.#inFlightMax;
    while (this.#ended === undefined) {
      const next = this.#input.next();
      if (next === undefined) break;
      if ('fault' in next) {
        this.#end(
          new RivuletError('CONNECTION_LOST', `${addressKey(this.address)} sent no valid frame: ${next.message}`),
        );
        return;
      }
      this.#frame(next);
    }
    if (wasFull && this.hasRoom) this.onRoom?.();
  }

  #frame(frame: Frame): void {
    const answer = decodeAnswer(frame.body);
    if (!answer.ok) {
      this.#end(
        new RivuletError(
          'CONNECTION_LOST',
          `${addressKey(this.address)} sent no valid answer: ${answer.fault.message}`,
        ),
      );
      return;
    }
    const { value } = answer;
    if (frame.operation === CONNECTION_OPERATION && value.failure !== undefined) {
      // The broker's last words: why it closes the connection.
      this.#end(errorOf(value.failure));
      return;
    }
    const pending = this.#pending.get(frame.correlationId);
    if (pending === undefined || pending.operation !== frame.operation) {
      this.#end(new RivuletError('CONNECTION_LOST', `${addressKey(this.address)} answered what was not asked`));
      return;
    }
    this.#pending.delete(frame.correlationId);
    this.#deadlines.cancel(pending.deadline);
    const error = value.failure === undefined ? undefined : errorOf(value.failure);
    pending.onAnswer(
      { operation: frame.operation, error, response: value.failure === undefined ? value.response : NO_BYTES },
      undefined,
    );
  }

  #end(why: RivuletError): void {
    const connection = this.#connection;
    this.#finish(why);
    connection?.destroy(why);
  }

  #finish(why: RivuletError): void {
    if (this.#ended !== undefined) return;
    this.#ended = why;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const request of pending) this.#deadlines.cancel(request.deadline);
    for (const request of pending) request.onAnswer(undefined, why);
    this.onEnd?.(why);
  }
}
