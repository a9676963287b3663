// Being a member of a group: joins, keeps the session alive, tells the owner what to read and what to give back, and joins anew
// when the session has ended. The session is counted from when a heartbeat was sent, so that this side ends it no later than the
// coordinator does, and on a clock that no change of the date moves.
import type { TopicId } from '../base/brands.ts';
import { RivuletError } from '../base/errors.ts';
import { NO_GENERATION } from '../protocol/group-fields.ts';
import type { Cluster } from './cluster.ts';
import type { Deadline } from './deadlines.ts';
import { asRivuletError } from './failure.ts';
import { heartbeat, joinGroup, leaveGroup, type Membership, type TopicPartitions } from './group-wire.ts';

const MEMBER_ID_BYTES = 12;

export interface MembershipOptions {
  readonly group: string;
  readonly topics: readonly string[];
  readonly instanceId: string | undefined;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
}

export interface MembershipOwner {
  /** What is to be read, and what is to be given back. */
  changed(membership: Membership): void;
  /** The session has ended, or may have: others may read what was owned. It joins anew by itself. */
  lost(error: RivuletError): void;
  /** It is no member and will be none. */
  failed(error: RivuletError): void;
  /** Something did not work and is tried again. */
  troubled(error: RivuletError): void;
}

export class GroupMembership {
  readonly #cluster: Cluster;
  readonly #options: MembershipOptions;
  readonly #owner: MembershipOwner;
  #memberId: string | undefined;
  #generation = NO_GENERATION;
  #state: Membership['state'] | undefined;
  #heartbeatMs = 1000;
  /** Told to nobody yet, or not answered yet. */
  #released: TopicPartitions[] = [];
  #session: Deadline | undefined;
  #failures = 0;
  #closed = false;
  #waiting = false;
  #started = false;

  constructor(cluster: Cluster, options: MembershipOptions, owner: MembershipOwner) {
    this.#cluster = cluster;
    this.#options = options;
    this.#owner = owner;
  }

  /** Undefined while it is no member. */
  get memberId(): string | undefined {
    return this.#memberId;
  }
  get generation(): number {
    return this.#generation;
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#run().catch((error: unknown) => {
      this.#owner.failed(asRivuletError(error, 'INTERNAL'));
    });
  }

  /** Stopped and committed: others may have them. */
  release(topicId: TopicId, partitions: readonly number[]): void {
    if (this.#closed || this.#memberId === undefined || partitions.length === 0) return;
    this.#released.push({ topicId, partitions });
    // Who waits for an answer would tell it too late.
    if (this.#waiting) this.#beatNow(this.#memberId);
  }

  /** Tells the coordinator, as far as it can be reached within the bound. */
  async leave(timeoutMs: number): Promise<void> {
    this.#closed = true;
    this.#cluster.deadlines.cancel(this.#session);
    const memberId = this.#memberId;
    this.#memberId = undefined;
    if (memberId === undefined) return;
    try {
      const link = await this.#cluster.controllerLink();
      await leaveGroup(link, this.#options.group, memberId, timeoutMs);
    } catch {
      // The session ends by itself then.
    }
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      const joining = this.#memberId === undefined;
      try {
        if (joining) await this.#join();
        else await this.#beat(this.#heartbeatMs);
        this.#failures = 0;
      } catch (error) {
        // oxlint-disable-next-line typescript/no-unnecessary-condition -- closed while it waited
        if (this.#closed) return;
        const failure = asRivuletError(error, 'INTERNAL');
        if (failure.code === 'CLOSED') return;
        if (!(await this.#goOn(failure, joining))) return;
      }
    }
  }

  /** False: it will be no member any more. */
  async #goOn(failure: RivuletError, joining: boolean): Promise<boolean> {
    if (failure.code === 'UNKNOWN_MEMBER') {
      if (this.#memberId !== undefined) this.#end(failure);
      if (joining) await this.#pause();
      return true;
    }
    if (!failure.retriable) {
      if (this.#memberId !== undefined) this.#end(failure);
      this.#closed = true;
      this.#owner.failed(failure);
      return false;
    }
    this.#owner.troubled(failure);
    // Who coordinates may have changed.
    await this.#cluster.refresh(this.#options.topics).catch(() => undefined);
    await this.#pause();
    return true;
  }

  async #pause(): Promise<void> {
    const { reconnectBackoffMs, reconnectBackoffMaxMs } = this.#cluster.settings;
    this.#failures += 1;
    await this.#cluster.pause(Math.min(reconnectBackoffMaxMs, reconnectBackoffMs * 2 ** Math.min(this.#failures, 16)));
  }

  async #join(): Promise<void> {
    const { group, instanceId, topics, sessionTimeoutMs, rebalanceTimeoutMs } = this.#options;
    const { ports, settings, deadlines } = this.#cluster;
    const bytes = Array.from(ports.random.bytes(MEMBER_ID_BYTES), (byte) => byte.toString(16).padStart(2, '0'));
    const memberId = `${settings.clientId.replaceAll(/[^A-Za-z0-9._-]/g, '-').slice(0, 64)}-${bytes.join('')}`;
    const link = await this.#cluster.controllerLink();
    const sentMs = ports.clock.bootMs();
    const request = { group, memberId, instanceId, clientId: settings.clientId, topics };
    const membership = await joinGroup(
      link,
      { ...request, sessionTimeoutMs, rebalanceTimeoutMs },
      settings.requestTimeoutMs,
    );
    if (this.#closed) {
      await leaveGroup(link, group, memberId, settings.requestTimeoutMs).catch(() => undefined);
      return;
    }
    this.#memberId = memberId;
    this.#session = deadlines.after(sessionTimeoutMs, () => {
      this.#sessionEnded(memberId);
    });
    this.#told(memberId, membership, sentMs);
  }

  async #beat(waitMs: number): Promise<void> {
    const memberId = this.#memberId;
    if (memberId === undefined) return;
    const { ports, settings } = this.#cluster;
    const released = this.#released.slice();
    const link = await this.#cluster.controllerLink();
    const sentMs = ports.clock.bootMs();
    this.#waiting = released.length === 0 && waitMs > 0;
    const request = { group: this.#options.group, memberId, generation: this.#generation, released };
    const wait = released.length > 0 ? 0 : waitMs;
    try {
      const membership = await heartbeat(link, { ...request, waitMs: wait }, settings.requestTimeoutMs + wait);
      this.#released = this.#released.filter((each) => !released.includes(each));
      this.#told(memberId, membership, sentMs);
    } finally {
      if (waitMs > 0) this.#waiting = false;
    }
  }

  /** Beside the one that waits. What it was to tell is told by the next one, should this fail. */
  #beatNow(memberId: string): void {
    this.#beat(0).catch((error: unknown) => {
      if (this.#memberId === memberId && !this.#closed) this.#owner.troubled(asRivuletError(error, 'INTERNAL'));
    });
  }

  #told(memberId: string, membership: Membership, sentMs: number): void {
    // Of an earlier membership, or overtaken by a younger answer.
    if (memberId !== this.#memberId || this.#closed) return;
    if (this.#session !== undefined)
      this.#session.atMs = Math.max(this.#session.atMs, sentMs + this.#options.sessionTimeoutMs);
    if (membership.generation < this.#generation) return;
    this.#heartbeatMs = Math.max(1, membership.heartbeatMs);
    const isNews = membership.generation !== this.#generation || membership.state !== this.#state;
    this.#generation = membership.generation;
    this.#state = membership.state;
    if (isNews) this.#owner.changed(membership);
  }

  #sessionEnded(memberId: string): void {
    if (memberId !== this.#memberId || this.#closed) return;
    const bound = String(this.#options.sessionTimeoutMs);
    this.#end(new RivuletError('UNKNOWN_MEMBER', `no heartbeat was answered within the session of ${bound} ms`));
  }

  #end(why: RivuletError): void {
    this.#cluster.deadlines.cancel(this.#session);
    this.#session = undefined;
    this.#memberId = undefined;
    this.#generation = NO_GENERATION;
    this.#state = undefined;
    this.#released = [];
    this.#owner.lost(why);
  }
}
