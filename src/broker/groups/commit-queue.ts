// Commits on their way to the metadata log: what comes while one entry is under way shares the next one.
import { Ring } from '../../base/ring.ts';
import { ENTRY_COMMITS_MAX, type CommitOfMember } from '../../core/metadata/group-entry.ts';
import type { RefusedCommit } from '../../core/metadata/groups.ts';
import type { Clock } from '../../ports/clock.ts';
import type { EntryOutcome, MetadataLog } from '../../replication/contract.ts';

export type CommitOutcome =
  /** Those of its offsets that do not count, by their place. */
  | { readonly ok: true; readonly refused: readonly Omit<RefusedCommit, 'commit'>[] }
  | Extract<EntryOutcome, { readonly ok: false }>;

interface Waiting {
  readonly commit: CommitOfMember;
  readonly bytes: number;
  readonly done: (outcome: CommitOutcome) => void;
}

const WAITING_MAX = 16_384;
const ENTRY_BYTES_MAX = 1024 * 1024;
const FULL: CommitOutcome = { ok: false, code: 'TOO_MANY_REQUESTS', message: 'too many commits wait already' };

export class CommitQueue {
  private readonly metadata: MetadataLog;
  private readonly clock: Clock;
  private readonly waiting = new Ring<Waiting>(WAITING_MAX);
  private underWay = false;

  constructor(metadata: MetadataLog, clock: Clock) {
    this.metadata = metadata;
    this.clock = clock;
  }
  get length(): number {
    return this.waiting.length;
  }

  /** `done` is called exactly once, later; never when the storage has failed. */
  add(commit: CommitOfMember, done: (outcome: CommitOutcome) => void): void {
    const bytes = commit.offsets.reduce((sum, { metadata }) => sum + 40 + 3 * metadata.length, 600);
    if (!this.waiting.push({ commit, bytes, done })) done(FULL);
    else if (!this.underWay) this.next();
  }

  private next(): void {
    const batch = this.takeBatch();
    if (batch.length === 0) return;
    this.underWay = true;
    const commits = batch.map(({ commit }) => commit);
    this.metadata.propose({ kind: 'OffsetsCommitted', at: this.clock.wallMs(), commits }).then(
      (outcome) => {
        this.underWay = false;
        this.next();
        answer(batch, outcome);
      },
      () => undefined,
    );
  }

  private takeBatch(): Waiting[] {
    const batch: Waiting[] = [];
    let bytes = 0;
    for (
      let item = this.waiting.peek();
      item !== undefined && batch.length < ENTRY_COMMITS_MAX;
      item = this.waiting.peek()
    ) {
      bytes += item.bytes;
      if (batch.length > 0 && bytes > ENTRY_BYTES_MAX) break;
      this.waiting.shift();
      batch.push(item);
    }
    return batch;
  }
}

function answer(batch: readonly Waiting[], outcome: EntryOutcome): void {
  if (!outcome.ok) {
    for (const { done } of batch) done(outcome);
    return;
  }
  const all = outcome.value.kind === 'OffsetsCommitted' ? outcome.value.refused : [];
  const refused = new Map<number, RefusedCommit[]>();
  for (const each of all) {
    const list = refused.get(each.commit);
    if (list === undefined) refused.set(each.commit, [each]);
    else list.push(each);
  }
  for (const [index, { done }] of batch.entries()) done({ ok: true, refused: refused.get(index) ?? [] });
}
