import { assert } from '../base/assert.ts';
import type { Address, Connection, ConnectionHandler, Listener, Network, TlsOptions } from '../ports/network.ts';
import { SimConnection, SimNetworkError, type Path } from './network-connection.ts';
import type { SeededRandom } from './random.ts';
import type { Owner, Scheduler } from './scheduler.ts';

/** One direction between two hosts. */
export interface LinkOptions {
  /** Bounds of the drawn delay of one chunk. Default [0.1, 2]. */
  readonly delayMs?: readonly [least: number, most: number];
  /** Default: no limit. */
  readonly bytesPerMs?: number;
  /** Share of chunks that are lost and sent again by TCP: for the reader, a delay of `resendMs`. Default 0. */
  readonly loss?: number;
  readonly resendMs?: number;
}

export interface SimNetworkOptions {
  readonly link?: LinkOptions;
  /** Default 64 KiB. */
  readonly windowBytes?: number;
  /** `send` returns false above it. Default 64 KiB. */
  readonly outputMarkBytes?: number;
}

interface Link extends Required<LinkOptions> {
  cut: boolean;
  cloggedUntil: number;
}

type Accept = (connection: Connection) => ConnectionHandler | undefined;

interface Host {
  readonly name: string;
  readonly owner: Owner;
  readonly listeners: Map<number, { readonly accept: Accept; readonly tls: boolean }>;
  connections: SimConnection[];
  up: boolean;
  refusing: boolean;
  nextPort: number;
}

interface Pair {
  readonly from: Host;
  readonly to: Host;
  readonly near: SimConnection;
  readonly far: SimConnection;
}

const DYNAMIC_PORT_FIRST = 49_152;
/** Between two tries to reach a host that does not answer at all. */
const CONNECT_RETRY_MS = 200;

/** The wires between named hosts. `network(host)` is what a node of that name is given as its port. */
export class SimNetwork {
  private readonly scheduler: Scheduler;
  private readonly random: SeededRandom;
  private readonly options: SimNetworkOptions;
  private readonly links = new Map<string, Link>();
  private readonly hosts = new Map<string, Host>();
  private pairs: Pair[] = [];

  constructor(scheduler: Scheduler, options: SimNetworkOptions = {}) {
    this.scheduler = scheduler;
    this.random = scheduler.random.stream('network');
    this.options = options;
  }

  /** The port of one host; `owner` is whose events its callbacks are (the host's name unless given). */
  network(name: string, owner: Owner = name): Network {
    const host = this.hostOf(name, owner);
    return {
      listen: (address, accept, tls) => this.listen(host, address, accept, tls),
      connect: (address, timeoutMs, attach, tls) => this.connect(host, address, timeoutMs, attach, tls),
    };
  }

  // Faults

  /** Nothing gets from `from` to `to` any more; the other direction is as it was. */
  cut(from: string, to: string): void {
    this.linkOf(from, to).cut = true;
    this.scheduler.note(`network cut ${from} -> ${to}`);
  }

  cutBoth(one: string, other: string): void {
    this.cut(one, other);
    this.cut(other, one);
  }

  /** Cuts a host off from all others that are known. */
  isolate(name: string): void {
    for (const other of this.hosts.keys()) if (other !== name) this.cutBoth(name, other);
  }

  /** Takes back cuts and clogs of one direction; without arguments, of all. */
  heal(from?: string, to?: string): void {
    for (const [key, link] of this.links) {
      if (from !== undefined && to !== undefined && key !== linkKey(from, to)) continue;
      link.cut = false;
      link.cloggedUntil = 0;
    }
    this.scheduler.note(`network heals ${from ?? '*'} -> ${to ?? '*'}`);
  }

  /** Holds everything of one direction back for a while. */
  clog(from: string, to: string, durationMs: number): void {
    this.linkOf(from, to).cloggedUntil = this.scheduler.nowMs + durationMs;
    this.scheduler.note(`network clogs ${from} -> ${to} for ${String(durationMs)}`);
  }

  setLink(from: string, to: string, options: LinkOptions): void {
    Object.assign(this.linkOf(from, to), options);
  }

  /** Breaks every connection between the two; each side gets a part of what was on the way, then an error. */
  reset(one: string, other: string): number {
    const hit = this.pairs.filter(
      ({ from, to }) => (from.name === one && to.name === other) || (from.name === other && to.name === one),
    );
    for (const { near } of hit) near.breakDown('the connection broke');
    return hit.length;
  }

  /** New connections to that host are refused, as by a full backlog or a firewall. */
  refuse(name: string, refusing: boolean): void {
    this.hostOf(name).refusing = refusing;
  }

  /**
   * 'kill': the process is gone, its kernel resets the connections. 'power': nobody tells the peers. In both cases no callback
   * of that host is called again. Cancel the owner's events in the scheduler too.
   */
  crashHost(name: string, how: 'kill' | 'power'): void {
    const host = this.hostOf(name);
    this.scheduler.note(`network host ${name} ends (${how})`);
    host.listeners.clear();
    if (how === 'power') host.up = false;
    for (const connection of host.connections.splice(0)) {
      if (how === 'power') connection.goDark();
      else connection.abandon();
    }
  }

  /** Power is back: old connections are unknown there, and whoever still sends on them is told. */
  restartHost(name: string): void {
    const host = this.hostOf(name);
    host.up = true;
    for (const { from, to, near, far } of this.pairs) {
      if (from === host && near.isGone) near.forget();
      if (to === host && far.isGone) far.forget();
    }
  }

  connectionCount(name: string): number {
    return this.hostOf(name).connections.length;
  }

  // Wires

  private hostOf(name: string, owner: Owner = name): Host {
    const known = this.hosts.get(name);
    if (known !== undefined) return known;
    const host: Host = {
      name,
      owner,
      listeners: new Map(),
      connections: [],
      up: true,
      refusing: false,
      nextPort: DYNAMIC_PORT_FIRST,
    };
    this.hosts.set(name, host);
    return host;
  }

  private linkOf(from: string, to: string): Link {
    const key = linkKey(from, to);
    const known = this.links.get(key);
    if (known !== undefined) return known;
    const { delayMs = [0.1, 2], bytesPerMs = Infinity, loss = 0, resendMs = 200 } = this.options.link ?? {};
    const link: Link = { delayMs, bytesPerMs, loss, resendMs, cut: false, cloggedUntil: 0 };
    this.links.set(key, link);
    return link;
  }

  private blocked(from: Host, to: Host): boolean {
    const link = this.linkOf(from.name, to.name);
    return link.cut || link.cloggedUntil > this.scheduler.nowMs || !from.up || !to.up;
  }

  private path(from: Host, to: Host): Path {
    return {
      blocked: () => this.blocked(from, to),
      delayMs: (bytes) => {
        const link = this.linkOf(from.name, to.name);
        const [least, most] = link.delayMs;
        const resent = this.random.chance(link.loss) ? link.resendMs : 0;
        return least + this.random.unit() * (most - least) + bytes / link.bytesPerMs + resent;
      },
    };
  }

  private listen(host: Host, address: Address, accept: Accept, tls: TlsOptions | undefined): Promise<Listener> {
    return new Promise((resolve, reject) => {
      this.scheduler.after(0, host.owner, `network listen ${host.name}:${String(address.port)}`, () => {
        const port = address.port === 0 ? this.freePort(host) : address.port;
        if (host.listeners.has(port)) {
          reject(new SimNetworkError('EADDRINUSE', `${host.name}:${String(port)}`));
          return;
        }
        host.listeners.set(port, { accept, tls: tls !== undefined });
        resolve({
          address: { host: host.name, port },
          close: () => {
            host.listeners.delete(port);
            return this.scheduler.delay(0, host.owner, 'network listener closed');
          },
        });
      });
    });
  }

  private freePort(host: Host): number {
    host.nextPort += 1;
    assert(host.nextPort < 65_536, 'a host has ports left');
    return host.nextPort;
  }

  private connect(
    from: Host,
    address: Address,
    timeoutMs: number,
    attach: (connection: Connection) => ConnectionHandler,
    tls: TlsOptions | undefined,
  ): Promise<Connection> {
    const to = this.hostOf(address.host);
    const deadline = this.scheduler.nowMs + timeoutMs;
    const label = `network connect ${from.name} -> ${to.name}:${String(address.port)}`;
    return new Promise((resolve, reject) => {
      const attempt = (): void => {
        if (this.scheduler.nowMs >= deadline) {
          reject(new SimNetworkError('ETIMEDOUT', `${to.name}:${String(address.port)} within ${String(timeoutMs)} ms`));
        } else if (this.blocked(from, to) || this.blocked(to, from)) {
          this.scheduler.after(Math.min(CONNECT_RETRY_MS, deadline - this.scheduler.nowMs), from.owner, label, attempt);
        } else if (to.refusing || to.listeners.get(address.port)?.tls !== (tls !== undefined)) {
          reject(new SimNetworkError('ECONNREFUSED', `${to.name}:${String(address.port)}`));
        } else resolve(this.establish(from, to, address, attach, tls));
      };
      const round = this.path(from, to).delayMs(0) + this.path(to, from).delayMs(0);
      this.scheduler.after(Math.min(round, timeoutMs), from.owner, label, attempt);
    });
  }

  private establish(
    from: Host,
    to: Host,
    address: Address,
    attach: (connection: Connection) => ConnectionHandler,
    tls: TlsOptions | undefined,
  ): Connection {
    const clientAddress = { host: from.name, port: this.freePort(from) };
    const near = this.newEnd(from, to, address, undefined);
    const far = this.newEnd(to, from, clientAddress, tls?.certificate === undefined ? undefined : `CN=${from.name}`);
    near.join(far);
    far.join(near);
    this.pairs.push({ from, to, near, far });
    near.attach(attach(near));
    this.scheduler.after(0, to.owner, `network accept ${to.name} <- ${from.name}`, () => {
      if (far.isGone) return;
      const handler = to.listeners.get(address.port)?.accept(far);
      if (handler === undefined) far.destroy();
      else far.attach(handler);
    });
    return near;
  }

  private newEnd(host: Host, peer: Host, remote: Address, peerIdentity: string | undefined): SimConnection {
    const connection: SimConnection = new SimConnection({
      scheduler: this.scheduler,
      random: this.random,
      path: this.path(host, peer),
      owner: host.owner,
      remote,
      remoteLabel: `${remote.host}:${String(remote.port)}`,
      peerIdentity,
      windowBytes: this.options.windowBytes ?? 64 * 1024,
      outputMarkBytes: this.options.outputMarkBytes ?? 64 * 1024,
      onGone: () => {
        host.connections = host.connections.filter((other) => other !== connection);
        this.pairs = this.pairs.filter(({ near, far }) => !(near.isGone && far.isGone) || !host.up);
      },
    });
    host.connections.push(connection);
    return connection;
  }
}

function linkKey(from: string, to: string): string {
  return `${from} ${to}`;
}
