// Several cores in one thread, with a network and disks that the test commands. Checks the safety rules after every step.
import { monotonicMs, type MonotonicMs } from '../../../src/base/brands.ts';
import type {
  Entry,
  HardState,
  Message,
  Peer,
  RaftConfig,
  RaftCore,
  RaftWrite,
  RoleState,
  SnapshotPoint,
  Voter,
} from '../../../src/core/raft/contract.ts';
import { createRaft, RAFT_CONFIG_DEFAULT } from '../../../src/core/raft/raft.ts';

interface Packet {
  readonly at: number;
  readonly from: Peer;
  readonly to: number;
  readonly message: Message;
}
interface Disk {
  readonly diskId: string;
  hardState: HardState;
  snapshot: SnapshotPoint;
  entries: Entry[];
}
export interface Node {
  readonly nodeId: number;
  disk: Disk;
  raft: RaftCore | undefined;
  role: RoleState | undefined;
  /** Given to the disk, not durable. */
  writes: { readonly at: number; readonly write: RaftWrite }[];
  diskDelay: number;
  /** Added to the true time: nodes' clocks only have to run alike. */
  readonly clockOffset: number;
  applied: Entry[];
  appliedBase: number;
}

export class Fault extends Error {}

export class World {
  now = 0;
  readonly nodes: Node[];
  readonly config: RaftConfig;
  private packets: Packet[] = [];
  /** Committed anywhere, by index. */
  readonly committed: Map<number, string> = new Map();
  private readonly leaders = new Map<number, number>();
  private readonly votes = new Map<string, number>();
  /** One way, "from to". */
  readonly cut: Set<string> = new Set();
  lossShare = 0;
  duplicateShare = 0;
  delayMax = 2;
  elections = 0;
  truncations = 0;
  snapshots = 0;
  readonly random: () => number;
  readonly voters: readonly Voter[];

  constructor(count: number, random: () => number, config: Partial<RaftConfig> = {}) {
    this.random = random;
    this.config = { ...RAFT_CONFIG_DEFAULT, ...config };
    this.voters = Array.from({ length: count }, (_, index) => ({ nodeId: index + 1, diskId: undefined }));
    this.nodes = this.voters.map(({ nodeId }) => ({
      nodeId,
      disk: emptyDisk(`disk-${String(nodeId)}`),
      raft: undefined,
      role: undefined,
      writes: [],
      diskDelay: 1,
      clockOffset: 1000 * nodeId,
      applied: [],
      appliedBase: -1,
    }));
    for (const node of this.nodes) this.start(node);
  }

  node(nodeId: number): Node {
    const found = this.nodes[nodeId - 1];
    if (found === undefined) throw new Fault(`no node ${String(nodeId)}`);
    return found;
  }
  clock(node: Node): MonotonicMs {
    return monotonicMs(this.now + node.clockOffset);
  }
  start(node: Node): void {
    const { disk } = node;
    node.appliedBase = disk.snapshot.index;
    node.applied = [];
    node.raft = createRaft({
      self: { nodeId: node.nodeId, diskId: disk.diskId },
      voters: this.voters,
      hardState: disk.hardState,
      snapshot: disk.snapshot,
      entries: disk.entries,
      appliedIndex: disk.snapshot.index,
      config: this.config,
      random: this.random,
      nowMs: this.clock(node),
    });
    this.effects(node);
  }
  /** What was not durable is lost, or not: the disk decides. */
  crash(node: Node): void {
    if (node.raft === undefined) return;
    node.raft = undefined;
    node.role = undefined;
    const lost = Math.floor(this.random() * (node.writes.length + 1));
    for (const { write } of node.writes.slice(0, node.writes.length - lost)) persist(node.disk, write);
    node.writes = [];
  }
  wipe(node: Node): void {
    this.crash(node);
    node.disk = emptyDisk(`${node.disk.diskId}x`);
  }
  leader(): Node | undefined {
    const term = Math.max(...this.nodes.map(({ role }) => (role?.role === 'leader' ? role.term : -1)));
    return this.nodes.find(({ role, raft }) => raft !== undefined && role?.role === 'leader' && role.term === term);
  }
  propose(node: Node, text: string): boolean {
    const { raft } = node;
    if (raft === undefined) return false;
    const outcome = raft.propose(this.clock(node), [new TextEncoder().encode(text)]);
    this.effects(node);
    return outcome.ok;
  }
  snapshot(node: Node): void {
    const { raft, disk } = node;
    if (raft === undefined || raft.deliveredIndex <= disk.snapshot.index) return;
    disk.snapshot = raft.snapshotPointAt(raft.deliveredIndex);
    const base = disk.snapshot.index;
    disk.entries = disk.entries.filter(({ index }) => index > base);
    raft.compact(base);
  }

  /** One millisecond. */
  step(): void {
    this.now += 1;
    for (const node of this.nodes) {
      if (node.raft === undefined) continue;
      while (node.writes[0] !== undefined && node.writes[0].at <= this.now) {
        const { write } = node.writes.shift() ?? { write: undefined };
        if (write === undefined) break;
        persist(node.disk, write);
        node.raft.persisted(this.clock(node), write.generation);
        this.effects(node);
      }
      if (this.now % 20 === node.nodeId % 20) {
        node.raft.tick(this.clock(node));
        this.effects(node);
      }
    }
    const due = this.packets.filter(({ at }) => at <= this.now);
    this.packets = this.packets.filter(({ at }) => at > this.now);
    for (const { from, to, message } of due) {
      const node = this.node(to);
      if (node.raft === undefined || this.cut.has(`${String(from.nodeId)} ${String(to)}`)) continue;
      node.raft.step(this.clock(node), from, message);
      this.effects(node);
    }
    this.checkLeases();
  }
  run(ms: number): void {
    for (let passed = 0; passed < ms; passed += 1) this.step();
  }
  runUntil(done: () => boolean, boundMs: number, what: string): void {
    for (let passed = 0; passed < boundMs; passed += 1) {
      if (done()) return;
      this.step();
    }
    throw new Fault(`not within ${String(boundMs)} ms: ${what}`);
  }

  effects(node: Node): void {
    const { raft } = node;
    if (raft === undefined) return;
    const effects = raft.takeEffects();
    if (effects.write !== undefined) {
      if (effects.write.truncateFrom !== undefined) this.truncations += 1;
      const last = node.writes.at(-1)?.at ?? 0;
      const delay = Math.ceil(this.random() * node.diskDelay);
      node.writes.push({ at: Math.max(last, this.now + delay), write: effects.write });
    }
    for (const { to, message } of effects.messages) this.post(node, to, message);
    for (const entry of effects.committed) this.apply(node, entry);
    if (effects.role !== undefined) this.changed(node, effects.role);
    for (const { to } of effects.snapshotsNeeded) this.sendSnapshot(node, to);
  }
  private post(node: Node, to: number, message: Message): void {
    this.checkSaid(node, to, message);
    const from = { nodeId: node.nodeId, diskId: node.disk.diskId };
    const copies = this.random() < this.duplicateShare ? 2 : 1;
    for (let copy = 0; copy < copies; copy += 1)
      if (this.random() >= this.lossShare)
        this.packets.push({ at: this.now + 1 + Math.floor(this.random() * this.delayMax), from, to, message });
  }
  /** A vote is given once in a term by a disk, and nothing is said of a term that the disk could forget. */
  private checkSaid(node: Node, to: number, message: Message): void {
    if (message.term > node.disk.hardState.term)
      throw new Fault(`node ${String(node.nodeId)} speaks of term ${String(message.term)} before it is durable`);
    if (message.kind === 'appended' && message.match > lastDurable(node.disk))
      throw new Fault(`node ${String(node.nodeId)} claims ${String(message.match)} durable`);
    if (message.kind !== 'voteAnswer' || !message.granted) return;
    const key = `${node.disk.diskId} ${String(message.forTerm)}`;
    if ((this.votes.get(key) ?? to) !== to) throw new Fault(`${key}: two votes`);
    this.votes.set(key, to);
  }
  private apply(node: Node, entry: Entry): void {
    const last = node.applied.at(-1)?.index ?? node.appliedBase;
    if (entry.index !== last + 1) throw new Fault(`applied ${String(entry.index)} behind ${String(last)}`);
    if (entry.index > lastDurable(node.disk)) throw new Fault(`applied ${String(entry.index)}, which is not durable`);
    node.applied.push(entry);
    const text = `${String(entry.term)} ${entry.kind} ${new TextDecoder().decode(entry.bytes)}`;
    const known = this.committed.get(entry.index);
    if (known !== undefined && known !== text)
      throw new Fault(`index ${String(entry.index)}: "${known}" and "${text}" are committed`);
    this.committed.set(entry.index, text);
  }
  private changed(node: Node, role: RoleState): void {
    node.role = role;
    if (role.role !== 'leader') return;
    const other = this.leaders.get(role.term);
    if (other === undefined) this.elections += 1;
    if (other !== undefined && other !== node.nodeId) throw new Fault(`two leaders of term ${String(role.term)}`);
    this.leaders.set(role.term, node.nodeId);
  }
  private checkLeases(): void {
    const holders = this.nodes.filter((node) => node.raft?.hasLease(this.clock(node)) === true);
    const leaders = this.nodes.filter(({ raft }) => raft?.roleState.role === 'leader');
    for (const holder of holders)
      for (const leader of leaders)
        if (leader !== holder && (leader.raft?.hardState.term ?? 0) > (holder.raft?.hardState.term ?? 0))
          throw new Fault(`node ${String(leader.nodeId)} leads in the lease of node ${String(holder.nodeId)}`);
  }
  private sendSnapshot(node: Node, to: number): void {
    const target = this.node(to);
    const isCut = this.cut.has(`${String(node.nodeId)} ${String(to)}`);
    if (isCut || target.raft === undefined || node.raft === undefined) {
      node.raft?.snapshotSent(this.clock(node), to, false);
      return;
    }
    this.snapshots += 1;
    const from = { nodeId: node.nodeId, diskId: node.disk.diskId };
    const { snapshot } = node.disk;
    if (target.raft.snapshotInstalled(this.clock(target), from, node.raft.hardState.term, snapshot)) {
      target.disk.snapshot = snapshot;
      target.appliedBase = snapshot.index;
      target.applied = [];
      // What it had stays until the write that resets it.
      target.disk.entries = target.disk.entries.filter(({ index }) => index > snapshot.index);
    }
    this.effects(target);
    node.raft.snapshotSent(this.clock(node), to, true);
    this.effects(node);
  }
}

function emptyDisk(diskId: string): Disk {
  return {
    diskId,
    hardState: { term: 0, votedFor: -1 },
    snapshot: { index: -1, term: 0, voters: [] },
    entries: [],
  };
}
function lastDurable(disk: Disk): number {
  return disk.entries.at(-1)?.index ?? disk.snapshot.index;
}
function persist(disk: Disk, { resetTo, truncateFrom, entries, hardState }: RaftWrite): void {
  if (resetTo !== undefined) disk.entries = [];
  if (truncateFrom !== undefined) disk.entries = disk.entries.filter(({ index }) => index < truncateFrom);
  for (const entry of entries) {
    if (entry.index <= disk.snapshot.index) continue;
    if (entry.index !== lastDurable(disk) + 1)
      throw new Fault(`entry ${String(entry.index)} written behind ${String(lastDurable(disk))}`);
    disk.entries.push(entry);
  }
  disk.hardState = hardState ?? disk.hardState;
}

/** Mulberry32: the same numbers for the same seed. */
export function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
