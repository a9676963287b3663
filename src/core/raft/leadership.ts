// What a node does while it leads: it brings the others up, counts what they have, and knows how long nobody else can lead.
import type { MonotonicMs } from '../../base/brands.ts';
import type { Entry, Message, Peer, ProgressView, RaftConfig, SnapshotNeeded, Voter } from './contract.ts';
import type { RaftLog } from './log.ts';
import { Progress } from './progress.ts';
import { isThat, type Electorate } from './voters.ts';

/** A leader counts on less than its followers promise: clocks do not run alike. */
const LEASE_SHARE = 0.9;

export interface LeadershipDeps {
  readonly self: Peer;
  readonly config: RaftConfig;
  readonly log: RaftLog;
  readonly term: number;
  readonly electedMs: MonotonicMs;
  readonly send: (to: number, message: Message) => void;
  readonly commitIndex: () => number;
  readonly durableIndex: () => number;
}

export interface Transfer {
  readonly to: number;
  readonly deadlineMs: number;
  told: boolean;
}

export class Leadership {
  transfer: Transfer | undefined;
  /** Somebody was told to stand for election: no lease in this term any more. */
  leaseGivenUp = false;
  /** The first entry of the term. */
  readonly firstIndex: number;
  private readonly deps: LeadershipDeps;
  private readonly progress = new Map<number, Progress>();
  private readonly snapshots = new Map<number, SnapshotNeeded>();
  private heartbeatMs: number = Number.NEGATIVE_INFINITY;

  constructor(deps: LeadershipDeps, firstIndex: number) {
    this.deps = deps;
    this.firstIndex = firstIndex;
  }

  electorate(): Electorate {
    return this.deps.log.electorate(this.deps.commitIndex());
  }
  of(nodeId: number): Progress | undefined {
    return this.progress.get(nodeId);
  }
  /** Says to all that it leads, and keeps to the nodes of the voters in force. */
  follow(): void {
    const wanted = this.electorate().nodeIds;
    for (const nodeId of wanted)
      if (nodeId !== this.deps.self.nodeId && !this.progress.has(nodeId))
        this.progress.set(nodeId, new Progress(nodeId, this.deps.log.lastIndex + 1));
    for (const nodeId of this.progress.keys()) if (!wanted.includes(nodeId)) this.progress.delete(nodeId);
  }

  /** False: the message is of nobody who is known here. */
  heard(nowMs: MonotonicMs, from: Peer, sentMs: number): Progress | undefined {
    const progress = this.progress.get(from.nodeId);
    if (progress === undefined) return undefined;
    if (progress.diskId !== from.diskId) progress.changeDisk(from.diskId, this.deps.log.lastIndex + 1);
    progress.heard(nowMs, sentMs);
    return progress;
  }

  tick(nowMs: MonotonicMs): void {
    if (nowMs - this.heartbeatMs < this.deps.config.heartbeatMs) return;
    this.heartbeatMs = nowMs;
    for (const progress of this.progress.values()) this.heartbeat(nowMs, progress);
    this.sendAll(nowMs);
  }
  private heartbeat(nowMs: MonotonicMs, progress: Progress): void {
    const commitIndex = this.deps.commitIndex();
    progress.commitSent = commitIndex;
    progress.mark = { sentMs: nowMs, index: progress.state === 'replicate' ? progress.next - 1 : -1 };
    this.deps.send(progress.nodeId, { kind: 'heartbeat', term: this.deps.term, commitIndex, sentMs: nowMs });
  }
  /** Tells those who have no appends under way how far it is committed. */
  sendCommit(nowMs: MonotonicMs): void {
    const commitIndex = this.deps.commitIndex();
    for (const progress of this.progress.values()) {
      if (progress.state !== 'replicate' || progress.commitSent >= commitIndex) continue;
      progress.commitSent = commitIndex;
      this.deps.send(progress.nodeId, { kind: 'heartbeat', term: this.deps.term, commitIndex, sentMs: nowMs });
    }
  }

  appended(nowMs: MonotonicMs, progress: Progress, match: number, received: number, sentMs: number): void {
    progress.matchedMs = Math.max(progress.matchedMs, sentMs);
    progress.matched(Math.min(match, this.deps.log.lastIndex), Math.min(received, this.deps.log.lastIndex));
    this.sendTo(nowMs, progress);
  }
  rejected(
    nowMs: MonotonicMs,
    progress: Progress,
    { prevIndex, hintIndex, hintTerm }: { prevIndex: number; hintIndex: number; hintTerm: number },
  ): void {
    // An answer to something older: what it lacked then it has by now.
    if (prevIndex <= progress.match || progress.state === 'snapshot') return;
    if (progress.state === 'probe' && prevIndex !== progress.next - 1) return;
    const at = this.deps.log.lastOfTerm(Math.min(hintIndex, prevIndex - 1), hintTerm);
    // Below what is here anybody may have anything: only a snapshot helps, which asking from the start on brings about.
    progress.probeFrom(hintIndex < this.deps.log.compactedIndex ? hintIndex + 1 : at + 1);
    this.sendTo(nowMs, progress);
  }
  heartbeatAnswered(nowMs: MonotonicMs, progress: Progress, received: number, sentMs: number): void {
    const { mark } = progress;
    if (progress.state === 'replicate' && mark?.sentMs === sentMs) {
      if (received < mark.index) progress.probeFrom(Math.max(received, progress.match) + 1);
      else if (progress.match < mark.index && progress.matchedMs < sentMs)
        this.sendAppend(nowMs, progress, Math.max(mark.index, this.deps.log.compactedIndex), 0);
    }
    this.sendTo(nowMs, progress);
  }
  snapshotSent(nowMs: MonotonicMs, to: number, ok: boolean): void {
    const progress = this.progress.get(to);
    if (progress?.state !== 'snapshot') return;
    progress.probeFrom(this.deps.log.lastIndex + 1);
    progress.waitsUntilHeard = !ok;
    this.sendTo(nowMs, progress);
  }

  sendAll(nowMs: MonotonicMs): void {
    for (const progress of this.progress.values()) this.sendTo(nowMs, progress);
  }
  private sendTo(nowMs: MonotonicMs, progress: Progress): void {
    const { log, config } = this.deps;
    if (progress.state === 'snapshot' || progress.waitsUntilHeard) return;
    if (progress.state === 'probe') {
      if (nowMs - progress.probedMs < config.heartbeatMs) return;
      if (this.needsSnapshot(progress)) return;
      // To one that does not answer nothing large is sent again and again.
      const answers = progress.heardMs >= progress.probedMs;
      progress.probedMs = nowMs;
      this.sendAppend(nowMs, progress, progress.next - 1, answers ? config.appendEntriesMax : 0);
      return;
    }
    while (
      progress.next <= log.lastIndex &&
      progress.hasRoom(config.inflightMessagesMax, config.inflightBytesMax) &&
      !this.needsSnapshot(progress)
    ) {
      const entries = this.sendAppend(nowMs, progress, progress.next - 1, config.appendEntriesMax);
      progress.sending(
        entries.at(-1)?.index ?? log.lastIndex,
        entries.reduce((sum, { bytes }) => sum + bytes.length, 0),
      );
    }
  }
  private needsSnapshot(progress: Progress): boolean {
    if (progress.next - 1 >= this.deps.log.compactedIndex) return false;
    if (progress.diskId === undefined) {
      // Nobody has answered yet: it is asked what it has before a snapshot is sent to nobody.
      progress.next = this.deps.log.lastIndex + 1;
      return false;
    }
    progress.state = 'snapshot';
    this.snapshots.set(progress.nodeId, { to: progress.nodeId, diskId: progress.diskId });
    return true;
  }
  private sendAppend(nowMs: MonotonicMs, progress: Progress, prevIndex: number, countMax: number): readonly Entry[] {
    const { log, config, term } = this.deps;
    const entries = countMax === 0 ? [] : log.slice(prevIndex + 1, countMax, config.appendBytesMax);
    const commitIndex = this.deps.commitIndex();
    progress.commitSent = commitIndex;
    const prevTerm = log.termAt(prevIndex) ?? 0;
    this.deps.send(progress.nodeId, { kind: 'append', term, prevIndex, prevTerm, entries, commitIndex, sentMs: nowMs });
    return entries;
  }

  private ofVoter(voter: Voter): Progress | undefined {
    const progress = this.progress.get(voter.nodeId);
    return progress?.diskId !== undefined && isThat(voter, { nodeId: progress.nodeId, diskId: progress.diskId })
      ? progress
      : undefined;
  }
  private isSelf(voter: Voter): boolean {
    return isThat(voter, this.deps.self);
  }
  /** What enough voters have durably. It may be committed if it is of this term. */
  replicatedIndex(): number {
    return this.electorate().reached((voter) =>
      this.isSelf(voter) ? this.deps.durableIndex() : (this.ofVoter(voter)?.match ?? -1),
    );
  }
  /** The moment, by this clock, at which enough voters still followed; Infinity: it needs nobody else. */
  get followedMs(): number {
    return this.electorate().reached((voter) =>
      this.isSelf(voter) ? Number.POSITIVE_INFINITY : (this.ofVoter(voter)?.echoMs ?? Number.NEGATIVE_INFINITY),
    );
  }
  get leaseUntilMs(): number {
    return this.leaseGivenUp ? Number.NEGATIVE_INFINITY : this.followedMs + LEASE_SHARE * this.deps.config.leaseMs;
  }
  isDeserted(nowMs: MonotonicMs): boolean {
    return nowMs - Math.max(this.followedMs, this.deps.electedMs) >= this.deps.config.electionTimeoutMs;
  }

  takeSnapshots(): readonly SnapshotNeeded[] {
    if (this.snapshots.size === 0) return [];
    const needed = [...this.snapshots.values()];
    this.snapshots.clear();
    return needed;
  }
  get views(): readonly ProgressView[] {
    const { voters } = this.electorate();
    return [...this.progress.values()].map(({ nodeId, diskId, state, match, heardMs }) => ({
      nodeId,
      diskId,
      voter: diskId !== undefined && voters.some((voter) => isThat(voter, { nodeId, diskId })),
      state,
      match,
      heardMs,
    }));
  }
}
