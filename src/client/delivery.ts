// One settlement per batch, one small handle per record. A promise is made only for a record whose outcome someone asks for.
import type { RivuletError } from '../base/errors.ts';
import type { Delivery, RecordMetadata } from './api.ts';

interface Asker {
  readonly delivery: RecordDelivery;
  readonly resolve: (metadata: RecordMetadata) => void;
  readonly reject: (error: RivuletError) => void;
}

/** The outcome of a batch, shared by its records. */
export class Settlement {
  readonly topic: string;
  readonly partition: number;
  readonly outcome: RecordMetadata['outcome'];
  state: Delivery['state'] = 'pending';
  baseOffset = -1;
  leaderEpoch = -1;
  error: RivuletError | undefined;
  /** How many records' outcomes were asked for: the rest is reported by flush. */
  asked = 0;
  #askers: Asker[] = [];

  constructor(topic: string, partition: number, outcome: RecordMetadata['outcome']) {
    this.topic = topic;
    this.partition = partition;
    this.outcome = outcome;
  }

  ask(asker: Asker): void {
    this.asked += 1;
    this.#askers.push(asker);
  }

  commit(baseOffset: number, leaderEpoch: number): void {
    this.state = 'committed';
    this.baseOffset = baseOffset;
    this.leaderEpoch = leaderEpoch;
    const askers = this.#askers;
    this.#askers = [];
    for (const { delivery, resolve } of askers) resolve(delivery.metadata(this));
  }

  fail(error: RivuletError): void {
    this.state = 'failed';
    this.error = error;
    const askers = this.#askers;
    this.#askers = [];
    for (const { reject } of askers) reject(error);
  }

  /** The record found its batch: who asked while it waited asks there. */
  moveAskers(to: Settlement): void {
    for (const asker of this.#askers) to.ask(asker);
    this.#askers = [];
  }
}

export class RecordDelivery implements Delivery {
  settlement: Settlement;
  index: number;
  timestamp: number;

  constructor(settlement: Settlement, index: number, timestamp: number) {
    this.settlement = settlement;
    this.index = index;
    this.timestamp = timestamp;
  }

  get state(): Delivery['state'] {
    return this.settlement.state;
  }

  metadata(settlement: Settlement): RecordMetadata {
    const { topic, partition, outcome, baseOffset, leaderEpoch } = settlement;
    return {
      outcome,
      topic,
      partition,
      offset: baseOffset < 0 ? -1 : baseOffset + this.index,
      leaderEpoch,
      timestamp: this.timestamp,
    };
  }

  async promise(): Promise<RecordMetadata> {
    const settlement = this.settlement;
    if (settlement.state === 'committed') return this.metadata(settlement);
    if (settlement.error !== undefined) {
      settlement.asked += 1;
      throw settlement.error;
    }
    return await new Promise((resolve, reject) => {
      settlement.ask({ delivery: this, resolve, reject });
    });
  }

  // The language awaits whatever has this method; a record nobody awaits costs no promise.
  // oxlint-disable-next-line unicorn/no-thenable -- awaiting a delivery is what it is for
  then<Value = RecordMetadata, Reason = never>(
    onCommitted?: ((metadata: RecordMetadata) => Value | PromiseLike<Value>) | null,
    onFailed?: ((reason: unknown) => Reason | PromiseLike<Reason>) | null,
  ): Promise<Value | Reason> {
    return this.promise().then(onCommitted, onFailed);
  }
}
