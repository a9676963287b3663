// Groups as operators and applications meet them: the executable, its commands, and consumers that are killed.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect, DEAD_LETTER_HEADERS, isRivuletError, type Client } from '../../src/client/index.ts';
import { done, EXECUTABLE, rivulet, startBroker, temporaryFolder, type RunningBroker } from './harness.ts';

const folder = temporaryFolder();
let broker: RunningBroker;
let client: Client;
beforeAll(async () => {
  broker = await startBroker(folder.path, { args: ['--min-free-bytes', '0'] });
  client = await connect({ servers: broker.server });
});
afterAll(async () => {
  await client.close({ timeoutMs: 1000 });
  await broker.stop();
  folder.remove();
});

const on = (...args: string[]): string[] => [...args, '--server', broker.server];
const lines = (bytes: Buffer): string[] => bytes.toString().split('\n').slice(0, -1);

async function fill(topic: string, count: number, flags: readonly string[] = []): Promise<void> {
  await done(on('topic', 'create', topic, ...flags));
  await done(on('produce', topic), {
    input: Buffer.from(Array.from({ length: count }, (_, at) => `${String(at)}\n`).join('')),
  });
}

describe('consume --group', () => {
  test('goes on where it was; list, describe, reset and delete tell and do what they say', async () => {
    await fill('orders', 100, ['--retention-ms', '86400000']);
    const first = lines(await done(on('consume', 'orders', '--group', 'billing', '--max', '30')));
    const rest = lines(await done(on('consume', 'orders', '--group', 'billing')));
    expect([...first, ...rest]).toEqual(Array.from({ length: 100 }, (_, at) => String(at)));
    expect(lines(await done(on('consume', 'orders', '--group', 'billing')))).toEqual([]);
    expect(JSON.parse((await done(on('group', 'list', '--json'))).toString())).toMatchObject([
      { group: 'billing', state: 'empty', members: 0, offsets: 1 },
    ]);
    expect(JSON.parse((await done(on('group', 'reset', 'billing', '--to', '40', '--json'))).toString())).toEqual([
      { topic: 'orders', partition: 0, before: 100, after: 40 },
    ]);
    const told = JSON.parse((await done(on('group', 'describe', 'billing', '--json'))).toString()) as {
      readonly partitions: readonly Record<string, number>[];
    };
    expect(told.partitions[0]).toMatchObject({ committed: 40, highWatermark: 100, lagRecords: 60 });
    expect(told.partitions[0]?.['lagBytes']).toBeGreaterThan(0);
    expect(told.partitions[0]?.['retentionMarginMs']).toBeGreaterThan(80_000_000);
    const human = (await done(on('group', 'describe', 'billing'))).toString();
    expect(human).toMatch(/TOPIC +PARTITION +COMMITTED +END +LAG +LAG-BYTES +LAG-TIME +RETENTION-MARGIN +MEMBER/);
    expect(lines(await done(on('consume', 'orders', '--group', 'billing')))).toHaveLength(60);
    expect(lines(await done(on('consume', 'orders', '--group', 'audit')))).toHaveLength(100);
    expect((await done(on('group', 'delete', 'billing'))).toString()).toBe('deleted billing\n');
    expect((await rivulet(on('group', 'describe', 'billing'))).stderr).toContain('UNKNOWN_GROUP');
  });

  test('is reset while it reads only with a pause, and goes on from there', async () => {
    await fill('live', 50);
    const child = spawn(EXECUTABLE, on('consume', 'live', '--group', 'live', '--follow'), {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const seen: string[] = [];
    createInterface({ input: child.stdout }).on('line', (line) => seen.push(line));
    const ended = new Promise((resolve) => child.once('close', resolve));
    try {
      await until(() => seen.length === 50, 'the first reading');
      const refused = await rivulet(on('group', 'reset', 'live', '--to', 'earliest'));
      expect([refused.status, refused.stderr]).toMatchObject([1, expect.stringContaining('GROUP_NOT_EMPTY') as string]);
      await done(on('group', 'reset', 'live', '--to', '20', '--topic', 'live', '--pause'));
      await until(() => seen.length === 80, 'the second reading');
      expect(seen.slice(50)).toEqual(Array.from({ length: 30 }, (_, at) => String(at + 20)));
    } finally {
      child.kill('SIGTERM');
      expect(await ended).toBe(0);
    }
  });

  test('killed at any moment: nothing is skipped, and what repeats is what was not committed', async () => {
    const count = 200_000;
    const width = 40;
    const text = (at: number): string => String(at).padStart(width, '0');
    await done(on('topic', 'create', 'killed'));
    const input = Buffer.from(Array.from({ length: count }, (_, at) => `${text(at)}\n`).join(''));
    await done(on('produce', 'killed'), { input });
    const seen: number[] = [];
    const note = (line: string): void => {
      // The last line of a killed process may be cut.
      if (line.length === width) seen.push(Number(line));
    };
    let kills = 0;
    for (let round = 0; round < 12; round += 1) {
      const args = on('consume', 'killed', '--group', 'killed', '--instance-id', 'one', '--follow');
      const child = spawn(EXECUTABLE, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      const ended = new Promise((resolve) => child.once('close', resolve));
      child.stdout.once('data', () => setTimeout(() => child.kill('SIGKILL'), (round * 67) % 300));
      const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
      createInterface({ input: child.stdout }).on('line', note);
      await ended;
      clearTimeout(timer);
      kills += 1;
    }
    const before = seen.length;
    for (const line of lines(await done(on('consume', 'killed', '--group', 'killed', '--instance-id', 'one'))))
      note(line);
    expect(before).toBeGreaterThan(0);
    expect(new Set(seen).size).toBe(count);
    // In order, but for a step back behind each kill.
    let steps = 0;
    for (let at = 1; at < seen.length; at += 1) {
      const [last = 0, now = 0] = [seen[at - 1], seen[at]];
      if (now === last + 1) continue;
      expect(now, `behind ${String(last)}`).toBeLessThanOrEqual(last);
      steps += 1;
    }
    expect(steps).toBeLessThanOrEqual(kills);
  }, 120_000);
});

test('retention overtakes a stopped consumer: the operator sees it coming, the application is asked', async () => {
  await done(on('topic', 'create', 'short', '--segment-bytes', '1048576', '--retention-bytes', '2097152'));
  const producer = client.producer();
  const value = new Uint8Array(10_000);
  const send = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at += 1) await producer.send('short', { value });
  };
  await send(50);
  await done(on('consume', 'short', '--group', 'late', '--max', '10'));
  const margin = async (): Promise<number> =>
    (await client.admin.describeGroup('late')).partitions[0]?.retentionMarginBytes ?? -1;
  const early = await margin();
  await send(100);
  expect(await margin()).toBeLessThan(early);
  await send(500);
  // Retention looks every now and then.
  await until(
    async () => ((await client.admin.listOffsets('short', 'earliest'))[0]?.offset ?? 0) > 10,
    'retention',
    60_000,
  );
  const stopped = await rivulet(on('consume', 'short', '--group', 'late'));
  expect([stopped.status, stopped.stderr]).toMatchObject([1, expect.stringContaining('OFFSET_EXPIRED') as string]);
  await expect(client.groupConsumer({ group: 'late', topics: ['short'] }).run(() => undefined)).rejects.toMatchObject({
    code: 'OFFSET_EXPIRED',
  });
  const asked: string[] = [];
  const consumer = client.groupConsumer({
    group: 'late',
    topics: ['short'],
    onPositionLost: ({ reason, position, logStart }) => {
      asked.push(`${reason} at ${String(position)}, retained from ${String(logStart > 10)}`);
      return 'earliest';
    },
  });
  for await (const record of consumer) {
    expect(record.offset).toBeGreaterThan(10);
    break;
  }
  await consumer.close();
  expect(asked).toEqual(['OFFSET_EXPIRED at 10, retained from true']);
}, 120_000);

test('dead letters go back to where they came from, once', async () => {
  await fill('work', 10);
  await done(on('topic', 'create', 'work-dead'));
  const consumer = client.groupConsumer({
    group: 'workers',
    topics: ['work'],
    autoCommitMs: 20,
    retry: { retries: 1, backoffMs: 1 },
    onFailure: { deadLetterTopic: 'work-dead' },
  });
  const running = consumer.run((record) => {
    if (record.offset % 5 === 0) throw new Error('not today');
  });
  await until(
    async () => (await client.admin.describeGroup('workers').catch(unknownGroup))?.partitions[0]?.committed === 10,
    'all passed',
  );
  await consumer.close();
  await running;
  expect((await done(on('group', 'redrive', 'work-dead'))).toString()).toBe('2 records to work\n');
  expect((await done(on('group', 'redrive', 'work-dead'))).toString()).toContain('nothing to redrive');
  const found = lines(await done(on('consume', 'work', '--from', '10', '--json'))).map(
    (line) => JSON.parse(line) as { readonly value: string; readonly headers: readonly { readonly key: string }[] },
  );
  expect(found.map(({ value }) => value)).toEqual(['0', '5']);
  const names = found.flatMap(({ headers }) => headers.map(({ key }) => key));
  expect(names).toContain('rivulet-redriven-from');
  expect(names).not.toContain(DEAD_LETTER_HEADERS.topic);
});

function unknownGroup(error: unknown): undefined {
  if (!isRivuletError(error) || error.code !== 'UNKNOWN_GROUP') throw error;
}

async function until(what: () => boolean | Promise<boolean>, why: string, withinMs = 20_000): Promise<void> {
  const before = performance.now();
  while (performance.now() - before < withinMs) {
    if (await what()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not within ${String(withinMs)} ms: ${why}`);
}
