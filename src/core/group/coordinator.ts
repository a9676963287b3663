// The coordinator of all groups: a state machine without clocks, disks and waits. What is durable it only reads; it changes when the
// records that come out of here have been applied. No answer shows a state that is not durable. Sessions are its own: a new coordinator
// gives each member a full one.
import type { MonotonicMs } from '../../base/brands.ts';
import type { ErrorName } from '../../base/errors.ts';
import { countPartitions, type GroupMember, type GroupState } from '../../base/group.ts';
import { utf8Size } from '../../base/bytes.ts';
import {
  ASSIGNED_PARTITIONS_MAX,
  GROUP_MEMBERS_MAX,
  GROUP_PARTITIONS_MAX,
  GROUP_TOPICS_BYTES_MAX,
  GROUPS_MAX,
  isGroupId,
  isMemberId,
  isTopicName,
  MEMBERS_MAX,
  REBALANCE_TIMEOUT_MS_MAX,
  SESSION_TIMEOUT_MS_MAX,
  SESSION_TIMEOUT_MS_MIN,
} from '../../base/limits.ts';
import { LiveGroup, type Session, type UnderWay, type Waiter } from './live-group.ts';
import { HEARTBEATS_PER_SESSION, membershipOf, mustRelease } from './membership.ts';
import { planChange, type Topics, withoutReleased } from './plan.ts';
import type {
  DeleteRequest,
  Effects,
  GroupAnswer,
  GroupFailure,
  GroupRecord,
  GroupRequest,
  HeartbeatRequest,
  JoinRequest,
  LeaveRequest,
  RecordOutcome,
  ReplayRequest,
  Token,
} from './requests.ts';

/** What is applied now. */
export interface Durable extends Topics {
  readonly groups: ReadonlyMap<string, GroupState>;
  /** No group that was forgotten has been in a later generation. */
  readonly generationFloor: number;
  /** Over all groups. */
  readonly memberCount: number;
  readonly assignedPartitions: number;
}

type Applied = Extract<RecordOutcome, { readonly ok: true }>;

/** When the coordinator itself has slept for so long, that was no silence of its members. */
const STALL_MS = 1000;
/** A record that failed has cost an entry, maybe: the next one waits. */
const RETRY_MS = 1000;
/** More than leave within the time that a request can be late. */
const DEPARTED_MAX = 20_000;
/** Groups that are looked at in one tick only because topics have changed. */
const PLANS_PER_TICK = 200;

export class Coordinator {
  private readonly durable: Durable;
  private readonly live = new Map<string, LiveGroup>();
  /** Member ids that have served: a join of one of them is an old request that comes late. Oldest first. */
  private readonly departed = new Set<string>();
  private expiredMs: number;
  private stopped = false;
  private records: GroupRecord[] = [];
  private answers: { readonly token: Token; readonly answer: GroupAnswer }[] = [];
  private notes: { readonly event: string; readonly groupId: string; readonly detail: string }[] = [];

  constructor(durable: Durable, nowMs: MonotonicMs) {
    this.durable = durable;
    this.expiredMs = nowMs;
    for (const { groupId, members } of durable.groups.values()) {
      if (members.size === 0) continue;
      const live = this.liveOf(groupId);
      // What the one before has left unfinished: topics that changed, a pause.
      live.stale = true;
      live.follow(members, nowMs);
    }
  }

  /** Since when a member has been silent; undefined: it is not known. */
  silentMs(groupId: string, memberId: string, nowMs: MonotonicMs): number | undefined {
    const heardMs = this.live.get(groupId)?.sessions.get(memberId)?.heardMs;
    return heardMs === undefined ? undefined : Math.max(0, nowMs - heardMs);
  }
  get liveGroups(): number {
    return this.live.size;
  }

  handle(token: Token, request: GroupRequest, nowMs: MonotonicMs): Effects {
    switch (request.kind) {
      case 'join':
        this.join(token, request, nowMs);
        break;
      case 'heartbeat':
        this.heartbeat(token, request, nowMs);
        break;
      case 'leave':
        this.leave(token, request, nowMs);
        break;
      case 'replay':
        this.replay(token, request, nowMs);
        break;
      case 'delete':
        this.remove(token, request, nowMs);
        break;
    }
    return this.takeEffects();
  }

  /** The record was applied, or will never be. */
  settled(record: GroupRecord, outcome: RecordOutcome, nowMs: MonotonicMs): Effects {
    const live = this.live.get(record.groupId);
    const { underWay } = live ?? {};
    if (live === undefined || underWay?.record !== record) return this.takeEffects();
    live.underWay = undefined;
    const group = this.durable.groups.get(record.groupId);
    live.follow(group?.members ?? new Map<string, GroupMember>(), nowMs);
    if (outcome.ok && record.kind === 'change') this.remember(record.groupId, record.change.removed);
    if (outcome.ok) this.answerApplied(live, underWay, group, outcome);
    else this.answerFailed(live, underWay, outcome, nowMs);
    this.wake(live, group);
    // What failed is not tried again at once.
    if (outcome.ok) this.step(live, nowMs);
    this.forgetIdle(live);
    return this.takeEffects();
  }

  /** From the ticker: sessions, waits and pauses end by themselves. */
  expire(nowMs: MonotonicMs): Effects {
    const stallMs = nowMs - this.expiredMs;
    this.expiredMs = nowMs;
    let plans = PLANS_PER_TICK;
    for (const live of Array.from(this.live.values())) {
      if (stallMs > STALL_MS) extend(live, stallMs);
      if (live.nextDueMs > nowMs) {
        if (!live.stale || plans === 0) continue;
        plans -= 1;
      }
      const group = this.durable.groups.get(live.groupId);
      for (const [memberId, parked] of Array.from(live.parked)) {
        if (parked.untilMs > nowMs) continue;
        live.parked.delete(memberId);
        this.tell(parked.token, live, group, memberId);
      }
      this.step(live, nowMs);
      live.nextDueMs = live.soonest();
      this.forgetIdle(live);
    }
    return this.takeEffects();
  }

  /**
   * No more records come out of here: another coordinator takes over, or the node stops. Requests are refused with `why`, except
   * those whose record is under way: its outcome answers them.
   */
  stop(why: GroupFailure): Effects {
    this.stopped = true;
    for (const live of this.live.values()) {
      const tokens = [
        ...live.waiters.splice(0).map(({ token }) => token),
        ...live.deletions.splice(0),
        ...Array.from(live.parked.values(), ({ token }) => token),
      ];
      live.parked.clear();
      if (live.replay !== undefined && live.replay.stage !== 'resetting') {
        tokens.push(live.replay.token);
        live.replay = undefined;
      }
      for (const token of tokens) this.answer(token, why);
    }
    return this.takeEffects();
  }

  /** Topics were created, deleted, or have more partitions: groups follow with the next ticks. */
  topicsChanged(): void {
    for (const live of this.live.values()) if (live.sessions.size > 0) live.stale = true;
  }

  private join(token: Token, request: JoinRequest, nowMs: MonotonicMs): void {
    const group = this.durable.groups.get(request.groupId);
    const fault = joinFault(request) ?? this.roomFault(group, request.groupId) ?? this.memberRoomFault(group, request);
    if (fault !== undefined) {
      this.answer(token, fault);
      return;
    }
    const live = this.liveOf(request.groupId);
    if (this.endedBy(live, group, request.memberId) || this.departed.has(placeOf(request.groupId, request.memberId))) {
      this.answer(token, this.unknown(live, group, request.memberId));
      this.forgetIdle(live);
      return;
    }
    const session = live.sessions.get(request.memberId);
    if (
      session === undefined &&
      !live.joins.has(request.memberId) &&
      live.joins.size + live.sessions.size >= GROUP_MEMBERS_MAX &&
      request.instanceId === undefined
    ) {
      this.answer(token, { ok: false, code: 'GROUP_FULL', message: undefined });
      return;
    }
    const { memberId, instanceId, clientId, sessionTimeoutMs, rebalanceTimeoutMs } = request;
    const topics = Array.from(new Set(request.topics)).toSorted();
    live.joins.set(memberId, { memberId, instanceId, clientId, sessionTimeoutMs, rebalanceTimeoutMs, topics });
    live.waiters.push({ kind: 'member', token, memberId });
    if (session !== undefined) hear(live, session, sessionTimeoutMs, nowMs);
    this.step(live, nowMs);
  }

  private heartbeat(token: Token, request: HeartbeatRequest, nowMs: MonotonicMs): void {
    const { groupId, memberId, generation } = request;
    const group = this.durable.groups.get(groupId);
    const live = this.live.get(groupId);
    const member = group?.members.get(memberId);
    const session = live?.sessions.get(memberId);
    if (
      group === undefined ||
      live === undefined ||
      member === undefined ||
      session === undefined ||
      this.endedBy(live, group, memberId)
    ) {
      this.answer(token, this.unknown(live, group, memberId));
      return;
    }
    const rest = { ...member, owned: withoutReleased(member, request) };
    if (
      session.revokingSinceMs !== undefined &&
      nowMs - session.revokingSinceMs >= member.rebalanceTimeoutMs &&
      mustRelease(rest)
    ) {
      // Its session is not renewed: its partitions move when it has ended, by when the member has stopped.
      const message = `partitions were not released within ${String(member.rebalanceTimeoutMs)} ms`;
      this.answer(token, { ok: false, code: 'UNKNOWN_MEMBER', message });
      return;
    }
    hear(live, session, member.sessionTimeoutMs, nowMs);
    if (rest.owned !== member.owned) {
      const before = live.releases.get(memberId);
      const released = [...(before?.generation === generation ? before.released : []), ...request.released];
      live.releases.set(memberId, { generation, released });
      live.waiters.push({ kind: 'member', token, memberId });
      this.step(live, nowMs);
      return;
    }
    const waitMs = Math.min(request.waitMs, Math.floor(member.sessionTimeoutMs / HEARTBEATS_PER_SESSION));
    if (generation !== member.generation || waitMs === 0) {
      this.tell(token, live, group, memberId);
      return;
    }
    const parked = live.parked.get(memberId);
    if (parked !== undefined) this.tell(parked.token, live, group, memberId);
    live.parked.set(memberId, { token, generation, untilMs: nowMs + waitMs });
    live.due(nowMs + waitMs);
  }

  private leave(token: Token, { groupId, memberId }: LeaveRequest, nowMs: MonotonicMs): void {
    const live = this.live.get(groupId);
    const isMember = this.durable.groups.get(groupId)?.members.has(memberId) === true;
    const isJoining =
      live !== undefined &&
      (live.joins.delete(memberId) ||
        live.underWay?.waiters.some((waiter) => waiter.kind === 'member' && waiter.memberId === memberId) === true);
    if (live === undefined || (!isMember && !isJoining)) {
      this.answer(token, { ok: true, kind: 'left', left: false });
      return;
    }
    live.leaving.add(memberId);
    live.waiters.push({ kind: 'left', token });
    this.step(live, nowMs);
  }

  private replay(token: Token, request: ReplayRequest, nowMs: MonotonicMs): void {
    const { groupId } = request;
    const group = this.durable.groups.get(groupId);
    if (group === undefined && !this.live.has(groupId)) {
      const fault: GroupFailure | undefined = request.create
        ? this.roomFault(group, groupId)
        : { ok: false, code: 'UNKNOWN_GROUP', message: undefined };
      if (fault !== undefined) {
        this.answer(token, fault);
        return;
      }
    }
    const live = this.liveOf(groupId);
    if (live.replay !== undefined) {
      this.answer(token, { ok: false, code: 'REBALANCE_IN_PROGRESS', message: 'the group is being reset already' });
      return;
    }
    const deadlineMs = nowMs + request.timeoutMs;
    live.replay = { token, request, deadlineMs, stage: 'begin' };
    live.due(deadlineMs);
    this.step(live, nowMs);
    this.forgetIdle(live);
  }

  private remove(token: Token, { groupId }: DeleteRequest, nowMs: MonotonicMs): void {
    const live = this.liveOf(groupId);
    live.deletions.push(token);
    this.step(live, nowMs);
    this.forgetIdle(live);
  }

  /** Makes the next record, if one is needed and none is under way. */
  private step(live: LiveGroup, nowMs: MonotonicMs): void {
    if (live.underWay !== undefined || this.stopped || nowMs < live.holdUntilMs) return;
    const group = this.durable.groups.get(live.groupId);
    if (this.stepReplay(live, group, nowMs) || this.stepDeletions(live, group)) return;
    const ended = Array.from(live.sessions).filter(([, { deadlineMs }]) => deadlineMs <= nowMs);
    const leaving = new Set([...live.leaving, ...ended.map(([id]) => id)]);
    const generation = this.nextGeneration(group);
    const { change, full, leftOut } = planChange(
      group,
      {
        groupId: live.groupId,
        generation,
        joins: Array.from(live.joins.values()).filter(({ memberId }) => !leaving.has(memberId)),
        leaving,
        releases: live.releases,
        paused: live.replay?.stage === 'stopping' || live.replay?.stage === 'resetting',
        replan: live.stale,
        partitionsMax: this.partitionsMax(group),
      },
      this.durable,
    );
    if (leftOut > 0)
      this.notes.push({ event: 'group.partitions-left-out', groupId: live.groupId, detail: String(leftOut) });
    for (const [id] of change === undefined ? [] : ended)
      this.notes.push({ event: 'group.session-ended', groupId: live.groupId, detail: id });
    const { waiters } = live;
    live.waiters = [];
    live.joins.clear();
    live.leaving.clear();
    live.releases.clear();
    live.stale = false;
    const kept = waiters.filter((waiter) => {
      if (waiter.kind !== 'member' || !full.includes(waiter.memberId)) return true;
      this.answer(waiter.token, { ok: false, code: 'GROUP_FULL', message: undefined });
      return false;
    });
    if (change === undefined) {
      for (const waiter of kept) this.answerWaiter(live, waiter, group, { ok: true });
      return;
    }
    this.emit(live, { kind: 'change', groupId: live.groupId, change }, kept, new Set(change.removed));
  }

  /** True: a record is under way, or has to be waited for. */
  private stepReplay(live: LiveGroup, group: GroupState | undefined, nowMs: MonotonicMs): boolean {
    const { replay } = live;
    if (replay === undefined) return false;
    const { token, request } = replay;
    const refuse = (code: ErrorName, message: string | undefined): false => {
      live.replay = undefined;
      // If the group is paused it goes on.
      this.answer(token, { ok: false, code, message });
      return false;
    };
    const members = group?.members.size ?? 0;
    if (group === undefined && !request.create) return refuse('UNKNOWN_GROUP', undefined);
    if (members > 0 && !request.pause)
      return refuse('GROUP_NOT_EMPTY', `the group has ${String(members)} members; stop them, or ask for a pause`);
    if (members > 0 && replay.stage === 'begin') replay.stage = 'stopping';
    const reading = Array.from(group?.members.values() ?? []).some(({ owned }) => owned.size > 0);
    if (reading || (members > 0 && group?.paused !== true)) {
      if (nowMs < replay.deadlineMs) return false;
      return refuse('REBALANCE_IN_PROGRESS', `members did not stop within ${String(request.timeoutMs)} ms`);
    }
    replay.stage = 'resetting';
    const generation = this.nextGeneration(group);
    this.emit(
      live,
      { kind: 'reset', groupId: live.groupId, generation, offsets: request.offsets },
      [{ kind: 'replay', token }],
      new Set(),
    );
    return true;
  }

  private stepDeletions(live: LiveGroup, group: GroupState | undefined): boolean {
    const tokens = live.deletions.splice(0);
    if (tokens.length === 0) return false;
    const refusal: GroupFailure | undefined =
      group === undefined && live.joins.size === 0
        ? { ok: false, code: 'UNKNOWN_GROUP', message: undefined }
        : live.joins.size + (group?.members.size ?? 0) > 0
          ? { ok: false, code: 'GROUP_NOT_EMPTY', message: undefined }
          : undefined;
    if (refusal !== undefined) {
      for (const token of tokens) this.answer(token, refusal);
      return false;
    }
    const waiters = tokens.map((token): Waiter => ({ kind: 'delete', token }));
    this.emit(live, { kind: 'delete', groupId: live.groupId }, waiters, new Set());
    return true;
  }

  private emit(live: LiveGroup, record: GroupRecord, waiters: readonly Waiter[], ending: ReadonlySet<string>): void {
    live.underWay = { record, waiters, ending };
    this.records.push(record);
  }

  private answerApplied(live: LiveGroup, { waiters }: UnderWay, group: GroupState | undefined, outcome: Applied): void {
    for (const waiter of waiters) this.answerWaiter(live, waiter, group, outcome);
  }

  private answerWaiter(live: LiveGroup, waiter: Waiter, group: GroupState | undefined, outcome: Applied): void {
    switch (waiter.kind) {
      case 'member':
        this.tell(waiter.token, live, group, waiter.memberId);
        break;
      case 'left':
        this.answer(waiter.token, { ok: true, kind: 'left', left: true });
        break;
      case 'replay':
        live.replay = undefined;
        this.answer(waiter.token, {
          ok: true,
          kind: 'replayed',
          generation: group?.generation ?? 0,
          before: outcome.before ?? [],
        });
        break;
      case 'delete':
        this.answer(waiter.token, { ok: true, kind: 'deleted', offsets: outcome.offsets ?? 0 });
        break;
    }
  }

  private answerFailed(
    live: LiveGroup,
    { waiters }: UnderWay,
    outcome: Extract<RecordOutcome, { readonly ok: false }>,
    nowMs: MonotonicMs,
  ): void {
    live.holdUntilMs = nowMs + RETRY_MS;
    for (const { token, kind } of waiters) {
      if (kind === 'replay') live.replay = undefined;
      this.answer(token, outcome);
    }
    // What was to be done is tried again by the ticker, where it was not a request's.
    live.stale = true;
  }

  /** Those whose membership is no longer what they know. */
  private wake(live: LiveGroup, group: GroupState | undefined): void {
    for (const [memberId, { token, generation }] of Array.from(live.parked)) {
      if (group?.members.get(memberId)?.generation === generation) continue;
      live.parked.delete(memberId);
      this.tell(token, live, group, memberId);
    }
  }

  private tell(token: Token, live: LiveGroup, group: GroupState | undefined, memberId: string): void {
    const member = group?.members.get(memberId);
    if (group === undefined || member === undefined) this.answer(token, this.unknown(live, group, memberId));
    else this.answer(token, { ok: true, kind: 'membership', memberId, membership: membershipOf(group, member) });
  }

  private unknown(live: LiveGroup | undefined, group: GroupState | undefined, memberId: string): GroupFailure {
    const members = [
      ...(group?.members.values() ?? []),
      ...(live?.underWay?.record.kind === 'change' ? live.underWay.record.change.members : []),
    ];
    const replaced = members.some(({ replaces }) => replaces === memberId);
    return { ok: false, code: replaced ? 'INSTANCE_FENCED' : 'UNKNOWN_MEMBER', message: undefined };
  }

  /** It is on its way out: whether its end can be made durable is not its business. */
  private endedBy(live: LiveGroup, group: GroupState | undefined, memberId: string): boolean {
    if (live.leaving.has(memberId) || live.underWay?.ending.has(memberId) === true) return true;
    return (
      group !== undefined &&
      !group.members.has(memberId) &&
      Array.from(group.members.values()).some(({ replaces }) => replaces === memberId)
    );
  }

  private remember(groupId: string, ids: readonly string[]): void {
    for (const id of ids) this.departed.add(placeOf(groupId, id));
    for (const oldest of this.departed) {
      if (this.departed.size <= DEPARTED_MAX) break;
      this.departed.delete(oldest);
    }
  }

  private roomFault(group: GroupState | undefined, groupId: string): GroupFailure | undefined {
    if (group === undefined && this.durable.groups.size >= GROUPS_MAX && !this.live.has(groupId))
      return { ok: false, code: 'GROUP_LIMIT', message: undefined };
    return undefined;
  }

  private memberRoomFault(group: GroupState | undefined, request: JoinRequest): GroupFailure | undefined {
    if (this.durable.memberCount < MEMBERS_MAX) return undefined;
    const { memberId, instanceId } = request;
    const known = Array.from(group?.members.values() ?? []).some(
      (member) => member.memberId === memberId || (instanceId !== undefined && member.instanceId === instanceId),
    );
    return known ? undefined : { ok: false, code: 'GROUP_LIMIT', message: undefined };
  }
  private partitionsMax(group: GroupState | undefined): number {
    let own = 0;
    for (const { target } of group?.members.values() ?? []) own += countPartitions(target);
    return Math.min(GROUP_PARTITIONS_MAX, Math.max(0, ASSIGNED_PARTITIONS_MAX - this.durable.assignedPartitions) + own);
  }
  private nextGeneration(group: GroupState | undefined): number {
    return (group?.generation ?? this.durable.generationFloor) + 1;
  }
  private liveOf(groupId: string): LiveGroup {
    let live = this.live.get(groupId);
    if (live === undefined) this.live.set(groupId, (live = new LiveGroup(groupId)));
    return live;
  }
  private forgetIdle(live: LiveGroup): void {
    if (live.isIdle) this.live.delete(live.groupId);
  }
  private answer(token: Token, answer: GroupAnswer): void {
    this.answers.push({ token, answer });
  }
  private takeEffects(): Effects {
    const { records, answers, notes } = this;
    this.records = [];
    this.answers = [];
    this.notes = [];
    return { records, answers, notes };
  }
}

function placeOf(groupId: string, memberId: string): string {
  return `${memberId}/${groupId}`;
}

function hear(live: LiveGroup, session: Session, sessionTimeoutMs: number, nowMs: MonotonicMs): void {
  session.heardMs = nowMs;
  session.deadlineMs = Math.max(session.deadlineMs, nowMs + sessionTimeoutMs);
  live.due(session.deadlineMs);
}

function extend(live: LiveGroup, byMs: number): void {
  for (const session of live.sessions.values()) {
    session.deadlineMs += byMs;
    if (session.revokingSinceMs !== undefined) session.revokingSinceMs += byMs;
  }
}

function joinFault(request: JoinRequest): GroupFailure | undefined {
  const no = (message: string): GroupFailure => ({ ok: false, code: 'INVALID_ARGUMENT', message });
  const { groupId, memberId, instanceId, sessionTimeoutMs, rebalanceTimeoutMs, topics } = request;
  if (!isGroupId(groupId)) return no('a group id has 1 to 255 bytes, and no control characters');
  if (!isMemberId(memberId)) return no('a member id has 1 to 128 letters, digits, dots, underscores and dashes');
  if (instanceId !== undefined && !isGroupId(instanceId))
    return no('an instance id has 1 to 255 bytes, and no control characters');
  if (sessionTimeoutMs < SESSION_TIMEOUT_MS_MIN || sessionTimeoutMs > SESSION_TIMEOUT_MS_MAX) {
    return no(
      `a session timeout of ${String(sessionTimeoutMs)} ms, allowed ${String(SESSION_TIMEOUT_MS_MIN)} to ${String(SESSION_TIMEOUT_MS_MAX)}`,
    );
  }
  if (rebalanceTimeoutMs > REBALANCE_TIMEOUT_MS_MAX) {
    return no(`a rebalance timeout of ${String(rebalanceTimeoutMs)} ms, at most ${String(REBALANCE_TIMEOUT_MS_MAX)}`);
  }
  if (topics.length === 0) return no('no topic is named');
  const bad = topics.find((name) => !isTopicName(name));
  if (bad !== undefined) return { ok: false, code: 'INVALID_TOPIC_NAME', message: `"${bad}" is not a topic name` };
  if (topics.reduce((sum, name) => sum + utf8Size(name), 0) > GROUP_TOPICS_BYTES_MAX)
    return no(`the names of the topics have more than ${String(GROUP_TOPICS_BYTES_MAX)} bytes`);
  return undefined;
}
