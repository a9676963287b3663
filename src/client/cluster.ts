// What the client knows of the cluster: brokers, topics, and who leads which partition. Answers of the brokers are always
// right about themselves; this cache only says where to ask first.
import { ERRORS, type ErrorName, RivuletError } from '../base/errors.ts';
import type { Address } from '../ports/network.ts';
import type { ClientPorts, ConnectOptions } from './api.ts';
import { BrokerNode, jittered } from './broker-node.ts';
import { Deadlines } from './deadlines.ts';
import { asRivuletError } from './failure.ts';
import type { Link } from './link.ts';
import { DEFAULT_SERVER, addressKey, parseServer } from './servers.ts';
import { type ClusterView, type TopicView, fetchMetadata } from './wire.ts';

export interface Settings {
  readonly servers: readonly Address[];
  readonly clientId: string;
  readonly connectTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly reconnectBackoffMs: number;
  readonly reconnectBackoffMaxMs: number;
  readonly tls: ConnectOptions['tls'];
}

function serversOf(servers: string | readonly string[]): Address[] {
  const each = typeof servers === 'string' ? servers.split(',') : servers;
  return each.map((server) => parseServer(server.trim()));
}

export function settingsOf(options: ConnectOptions): Settings {
  const servers = serversOf(options.servers ?? DEFAULT_SERVER);
  if (servers.length === 0) throw new RivuletError('INVALID_ARGUMENT', 'servers is empty: name at least one broker');
  return {
    servers,
    clientId: options.clientId ?? 'rivulet-client',
    connectTimeoutMs: options.connectTimeoutMs ?? 5000,
    requestTimeoutMs: options.requestTimeoutMs ?? 30_000,
    reconnectBackoffMs: options.reconnectBackoffMs ?? 50,
    reconnectBackoffMaxMs: options.reconnectBackoffMaxMs ?? 2000,
    tls: options.tls,
  };
}

/** How often a metadata request goes on to the next broker before it fails; each attempt is bounded by itself. */
const ROUNDS_MAX = 3;

export class Cluster {
  readonly ports: ClientPorts;
  readonly settings: Settings;
  readonly deadlines: Deadlines;
  /** By `host:port`: one connection to a broker, whether it was named or learnt. */
  readonly #brokers = new Map<string, BrokerNode>();
  readonly #addresses = new Map<number, Address>();
  readonly #topics = new Map<string, TopicView>();
  readonly #produced = new Set<string>();
  /** Topics that the next refresh will ask for; one refresh runs, at most one waits. */
  #asked = new Set<string>();
  #running: Promise<void> | undefined;
  #waiting: Promise<void> | undefined;
  #controllerId = -1;
  #lastServer = 0;
  #closed = false;

  constructor(ports: ClientPorts, settings: Settings, tickMs?: number) {
    this.ports = ports;
    this.settings = settings;
    this.deadlines = new Deadlines(ports.clock, tickMs);
  }

  topic(name: string): TopicView | undefined {
    return this.#topics.get(name);
  }

  /** The leader's broker, if known. */
  leader(topic: string, partition: number): BrokerNode | undefined {
    const leader = this.#topics.get(topic)?.partitions[partition]?.leader;
    const address = leader === undefined ? undefined : this.#addresses.get(leader);
    return address === undefined ? undefined : this.#broker(address);
  }

  leaderEpoch(topic: string, partition: number): number {
    return this.#topics.get(topic)?.partitions[partition]?.leaderEpoch ?? -1;
  }

  /** A link to any broker that can be reached: connected ones first, then those named, then those learnt. */
  async anyLink(): Promise<Link> {
    for (const broker of this.#brokers.values()) if (broker.current !== undefined) return broker.current;
    const candidates = [...this.settings.servers, ...this.#addresses.values()];
    let last: RivuletError | undefined;
    for (let round = 0; round < candidates.length; round += 1) {
      if (this.#closed) throw new RivuletError('CLOSED');
      const address = candidates[(this.#lastServer + round) % candidates.length];
      if (address === undefined) continue;
      try {
        const link = await this.#broker(address).link();
        this.#lastServer = (this.#lastServer + round) % candidates.length;
        return link;
      } catch (error) {
        last = asRivuletError(error, 'NOT_CONNECTED');
        if (last.code === 'CLOSED') throw last;
      }
    }
    throw last ?? new RivuletError('NOT_CONNECTED');
  }

  /** A link to the node that coordinates groups; to any, as long as none is known. Rejects as `anyLink`. */
  async controllerLink(): Promise<Link> {
    const address = this.#addresses.get(this.#controllerId);
    if (address === undefined) return await this.anyLink();
    return await this.#broker(address).link();
  }

  /**
   * Asks for these topics anew. Any number of callers share one request; one that comes while a request is out shares the
   * next. Rejects when no broker answers; a topic that does not exist is no failure here (see `requireTopic`).
   */
  async refresh(topics: Iterable<string>): Promise<void> {
    for (const topic of topics) this.#asked.add(topic);
    if (this.#running === undefined) {
      this.#running = this.#refreshAsked().finally(() => {
        this.#running = undefined;
      });
      return await this.#running;
    }
    const running = this.#running;
    this.#waiting ??= running
      .catch(() => undefined)
      .then(async () => {
        this.#waiting = undefined;
        return await this.refresh([]);
      });
    return await this.#waiting;
  }

  /** The topic's view, asked for when it is not known. Rejects with UNKNOWN_TOPIC and others. */
  async requireTopic(name: string): Promise<TopicView> {
    const known = this.#topics.get(name);
    if (known !== undefined) return known;
    await this.refresh([name]);
    const found = this.#topics.get(name);
    if (found === undefined) throw new RivuletError('UNKNOWN_TOPIC', `there is no topic "${name}"`);
    return found;
  }

  /** The same, with the patience of `retrying`. */
  async retryingTopic(name: string): Promise<TopicView> {
    for (let round = 1; ; round += 1) {
      try {
        return await this.requireTopic(name);
      } catch (error) {
        const failure = asRivuletError(error, 'INTERNAL');
        if (!failure.retriable || round >= ROUNDS_MAX || this.#closed) throw failure;
        await this.pause(this.settings.reconnectBackoffMs * 2 ** round);
      }
    }
  }

  /** One request for everything there is: for administration. */
  async describe(
    topics: readonly string[] | undefined,
    options: { readonly autoCreate?: boolean } = {},
  ): Promise<ClusterView> {
    const asked = { topics, includeConfig: options.autoCreate === undefined, autoCreate: options.autoCreate ?? false };
    const view = await this.retrying(async (link) => await fetchMetadata(link, asked, this.settings.requestTimeoutMs));
    this.#learn(view, topics);
    return view;
  }

  /** A producer sends to it: where the broker allows that, it is created when it is missing. */
  produces(topic: string): void {
    this.#produced.add(topic);
  }

  /**
   * Runs an idempotent request at any broker and repeats it where that is safe: when a link breaks, or the answer says so.
   */
  async retrying<T>(work: (link: Link) => Promise<T>): Promise<T> {
    for (let round = 1; ; round += 1) {
      try {
        return await work(await this.anyLink());
      } catch (error) {
        const failure = asRivuletError(error, 'INTERNAL');
        if (!failure.retriable || round >= ROUNDS_MAX || this.#closed || !mayPass(failure.code)) throw failure;
        await this.pause(this.settings.reconnectBackoffMs * 2 ** round);
      }
    }
  }

  /** Resolves after the time with jitter, or when the client closes. */
  async pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const ended = (): void => {
        this.#pauses.delete(ended);
        this.deadlines.cancel(deadline);
        resolve();
      };
      const deadline = this.deadlines.after(jittered(ms, this.ports), ended);
      this.#pauses.add(ended);
    });
  }
  readonly #pauses = new Set<() => void>();

  close(lingerMs: number): void {
    this.#closed = true;
    for (const broker of this.#brokers.values()) broker.close(lingerMs);
    for (const ended of this.#pauses) ended();
    this.deadlines.clear();
  }

  async #refreshAsked(): Promise<void> {
    const topics = [...this.#asked];
    this.#asked = new Set();
    const produced = topics.filter((topic) => this.#produced.has(topic));
    if (produced.length > 0) await this.describe(produced, { autoCreate: true });
    if (produced.length === topics.length && topics.length > 0) return;
    await this.describe(
      topics.filter((topic) => !this.#produced.has(topic)),
      { autoCreate: false },
    );
  }

  #learn(view: ClusterView, asked: readonly string[] | undefined): void {
    this.#controllerId = view.controllerId;
    for (const node of view.nodes) this.#addresses.set(node.nodeId, { host: node.host, port: node.port });
    for (const topic of view.topics) {
      const known = this.#topics.get(topic.name);
      this.#topics.set(topic.name, known !== undefined && known.id === topic.id ? newest(known, topic) : topic);
    }
    const found = new Set(view.topics.map((topic) => topic.name));
    for (const name of asked ?? this.#topics.keys()) if (!found.has(name)) this.#topics.delete(name);
  }

  #broker(address: Address): BrokerNode {
    const key = addressKey(address);
    let broker = this.#brokers.get(key);
    if (broker === undefined) {
      broker = new BrokerNode(this.ports, this.deadlines, address, this.settings);
      if (this.#closed) broker.close(0);
      this.#brokers.set(key, broker);
    }
    return broker;
  }
}

/** What a second attempt can cure; a missing topic it cannot. */
function mayPass(code: ErrorName): boolean {
  return ERRORS[code].retriable && code !== 'UNKNOWN_TOPIC';
}

/** A broker that is behind may answer with an older leadership than another did before. */
function newest(known: TopicView, told: TopicView): TopicView {
  const partitions = told.partitions.map((partition, index) => {
    const before = known.partitions[index];
    return before !== undefined && before.leaderEpoch > partition.leaderEpoch ? before : partition;
  });
  return { ...told, partitions };
}
