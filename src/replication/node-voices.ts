// What this node last heard from each of the others, and whether it may take writes itself.
//
// The node lease. Every frame carries the sender's clock and gives back the newest clock of the other side (the echo). From a node that
// leads the metadata log and surely is the only one (`holdsLease`), an echo T proves: when that frame was made, the controller had heard
// what we said at T. So until T + nodeLeaseMs of our clock it has not replaced us, for three reasons:
//
// - A controller replaces a node at SILENCE_MS after the last clock of its own that the node has given back. An echo goes out only while
//   that is younger than LEND_MS, and LEND_MS + the lease, a tenth longer for clocks that differ in speed, is SILENCE_MS. It is not
//   counted from when the node was heard: one that is heard but hears nothing would never be replaced, and could still get a late echo.
// - The next controller gives everyone SILENCE_MS from its own start, and what the former one lent was lent before that.
// - Each frame also says how far the metadata was committed, and the echo counts once this node has applied that much. Whoever was
//   replaced while it stood still gets a new echo soon, and must learn of the replacement first.
//
// The controller's own lease is that of the metadata log.
//
// Clocks are those of bootMs: they run on while a machine sleeps, never jump, and are compared only with themselves. An echo of an
// earlier start of this node lies before `startedMs`, or (the machine was started too) in the future.
import { assert } from '../base/assert.ts';
import { nodeId as asNodeId, type MonotonicMs, type NodeId } from '../base/brands.ts';
import type { RaftRequest } from '../protocol/between-nodes/raft.v1.ts';

export const NODE_LEASE_MS_DEFAULT = 1500;
/** The controller replaces a node that has not answered it for longer than this. */
export const SILENCE_MS = 2000;
/** Clocks run at most this much faster or slower than each other. */
export const DRIFT_PERCENT_MAX = 10;
/** Echoes that wait for entries to be applied are this far apart, so that there are few of them. */
const WAITING_STEP_MS = 50;

/** One other node. Values that have not been heard yet are '', -1, false and -Infinity. Times are of this node's clock. */
export interface NodeVoice {
  readonly nodeId: NodeId;
  readonly diskId: string;
  readonly incarnation: number;
  readonly diskStuck: boolean;
  readonly leaving: boolean;
  readonly heardMs: number;
  /** First heard with this disk and incarnation. */
  readonly sinceMs: number;
  /** What was sent to it at this moment has arrived, and its answer too: both ways were open since. */
  readonly answeredMs: number;
  /** The newest clock that it has sent. */
  readonly clockMs: number;
  readonly linkUp: boolean;
  /** -Infinity: there never was a connection. */
  readonly linkChangedMs: number;
}

type Changing<T> = { -readonly [K in keyof T]: T[K] };

/** The latest leader of the metadata log that was heard as such. */
export interface HeardLeader {
  readonly nodeId: NodeId;
  readonly term: number;
}

export interface NodeVoicesOptions {
  /** When this process began to say its clock. */
  readonly startedMs: MonotonicMs;
  readonly nodeLeaseMs?: number;
  /**
   * Until when this node leads the metadata log, as the only one and with everything before its term applied; -Infinity: it does
   * not. Infinity: it is alone.
   */
  readonly ownLeaseUntilMs: () => number;
  /** Last entry of the metadata log that this node has applied. */
  readonly appliedIndex: () => number;
}

interface WaitingLease {
  readonly untilMs: number;
  readonly commitIndex: number;
}

export class NodeVoices {
  private readonly options: NodeVoicesOptions;
  private readonly nodeLeaseMs: number;
  private readonly lendMs: number;
  private readonly voices = new Map<number, Changing<NodeVoice>>();
  private lentUntilMs = -Infinity;
  /** Both values rise. */
  private waiting: WaitingLease[] = [];
  private leader: HeardLeader | undefined;

  constructor(options: NodeVoicesOptions) {
    this.options = options;
    this.nodeLeaseMs = options.nodeLeaseMs ?? NODE_LEASE_MS_DEFAULT;
    this.lendMs = SILENCE_MS - (this.nodeLeaseMs * (100 + DRIFT_PERCENT_MAX)) / 100;
    assert(this.nodeLeaseMs > 0 && this.lendMs > 0, 'a node lease ends before its holder is replaced');
  }

  /** Undefined: never heard, never connected. */
  get(nodeId: number): NodeVoice | undefined {
    return this.voices.get(nodeId);
  }
  all(): Iterable<NodeVoice> {
    return this.voices.values();
  }
  get lastLeader(): HeardLeader | undefined {
    return this.leader;
  }

  /** What a frame to that node says of clocks and of this node's lease: as late as can be, when the frame is made. */
  stamp(to: number, nowMs: MonotonicMs): Pick<RaftRequest, 'holdsLease' | 'clockMs' | 'echoMs'> {
    const voice = this.voices.get(to);
    const holdsLease = nowMs < this.options.ownLeaseUntilMs();
    const lends = !holdsLease || (voice !== undefined && nowMs - voice.answeredMs <= this.lendMs);
    return { holdsLease, clockMs: Math.floor(nowMs), echoMs: lends ? (voice?.clockMs ?? -1) : -1 };
  }

  /** Call it when what the request says of commits has been handed to the metadata log. */
  heard(request: RaftRequest, nowMs: MonotonicMs): void {
    const voice = this.voiceOf(request.from);
    if (request.diskId === voice.diskId && request.incarnation < voice.incarnation) return;
    if (request.diskId !== voice.diskId || request.incarnation !== voice.incarnation) {
      voice.diskId = request.diskId;
      voice.incarnation = request.incarnation;
      voice.sinceMs = nowMs;
      voice.answeredMs = -Infinity;
      voice.clockMs = -1;
    }
    voice.heardMs = nowMs;
    if (request.clockMs >= voice.clockMs) {
      voice.clockMs = request.clockMs;
      voice.diskStuck = request.diskStuck;
      voice.leaving = request.leaving;
    }
    const { term, commitIndex } = asLeader(request);
    if (term > (this.leader?.term ?? -1)) this.leader = { nodeId: request.from, term };
    const { echoMs } = request;
    if (echoMs < Math.floor(this.options.startedMs) || echoMs > nowMs) return;
    voice.answeredMs = Math.max(voice.answeredMs, echoMs);
    if (request.holdsLease) this.take(echoMs + this.nodeLeaseMs, commitIndex, nowMs);
  }

  linkChanged(nodeId: number, up: boolean, nowMs: MonotonicMs): void {
    const voice = this.voiceOf(asNodeId(nodeId));
    if (voice.linkUp === up) return;
    voice.linkUp = up;
    voice.linkChangedMs = nowMs;
  }

  /** This node may take writes and answer for its partitions until then; -Infinity: it may not. */
  get leaseUntilMs(): number {
    this.settle();
    return Math.max(this.lentUntilMs, this.options.ownLeaseUntilMs());
  }
  /** To be asked when an answer leaves, not only when the request came: the process may have stood still in between. */
  leaseValid(nowMs: MonotonicMs): boolean {
    return nowMs < this.leaseUntilMs;
  }

  private voiceOf(nodeId: NodeId): Changing<NodeVoice> {
    const known = this.voices.get(nodeId);
    if (known !== undefined) return known;
    const voice = {
      nodeId,
      diskId: '',
      incarnation: -1,
      diskStuck: false,
      leaving: false,
      heardMs: -Infinity,
      sinceMs: -Infinity,
      answeredMs: -Infinity,
      clockMs: -1,
      linkUp: false,
      linkChangedMs: -Infinity,
    };
    this.voices.set(nodeId, voice);
    return voice;
  }

  private take(untilMs: number, commitIndex: number | undefined, nowMs: MonotonicMs): void {
    // A frame that does not say how much is committed does not show what this node has to know.
    if (commitIndex === undefined) return;
    this.settle();
    if (commitIndex <= this.options.appliedIndex()) {
      this.lentUntilMs = Math.max(this.lentUntilMs, untilMs);
      return;
    }
    this.waiting = this.waiting.filter((each) => each.untilMs > nowMs);
    const last = this.waiting.at(-1);
    if (last !== undefined && (untilMs < last.untilMs + WAITING_STEP_MS || commitIndex < last.commitIndex)) return;
    this.waiting.push({ untilMs, commitIndex });
  }

  private settle(): void {
    const applied = this.options.appliedIndex();
    for (let first = this.waiting[0]; first !== undefined && first.commitIndex <= applied; first = this.waiting[0]) {
      this.lentUntilMs = Math.max(this.lentUntilMs, first.untilMs);
      this.waiting.shift();
    }
  }
}

/** What only leaders say. Term -1: it does not speak as one; undefined: it does not say what is committed. */
function asLeader({ messages }: RaftRequest): { readonly term: number; readonly commitIndex: number | undefined } {
  let term = -1;
  let commitIndex: number | undefined;
  for (const message of messages) {
    if (message.kind !== 'append' && message.kind !== 'heartbeat') continue;
    term = Math.max(term, message.term);
    commitIndex = Math.max(commitIndex ?? -1, message.commitIndex);
  }
  return { term, commitIndex };
}
