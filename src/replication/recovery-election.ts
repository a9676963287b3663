// Partitions of which every replica may have lost its tail (the power of the whole cluster was cut): the replicas are asked where their
// logs end, until enough of them have said it for one to surely have all that was committed.
import type { MonotonicMs, NodeId, TopicId } from '../base/brands.ts';
import {
  chooseByLogEnd,
  recoveredChange,
  undecided,
  type LiveNodes,
  type LogEnd,
  type Undecided,
} from '../core/metadata/elections.ts';
import type { PartitionChange } from '../core/metadata/entry.ts';
import type { MetadataView } from '../core/metadata/image.ts';
import { LOG_ENDS_MAX, type LogEndAnswer } from '../protocol/between-nodes/log-ends.v1.ts';

/** Between two questions to the same node. */
export const ASK_EVERY_MS = 200;
/**
 * Once there are enough answers the others may still come for this long: what was written under --fsync interval or never is promised by
 * no quorum, and the longest log has most of it.
 */
export const REST_WAIT_MS = 1000;

export interface PartitionPlace {
  readonly topicId: TopicId;
  readonly partition: number;
}
/** Answers in the order of the partitions; undefined: it did not answer, or in vain. Never rejects. */
export type AskLogEnds = (
  nodeId: NodeId,
  partitions: readonly PartitionPlace[],
) => Promise<readonly LogEndAnswer[] | undefined>;

interface Heard {
  readonly version: number;
  /** By node, with the incarnation that it was registered with when it was asked. */
  readonly ends: Map<NodeId, { readonly incarnation: number; readonly end: LogEnd }>;
  /** Since when there are enough. */
  enoughMs: number | undefined;
}

export function placeKey({ topicId, partition }: PartitionPlace): string {
  return `${topicId}/${String(partition)}`;
}

export class RecoveryElection {
  private readonly ask: AskLogEnds;
  private readonly heard = new Map<string, Heard>();
  private readonly asking = new Set<NodeId>();
  /** Where the next question to a node begins, so that partitions that it does not know yet hold nobody up. */
  private readonly cursors = new Map<NodeId, number>();
  private nextMs = -Infinity;

  constructor(ask: AskLogEnds) {
    this.ask = ask;
  }

  /** All that is decided now, in place of what was decided before; undefined: nothing is new. Asks who has to be asked. */
  tick(image: MetadataView, live: LiveNodes, nowMs: MonotonicMs): PartitionChange[] | undefined {
    if (nowMs < this.nextMs) return undefined;
    this.nextMs = nowMs + ASK_EVERY_MS;
    const open = undecided(image.topics.values(), Infinity);
    this.forgetOthers(open);
    const changes: PartitionChange[] = [];
    for (const each of open) {
      const leader = this.choose(each, image, live, nowMs);
      if (leader !== undefined) changes.push(recoveredChange(each, leader));
    }
    if (open.length > 0) this.askAll(open, image, live);
    return changes;
  }

  private forgetOthers(open: readonly Undecided[]): void {
    const versions = new Map(open.map((each) => [placeKey(each), each.state.version]));
    for (const [key, { version }] of this.heard) if (versions.get(key) !== version) this.heard.delete(key);
    for (const [key, version] of versions)
      if (!this.heard.has(key)) this.heard.set(key, { version, ends: new Map(), enoughMs: undefined });
  }

  private choose(each: Undecided, image: MetadataView, live: LiveNodes, nowMs: MonotonicMs): NodeId | undefined {
    const heard = this.heard.get(placeKey(each));
    if (heard === undefined) return undefined;
    const ends = each.state.replicas.flatMap((node) => {
      const said = heard.ends.get(node);
      return said !== undefined && live.isAlive(node) && image.nodes.get(node)?.incarnation === said.incarnation
        ? [said.end]
        : [];
    });
    const best = chooseByLogEnd(each, ends);
    if (best === undefined) {
      heard.enoughMs = undefined;
      return undefined;
    }
    heard.enoughMs ??= nowMs;
    const all = ends.length === each.state.replicas.length;
    return all || nowMs - heard.enoughMs >= REST_WAIT_MS ? best : undefined;
  }

  private askAll(open: readonly Undecided[], image: MetadataView, live: LiveNodes): void {
    const nodes = new Set(open.flatMap(({ state }) => state.replicas));
    for (const node of nodes) {
      const incarnation = image.nodes.get(node)?.incarnation;
      if (incarnation === undefined || !live.isAlive(node) || this.asking.has(node)) continue;
      const batch = this.batchFor(node, incarnation, open);
      if (batch.length > 0) this.askOne(node, incarnation, batch);
    }
  }

  private batchFor(node: NodeId, incarnation: number, open: readonly Undecided[]): Undecided[] {
    const batch: Undecided[] = [];
    const from = this.cursors.get(node) ?? 0;
    for (let step = 0; step < open.length && batch.length < LOG_ENDS_MAX; step += 1) {
      const at = (from + step) % open.length;
      const each = open[at];
      if (each === undefined || !each.state.replicas.includes(node)) continue;
      if (this.heard.get(placeKey(each))?.ends.get(node)?.incarnation === incarnation) continue;
      batch.push(each);
      this.cursors.set(node, at + 1);
    }
    return batch;
  }

  private askOne(node: NodeId, incarnation: number, batch: readonly Undecided[]): void {
    this.asking.add(node);
    const places = batch.map(({ topicId, partition }) => ({ topicId, partition }));
    this.ask(node, places).then(
      (answers) => {
        this.asking.delete(node);
        if (answers?.length === batch.length) this.answered(node, incarnation, batch, answers);
      },
      () => {
        this.asking.delete(node);
      },
    );
  }

  private answered(
    node: NodeId,
    incarnation: number,
    batch: readonly Undecided[],
    answers: readonly LogEndAnswer[],
  ): void {
    for (const [at, each] of batch.entries()) {
      const answer = answers[at];
      const heard = this.heard.get(placeKey(each));
      if (answer?.known !== true || heard?.version !== each.state.version) continue;
      const { lastEpoch, logEnd, damaged } = answer;
      heard.ends.set(node, { incarnation, end: { nodeId: node, lastEpoch, logEnd, damaged } });
    }
  }
}
