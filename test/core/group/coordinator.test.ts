import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TopicId } from '../../../src/base/brands.ts';
import { groupStateOf } from '../../../src/core/group/membership.ts';
import { effort } from '../../effort.ts';
import { GROUP, keysOf, partitionKey, Process, type Fate, World } from './world.ts';

const RUNS = effort(400, 50);
const PROCESSES = 5;
const PARTITIONS = 7;

/** What a random life of a group must never show. */
class Watch {
  private readonly world: World;
  private readonly processes: readonly Process[];
  /** Who began to read a partition last. */
  private readonly latest = new Map<string, { readonly memberId: string; readonly generation: number }>();
  private readonly generations = new Map<string, string>();
  private generation = 0;

  constructor(world: World, processes: readonly Process[]) {
    this.world = world;
    this.processes = processes;
  }

  look(): void {
    const owners = new Map<string, string>();
    for (const process of this.processes) {
      for (const key of process.reading) {
        const { memberId } = process;
        if (memberId === undefined || !process.owns(key)) continue;
        const other = owners.get(key);
        if (other !== undefined) throw new Error(`${key} is read by ${other} and by ${memberId}`);
        owners.set(key, memberId);
        if (this.latest.get(key)?.memberId !== memberId) {
          if (this.latest.has(key)) this.world.count('handed over');
          this.latest.set(key, { memberId, generation: process.generation });
        }
      }
    }
    this.lookAtGroup();
  }

  private lookAtGroup(): void {
    const group = this.world.image.groups.get(GROUP);
    const generation = group?.generation ?? this.world.image.generationFloor;
    if (generation < this.generation)
      throw new Error(`generation ${String(generation)} after ${String(this.generation)}`);
    this.generation = generation;
    const owned = new Set<string>();
    for (const member of group?.members.values() ?? []) {
      for (const [id, partitions] of member.owned) {
        for (const [partition, since] of partitions) {
          const key = partitionKey(id, partition);
          if (owned.has(key)) throw new Error(`${key} has two owners in the metadata`);
          owned.add(key);
          // One owner for each partition and generation.
          const owner = this.generations.get(`${key} ${String(since)}`);
          if (owner !== undefined && owner !== member.memberId)
            throw new Error(`${key} was given to ${owner} and ${member.memberId} in one generation`);
          this.generations.set(`${key} ${String(since)}`, member.memberId);
        }
      }
    }
  }

  /** Whoever is not the last one that began to read has no say any more. */
  commit(memberId: string, generation: number, id: TopicId, partition: number, at: number): void {
    this.world.commit({ groupId: GROUP, memberId, generation }, id, partition, at, (result) => {
      this.world.count(`commit ${result}`);
      const latest = this.latest.get(partitionKey(id, partition));
      if (result !== 'done' || latest === undefined || latest.memberId === memberId) return;
      // Unless it was given to it after that one, and it has not begun.
      const since = this.world.image.groups.get(GROUP)?.members.get(memberId)?.owned.get(id)?.get(partition) ?? -1;
      if (since <= latest.generation)
        throw new Error(`a commit of ${memberId} counted after ${latest.memberId} had begun`);
    });
  }
}

const WHAT = [
  'work',
  'work',
  'work',
  'work',
  'beat',
  'apply',
  'apply',
  'apply',
  'pass',
  'pass',
  'commit',
  'commit',
  'commit',
  'zombie',
  'join',
  'leave',
  'freeze',
  'thaw',
  'kill',
  'late',
  'fail',
  'restart',
  'sleep',
  'partitions',
  'replay',
] as const;
type Step = { readonly what: string; readonly who: number; readonly fate: Fate; readonly n: number };
const step: fc.Arbitrary<Step> = fc.record({
  what: fc.constantFrom(...WHAT),
  who: fc.nat(PROCESSES - 1),
  fate: fc.constantFrom<Fate>('fine', 'fine', 'fine', 'fine', 'request lost', 'answer lost', 'repeated late'),
  n: fc.nat(9),
});

class Life {
  readonly world = new World();
  readonly topicId: TopicId;
  readonly processes: readonly Process[];
  readonly watch: Watch;
  /** Memberships that are over, or may be. */
  private readonly past: { memberId: string; generation: number }[] = [];
  private partitions = PARTITIONS;
  private committed = 0;

  constructor() {
    this.topicId = this.world.createTopic('orders', PARTITIONS);
    this.processes = Array.from(
      { length: PROCESSES },
      (_, index) =>
        new Process(this.world, `p${String(index)}`, index >= PROCESSES - 2 ? { instanceId: `i${String(index)}` } : {}),
    );
    this.watch = new Watch(this.world, this.processes);
  }

  run(steps: readonly Step[]): void {
    for (const each of steps) {
      const process = this.processes[each.who];
      if (process?.memberId !== undefined)
        this.past.push({ memberId: process.memberId, generation: process.generation });
      if (process !== undefined) this.one(process, each);
      this.watch.look();
    }
  }

  private one(process: Process, { what, fate, n }: Step): void {
    const { world } = this;
    switch (what) {
      case 'work':
        process.work(fate, n * 500);
        break;
      case 'beat':
        process.beat(fate, n * 500);
        break;
      case 'join':
        process.join(fate);
        break;
      case 'leave':
        process.leave(fate);
        break;
      case 'freeze':
        process.frozen = true;
        break;
      case 'thaw':
        process.frozen = false;
        break;
      case 'kill':
        process.kill();
        break;
      case 'apply':
        world.applyNext();
        break;
      case 'fail':
        world.failNext();
        break;
      case 'late':
        world.deliverLate();
        break;
      case 'restart':
        world.restart(n % 2);
        break;
      case 'pass':
        for (let left = n; left >= 0; left -= 1) world.pass(500);
        break;
      case 'sleep':
        // The coordinator itself stood still.
        world.pass(n * 3000);
        break;
      default:
        this.rare(process, what, n);
    }
  }

  private rare(process: Process, what: string, n: number): void {
    const { world } = this;
    switch (what) {
      case 'partitions':
        if (this.partitions < PARTITIONS + 4) {
          this.partitions += 1;
          world.say({
            kind: 'AlterTopic',
            topicId: this.topicId,
            config: [],
            expectedPartitions: this.partitions - 1,
            added: [[...(world.image.topics.get(this.topicId)?.partitions[0]?.replicas ?? [])]],
          });
        }
        break;
      case 'replay':
        world.ask(
          { kind: 'replay', groupId: GROUP, pause: n > 2, create: false, timeoutMs: n * 2000, offsets: [] },
          'fine',
          (answer) => {
            world.count(answer.ok ? 'replayed' : `replay ${answer.code}`);
          },
        );
        break;
      case 'commit':
      case 'zombie': {
        const old = what === 'zombie' ? this.past[(n * 7) % Math.max(1, this.past.length)] : undefined;
        const memberId = old?.memberId ?? process.memberId;
        if (memberId === undefined) break;
        // Mostly what it reads; a zombie anything.
        const own = Array.from(process.reading, (key) => Number(key.split('/')[1]));
        const partition = (old === undefined ? own[n % Math.max(1, own.length)] : undefined) ?? n % PARTITIONS;
        this.committed += 1;
        this.watch.commit(memberId, old?.generation ?? process.generation, this.topicId, partition, this.committed);
        break;
      }
    }
  }

  /** From now on nothing goes wrong: everybody runs, and everything arrives. */
  calm(): void {
    for (const process of this.processes) process.frozen = false;
    for (let round = 0; round < 80; round += 1) {
      for (const process of this.processes) {
        process.work();
        this.world.applyAll();
        this.watch.look();
      }
      this.world.pass(500);
      this.world.applyAll();
    }
  }
}

const total: Record<string, number> = {};

describe('the coordinator', () => {
  test('random lives: never two owners, commits fenced, shares even and steady once all is calm', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 160 }), (steps) => {
        const life = new Life();
        life.run(steps);
        life.calm();
        const group = life.world.image.groups.get(GROUP);
        expect(group === undefined ? 'none' : groupStateOf(group)).toBe('stable');
        const sizes = life.processes.map(({ reading }) => reading.size);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
        const all = life.processes.flatMap(({ reading }) => Array.from(reading));
        expect(new Set(all).size).toBe(life.world.image.topics.get(life.topicId)?.partitions.length);
        expect(all.length).toBe(new Set(all).size);
        // Nothing changes any more.
        const { generation } = group ?? {};
        life.calm();
        expect(life.world.image.groups.get(GROUP)?.generation).toBe(generation);
        for (const [what, count] of Object.entries(life.world.counts)) total[what] = (total[what] ?? 0) + count;
      }),
      { numRuns: RUNS },
    );
    // A quiet run proves nothing.
    const rare = [
      'handed over',
      'released',
      'late',
      'failed',
      'restarts with a record under way',
      'replayed',
      'own session over',
      'UNKNOWN_MEMBER',
      'commit done',
      'commit STALE_GENERATION',
      'commit UNKNOWN_MEMBER',
      'replay REBALANCE_IN_PROGRESS',
    ];
    for (const what of rare) expect([what, (total[what] ?? 0) >= RUNS / 50]).toEqual([what, true]);
  });
});

describe('cases', () => {
  function joined(count: number, partitions: number): { world: World; processes: Process[]; id: TopicId } {
    const world = new World();
    const id = world.createTopic('orders', partitions);
    const processes = Array.from({ length: count }, (_, index) => new Process(world, `p${String(index)}`));
    for (const process of processes) process.work();
    world.applyAll();
    for (let round = 0; round < 8; round += 1) {
      for (const process of processes) process.work();
      world.applyAll();
    }
    return { world, processes, id };
  }
  const sizes = (processes: readonly Process[]): number[] => processes.map(({ reading }) => reading.size);

  test('500 members that join at once need few records, and everyone who can has one partition', () => {
    const world = new World();
    world.createTopic('orders', 400);
    const processes = Array.from({ length: 500 }, (_, index) => new Process(world, `p${String(index)}`));
    for (const process of processes) process.work();
    let records = 0;
    while (world.waiting > 0) {
      world.applyNext();
      records += 1;
    }
    expect(records).toBe(2);
    for (let round = 0; round < 3; round += 1) {
      for (const process of processes) process.work();
      world.applyAll();
    }
    expect(sizes(processes).filter((size) => size === 1)).toHaveLength(400);
    expect(sizes(processes).filter((size) => size === 0)).toHaveLength(100);
  });

  test('a static member that restarts within its session has its partitions at once, and nobody else notices', () => {
    const world = new World();
    world.createTopic('orders', 6);
    const old = new Process(world, 'old', { instanceId: 'till-1' });
    const other = new Process(world, 'other');
    for (let round = 0; round < 6; round += 1) {
      for (const process of [old, other]) process.work();
      world.applyAll();
    }
    const before = Array.from(old.reading).toSorted();
    const generation = other.generation;
    const memberId = old.memberId ?? '';
    old.frozen = true;
    const fresh = new Process(world, 'fresh', { instanceId: 'till-1' });
    fresh.work();
    world.applyAll();
    expect(Array.from(fresh.reading).toSorted()).toEqual(before);
    other.work();
    world.applyAll();
    expect(other.generation).toBe(generation);
    // The older one is told to stop, and says nothing that counts.
    expect(world.commitNow(memberId, generation, world.image.topicIds.get('orders') as TopicId, 0, 5)).toBe(
      'UNKNOWN_MEMBER',
    );
    old.frozen = false;
    old.beat();
    expect([old.memberId, world.counts['INSTANCE_FENCED']]).toEqual([undefined, 1]);
  });

  test('a member that is silent keeps its partitions until its session has ended, and not longer', () => {
    const { world, processes } = joined(2, 4);
    const [silent, other] = processes;
    if (silent === undefined || other === undefined) throw new Error('two members');
    silent.frozen = true;
    for (let passed = 0; passed < 9500; passed += 500) {
      world.pass(500);
      other.work();
      world.applyAll();
      expect(sizes(processes)).toEqual([2, 2]);
    }
    // Whatever else goes on.
    const third = new Process(world, 'third');
    third.work();
    world.applyAll();
    expect([third.reading.size, silent.reading.size]).toEqual([0, 2]);
    for (let passed = 0; passed < 1500; passed += 500) {
      world.pass(500);
      for (const process of [other, third]) process.work();
      world.applyAll();
    }
    expect([other.reading.size + third.reading.size, silent.sessionOver]).toEqual([4, true]);
  });

  test('a release that comes late frees nothing that the member was given since', () => {
    const { world, processes } = joined(1, 2);
    const [first] = processes;
    if (first === undefined) throw new Error('a member');
    const second = new Process(world, 'second');
    const turn = (...active: Process[]): void => {
      for (const process of active) process.work();
      world.applyAll();
    };
    second.work();
    world.applyAll();
    first.beat();
    first.work('repeated late');
    world.applyAll();
    turn(first, second);
    turn(first, second);
    expect(sizes([first, second])).toEqual([1, 1]);
    second.leave();
    world.applyAll();
    turn(first);
    expect(first.reading.size).toBe(2);
    // It is asked for the same partition again, and is still reading it when its old release arrives.
    const third = new Process(world, 'third');
    third.work();
    world.applyAll();
    first.beat();
    expect(first.membership?.state).toBe('revoking');
    world.deliverLate();
    world.applyAll();
    turn(third);
    expect([world.counts['late'], ...sizes([first, third])]).toEqual([1, 2, 0]);
  });

  test('a join that comes late makes no member of one that has served', () => {
    const { world, processes } = joined(1, 4);
    const [other] = processes;
    if (other === undefined) throw new Error('a member');
    const fixed = new Process(world, 'fixed', { instanceId: 'till-1' });
    const turn = (): void => {
      for (const process of [fixed, other]) process.work();
      world.applyAll();
    };
    fixed.join('repeated late');
    world.applyAll();
    fixed.leave('repeated late');
    world.applyAll();
    for (let round = 0; round < 4; round += 1) turn();
    expect(sizes([fixed, other])).toEqual([2, 2]);
    // It would take over from the one that reads now, and its leave would free what is being read.
    fixed.frozen = true;
    for (let count = 0; count < 2; count += 1) {
      world.deliverLate();
      world.applyAll();
      turn();
    }
    expect([world.counts['late'], fixed.sessionOver, ...sizes([fixed, other])]).toEqual([2, false, 2, 2]);
    fixed.frozen = false;
    turn();
    expect(fixed.memberId).toBe('fixed-2');
  });

  test('a commit that is under way while its partition moves counts for nothing', () => {
    const { world, processes, id } = joined(2, 2);
    const [first, second] = processes;
    if (first?.memberId === undefined || second === undefined) throw new Error('two members');
    const { memberId, generation } = first;
    const [key] = first.reading;
    const partition = Number(key?.split('/')[1]);
    const results: string[] = [];
    const commit = (at: number): void => {
      world.commit({ groupId: GROUP, memberId, generation }, id, partition, at, (result) => results.push(result));
    };
    commit(5);
    world.applyAll();
    first.leave();
    // The end of the membership is proposed and not applied: the commit comes behind it.
    commit(6);
    world.applyAll();
    commit(7);
    expect(results).toEqual(['done', 'UNKNOWN_MEMBER', 'UNKNOWN_MEMBER']);
    second.work();
    expect(second.reading.size).toBe(2);
    expect(world.image.offsets.get(GROUP)?.get(id)?.get(partition)?.offset).toBe(5);
  });

  test('a member that does not release within its rebalance timeout is refused, and its partitions move when its session ends', () => {
    const { world, processes } = joined(1, 4);
    const [stubborn] = processes;
    if (stubborn === undefined) throw new Error('a member');
    const other = new Process(world, 'other');
    other.work();
    world.applyAll();
    for (let passed = 0; passed < 14_500; passed += 500) {
      world.pass(500);
      stubborn.beat();
      other.work();
      world.applyAll();
    }
    expect([stubborn.reading.size, other.reading.size]).toEqual([4, 0]);
    world.pass(500);
    stubborn.beat();
    expect(stubborn.memberId).toBeUndefined();
    for (let passed = 0; passed < 9000; passed += 500) {
      world.pass(500);
      other.work();
      world.applyAll();
      expect(other.reading.size).toBe(0);
    }
    for (let passed = 0; passed < 1500; passed += 500) {
      world.pass(500);
      world.applyAll();
      other.work();
    }
    expect(other.reading.size).toBe(4);
  });

  test('a coordinator that slept through the sessions of its members ends none of them', () => {
    const { world, processes } = joined(3, 6);
    const generation = world.image.groups.get(GROUP)?.generation;
    world.pass(60_000);
    for (const process of processes) process.beat();
    world.applyAll();
    expect(world.image.groups.get(GROUP)?.generation).toBe(generation);
  });

  test('heartbeats that wait are answered when something changes, or in time', () => {
    const { world, processes } = joined(1, 2);
    const [first] = processes;
    if (first === undefined) throw new Error('a member');
    first.beat('fine', 60_000);
    const before = first.membership;
    world.pass(500);
    expect(first.membership).toBe(before);
    const second = new Process(world, 'second');
    second.work();
    world.applyAll();
    expect(first.membership?.state).toBe('revoking');
    first.work();
    world.applyAll();
    expect(keysOf(first.membership?.assigned ?? [])).toHaveLength(1);
    second.beat('fine', 60_000);
    world.pass(3000);
    world.pass(500);
    expect(second.membership?.state).toBe('stable');
  });

  test('topics are followed: made later, made wider, deleted', () => {
    const world = new World();
    const process = new Process(world, 'p', { topics: ['later', 'other'] });
    const settle = (): void => {
      world.pass(50);
      world.applyAll();
      process.work();
      world.applyAll();
    };
    settle();
    expect(process.reading.size).toBe(0);
    const id = world.createTopic('later', 2);
    settle();
    expect(process.reading.size).toBe(2);
    world.say({
      kind: 'AlterTopic',
      topicId: id,
      config: [],
      expectedPartitions: 2,
      added: [[]].map(() => [...(world.image.topics.get(id)?.partitions[0]?.replicas ?? [])]),
    });
    // The coordinator that should have followed is gone.
    world.restart(0);
    settle();
    expect(process.reading.size).toBe(3);
    world.say({ kind: 'DeleteTopic', topicId: id });
    settle();
    expect(process.reading.size).toBe(0);
    world.createTopic('later', 1);
    settle();
    expect(process.reading.size).toBe(1);
  });

  test('a replay without members is done at once, with members only by a pause; a pause left behind is lifted', () => {
    const { world, processes } = joined(2, 4);
    const said: string[] = [];
    const replay = (pause: boolean, timeoutMs: number): void => {
      world.ask({ kind: 'replay', groupId: GROUP, pause, create: false, timeoutMs, offsets: [] }, 'fine', (answer) => {
        said.push(answer.ok ? answer.kind : answer.code);
      });
      world.applyAll();
    };
    replay(false, 1000);
    replay(true, 1000);
    for (const process of processes) process.beat();
    expect(processes.map(({ membership }) => membership?.release.length)).toEqual([1, 1]);
    world.pass(500);
    world.pass(500);
    world.applyAll();
    for (const process of processes) process.beat();
    expect(sizes(processes)).toEqual([2, 2]);
    replay(true, 5000);
    for (let round = 0; round < 3; round += 1) {
      for (const process of processes) process.beat();
      for (const process of processes) process.work();
      world.applyAll();
    }
    expect(said).toEqual(['GROUP_NOT_EMPTY', 'REBALANCE_IN_PROGRESS', 'replayed']);
    expect(sizes(processes)).toEqual([2, 2]);
    replay(true, 60_000);
    world.restart(0);
    expect(world.image.groups.get(GROUP)?.paused).toBe(true);
    world.pass(50);
    world.applyAll();
    for (const process of processes) process.beat();
    expect([world.image.groups.get(GROUP)?.paused, ...sizes(processes)]).toEqual([false, 2, 2]);
  });

  test('a group takes as many members as it may have, and a static one that restarts though it is full', () => {
    const world = new World();
    world.createTopic('orders', 1);
    const processes = Array.from(
      { length: 1000 },
      (_, index) => new Process(world, `p${String(index)}`, index === 0 ? { instanceId: 'till-1' } : {}),
    );
    for (const process of processes) process.work();
    world.applyAll();
    expect(world.image.groups.get(GROUP)?.members.size).toBe(1000);
    const said: string[] = [];
    const join = (memberId: string, instanceId?: string): void => {
      world.ask(
        {
          kind: 'join',
          groupId: GROUP,
          memberId,
          instanceId,
          clientId: '',
          sessionTimeoutMs: 10_000,
          rebalanceTimeoutMs: 10_000,
          topics: ['orders'],
        },
        'fine',
        (answer) => said.push(answer.ok ? answer.kind : answer.code),
      );
      world.applyAll();
    };
    join('one-more');
    join('another', 'till-2');
    join('restarted', 'till-1');
    expect(said).toEqual(['GROUP_FULL', 'GROUP_FULL', 'membership']);
    expect(world.image.groups.get(GROUP)?.members.size).toBe(1000);
  });

  test('a group that is left by all is forgotten when nothing was committed, and kept when something was', () => {
    const { world, processes, id } = joined(1, 1);
    const [process] = processes;
    process?.leave();
    world.applyAll();
    expect(world.image.groups.size).toBe(0);
    process?.work();
    world.applyAll();
    expect(world.commitNow(process?.memberId ?? '', process?.generation ?? 0, id, 0, 4)).toBe('done');
    process?.leave();
    world.applyAll();
    expect([world.image.groups.size, world.coordinator.liveGroups]).toEqual([1, 0]);
    const said: unknown[] = [];
    world.ask({ kind: 'delete', groupId: GROUP }, 'fine', (answer) => said.push(answer));
    world.applyAll();
    world.ask({ kind: 'delete', groupId: GROUP }, 'fine', (answer) => said.push(answer));
    expect(said).toEqual([
      { ok: true, kind: 'deleted', offsets: 1 },
      { ok: false, code: 'UNKNOWN_GROUP', message: undefined },
    ]);
    expect(world.image.groups.size).toBe(0);
  });
});
