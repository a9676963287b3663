// Random lives of small clusters: whatever is lost, doubled, delayed, cut off, crashed or filled anew, the safety rules hold all
// along (world.ts checks them), and when the faults stop everything goes on.
import { describe, expect, test } from 'vitest';
import { effort } from '../../effort.ts';
import { randomOf, World } from './world.ts';

function life(seed: number): World {
  const random = randomOf(seed);
  const count = [1, 3, 3, 3, 5][Math.floor(random() * 5)] ?? 3;
  const world = new World(count, random);
  world.lossShare = random() < 0.5 ? 0 : random() * 0.2;
  world.duplicateShare = random() < 0.5 ? 0 : random() * 0.2;
  world.delayMax = random() < 0.5 ? 3 : 60;
  const pick = (): ReturnType<World['node']> => world.node(1 + Math.floor(random() * count));
  let proposed = 0;
  const act = (): void => {
    const choice = random();
    const node = pick();
    if (choice < 0.25) world.crash(node);
    else if (choice < 0.5) {
      if (node.raft === undefined) world.start(node);
    } else if (choice < 0.6) world.cut.add(`${String(node.nodeId)} ${String(pick().nodeId)}`);
    else if (choice < 0.7) world.cut.clear();
    else if (choice < 0.76) world.snapshot(node);
    else if (choice < 0.82) node.diskDelay = 1 + Math.floor(random() * 100);
    else if (choice < 0.88) {
      node.raft?.transferLeadership(world.clock(node), pick().nodeId);
      world.effects(node);
    } else if (choice < 0.94) {
      node.raft?.peerConnectionClosed(world.clock(node), pick().nodeId);
      world.effects(node);
    } else if (choice < 0.97) {
      node.raft?.stepDown(world.clock(node));
      world.effects(node);
    } else world.delayMax = 1 + Math.floor(random() * 200);
  };
  for (let round = 0; round < 60; round += 1) {
    if (random() < 0.5) act();
    for (let each = 0; each < 6; each += 1) {
      const leader = world.leader();
      if (leader !== undefined && world.propose(leader, `v${String(proposed)}`)) proposed += 1;
      world.run(1 + Math.floor(random() * 40));
    }
  }
  return world;
}

function heal(world: World): void {
  world.cut.clear();
  world.lossShare = 0;
  world.duplicateShare = 0;
  world.delayMax = 2;
  for (const node of world.nodes) {
    node.diskDelay = 1;
    if (node.raft === undefined) world.start(node);
  }
  world.runUntil(() => world.leader()?.role?.ready === true, 20_000, 'a leader');
  let tried = 0;
  const mark = (): string => `end ${String(tried)}`;
  world.runUntil(
    () => {
      const leader = world.leader();
      if (leader !== undefined && world.now % 500 === 0) {
        tried += 1;
        world.propose(leader, mark());
      }
      const ends = world.nodes.map((node) => node.raft?.deliveredIndex ?? -2);
      return (
        ends.every((each) => each === ends[0]) &&
        Array.from(world.committed.values()).some((text) => text.includes(' command end'))
      );
    },
    20_000,
    'all nodes with the same entries',
  );
}

describe('random lives', () => {
  test('keep the safety rules, and go on when faults stop', () => {
    let elections = 0;
    let truncations = 0;
    let snapshots = 0;
    let committed = 0;
    for (let seed = 1; seed <= effort(1500, 150); seed += 1) {
      try {
        const world = life(seed);
        heal(world);
        elections += world.elections;
        truncations += world.truncations;
        snapshots += world.snapshots;
        committed += world.committed.size;
      } catch (error) {
        throw new Error(`seed ${String(seed)}: ${String(error)}`, { cause: error });
      }
    }
    expect(elections).toBeGreaterThan(200);
    expect(truncations).toBeGreaterThan(10);
    expect(snapshots).toBeGreaterThan(10);
    expect(committed).toBeGreaterThan(5000);
  });
});
