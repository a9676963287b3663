// Carries out what the consensus core wants to be durable, in its order; all that waits shares a sync.
import { assert } from '../base/assert.ts';
import { offset } from '../base/brands.ts';
import type { Clock } from '../ports/clock.ts';
import type { Entry, RaftWrite } from '../core/raft/contract.ts';
import type { StorageDeps } from '../storage/config.ts';
import { StorageFailed } from '../storage/health.ts';
import type { PartitionLog } from '../storage/log.ts';
import { appendEntries } from './raft-entries.ts';

export interface VoteStore {
  readonly vote: { readonly term: number; readonly vote: number };
  /** Durable when it resolves. */
  writeVote(vote: { readonly term: number; readonly vote: number }): Promise<void>;
}

/** What the log does not take now (no room, too much waits) is tried again after this. */
const RETRY_MS = 20;

export class RaftWriter {
  private readonly deps: StorageDeps;
  private readonly log: PartitionLog;
  private readonly votes: VoteStore;
  private readonly nodeId: number;
  private readonly persisted: (generation: number) => void;
  private queue: RaftWrite[] = [];
  private running: Promise<void> | undefined;
  private startedMs: number | undefined;

  constructor(
    deps: StorageDeps,
    log: PartitionLog,
    votes: VoteStore,
    nodeId: number,
    persisted: (generation: number) => void,
  ) {
    this.deps = deps;
    this.log = log;
    this.votes = votes;
    this.nodeId = nodeId;
    this.persisted = persisted;
  }

  add(write: RaftWrite): void {
    this.queue.push(write);
    this.running ??= this.run().finally(() => {
      this.running = undefined;
      this.startedMs = undefined;
    });
  }
  /** Milliseconds that the present write has taken so far. */
  busyMs(nowMs: number): number {
    return this.startedMs === undefined ? 0 : nowMs - this.startedMs;
  }
  async idle(): Promise<void> {
    await this.running;
  }

  private async run(): Promise<void> {
    try {
      while (this.queue.length > 0) {
        const writes = this.queue;
        this.queue = [];
        this.startedMs = this.deps.clock.bootMs();
        for (const write of writes) await this.carryOut(write);
        await this.log.sync();
        const last = writes.at(-1);
        assert(last !== undefined, 'there was a write');
        this.persisted(last.generation);
      }
    } catch (error) {
      // The process is ending: nothing is said any more.
      if (!(error instanceof StorageFailed) && !this.log.failed) throw error;
    }
  }

  private async carryOut({ hardState, resetTo, truncateFrom, entries }: RaftWrite): Promise<void> {
    // The vote comes first: entries of a term are never on a disk that does not know the term.
    if (hardState !== undefined) await this.votes.writeVote({ term: hardState.term, vote: hardState.votedFor });
    if (resetTo !== undefined) {
      if (this.log.logEndOffset > resetTo)
        await this.log.truncateTo(offset(Math.max(resetTo, this.log.logStartOffset)));
      await this.log.restartAt(offset(resetTo));
    }
    if (truncateFrom !== undefined) await this.log.truncateTo(offset(truncateFrom));
    let at = 0;
    while (at < entries.length) {
      let end = at + 1;
      while (end < entries.length && entries[end]?.term === entries[at]?.term) end += 1;
      await this.append(entries.slice(at, end));
      at = end;
    }
  }
  private async append(entries: readonly Entry[]): Promise<void> {
    const { clock, crc32c } = this.deps;
    for (;;) {
      const result = appendEntries(this.log, entries, this.nodeId, clock.wallMs(), crc32c);
      if (result.ok) {
        assert(
          result.baseOffset === entries[0]?.index,
          `entry ${String(entries[0]?.index)} was appended at ${String(result.baseOffset)}`,
        );
        return;
      }
      if (result.code === 'STORAGE_FAILED') throw new StorageFailed('the metadata log is closed');
      await later(clock);
    }
  }
}

async function later(clock: Clock): Promise<void> {
  await new Promise<void>((resolve) => {
    clock.setTimer(RETRY_MS, resolve);
  });
}
