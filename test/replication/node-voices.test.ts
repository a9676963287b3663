import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { monotonicMs, nodeId, type MonotonicMs } from '../../src/base/brands.ts';
import type { NodeState } from '../../src/core/metadata/image.ts';
import type { RaftMessage, RaftRequest } from '../../src/protocol/between-nodes/raft.v1.ts';
import { NodeLiveness } from '../../src/replication/node-liveness.ts';
import { NodeVoices } from '../../src/replication/node-voices.ts';
import { RecordingTelemetry } from '../../src/sim/telemetry.ts';
import { effort } from '../effort.ts';

const at = (ms: number): MonotonicMs => monotonicMs(ms);
const disk = (node: number): string => node.toString(16).padStart(32, 'd');
const heartbeat = (term: number, commitIndex: number): RaftMessage => ({
  kind: 'heartbeat',
  term,
  commitIndex,
  sentMs: 0,
});

function request(from: number, given: Partial<RaftRequest> = {}): RaftRequest {
  return {
    from: nodeId(from),
    diskId: disk(from),
    incarnation: 1,
    clusterId: '',
    diskStuck: false,
    leaving: false,
    holdsLease: false,
    clockMs: 0,
    echoMs: -1,
    messages: [],
    ...given,
  };
}
const lending = (echoMs: number, commitIndex = 0, term = 1): RaftRequest =>
  request(1, { holdsLease: true, echoMs, messages: [heartbeat(term, commitIndex)] });

function voicesOf(given: { started?: number; own?: () => number; applied?: () => number } = {}): NodeVoices {
  return new NodeVoices({
    startedMs: at(given.started ?? 1000),
    ownLeaseUntilMs: given.own ?? ((): number => -Infinity),
    appliedIndex: given.applied ?? ((): number => 0),
  });
}

describe('the node lease', () => {
  test('counts from the clock that the controller has given back, not from when that arrived', () => {
    const voices = voicesOf();
    expect(voices.leaseUntilMs).toBe(-Infinity);
    voices.heard(lending(5000), at(5900));
    expect(voices.leaseUntilMs).toBe(6500);
    expect([voices.leaseValid(at(6499)), voices.leaseValid(at(6500))]).toEqual([true, false]);
    voices.heard(lending(4000), at(6000));
    expect(voices.leaseUntilMs).toBe(6500);
  });
  test('comes only from a node that leads, and surely alone', () => {
    const voices = voicesOf();
    voices.heard({ ...lending(5000), holdsLease: false }, at(5001));
    expect(voices.leaseUntilMs).toBe(-Infinity);
  });
  test('an echo from before this start, or of a machine that was up for longer, is no echo of ours', () => {
    const voices = voicesOf({ started: 4000 });
    for (const echo of [3999, 5002, -1]) voices.heard(lending(echo), at(5001));
    expect(voices.leaseUntilMs).toBe(-Infinity);
    expect(voices.get(1)?.answeredMs).toBe(-Infinity);
  });
  test('waits until what was committed then is applied here, and is not lost while ever more is committed', () => {
    let applied = 6;
    const voices = voicesOf({ applied: () => applied });
    voices.heard(lending(5000, 7), at(5000));
    for (let ms = 5001; ms <= 6400; ms += 1) voices.heard(lending(ms, ms), at(ms));
    expect(voices.leaseUntilMs).toBe(-Infinity);
    applied = 7;
    expect(voices.leaseUntilMs).toBe(6500);
    applied = 6000;
    expect(voices.leaseUntilMs).toBeGreaterThan(7440);
    voices.heard(request(1, { holdsLease: true, echoMs: 6500 }), at(6500));
    expect(voices.leaseUntilMs).toBeLessThan(7600);
  });
  test('of the controller is its own', () => {
    let own = -Infinity;
    const voices = voicesOf({ own: () => own });
    own = 5400;
    expect([voices.leaseValid(at(5399)), voices.leaseValid(at(5400))]).toEqual([true, false]);
    own = Infinity;
    expect(voices.leaseValid(at(1e9))).toBe(true);
  });
  test('one that would not have ended when its holder is replaced is refused', () => {
    const options = { startedMs: at(0), ownLeaseUntilMs: () => -Infinity, appliedIndex: () => 0 };
    expect(() => new NodeVoices({ ...options, nodeLeaseMs: 1900 })).toThrow(/replaced/);
  });
});

describe('stamp', () => {
  test('gives back the newest clock; a controller only while it knows that it is heard itself', () => {
    let own = -Infinity;
    const voices = voicesOf({ own: () => own });
    expect(voices.stamp(2, at(5000.7))).toEqual({ holdsLease: false, clockMs: 5000, echoMs: -1 });
    voices.heard(request(2, { clockMs: 77, echoMs: 5000 }), at(5010));
    voices.heard(request(2, { clockMs: 70, echoMs: 5000 }), at(5020));
    expect(voices.stamp(2, at(9000)).echoMs).toBe(77);
    own = 99_999;
    expect(voices.stamp(2, at(5350))).toEqual({ holdsLease: true, clockMs: 5350, echoMs: 77 });
    expect(voices.stamp(2, at(5351)).echoMs).toBe(-1);
    voices.heard(request(2, { clockMs: 78, echoMs: 5351 }), at(5360));
    expect(voices.stamp(2, at(5370)).echoMs).toBe(78);
  });
});

describe('heard and linkChanged', () => {
  test('another start is somebody else; what an earlier one had sent comes too late', () => {
    const voices = voicesOf();
    voices.heard(request(2, { clockMs: 50, echoMs: 1500, diskStuck: true }), at(1600));
    voices.heard(request(2, { clockMs: 20, incarnation: 2, leaving: true }), at(1700));
    const after = {
      incarnation: 2,
      sinceMs: 1700,
      heardMs: 1700,
      answeredMs: -Infinity,
      clockMs: 20,
      diskStuck: false,
      leaving: true,
    };
    expect(voices.get(2)).toMatchObject(after);
    voices.heard(request(2, { clockMs: 60, echoMs: 1600 }), at(1800));
    expect(voices.get(2)).toMatchObject(after);
    voices.heard(request(2, { clockMs: 1, diskId: disk(9) }), at(1900));
    expect(voices.get(2)).toMatchObject({ diskId: disk(9), incarnation: 1, sinceMs: 1900, leaving: false });
  });
  test('what a frame says of its sender counts unless a later one has come', () => {
    const voices = voicesOf();
    voices.heard(request(2, { clockMs: 50, leaving: true }), at(1600));
    voices.heard(request(2, { clockMs: 49 }), at(1601));
    expect(voices.get(2)).toMatchObject({ leaving: true, clockMs: 50, heardMs: 1601 });
  });
  test('the connection, from when it last changed', () => {
    const voices = voicesOf();
    voices.linkChanged(3, false, at(1100));
    expect(voices.get(3)).toMatchObject({ linkUp: false, linkChangedMs: -Infinity, incarnation: -1 });
    voices.linkChanged(3, true, at(1200));
    voices.linkChanged(3, true, at(1300));
    expect(voices.get(3)).toMatchObject({ linkUp: true, linkChangedMs: 1200 });
    expect([...voices.all()].map((voice) => voice.nodeId)).toEqual([3]);
  });
  test('the leader of the latest term, whoever speaks last', () => {
    const voices = voicesOf();
    voices.heard(request(2, { messages: [heartbeat(5, 0)] }), at(1100));
    voices.heard(request(3, { messages: [heartbeat(6, 0)] }), at(1200));
    voices.heard(request(2, { messages: [heartbeat(5, 0), { kind: 'newerTerm', term: 9 }] }), at(1300));
    expect(voices.lastLeader).toEqual({ nodeId: 3, term: 6 });
  });
});

/** Three nodes whose clocks begin anywhere and differ in speed; frames keep their order on each way, and take as long as they like. */
class World {
  trueMs = 0;
  valid = 0;
  gone = 0;
  private readonly clocks: readonly { readonly offset: number; readonly rate: number }[];
  private readonly nodes: readonly { readonly id: number; readonly voices: NodeVoices }[];
  private readonly ways = new Map<string, RaftRequest[]>();
  private leader = 0;
  private term = 1;
  private liveness: NodeLiveness;

  constructor(clocks: readonly { readonly offset: number; readonly rate: number }[]) {
    this.clocks = clocks;
    this.nodes = [1, 2, 3].map((id) => this.node(id));
    this.liveness = this.begin();
  }

  private node(id: number): { readonly id: number; readonly voices: NodeVoices } {
    const index = id - 1;
    const own = (): number => (this.leader === index ? Infinity : -Infinity);
    return {
      id,
      voices: new NodeVoices({ startedMs: this.clock(index), ownLeaseUntilMs: own, appliedIndex: () => 0 }),
    };
  }
  private clock(index: number): MonotonicMs {
    const { offset, rate } = this.clocks[index] ?? { offset: 0, rate: 1 };
    return at(offset + this.trueMs * rate);
  }
  private begin(): NodeLiveness {
    const { id, voices } = this.nodeAt(this.leader);
    return new NodeLiveness(id, voices, new RecordingTelemetry(), this.clock(this.leader));
  }
  private nodeAt(index: number): { readonly id: number; readonly voices: NodeVoices } {
    const node = this.nodes[index];
    if (node === undefined) throw new Error(`there is no node ${String(index)}`);
    return node;
  }
  private way(from: number, to: number): RaftRequest[] {
    const key = `${String(from)}>${String(to)}`;
    const queue = this.ways.get(key) ?? [];
    this.ways.set(key, queue);
    return queue;
  }

  send(from: number, to: number): void {
    const { id, voices } = this.nodeAt(from);
    const stamp = voices.stamp(this.nodeAt(to).id, this.clock(from));
    const messages = from === this.leader ? [heartbeat(this.term, 0)] : [];
    this.way(from, to).push(request(id, { ...stamp, messages }));
  }
  deliver(from: number, to: number, count: number): void {
    for (const frame of this.way(from, to).splice(0, count)) this.nodeAt(to).voices.heard(frame, this.clock(to));
  }
  /** Whoever is elected has an entry of the leader before it in its log. */
  elect(index: number): void {
    if (index === this.leader || this.nodeAt(index).voices.lastLeader?.term !== this.term) return;
    this.leader = index;
    this.term += 1;
    this.liveness = this.begin();
  }
  /** True time goes on; nobody may hold a lease whom the controller counts as gone. */
  check(passed: number): void {
    this.trueMs += passed;
    const states = this.nodes.map(({ id }): NodeState => ({
      nodeId: nodeId(id),
      diskId: disk(id),
      incarnation: 1,
      host: undefined,
      port: undefined,
    }));
    const own = { diskId: disk(this.nodeAt(this.leader).id), incarnation: 1, diskStuck: false, leaving: false };
    this.liveness.update(new Map(states.map((state) => [state.nodeId, state])), own, this.clock(this.leader));
    for (const [index, { id, voices }] of this.nodes.entries()) {
      const valid = voices.leaseValid(this.clock(index));
      const gone = this.liveness.isGone(id);
      if (index !== this.leader) {
        this.valid += valid ? 1 : 0;
        this.gone += gone ? 1 : 0;
      }
      expect(valid && gone, `node ${String(id)} at ${String(this.trueMs)} ms`).toBe(false);
    }
  }
}

test('no lease lives until its holder counts as gone: with any delays, clocks, silences and changes of the controller', () => {
  const node = fc.nat(2);
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('talk' as const), from: node, to: node }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('send' as const), from: node, to: node }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('deliver' as const), from: node, to: node }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('elect' as const), from: node, to: node }) },
  );
  const steps = fc.array(fc.tuple(step, fc.oneof(fc.nat(60), fc.nat(800))), { minLength: 20, maxLength: 150 });
  const clock = fc.record({ offset: fc.nat(1e6), rate: fc.double({ min: 1, max: 1.1, noNaN: true }) });
  let valid = 0;
  let gone = 0;
  fc.assert(
    fc.property(fc.tuple(clock, clock, clock), steps, (clocks, plan) => {
      const world = new World(clocks);
      for (const [{ kind, from, to }, passed] of plan) {
        if (kind === 'elect') world.elect(to);
        else if (from !== to) {
          if (kind !== 'deliver') world.send(from, to);
          if (kind !== 'send') world.deliver(from, to, kind === 'talk' ? Infinity : 1);
          if (kind === 'talk') world.send(to, from);
          if (kind === 'talk') world.deliver(to, from, Infinity);
        }
        world.check(passed);
      }
      valid += world.valid;
      gone += world.gone;
    }),
    { numRuns: effort(1000, 300) },
  );
  // Both were common, or nothing was shown.
  expect(Math.min(valid, gone)).toBeGreaterThan(5000 * (effort(1000, 300) / 3000));
});
