// The driver between the coordinator and a metadata log that moves: leadership comes and goes, and writes fail.
import { describe, expect, test } from 'vitest';
import { monotonicMs, nodeId, timestampMs, topicId } from '../../src/base/brands.ts';
import { GroupDriver } from '../../src/broker/groups/driver.ts';
import type { GroupAnswer } from '../../src/core/group/requests.ts';
import { apply, type EntryOutcome } from '../../src/core/metadata/apply.ts';
import { emptyImage, type MetadataImage } from '../../src/core/metadata/image.ts';
import type { AppliedEntry, MetadataEntry, MetadataLog } from '../../src/replication/contract.ts';
import { RecordingTelemetry } from '../../src/sim/telemetry.ts';

const NODE = nodeId(1);
const GROUP = 'billing';

/** Applies what it is told to, when it is told to. */
class ScriptedLog implements MetadataLog {
  lease = true;
  hasLease(): boolean {
    return this.lease;
  }
  onReplaced(): () => void {
    return () => undefined;
  }
  onLeader(): () => void {
    return () => undefined;
  }
  leader: MetadataLog['leader'] = { nodeId: NODE, term: 1 };
  readonly storeDisabled = false;
  readonly current: MetadataImage = emptyImage();
  readonly waiting: { readonly entry: MetadataEntry; readonly resolve: (outcome: EntryOutcome) => void }[] = [];
  private readonly listeners = new Set<(applied: AppliedEntry) => void>();
  private index = -1;

  get appliedIndex(): number {
    return this.index;
  }
  image(): MetadataImage {
    return this.current;
  }
  propose(entry: MetadataEntry): Promise<EntryOutcome> {
    return new Promise((resolve) => this.waiting.push({ entry, resolve }));
  }
  onApplied(listener: (applied: AppliedEntry) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
  close(): Promise<void> {
    return Promise.resolve();
  }
  say(entry: MetadataEntry): EntryOutcome {
    this.index += 1;
    const { outcome, topics } = apply(this.current, this.index, entry);
    for (const listener of this.listeners) listener({ index: this.index, entry, outcome, topics });
    return outcome;
  }
  /** The oldest proposal is applied, or ends as given. */
  async next(outcome?: EntryOutcome): Promise<void> {
    const proposal = this.waiting.shift();
    if (proposal === undefined) throw new Error('nothing was proposed');
    proposal.resolve(outcome ?? this.say(proposal.entry));
    await Promise.resolve();
    await Promise.resolve();
  }
}

class Stage {
  readonly log = new ScriptedLog();
  readonly telemetry = new RecordingTelemetry();
  nowMs = 1000;
  readonly driver: GroupDriver;
  readonly said: string[] = [];

  constructor() {
    this.log.say({
      kind: 'CreateTopic',
      topicId: topicId('0'.repeat(31).concat('1')),
      name: 'orders',
      assignment: [[NODE]],
      config: [],
    });
    this.driver = new GroupDriver({
      nodeId: NODE,
      metadata: this.log,
      clock: {
        wallMs: () => timestampMs(5),
        bootMs: () => monotonicMs(this.nowMs),
        setTimer: () => () => undefined,
        yieldNow: () => Promise.resolve(),
      },
      telemetry: this.telemetry,
    });
  }
  hear(name: string): (answer: GroupAnswer) => void {
    return (answer) => this.said.push(`${name}: ${answer.ok ? answer.kind : answer.code}`);
  }
  join(memberId: string): void {
    this.driver.ask(
      {
        kind: 'join',
        groupId: GROUP,
        memberId,
        instanceId: undefined,
        clientId: '',
        sessionTimeoutMs: 10_000,
        rebalanceTimeoutMs: 10_000,
        topics: ['orders'],
      },
      this.hear(memberId),
    );
  }
  beat(memberId: string, waitMs: number): void {
    const generation = this.log.current.groups.get(GROUP)?.members.get(memberId)?.generation ?? -1;
    this.driver.ask(
      { kind: 'heartbeat', groupId: GROUP, memberId, generation, waitMs, released: [] },
      this.hear(`beat of ${memberId}`),
    );
  }
}

describe('GroupDriver', () => {
  test('without leadership it answers for nothing; with it anew, members have a full session from then on', async () => {
    const { log, driver, said, all } = spread(new Stage());
    all.join('a');
    await log.next();
    all.beat('a', 60_000);
    log.leader = { nodeId: nodeId(2), term: 2 };
    driver.tick(monotonicMs(all.nowMs));
    expect(driver.isCoordinator).toBe(false);
    all.join('b');
    expect(said).toEqual(['a: membership', 'beat of a: COORDINATOR_NOT_AVAILABLE', 'b: COORDINATOR_NOT_AVAILABLE']);
    // Far beyond the session: nobody has looked at it meanwhile.
    all.nowMs += 60_000;
    log.leader = { nodeId: NODE, term: 3 };
    driver.tick(monotonicMs(all.nowMs));
    for (let passed = 0; passed < 9500; passed += 500) {
      all.nowMs += 500;
      driver.tick(monotonicMs(all.nowMs));
    }
    expect(log.waiting).toHaveLength(0);
    all.nowMs += 500;
    driver.tick(monotonicMs(all.nowMs));
    expect(log.waiting.map(({ entry }) => entry)).toMatchObject([{ kind: 'GroupGeneration', removed: ['a'] }]);
  });

  test('what was proposed before leadership was lost is answered by its outcome, and leads to nothing more', async () => {
    const { log, driver, said, all } = spread(new Stage());
    all.join('a');
    all.join('b');
    log.leader = undefined;
    driver.tick(monotonicMs(all.nowMs));
    expect(said).toEqual(['b: COORDINATOR_NOT_AVAILABLE']);
    await log.next({ ok: false, code: 'LEADERSHIP_LOST', message: 'gone' });
    expect([said.at(-1), log.waiting.length, driver.waiting]).toEqual(['a: LEADERSHIP_LOST', 0, 0]);
  });

  test('a write that fails is told to who asked, is not tried again at once, and by the ticker only where nobody asked', async () => {
    const { log, driver, said, all } = spread(new Stage());
    const full: EntryOutcome = { ok: false, code: 'STORAGE_FULL', message: 'no room' };
    all.join('a');
    await log.next(full);
    driver.tick(monotonicMs(all.nowMs));
    expect([said, log.waiting.length]).toEqual([['a: STORAGE_FULL'], 0]);
    all.join('a');
    await log.next();
    // Its session ends while the disk is full: that is recorded when there is room.
    for (let passed = 0; passed <= 10_000; passed += 500) {
      all.nowMs += 500;
      driver.tick(monotonicMs(all.nowMs));
    }
    await log.next(full);
    driver.tick(monotonicMs((all.nowMs += 950)));
    expect(log.waiting).toHaveLength(0);
    driver.tick(monotonicMs((all.nowMs += 50)));
    await log.next();
    expect(log.current.groups.size).toBe(0);
    expect(all.telemetry.events('group.not-recorded')).toHaveLength(2);
  });

  test('after close nothing is asked or proposed any more, and everybody has an answer', async () => {
    const { log, driver, said, all } = spread(new Stage());
    all.join('a');
    await log.next();
    all.beat('a', 60_000);
    all.join('b');
    driver.close();
    all.join('c');
    await log.next();
    expect(said).toEqual(['a: membership', 'beat of a: SHUTTING_DOWN', 'c: SHUTTING_DOWN', 'b: membership']);
    expect([log.waiting.length, driver.waiting]).toEqual([0, 0]);
  });
});

function spread(all: Stage): { log: ScriptedLog; driver: GroupDriver; said: string[]; all: Stage } {
  return { log: all.log, driver: all.driver, said: all.said, all };
}
