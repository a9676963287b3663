// One fetch from its request to its answer: looks, brings cold data into memory, waits for more, answers once.
import { assert } from '../base/assert.ts';
import { encodeResponse, type FetchRequest } from '../protocol/operations/fetch.v1.ts';
import { StorageFailed } from '../storage/health.ts';
import type { Call } from './call.ts';
import { refusal } from './failures.ts';
import { gather, releaseAll, type ColdPartition, type Gathered } from './fetch-gather.ts';
import type { BrokerNode } from './node.ts';
import type { ParkedFetch } from './parked-fetches.ts';

/** Data that is evicted as fast as it is brought in: the client asks again. */
const COLD_ROUNDS_MAX = 16;

export class FetchRun implements ParkedFetch {
  readonly deadlineMs: number;
  private readonly node: BrokerNode;
  private readonly call: Call;
  private readonly request: FetchRequest;
  private unsubscribes: (() => void)[] = [];
  private isParked = false;
  private coldRounds = 0;
  private timeIsUp = false;

  constructor(node: BrokerNode, call: Call, request: FetchRequest, deadlineMs: number) {
    this.node = node;
    this.call = call;
    this.request = request;
    this.deadlineMs = deadlineMs;
  }

  start(): void {
    this.timeIsUp = this.deadlineMs <= this.call.startedMs;
    this.look();
  }

  /** Of a parked fetch only. */
  finish(): void {
    this.timeIsUp = true;
    this.wake();
  }

  private look(): void {
    const { call, node } = this;
    if (call.session.isOver) {
      call.refuse(refusal('SHUTTING_DOWN'));
      return;
    }
    if (call.session.outputFull) {
      // What could not be sent would only hold mappings.
      call.session.onDrained(() => {
        this.guard(() => {
          this.look();
        });
      });
      return;
    }
    const found = gather(node, this.request);
    const [cold] = found.cold;
    const goesOn = cold !== undefined && this.coldRounds < COLD_ROUNDS_MAX;
    if (goesOn && found.bytes === 0 && !found.failed) {
      this.warm(cold);
      return;
    }
    const enough = found.bytes >= this.request.minBytes || found.failed || cold !== undefined;
    if (enough || this.timeIsUp || node.stopping) {
      if (goesOn) node.coldReads.prepareAhead(cold.replica, cold.wanted.fetchOffset, cold.maxBytes);
      this.answer(found);
      return;
    }
    releaseAll(found.slices);
    this.park();
  }

  private answer(found: Gathered): void {
    const { node, call } = this;
    node.metrics.fetchSeconds.observe((node.ports.clock.bootMs() - call.startedMs) / 1000);
    node.metrics.fetchedBytes.add(found.bytes);
    call.answer(encodeResponse({ throttleMs: 0, partitions: found.partitions }), found.slices);
  }

  private warm({ replica, wanted, maxBytes }: ColdPartition): void {
    this.coldRounds += 1;
    this.node.metrics.coldReads.add();
    this.node.coldReads.prepare(replica, wanted.fetchOffset, maxBytes).then(
      () => {
        this.guard(() => {
          this.look();
        });
      },
      (error: unknown) => {
        this.guard(() => {
          throw error;
        });
      },
    );
  }

  private park(): void {
    assert(!this.isParked, 'a fetch is parked once at a time');
    if (!this.node.parked.add(this)) {
      this.call.refuse(refusal('TOO_MANY_REQUESTS', 'too many fetches of this broker wait for data'));
      return;
    }
    this.isParked = true;
    const woken = (): void => {
      this.wake();
    };
    // All, also those that hold data now: together they may reach what the client waits for.
    for (const { topicId, partition } of this.request.partitions) {
      const found = this.node.replicas.find(topicId, partition);
      const unsubscribe = found.ok ? found.replica.onAdvance(woken) : undefined;
      if (unsubscribe === undefined) {
        this.unpark();
        this.call.refuse(refusal('TOO_MANY_REQUESTS', 'too many fetches of a partition wait for data'));
        return;
      }
      this.unsubscribes.push(unsubscribe);
    }
    this.call.session.onOver(this.abandoned);
  }

  private readonly abandoned = (): void => {
    this.wake();
  };

  private wake(): void {
    if (!this.isParked) return;
    this.unpark();
    this.guard(() => {
      this.look();
    });
  }

  private unpark(): void {
    this.isParked = false;
    this.node.parked.delete(this);
    this.call.session.offOver(this.abandoned);
    for (const unsubscribe of this.unsubscribes) unsubscribe();
    this.unsubscribes = [];
  }

  /** Here an exception would end in a partition's commit, or nowhere. */
  private guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      // The process is ending: no answer leaves any more.
      if (error instanceof StorageFailed) return;
      this.call.session.crashed(this.call, error);
    }
  }
}
