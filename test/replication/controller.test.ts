import { describe, expect, test } from 'vitest';
import { nodeId } from '../../src/base/brands.ts';
import type { PartitionState } from '../../src/core/metadata/image.ts';
import type { EntryOutcome } from '../../src/replication/contract.ts';
import { BALANCE_AFTER_MS, PROPOSALS_MAX } from '../../src/replication/controller.ts';
import { GONE_CONFIRM_MS } from '../../src/replication/node-liveness.ts';
import { SILENCE_MS } from '../../src/replication/node-voices.ts';
import { ControllerWorld, ids, TICK_MS, topicOf } from './controller-world.ts';

/** Partition n is led by node n + 1. */
const SPREAD = [
  [1, 2, 3],
  [2, 3, 1],
  [3, 1, 2],
];
async function running(selfId = 1): Promise<ControllerWorld> {
  const world = new ControllerWorld(selfId);
  world.createTopic(1, SPREAD);
  await world.run(1000);
  expect(world.proposed).toEqual([]);
  return world;
}
function brief(state: PartitionState): Pick<PartitionState, 'leader' | 'leaderEpoch' | 'inSync'> {
  return { leader: state.leader, leaderEpoch: state.leaderEpoch, inSync: state.inSync };
}
function all(world: ControllerWorld): ReturnType<typeof brief>[] {
  return SPREAD.map((_, partition) => brief(world.partition(1, partition)));
}
const state = (leader: number, leaderEpoch: number, ...inSync: number[]): unknown => ({ leader, leaderEpoch, inSync });
const refused = (code: 'TOO_MANY_REQUESTS' | 'LEADERSHIP_LOST'): EntryOutcome => ({ ok: false, code, message: 'no' });

describe('a node that is killed', () => {
  test('once its connection stays closed: its partitions get one other leader each, and it leaves the in-sync sets', async () => {
    const world = await running();
    world.kill(2);
    await world.run(GONE_CONFIRM_MS - TICK_MS);
    expect(world.proposed).toEqual([]);
    await world.run(2 * TICK_MS);
    expect(all(world)).toEqual([state(1, 0, 1, 3), state(3, 1, 3, 1), state(3, 0, 3, 1)]);
    await world.run(10_000);
    expect(world.proposed).toHaveLength(3);
    expect(world.telemetry.events('node.gone').map(({ fields }) => fields['peer'])).toEqual([2]);
  });

  test('a connection that is made again in time was only a hint', async () => {
    const world = await running();
    world.voices.linkChanged(2, false, world.nowMs);
    await world.run(GONE_CONFIRM_MS - TICK_MS);
    world.voices.linkChanged(2, true, world.nowMs);
    await world.run(5000);
    expect(world.proposed).toEqual([]);
  });

  test('whoever answers is not gone, whatever became of the connection to it', async () => {
    const world = await running();
    world.voices.linkChanged(2, false, world.nowMs);
    await world.run(3000);
    expect(world.proposed).toEqual([]);
  });

  test('who has just lost its connection is elected nowhere', async () => {
    const world = await running();
    world.freeze(2);
    await world.run(SILENCE_MS - 200);
    world.voices.linkChanged(3, false, world.nowMs);
    await world.run(400);
    expect(all(world)[1]).toEqual(state(1, 1, 3, 1));
  });

  test('one that starts again at once loses its leaderships, and is elected nowhere until it has registered', async () => {
    const world = await running();
    world.createTopic(2, [[2, 3]], 1);
    world.kill(2);
    await world.run(100);
    world.restart(2);
    await world.run(200);
    expect(all(world).map(({ leader }) => leader)).toEqual([1, 3, 3]);
    // Until it registers nobody knows what it has lost: it keeps its place, and gets nothing.
    expect(all(world).map(({ inSync }) => inSync.length)).toEqual([3, 3, 3]);
    world.kill(3);
    await world.run(GONE_CONFIRM_MS + TICK_MS);
    expect(world.partition(2, 0).leader).toBe(-1);
    world.register(2, 2, false);
    await world.run(200);
    expect(all(world)).toEqual([state(1, 0, 1), state(1, 2, 1), state(1, 1, 1)]);
    expect(brief(world.partition(2, 0))).toMatchObject({ leader: -1 });
  });

  test('another start that never registers: the last one is given up', async () => {
    const world = await running();
    world.kill(2);
    world.restart(2);
    await world.run(GONE_CONFIRM_MS + 200);
    expect(all(world).map(({ inSync }) => inSync.includes(nodeId(2)))).toEqual([false, false, false]);
  });
});

describe('a node that is frozen, or cut off', () => {
  test.each<[string, (world: ControllerWorld) => void]>([
    [
      'frozen',
      (world): void => {
        world.freeze(2);
      },
    ],
    [
      'heard, and hears nothing',
      (world): void => {
        world.other(2).deaf = true;
      },
    ],
  ])('%s: replaced once, when its lease is over, and no other partition notices', async (_, happens) => {
    const world = await running();
    happens(world);
    await world.run(SILENCE_MS - 100);
    expect(world.proposed).toEqual([]);
    await world.run(300);
    const replaced = [state(1, 0, 1, 3), state(3, 1, 3, 1), state(3, 0, 3, 1)];
    expect(all(world)).toEqual(replaced);
    world.other(2).deaf = false;
    world.wake(2);
    await world.run(10_000);
    expect(all(world)).toEqual(replaced);
    expect(world.telemetry.events('node.back')).toHaveLength(1);
  });

  test('nobody else in sync: no leader, and who was in sync leads again when it is back', async () => {
    const world = await running();
    world.change(1, 1, 0, 2, ids(2));
    // At two in-sync replicas of three the watermark stood still without them: they left with all there was, but are gone first.
    world.freeze(3);
    world.freeze(2);
    world.self = { ...world.self, incarnation: 0 };
    await world.run(3000);
    expect(brief(world.partition(1, 1))).toMatchObject({ leader: -1, inSync: [2] });
    world.wake(2);
    await world.run(200);
    expect(brief(world.partition(1, 1))).toMatchObject({ leader: 2, inSync: [2] });
  });

  test('a disk that hangs: others lead, and it stays in sync', async () => {
    const world = await running();
    world.other(2).diskStuck = true;
    await world.run(200);
    expect(all(world)).toEqual([state(1, 0, 1, 2, 3), state(3, 1, 1, 2, 3), state(3, 0, 1, 2, 3)].map(sorted));
    world.self = { ...world.self, diskStuck: true };
    await world.run(200);
    expect(all(world).map(({ leader }) => leader)).toEqual([3, 3, 3]);
  });
});

/** In the order of the replicas. */
function sorted(expected: unknown, partition: number): unknown {
  const inSync = ids(...(SPREAD[partition] ?? []));
  return { ...(expected as PartitionState), inSync };
}

describe('a clean stop', () => {
  test('leaderships move while it still serves; when its connection has closed it is out of the sets at once', async () => {
    const world = await running();
    world.other(2).leaving = true;
    await world.run(200);
    expect(all(world)[1]).toEqual(sorted(state(3, 1), 1));
    expect(world.proposed).toHaveLength(1);
    world.kill(2);
    await world.run(TICK_MS);
    expect(all(world)).toEqual([state(1, 0, 1, 3), state(3, 1, 3, 1), state(3, 0, 3, 1)]);
  });
  test('of the controller itself', async () => {
    const world = await running();
    world.self = { ...world.self, leaving: true };
    await world.run(TICK_MS);
    expect(all(world)[0]).toEqual(sorted(state(2, 1), 0));
  });
});

describe('balance', () => {
  test('leaderships return when their node is in sync again and nothing has happened for a while', async () => {
    const world = await running();
    world.kill(2);
    await world.run(1000);
    world.restart(2);
    world.register(2, 2, false);
    await world.run(BALANCE_AFTER_MS - 500);
    for (const partition of [0, 1, 2]) world.joins(1, partition, 2);
    world.other(3).diskStuck = true;
    await world.run(BALANCE_AFTER_MS - 200);
    expect(all(world)).toEqual([state(1, 0, 1, 3, 2), state(2, 2, 3, 1, 2), state(1, 1, 3, 1, 2)]);
    world.other(3).diskStuck = false;
    await world.run(BALANCE_AFTER_MS);
    expect(all(world)[2]).toEqual(state(1, 1, 3, 1, 2));
    await world.run(600);
    expect(all(world)[2]).toEqual(state(3, 2, 3, 1, 2));
    const changes = world.proposed.length;
    await world.run(10_000);
    expect(world.proposed).toHaveLength(changes);
  });
});

describe('the beginning of a leadership', () => {
  /** Node 2 follows node 1, which leads; both others have been heard. */
  async function following(): Promise<ControllerWorld> {
    const world = new ControllerWorld(2);
    world.createTopic(1, SPREAD);
    world.leads = false;
    await world.run(500);
    world.say(1, {
      holdsLease: true,
      echoMs: Math.floor(world.nowMs),
      messages: [{ kind: 'heartbeat', term: 3, commitIndex: 0, sentMs: 0 }],
    });
    await world.run(500);
    expect(world.proposed).toEqual([]);
    return world;
  }

  test('the former controller was killed: replaced with the first tick, without waiting again', async () => {
    const world = await following();
    world.kill(1);
    await world.run(600);
    world.leads = true;
    world.term = 4;
    await world.run(TICK_MS);
    expect(all(world)[0]).toMatchObject({ leader: 2 });
    expect(world.proposed).toHaveLength(3);
  });

  test('the former controller is frozen: its silence counts from when it was last heard', async () => {
    const world = await following();
    world.freeze(1);
    await world.run(SILENCE_MS + 100);
    world.leads = true;
    world.term = 4;
    await world.run(200);
    expect(all(world)[0]).toMatchObject({ leader: 2 });
  });

  test('who is not the former controller and says nothing yet has all the time there is, and is elected nowhere', async () => {
    const world = await following();
    world.freeze(3);
    world.kill(1);
    await world.run(SILENCE_MS + 500);
    world.leads = true;
    await world.run(SILENCE_MS - 100);
    expect(all(world)).toEqual([state(2, 1, 2, 3), state(2, 0, 2, 3), state(3, 0, 3, 2)]);
    await world.run(200);
    expect(all(world)).toEqual([state(2, 1, 2), state(2, 0, 2), state(2, 1, 2)]);
  });

  test('a node to which there never was a connection has that time too', async () => {
    const world = new ControllerWorld(1, [1, 2]);
    world.register(3, 1);
    world.createTopic(1, SPREAD);
    await world.run(SILENCE_MS - 100);
    expect(world.proposed).toEqual([]);
    await world.run(300);
    expect(all(world)).toEqual([state(1, 0, 1, 2), state(2, 0, 2, 1), state(1, 1, 1, 2)]);
  });

  test('before this node has registered its own start it gets nothing; it has little time for that', async () => {
    const world = new ControllerWorld();
    world.createTopic(1, SPREAD);
    world.self = { ...world.self, incarnation: 2 };
    await world.run(GONE_CONFIRM_MS - TICK_MS);
    expect(world.proposed).toEqual([]);
    await world.run(3 * TICK_MS);
    expect(all(world).map(({ inSync }) => inSync.includes(nodeId(1)))).toEqual([false, false, false]);
  });

  test('a lease that was lost in between: what was not heard meanwhile is held against nobody', async () => {
    const world = await running();
    world.leads = false;
    for (const node of [2, 3]) world.freeze(node);
    await world.run(10_000);
    world.leads = true;
    await world.run(SILENCE_MS - 100);
    for (const node of [2, 3]) world.wake(node);
    await world.run(1000);
    expect(world.proposed).toEqual([]);
    expect(world.telemetry.events('controller.ended')).toHaveLength(1);
  });
});

describe('the end of a leadership', () => {
  test('nothing is decided any more, and what was proposed in an earlier term is of no concern to the next', async () => {
    const world = await running();
    world.holds = true;
    world.kill(2);
    await world.run(1000);
    expect(world.proposed).toHaveLength(3);
    world.leads = false;
    await world.run(1000);
    expect(world.proposed).toHaveLength(3);
    world.leads = true;
    world.term = 5;
    await world.run(TICK_MS);
    // Decided anew in this term, though the old ones are still open.
    expect(world.proposed).toHaveLength(6);
    await world.answerAll();
    await world.run(1000);
    expect(all(world)[1]).toEqual(state(3, 1, 3, 1));
    expect(world.proposed).toHaveLength(6);
  });
  test('a later term of the same node is another leadership, from its first tick on', async () => {
    const world = new ControllerWorld();
    world.createTopic(
      1,
      Array.from({ length: 2 * PROPOSALS_MAX }, () => [2, 3, 1]),
    );
    await world.run(500);
    world.holds = true;
    world.kill(2);
    await world.run(1000);
    expect(world.proposed).toHaveLength(PROPOSALS_MAX);
    world.term = 4;
    await world.answerAll();
    expect(world.proposed).toHaveLength(PROPOSALS_MAX);
    await world.run(TICK_MS);
    expect(world.proposed).toHaveLength(2 * PROPOSALS_MAX);
    world.term = 5;
    await world.run(TICK_MS);
    expect(world.proposed).toHaveLength(3 * PROPOSALS_MAX);
  });
  test('stop: nothing happens from then on', async () => {
    const world = await running();
    world.kill(2);
    world.controller.stop();
    await world.run(5000);
    expect(world.proposed).toEqual([]);
  });
});

describe('proposals', () => {
  test('another change came first: refused, and decided anew from what there is then', async () => {
    const world = await running();
    world.holds = true;
    world.kill(2);
    await world.run(GONE_CONFIRM_MS + TICK_MS);
    expect(world.partition(1, 1).version).toBe(0);
    world.change(1, 1, 0, 2, ids(2, 1));
    world.holds = false;
    await world.run(2 * TICK_MS);
    expect(all(world)[1]).toEqual(state(1, 1, 1));
    const versions = world.proposed
      .filter(({ change }) => change.partition === 1)
      .map(({ change }) => change.expectedVersion);
    expect(versions).toEqual([0, 1]);
  });

  test.each(['TOO_MANY_REQUESTS', 'LEADERSHIP_LOST'] as const)('%s: tried again with the next tick', async (code) => {
    const world = await running();
    world.refuse = (): EntryOutcome => refused(code);
    world.kill(2);
    await world.run(GONE_CONFIRM_MS + TICK_MS);
    const before = world.proposed.length;
    await world.run(3 * TICK_MS);
    expect(world.proposed.length).toBe(before + 9);
    world.refuse = (): undefined => undefined;
    await world.run(TICK_MS);
    expect(all(world)[1]).toEqual(state(3, 1, 3, 1));
  });

  test('one for each partition at a time', async () => {
    const world = await running();
    world.holds = true;
    world.kill(2);
    await world.run(3000);
    expect(world.underWay).toBe(3);
    expect(world.proposed).toHaveLength(3);
  });

  test('ten thousand partitions: few under way at once, all done within few ticks, and no more work when it is quiet', async () => {
    const world = new ControllerWorld();
    const perTopic = 500;
    for (let topic = 1; topic <= 20; topic += 1)
      world.createTopic(
        topic,
        Array.from({ length: perTopic }, (_, at) => SPREAD[at % 3] ?? []),
      );
    await world.run(200);
    world.kill(3);
    await world.run(GONE_CONFIRM_MS + 3 * TICK_MS);
    expect(world.mostUnderWay).toBe(PROPOSALS_MAX);
    expect(world.proposed).toHaveLength(20 * perTopic);
    for (const { partitions } of world.image().topics.values())
      expect(partitions.some(({ leader, inSync }) => leader === 3 || inSync.includes(nodeId(3)))).toBe(false);
    let looks = 0;
    for (const topic of world.image().topics.values()) {
      const { partitions } = topic;
      Object.defineProperty(topic, 'partitions', {
        get: () => {
          looks += 1;
          return partitions;
        },
      });
    }
    await world.run(1000);
    // Only for partitions that nobody can lead, five times a second: one look at each topic.
    expect(looks).toBeLessThanOrEqual(20 * 5);
  });
});

describe('after the power of the whole cluster was cut', () => {
  const known = { known: true, damaged: false };
  async function afterPowerCut(minInsync?: number): Promise<ControllerWorld> {
    const world = new ControllerWorld();
    world.createTopic(1, SPREAD.slice(0, 1), minInsync);
    for (const node of [1, 2, 3]) world.register(node, 2, false);
    for (const other of world.others.values()) other.incarnation = 2;
    world.self = { ...world.self, incarnation: 2 };
    await world.run(100);
    expect(brief(world.partition(1, 0))).toMatchObject({ leader: -1, inSync: [] });
    return world;
  }

  test('enough replicas are waited for, then the one with most leads', async () => {
    const world = await afterPowerCut();
    world.freeze(2);
    world.freeze(3);
    world.ends = (node) => ({ ...known, lastEpoch: 1, logEnd: node * 10 });
    await world.run(6000);
    expect(world.proposed).toEqual([]);
    expect(world.partition(1, 0).leader).toBe(-1);
    world.wake(3);
    await world.run(2000);
    expect(brief(world.partition(1, 0))).toMatchObject({ leader: 3, inSync: [3] });
    expect(world.proposed).toHaveLength(1);
    expect(world.telemetry.events('partitions.recovered')).toHaveLength(1);
  });

  test('all answer: nobody is waited for', async () => {
    const world = await afterPowerCut();
    world.ends = (node) => ({ ...known, lastEpoch: node === 2 ? 4 : 1, logEnd: node * 10 });
    await world.run(500);
    expect(world.partition(1, 0).leader).toBe(2);
  });

  test('one that does not know its log yet, or has damage in it, is no answer', async () => {
    const world = await afterPowerCut();
    world.ends = (node) => ({ known: node !== 2, damaged: node === 3, lastEpoch: 1, logEnd: 10 });
    await world.run(5000);
    expect(world.partition(1, 0).leader).toBe(-1);
    world.ends = () => ({ ...known, lastEpoch: 1, logEnd: 10 });
    await world.run(2000);
    expect(world.partition(1, 0).leader).toBe(1);
  });

  test('what a node said before it started again does not count', async () => {
    const world = await afterPowerCut();
    world.freeze(3);
    world.ends = (node) => (node === 1 ? undefined : { ...known, lastEpoch: 1, logEnd: 90 });
    await world.run(1000);
    expect(world.asked.filter(({ node }) => node === 2)).toHaveLength(1);
    world.restart(2);
    world.register(2, 3, true);
    world.ends = (node) => (node === 2 ? undefined : { ...known, lastEpoch: 1, logEnd: 20 });
    await world.run(3000);
    expect(world.partition(1, 0).leader).toBe(-1);
    world.ends = (node) => ({ ...known, lastEpoch: 1, logEnd: node === 1 ? 20 : 10 });
    await world.run(3000);
    expect(world.partition(1, 0).leader).toBe(1);
  });

  test('once there are enough, the others have some more time', async () => {
    const world = await afterPowerCut();
    world.ends = (node) => (node === 3 ? undefined : { ...known, lastEpoch: 1, logEnd: 20 });
    await world.run(800);
    expect(world.partition(1, 0).leader).toBe(-1);
    world.ends = () => ({ ...known, lastEpoch: 1, logEnd: 30 });
    await world.run(400);
    expect(world.partition(1, 0).leader).toBe(3);
  });

  test('a node that does not answer is not asked again meanwhile, and holds up nothing for long', async () => {
    const world = await afterPowerCut();
    world.hangs = 3;
    world.ends = () => ({ ...known, lastEpoch: 1, logEnd: 10 });
    await world.run(2000);
    expect(world.partition(1, 0).leader).toBe(1);
    expect(world.asked.filter(({ node }) => node === 3)).toHaveLength(1);
  });

  async function manyAfterPowerCut(topics: number, perTopic: number): Promise<ControllerWorld> {
    const world = new ControllerWorld();
    for (let topic = 1; topic <= topics; topic += 1)
      world.createTopic(
        topic,
        Array.from({ length: perTopic }, () => [1, 2, 3]),
      );
    for (const node of [1, 2, 3]) world.register(node, 2, false);
    for (const other of world.others.values()) other.incarnation = 2;
    world.self = { ...world.self, incarnation: 2 };
    await world.run(100);
    return world;
  }

  test('partitions that are not known yet hold up no others, however many they are', async () => {
    const world = await manyAfterPowerCut(6, 1000);
    world.ends = (_, { topicId }) => ({ ...known, known: topicId === topicOf(6), lastEpoch: 1, logEnd: 10 });
    await world.run(3000);
    expect(
      world
        .image()
        .topics.get(topicOf(6))
        ?.partitions.every(({ leader }) => leader === 1),
    ).toBe(true);
    expect(world.partition(4, 0).leader).toBe(-1);
  });

  test('whoever has been found and is lost before it was proposed does not lead', async () => {
    const world = await manyAfterPowerCut(1, 1000);
    world.ends = (node) => ({ ...known, lastEpoch: 1, logEnd: node === 2 ? 20 : 10 });
    world.holds = true;
    while (world.underWay < PROPOSALS_MAX) await world.run(TICK_MS);
    world.kill(2);
    await world.run(TICK_MS);
    await world.answerAll();
    expect(world.proposed).toHaveLength(PROPOSALS_MAX);
  });

  test('each node is asked for many partitions at once, at most five times a second, and not again for what it has said', async () => {
    const world = await manyAfterPowerCut(10, 1000);
    world.ends = (_, { topicId, partition }) => ({
      ...known,
      known: topicId !== topicOf(1) || partition !== 7,
      lastEpoch: 1,
      logEnd: 10,
    });
    await world.run(4000);
    const left = [...world.image().topics.values()].flatMap(({ partitions }) =>
      partitions.filter(({ leader }) => leader === -1),
    );
    expect(left).toHaveLength(1);
    expect(world.mostUnderWay).toBeLessThanOrEqual(PROPOSALS_MAX);
    const ofTwo = world.asked.filter(({ node }) => node === 2);
    expect(ofTwo.reduce((sum, { places }) => sum + places, 0)).toBeLessThanOrEqual(10_000 + 25);
    expect(ofTwo.every(({ ms }, at) => ms - (ofTwo[at - 1]?.ms ?? 0) >= 200)).toBe(true);
  });
});
