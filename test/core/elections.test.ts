import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leaderEpoch, nodeId, topicId, type NodeId } from '../../src/base/brands.ts';
import { apply } from '../../src/core/metadata/apply.ts';
import {
  changesForBalance,
  changesForLiveness,
  chooseByLogEnd,
  recoveredChange,
  undecided,
  type LiveNodes,
  type LogEnd,
} from '../../src/core/metadata/elections.ts';
import type { PartitionChange } from '../../src/core/metadata/entry.ts';
import { emptyImage, NO_LEADER, type MetadataImage, type PartitionState } from '../../src/core/metadata/image.ts';

const ids = (...numbers: readonly number[]): NodeId[] => numbers.map((each) => nodeId(each));
const TOPIC = topicId('ab'.padStart(32, '0'));

/** a: alive · d: alive, and is not to lead · s: says nothing yet · g: gone. */
type Standing = 'a' | 'd' | 's' | 'g';
function live(standings: string): LiveNodes {
  const of = (node: NodeId): string => standings[node - 1] ?? 'g';
  return {
    isAlive: (node) => 'ad'.includes(of(node)),
    isGone: (node) => of(node) === 'g',
    mayLead: (node) => 'as'.includes(of(node)),
  };
}

type Given = Partial<Pick<PartitionState, 'eligible' | 'blank'>> & {
  readonly leader: number;
  readonly replicas: readonly number[];
  readonly inSync: readonly number[];
};
function stateOf({ leader, replicas, inSync, eligible, blank }: Given): PartitionState {
  return {
    leader,
    leaderEpoch: leaderEpoch(4),
    version: 7,
    replicas: ids(...replicas),
    inSync: ids(...inSync),
    ...(eligible === undefined || eligible.length === 0 ? {} : { eligible }),
    ...(blank === undefined || blank.length === 0 ? {} : { blank }),
  };
}
function imageOf(states: readonly Given[], minInsync = 2): MetadataImage {
  const image = emptyImage();
  const config = new Map([['min.insync.replicas', String(minInsync)]]);
  image.topics.set(TOPIC, { topicId: TOPIC, name: 'orders', config, partitions: states.map(stateOf) });
  image.topicIds.set('orders', TOPIC);
  return image;
}
function decided(given: Given, standings: string): Pick<PartitionChange, 'leader' | 'inSync'> | undefined {
  const [change] = changesForLiveness(imageOf([given]).topics.values(), live(standings), 10);
  if (change !== undefined) expect(change).toMatchObject({ topicId: TOPIC, partition: 0, expectedVersion: 7 });
  return change === undefined ? undefined : { leader: change.leader, inSync: change.inSync };
}

const ALL: Given = { leader: 1, replicas: [1, 2, 3], inSync: [1, 2, 3] };

describe('changesForLiveness', () => {
  test.each<[string, Given, string, { leader: number; inSync: number[] } | undefined]>([
    ['nothing while all are alive', ALL, 'aaa', undefined],
    ['nothing while some have not said anything yet', ALL, 'sas', undefined],
    ['a follower that is gone leaves the set', ALL, 'aag', { leader: 1, inSync: [1, 2] }],
    ['a leader that is gone is replaced by the next in sync', ALL, 'gaa', { leader: 2, inSync: [2, 3] }],
    ['not by one out of sync', { ...ALL, inSync: [1, 3] }, 'gaa', { leader: 3, inSync: [3] }],
    ['not by one that has not said anything', ALL, 'gsa', { leader: 3, inSync: [2, 3] }],
    ['not by one whose disk hangs', ALL, 'gda', { leader: 3, inSync: [2, 3] }],
    ['but better by that one than by nobody', { ...ALL, inSync: [1, 2] }, 'gda', { leader: 2, inSync: [2] }],
    ['one that wants to stop hands over and stays in sync', ALL, 'daa', { leader: 2, inSync: [1, 2, 3] }],
    ['and leads on while there is nobody else', { ...ALL, inSync: [1, 2] }, 'dda', undefined],
    ['nobody who has all: no leader, and the set stays', { ...ALL, inSync: [1] }, 'gaa', { leader: -1, inSync: [1] }],
    ['and waits like that', { ...ALL, leader: -1, inSync: [1] }, 'gaa', undefined],
    ['until that one is back', { ...ALL, leader: -1, inSync: [1] }, 'aaa', { leader: 1, inSync: [1] }],
    [
      'who left the set while it was below the minimum has all too',
      { ...ALL, inSync: [1], eligible: ids(3) },
      'gaa',
      { leader: 3, inSync: [3] },
    ],
    ['a single replica keeps its place', { leader: 1, replicas: [1], inSync: [1] }, 'gaa', undefined],
  ])('%s', (_, given, standings, expected) => {
    expect(decided(given, standings)).toEqual(expected);
  });

  test('at most as many as asked for, and in any state: what comes out is safe, is accepted, and settles it', () => {
    const subset = (nodes: readonly number[]): fc.Arbitrary<number[]> => fc.subarray([...nodes]);
    // A single replica is never out of sync.
    const given = fc.shuffledSubarray([1, 2, 3, 4, 5], { minLength: 1 }).chain((replicas) =>
      (replicas.length === 1 ? fc.constant(replicas) : subset(replicas)).chain((inSync) =>
        fc
          .record({
            leader: fc.constantFrom(NO_LEADER, ...inSync),
            eligible: subset(replicas.filter((each) => !inSync.includes(each))),
          })
          .map(({ leader, eligible }): Given => ({ leader, replicas, inSync, eligible: ids(...eligible) })),
      ),
    );
    const standings = fc.array(fc.constantFrom<Standing>('a', 'd', 's', 'g'), { minLength: 5, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(given, { maxLength: 4 }), standings, fc.nat(5), (states, each, max) => {
        const image = imageOf(states);
        const nodes = live(each.join(''));
        expect(changesForLiveness(image.topics.values(), nodes, max).length).toBeLessThanOrEqual(max);
        for (const change of changesForLiveness(image.topics.values(), nodes, states.length)) {
          const before = states[change.partition];
          const hadAll = [...(before?.inSync ?? []), ...(before?.eligible ?? [])];
          expect(change.inSync.every((node) => hadAll.includes(node))).toBe(true);
          if (change.leader !== NO_LEADER) {
            expect(change.inSync.some((node) => node !== change.leader && nodes.isGone(node))).toBe(false);
            if (change.leader !== before?.leader) expect(nodes.isAlive(nodeId(change.leader))).toBe(true);
          }
          expect(apply(image, 0, change).outcome.ok).toBe(true);
        }
        expect(changesForLiveness(image.topics.values(), nodes, states.length)).toEqual([]);
      }),
    );
  });
});

describe('changesForBalance', () => {
  const away: Given = { ...ALL, leader: 2 };
  test('leadership goes back to the first replica once it is in sync, answers, and may lead', () => {
    const at = (given: Given, standings: string): PartitionChange[] =>
      changesForBalance(imageOf([given]).topics.values(), live(standings), 10);
    expect(at(away, 'aaa')).toMatchObject([{ leader: 1, inSync: [1, 2, 3], expectedVersion: 7 }]);
    expect(at({ ...away, inSync: [2, 3] }, 'aaa')).toEqual([]);
    for (const standings of ['daa', 'saa', 'gaa']) expect(at(away, standings)).toEqual([]);
    expect(at(ALL, 'aaa')).toEqual([]);
    expect(at({ ...away, leader: NO_LEADER }, 'aaa')).toEqual([]);
  });
  test('at most as many as asked for', () => {
    const image = imageOf(Array.from({ length: 9 }, () => away));
    expect(changesForBalance(image.topics.values(), live('aaa'), 4)).toHaveLength(4);
  });
});

describe('undecided and chooseByLogEnd', () => {
  const lost: Given = { leader: NO_LEADER, replicas: [1, 2, 3], inSync: [] };
  const end = (node: number, lastEpoch: number, logEnd: number, damaged = false): LogEnd => ({
    nodeId: nodeId(node),
    lastEpoch,
    logEnd,
    damaged,
  });

  test('only partitions of which nobody is known to have all', () => {
    const states = [lost, ALL, { ...lost, inSync: [2] }, { ...lost, eligible: ids(2) }, lost];
    expect(undecided(imageOf(states).topics.values(), 10).map(({ partition }) => partition)).toEqual([0, 4]);
    expect(undecided(imageOf(states).topics.values(), 1)).toHaveLength(1);
  });

  test('the later epoch counts more than the longer log; too few, damaged, new and foreign ones do not count', () => {
    const [two] = undecided(imageOf([{ ...lost, blank: ids(3) }]).topics.values(), 10);
    if (two === undefined) throw new Error('it is undecided');
    expect(chooseByLogEnd(two, [end(1, 3, 10)])).toBeUndefined();
    expect(chooseByLogEnd(two, [end(1, 3, 10), end(1, 3, 10)])).toBeUndefined();
    expect(chooseByLogEnd(two, [end(1, 3, 10), end(2, 4, 5, true)])).toBeUndefined();
    expect(chooseByLogEnd(two, [end(1, 3, 10), end(3, 4, 50)])).toBeUndefined();
    expect(chooseByLogEnd(two, [end(1, 3, 10), end(9, 4, 50)])).toBeUndefined();
    expect(chooseByLogEnd(two, [end(1, 3, 10), end(2, 4, 5), end(3, 9, 90)])).toBe(2);
    expect(recoveredChange(two, nodeId(2))).toMatchObject({ leader: 2, inSync: [2], expectedVersion: 7 });
  });

  test('whatever was on min.insync.replicas disks is on the one that is chosen, whoever answers', () => {
    const scenario = fc.record({
      minInsync: fc.integer({ min: 1, max: 5 }),
      committed: fc.integer({ min: 1, max: 100 }),
      holders: fc.shuffledSubarray([1, 2, 3, 4, 5], { minLength: 5 }),
      extra: fc.array(fc.nat(20), { minLength: 5, maxLength: 5 }),
      missing: fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 5, maxLength: 5 }),
      answers: fc.shuffledSubarray([1, 2, 3, 4, 5]),
    });
    fc.assert(
      fc.property(scenario, ({ minInsync, committed, holders, extra, missing, answers }) => {
        const state = { leader: NO_LEADER, replicas: [1, 2, 3, 4, 5], inSync: [] };
        const [candidate] = undecided(imageOf([state], minInsync).topics.values(), 1);
        if (candidate === undefined) throw new Error('it is undecided');
        const ends = new Map(
          holders.map((node, at) => {
            const length = at < minInsync ? committed + (extra[at] ?? 0) : Math.max(0, committed - (missing[at] ?? 1));
            return [node, end(node, 4, length)];
          }),
        );
        const chosen = chooseByLogEnd(
          candidate,
          answers.flatMap((node) => ends.get(node) ?? []),
        );
        expect(chosen === undefined).toBe(answers.length < 5 - minInsync + 1);
        if (chosen !== undefined) expect(ends.get(chosen)?.logEnd).toBeGreaterThanOrEqual(committed);
      }),
    );
  });
});
