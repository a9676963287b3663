// One broker as the client knows it: at most one connection, opened when needed, reopened after a growing pause with jitter.
import { RivuletError } from '../base/errors.ts';
import type { Address } from '../ports/network.ts';
import type { ClientPorts } from './api.ts';
import type { Deadline, Deadlines } from './deadlines.ts';
import { asRivuletError } from './failure.ts';
import { Link, type LinkOptions } from './link.ts';

export interface BackoffOptions {
  readonly reconnectBackoffMs: number;
  readonly reconnectBackoffMaxMs: number;
}

/** Full range from half to all of the pause, so that clients that were cut off together do not come back together. */
export function jittered(pauseMs: number, ports: ClientPorts): number {
  const half = Math.max(1, Math.floor(pauseMs / 2));
  return half + ports.random.below(half + 1);
}

export class BrokerNode {
  readonly address: Address;
  readonly #ports: ClientPorts;
  readonly #deadlines: Deadlines;
  readonly #options: LinkOptions & BackoffOptions;
  #link: Link | undefined;
  #opening: Promise<Link> | undefined;
  #failures = 0;
  #notBeforeMs = 0;
  #pause: Deadline | undefined;
  #endPause: (() => void) | undefined;
  #closed = false;
  readonly #onRoom = new Set<() => void>();

  constructor(ports: ClientPorts, deadlines: Deadlines, address: Address, options: LinkOptions & BackoffOptions) {
    this.#ports = ports;
    this.#deadlines = deadlines;
    this.address = address;
    this.#options = options;
  }

  /** The link when it is up now. */
  get current(): Link | undefined {
    return this.#link;
  }

  /** The link, opened first when needed: one attempt, after the pause that is due. Rejects with RivuletError. */
  async link(): Promise<Link> {
    if (this.#closed) throw new RivuletError('CLOSED');
    if (this.#link !== undefined) return this.#link;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return await this.#opening;
  }

  /** Called whenever a full link has room again. One entry per owner, however often it asks. */
  whenRoom(owner: () => void): void {
    this.#onRoom.add(owner);
  }
  forget(owner: () => void): void {
    this.#onRoom.delete(owner);
  }

  close(lingerMs: number): void {
    this.#closed = true;
    this.#deadlines.cancel(this.#pause);
    this.#endPause?.();
    this.#link?.close(lingerMs);
    this.#link = undefined;
    this.#onRoom.clear();
  }

  async #open(): Promise<Link> {
    await this.#waitForTurn();
    if (this.#closed) throw new RivuletError('CLOSED');
    let link: Link;
    try {
      link = await Link.open(this.#ports, this.#deadlines, this.address, this.#options);
    } catch (error) {
      this.#failed();
      throw asRivuletError(error, 'NOT_CONNECTED');
    }
    if (link.ended !== undefined) throw link.ended;
    // oxlint-disable-next-line typescript/no-unnecessary-condition -- closed while it was opened
    if (this.#closed) {
      link.close(0);
      throw new RivuletError('CLOSED');
    }
    this.#link = link;
    const openedMs = this.#ports.clock.bootMs();
    link.onRoom = () => {
      // An owner that is still short of room asks again, for the next time.
      const owners = [...this.#onRoom];
      this.#onRoom.clear();
      for (const owner of owners) owner();
    };
    link.onEnd = () => {
      if (this.#link === link) this.#link = undefined;
      // A connection that was of use is not held against the broker; one that ends at once is.
      if (this.#ports.clock.bootMs() - openedMs >= this.#options.reconnectBackoffMaxMs) this.#failures = 0;
      this.#failed();
      link.onRoom?.();
    };
    return link;
  }

  #failed(): void {
    const pauseMs = Math.min(
      this.#options.reconnectBackoffMaxMs,
      this.#options.reconnectBackoffMs * 2 ** Math.min(this.#failures, 16),
    );
    this.#failures += 1;
    this.#notBeforeMs = this.#ports.clock.bootMs() + jittered(pauseMs, this.#ports);
  }

  /** An answer came: the broker is well. */
  succeeded(): void {
    this.#failures = 0;
  }

  async #waitForTurn(): Promise<void> {
    const waitMs = this.#notBeforeMs - this.#ports.clock.bootMs();
    if (waitMs <= 0) return;
    await new Promise<void>((resolve) => {
      this.#endPause = resolve;
      this.#pause = this.#deadlines.after(waitMs, resolve);
    });
    this.#endPause = undefined;
    this.#pause = undefined;
  }
}
