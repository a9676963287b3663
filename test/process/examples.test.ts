// What the documentation shows can be run as it stands.
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { fileURLToPath } from 'node:url';
import { startBroker, temporaryFolder } from './harness.ts';

test('payments through a crash: booked once with a dedup, and some of them twice without', async () => {
  const folder = temporaryFolder();
  const broker = await startBroker(`${folder.path}/data`);
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [fileURLToPath(new URL('../../docs/examples/payments.ts', import.meta.url))],
    {
      encoding: 'utf8',
      timeout: 60_000,
      env: { ...process.env, RIVULET_SERVER: broker.server },
    },
  );
  await broker.stop();
  folder.remove();
  expect(stderr).toBe('');
  expect(status).toBe(0);
  expect(stdout).toContain('with dedup   : 20 bookings, sum 200');
  const [, count] = /without dedup: (\d+) bookings/.exec(stdout) ?? [];
  expect(Number(count)).toBeGreaterThan(20);
});
