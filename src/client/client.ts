import { RivuletError } from '../base/errors.ts';
import type {
  Client,
  ClientPorts,
  CloseOptions,
  ConnectOptions,
  Consumer,
  ConsumerOptions,
  Producer,
  ProducerOptions,
} from './api.ts';
import { ClientAdmin } from './admin.ts';
import { Cluster, settingsOf } from './cluster.ts';
import { ClientConsumer } from './consumer.ts';
import type { GroupConsumer, GroupConsumerOptions } from './group-api.ts';
import { ClientGroupConsumer } from './group-consumer.ts';
import { withSignal } from './failure.ts';
import { ClientProducer } from './producer.ts';

const CLOSE_LINGER_MS = 1000;

class ConnectedClient implements Client {
  readonly #cluster: Cluster;
  readonly #producers = new Set<ClientProducer>();
  readonly #consumers = new Set<ClientConsumer>();
  readonly #members = new Set<ClientGroupConsumer>();
  #closing: Promise<void> | undefined;
  readonly admin: ClientAdmin;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.admin = new ClientAdmin(cluster);
  }

  producer(options: ProducerOptions = {}): Producer {
    if (this.#closing !== undefined) throw new RivuletError('CLOSED');
    const producer: ClientProducer = new ClientProducer(this.#cluster, options, () => {
      this.#producers.delete(producer);
    });
    this.#producers.add(producer);
    return producer;
  }

  consumer(options: ConsumerOptions): Consumer {
    if (this.#closing !== undefined) throw new RivuletError('CLOSED');
    let ended = false;
    const consumer: ClientConsumer = new ClientConsumer(this.#cluster, options, () => {
      ended = true;
      this.#consumers.delete(consumer);
    });
    // oxlint-disable-next-line typescript/no-unnecessary-condition -- it may end while it is made
    if (!ended) this.#consumers.add(consumer);
    return consumer;
  }

  groupConsumer(options: GroupConsumerOptions): GroupConsumer {
    if (this.#closing !== undefined) throw new RivuletError('CLOSED');
    let ended = false;
    const consumer: ClientGroupConsumer = new ClientGroupConsumer(
      this.#cluster,
      options,
      () => this.producer(),
      () => {
        ended = true;
        this.#members.delete(consumer);
      },
    );
    // oxlint-disable-next-line typescript/no-unnecessary-condition -- it may end while it is made
    if (!ended) this.#members.add(consumer);
    return consumer;
  }

  async close(options: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(options);
    return await this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(options: CloseOptions): Promise<void> {
    await Promise.all([...this.#consumers].map(async (consumer) => await consumer.close()));
    await Promise.all([...this.#members].map(async (consumer) => await consumer.close(options)));
    const closed = await Promise.allSettled(
      [...this.#producers].map(async (producer) => await producer.close(options)),
    );
    this.#cluster.close(CLOSE_LINGER_MS);
    const failed = closed.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }
}

/** Connects over given ports: for simulators and tests. `tickMs` is the grain of timeouts and pauses, 10 by default. */
export async function connectWith(ports: ClientPorts, options: ConnectOptions = {}, tickMs?: number): Promise<Client> {
  const cluster = new Cluster(ports, settingsOf(options), tickMs);
  try {
    await withSignal(cluster.anyLink(), options.signal);
  } catch (error) {
    cluster.close(0);
    throw error;
  }
  return new ConnectedClient(cluster);
}
