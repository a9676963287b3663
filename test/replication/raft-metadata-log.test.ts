// Three nodes' metadata logs over simulated disks, with a network between them that can be cut.
import { describe, expect, test } from 'vitest';
import { nodeId, topicId } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import type { MetadataEntry } from '../../src/core/metadata/entry.ts';
import * as install from '../../src/protocol/between-nodes/install-snapshot.v1.ts';
import * as propose from '../../src/protocol/between-nodes/propose.v1.ts';
import * as raft from '../../src/protocol/between-nodes/raft.v1.ts';
import type { EntryOutcome } from '../../src/replication/contract.ts';
import { LocalMetadataLog } from '../../src/replication/metadata-log.ts';
import type { PeerAnswer, PeerCall, Peers } from '../../src/replication/peer-contract.ts';
import { PROPOSE, RAFT, RaftMetadataLog } from '../../src/replication/raft-metadata-log.ts';
import { INSTALL_SNAPSHOT } from '../../src/replication/snapshot-transfer.ts';
import { SimClock } from '../../src/sim/clock.ts';
import { SimDisk } from '../../src/sim/disk.ts';
import { SimMetadataStore } from '../../src/sim/metadata-store.ts';
import { Scheduler } from '../../src/sim/scheduler.ts';
import { RecordingTelemetry } from '../../src/sim/telemetry.ts';
import type { StorageDeps } from '../../src/storage/config.ts';
import { Store } from '../../src/storage/store.ts';
import { SMALL } from './sim-node.ts';

class Member implements Peers {
  readonly id: number;
  readonly cluster: Cluster;
  disk: SimDisk;
  image: SimMetadataStore;
  /** Starts draw different disk ids. */
  starts = 0;
  store: Store | undefined;
  log: RaftMetadataLog | undefined;
  private listeners = new Set<(nodeId: number, up: boolean) => void>();
  constructor(id: number, cluster: Cluster) {
    this.id = id;
    this.cluster = cluster;
    this.disk = new SimDisk(cluster.scheduler, { owner: this.owner });
    this.image = new SimMetadataStore(cluster.scheduler, this.owner);
  }
  get owner(): string {
    return `n${String(this.id)}`;
  }
  get deps(): StorageDeps {
    return {
      disk: this.disk,
      clock: new SimClock(this.cluster.scheduler, this.owner),
      random: this.cluster.scheduler.random.stream(`${this.owner} ${String(this.starts)}`),
      crc32c: crc32cTable,
      telemetry: new RecordingTelemetry(),
      fatal: (reason, detail) => {
        throw new Error(`fatal ${reason}: ${detail}`);
      },
    };
  }
  async start(): Promise<void> {
    this.starts += 1;
    const { deps, id } = this;
    const store = await Store.open(deps, { nodeId: id, bootId: 'boot' });
    const metaLog = await store.openMetaLog({ ...SMALL, segmentBytes: 1024 });
    this.store = store;
    this.log = await RaftMetadataLog.open(deps, metaLog, this.image, {
      nodeId: id,
      diskId: store.diskId,
      incarnation: store.incarnation,
      voters: [1, 2, 3],
      peers: this,
      votes: store,
      snapshotEvery: 40,
    });
    this.cluster.changed(this.id, true);
  }
  async stop(): Promise<void> {
    await this.log?.close();
    await this.store?.close({ clean: true });
    this.gone();
    this.disk = this.disk.secondProcess();
    this.image = this.image.kill();
  }
  powerCut(): void {
    this.cluster.scheduler.cancelOwner(this.owner);
    this.disk = this.disk.crash('random');
    this.image = this.image.crash('random');
    this.gone();
  }
  private gone(): void {
    this.log = undefined;
    this.store = undefined;
    this.listeners = new Set();
    this.cluster.changed(this.id, false);
  }
  tell(peer: number, up: boolean): void {
    for (const listener of this.listeners) listener(peer, up);
  }
  get leads(): boolean {
    return this.log?.hasLease() === true;
  }

  async call(to: number, { operation, body }: PeerCall): Promise<PeerAnswer> {
    const whole = Uint8Array.from(body.flatMap((piece) => Array.from(piece)));
    await this.cluster.scheduler.delay(1, 'net', 'there');
    const target = this.cluster.reaches(this.id, to) ? this.cluster.member(to).log : undefined;
    if (target === undefined) return { ok: false, code: 'NOT_CONNECTED', message: undefined };
    const pieces = await answer(target, operation, whole);
    await this.cluster.scheduler.delay(1, 'net', 'back');
    if (!this.cluster.reaches(to, this.id)) return { ok: false, code: 'CONNECTION_LOST', message: undefined };
    return 'code' in pieces
      ? { ok: false, code: pieces.code, message: undefined }
      : { ok: true, body: Uint8Array.from(pieces.flatMap((piece) => Array.from(piece))) };
  }
  isUp(peer: number): boolean {
    return this.cluster.reaches(this.id, peer);
  }
  onChange(listener: (nodeId: number, up: boolean) => void): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }
}

type Code = Extract<PeerAnswer, { ok: false }>['code'];
async function answer(
  target: RaftMetadataLog,
  operation: number,
  body: Uint8Array,
): Promise<readonly Uint8Array[] | { readonly code: Code }> {
  switch (operation) {
    case RAFT: {
      const request = raft.decodeRequest(body);
      if (!request.ok) throw new Error(`raft: ${request.fault.message}`);
      return target.receive(request.value) ? raft.encodeResponse() : { code: 'INVALID_ARGUMENT' };
    }
    case PROPOSE: {
      const request = propose.decodeRequest(body);
      if (!request.ok) throw new Error(`propose: ${request.fault.message}`);
      const result = target.receiveProposal(request.value);
      return result.ok ? propose.encodeResponse(result.response) : { code: result.code };
    }
    case INSTALL_SNAPSHOT: {
      const request = install.decodeRequest(body);
      if (!request.ok) throw new Error(`snapshot: ${request.fault.message}`);
      return install.encodeResponse(await target.receiveSnapshot(request.value));
    }
    default:
      throw new Error(`operation ${String(operation)}`);
  }
}

class Cluster {
  readonly scheduler: Scheduler;
  readonly members: readonly Member[];
  readonly cut: Set<number> = new Set();
  constructor(seed: number) {
    this.scheduler = new Scheduler({ seed });
    this.members = [1, 2, 3].map((id) => new Member(id, this));
  }
  member(id: number): Member {
    const found = this.members[id - 1];
    if (found === undefined) throw new Error(`no node ${String(id)}`);
    return found;
  }
  reaches(from: number, to: number): boolean {
    return !this.cut.has(from) && !this.cut.has(to) && this.member(to).log !== undefined;
  }
  changed(id: number, up: boolean): void {
    for (const other of this.members) if (other.id !== id) other.tell(id, up);
  }
  run<Value>(work: () => Promise<Value>): Promise<Value> {
    return this.scheduler.drive(work, 600_000);
  }
  async until(done: () => boolean, what: string): Promise<void> {
    if (!(await this.scheduler.runUntil(done, 60_000))) throw new Error(`not within a minute: ${what}`);
  }
  async startAll(): Promise<void> {
    await this.run(async () => {
      for (const member of this.members) if (member.log === undefined) await member.start();
    });
  }
  async leader(): Promise<Member> {
    await this.until(() => this.members.some(({ leads }) => leads), 'a leader');
    const found = this.members.find(({ leads }) => leads);
    if (found === undefined) throw new Error('no leader');
    return found;
  }
  propose(at: Member, entry: MetadataEntry): Promise<EntryOutcome> {
    const { log } = at;
    if (log === undefined) throw new Error(`node ${String(at.id)} is down`);
    return this.run(() => log.propose(entry));
  }
  /** All that run have applied the same. */
  async converged(): Promise<void> {
    await this.until(() => {
      const ends = this.members.flatMap(({ log }) => (log === undefined ? [] : [log.appliedIndex]));
      return this.members.some(({ leads }) => leads) && ends.every((end) => end === ends[0]);
    }, 'the same entries everywhere');
  }
  names(): string[][] {
    return this.members.flatMap(({ log }) =>
      log === undefined ? [] : [Array.from(log.image().topicIds.keys()).toSorted()],
    );
  }
}

let topics = 0;
function createTopic(name: string): MetadataEntry {
  topics += 1;
  const id = topicId(topics.toString(16).padStart(32, '0'));
  return { kind: 'CreateTopic', topicId: id, name, assignment: [[nodeId(1), nodeId(2), nodeId(3)]], config: [] };
}
const unknown = (outcome: EntryOutcome): boolean => !outcome.ok && outcome.code === 'LEADERSHIP_LOST';

describe('the metadata log of three nodes', () => {
  test('one of them leads, and what is proposed anywhere is applied everywhere', async () => {
    const cluster = new Cluster(1);
    await cluster.startAll();
    await cluster.leader();
    for (const member of cluster.members)
      expect(await cluster.propose(member, createTopic(`t${String(member.id)}`))).toMatchObject({ ok: true });
    await cluster.converged();
    expect(cluster.names()).toEqual([
      ['t1', 't2', 't3'],
      ['t1', 't2', 't3'],
      ['t1', 't2', 't3'],
    ]);
    expect(await cluster.propose(cluster.member(2), createTopic('t1'))).toMatchObject({ code: 'TOPIC_EXISTS' });
  });

  test('power cuts of every one of them, again and again, lose nothing that was answered', async () => {
    const cluster = new Cluster(2);
    await cluster.startAll();
    const answered: string[] = [];
    for (let round = 0; round < 24; round += 1) {
      const leader = await cluster.leader();
      const name = `r${String(round)}`;
      const entry = createTopic(name);
      const proposed = leader.log?.propose(entry);
      if (proposed === undefined) throw new Error('it leads no more');
      // Sometimes before the answer, sometimes behind it.
      let outcome: EntryOutcome | undefined;
      const told = proposed.then((value) => {
        outcome = value;
      });
      if (round % 3 !== 0) await cluster.scheduler.settle(told);
      else await cluster.run(async () => await cluster.scheduler.delay(round % 5, 'test', 'wait'));
      if (outcome?.ok === true) answered.push(name);
      const victim = round % 2 === 0 ? leader : cluster.member((round % 3) + 1);
      victim.powerCut();
      await cluster.run(async () => {
        await cluster.scheduler.delay(round % 4 === 0 ? 5000 : 200, 'test', 'away');
        await victim.start();
      });
      if (round % 8 === 7) {
        for (const member of cluster.members) member.powerCut();
        await cluster.startAll();
      }
    }
    await cluster.converged();
    const [first] = cluster.names();
    expect(answered.length).toBeGreaterThan(10);
    expect(first).toEqual(expect.arrayContaining(answered));
    for (const names of cluster.names()) expect(names).toEqual(first);
  });

  test('a leader that is cut off loses its lease before another one leads, and what it took is uncertain', async () => {
    const cluster = new Cluster(3);
    await cluster.startAll();
    const old = await cluster.leader();
    cluster.cut.add(old.id);
    for (const member of cluster.members) if (member !== old) member.tell(old.id, false);
    const { log } = old;
    if (log === undefined) throw new Error('it is down');
    let outcome: EntryOutcome | undefined;
    const told = log.propose(createTopic('lost')).then((value) => {
      outcome = value;
    });
    let both = false;
    await cluster.until(() => {
      const leads = cluster.members.filter((member) => member.leads);
      if (leads.length > 1) both = true;
      return leads.some((member) => member !== old);
    }, 'another leader');
    expect(both).toBe(false);
    await cluster.scheduler.settle(told);
    expect(outcome !== undefined && unknown(outcome)).toBe(true);
    const next = await cluster.leader();
    expect(await cluster.propose(next, createTopic('kept'))).toMatchObject({ ok: true });
    cluster.cut.clear();
    await cluster.converged();
    expect(cluster.names()).toEqual([['kept'], ['kept'], ['kept']]);
  });

  test('a node that was away for long gets a snapshot, also when its power fails as it is installed', async () => {
    const cluster = new Cluster(4);
    await cluster.startAll();
    const leader = await cluster.leader();
    const late = cluster.member(leader.id === 3 ? 2 : 3);
    await cluster.run(() => late.stop());
    for (let each = 0; each < 150; each += 1)
      expect(await cluster.propose(leader, createTopic(`s${String(each)}`))).toMatchObject({ ok: true });
    let replaced = 0;
    for (let attempt = 0; attempt < 6; attempt += 1) {
      await cluster.run(() => late.start());
      late.log?.onReplaced(() => {
        replaced += 1;
      });
      await cluster.run(async () => await cluster.scheduler.delay(2 + 40 * attempt, 'test', 'wait'));
      late.powerCut();
    }
    await cluster.run(() => late.start());
    await cluster.converged();
    expect(replaced).toBeGreaterThan(0);
    expect(late.log?.image().topics.size).toBe(150);
    await cluster.run(() => late.stop());
    await cluster.run(() => late.start());
    await cluster.converged();
    expect(late.log?.image().topics.size).toBe(150);
  });

  test('a leader that leaves hands over, and the next one answers within a few heartbeats', async () => {
    const cluster = new Cluster(5);
    await cluster.startAll();
    const leader = await cluster.leader();
    await cluster.propose(leader, createTopic('before'));
    await cluster.converged();
    leader.log?.leave();
    await cluster.until(() => cluster.members.some((member) => member !== leader && member.leads), 'a successor');
    const next = await cluster.leader();
    expect(next).not.toBe(leader);
    expect(next.log?.voices.get(leader.id)?.leaving).toBe(true);
    expect(await cluster.propose(leader, createTopic('after'))).toMatchObject({ ok: true });
  });

  test('a new disk in a node has no vote, and none is counted, until it is admitted', async () => {
    const cluster = new Cluster(6);
    await cluster.startAll();
    const leader = await cluster.leader();
    await cluster.propose(leader, createTopic('kept'));
    const other = cluster.member(leader.id === 3 ? 2 : 3);
    other.powerCut();
    other.disk = new SimDisk(cluster.scheduler, { owner: other.owner });
    other.image = new SimMetadataStore(cluster.scheduler, other.owner);
    await cluster.run(() => other.start());
    await cluster.converged();
    expect(other.log?.consensus.isVoter).toBe(false);
    const core = leader.log?.consensus;
    const diskId = other.store?.diskId ?? '';
    expect(leader.log?.replaceVoter(other.id, 'no such disk')).toMatchObject({ reason: 'unknown-disk' });
    await cluster.until(() => leader.log?.replaceVoter(other.id, diskId).ok === true, 'the new disk has what it needs');
    await cluster.until(() => other.log?.consensus.isVoter === true, 'its vote');
    await cluster.converged();
    expect(core?.voters.find((voter) => voter.nodeId === other.id)?.diskId).toBe(diskId);
  });

  test('the data directory of a node that was alone is refused, and not changed', async () => {
    const cluster = new Cluster(7);
    const alone = cluster.member(1);
    await cluster.run(async () => {
      const { deps } = alone;
      const store = await Store.open(deps, { nodeId: 1, bootId: 'boot' });
      const metaLog = await store.openMetaLog({ ...SMALL, segmentBytes: 1024 });
      const log = await LocalMetadataLog.open(deps, metaLog, alone.image, { nodeId: 1 });
      await log.propose(createTopic('mine'));
      await log.close();
      await store.close({ clean: true });
      alone.disk = alone.disk.secondProcess();
      alone.image = alone.image.kill();
    });
    await expect(cluster.run(() => alone.start())).rejects.toMatchObject({ reason: 'DATA_DIR_UNUSABLE' });
  });
});
