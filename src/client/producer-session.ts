// The producer id and epoch that all partitions of a producer share. They change only when every partition has settled what
// it sent under the old ones: a batch that may be in the log is known there by its old sequence alone.
import { RivuletError } from '../base/errors.ts';
import type { Cluster } from './cluster.ts';
import { asRivuletError } from './failure.ts';
import { initProducer, speaksInitProducer } from './wire.ts';

export interface SessionMember {
  /** Batches that hold a sequence of the present epoch and are not settled. */
  readonly unresolved: number;
  /** A new identity: sequences start at 0. */
  restart(): void;
  /** Sending may go on. */
  pump(): void;
}

export type SessionState = 'none' | 'starting' | 'ready' | 'draining' | 'failed';

export class ProducerSession {
  readonly #cluster: Cluster;
  readonly #name: string | undefined;
  readonly #members = new Set<SessionMember>();
  #work: Promise<void> | undefined;
  state: SessionState;
  producerId = -1;
  producerEpoch = -1;
  idempotent: boolean;
  readonly #required: boolean;
  /** Set once: everything fails with it from then on. */
  failure: RivuletError | undefined;

  constructor(
    cluster: Cluster,
    options: { readonly idempotent: boolean | undefined; readonly name: string | undefined },
  ) {
    this.#cluster = cluster;
    this.#name = options.name;
    this.idempotent = options.idempotent ?? true;
    this.#required = options.idempotent === true || options.name !== undefined;
    this.state = this.idempotent ? 'none' : 'ready';
  }

  join(member: SessionMember): void {
    this.#members.add(member);
  }

  /** True when new sequences may be given out now; otherwise members are pumped when that becomes so. */
  get ready(): boolean {
    if (this.state === 'none') this.#start();
    return this.state === 'ready';
  }

  /** No new sequences until every member is resolved; then a new epoch. */
  drain(): void {
    if (this.state === 'ready') this.state = 'draining';
    this.settled();
  }

  /** A member has one unresolved batch less. */
  settled(): void {
    if (this.state !== 'draining' || this.#work !== undefined) return;
    for (const member of this.#members) if (member.unresolved > 0) return;
    this.#start();
  }

  fail(failure: RivuletError): void {
    if (this.failure !== undefined) return;
    this.failure = failure;
    this.state = 'failed';
    for (const member of this.#members) member.pump();
  }

  #start(): void {
    if (this.#work !== undefined) return;
    const restarting = this.state === 'draining';
    if (!restarting) this.state = 'starting';
    this.#work = this.#initialise()
      .catch((error: unknown) => {
        this.fail(asRivuletError(error, 'INTERNAL'));
      })
      .finally(() => {
        this.#work = undefined;
        for (const member of this.#members) member.pump();
      });
  }

  async #initialise(): Promise<void> {
    for (;;) {
      try {
        const link = await this.#cluster.anyLink();
        if (!speaksInitProducer(link)) {
          if (this.#required)
            throw new RivuletError('UNSUPPORTED_OPERATION', 'the broker does not know idempotent producers');
          this.idempotent = false;
        } else {
          const given = await initProducer(link, this.#name, this, this.#cluster.settings.requestTimeoutMs);
          this.producerId = given.producerId;
          this.producerEpoch = given.producerEpoch;
        }
        for (const member of this.#members) member.restart();
        this.state = 'ready';
        return;
      } catch (error) {
        const failure = asRivuletError(error, 'INTERNAL');
        // Records wait no longer than their delivery timeout; this goes on as long as anyone may still send.
        if (!failure.retriable || this.failure !== undefined) throw failure;
        await this.#cluster.pause(this.#cluster.settings.reconnectBackoffMs * 2);
      }
    }
  }
}
