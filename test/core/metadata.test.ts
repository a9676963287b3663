import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leaderEpoch, nodeId, offset, timestampMs, topicId } from '../../src/base/brands.ts';
import type { GroupMember } from '../../src/base/group.ts';
import { ASSIGNED_PARTITIONS_MAX, COMMITTED_OFFSETS_MAX, MEMBERS_MAX } from '../../src/base/limits.ts';
import { apply, type Applied } from '../../src/core/metadata/apply.ts';
import { decodeEntry, encodeEntry, type MetadataEntry } from '../../src/core/metadata/entry.ts';
import { emptyImage, PRODUCER_EPOCH_MAX, topicByName, type MetadataImage } from '../../src/core/metadata/image.ts';
import { imageFromRows, imageRows } from '../../src/core/metadata/rows.ts';

const id = (number: number): ReturnType<typeof topicId> => topicId(number.toString(16).padStart(32, '0'));
const disk = (number: number): string => number.toString(16).padStart(32, 'd');
const nodes = (...numbers: number[]): ReturnType<typeof nodeId>[] => numbers.map((each) => nodeId(each));

const member = (memberId: string, given: Partial<GroupMember> = {}): GroupMember => ({
  memberId,
  instanceId: undefined,
  replaces: undefined,
  clientId: 'app',
  sessionTimeoutMs: 30_000,
  rebalanceTimeoutMs: 60_000,
  topics: ['orders'],
  generation: 0,
  target: new Map(),
  owned: new Map(),
  ...given,
});
const owns = (topic: number, partition: number, since: number): Pick<GroupMember, 'target' | 'owned'> => ({
  target: new Map([[id(topic), new Set([partition])]]),
  owned: new Map([[id(topic), new Map([[partition, since]])]]),
});
const place = (topic: number, partition: number, at: number, epoch = 0, metadata = ''): Place => ({
  topicId: id(topic),
  partition,
  offset: offset(at),
  leaderEpoch: leaderEpoch(epoch),
  metadata,
});
type Place = Extract<MetadataEntry, { kind: 'OffsetsReset' }>['offsets'][number];

/** One of each form; their bytes are kept in test/golden/metadata and never change. */
const SAMPLES: Readonly<Record<string, MetadataEntry>> = {
  'register-node': {
    kind: 'RegisterNode',
    nodeId: nodeId(1),
    diskId: disk(1),
    incarnation: 3,
    clean: false,
    host: 'edge-1.local',
    port: 9400,
  },
  'register-node-no-address': { kind: 'RegisterNode', nodeId: nodeId(2), diskId: disk(2), incarnation: 1, clean: true },
  'create-topic': {
    kind: 'CreateTopic',
    topicId: id(0xab),
    name: 'orders',
    assignment: [nodes(1, 2, 3), nodes(2, 3, 1)],
    config: [{ key: 'retention.ms', value: '60000' }],
  },
  'alter-topic': {
    kind: 'AlterTopic',
    topicId: id(0xab),
    config: [
      { key: 'retention.ms', value: undefined },
      { key: 'segment.bytes', value: '4096' },
    ],
    expectedPartitions: 2,
    added: [nodes(3, 1, 2)],
  },
  'delete-topic': { kind: 'DeleteTopic', topicId: id(0xab) },
  'partition-change': {
    kind: 'PartitionChange',
    topicId: id(0xab),
    partition: 1,
    expectedVersion: 7,
    leader: 2,
    inSync: nodes(2, 3),
  },
  'partition-change-no-leader': {
    kind: 'PartitionChange',
    topicId: id(0xab),
    partition: 0,
    expectedVersion: 0,
    leader: -1,
    inSync: [],
  },
  'group-generation': {
    kind: 'GroupGeneration',
    groupId: 'Kasse/1',
    generation: 7,
    paused: true,
    removed: ['gone'],
    members: [
      member('m-1', { generation: 7, instanceId: 'till 3', replaces: 'm-0', ...owns(0xab, 1, 5) }),
      member('m-2', { generation: 7, topics: [] }),
    ],
  },
  'offsets-committed': {
    kind: 'OffsetsCommitted',
    at: timestampMs(1_700_000_000_000),
    commits: [
      { groupId: 'g', memberId: 'm-1', generation: 7, offsets: [place(0xab, 1, 42, 3, 'ä'), place(0xab, 2, 0, -1)] },
      { groupId: 'h', memberId: 'm-9', generation: 0, offsets: [place(0xac, 0, 1)] },
    ],
  },
  'offsets-reset': {
    kind: 'OffsetsReset',
    groupId: 'g',
    generation: 8,
    at: timestampMs(1_700_000_000_000),
    offsets: [place(0xab, 0, 5)],
  },
  'group-deleted': { kind: 'GroupDeleted', groupId: 'g' },
  'init-producer': { kind: 'InitProducer', name: undefined },
  'init-producer-named': { kind: 'InitProducer', name: 'Zähler/1' },
};

describe('encodeEntry and decodeEntry', () => {
  test('the bytes of every form are those that were written first', () => {
    const golden = JSON.parse(
      readFileSync(new URL('../golden/metadata/entries.v1.json', import.meta.url), 'utf8'),
    ) as Record<string, string>;
    expect(Object.keys(golden).toSorted()).toEqual(Object.keys(SAMPLES).toSorted());
    for (const [name, entry] of Object.entries(SAMPLES)) {
      expect([name, Buffer.from(encodeEntry(entry)).toString('hex')]).toEqual([name, golden[name]]);
      expect(decodeEntry(Buffer.from(golden[name] ?? '', 'hex'))).toEqual({ ok: true, entry });
    }
  });

  test('unknown kinds and versions are newer, every cut and every tail is damage, nothing throws', () => {
    for (const entry of Object.values(SAMPLES)) {
      const bytes = encodeEntry(entry);
      expect(decodeEntry(Uint8Array.from([99, ...bytes.subarray(1)]))).toMatchObject({ ok: false, why: 'newer' });
      expect(decodeEntry(Uint8Array.from([bytes[0] ?? 0, 2, ...bytes.subarray(2)]))).toMatchObject({
        ok: false,
        why: 'newer',
      });
      for (let size = 0; size < bytes.length; size += 1)
        expect(decodeEntry(bytes.subarray(0, size))).toMatchObject({ ok: false, why: 'damaged' });
      expect(decodeEntry(Uint8Array.from([...bytes, 0]))).toMatchObject({ ok: false, why: 'damaged' });
    }
    fc.assert(fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => typeof decodeEntry(bytes).ok === 'boolean'));
  });
});

const someTopic = fc.integer({ min: 1, max: 4 }).map(id);
const someNodes = fc
  .uniqueArray(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3 })
  .map((each) => nodes(...each));
const someEntry: fc.Arbitrary<MetadataEntry> = fc.oneof(
  fc.record({
    kind: fc.constant('RegisterNode' as const),
    nodeId: fc.integer({ min: 1, max: 3 }).map(nodeId),
    diskId: fc.integer({ min: 1, max: 2 }).map(disk),
    incarnation: fc.nat(5),
    clean: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('CreateTopic' as const),
    topicId: someTopic,
    name: fc.constantFrom('a', 'b', 'c', '..'),
    assignment: fc.array(someNodes, { maxLength: 3 }),
    config: fc.constantFrom([], [{ key: 'retention.ms', value: '5' }]),
  }),
  fc.record({
    kind: fc.constant('AlterTopic' as const),
    topicId: someTopic,
    config: fc.constantFrom([], [{ key: 'retention.ms', value: undefined }], [{ key: 'segment.bytes', value: '9' }]),
    expectedPartitions: fc.nat(3),
    added: fc.array(someNodes, { maxLength: 2 }),
  }),
  fc.record({ kind: fc.constant('DeleteTopic' as const), topicId: someTopic }),
  fc.record({
    kind: fc.constant('PartitionChange' as const),
    topicId: someTopic,
    partition: fc.nat(2),
    expectedVersion: fc.nat(3),
    leader: fc.integer({ min: -1, max: 3 }),
    inSync: someNodes,
  }),
  fc.record({
    kind: fc.constant('GroupGeneration' as const),
    groupId: fc.constantFrom('g', 'h/1', ''),
    generation: fc.integer({ min: 1, max: 5 }),
    paused: fc.boolean(),
    removed: fc.subarray(['m-1', 'm-2']),
    members: fc.subarray([member('m-1', owns(1, 0, 1)), member('m-2', owns(1, 1, 1)), member('m-3', owns(2, 0, 2))]),
  }),
  fc.record({
    kind: fc.constant('OffsetsCommitted' as const),
    at: fc.nat(9).map(timestampMs),
    commits: fc.array(
      fc.record({
        groupId: fc.constantFrom('g', 'h/1'),
        memberId: fc.constantFrom('m-1', 'm-2', 'm-3'),
        generation: fc.nat(3),
        offsets: fc.array(
          fc.tuple(fc.integer({ min: 1, max: 3 }), fc.nat(2), fc.nat(5)).map((where) => place(...where)),
          { maxLength: 3 },
        ),
      }),
      { maxLength: 2 },
    ),
  }),
  fc.record({
    kind: fc.constant('OffsetsReset' as const),
    groupId: fc.constantFrom('g', 'h/1'),
    generation: fc.integer({ min: 1, max: 5 }),
    at: fc.nat(9).map(timestampMs),
    offsets: fc.array(
      fc.tuple(fc.integer({ min: 1, max: 3 }), fc.nat(1), fc.nat(5)).map((where) => place(...where)),
      {
        maxLength: 3,
      },
    ),
  }),
  fc.record({ kind: fc.constant('GroupDeleted' as const), groupId: fc.constantFrom('g', 'h/1') }),
  fc.record({ kind: fc.constant('InitProducer' as const), name: fc.constantFrom(undefined, 'p', 'q') }),
);

function rows(image: MetadataImage): [string, string][] {
  return [...imageRows(image)]
    .map(([key, value]): [string, string] => [key, [...value].join(' ')])
    .toSorted(([left], [right]) => (left < right ? -1 : 1));
}

/** They are not rows, and decide about limits. */
const counts = (image: MetadataImage): number[] => [image.offsetCount, image.memberCount, image.assignedPartitions];

describe('apply', () => {
  test('a snapshot and the tail give what all entries give; the changed rows lead from one image to the next', () => {
    fc.assert(
      fc.property(fc.array(someEntry, { maxLength: 60 }), fc.nat(60), (entries, cut) => {
        const all = emptyImage();
        const store = imageRows(emptyImage());
        let snapshot = new Map(store);
        for (const [index, entry] of entries.entries()) {
          if (index === cut) snapshot = imageRows(all);
          const before = rows(all);
          const { outcome, changes } = apply(all, index, entry);
          if (!outcome.ok) expect(rows(all)).toEqual(before);
          for (const { key, value } of changes) {
            if (value === undefined) store.delete(key);
            else store.set(key, value);
          }
          expect(new Map(store)).toEqual(imageRows(all));
        }
        const restored = imageFromRows(snapshot);
        if (!restored.ok) throw new Error(restored.reason);
        for (const [index, entry] of entries.entries())
          if (index >= cut && cut < entries.length) apply(restored.image, index, entry);
        if (cut < entries.length) {
          expect(rows(restored.image)).toEqual(rows(all));
          expect(counts(restored.image)).toEqual(counts(all));
        }
      }),
      { numRuns: 200 },
    );
  });

  function with1(): { readonly image: MetadataImage; readonly say: (entry: MetadataEntry) => Applied } {
    const image = emptyImage();
    let index = -1;
    const say = (entry: MetadataEntry): Applied => apply(image, (index += 1), entry);
    say({ kind: 'RegisterNode', nodeId: nodeId(1), diskId: disk(1), incarnation: 1, clean: true });
    say({ kind: 'CreateTopic', topicId: id(1), name: 'orders', assignment: [nodes(1), nodes(2, 1)], config: [] });
    return { image, say };
  }
  const epochs = (image: MetadataImage): number[] =>
    topicByName(image, 'orders')?.partitions.map((partition) => partition.leaderEpoch) ?? [];

  test('RegisterNode: only an unclean later start, or another disk, bumps the epochs of what that node leads', () => {
    const { image, say } = with1();
    const register = (incarnation: number, clean: boolean, diskNumber = 1): Applied =>
      say({ kind: 'RegisterNode', nodeId: nodeId(1), diskId: disk(diskNumber), incarnation, clean });
    register(1, false);
    register(2, true);
    expect(epochs(image)).toEqual([0, 0]);
    expect(register(3, false).topics).toEqual([id(1)]);
    expect(epochs(image)).toEqual([1, 0]);
    expect(register(2, true).outcome).toMatchObject({ ok: false, code: 'INVALID_ARGUMENT' });
    register(1, true, 2);
    expect(epochs(image)).toEqual([2, 0]);
  });

  test('PartitionChange is refused unless the version is the one it was decided on; another leader begins an epoch', () => {
    const { image, say } = with1();
    const change = (expectedVersion: number, leader: number, inSync: number[]): Applied['outcome'] =>
      say({ kind: 'PartitionChange', topicId: id(1), partition: 1, expectedVersion, leader, inSync: nodes(...inSync) })
        .outcome;
    expect(change(0, 2, [2])).toMatchObject({ ok: true, value: { version: 1, leaderEpoch: 0 } });
    expect(change(0, 1, [1])).toMatchObject({ ok: false, code: 'FENCED_LEADER_EPOCH' });
    expect(change(1, 1, [2])).toMatchObject({ ok: false, code: 'INVALID_ARGUMENT' });
    expect(change(1, 1, [1, 3])).toMatchObject({ ok: false, code: 'INVALID_ARGUMENT' });
    expect(change(1, 1, [1, 2])).toMatchObject({ ok: true, value: { version: 2, leaderEpoch: 1 } });
    expect(epochs(image)).toEqual([0, 1]);
  });

  test('InitProducer: ids are never given twice, a name keeps its id and fences, used-up epochs get a new id', () => {
    const { image, say } = with1();
    const init = (name?: string): unknown => {
      const { outcome } = say({ kind: 'InitProducer', name });
      return outcome.ok && outcome.value.kind === 'InitProducer'
        ? [outcome.value.producerId, outcome.value.producerEpoch]
        : outcome;
    };
    expect([init(), init('n'), init('n'), init(), init('n')]).toEqual([
      [0, 0],
      [1, 0],
      [1, 1],
      [2, 0],
      [1, 2],
    ]);
    image.producers.set('n', { producerId: 1, epoch: PRODUCER_EPOCH_MAX });
    expect([init('n'), init('n')]).toEqual([
      [3, 0],
      [3, 1],
    ]);
  });

  test('AlterTopic: stale counts are refused, unset settings go; a deleted topic is remembered and its id not reused', () => {
    const { image, say } = with1();
    const alter = {
      kind: 'AlterTopic',
      topicId: id(1),
      config: [{ key: 'a', value: '1' }],
      expectedPartitions: 2,
      added: [nodes(1)],
    } as const;
    expect(say(alter).outcome).toMatchObject({ ok: true, value: { partitions: 3 } });
    expect(say(alter).outcome).toMatchObject({ ok: false, code: 'INVALID_ARGUMENT' });
    say({ ...alter, config: [{ key: 'a', value: undefined }], expectedPartitions: 3, added: [] });
    expect(topicByName(image, 'orders')?.config.size).toBe(0);
    say({ kind: 'DeleteTopic', topicId: id(1) });
    expect(image.deletedTopics.get(id(1))?.partitions).toBe(3);
    expect(
      say({ kind: 'CreateTopic', topicId: id(1), name: 'orders', assignment: [nodes(1)], config: [] }).outcome,
    ).toMatchObject({ ok: false, code: 'INVALID_ARGUMENT' });
    expect(
      say({ kind: 'CreateTopic', topicId: id(2), name: 'orders', assignment: [nodes(1)], config: [] }).outcome,
    ).toMatchObject({ ok: true });
  });
});

describe('imageFromRows', () => {
  test('a missing, unknown, cut or lengthened row is refused', () => {
    const image = emptyImage();
    apply(image, 0, { kind: 'CreateTopic', topicId: id(1), name: 'a', assignment: [nodes(1), nodes(1)], config: [] });
    apply(image, 1, { kind: 'InitProducer', name: 'p' });
    const members = [member('m-1', owns(1, 0, 1))];
    apply(image, 2, { kind: 'GroupGeneration', groupId: 'g', generation: 1, paused: false, removed: [], members });
    const commits = [{ groupId: 'g', memberId: 'm-1', generation: 1, offsets: [place(1, 0, 4)] }];
    apply(image, 3, { kind: 'OffsetsCommitted', at: timestampMs(1), commits });
    expect([image.groups.size, image.offsetCount]).toEqual([1, 1]);
    const good = imageRows(image);
    expect(imageFromRows(good).ok).toBe(true);
    for (const [key, value] of good) {
      if (!key.startsWith('producer/')) {
        const without = new Map(good);
        without.delete(key);
        expect([key, imageFromRows(without).ok]).toEqual([key, false]);
      }
      expect(imageFromRows(new Map(good).set(key, value.subarray(0, value.length - 1))).ok).toBe(false);
      expect(imageFromRows(new Map(good).set(key, Uint8Array.from([...value, 0]))).ok).toBe(false);
    }
    expect(imageFromRows(new Map(good).set('what/1', new Uint8Array([1]))).ok).toBe(false);
  });
});

describe('groups in the image', () => {
  function withGroup(): { readonly image: MetadataImage; readonly say: (entry: MetadataEntry) => Applied['outcome'] } {
    const image = emptyImage();
    let index = -1;
    const say = (entry: MetadataEntry): Applied['outcome'] => apply(image, (index += 1), entry).outcome;
    say({ kind: 'CreateTopic', topicId: id(1), name: 'orders', assignment: [nodes(1), nodes(1)], config: [] });
    say(change(1, [member('a', owns(1, 0, 1)), member('b', owns(1, 1, 1))]));
    return { image, say };
  }
  const change = (
    generation: number,
    members: readonly GroupMember[],
    removed: readonly string[] = [],
  ): MetadataEntry => ({
    kind: 'GroupGeneration',
    groupId: 'g',
    generation,
    paused: false,
    removed,
    members,
  });
  const commit = (memberId: string, generation: number, ...offsets: Place[]): MetadataEntry => ({
    kind: 'OffsetsCommitted',
    at: timestampMs(9),
    commits: [{ groupId: 'g', memberId, generation, offsets }],
  });
  const refusals = (outcome: Applied['outcome']): unknown =>
    outcome.ok && outcome.value.kind === 'OffsetsCommitted' ? outcome.value.refused.map(({ code }) => code) : outcome;
  const committed = (image: MetadataImage, partition: number): number | undefined =>
    image.offsets.get('g')?.get(id(1))?.get(partition)?.offset;

  test('a generation follows the one before, or is refused', () => {
    const { image, say } = withGroup();
    expect(say(change(1, []))).toMatchObject({ ok: false, code: 'STALE_GENERATION' });
    expect(say(change(3, []))).toMatchObject({ ok: false, code: 'STALE_GENERATION' });
    expect(say(change(2, [], ['a']))).toMatchObject({ ok: true });
    expect([...(image.groups.get('g')?.members.keys() ?? [])]).toEqual(['b']);
  });

  test('a commit counts for what the member owns since then, forwards only, and each refusal says why', () => {
    const { image, say } = withGroup();
    expect(refusals(say(commit('a', 1, place(1, 0, 5), place(1, 1, 5), place(1, 2, 5), place(2, 0, 5))))).toEqual([
      'COMMIT_NOT_OWNED',
      'UNKNOWN_PARTITION',
      'UNKNOWN_TOPIC',
    ]);
    expect([committed(image, 0), committed(image, 1)]).toEqual([5, undefined]);
    expect(refusals(say(commit('a', 1, place(1, 0, 4))))).toEqual(['COMMIT_BACKWARDS']);
    expect(refusals(say(commit('a', 1, place(1, 0, 5))))).toEqual([]);
    expect(refusals(say(commit('zombie', 1, place(1, 0, 9))))).toEqual(['UNKNOWN_MEMBER']);
    // The partition goes to b and comes back: what was said before counts no more.
    say(change(2, [member('a'), member('b', owns(1, 0, 2))]));
    expect(refusals(say(commit('a', 1, place(1, 0, 9))))).toEqual(['STALE_GENERATION']);
    expect(refusals(say(commit('a', 2, place(1, 0, 9))))).toEqual(['COMMIT_NOT_OWNED']);
    say(change(3, [member('b'), member('a', owns(1, 0, 3))]));
    expect(refusals(say(commit('a', 2, place(1, 0, 9))))).toEqual(['STALE_GENERATION']);
    expect(refusals(say(commit('a', 3, place(1, 0, 9))))).toEqual([]);
    // Another change that leaves it where it is refuses nothing.
    say(change(4, [member('a', owns(1, 0, 3))]));
    expect(refusals(say(commit('a', 3, place(1, 0, 10))))).toEqual([]);
    expect(committed(image, 0)).toBe(10);
  });

  test('after records were lost, a commit of a higher epoch goes back', () => {
    const { image, say } = withGroup();
    say(commit('a', 1, place(1, 0, 50, 1)));
    expect(refusals(say(commit('a', 1, place(1, 0, 40, 1))))).toEqual(['COMMIT_BACKWARDS']);
    expect(refusals(say(commit('a', 1, place(1, 0, 40, 2))))).toEqual([]);
    expect(committed(image, 0)).toBe(40);
  });

  test('over the limits nothing grows, and everything may still get smaller', () => {
    const { image, say } = withGroup();
    expect(counts(image)).toEqual([0, 2, 2]);
    image.memberCount = MEMBERS_MAX;
    expect(say(change(2, [member('c')]))).toMatchObject({ ok: false, code: 'GROUP_LIMIT' });
    expect(say(change(2, [member('a', owns(1, 0, 1)), member('c')], ['b']))).toMatchObject({ ok: true });
    image.assignedPartitions = ASSIGNED_PARTITIONS_MAX;
    expect(say(change(3, [member('c', owns(1, 1, 3))]))).toMatchObject({ ok: false, code: 'GROUP_LIMIT' });
    expect(say(change(3, [member('a'), member('c', owns(1, 1, 3))]))).toMatchObject({ ok: true });
    image.offsetCount = COMMITTED_OFFSETS_MAX;
    expect(refusals(say(commit('c', 3, place(1, 1, 5))))).toEqual(['GROUP_LIMIT']);
    say(change(4, [], ['a', 'c']));
    expect([image.groups.size, image.memberCount, image.assignedPartitions]).toEqual([
      0,
      MEMBERS_MAX - 2,
      ASSIGNED_PARTITIONS_MAX - 1,
    ]);
  });

  test('a topic that is deleted takes its offsets with it; made anew it has none', () => {
    const { image, say } = withGroup();
    say(commit('a', 1, place(1, 0, 5)));
    say({ kind: 'DeleteTopic', topicId: id(1) });
    expect([image.offsetCount, image.offsets.size, image.groups.size]).toEqual([0, 0, 1]);
    say({ kind: 'CreateTopic', topicId: id(2), name: 'orders', assignment: [nodes(1)], config: [] });
    expect(refusals(say(commit('a', 1, place(1, 0, 6))))).toEqual(['UNKNOWN_TOPIC']);
  });

  test('a reset is all or nothing, only while nobody owns anything; groups with nothing are forgotten, generations are not', () => {
    const { image, say } = withGroup();
    const reset = (generation: number, ...offsets: Place[]): MetadataEntry => ({
      kind: 'OffsetsReset',
      groupId: 'g',
      generation,
      at: timestampMs(9),
      offsets,
    });
    say(commit('a', 1, place(1, 0, 5)));
    expect(say(reset(2, place(1, 0, 1)))).toMatchObject({ ok: false, code: 'GROUP_NOT_EMPTY' });
    expect(say({ kind: 'GroupDeleted', groupId: 'g' })).toMatchObject({ ok: false, code: 'GROUP_NOT_EMPTY' });
    say(change(2, [], ['a', 'b']));
    expect(say(reset(3, place(1, 0, 1), place(1, 7, 1)))).toMatchObject({ ok: false, code: 'UNKNOWN_PARTITION' });
    expect(committed(image, 0)).toBe(5);
    expect(say(reset(3, place(1, 0, 1)))).toMatchObject({ ok: true, value: { generation: 3 } });
    expect(committed(image, 0)).toBe(1);
    expect(say({ kind: 'GroupDeleted', groupId: 'g' })).toMatchObject({ ok: true, value: { offsets: 1 } });
    expect([image.groups.size, image.offsets.size, image.offsetCount, image.generationFloor]).toEqual([0, 0, 0, 3]);
    expect(say(change(1, [member('a')]))).toMatchObject({ ok: false, code: 'STALE_GENERATION' });
    expect(say(change(4, [member('a')]))).toMatchObject({ ok: true });
    say(change(5, [], ['a']));
    expect([image.groups.size, image.generationFloor]).toEqual([0, 5]);
  });
});
