// The coordinator of groups between the metadata log and the requests of members. It works where the metadata log is led; after a
// change of leadership it begins anew from what is applied.
import { assert } from '../../base/assert.ts';
import { monotonicMs, type MonotonicMs, type Offset, type TimestampMs } from '../../base/brands.ts';
import { Coordinator, type Durable } from '../../core/group/coordinator.ts';
import type { Effects, GroupAnswer, GroupFailure, GroupRecord, GroupRequest } from '../../core/group/requests.ts';
import { committedOffset } from '../../core/metadata/commits.ts';
import { topicByName } from '../../core/metadata/image.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { EntryOutcome, MetadataEntry, MetadataLog } from '../../replication/contract.ts';
import { CommitQueue } from './commit-queue.ts';

export interface GroupDriverOptions {
  readonly nodeId: number;
  readonly metadata: MetadataLog;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

/** Entries after which the partitions that a group shares out may be others. */
const TOPIC_ENTRIES: ReadonlySet<MetadataEntry['kind']> = new Set<MetadataEntry['kind']>([
  'CreateTopic',
  'AlterTopic',
  'DeleteTopic',
]);
const MOVED: GroupFailure = { ok: false, code: 'COORDINATOR_NOT_AVAILABLE', message: undefined };
const STOPPING: GroupFailure = { ok: false, code: 'SHUTTING_DOWN', message: undefined };

export class GroupDriver {
  readonly commits: CommitQueue;
  private readonly options: GroupDriverOptions;
  private readonly durable: Durable;
  private readonly unsubscribe: () => void;
  private readonly asked = new Map<number, (answer: GroupAnswer) => void>();
  private lastToken = 0;
  private current: { readonly term: number; readonly coordinator: Coordinator } | undefined;
  private closed = false;
  /** What a coordinator decided belongs to the term that it was made in. */
  private readonly terms = new WeakMap<Coordinator, number>();

  constructor(options: GroupDriverOptions) {
    const { metadata, clock, telemetry } = options;
    this.options = options;
    this.durable = {
      get groups() {
        return metadata.image().groups;
      },
      get generationFloor() {
        return metadata.image().generationFloor;
      },
      get memberCount() {
        return metadata.image().memberCount;
      },
      get assignedPartitions() {
        return metadata.image().assignedPartitions;
      },
      byName: (name) => {
        const topic = topicByName(metadata.image(), name);
        return topic === undefined ? undefined : { topicId: topic.topicId, partitions: topic.partitions.length };
      },
      exists: (topicId) => metadata.image().topics.has(topicId),
    };
    this.commits = new CommitQueue(metadata, clock);
    this.unsubscribe = metadata.onApplied(({ entry }) => {
      if (TOPIC_ENTRIES.has(entry.kind)) this.current?.coordinator.topicsChanged();
    });
    telemetry.observeGauge('rivulet_groups', 'Consumer groups.', () => metadata.image().groups.size);
    telemetry.observeGauge('rivulet_group_members', 'Members of all groups.', () => metadata.image().memberCount);
    telemetry.observeGauge(
      'rivulet_group_committed_offsets',
      'Partitions with a committed offset, over all groups.',
      () => metadata.image().offsetCount,
    );
  }

  /** This node answers for groups now. */
  get isCoordinator(): boolean {
    return this.coordinator() !== undefined;
  }
  /** Requests that are not answered yet: heartbeats that wait, and what waits for its record. */
  get waiting(): number {
    return this.asked.size;
  }
  silentMs(groupId: string, memberId: string): number | undefined {
    return this.coordinator()?.silentMs(groupId, memberId, this.nowMs());
  }

  /** `done` is called exactly once, now or later. */
  ask(request: GroupRequest, done: (answer: GroupAnswer) => void): void {
    const coordinator = this.coordinator();
    if (coordinator === undefined) {
      done(this.closed ? STOPPING : MOVED);
      return;
    }
    this.lastToken += 1;
    this.asked.set(this.lastToken, done);
    this.take(coordinator, coordinator.handle(this.lastToken, request, this.nowMs()));
  }

  tick(nowMs: MonotonicMs): void {
    const coordinator = this.coordinator();
    if (coordinator !== undefined) this.take(coordinator, coordinator.expire(nowMs));
  }

  /** Whoever waits is answered; what is under way at the metadata log is answered by it. */
  close(): void {
    this.closed = true;
    this.unsubscribe();
    this.retire(STOPPING);
  }

  private coordinator(): Coordinator | undefined {
    const { metadata, nodeId } = this.options;
    const { leader } = metadata;
    const leads = leader?.nodeId === nodeId && metadata.hasLease();
    const term = leads && !this.closed ? leader.term : undefined;
    if (this.current !== undefined && this.current.term !== term) this.retire(MOVED);
    if (this.current === undefined && term !== undefined) {
      this.current = { term, coordinator: new Coordinator(this.durable, this.nowMs()) };
      this.terms.set(this.current.coordinator, term);
    }
    return this.current?.coordinator;
  }

  private retire(why: GroupFailure): void {
    const { coordinator } = this.current ?? {};
    this.current = undefined;
    if (coordinator !== undefined) this.take(coordinator, coordinator.stop(why));
  }

  private take(from: Coordinator, { records, answers, notes }: Effects): void {
    for (const record of records) this.propose(from, record);
    for (const { event, groupId, detail } of notes) this.options.telemetry.log('info', event, { groupId, detail });
    for (const { token, answer } of answers) {
      const done = this.asked.get(token);
      this.asked.delete(token);
      done?.(answer);
    }
  }

  private propose(from: Coordinator, record: GroupRecord): void {
    const before = record.kind === 'reset' ? this.offsetsBefore(record) : [];
    const term = this.terms.get(from);
    assert(term !== undefined, 'a coordinator has its term');
    this.options.metadata.propose(entryOf(record, this.options.clock.wallMs()), { term }).then(
      (outcome) => {
        if (!outcome.ok)
          this.options.telemetry.log('warn', 'group.not-recorded', { groupId: record.groupId, code: outcome.code });
        this.take(from, from.settled(record, settledAs(outcome, before), this.nowMs()));
      },
      () => undefined,
    );
  }

  private offsetsBefore({
    groupId,
    offsets,
  }: Extract<GroupRecord, { readonly kind: 'reset' }>): (Offset | undefined)[] {
    const image = this.options.metadata.image();
    return offsets.map(({ topicId, partition }) => committedOffset(image, groupId, topicId, partition)?.offset);
  }

  private nowMs(): MonotonicMs {
    return monotonicMs(this.options.clock.bootMs());
  }
}

function settledAs(
  outcome: EntryOutcome,
  before: readonly (Offset | undefined)[],
): Parameters<Coordinator['settled']>[1] {
  if (!outcome.ok) return outcome;
  return { ok: true, before, offsets: outcome.value.kind === 'GroupDeleted' ? outcome.value.offsets : 0 };
}

function entryOf(record: GroupRecord, at: TimestampMs): MetadataEntry {
  switch (record.kind) {
    case 'change':
      assert(record.change.groupId === record.groupId, 'a change belongs to its group');
      return { kind: 'GroupGeneration', ...record.change };
    case 'reset':
      return {
        kind: 'OffsetsReset',
        groupId: record.groupId,
        generation: record.generation,
        at,
        offsets: record.offsets,
      };
    case 'delete':
      return { kind: 'GroupDeleted', groupId: record.groupId };
  }
}
