// The broker between its connections and its replicas: who may connect, one ticker for all that waits, and an orderly end.
import type { MonotonicMs } from '../base/brands.ts';
import type { CancelTimer } from '../ports/clock.ts';
import type { Address, Connection, ConnectionHandler } from '../ports/network.ts';
import { encodeFailureFrame } from '../protocol/answer.ts';
import { CONNECTION_OPERATION } from '../protocol/frame.ts';
import type { MetadataLog, Replicas } from '../replication/contract.ts';
import { ColdReads } from './cold-reads.ts';
import { refusal } from './failures.ts';
import { GroupDriver } from './groups/driver.ts';
import { LagSampler } from './groups/lag-sampler.ts';
import { InputBudget } from './input-budget.ts';
import { Headroom } from './headroom.ts';
import { brokerMetrics, type BrokerMetrics } from './metrics.ts';
import type { BrokerNode } from './node.ts';
import { ParkedFetches } from './parked-fetches.ts';
import { Session } from './session.ts';
import type { BrokerIdentity, BrokerPorts, BrokerSettings } from './settings.ts';

export interface BrokerOptions {
  readonly settings: BrokerSettings;
  readonly identity: BrokerIdentity;
  readonly ports: BrokerPorts;
  readonly metadata: MetadataLog;
  readonly replicas: Replicas;
}

const TICK_MS = 50;
/** Sessions are looked at every so many ticks. */
const SESSION_TICKS = 5;
/** For a refused client to read why. */
const REFUSAL_LINGER_MS = 1000;
/** Refused connections that are being told; more are closed without a word. */
const REFUSALS_MAX = 256;
/** Answers that are under way get this long when the broker stops. */
const STOP_WAIT_MS = 5000;
const SINK = new Uint8Array(4096);

export class BrokerCore implements BrokerNode {
  readonly settings: BrokerSettings;
  readonly identity: BrokerIdentity;
  readonly ports: BrokerPorts;
  readonly metadata: MetadataLog;
  readonly replicas: Replicas;
  readonly metrics: BrokerMetrics;
  readonly coldReads: ColdReads;
  readonly parked: ParkedFetches;
  readonly headroom: Headroom;
  readonly input: InputBudget;
  readonly groups: GroupDriver;
  private readonly lag: LagSampler;
  private readonly sessions = new Set<Session>();
  private readonly byAddress = new Map<string, number>();
  private refusals = 0;
  private sessionCount = 0;
  private advertised: Address | undefined;
  private cancelTick: CancelTimer = () => undefined;
  private ticks = 0;
  private stopped: Promise<void> | undefined;
  private readonly quietWaiters: (() => void)[] = [];

  constructor(options: BrokerOptions) {
    this.settings = options.settings;
    this.identity = options.identity;
    this.ports = options.ports;
    this.metadata = options.metadata;
    this.replicas = options.replicas;
    const { telemetry, disk } = options.ports;
    this.metrics = brokerMetrics(telemetry);
    this.coldReads = new ColdReads(options.settings.coldReadsMax);
    this.parked = new ParkedFetches(options.settings.parkedFetchesMax);
    this.input = new InputBudget(options.settings.inputBytesMax);
    this.headroom = new Headroom(disk, telemetry, options.settings.minFreeBytes);
    this.groups = new GroupDriver({
      nodeId: options.identity.nodeId,
      metadata: options.metadata,
      clock: options.ports.clock,
      telemetry,
    });
    this.lag = new LagSampler(this);
    this.observe();
  }

  get stopping(): boolean {
    return this.stopped !== undefined;
  }
  get connections(): number {
    return this.sessions.size;
  }

  endpointOf(nodeId: number): Address | undefined {
    // What this node listens on now counts more than what it said at an earlier start.
    if (nodeId === this.identity.nodeId && this.advertised !== undefined) return this.advertised;
    const node = this.metadata.image().nodes.get(nodeId);
    return node?.host === undefined || node.port === undefined ? undefined : { host: node.host, port: node.port };
  }
  advertise(address: Address): void {
    this.advertised = address;
  }

  /** Begins the ticker. */
  async start(): Promise<void> {
    await this.headroom.poll();
    this.scheduleTick();
  }

  /** For `Network.listen`. */
  readonly accept = (connection: Connection): ConnectionHandler | undefined => {
    const { host } = connection.remote;
    const ofAddress = this.byAddress.get(host) ?? 0;
    if (this.stopping) return this.turnAway(connection, 'SHUTTING_DOWN', undefined);
    if (this.sessions.size >= this.settings.connectionsMax) {
      return this.turnAway(
        connection,
        'TOO_MANY_CONNECTIONS',
        `${String(this.sessions.size)} connections are open, which is as many as this broker takes`,
      );
    }
    if (ofAddress >= this.settings.connectionsPerAddressMax) {
      return this.turnAway(
        connection,
        'TOO_MANY_CONNECTIONS',
        `${String(ofAddress)} connections of your address are open, which is as many as this broker takes`,
      );
    }
    this.metrics.connectionsAccepted.add();
    this.byAddress.set(host, ofAddress + 1);
    this.sessionCount += 1;
    const session = new Session(
      this,
      connection,
      `${String(this.identity.nodeId)}-${String(this.sessionCount)}`,
      (closed) => {
        this.forget(closed, host);
      },
    );
    this.sessions.add(session);
    return session;
  };

  /** Ends what is under way within a bound, then all connections. The listener must be closed before. */
  close(): Promise<void> {
    this.stopped ??= this.closeOnce();
    return this.stopped;
  }

  private async closeOnce(): Promise<void> {
    // A turn later: `stopping` is seen by whoever is woken here.
    await this.ports.clock.yieldNow();
    this.parked.finishAll();
    this.groups.close();
    await this.within(STOP_WAIT_MS, () => Array.from(this.sessions).every(({ inFlight }) => inFlight === 0));
    for (const session of Array.from(this.sessions)) session.end();
    await this.within(STOP_WAIT_MS, () => this.sessions.size === 0);
    for (const session of Array.from(this.sessions)) session.destroy();
    this.cancelTick();
    await this.headroom.close();
    await this.lag.close();
  }

  /** Looked at by the ticker; gives up after `waitMs`. */
  private async within(waitMs: number, done: () => boolean): Promise<void> {
    const untilMs = this.ports.clock.bootMs() + waitMs;
    while (!done() && this.ports.clock.bootMs() < untilMs)
      await new Promise<void>((resolve) => this.quietWaiters.push(resolve));
  }

  private forget(session: Session, host: string): void {
    if (!this.sessions.delete(session)) return;
    const left = (this.byAddress.get(host) ?? 1) - 1;
    if (left === 0) this.byAddress.delete(host);
    else this.byAddress.set(host, left);
  }

  private turnAway(
    connection: Connection,
    code: 'TOO_MANY_CONNECTIONS' | 'SHUTTING_DOWN',
    message: string | undefined,
  ): ConnectionHandler | undefined {
    this.metrics.connectionsRefused.add();
    if (this.refusals >= REFUSALS_MAX) return undefined;
    this.refusals += 1;
    connection.send(
      encodeFailureFrame({ operation: CONNECTION_OPERATION, version: 1, correlationId: 0 }, refusal(code, message)),
    );
    connection.end(REFUSAL_LINGER_MS);
    return {
      receiveBuffer: () => SINK,
      received: () => undefined,
      drained: () => undefined,
      closed: () => {
        this.refusals -= 1;
      },
    };
  }

  private scheduleTick(): void {
    const dueMs = this.ports.clock.bootMs() + TICK_MS;
    this.cancelTick = this.ports.clock.setTimer(TICK_MS, () => {
      const nowMs = this.ports.clock.bootMs();
      this.metrics.loopDelaySeconds.observe(Math.max(0, nowMs - dueMs) / 1000);
      this.scheduleTick();
      this.tick(nowMs);
    });
  }

  private tick(nowMs: MonotonicMs): void {
    this.ticks += 1;
    this.replicas.tick();
    this.parked.expire(nowMs);
    this.groups.tick(nowMs);
    this.lag.tick(nowMs);
    if (this.ticks % SESSION_TICKS === 0) for (const session of Array.from(this.sessions)) session.tick(nowMs);
    this.headroom.tick(nowMs);
    for (const resolve of this.quietWaiters.splice(0)) resolve();
  }

  private observe(): void {
    const { telemetry } = this.ports;
    telemetry.observeGauge('rivulet_connections', 'Connections open now.', () => this.sessions.size);
    telemetry.observeGauge('rivulet_requests_in_flight', 'Requests that are not answered yet.', () =>
      Array.from(this.sessions).reduce((sum, { inFlight }) => sum + inFlight, 0),
    );
    telemetry.observeGauge(
      'rivulet_input_bytes',
      'Memory for requests that are being received, beside the small buffer of each connection.',
      () => this.input.usedBytes,
    );
    telemetry.observeGauge('rivulet_parked_fetches', 'Fetches that wait for data.', () => this.parked.size);
    telemetry.observeGauge(
      'rivulet_cold_reads_waiting',
      'Fetches that wait for their turn at the disk.',
      () => this.coldReads.queued,
    );
    telemetry.observeGauge(
      'rivulet_disk_free_bytes',
      'Free disk space, as last seen; -1: not known.',
      () => this.headroom.freeBytes,
    );
    telemetry.observeGauge('rivulet_disk_pressure', '1: produces are refused for want of disk space.', () =>
      this.headroom.underPressure ? 1 : 0,
    );
    telemetry.observeGauge(
      'rivulet_oldest_uncommitted_append_seconds',
      'Age of the oldest append that is not committed; 0: there is none.',
      () => {
        let oldestMs = 0;
        for (const { oldestUncommittedMs } of this.replicas.all()) oldestMs = Math.max(oldestMs, oldestUncommittedMs);
        return oldestMs / 1000;
      },
    );
  }
}
