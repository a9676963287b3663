// Consensus on the metadata log: what goes in, what comes out. Everything is a synchronous function of its arguments; disk, network,
// time and chance are the driver's. The driver's loop, after every call that it makes:
//
//   const effects = raft.takeEffects()
//   start effects.write (writes are carried out one after the other, in the order they came out; several may share one sync);
//   send effects.messages; apply effects.committed; then look at effects.role and effects.snapshotsNeeded
//   when write G and all before it are durable: raft.persisted(nowMs, G), and take the effects of that
//
// A message that rests on a write does not come out before `persisted` has confirmed the write: what is in `messages` may leave at
// once, may be lost, repeated, delayed and reordered.
import type { MonotonicMs } from '../../base/brands.ts';

/** Who speaks: a node with the disk that it has now. An empty disk has forgotten its votes, so it is somebody else. */
export interface Peer {
  readonly nodeId: number;
  /** Not empty, at most 64 bytes of UTF-8. */
  readonly diskId: string;
}

/** Undefined disk: of a cluster that is being formed, where it is not known yet. All votes are needed until all are known. */
export interface Voter {
  readonly nodeId: number;
  readonly diskId: string | undefined;
}

export type EntryKind =
  /** The first of a term; no bytes. */
  | 'noop'
  | 'command'
  /** The voters from here on, with their disks: `decodeVoters`. The first entry of a cluster, and one for each replaced disk. */
  | 'voters';

export interface Entry {
  /** Offset in the metadata log, from 0, without gaps. -1 stands for "none" wherever an index is. */
  readonly index: number;
  readonly term: number;
  readonly kind: EntryKind;
  /** Never changed once it is in here. */
  readonly bytes: Uint8Array;
}

/** The last entry that a snapshot covers, and the voters as they were then. `{ index: -1, term: 0 }`: no snapshot. */
export interface SnapshotPoint {
  readonly index: number;
  readonly term: number;
  readonly voters: readonly Voter[];
}

export interface HardState {
  /** 0: nothing was ever elected. */
  readonly term: number;
  /** Node id that has this node's vote in `term`; -1: none. */
  readonly votedFor: number;
}

export interface RaftConfig {
  /** A silent leader is given up after this to twice this, by chance. At least `leaseMs`. Default 1500. */
  readonly electionTimeoutMs: number;
  /** Who has heard a leader helps no other for this long; the leader counts on nine tenths of it. Default 500. */
  readonly leaseMs: number;
  /** Default 100. At most a third of `leaseMs`. */
  readonly heartbeatMs: number;
  /** Of one append message; the largest entry must fit. Default 256 KiB. */
  readonly appendBytesMax: number;
  readonly appendEntriesMax: number;
  /** Per follower, of appends that were not answered. Defaults 16 and 4 MiB. */
  readonly inflightMessagesMax: number;
  readonly inflightBytesMax: number;
  /** What a leader takes before it is committed. Defaults 4096 and 8 MiB. */
  readonly uncommittedEntriesMax: number;
  readonly uncommittedBytesMax: number;
  /** Entries kept in memory above the last `compact`: beyond it nothing is proposed, and nothing taken from a leader. Default 64 MiB. */
  readonly logBytesMax: number;
  /** A new disk may lack this many entries when it becomes a voter. Default 64. */
  readonly replaceLagMax: number;
}

export interface RaftStart {
  readonly self: Peer;
  /** From --peers: used while neither snapshot nor entries name the voters. */
  readonly voters: readonly Voter[];
  readonly hardState: HardState;
  readonly snapshot: SnapshotPoint;
  /** All that are durable above the snapshot, without gaps. */
  readonly entries: readonly Entry[];
  /** What the state machine has applied: committed, at least the snapshot's index. Delivery goes on behind it. */
  readonly appliedIndex: number;
  readonly config: RaftConfig;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly nowMs: MonotonicMs;
}

/** `term` is the sender's, always. `sentMs` is the leader's clock, given back as it came: only the leader reads it. */
export type Message =
  /**
   * Would you vote for me in `term` + 1? (`vote`: do you, in `term`?) Meant for that disk only: another one at the same node does
   * not answer. Undefined: for any, while the cluster is being formed. `transfer`: the leader has asked for it.
   */
  | {
      readonly kind: 'preVote';
      readonly term: number;
      readonly toDisk: string | undefined;
      readonly lastIndex: number;
      readonly lastTerm: number;
    }
  | {
      readonly kind: 'vote';
      readonly term: number;
      readonly toDisk: string | undefined;
      readonly lastIndex: number;
      readonly lastTerm: number;
      readonly transfer: boolean;
    }
  /** `forTerm`: the term that was asked about. */
  | { readonly kind: 'preVoteAnswer'; readonly term: number; readonly forTerm: number; readonly granted: boolean }
  | { readonly kind: 'voteAnswer'; readonly term: number; readonly forTerm: number; readonly granted: boolean }
  | {
      readonly kind: 'append';
      readonly term: number;
      readonly prevIndex: number;
      readonly prevTerm: number;
      /** From `prevIndex` + 1 on, without gaps. */
      readonly entries: readonly Entry[];
      readonly commitIndex: number;
      readonly sentMs: number;
    }
  /** Durable here up to `match`, and the same as the leader's; in memory up to `received`. */
  | {
      readonly kind: 'appended';
      readonly term: number;
      readonly match: number;
      readonly received: number;
      readonly sentMs: number;
    }
  /** Nothing at `prevIndex`, or of another term: go on at or below `hintIndex`, the last of at most `prevTerm` here. */
  | {
      readonly kind: 'appendRejected';
      readonly term: number;
      readonly prevIndex: number;
      readonly hintIndex: number;
      readonly hintTerm: number;
      readonly sentMs: number;
    }
  | { readonly kind: 'heartbeat'; readonly term: number; readonly commitIndex: number; readonly sentMs: number }
  /** Answered without waiting for the disk. */
  | {
      readonly kind: 'heartbeatAnswer';
      readonly term: number;
      readonly received: number;
      readonly sentMs: number;
    }
  /** To a leader of an older term: there is a newer one. */
  | { readonly kind: 'newerTerm'; readonly term: number }
  /** From the leader, who has given up its lease: stand for election now. */
  | { readonly kind: 'timeoutNow'; readonly term: number };

export interface Outgoing {
  readonly to: number;
  readonly message: Message;
}

/** One unit, to be durable as a whole. In this order: reset, truncate, append, hard state. */
export interface RaftWrite {
  /** 1, 2, 3, … */
  readonly generation: number;
  /** All entries are dropped: the log goes on at this index, behind the snapshot that was installed. */
  readonly resetTo: number | undefined;
  /** All entries from this index on are dropped. */
  readonly truncateFrom: number | undefined;
  readonly entries: readonly Entry[];
  readonly hardState: HardState | undefined;
}

export type Role = 'follower' | 'candidate' | 'leader';

export interface RoleState {
  readonly role: Role;
  readonly term: number;
  /** Node id; undefined: not known. */
  readonly leader: number | undefined;
  /** A leader that has committed an entry of its term and delivered all before it. */
  readonly ready: boolean;
}

/** The follower needs entries that were compacted. The driver sends it a snapshot and reports by `snapshotSent`. */
export interface SnapshotNeeded {
  readonly to: number;
  readonly diskId: string;
}

export interface RaftEffects {
  readonly write: RaftWrite | undefined;
  readonly messages: readonly Outgoing[];
  /** Each once, in order, without gaps, of all kinds; never before it is durable on this node. */
  readonly committed: readonly Entry[];
  /** Undefined: as before. Said at once on election with `ready: false`, and again when ready, behind `committed`. */
  readonly role: RoleState | undefined;
  readonly snapshotsNeeded: readonly SnapshotNeeded[];
}

export type Refusal =
  | 'not-leader'
  /** A transfer is under way: soon another one leads. */
  | 'transferring'
  /** Too much is not committed, or not compacted. */
  | 'full'
  /** An entry over `appendBytesMax`. */
  | 'too-large';

export type ProposeOutcome =
  /** They have the indexes firstIndex, firstIndex + 1, … They are committed if `committed` holds them with this term. */
  | { readonly ok: true; readonly firstIndex: number; readonly term: number }
  | { readonly ok: false; readonly reason: Refusal; readonly leader: number | undefined };

export type ReplaceOutcome =
  | { readonly ok: true; readonly index: number; readonly term: number }
  | {
      readonly ok: false;
      readonly reason:
        | 'not-leader'
        | 'transferring'
        /** Nothing of this term is committed yet, or another replacement is not. Try again. */
        | 'not-ready'
        | 'unknown-node'
        /** The node has not been heard with that disk. */
        | 'unknown-disk'
        /** It is the leader's own. */
        | 'own-node'
        /** It has that disk as a voter already. */
        | 'no-change'
        /** The new disk is being filled. Try again. */
        | 'behind';
      readonly leader: number | undefined;
    };

export type TransferOutcome =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: 'not-leader' | 'transferring' | 'not-a-voter' | 'not-ready' };

export interface ProgressView {
  readonly nodeId: number;
  /** Undefined: not heard in this term. */
  readonly diskId: string | undefined;
  /** False: it is filled, but not counted. */
  readonly voter: boolean;
  readonly state: 'probe' | 'replicate' | 'snapshot';
  readonly match: number;
  readonly heardMs: number;
}

export interface RaftCore {
  /** Some 20 times a second or more: all that happens by time happens here. Time never goes back. */
  tick(nowMs: MonotonicMs): void;
  /** `from` is what the connection's handshake has proven. */
  step(nowMs: MonotonicMs, from: Peer, message: Message): void;
  /** All or none. The arrays belong to raft from now on. */
  propose(nowMs: MonotonicMs, commands: readonly Uint8Array[]): ProposeOutcome;
  /** The node's disk was lost; with `newDiskId` it becomes a voter again. Decided when the entry at `index` is delivered. */
  proposeReplace(nowMs: MonotonicMs, nodeId: number, newDiskId: string): ReplaceOutcome;
  /**
   * Proposals are refused until it has happened. When the other one does not catch up within an election timeout all goes on as
   * before; when it was told to stand for election and nothing came of it, this node steps down: it can have no lease in this term.
   */
  transferLeadership(nowMs: MonotonicMs, to: number): TransferOutcome;
  /** The leader's disk hangs, or the node stops: leads no more, and does not stand for election for an election timeout. */
  stepDown(nowMs: MonotonicMs): void;
  /** A hint: if it was the leader, it is given up as soon as its lease has run out. */
  peerConnectionClosed(nowMs: MonotonicMs, nodeId: number): void;
  /** Write `generation` and all before it are durable. */
  persisted(nowMs: MonotonicMs, generation: number): void;
  /** The leader's transfer has ended; not ok: it begins anew when the follower is heard again. */
  snapshotSent(nowMs: MonotonicMs, to: number, ok: boolean): void;
  /**
   * A snapshot that `from`, leader of `leaderTerm`, has sent is durable and whole here. False: not needed, forget it. True: the
   * state machine is to become it at once, before any other effect is taken; `write.resetTo` says whether the log is dropped.
   */
  snapshotInstalled(nowMs: MonotonicMs, from: Peer, leaderTerm: number, snapshot: SnapshotPoint): boolean;
  /** A snapshot up to `toIndex` (applied) is durable: entries up to it are forgotten here. Not above `deliveredIndex`. */
  compact(toIndex: number): void;
  takeEffects(): RaftEffects;

  /** No other node leads before this moment of this node's clock; -Infinity: no lease. A cluster of one: Infinity. */
  readonly leaseUntilMs: number;
  /** For reads: `roleState.ready && hasLease(now)`, asked when the answer leaves. */
  hasLease(nowMs: MonotonicMs): boolean;
  readonly roleState: RoleState;
  readonly hardState: HardState;
  readonly lastIndex: number;
  readonly commitIndex: number;
  readonly deliveredIndex: number;
  readonly durableIndex: number;
  /** The last entry that was compacted. */
  readonly compactedIndex: number;
  /** Those in force now, committed or not. */
  readonly voters: readonly Voter[];
  /** For the snapshot at that index: from `compactedIndex` to `deliveredIndex`. */
  snapshotPointAt(index: number): SnapshotPoint;
  /** True: this node with this disk is one of the voters, as far as it knows. */
  readonly isVoter: boolean;
  /** Of a leader; else empty. */
  readonly progress: readonly ProgressView[];
}
