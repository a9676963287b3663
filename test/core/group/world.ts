// A coordinator, a log that applies its records one by one, members that follow the protocol's rules, and a network that loses and
// repeats what they say. Time passes as the test says.
import {
  leaderEpoch,
  monotonicMs,
  nodeId,
  offset,
  timestampMs,
  topicId,
  type TopicId,
} from '../../../src/base/brands.ts';
import { Coordinator, type Durable } from '../../../src/core/group/coordinator.ts';
import type { TopicPartitions } from '../../../src/core/group/partitions.ts';
import type { Effects, GroupAnswer, GroupRecord, GroupRequest, Membership } from '../../../src/core/group/requests.ts';
import { apply } from '../../../src/core/metadata/apply.ts';
import { judgeCommit, type Committer } from '../../../src/core/metadata/commits.ts';
import { decodeEntry, encodeEntry, type MetadataEntry } from '../../../src/core/metadata/entry.ts';
import { emptyImage, type MetadataImage } from '../../../src/core/metadata/image.ts';
import { imageFromRows, imageRows } from '../../../src/core/metadata/rows.ts';

/** A commit on its way. */
interface Commit {
  readonly entry: MetadataEntry;
  readonly done: (result: string) => void;
}

export const GROUP = 'billing';
export const SESSION_MS = 10_000;
export const REBALANCE_MS = 15_000;

export type Fate = 'fine' | 'request lost' | 'answer lost' | 'repeated late';

export const topic = (number: number): TopicId => topicId(number.toString(16).padStart(32, '0'));
export const partitionKey = (id: TopicId, partition: number): string => `${id}/${String(partition)}`;
export function keysOf(topics: readonly TopicPartitions[]): string[] {
  return topics.flatMap(({ topicId: id, partitions }) => partitions.map((partition) => partitionKey(id, partition)));
}

export class World {
  now = 1000;
  image: MetadataImage = emptyImage();
  coordinator: Coordinator;
  readonly counts: Record<string, number> = {};
  /** Proposed and not applied. */
  private readonly queue: (GroupRecord | Commit)[] = [];
  private readonly asked = new Map<number, (answer: GroupAnswer) => void>();
  private readonly late: GroupRequest[] = [];
  private readonly answered = new Set<number>();
  private index = -1;
  private token = 0;
  private topics = 0;
  private readonly durable: Durable;

  constructor() {
    const image = (): MetadataImage => this.image;
    this.durable = {
      get groups() {
        return image().groups;
      },
      get generationFloor() {
        return image().generationFloor;
      },
      get memberCount() {
        return image().memberCount;
      },
      get assignedPartitions() {
        return image().assignedPartitions;
      },
      byName: (name) => {
        const id = image().topicIds.get(name);
        const state = id === undefined ? undefined : image().topics.get(id);
        return state === undefined ? undefined : { topicId: state.topicId, partitions: state.partitions.length };
      },
      exists: (id) => image().topics.has(id),
    };
    this.coordinator = new Coordinator(this.durable, monotonicMs(this.now));
  }

  count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }
  say(entry: MetadataEntry): ReturnType<typeof apply>['outcome'] {
    // As it comes back from the log.
    const decoded = decodeEntry(encodeEntry(entry));
    if (!decoded.ok) throw new Error(decoded.reason);
    this.index += 1;
    const { outcome, topics } = apply(this.image, this.index, decoded.entry);
    if (topics.length > 0) this.coordinator.topicsChanged();
    return outcome;
  }
  createTopic(name: string, partitions: number): TopicId {
    this.topics += 1;
    const id = topic(this.topics);
    this.say({
      kind: 'CreateTopic',
      topicId: id,
      name,
      assignment: Array.from({ length: partitions }, () => [nodeId(1)]),
      config: [],
    });
    return id;
  }

  /** Resolves nothing: the answer is given to `done`, now or later, or never. */
  ask(request: GroupRequest, fate: Fate, done: (answer: GroupAnswer) => void): void {
    if (fate === 'request lost') return;
    if (fate === 'repeated late') this.late.push(request);
    this.token += 1;
    if (fate !== 'answer lost') this.asked.set(this.token, done);
    this.take(this.coordinator.handle(this.token, request, monotonicMs(this.now)));
  }
  /** An old request comes once more; nobody waits for its answer. */
  deliverLate(): void {
    const request = this.late.shift();
    if (request === undefined) return;
    this.count('late');
    this.token += 1;
    this.take(this.coordinator.handle(this.token, request, monotonicMs(this.now)));
  }

  get waiting(): number {
    return this.queue.length;
  }
  applyNext(): void {
    const record = this.queue.shift();
    if (record === undefined) return;
    if ('entry' in record) this.applyCommit(record);
    else this.take(this.coordinator.settled(record, this.applied(record), monotonicMs(this.now)));
  }
  private applyCommit({ entry, done }: Commit): void {
    const outcome = this.say(entry);
    if (!outcome.ok || outcome.value.kind !== 'OffsetsCommitted') throw new Error('commits are refused one by one');
    done(outcome.value.refused[0]?.code ?? 'done');
  }
  failNext(): void {
    const record = this.queue.shift();
    if (record === undefined || 'entry' in record) return;
    this.count('failed');
    const outcome = { ok: false, code: 'STORAGE_FULL', message: 'no room' } as const;
    this.take(this.coordinator.settled(record, outcome, monotonicMs(this.now)));
  }
  applyAll(): void {
    for (let left = 1000; this.queue.length > 0; left -= 1) {
      if (left === 0) throw new Error('records never come to an end');
      this.applyNext();
    }
  }
  pass(ms: number): void {
    this.now += ms;
    this.take(this.coordinator.expire(monotonicMs(this.now)));
  }
  /** What was proposed is durable or not, up to `kept`; the image is read back from its rows. */
  restart(kept: number): void {
    this.count('restarts');
    if (this.queue.length > 0) this.count('restarts with a record under way');
    for (const record of this.queue.splice(0).slice(0, kept)) {
      if ('entry' in record) this.say(record.entry);
      else this.applied(record);
    }
    this.asked.clear();
    const restored = imageFromRows(imageRows(this.image));
    if (!restored.ok) throw new Error(restored.reason);
    this.image = restored.image;
    this.coordinator = new Coordinator(this.durable, monotonicMs(this.now));
  }

  /** Looked at now, and again when it is applied behind what was proposed before; `done` hears the outcome. */
  commit(committer: Committer, id: TopicId, partition: number, at: number, done: (result: string) => void): void {
    const item = { topicId: id, partition, offset: offset(at), leaderEpoch: leaderEpoch(0), metadata: '' };
    const verdict = judgeCommit(this.image, committer, item);
    if (verdict.kind !== 'set') {
      done(verdict.kind === 'same' ? 'same' : verdict.code);
      return;
    }
    this.queue.push({
      entry: { kind: 'OffsetsCommitted', at: timestampMs(0), commits: [{ ...committer, offsets: [item] }] },
      done,
    });
  }
  /** The same, with nothing under way. */
  commitNow(memberId: string, generation: number, id: TopicId, partition: number, at: number): string {
    let result = 'none';
    this.commit({ groupId: GROUP, memberId, generation }, id, partition, at, (said) => (result = said));
    this.applyAll();
    return result;
  }

  private applied(
    record: GroupRecord,
  ): { ok: true; offsets: number } | { ok: false; code: 'INTERNAL'; message: string } {
    const outcome = this.say(entryOf(record));
    if (!outcome.ok) throw new Error(`a record was refused: ${outcome.code} ${outcome.message}`);
    return { ok: true, offsets: outcome.value.kind === 'GroupDeleted' ? outcome.value.offsets : 0 };
  }
  private take(effects: Effects): void {
    this.queue.push(...effects.records);
    for (const { token, answer } of effects.answers) {
      if (this.answered.has(token)) throw new Error('a request was answered twice');
      this.answered.add(token);
      const done = this.asked.get(token);
      this.asked.delete(token);
      done?.(answer);
    }
  }
}

function entryOf(record: GroupRecord): MetadataEntry {
  switch (record.kind) {
    case 'change':
      return { kind: 'GroupGeneration', ...record.change };
    case 'reset':
      return { ...record, kind: 'OffsetsReset', at: timestampMs(0) };
    case 'delete':
      return { kind: 'GroupDeleted', groupId: record.groupId };
  }
}

/** One process that wants to be a member, and does what the protocol says. */
export class Process {
  readonly name: string;
  readonly topics: readonly string[];
  readonly instanceId: string | undefined;
  memberId: string | undefined;
  generation = -1;
  membership: Membership | undefined;
  /** What it is reading. */
  readonly reading: Set<string> = new Set();
  /** Stopped, and not confirmed yet. */
  private released = new Set<string>();
  /** Of the last heartbeat that was answered: until then plus the session it may read. */
  private heardMs = 0;
  private request = 0;
  private lives = 0;
  /** It does not run: it hears nothing and stops nothing. */
  frozen = false;
  private readonly world: World;

  constructor(world: World, name: string, given: { topics?: readonly string[]; instanceId?: string } = {}) {
    this.world = world;
    this.name = name;
    this.topics = given.topics ?? ['orders'];
    this.instanceId = given.instanceId;
  }

  /** By its own clock. */
  get sessionOver(): boolean {
    return this.memberId !== undefined && this.world.now >= this.heardMs + SESSION_MS;
  }
  /** An owner in the eyes of the application: it reads, and its session runs. */
  owns(key: string): boolean {
    return this.reading.has(key) && !this.sessionOver;
  }

  join(fate: Fate = 'fine'): void {
    if (this.frozen) return;
    if (this.memberId === undefined) {
      this.lives += 1;
      this.memberId = `${this.name}-${String(this.lives)}`;
      this.generation = -1;
      this.membership = undefined;
      this.heardMs = this.world.now;
    }
    this.send(
      {
        kind: 'join',
        groupId: GROUP,
        memberId: this.memberId,
        instanceId: this.instanceId,
        clientId: this.name,
        sessionTimeoutMs: SESSION_MS,
        rebalanceTimeoutMs: REBALANCE_MS,
        topics: this.topics,
      },
      fate,
    );
  }

  /** One turn: joins, or stops what it is to release and sends a heartbeat. */
  work(fate: Fate = 'fine', waitMs = 0): void {
    if (this.frozen) return;
    if (this.sessionOver) this.stop('own session over');
    if (this.memberId === undefined || this.membership === undefined) {
      this.join(fate);
      return;
    }
    for (const key of keysOf(this.membership.release)) {
      if (this.reading.delete(key)) this.world.count('released');
      this.released.add(key);
    }
    this.beat(fate, waitMs);
  }
  /** A heartbeat that stops nothing. */
  beat(fate: Fate = 'fine', waitMs = 0): void {
    if (this.frozen || this.memberId === undefined) return;
    // One by one: the same topic several times.
    const released = Array.from(this.released, (key) => {
      const [id, partition] = key.split('/');
      return { topicId: topicId(id ?? ''), partitions: [Number(partition)] };
    });
    const { memberId, generation } = this;
    this.send({ kind: 'heartbeat', groupId: GROUP, memberId, generation, waitMs, released }, fate);
  }
  leave(fate: Fate = 'fine'): void {
    if (this.frozen || this.memberId === undefined) return;
    const { memberId } = this;
    this.stop('left');
    this.world.ask({ kind: 'leave', groupId: GROUP, memberId }, fate, () => undefined);
  }
  /** Ends without a word. */
  kill(): void {
    this.stop('killed');
    this.frozen = false;
  }

  private send(request: GroupRequest, fate: Fate): void {
    this.request += 1;
    const mine = this.request;
    const sentMs = this.world.now;
    this.world.ask(request, fate, (answer) => {
      // An answer to an earlier request, or to an earlier life, is not listened to; a frozen process hears nothing.
      if (mine === this.request && !this.frozen && this.memberId !== undefined) this.heard(answer, sentMs);
    });
  }

  private heard(answer: GroupAnswer, sentMs: number): void {
    if (!answer.ok) {
      if (answer.code === 'UNKNOWN_MEMBER' || answer.code === 'INSTANCE_FENCED') this.stop(answer.code);
      return;
    }
    if (answer.kind !== 'membership' || this.sessionOver) return;
    const { membership } = answer;
    this.heardMs = Math.max(this.heardMs, sentMs);
    this.generation = membership.generation;
    this.membership = membership;
    this.released = new Set();
    const assigned = new Set(keysOf(membership.assigned));
    const release = new Set(keysOf(membership.release));
    for (const key of Array.from(this.reading)) if (!assigned.has(key) && !release.has(key)) this.reading.delete(key);
    for (const key of assigned) this.reading.add(key);
  }
  private stop(why: string): void {
    if (this.memberId !== undefined) this.world.count(why);
    this.memberId = undefined;
    this.membership = undefined;
    this.generation = -1;
    this.reading.clear();
    this.released.clear();
    this.request += 1;
  }
}
