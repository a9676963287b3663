// The disk fails under the built executable: no answer after a failure, no second fsync, one line and the status of its kind, and
// the next start tells the truth.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { RawClient } from '../broker/raw-client.ts';
import { portOf, rivulet, startBroker, temporaryFolder, type RunningBroker } from './harness.ts';
import { expectTruth, prepare, produceUntilDown } from './until-down.ts';

const folder = temporaryFolder();
afterAll(() => {
  folder.remove();
});
let count = 0;
function dataDir(): string {
  count += 1;
  return join(folder.path, `data-${String(count)}`);
}

function fatalLines(broker: RunningBroker): readonly Record<string, unknown>[] {
  return broker
    .stderr()
    .split('\n')
    .filter((line) => line.includes('"event":"fatal"'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

async function expectFatalEnd(broker: RunningBroker): Promise<void> {
  expect(await broker.ended, broker.stderr()).toEqual({ status: null, signal: 'SIGABRT' });
  const lines = fatalLines(broker);
  expect(lines, broker.stderr()).toHaveLength(1);
  expect(lines[0]).toMatchObject({ level: 'fatal', reason: 'STORAGE_FAILED' });
}

const straceWorks = spawnSync('strace', ['-o', '/dev/null', 'true'], { timeout: 10_000 }).status === 0;
if (!straceWorks) console.warn('strace is missing or may not trace here: real errors of system calls are SKIPPED');

describe.skipIf(!straceWorks)('a system call that fails with EIO once', () => {
  for (const call of ['fdatasync', 'pwrite64']) {
    test(`${call} of a log: abort with one line, no second fsync of it, and nothing acknowledged is lost`, async () => {
      const path = dataDir();
      const log = await prepare(path, 'eio');
      const trace = join(folder.path, `${call}.strace`);
      const broker = await startBroker(path, {
        prefix: ['strace', '-f', '-o', trace, '-P', log, '-e', 'trace=fdatasync,fsync,pwrite64', '-e'].concat(
          `inject=${call}:error=EIO:when=3`,
        ),
        env: { UV_USE_IO_URING: '0' },
      });
      try {
        const acknowledged = await produceUntilDown(broker, 'eio');
        await expectFatalEnd(broker);
        const calls = readFileSync(trace, 'utf8')
          .split('\n')
          .filter((line) => line.includes('('));
        const failed = calls.findIndex((line) => line.includes('(INJECTED)'));
        expect(failed).toBeGreaterThanOrEqual(0);
        expect(calls.slice(failed + 1).filter((line) => /f(data)?sync\(|pwrite64\(/.test(line))).toEqual([]);
        expect(acknowledged.size).toBeGreaterThan(0);
        await expectTruth(path, 'eio', acknowledged);
      } finally {
        broker.destroy();
      }
    });
  }
});

describe('a failure elsewhere than in the log', () => {
  test.each([
    ['sync:topics/*/checkpoint:EIO', 'a checkpoint'],
    ['write:topics/*/checkpoint:nth=4:EIO', 'a checkpoint'],
    ['rename:topics/*:nth=2:EIO', 'the name of a segment'],
    ['syncdir:topics/*:nth=3:EIO', 'the folder of a segment'],
    ['truncate:topics/*:EIO', 'the end of a sealed segment'],
  ])('%s, %s: abort with one line, and nothing acknowledged is lost', async (fault) => {
    const path = dataDir();
    await prepare(path, 'elsewhere');
    const broker = await startBroker(path, { args: ['--segment-bytes', '4096'], env: { RIVULET_FAULT: fault } });
    try {
      const acknowledged = await produceUntilDown(broker, 'elsewhere');
      await expectFatalEnd(broker);
      await expectTruth(path, 'elsewhere', acknowledged);
    } finally {
      broker.destroy();
    }
  });

  test('of the metadata log: a topic that could not be recorded is not acknowledged', async () => {
    const path = dataDir();
    await prepare(path, 'before');
    const broker = await startBroker(path, { env: { RIVULET_FAULT: 'sync:meta-log/*.log:nth=3:EIO' } });
    try {
      const { status } = await rivulet(['topic', 'create', 'lost', '--server', broker.server, '--timeout-ms', '2000']);
      expect(status).toBe(1);
      await expectFatalEnd(broker);
      await expectTruth(path, 'before', new Map([[0, 'record 0']]));
    } finally {
      broker.destroy();
    }
  });

  test('of a read: no record is made up, the process says so and ends, and the next start serves all', async () => {
    const path = dataDir();
    await prepare(path, 'read');
    const broker = await startBroker(path, { env: { RIVULET_FAULT: 'populate:topics/*.log:EIO' } });
    try {
      const client = await RawClient.tcp(portOf(broker.server));
      await client.hello();
      const { topics } = await client.metadata(['read']);
      await expect(client.fetch(topics[0]?.id ?? expect.unreachable('no topic'), 0)).rejects.toThrow(
        /connection ended/,
      );
      await expectFatalEnd(broker);
      await expectTruth(path, 'read', new Map([[0, 'record 0']]));
    } finally {
      broker.destroy();
    }
  });
});
