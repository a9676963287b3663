import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { countPartitions, type PartitionSet } from '../../../src/base/group.ts';
import { assign, type Assignment, type Subscriber, type TopicShape } from '../../../src/core/group/assign.ts';
import { samePartitions } from '../../../src/core/group/partitions.ts';
import { partitionKey, topic } from './world.ts';

const NOTHING: PartitionSet = new Map();
const PARTITIONS_MAX = 1000;

type Shapes = ReadonlyMap<string, TopicShape>;

function shapes(...partitions: number[]): Shapes {
  return new Map(partitions.map((count, index) => [`t${String(index)}`, { topicId: topic(index), partitions: count }]));
}
function member(memberId: string, topics: readonly string[], target: PartitionSet = NOTHING): Subscriber {
  return { memberId, topics, target, owned: new Map() };
}
function share(members: readonly Subscriber[], topics: Shapes): Assignment {
  return assign(members, (name) => topics.get(name), PARTITIONS_MAX);
}
/** As they are once everybody has what is meant for it. */
function settled(members: readonly Subscriber[], { targets }: Assignment): Subscriber[] {
  return members.map((each) => {
    const target = targets.get(each.memberId) ?? NOTHING;
    const owned = new Map(
      Array.from(target, ([id, partitions]) => [id, new Map(Array.from(partitions, (partition) => [partition, 1]))]),
    );
    return { ...each, target, owned };
  });
}
const keys = (target: PartitionSet | undefined): string[] =>
  Array.from(target ?? NOTHING).flatMap(([id, partitions]) =>
    Array.from(partitions, (partition) => partitionKey(id, partition)),
  );
const sizes = ({ targets }: Assignment): number[] => Array.from(targets.values(), countPartitions);
/** Partitions that are with another member than before, the before one being still there. */
function moved(before: Assignment, after: Assignment): number {
  let count = 0;
  for (const [id, target] of before.targets) {
    const now = new Set(keys(after.targets.get(id)));
    if (after.targets.has(id)) count += keys(target).filter((key) => !now.has(key)).length;
  }
  return count;
}

const names = ['t0', 't1', 't2', 't3'];
const someShapes = fc.array(fc.nat(9), { minLength: 4, maxLength: 4 }).map((counts) => shapes(...counts));
const allTopics = fc
  .uniqueArray(fc.integer({ min: 10, max: 40 }), { minLength: 1, maxLength: 9 })
  .map((ids) => ids.map((id) => member(`m${String(id)}`, names)));
const anyTopics = fc
  .uniqueArray(fc.tuple(fc.integer({ min: 10, max: 40 }), fc.subarray(names)), {
    minLength: 1,
    maxLength: 9,
    selector: ([id]) => id,
  })
  .map((list) => list.map(([id, topics]) => member(`m${String(id)}`, topics)));

describe('assign', () => {
  test('every partition that somebody wants has one owner who wants it; the order of members says nothing', () => {
    fc.assert(
      fc.property(anyTopics, someShapes, (members, topics) => {
        const result = share(members, topics);
        const all = members.flatMap(({ memberId }) => keys(result.targets.get(memberId)));
        const wanted = new Set(members.flatMap((each) => each.topics));
        const expected = Array.from(wanted).reduce((sum, name) => sum + (topics.get(name)?.partitions ?? 0), 0);
        expect([all.length, new Set(all).size]).toEqual([expected, expected]);
        for (const each of members) {
          const own = new Set(each.topics.map((name) => topics.get(name)?.topicId));
          for (const id of result.targets.get(each.memberId)?.keys() ?? []) expect(own.has(id)).toBe(true);
        }
        expect(share(members.toReversed(), topics)).toEqual(result);
      }),
    );
  });

  test('who all want the same have the same, give or take one; again the same, nothing moves', () => {
    fc.assert(
      fc.property(allTopics, someShapes, (members, topics) => {
        const result = share(members, topics);
        expect(Math.max(...sizes(result)) - Math.min(...sizes(result))).toBeLessThanOrEqual(1);
        const again = share(settled(members, result), topics);
        for (const [id, target] of result.targets)
          expect(samePartitions(target, again.targets.get(id) ?? NOTHING)).toBe(true);
      }),
    );
  });

  test('one more or one fewer moves only what balance asks for', () => {
    fc.assert(
      fc.property(allTopics, someShapes, fc.nat(8), (members, topics, who) => {
        const before = share(members, topics);
        const joined = share([...settled(members, before), member('m99', names)], topics);
        expect(moved(before, joined)).toBe(countPartitions(joined.targets.get('m99') ?? NOTHING));
        const left = settled(members, before).filter((_, index) => index !== who % members.length);
        expect(moved(before, share(left, topics))).toBe(0);
      }),
    );
  });

  test('who want different topics: no single move makes it more even, and again nothing moves', () => {
    fc.assert(
      fc.property(anyTopics, someShapes, (members, topics) => {
        const result = share(members, topics);
        const load = (id: string): number => countPartitions(result.targets.get(id) ?? NOTHING);
        for (const each of members) {
          for (const name of each.topics) {
            const id = topics.get(name)?.topicId;
            if (id === undefined || !(result.targets.get(each.memberId)?.has(id) ?? false)) continue;
            for (const other of members.filter((one) => one.topics.includes(name)))
              expect(load(each.memberId) - load(other.memberId)).toBeLessThan(2);
          }
        }
        expect(moved(result, share(settled(members, result), topics))).toBe(0);
      }),
    );
  });

  test('what is being read goes back to its reader when nobody else has begun', () => {
    const topics = shapes(4);
    const all = settled([member('a', ['t0'])], share([member('a', ['t0'])], topics));
    const two = share([...all, member('b', ['t0'])], topics);
    // b is gone before a has released anything: a, not c, gets back what it still reads, up to its share.
    const [a] = all.map((each) => ({ ...each, target: two.targets.get('a') ?? NOTHING }));
    const after = share([a ?? member('a', []), member('c', ['t0'])], topics);
    expect(keys(after.targets.get('a'))).toEqual(keys(two.targets.get('a')));
  });

  test('partitions beyond the limit are left out and counted', () => {
    const result = assign([member('a', ['t0', 't1'])], (name) => shapes(6, 7).get(name), 10);
    expect([sizes(result), result.leftOut]).toEqual([[10], 3]);
  });
});
