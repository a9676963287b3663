// Consensus on the metadata log: the Raft algorithm with pre-vote, check-quorum and a lease, after Ongaro's thesis; see the contract.
import { assert } from '../../base/assert.ts';
import { addMs, type MonotonicMs } from '../../base/brands.ts';
import type {
  Entry,
  EntryKind,
  HardState,
  Message,
  Peer,
  ProgressView,
  ProposeOutcome,
  RaftConfig,
  RaftCore,
  RaftEffects,
  RaftStart,
  Refusal,
  ReplaceOutcome,
  Role,
  RoleState,
  SnapshotPoint,
  TransferOutcome,
  Voter,
} from './contract.ts';
import { Leadership } from './leadership.ts';
import { RaftLog } from './log.ts';
import { encodeVoters, isForming, isThat } from './voters.ts';
import { Votes } from './votes.ts';
import { Writes } from './writes.ts';

export const RAFT_CONFIG_DEFAULT: RaftConfig = {
  electionTimeoutMs: 1500,
  leaseMs: 500,
  heartbeatMs: 100,
  appendBytesMax: 256 * 1024,
  appendEntriesMax: 1024,
  inflightMessagesMax: 16,
  inflightBytesMax: 4 * 1024 * 1024,
  uncommittedEntriesMax: 4096,
  uncommittedBytesMax: 8 * 1024 * 1024,
  logBytesMax: 64 * 1024 * 1024,
  replaceLagMax: 64,
};

type Of<Kind extends Message['kind']> = Extract<Message, { readonly kind: Kind }>;
const NO_VOTE = -1;
const NEVER: number = Number.NEGATIVE_INFINITY;

export function createRaft(start: RaftStart): RaftCore {
  return new Raft(start);
}

class Raft implements RaftCore {
  private readonly self: Peer;
  private readonly config: RaftConfig;
  private readonly random: () => number;
  private readonly log: RaftLog;
  private readonly writes: Writes;
  private commit: number;
  private delivered: number;
  private leader: number | undefined;
  private votes: Votes | undefined;
  private leadership: Leadership | undefined;
  private told: RoleState;
  private electionAt: number;
  /** Nobody gets a vote before: a leader may count on it. */
  private refusesUntil: number;
  /** The leader's connection is lost: an election that comes to nothing is begun again soon, up to then. */
  private hurriesUntil: number = NEVER;
  /** The same as the leader's up to here, in memory. */
  private verified: number;
  private leaderSentMs = 0;
  /** The leader is owed word of what became durable. */
  private owesAppended = false;

  constructor(start: RaftStart) {
    const { config, snapshot, hardState, entries, nowMs } = start;
    assert(config.electionTimeoutMs >= config.leaseMs, 'an election timeout is no shorter than the lease');
    assert(3 * config.heartbeatMs <= config.leaseMs, 'a lease lasts three heartbeats');
    this.self = start.self;
    this.config = config;
    this.random = start.random;
    this.log = new RaftLog(snapshot, start.voters, entries);
    const isFresh = hardState.term === 0 && this.log.lastIndex < 0;
    const term = Math.max(hardState.term, this.log.lastTerm);
    this.writes = new Writes(term === hardState.term ? hardState : { term, votedFor: NO_VOTE }, this.log.lastIndex);
    this.commit = Math.max(snapshot.index, Math.min(start.appliedIndex, this.log.lastIndex));
    this.delivered = this.commit;
    this.verified = this.commit;
    this.told = { role: 'follower', term, leader: undefined, ready: false };
    // One that has never said anything has promised nothing.
    this.refusesUntil = isFresh ? NEVER : addMs(nowMs, config.leaseMs);
    const alone = this.voters.length === 1;
    this.electionAt = alone ? NEVER : nowMs + (isFresh ? this.random() * config.leaseMs : this.electionDelay());
    if (alone) this.refusesUntil = NEVER;
  }

  // What is seen from outside

  get roleState(): RoleState {
    const ready = this.leadership !== undefined && this.delivered >= this.leadership.firstIndex;
    return { role: this.role, term: this.term, leader: this.leader, ready };
  }
  get hardState(): HardState {
    return this.writes.hardState;
  }
  get lastIndex(): number {
    return this.log.lastIndex;
  }
  get commitIndex(): number {
    return this.commit;
  }
  get deliveredIndex(): number {
    return this.delivered;
  }
  get durableIndex(): number {
    return this.writes.durableIndex;
  }
  get compactedIndex(): number {
    return this.log.compactedIndex;
  }
  get voters(): readonly Voter[] {
    return this.log.electorate(this.commit).voters;
  }
  get isVoter(): boolean {
    return this.voters.some((voter) => isThat(voter, this.self));
  }
  get progress(): readonly ProgressView[] {
    return this.leadership?.views ?? [];
  }
  get leaseUntilMs(): number {
    return this.leadership?.leaseUntilMs ?? NEVER;
  }
  hasLease(nowMs: MonotonicMs): boolean {
    return nowMs < this.leaseUntilMs;
  }
  snapshotPointAt(index: number): SnapshotPoint {
    const term = this.log.termAt(index);
    assert(index <= this.delivered && term !== undefined, `no snapshot can be made at ${String(index)}`);
    return { index, term, voters: index < 0 ? [] : this.log.votersAt(index) };
  }
  private get term(): number {
    return this.writes.hardState.term;
  }
  private get role(): Role {
    if (this.leadership !== undefined) return 'leader';
    return this.votes === undefined ? 'follower' : 'candidate';
  }

  // Time

  tick(nowMs: MonotonicMs): void {
    const { leadership } = this;
    if (leadership !== undefined) {
      this.tickLeader(nowMs, leadership);
    } else if (nowMs >= this.electionAt) {
      if (this.isVoter) this.stand(nowMs);
      else this.electionAt = nowMs + this.electionDelay();
    }
  }
  private tickLeader(nowMs: MonotonicMs, leadership: Leadership): void {
    const { transfer } = leadership;
    if (leadership.isDeserted(nowMs)) {
      this.stepDown(nowMs);
      return;
    }
    if (transfer !== undefined && nowMs >= transfer.deadlineMs) {
      if (transfer.told) {
        this.stepDown(nowMs);
        return;
      }
      leadership.transfer = undefined;
    }
    leadership.tick(nowMs);
  }
  private electionDelay(): number {
    return this.config.electionTimeoutMs * (1 + this.random());
  }
  private retryDelay(nowMs: number): number {
    return nowMs < this.hurriesUntil ? this.config.heartbeatMs * (1 + 2 * this.random()) : this.electionDelay();
  }
  peerConnectionClosed(nowMs: MonotonicMs, nodeId: number): void {
    if (nodeId !== this.leader || this.leadership !== undefined) return;
    this.hurriesUntil = nowMs + 2 * this.config.electionTimeoutMs;
    const free = Math.max(nowMs, this.refusesUntil + this.config.heartbeatMs);
    this.electionAt = Math.min(this.electionAt, free + 2 * this.config.heartbeatMs * this.random());
  }

  // Elections

  private stand(nowMs: MonotonicMs): void {
    if (this.voters.length === 1) {
      this.standForTerm(nowMs, false);
      return;
    }
    this.leader = undefined;
    this.votes = new Votes('preVote', this.log.electorate(this.commit), this.self);
    this.votes.answered(this.self, true);
    this.electionAt = nowMs + this.retryDelay(nowMs);
    this.askAll('preVote', false);
  }
  private standForTerm(nowMs: MonotonicMs, transfer: boolean): void {
    this.leader = undefined;
    this.writes.change({ term: this.term + 1, votedFor: this.self.nodeId });
    // The own vote counts once it is durable.
    this.votes = new Votes('vote', this.log.electorate(this.commit), this.self);
    this.electionAt = nowMs + this.retryDelay(nowMs);
    this.askAll('vote', transfer);
  }
  private askAll(kind: 'preVote' | 'vote', transfer: boolean): void {
    const { lastIndex, lastTerm } = this.log;
    const asked = new Set<string>();
    for (const { nodeId, diskId } of this.log.electorate(this.commit).sets.flat()) {
      const key = `${String(nodeId)} ${diskId ?? ''}`;
      if (nodeId === this.self.nodeId || asked.has(key)) continue;
      asked.add(key);
      const asks = { term: this.term, toDisk: diskId, lastIndex, lastTerm };
      this.send(nodeId, kind === 'preVote' ? { kind, ...asks } : { kind, ...asks, transfer });
    }
  }
  private countVotes(nowMs: MonotonicMs): void {
    const { votes } = this;
    if (votes === undefined) return;
    const verdict = votes.verdict;
    if (verdict === 'won') {
      if (votes.kind === 'preVote') this.standForTerm(nowMs, false);
      else this.lead(nowMs, votes);
    } else if (verdict === 'lost') {
      this.votes = undefined;
    }
  }
  private lead(nowMs: MonotonicMs, votes: Votes): void {
    assert(this.writes.durableState.term === this.term, 'a term is durable before it is led');
    this.votes = undefined;
    this.leader = this.self.nodeId;
    this.verified = this.log.lastIndex;
    const { voters } = this;
    if (isForming(voters)) {
      const named = voters.map(({ nodeId }) => ({ nodeId, diskId: votes.diskOf(nodeId) }));
      this.push('voters', encodeVoters(named));
    }
    this.leadership = new Leadership(
      {
        self: this.self,
        config: this.config,
        log: this.log,
        term: this.term,
        electedMs: nowMs,
        send: (to, message) => {
          this.send(to, message);
        },
        commitIndex: () => this.commit,
        durableIndex: () => this.durableIndex,
      },
      this.log.lastIndex + 1,
    );
    this.push('noop', new Uint8Array(0));
    this.leadership.follow();
    this.leadership.tick(nowMs);
  }
  private onCandidacy(nowMs: MonotonicMs, from: Peer, message: Of<'preVote'> | Of<'vote'>): void {
    if (message.toDisk !== undefined && message.toDisk !== this.self.diskId) return;
    const isPre = message.kind === 'preVote';
    const forTerm = isPre ? message.term + 1 : message.term;
    const answer = (granted: boolean): void => {
      this.send(from.nodeId, { kind: isPre ? 'preVoteAnswer' : 'voteAnswer', term: this.term, forTerm, granted });
    };
    const isLed = nowMs < this.refusesUntil || this.hasLease(nowMs);
    if (isLed && !(message.kind === 'vote' && message.transfer)) {
      if (isPre) answer(false);
      return;
    }
    if (forTerm < this.term || (isPre && forTerm === this.term)) {
      answer(false);
      return;
    }
    const { lastTerm, lastIndex } = this.log;
    const isUpToDate = message.lastTerm > lastTerm || (message.lastTerm === lastTerm && message.lastIndex >= lastIndex);
    if (isPre) {
      answer(isUpToDate);
      return;
    }
    if (forTerm > this.term) this.adopt(nowMs, forTerm, undefined);
    const { votedFor } = this.hardState;
    const granted = isUpToDate && (votedFor === NO_VOTE || votedFor === from.nodeId) && this.leader === undefined;
    if (granted) {
      if (votedFor === NO_VOTE) this.writes.change({ term: this.term, votedFor: from.nodeId });
      this.electionAt = nowMs + this.retryDelay(nowMs);
    }
    answer(granted);
  }
  private onVerdict(nowMs: MonotonicMs, from: Peer, message: Of<'preVoteAnswer'> | Of<'voteAnswer'>): void {
    const { votes } = this;
    const kind = message.kind === 'preVoteAnswer' ? 'preVote' : 'vote';
    const asked = kind === 'preVote' ? this.term + 1 : this.term;
    if (votes?.kind !== kind || message.forTerm !== asked) return;
    votes.answered(from, message.granted);
    this.countVotes(nowMs);
  }

  /** Follows, in this term or a newer one. */
  private adopt(nowMs: MonotonicMs, term: number, leader: number | undefined): void {
    const isNewer = term > this.term;
    if (isNewer) this.writes.change({ term, votedFor: NO_VOTE });
    if (isNewer || leader !== this.leader) {
      this.verified = this.commit;
      this.owesAppended = false;
      this.leaderSentMs = 0;
    }
    if (this.leadership !== undefined) this.electionAt = nowMs + this.electionDelay();
    this.leadership = undefined;
    this.votes = undefined;
    this.leader = leader;
  }
  private hearLeader(
    nowMs: MonotonicMs,
    from: Peer,
    message: { readonly term: number; readonly sentMs: number },
  ): void {
    if (message.term > this.term || this.leader !== from.nodeId) {
      assert(
        message.term > this.term || this.leader === undefined,
        `two leaders of term ${String(message.term)}: ${String(this.leader)} and ${String(from.nodeId)}`,
      );
      this.adopt(nowMs, message.term, from.nodeId);
    }
    this.leaderSentMs = Math.max(this.leaderSentMs, message.sentMs);
    this.refusesUntil = Math.max(this.refusesUntil, addMs(nowMs, this.config.leaseMs));
    this.electionAt = nowMs + this.electionDelay();
    this.hurriesUntil = NEVER;
  }

  stepDown(nowMs: MonotonicMs): void {
    if (this.leadership === undefined) return;
    this.adopt(nowMs, this.term, undefined);
    this.electionAt = nowMs + this.config.electionTimeoutMs + this.electionDelay();
  }

  // Messages

  step(nowMs: MonotonicMs, from: Peer, message: Message): void {
    if (from.nodeId === this.self.nodeId) return;
    if (message.kind === 'preVote' || message.kind === 'vote') {
      this.onCandidacy(nowMs, from, message);
      return;
    }
    if (message.kind === 'append' || message.kind === 'heartbeat') {
      if (message.term < this.term) this.send(from.nodeId, { kind: 'newerTerm', term: this.term });
      else if (message.kind === 'append') this.onAppend(nowMs, from, message);
      else this.onHeartbeat(nowMs, from, message);
      return;
    }
    // A pre-vote is asked for a term that nobody is in yet, and granted in an older one.
    if (message.term > this.term) {
      if (message.kind !== 'timeoutNow') this.adopt(nowMs, message.term, undefined);
      return;
    }
    if (message.kind === 'preVoteAnswer' || message.kind === 'voteAnswer') {
      this.onVerdict(nowMs, from, message);
      return;
    }
    if (message.term < this.term) return;
    if (message.kind === 'timeoutNow') {
      if (this.leader === from.nodeId && this.isVoter) this.standForTerm(nowMs, true);
    } else if (message.kind !== 'newerTerm') {
      this.onFollower(nowMs, from, message);
    }
  }

  private onAppend(nowMs: MonotonicMs, from: Peer, message: Of<'append'>): void {
    this.hearLeader(nowMs, from, message);
    const { log } = this;
    const { prevIndex, prevTerm, entries, sentMs } = message;
    const isKnown = prevIndex <= this.commit || log.termAt(prevIndex) === prevTerm;
    if (!isKnown) {
      const hintIndex = Math.max(log.lastOfTerm(prevIndex - 1, prevTerm), log.compactedIndex);
      const hintTerm = log.termAt(hintIndex) ?? 0;
      this.send(from.nodeId, { kind: 'appendRejected', term: this.term, prevIndex, hintIndex, hintTerm, sentMs });
      return;
    }
    let added = false;
    let upTo = prevIndex;
    for (const entry of entries) {
      if (entry.index > this.commit && log.termAt(entry.index) !== entry.term) {
        if (log.bytes + entry.bytes.length > this.config.logBytesMax) break;
        if (entry.index <= log.lastIndex) {
          log.truncateFrom(entry.index);
          this.writes.cutFrom(entry.index);
        }
        log.push(entry);
        added = true;
      }
      upTo = entry.index;
    }
    this.verified = Math.max(this.verified, upTo);
    this.commitTo(Math.min(message.commitIndex, this.verified));
    this.owesAppended = true;
    if (!added && this.durableIndex >= this.verified) this.sayAppended();
    else if (!added) this.sayAppended(true);
  }
  private onHeartbeat(nowMs: MonotonicMs, from: Peer, message: Of<'heartbeat'>): void {
    this.hearLeader(nowMs, from, message);
    this.commitTo(Math.min(message.commitIndex, this.verified));
    const { sentMs } = message;
    this.send(from.nodeId, { kind: 'heartbeatAnswer', term: this.term, received: this.verified, sentMs });
  }
  private sayAppended(owesMore = false): void {
    if (this.leader === undefined || this.leadership !== undefined) return;
    this.owesAppended = owesMore;
    const match = Math.min(this.verified, this.durableIndex);
    const { term, verified: received, leaderSentMs: sentMs } = this;
    this.send(this.leader, { kind: 'appended', term, match, received, sentMs });
  }
  private onFollower(
    nowMs: MonotonicMs,
    from: Peer,
    message: Of<'appended'> | Of<'appendRejected'> | Of<'heartbeatAnswer'>,
  ): void {
    const { leadership } = this;
    const progress = leadership?.heard(nowMs, from, message.sentMs);
    if (leadership === undefined || progress === undefined) return;
    if (message.kind === 'appended') {
      leadership.appended(nowMs, progress, message.match, message.received, message.sentMs);
      this.advance(nowMs);
      this.goOnWithTransfer(leadership);
    } else if (message.kind === 'appendRejected') leadership.rejected(nowMs, progress, message);
    else leadership.heartbeatAnswered(nowMs, progress, message.received, message.sentMs);
  }

  // The log

  private push(kind: EntryKind, bytes: Uint8Array): Entry {
    const entry = { index: this.log.lastIndex + 1, term: this.term, kind, bytes };
    this.log.push(entry);
    this.verified = entry.index;
    return entry;
  }
  private commitTo(index: number): void {
    this.commit = Math.max(this.commit, index);
  }
  private advance(nowMs: MonotonicMs): void {
    const { leadership } = this;
    if (leadership === undefined) return;
    const index = Math.min(leadership.replicatedIndex(), this.log.lastIndex);
    if (index <= this.commit || this.log.termAt(index) !== this.term) return;
    this.commitTo(index);
    this.settleVoters(nowMs, leadership);
    leadership.sendCommit(nowMs);
  }
  /** A new set of voters is said twice: with the second entry behind it, it needs nobody of the set before it any more. */
  private settleVoters(nowMs: MonotonicMs, leadership: Leadership): void {
    if (this.log.votersSettled || this.log.lastVotersIndex > this.commit) return;
    this.push('voters', encodeVoters(this.voters));
    leadership.follow();
    leadership.sendAll(nowMs);
  }

  propose(nowMs: MonotonicMs, commands: readonly Uint8Array[]): ProposeOutcome {
    const refuse = (reason: Refusal): ProposeOutcome => ({ ok: false, reason, leader: this.leader });
    const { leadership, config, log } = this;
    if (leadership === undefined) return refuse('not-leader');
    if (leadership.transfer !== undefined) return refuse('transferring');
    if (commands.some(({ length }) => length > config.appendBytesMax)) return refuse('too-large');
    const bytes = commands.reduce((sum, { length }) => sum + length, 0);
    if (
      log.lastIndex - this.commit + commands.length > config.uncommittedEntriesMax ||
      log.bytesAbove(this.commit) + bytes > config.uncommittedBytesMax ||
      log.bytes + bytes > config.logBytesMax
    )
      return refuse('full');
    const firstIndex = log.lastIndex + 1;
    for (const command of commands) this.push('command', command);
    leadership.sendAll(nowMs);
    return { ok: true, firstIndex, term: this.term };
  }
  proposeReplace(nowMs: MonotonicMs, nodeId: number, newDiskId: string): ReplaceOutcome {
    type Reason = Extract<ReplaceOutcome, { ok: false }>['reason'];
    const refuse = (reason: Reason): ReplaceOutcome => ({ ok: false, reason, leader: this.leader });
    const { leadership, log, voters } = this;
    if (leadership === undefined) return refuse('not-leader');
    if (leadership.transfer !== undefined) return refuse('transferring');
    if (nodeId === this.self.nodeId) return refuse('own-node');
    const voter = voters.find((each) => each.nodeId === nodeId);
    if (voter === undefined) return refuse('unknown-node');
    if (voter.diskId === newDiskId) return refuse('no-change');
    if (this.commit < leadership.firstIndex || !log.votersSettled || log.lastVotersIndex > this.commit)
      return refuse('not-ready');
    const progress = leadership.of(nodeId);
    if (progress?.diskId !== newDiskId) return refuse('unknown-disk');
    if (progress.match < log.lastIndex - this.config.replaceLagMax || progress.state !== 'replicate')
      return refuse('behind');
    const next = voters.map((each) => (each.nodeId === nodeId ? { nodeId, diskId: newDiskId } : each));
    const { index, term } = this.push('voters', encodeVoters(next));
    leadership.sendAll(nowMs);
    return { ok: true, index, term };
  }
  transferLeadership(nowMs: MonotonicMs, to: number): TransferOutcome {
    const { leadership } = this;
    if (leadership === undefined) return { ok: false, reason: 'not-leader' };
    if (leadership.transfer !== undefined) return { ok: false, reason: 'transferring' };
    const target = leadership.views.find(({ nodeId }) => nodeId === to);
    if (target?.voter !== true) return { ok: false, reason: 'not-a-voter' };
    if (this.commit < leadership.firstIndex) return { ok: false, reason: 'not-ready' };
    leadership.transfer = { to, deadlineMs: nowMs + this.config.electionTimeoutMs, told: false };
    leadership.sendAll(nowMs);
    this.goOnWithTransfer(leadership);
    return { ok: true };
  }
  private goOnWithTransfer(leadership: Leadership): void {
    const { transfer } = leadership;
    if (transfer === undefined || transfer.told || leadership.of(transfer.to)?.match !== this.log.lastIndex) return;
    transfer.told = true;
    leadership.leaseGivenUp = true;
    this.send(transfer.to, { kind: 'timeoutNow', term: this.term });
  }

  persisted(nowMs: MonotonicMs, generation: number): void {
    this.writes.persisted(generation);
    const { durableState } = this.writes;
    const { votes } = this;
    if (votes?.kind === 'vote' && durableState.term === this.term && durableState.votedFor === this.self.nodeId) {
      votes.answered(this.self, true);
      this.countVotes(nowMs);
    }
    if (this.leadership !== undefined) {
      this.advance(nowMs);
      return;
    }
    if (this.owesAppended) this.sayAppended(this.durableIndex < this.verified);
  }
  snapshotSent(nowMs: MonotonicMs, to: number, ok: boolean): void {
    this.leadership?.snapshotSent(nowMs, to, ok);
  }
  snapshotInstalled(nowMs: MonotonicMs, from: Peer, leaderTerm: number, snapshot: SnapshotPoint): boolean {
    if (leaderTerm < this.term || this.leadership !== undefined) return false;
    this.hearLeader(nowMs, from, { term: leaderTerm, sentMs: this.leaderSentMs });
    if (snapshot.index <= this.commit) return false;
    if (snapshot.index <= this.durableIndex && this.log.termAt(snapshot.index) === snapshot.term) {
      this.log.compactTo(snapshot.index);
    } else {
      this.log.reset(snapshot);
      this.writes.resetTo(snapshot.index);
      this.verified = snapshot.index;
    }
    this.verified = Math.max(this.verified, snapshot.index);
    this.commit = snapshot.index;
    this.delivered = snapshot.index;
    this.sayAppended();
    return true;
  }
  compact(toIndex: number): void {
    assert(toIndex <= this.delivered, `entry ${String(toIndex)} is not applied`);
    this.log.compactTo(toIndex);
  }

  takeEffects(): RaftEffects {
    const write = this.writes.takeWrite(this.log);
    const committed: Entry[] = [];
    const upTo = Math.min(this.commit, this.durableIndex);
    while (this.delivered < upTo) {
      const entry = this.log.entryAt(this.delivered + 1);
      assert(entry !== undefined, `committed entry ${String(this.delivered + 1)} is not here`);
      committed.push(entry);
      this.delivered = entry.index;
    }
    const state = this.roleState;
    const { told } = this;
    const isSame =
      told.role === state.role &&
      told.term === state.term &&
      told.leader === state.leader &&
      told.ready === state.ready;
    this.told = state;
    return {
      write,
      messages: this.writes.takeMessages(),
      committed,
      role: isSame ? undefined : state,
      snapshotsNeeded: this.leadership?.takeSnapshots() ?? [],
    };
  }
  private send(to: number, message: Message): void {
    this.writes.send({ to, message });
  }
}
