import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leaderEpoch, nodeId, offset, type NodeId, type Offset } from '../../src/base/brands.ts';
import type { EpochStart } from '../../src/core/partition/divergence.ts';
import {
  beginCatchUp,
  catchUp,
  IN_SYNC_RULES,
  wantedInSync,
  type FollowerState,
} from '../../src/core/partition/in-sync.ts';
import {
  epochBarrier,
  followerWatermark,
  judgeEpoch,
  judgePosition,
  lastEpochOf,
  mayTruncate,
  truncationPoint,
  type LogShape,
} from '../../src/core/partition/replication.ts';
import { highWatermark, leaderWatermark } from '../../src/core/partition/watermark.ts';

/** A log as the epochs of its records, from offset 0 on; what lies below `start` is gone. */
interface ModelLog {
  readonly start: number;
  readonly records: readonly number[];
}
function shapeOf({ start, records }: ModelLog): LogShape {
  const epochs: EpochStart[] = [];
  for (let at = start; at < records.length; at += 1)
    if (epochs.at(-1)?.epoch !== records[at])
      epochs.push({ epoch: leaderEpoch(records[at] ?? -1), startOffset: offset(at) });
  return { logStart: offset(start), logEnd: offset(records.length), epochs };
}
function sharedPrefix(left: readonly number[], right: readonly number[]): number {
  let same = 0;
  while (same < left.length && same < right.length && left[same] === right[same]) same += 1;
  return same;
}

/** Any history of leaders over three replicas: each leader copies some of its log to the others, cutting what diverges there. */
const HISTORY = fc.array(
  fc.record({
    leader: fc.nat(2),
    appended: fc.nat(5),
    copies: fc.array(fc.record({ to: fc.nat(2), count: fc.nat(6) }), { maxLength: 2 }),
  }),
  { minLength: 1, maxLength: 8 },
);
function logsOf(history: readonly { leader: number; appended: number; copies: { to: number; count: number }[] }[]): {
  readonly logs: readonly number[][];
  readonly leader: number;
} {
  const logs: number[][] = [[], [], []];
  for (const [epoch, { leader, appended, copies }] of history.entries()) {
    const own = logs[leader] ?? [];
    for (let rest = appended; rest > 0; rest -= 1) own.push(epoch);
    for (const { to, count } of copies) {
      if (to === leader) continue;
      const log = logs[to] ?? [];
      log.length = sharedPrefix(own, log);
      log.push(...own.slice(log.length, log.length + count));
    }
  }
  return { logs, leader: history.at(-1)?.leader ?? 0 };
}

describe('where logs part', () => {
  test('whatever leaders did, a follower cuts to exactly what it shares, in a few rounds, and never more', () => {
    let rounds = 0;
    fc.assert(
      fc.property(HISTORY, fc.nat(3), fc.nat(3), (history, leaderStart, followerStart) => {
        const { logs, leader } = logsOf(history);
        const records = logs[leader] ?? [];
        const own: ModelLog = { start: Math.min(leaderStart, records.length), records };
        for (const [index, log] of logs.entries()) {
          if (index === leader) continue;
          const shared = sharedPrefix(records, log);
          let follower: ModelLog = { start: Math.min(followerStart, shared), records: log };
          for (let round = 0; ; round += 1) {
            expect(round).toBeLessThanOrEqual(history.length + 1);
            const shape = shapeOf(follower);
            const verdict = judgePosition(shapeOf(own), shape.logEnd, lastEpochOf(shape));
            if (verdict.kind === 'behind') {
              expect(follower.records.length).toBeLessThan(own.start);
              break;
            }
            if (verdict.kind === 'matches') {
              // What the leader does not retain cannot be compared, and is below what counts.
              if (follower.records.length > own.start) expect(follower.records.length).toBe(shared);
              else if (shared < follower.records.length) expect(follower.records.length).toBe(own.start);
              break;
            }
            expect(verdict.kind).toBe('diverged');
            if (verdict.kind !== 'diverged') break;
            const to = truncationPoint(shape, verdict);
            expect(to).toBeLessThan(shape.logEnd);
            expect(to).toBeGreaterThanOrEqual(shared);
            follower = { ...follower, records: follower.records.slice(0, to) };
            rounds += 1;
          }
        }
      }),
      { numRuns: 2000 },
    );
    expect(rounds).toBeGreaterThan(100);
  });

  test('several epochs back: one round for each that only one side knows', () => {
    const leader = shapeOf({ start: 0, records: [0, 0, 0, 2, 2, 5, 5] });
    const records = [0, 0, 0, 1, 1, 3, 3, 4, 4];
    const cuts: number[] = [];
    for (let end = records.length; ;) {
      const shape = shapeOf({ start: 0, records: records.slice(0, end) });
      const verdict = judgePosition(leader, shape.logEnd, lastEpochOf(shape));
      if (verdict.kind !== 'diverged') break;
      end = truncationPoint(shape, verdict);
      cuts.push(end);
    }
    expect(cuts).toEqual([5, 3]);
  });

  test('an empty log matches up to the end, is beyond it after that, and behind below the start', () => {
    const leader = shapeOf({ start: 2, records: [0, 0, 0, 0] });
    expect([1, 2, 4, 5].map((at) => judgePosition(leader, offset(at), -1).kind)).toEqual([
      'behind',
      'matches',
      'matches',
      'beyond',
    ]);
  });

  test('nothing committed or retained is cut', () => {
    expect(mayTruncate(offset(5), offset(0), offset(5))).toBe(true);
    expect(mayTruncate(offset(4), offset(0), offset(5))).toBe(false);
    expect(mayTruncate(offset(4), offset(5), offset(3))).toBe(false);
  });

  test('older epochs are fenced, newer ones not known', () => {
    expect(judgeEpoch(leaderEpoch(5), 5)).toBeUndefined();
    expect(judgeEpoch(leaderEpoch(5), 4)).toBe('FENCED_LEADER_EPOCH');
    expect(judgeEpoch(leaderEpoch(5), -1)).toBe('FENCED_LEADER_EPOCH');
    expect(judgeEpoch(leaderEpoch(5), 6)).toBe('UNKNOWN_LEADER_EPOCH');
  });
});

describe('what is committed', () => {
  test('a follower takes no more than it has written, and never goes back', () => {
    fc.assert(
      fc.property(fc.nat(20), fc.nat(20), fc.nat(20), (before, told, written) => {
        const after = followerWatermark(offset(before), offset(told), offset(written));
        expect(after).toBeGreaterThanOrEqual(before);
        if (after > before) expect(after).toBe(Math.min(told, written));
      }),
    );
  });

  test('the barrier of an epoch is behind the batch that begins it', () => {
    const epochs = [
      { epoch: leaderEpoch(1), startOffset: offset(0) },
      { epoch: leaderEpoch(4), startOffset: offset(10) },
    ];
    expect(epochBarrier(epochs, leaderEpoch(4), offset(15))).toBe(11);
    // All of the epoch was retained away: what is left of it is its place.
    expect(epochBarrier(epochs, leaderEpoch(4), offset(10))).toBe(10);
    // A log without a record begins its epoch with the first one.
    expect(epochBarrier([], leaderEpoch(4), offset(0))).toBe(0);
    expect(epochBarrier(epochs, leaderEpoch(5), offset(15))).toBe(15);
  });

  const member = (written: number, synced: number): { written: Offset; synced: Offset } => ({
    written: offset(written),
    synced: offset(synced),
  });
  test('a leader of several: pending members count for what all have, not for how many there are', () => {
    const members = [member(10, 10), member(9, 9)];
    const ask = (inSyncCount: number, barrier: number): number =>
      leaderWatermark(offset(3), { members, inSyncCount, minInsync: 2, waitsForSync: true, barrier });
    expect(ask(2, 0)).toBe(9);
    expect(ask(1, 0)).toBe(3);
    expect(ask(2, 9)).toBe(9);
    // Below the barrier nothing of the epoch is committed yet, so nothing before it may be said to be.
    expect(ask(2, 10)).toBe(3);
  });

  test('the barrier only ever holds back', () => {
    const progress = fc.array(fc.tuple(fc.nat(30), fc.nat(30)), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.nat(30), progress, fc.nat(4), fc.nat(30), fc.boolean(), (before, pairs, min, barrier, waits) => {
        const members = pairs.map(([one, other]) => member(Math.max(one, other), Math.min(one, other)));
        const next = leaderWatermark(offset(before), {
          members,
          inSyncCount: members.length,
          minInsync: min,
          waitsForSync: waits,
          barrier,
        });
        const free = highWatermark(offset(before), members, min, waits);
        expect(next === free || next === before).toBe(true);
        if (next > before) expect(next).toBeGreaterThanOrEqual(barrier);
      }),
    );
  });
});

describe('who is in sync', () => {
  const NODES: readonly NodeId[] = [nodeId(1), nodeId(2), nodeId(3)];
  const follower = (node: number, change: Partial<FollowerState> = {}): FollowerState => ({
    node: nodeId(node),
    attached: true,
    written: offset(100),
    catchUp: { markEnd: offset(100), markMs: 1000, caughtUpMs: 1000 },
    downMs: 0,
    ...change,
  });
  const wanted = (inSync: readonly number[], followers: readonly FollowerState[], nowMs = 1000): number[] | undefined =>
    wantedInSync({ node: 1, replicas: NODES, inSync: inSync.map(nodeId), mustHave: offset(90), nowMs }, followers)?.map(
      Number,
    );

  test('all near: nothing is to change; who is behind for too long leaves, and comes back when it is near', () => {
    expect(wanted([1, 2, 3], [follower(2), follower(3)])).toBeUndefined();
    const far = follower(3, { catchUp: { markEnd: offset(100), markMs: 200, caughtUpMs: 200 } });
    expect(wanted([1, 2, 3], [follower(2), far], 900)).toBeUndefined();
    expect(wanted([1, 2, 3], [follower(2), far], 901)).toEqual([1, 2]);
    expect(wanted([1, 2], [follower(2), far], 901)).toBeUndefined();
    expect(wanted([1, 2], [follower(2), follower(3)])).toEqual([1, 2, 3]);
  });

  test('who joins is connected, has shown its log in this epoch, and has what is committed', () => {
    expect(wanted([1, 2], [follower(2), follower(3, { attached: false })])).toBeUndefined();
    expect(wanted([1, 2], [follower(2), follower(3, { downMs: 1 })])).toBeUndefined();
    expect(wanted([1, 2], [follower(2), follower(3, { written: offset(89) })])).toBeUndefined();
    expect(wanted([1, 2], [follower(2), follower(3, { written: offset(90) })])).toEqual([1, 2, 3]);
  });

  test('a connection that is down for long takes a member out; the leader never leaves', () => {
    expect(wanted([1, 2, 3], [follower(2), follower(3, { downMs: 199 })])).toBeUndefined();
    expect(wanted([1, 2, 3], [follower(2), follower(3, { downMs: 200 })])).toEqual([1, 2]);
    expect(wanted([1, 2, 3], [follower(2, { downMs: 9999 }), follower(3, { downMs: 9999 })])).toEqual([1]);
  });

  /** A follower that copies so many records a tick, from a leader that appends so many, looked at 20 times a second. */
  function lagAfter(
    ticks: readonly { appended: number; copied: number; stalledMs?: number }[],
    isMember: boolean,
  ): { lagMs: number; written: number; logEnd: number } {
    let logEnd = 0;
    let written = 0;
    let nowMs = 0;
    let state = beginCatchUp(offset(0), 0, isMember);
    for (const { appended, copied, stalledMs = 0 } of ticks) {
      logEnd += appended;
      written = Math.min(logEnd, written + copied);
      nowMs += 50 + stalledMs;
      state = catchUp(state, { written: offset(written), logEnd: offset(logEnd), nowMs, stalledMs });
    }
    return { lagMs: nowMs - state.caughtUpMs, written, logEnd };
  }

  test('a steady delay is no lag; standing still and losing ground are', () => {
    const steady = Array.from({ length: 100 }, () => ({ appended: 10, copied: 10 }));
    expect(lagAfter([{ appended: 30, copied: 0 }, ...steady], true).lagMs).toBeLessThan(IN_SYNC_RULES.lagMsMax);
    const dead = Array.from({ length: 14 }, () => ({ appended: 10, copied: 0 }));
    expect(lagAfter(dead, true).lagMs).toBe(700);
    expect(lagAfter([...dead, ...dead.slice(0, 1)], true).lagMs).toBeGreaterThan(IN_SYNC_RULES.lagMsMax);
    const slow = Array.from({ length: 200 }, () => ({ appended: 10, copied: 7 }));
    expect(lagAfter(slow, true).lagMs).toBeGreaterThan(IN_SYNC_RULES.lagMsMax);
  });

  test('one that comes from far is near once it has reached the end, and not before', () => {
    const behind = { appended: 10, copied: 0 };
    const catching = { appended: 10, copied: 40 };
    const start = Array.from({ length: 30 }, () => behind);
    const some = lagAfter([...start, ...Array.from({ length: 5 }, () => catching)], false);
    expect(some.lagMs).toBeGreaterThan(IN_SYNC_RULES.lagMsMax);
    const all = lagAfter([...start, ...Array.from({ length: 20 }, () => catching)], false);
    expect(all).toMatchObject({ written: all.logEnd });
    expect(all.lagMs).toBe(0);
  });

  test('time in which the leader did not look is nobody else’s lag', () => {
    const quick = [
      { appended: 10, copied: 10 },
      { appended: 10, copied: 5 },
    ];
    const paused = lagAfter([...quick, { appended: 10, copied: 5, stalledMs: 5000 }], true);
    expect(paused.lagMs).toBeLessThan(IN_SYNC_RULES.lagMsMax);
  });

  test('property: what is called near has reached the end as it was no longer ago than that', () => {
    const tick = fc.record({ appended: fc.nat(20), copied: fc.nat(25) });
    fc.assert(
      fc.property(fc.array(tick, { minLength: 1, maxLength: 60 }), fc.boolean(), (ticks, isMember) => {
        const ends: number[] = [0];
        for (const { appended } of ticks) ends.push((ends.at(-1) ?? 0) + appended);
        const { lagMs, written } = lagAfter(ticks, isMember);
        if (!Number.isFinite(lagMs)) {
          expect(isMember).toBe(false);
          return;
        }
        const then = ends[ticks.length - Math.ceil(lagMs / 50)] ?? 0;
        expect(written).toBeGreaterThanOrEqual(then);
      }),
    );
  });
});
