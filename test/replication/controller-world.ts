// A controller with everything around it scripted: the image takes real entries, the other nodes say what the test makes them say.
import { leaderEpoch, monotonicMs, nodeId, topicId, type MonotonicMs, type NodeId } from '../../src/base/brands.ts';
import { apply } from '../../src/core/metadata/apply.ts';
import type { MetadataEntry, PartitionChange } from '../../src/core/metadata/entry.ts';
import { emptyImage, type MetadataImage, type PartitionState } from '../../src/core/metadata/image.ts';
import type { LogEndAnswer } from '../../src/protocol/between-nodes/log-ends.v1.ts';
import type { RaftRequest } from '../../src/protocol/between-nodes/raft.v1.ts';
import type { EntryOutcome } from '../../src/replication/contract.ts';
import { Controller, type ControllerView } from '../../src/replication/controller.ts';
import type { SelfState } from '../../src/replication/node-liveness.ts';
import { NodeVoices } from '../../src/replication/node-voices.ts';
import type { PartitionPlace } from '../../src/replication/recovery-election.ts';
import { RecordingTelemetry } from '../../src/sim/telemetry.ts';

export const TICK_MS = 50;
const HEARTBEAT_MS = 100;

export function topicOf(number: number): ReturnType<typeof topicId> {
  return topicId(number.toString(16).padStart(32, '0'));
}
export function diskOf(node: number): string {
  return node.toString(16).padStart(32, 'd');
}
export const ids = (...numbers: readonly number[]): NodeId[] => numbers.map((each) => nodeId(each));

/** What another node does now. `deaf`: it speaks, and hears nothing. */
interface Other {
  speaks: boolean;
  deaf: boolean;
  incarnation: number;
  leaving: boolean;
  diskStuck: boolean;
  /** The newest clock of the controller that it has heard. */
  echoMs: number;
}

interface Proposal {
  readonly entry: MetadataEntry;
  readonly resolve: (outcome: EntryOutcome) => void;
}

export class ControllerWorld implements ControllerView {
  nowMs: MonotonicMs = monotonicMs(100_000);
  term = 3;
  leads = true;
  readonly selfId: NodeId;
  readonly voices: NodeVoices;
  readonly telemetry: RecordingTelemetry = new RecordingTelemetry();
  readonly controller: Controller;
  readonly others: Map<number, Other> = new Map();
  self: SelfState;
  /** Every change that was proposed, in order, and when. */
  readonly proposed: { readonly change: PartitionChange; readonly ms: number }[] = [];
  /** Most that were under way at once. */
  mostUnderWay = 0;
  /** Proposals wait for `answerAll`. */
  holds = false;
  /** Instead of applying it; undefined: apply it. */
  refuse: (entry: MetadataEntry) => EntryOutcome | undefined = () => undefined;
  /** What the replicas say of their logs; `undefined`: no answer. */
  ends: (node: number, place: PartitionPlace) => LogEndAnswer | undefined = () => undefined;
  /** Its answer about logs neither comes nor fails; -1: none. */
  hangs = -1;
  readonly asked: { readonly node: number; readonly places: number; readonly ms: number }[] = [];
  private readonly current: MetadataImage = emptyImage();
  private readonly pending: Proposal[] = [];
  private index = 0;

  constructor(selfId = 1, nodes: readonly number[] = [1, 2, 3]) {
    this.selfId = nodeId(selfId);
    this.self = { diskId: diskOf(selfId), incarnation: 1, diskStuck: false, leaving: false };
    this.voices = new NodeVoices({
      startedMs: this.nowMs,
      ownLeaseUntilMs: () => (this.leads ? Infinity : -Infinity),
      appliedIndex: () => this.index,
    });
    this.controller = new Controller(this, this.telemetry);
    for (const node of nodes) {
      this.register(node, 1);
      if (node === selfId) continue;
      const silent = { deaf: false, incarnation: 1, leaving: false, diskStuck: false, echoMs: -1 };
      this.others.set(node, { speaks: true, ...silent });
      this.voices.linkChanged(node, true, this.nowMs);
    }
  }

  isController(): boolean {
    return this.leads;
  }
  image(): MetadataImage {
    return this.current;
  }
  selfState(): SelfState {
    return this.self;
  }
  propose(entry: MetadataEntry): Promise<EntryOutcome> {
    if (entry.kind === 'PartitionChange') this.proposed.push({ change: entry, ms: this.nowMs });
    return new Promise((resolve) => {
      this.pending.push({ entry, resolve });
      this.mostUnderWay = Math.max(this.mostUnderWay, this.pending.length);
    });
  }
  logEnds(node: NodeId, places: readonly PartitionPlace[]): Promise<readonly LogEndAnswer[] | undefined> {
    this.asked.push({ node, places: places.length, ms: this.nowMs });
    if (node === this.hangs) return new Promise(() => undefined);
    if (this.others.get(node)?.speaks === false) return Promise.resolve(undefined);
    const ends = places.map((place) => this.ends(node, place));
    return Promise.resolve(ends.every((end) => end !== undefined) ? ends : undefined);
  }

  apply(entry: MetadataEntry): EntryOutcome {
    this.index += 1;
    return apply(this.current, this.index, entry).outcome;
  }
  register(node: number, incarnation: number, clean = true): void {
    this.apply({ kind: 'RegisterNode', nodeId: nodeId(node), diskId: diskOf(node), incarnation, clean });
  }
  createTopic(number: number, assignment: readonly (readonly number[])[], minInsync?: number): void {
    this.apply({
      kind: 'CreateTopic',
      topicId: topicOf(number),
      name: `topic-${String(number)}`,
      assignment: assignment.map((each) => ids(...each)),
      config: minInsync === undefined ? [] : [{ key: 'min.insync.replicas', value: String(minInsync) }],
    });
  }
  partition(topic: number, partition: number): PartitionState {
    const state = this.current.topics.get(topicOf(topic))?.partitions[partition];
    return (
      state ?? { leader: -2, leaderEpoch: leaderEpoch(-1), version: -1, replicas: [], inSync: [] satisfies NodeId[] }
    );
  }
  /** As its leader would: the node is in sync again. */
  joins(topic: number, partition: number, node: number): void {
    const { version, leader, inSync } = this.partition(topic, partition);
    this.change(topic, partition, version, leader, [...inSync, nodeId(node)]);
  }
  change(topic: number, partition: number, version: number, leader: number, inSync: readonly NodeId[]): EntryOutcome {
    const place = { topicId: topicOf(topic), partition };
    return this.apply({ kind: 'PartitionChange', ...place, expectedVersion: version, leader, inSync });
  }

  other(node: number): Other {
    const found = this.others.get(node);
    if (found === undefined) throw new Error(`there is no node ${String(node)}`);
    return found;
  }
  freeze(node: number): void {
    this.other(node).speaks = false;
  }
  wake(node: number): void {
    this.other(node).speaks = true;
  }
  kill(node: number): void {
    this.freeze(node);
    this.voices.linkChanged(node, false, this.nowMs);
  }
  /** Another start of it; it is not registered yet. */
  restart(node: number): void {
    Object.assign(this.other(node), { speaks: true, leaving: false, echoMs: -1 });
    this.other(node).incarnation += 1;
    this.voices.linkChanged(node, true, this.nowMs);
  }

  /** What node says now, by its own will. */
  say(node: number, given: Partial<RaftRequest> = {}): void {
    const { incarnation, leaving, diskStuck, echoMs } = this.other(node);
    const said = { from: nodeId(node), diskId: diskOf(node), incarnation, clusterId: '', leaving, diskStuck, echoMs };
    this.voices.heard(
      { ...said, holdsLease: false, clockMs: Math.floor(this.nowMs), messages: [], ...given },
      this.nowMs,
    );
  }

  /** Time goes on: the others answer, the controller is ticked, and what it proposes is applied behind the tick. */
  async run(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += TICK_MS) {
      this.nowMs = monotonicMs(this.nowMs + TICK_MS);
      if (this.nowMs % HEARTBEAT_MS === 0) this.heartbeat();
      await this.tick();
    }
  }
  async tick(): Promise<void> {
    this.controller.tick(this.nowMs);
    await settled();
    if (!this.holds) await this.answerAll();
  }
  async answerAll(): Promise<void> {
    while (this.pending.length > 0) {
      for (const { entry, resolve } of this.pending.splice(0)) resolve(this.refuse(entry) ?? this.apply(entry));
      await settled();
    }
  }
  get underWay(): number {
    return this.pending.length;
  }

  private heartbeat(): void {
    for (const [node, other] of this.others) {
      if (!other.speaks) continue;
      if (this.leads && !other.deaf) other.echoMs = Math.floor(this.nowMs);
      this.say(node);
    }
  }
}

/** Whatever is ready has been done. */
async function settled(): Promise<void> {
  await new Promise<void>((resolve) => {
    setImmediate(resolve);
  });
}
