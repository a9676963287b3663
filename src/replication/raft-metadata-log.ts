// The metadata log of a cluster: drives the consensus core over disk and peers, and applies what is committed.
import { assert } from '../base/assert.ts';
import { monotonicMs, nodeId as asNodeId, offset, type MonotonicMs, type NodeId } from '../base/brands.ts';
import { FatalError } from '../base/fatal.ts';
import { apply } from '../core/metadata/apply.ts';
import { decodeEntry, encodeEntry, type MetadataEntry } from '../core/metadata/entry.ts';
import { emptyImage, type MetadataImage, type MetadataView } from '../core/metadata/image.ts';
import { CONSENSUS_KEY, imageRows } from '../core/metadata/rows.ts';
import type {
  Entry,
  Message,
  Peer,
  RaftConfig,
  RaftCore,
  ReplaceOutcome,
  SnapshotPoint,
  TransferOutcome,
  Voter,
} from '../core/raft/contract.ts';
import { createRaft, RAFT_CONFIG_DEFAULT } from '../core/raft/raft.ts';
import { encodeMetadataSnapshot } from '../format/metadata-snapshot.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import type { InstallSnapshotRequest, InstallSnapshotResponse } from '../protocol/between-nodes/install-snapshot.v1.ts';
import {
  decodeResponse as decodeProposed,
  encodeRequest as encodePropose,
  type ProposeRequest,
  type ProposeResponse,
} from '../protocol/between-nodes/propose.v1.ts';
import { encodeRequest as encodeRaft, RAFT_MESSAGES_MAX, type RaftRequest } from '../protocol/between-nodes/raft.v1.ts';
import type { StorageDeps } from '../storage/config.ts';
import { Health, StorageFailed } from '../storage/health.ts';
import type { PartitionLog } from '../storage/log.ts';
import { decodeConsensus, encodeConsensus } from './consensus-row.ts';
import type { AppliedEntry, EntryOutcome, MetadataLog, ProposeOptions } from './contract.ts';
import { ImageFollower } from './image-follower.ts';
import { loadStore } from './metadata-log.ts';
import { entryOf } from './metadata-replay.ts';
import { MetadataSnapshots, snapshotFrom } from './metadata-snapshot.ts';
import { NodeVoices } from './node-voices.ts';
import type { Peers } from './peer-contract.ts';
import { Proposals } from './proposals.ts';
import { readEntries, termAt } from './raft-entries.ts';
import { RaftWriter, type VoteStore } from './raft-writer.ts';
import { sendSnapshot, SnapshotReceiver } from './snapshot-transfer.ts';

export const RAFT = 40;
export const PROPOSE = 46;

export interface RaftLogOptions {
  readonly nodeId: number;
  readonly diskId: string;
  readonly incarnation: number;
  /** All nodes of the cluster, this one too; what counts once the log or a snapshot names others. */
  readonly voters: readonly number[];
  readonly peers: Peers;
  readonly votes: VoteStore;
  readonly config?: RaftConfig;
  readonly snapshotEvery?: number;
  readonly pendingMax?: number;
}

const TICK_MS = 20;
const RANDOM_RANGE: number = 2 ** 30;
/** So often each node hears from each other one, whatever there is to say. */
const STATE_EVERY_MS = 1000;
const SNAPSHOT_EVERY_DEFAULT = 4096;
const PENDING_MAX_DEFAULT = 4096;
/** A leader whose disk takes this long for one write leads no more. */
const DISK_STUCK_MS = 3000;
const FRAME_ENTRY_BYTES_MAX = 2 * 1024 * 1024;
const MESSAGE_TIMEOUT_MS = 2000;
const PROPOSE_TIMEOUT_MS = 5000;

interface Loaded {
  readonly snapshot: SnapshotPoint;
  readonly image: MetadataImage;
  readonly entries: readonly Entry[];
}

export type ProposeAnswer =
  | { readonly ok: true; readonly response: ProposeResponse }
  | { readonly ok: false; readonly code: 'NOT_LEADER' | 'TOO_MANY_REQUESTS' | 'INVALID_ARGUMENT' };

export class RaftMetadataLog implements MetadataLog {
  readonly voices: NodeVoices;
  private readonly deps: StorageDeps;
  private readonly log: PartitionLog;
  private readonly options: RaftLogOptions;
  private readonly self: Peer;
  private readonly raft: RaftCore;
  private readonly writer: RaftWriter;
  private readonly snapshots: MetadataSnapshots;
  private readonly follower: ImageFollower;
  private readonly proposals = new Proposals();
  private readonly receiver = new SnapshotReceiver();
  private current: MetadataImage;
  private applied: number;
  private snapshotIndex: number;
  private snapshotting: Promise<void> | undefined;
  private readonly appliedListeners = new Set<(applied: AppliedEntry) => void>();
  private readonly replacedListeners = new Set<() => void>();
  private readonly leaderListeners = new Set<() => void>();
  private readonly unlisten: () => void;
  private cancelTick: () => void = () => undefined;
  private saidStateMs = Number.NEGATIVE_INFINITY;
  private leaving = false;
  private closing: Promise<void> | undefined;

  private constructor(
    deps: StorageDeps,
    log: PartitionLog,
    parts: { readonly snapshots: MetadataSnapshots; readonly follower: (image: () => MetadataView) => ImageFollower },
    loaded: Loaded,
    options: RaftLogOptions,
  ) {
    this.deps = deps;
    this.log = log;
    this.options = options;
    this.self = { nodeId: options.nodeId, diskId: options.diskId };
    this.snapshots = parts.snapshots;
    this.current = loaded.image;
    this.applied = loaded.snapshot.index;
    this.snapshotIndex = loaded.snapshot.index;
    this.follower = parts.follower(() => this.current);
    const nowMs = this.nowMs();
    const { vote } = options.votes;
    this.raft = createRaft({
      self: this.self,
      voters: options.voters.map((each): Voter => ({ nodeId: each, diskId: undefined })),
      hardState: { term: vote.term, votedFor: vote.vote },
      snapshot: loaded.snapshot,
      entries: loaded.entries,
      appliedIndex: loaded.snapshot.index,
      config: options.config ?? RAFT_CONFIG_DEFAULT,
      random: () => deps.random.below(RANDOM_RANGE) / RANDOM_RANGE,
      nowMs,
    });
    this.voices = new NodeVoices({
      startedMs: nowMs,
      ownLeaseUntilMs: () => (this.raft.roleState.ready ? this.raft.leaseUntilMs : Number.NEGATIVE_INFINITY),
      appliedIndex: () => this.applied,
    });
    for (const peer of options.voters)
      if (peer !== options.nodeId) this.voices.linkChanged(peer, options.peers.isUp(peer), nowMs);
    this.writer = new RaftWriter(deps, log, options.votes, options.nodeId, (generation) => {
      this.raft.persisted(this.nowMs(), generation);
      this.pump();
    });
    this.unlisten = options.peers.onChange((peer, up) => {
      this.voices.linkChanged(peer, up, this.nowMs());
      if (!up) this.raft.peerConnectionClosed(this.nowMs(), peer);
      this.pump();
    });
  }

  /**
   * `log`: opened with fsync 'always'. Takes part as soon as it resolves. FatalError STORE_DAMAGED or FORMAT_TOO_NEW when what it
   * says cannot be known, DATA_DIR_UNUSABLE when it is the log of a node that was alone.
   */
  static async open(
    deps: StorageDeps,
    log: PartitionLog,
    store: MetadataStore,
    options: RaftLogOptions,
  ): Promise<RaftMetadataLog> {
    assert(log.config.fsync === 'always', 'the metadata log is always synced');
    if (options.votes.vote.term === 0 && log.logEndOffset > 0)
      throw new FatalError(
        'DATA_DIR_UNUSABLE',
        'This data directory belongs to a node that was alone: it cannot become one of several. Start it without --peers, or with an empty data directory.',
      );
    const snapshots = new MetadataSnapshots(deps, new Health(deps.telemetry, deps.fatal), log.directory);
    const loaded = await load(deps, log, snapshots);
    const usable = (await loadStore(deps, store)) !== undefined;
    const follower = (image: () => MetadataView): ImageFollower =>
      new ImageFollower(store, deps.telemetry, image, usable);
    const opened = new RaftMetadataLog(deps, log, { snapshots, follower }, loaded, options);
    opened.follower.replaceAll(opened.applied);
    opened.pump();
    opened.tickLater();
    return opened;
  }

  image(): MetadataView {
    return this.current;
  }
  get appliedIndex(): number {
    return this.applied;
  }
  get storeDisabled(): boolean {
    return this.follower.disabled;
  }
  get leader(): { readonly nodeId: NodeId; readonly term: number } | undefined {
    const { leader, term } = this.raft.roleState;
    return leader === undefined ? undefined : { nodeId: asNodeId(leader), term };
  }
  hasLease(): boolean {
    return this.raft.roleState.ready && this.raft.hasLease(this.nowMs());
  }
  /** For operators: what the core knows. */
  get consensus(): RaftCore {
    return this.raft;
  }
  get diskStuck(): boolean {
    return this.writer.busyMs(this.nowMs()) > DISK_STUCK_MS;
  }
  get isLeaving(): boolean {
    return this.leaving;
  }
  onApplied(listener: (applied: AppliedEntry) => void): () => void {
    return listen(this.appliedListeners, listener);
  }
  onReplaced(listener: () => void): () => void {
    return listen(this.replacedListeners, listener);
  }
  onLeader(listener: () => void): () => void {
    return listen(this.leaderListeners, listener);
  }

  // Proposals

  async propose(entry: MetadataEntry, options: ProposeOptions = {}): Promise<EntryOutcome> {
    if (this.closing !== undefined) return refused('SHUTTING_DOWN', 'the node is stopping');
    if (this.proposals.size >= (this.options.pendingMax ?? PENDING_MAX_DEFAULT))
      return refused('TOO_MANY_REQUESTS', 'too many changes of metadata wait already');
    const { leader } = this;
    if (options.term !== undefined && (leader?.term !== options.term || leader.nodeId !== this.self.nodeId))
      return refused('NOT_LEADER', `term ${String(options.term)} is over`);
    if (leader === undefined) return refused('NOT_LEADER', 'the metadata log has no leader now');
    const bytes = encodeEntry(entry);
    if (leader.nodeId !== this.self.nodeId) return await this.proposeAt(leader.nodeId, bytes);
    const outcome = this.raft.propose(this.nowMs(), [bytes]);
    if (!outcome.ok) return refused(refusalCode(outcome.reason), `the metadata log takes no entry: ${outcome.reason}`);
    const waiting = this.proposals.wait(outcome.firstIndex, outcome.term, this.applied);
    this.pump();
    return await waiting;
  }
  private async proposeAt(to: NodeId, entry: Uint8Array): Promise<EntryOutcome> {
    const body = encodePropose({ from: asNodeId(this.self.nodeId), entry });
    const call = { operation: PROPOSE, version: 1, body, timeoutMs: PROPOSE_TIMEOUT_MS };
    const answer = await this.options.peers.call(to, call);
    if (!answer.ok) {
      if (answer.code === 'NOT_CONNECTED')
        return refused('NOT_LEADER', 'the leader of the metadata log is not reached');
      if (answer.code === 'CONNECTION_LOST' || answer.code === 'REQUEST_TIMEOUT')
        return refused('LEADERSHIP_LOST', 'the leader of the metadata log did not answer');
      return { ok: false, code: answer.code, message: answer.message ?? 'refused by the leader of the metadata log' };
    }
    const decoded = decodeProposed(answer.body);
    if (!decoded.ok) return refused('LEADERSHIP_LOST', 'the leader of the metadata log gave no sense');
    const { index, term } = decoded.value;
    const waiting = this.proposals.wait(index, term, this.applied);
    // It leads no more, and this node follows another one by now.
    if (term < this.raft.hardState.term && index > this.applied) this.proposals.lose(term);
    return await waiting;
  }
  /** Of another node. */
  receiveProposal({ entry }: ProposeRequest): ProposeAnswer {
    if (this.closing !== undefined) return { ok: false, code: 'NOT_LEADER' };
    if (!decodeEntry(entry).ok) return { ok: false, code: 'INVALID_ARGUMENT' };
    const outcome = this.raft.propose(this.nowMs(), [entry.slice()]);
    if (!outcome.ok) return { ok: false, code: refusalCode(outcome.reason) };
    this.pump();
    return { ok: true, response: { index: outcome.firstIndex, term: outcome.term } };
  }

  // Messages

  /** False: it is of another cluster. */
  receive(request: RaftRequest): boolean {
    const { clusterId } = this.current;
    if (this.closing !== undefined) return true;
    if (clusterId !== undefined && request.clusterId !== '' && request.clusterId !== clusterId) return false;
    const nowMs = this.nowMs();
    for (const message of request.messages)
      this.raft.step(nowMs, { nodeId: request.from, diskId: request.diskId }, message);
    this.pump();
    this.voices.heard(request, nowMs);
    return true;
  }
  async receiveSnapshot(request: InstallSnapshotRequest): Promise<InstallSnapshotResponse> {
    const { have, whole } = this.receiver.take(request);
    if (whole === undefined || this.closing !== undefined) return { have };
    const found = snapshotFrom(whole, this.deps.crc32c);
    const point =
      typeof found === 'string' || found.consensus === undefined
        ? undefined
        : decodeConsensus(found.index, found.consensus);
    if (typeof found === 'string' || point?.index !== request.index || point.term !== request.indexTerm) {
      this.deps.telemetry.log('error', 'metadata.snapshot-refused', { from: request.from, index: request.index });
      return { have: 0 };
    }
    if (point.index <= this.applied) return { have };
    if (!(await this.snapshots.writeBytes(point.index, whole))) return { have: 0 };
    const from = { nodeId: request.from, diskId: this.voices.get(request.from)?.diskId ?? '' };
    if (this.raft.snapshotInstalled(this.nowMs(), from, request.term, point)) {
      this.current = found.image;
      this.applied = point.index;
      this.snapshotIndex = point.index;
      this.proposals.loseAll();
      this.follower.replaceAll(point.index);
      for (const listener of this.replacedListeners) listener();
    }
    this.pump();
    return { have };
  }

  private send(to: number, messages: readonly Message[]): void {
    let at = 0;
    do {
      let end = at;
      let bytes = 0;
      while (end < messages.length && end - at < RAFT_MESSAGES_MAX && (end === at || bytes < FRAME_ENTRY_BYTES_MAX)) {
        bytes += sizeOf(messages[end]);
        end += 1;
      }
      const body = encodeRaft({
        from: asNodeId(this.self.nodeId),
        diskId: this.self.diskId,
        incarnation: this.options.incarnation,
        clusterId: this.current.clusterId ?? '',
        diskStuck: this.diskStuck,
        leaving: this.leaving,
        ...this.voices.stamp(to, this.nowMs()),
        messages: messages.slice(at, end),
      });
      // What is lost is said again by the core.
      this.options.peers
        .call(to, { operation: RAFT, version: 1, body, timeoutMs: MESSAGE_TIMEOUT_MS })
        .catch(() => undefined);
      at = end;
    } while (at < messages.length);
  }

  // The core

  /** Whole milliseconds, as they travel: what a lease loses by that is far less than its margin. */
  private nowMs(): MonotonicMs {
    return monotonicMs(Math.floor(this.deps.clock.bootMs()));
  }
  private tickLater(): void {
    this.cancelTick = this.deps.clock.setTimer(TICK_MS, () => {
      this.tick();
      if (this.closing === undefined) this.tickLater();
    });
  }
  private tick(): void {
    const nowMs = this.nowMs();
    if (this.diskStuck) this.raft.stepDown(nowMs);
    this.raft.tick(nowMs);
    this.pump();
    if (nowMs - this.saidStateMs < STATE_EVERY_MS) return;
    this.saidStateMs = nowMs;
    for (const peer of this.options.voters) if (peer !== this.self.nodeId) this.send(peer, []);
  }
  private pump(): void {
    for (;;) {
      const { write, messages, committed, role, snapshotsNeeded } = this.raft.takeEffects();
      if (write !== undefined) this.writer.add(write);
      const byPeer = Map.groupBy(messages, ({ to }) => to);
      for (const [to, list] of byPeer)
        this.send(
          to,
          list.map(({ message }) => message),
        );
      for (const entry of committed) this.apply(entry);
      for (const { to } of snapshotsNeeded) this.sendSnapshotTo(to);
      if (role !== undefined) {
        if (role.role !== 'leader') this.proposals.lose(role.leader === undefined ? role.term : role.term - 1);
        this.deps.telemetry.log('info', 'metadata.role', { ...role, leader: role.leader ?? -1 });
        for (const listener of this.leaderListeners) listener();
      }
      if (write === undefined && messages.length === 0 && committed.length === 0 && role === undefined) break;
    }
    if (this.applied - this.snapshotIndex >= (this.options.snapshotEvery ?? SNAPSHOT_EVERY_DEFAULT))
      this.snapshotInBackground();
  }
  private apply({ index, term, kind, bytes }: Entry): void {
    assert(index === this.applied + 1, `entry ${String(index)} behind ${String(this.applied)}`);
    this.applied = index;
    if (kind !== 'command') {
      this.follower.applied(index, []);
      return;
    }
    const entry = entryOf(bytes, index);
    const { outcome, changes, topics } = apply(this.current, index, entry);
    this.follower.applied(index, changes);
    for (const listener of this.appliedListeners) listener({ index, entry, outcome, topics });
    this.proposals.applied(index, term, outcome);
  }

  // Snapshots

  private snapshotInBackground(): void {
    this.snapshotting ??= this.snapshot()
      .catch((error: unknown) => {
        // The storage has failed and the process is ending, or this is a bug; it is not lost either way.
        if (!(error instanceof StorageFailed))
          this.deps.telemetry.log('error', 'metadata.snapshot-failed', { reason: String(error) });
      })
      .finally(() => {
        this.snapshotting = undefined;
      });
  }
  private rowsNow(): ReadonlyMap<string, Uint8Array> {
    return imageRows(this.current).set(CONSENSUS_KEY, encodeConsensus(this.raft.snapshotPointAt(this.applied)));
  }
  private async snapshot(): Promise<void> {
    const index = this.applied;
    this.snapshotIndex = index;
    if (index < 0 || !(await this.snapshots.write(index, this.rowsNow()))) return;
    // One snapshot back: a follower that is a little behind needs no snapshot.
    const from = this.snapshots.logNeededFrom;
    if (from === undefined || from - 1 <= this.raft.compactedIndex || from - 1 > this.raft.deliveredIndex) return;
    this.raft.compact(from - 1);
    if (from > this.log.logStartOffset && from <= this.log.logEndOffset && !this.log.isClosed)
      await this.log.deleteTo(from);
  }
  private sendSnapshotTo(to: number): void {
    const { index, term: indexTerm } = this.raft.snapshotPointAt(this.applied);
    const bytes = encodeMetadataSnapshot(index, this.rowsNow(), this.deps.crc32c);
    const { term } = this.raft.hardState;
    this.deps.telemetry.log('info', 'metadata.snapshot-sent', { to, index, bytes: bytes.length });
    const sending = sendSnapshot(this.options.peers, asNodeId(this.self.nodeId), to, { term, index, indexTerm, bytes });
    sending
      .catch(() => false)
      .then(
        (ok) => {
          this.raft.snapshotSent(this.nowMs(), to, ok);
          this.pump();
        },
        () => undefined,
      );
  }

  // For operators

  /** The new disk in that node becomes a voter in place of the one before: `rivulet cluster replace`. */
  replaceVoter(node: number, newDiskId: string): ReplaceOutcome {
    const outcome = this.raft.proposeReplace(this.nowMs(), node, newDiskId);
    this.pump();
    return outcome;
  }
  transferLeadership(to: number): TransferOutcome {
    const outcome = this.raft.transferLeadership(this.nowMs(), to);
    this.pump();
    return outcome;
  }

  // The end

  /** The node wants to stop: others are told, and the leadership goes to one of them if it can. */
  leave(): void {
    this.leaving = true;
    const best = this.raft.progress
      .filter(({ voter, state }) => voter && state === 'replicate')
      .toSorted((left, right) => right.match - left.match)[0];
    if (best !== undefined) this.raft.transferLeadership(this.nowMs(), best.nodeId);
    this.saidStateMs = Number.NEGATIVE_INFINITY;
    this.tick();
  }
  close(): Promise<void> {
    this.closing ??= this.closeOnce();
    return this.closing;
  }
  private async closeOnce(): Promise<void> {
    this.cancelTick();
    this.unlisten();
    this.raft.stepDown(this.nowMs());
    this.pump();
    this.proposals.loseAll();
    await this.writer.idle();
    await this.snapshotting;
    await this.follower.close();
  }
}

/** The newest snapshot, and the entries above it. */
async function load(deps: StorageDeps, log: PartitionLog, snapshots: MetadataSnapshots): Promise<Loaded> {
  const found = await snapshots.load();
  const point = found?.consensus === undefined ? undefined : decodeConsensus(found.index, found.consensus);
  if (found !== undefined && point === undefined)
    throw new FatalError('DATA_DIR_UNUSABLE', 'The metadata snapshot is of a node that was alone, or cannot be read.');
  const snapshot: SnapshotPoint = point ?? { index: -1, term: 0, voters: [] };
  if (log.logStartOffset > snapshot.index + 1)
    throw new FatalError(
      'STORE_DAMAGED',
      `The metadata log begins at index ${String(log.logStartOffset)}, and no intact snapshot reaches up to there. Use segtool verify.`,
    );
  // A snapshot was installed, and the end came before the log was cut: what it holds belongs to another past, or lies below.
  const known = termAt(log, snapshot.index);
  if (log.logEndOffset <= snapshot.index || (known !== undefined && known !== snapshot.term)) {
    if (log.logEndOffset > snapshot.index + 1) await log.truncateTo(offset(snapshot.index + 1));
    await log.restartAt(offset(snapshot.index + 1));
  }
  const entries = await readEntries(log, snapshot.index + 1, deps.crc32c);
  return { snapshot, image: found?.image ?? emptyImage(), entries };
}

function listen<Listener>(listeners: Set<Listener>, listener: Listener): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}
function refused(
  code: 'SHUTTING_DOWN' | 'TOO_MANY_REQUESTS' | 'NOT_LEADER' | 'LEADERSHIP_LOST' | 'INVALID_ARGUMENT',
  message: string,
): EntryOutcome {
  return { ok: false, code, message };
}
function refusalCode(
  reason: 'not-leader' | 'transferring' | 'full' | 'too-large',
): 'NOT_LEADER' | 'TOO_MANY_REQUESTS' | 'INVALID_ARGUMENT' {
  if (reason === 'full') return 'TOO_MANY_REQUESTS';
  return reason === 'too-large' ? 'INVALID_ARGUMENT' : 'NOT_LEADER';
}
function sizeOf(message: Message | undefined): number {
  return message?.kind === 'append' ? message.entries.reduce((sum, { bytes }) => sum + bytes.length, 64) : 64;
}
