// The controller: while this node leads the metadata log, it keeps partitions led by nodes that are alive, takes those that are gone out of
// the in-sync sets, and gives leaderships back when their preferred nodes have returned. Which nodes are alive, and how soon one
// counts as gone, is in node-liveness.ts.
//
// Every decision is made from the image and names the version that it was made on. When something else came first it is refused, forgotten,
// and made anew. Nothing survives the loss of leadership, or of the lease: what is needed is in the image, and what was not heard
// while this process stood still is not held against anybody.
import type { MonotonicMs, NodeId } from '../base/brands.ts';
import { changesForBalance, changesForLiveness } from '../core/metadata/elections.ts';
import type { MetadataEntry, PartitionChange } from '../core/metadata/entry.ts';
import type { MetadataView, TopicState } from '../core/metadata/image.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { EntryOutcome } from './contract.ts';
import { NodeLiveness, type SelfState } from './node-liveness.ts';
import type { NodeVoices } from './node-voices.ts';
import { placeKey, RecoveryElection, type AskLogEnds } from './recovery-election.ts';

/** Proposals under way: enough to fill group commits, few enough that clients' entries are not held up behind them. */
export const PROPOSALS_MAX = 256;
/** Leaderships go back when nothing has happened to any node for this long. */
export const BALANCE_AFTER_MS = 3000;
const BALANCE_EVERY_MS = 200;

export interface ControllerView {
  /** Leader of the metadata log, everything before its term applied, with a lease. */
  isController(): boolean;
  /** Of the metadata log. */
  readonly term: number;
  image(): MetadataView;
  /** In the present term or not at all. Resolves when it is applied here, or will never be; never rejects. */
  propose(entry: MetadataEntry): Promise<EntryOutcome>;
  readonly voices: NodeVoices;
  readonly selfId: NodeId;
  selfState(): SelfState;
  /** Of this node too. The wait is bounded. */
  readonly logEnds: AskLogEnds;
}

export class Controller {
  private readonly view: ControllerView;
  private readonly telemetry: Telemetry;
  private reign: Reign | undefined;
  private stopped = false;

  constructor(view: ControllerView, telemetry: Telemetry) {
    this.view = view;
    this.telemetry = telemetry;
  }

  /** Some 20 times a second: all that happens begins here, or when a proposal was answered. */
  tick(nowMs: MonotonicMs): void {
    if (this.stopped) return;
    const { view } = this;
    const current = view.isController() ? view.term : undefined;
    if (this.reign !== undefined && this.reign.term !== current) this.end();
    if (current === undefined) return;
    if (this.reign === undefined) {
      this.telemetry.log('info', 'controller.begun', { term: current });
      this.reign = new Reign(view, this.telemetry, nowMs);
    }
    this.reign.tick(nowMs);
  }

  /** Decides nothing more; what was proposed is answered or not. */
  stop(): void {
    this.stopped = true;
    this.end();
  }

  private end(): void {
    if (this.reign === undefined) return;
    this.telemetry.log('info', 'controller.ended', { term: this.reign.term });
    this.reign.end();
    this.reign = undefined;
  }
}

/** One unbroken leadership. */
class Reign {
  readonly term: number;
  private readonly view: ControllerView;
  private readonly telemetry: Telemetry;
  private readonly live: NodeLiveness;
  private readonly recovery: RecoveryElection;
  /** Partitions with a proposal under way: one each. */
  private readonly proposed = new Set<string>();
  /** Topics, as they were looked at, that need nothing while nobody's standing changes. */
  private readonly settled = new Map<string, TopicState>();
  /** Leaders found by where logs end; not proposed yet. */
  private recovered: PartitionChange[] = [];
  private quietSinceMs: MonotonicMs;
  private balanceMs = -Infinity;
  private ended = false;

  constructor(view: ControllerView, telemetry: Telemetry, nowMs: MonotonicMs) {
    this.view = view;
    this.telemetry = telemetry;
    this.term = view.term;
    this.quietSinceMs = nowMs;
    this.live = new NodeLiveness(view.selfId, view.voices, telemetry, nowMs);
    this.recovery = new RecoveryElection((node, partitions) => view.logEnds(node, partitions));
  }

  end(): void {
    this.ended = true;
  }

  tick(nowMs: MonotonicMs): void {
    const image = this.view.image();
    if (this.live.update(image.nodes, this.view.selfState(), nowMs)) {
      this.settled.clear();
      this.quietSinceMs = nowMs;
    }
    if (this.keepLed(image)) this.quietSinceMs = nowMs;
    this.recovered = this.recovery.tick(image, this.live, nowMs) ?? this.recovered;
    if (this.recovered.length > 0) this.quietSinceMs = nowMs;
    this.recover();
    if (nowMs - this.quietSinceMs >= BALANCE_AFTER_MS) this.balance(image, nowMs);
  }

  /** Proposes what the standing of nodes demands. True: something is left to be done, or under way. */
  private keepLed(image: MetadataView): boolean {
    let unsettled = false;
    if (this.settled.size > image.topics.size) this.settled.clear();
    for (const topic of image.topics.values()) {
      if (this.settled.get(topic.topicId) === topic) continue;
      // Those under way are among them, so that there is always one that is not, if there is any.
      const changes = changesForLiveness([topic], this.live, PROPOSALS_MAX);
      if (changes.length === 0) {
        this.settled.set(topic.topicId, topic);
        continue;
      }
      unsettled = true;
      for (const change of changes) this.propose(change);
      if (this.proposed.size >= PROPOSALS_MAX) break;
    }
    return unsettled;
  }

  private recover(): void {
    let count = 0;
    while (this.proposed.size < PROPOSALS_MAX) {
      const change = this.recovered.pop();
      if (change === undefined) break;
      if (this.live.isAlive(change.leader)) count += this.propose(change) ? 1 : 0;
    }
    if (count > 0) this.telemetry.log('warn', 'partitions.recovered', { partitions: count });
  }

  private balance(image: MetadataView, nowMs: MonotonicMs): void {
    if (nowMs < this.balanceMs) return;
    this.balanceMs = nowMs + BALANCE_EVERY_MS;
    for (const change of changesForBalance(image.topics.values(), this.live, PROPOSALS_MAX)) this.propose(change);
  }

  /** False: there is no room now, or one for the partition is under way. It is decided anew later. */
  private propose(change: PartitionChange): boolean {
    const key = placeKey(change);
    if (this.proposed.size >= PROPOSALS_MAX || this.proposed.has(key) || !this.rules()) return false;
    this.proposed.add(key);
    this.view.propose(change).then(
      (outcome) => {
        this.answered(key, outcome.ok || outcome.code === 'FENCED_LEADER_EPOCH');
      },
      () => {
        this.answered(key, false);
      },
    );
    return true;
  }

  private answered(key: string, decided: boolean): void {
    this.proposed.delete(key);
    // Ten thousand partitions need not wait for forty ticks. What was refused for another reason waits for the next one.
    if (!decided || this.proposed.size !== PROPOSALS_MAX / 2 || !this.rules()) return;
    this.keepLed(this.view.image());
    this.recover();
  }

  private rules(): boolean {
    return !this.ended && this.view.isController() && this.view.term === this.term;
  }
}
