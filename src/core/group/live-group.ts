// What the coordinator knows of one group beside what is durable: sessions, requests that wait, the record under way. All of it may be
// lost: members are given a full session anew, and requests are repeated.
import type { MonotonicMs } from '../../base/brands.ts';
import type { GroupMember } from '../../base/group.ts';
import { mustRelease } from './membership.ts';
import type { Joining, Release } from './plan.ts';
import type { GroupRecord, ReplayRequest, Token } from './requests.ts';

export interface Session {
  heardMs: number;
  /** Its end, unless it is heard of before. */
  deadlineMs: number;
  /** Since when it has had something to release. */
  revokingSinceMs: number | undefined;
}

/** Whose request waits for the next record, and how it is answered then. */
export type Waiter =
  | { readonly kind: 'member'; readonly token: Token; readonly memberId: string }
  | { readonly kind: 'left'; readonly token: Token }
  | { readonly kind: 'replay'; readonly token: Token }
  | { readonly kind: 'delete'; readonly token: Token };

export interface Parked {
  readonly token: Token;
  readonly generation: number;
  readonly untilMs: number;
}

export interface ReplayTask {
  readonly token: Token;
  readonly request: ReplayRequest;
  readonly deadlineMs: number;
  stage: 'begin' | 'stopping' | 'resetting';
}

export interface UnderWay {
  readonly record: GroupRecord;
  readonly waiters: readonly Waiter[];
  /** Members that it ends: their heartbeats count no more. */
  readonly ending: ReadonlySet<string>;
}

export class LiveGroup {
  readonly groupId: string;
  readonly sessions: Map<string, Session> = new Map();
  readonly joins: Map<string, Joining> = new Map();
  readonly leaving: Set<string> = new Set();
  readonly releases: Map<string, Release> = new Map();
  readonly parked: Map<string, Parked> = new Map();
  /** For the next record. */
  waiters: Waiter[] = [];
  deletions: Token[] = [];
  underWay: UnderWay | undefined;
  replay: ReplayTask | undefined;
  /** Topics may have changed, or a pause has been left behind by an earlier coordinator. */
  stale = false;
  /** A record has failed: none is made before. */
  holdUntilMs = 0;
  /** Nothing ends or is due before. */
  nextDueMs = 0;

  constructor(groupId: string) {
    this.groupId = groupId;
  }

  get isIdle(): boolean {
    return (
      this.sessions.size + this.joins.size + this.waiters.length + this.deletions.length + this.parked.size === 0 &&
      this.underWay === undefined &&
      this.replay === undefined
    );
  }

  /** Sessions of exactly these members; a new one begins now. */
  follow(members: ReadonlyMap<string, GroupMember>, nowMs: MonotonicMs): void {
    for (const id of Array.from(this.sessions.keys())) if (!members.has(id)) this.sessions.delete(id);
    for (const [id, member] of members) {
      let session = this.sessions.get(id);
      if (session === undefined) {
        session = { heardMs: nowMs, deadlineMs: nowMs + member.sessionTimeoutMs, revokingSinceMs: undefined };
        this.sessions.set(id, session);
        this.due(session.deadlineMs);
      }
      if (!mustRelease(member)) session.revokingSinceMs = undefined;
      else session.revokingSinceMs ??= nowMs;
    }
  }

  due(atMs: number): void {
    this.nextDueMs = Math.min(this.nextDueMs, atMs);
  }
  /** All that ends by itself. */
  soonest(): number {
    let soonest = this.replay?.deadlineMs ?? Number.POSITIVE_INFINITY;
    for (const { deadlineMs } of this.sessions.values()) soonest = Math.min(soonest, deadlineMs);
    for (const { untilMs } of this.parked.values()) soonest = Math.min(soonest, untilMs);
    return soonest;
  }
}
