// Whoever reads the output may go early, as `head` does, and a disk may be full: no command ends in a stack trace.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import { EXECUTABLE, rivulet, SHARED_DATA, temporaryFolder } from './harness.ts';

const folder = temporaryFolder();
afterAll(() => {
  folder.remove();
});

interface Ended {
  readonly status: number | null;
  readonly stderr: string;
}

/** Standard output is a pipe whose reader is gone before anything is written. */
async function withoutReader(args: readonly string[]): Promise<Ended> {
  const child = spawn(EXECUTABLE, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.destroy();
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  clearTimeout(timer);
  return { status, stderr };
}

test.each([
  '--help',
  '--version',
  'version',
  'serve --help',
  'topic create --help',
  'produce --help',
  'consume --help',
  'segtool repair --help',
])('%s, and nobody reads it: quiet, status 0', async (line) => {
  expect(await withoutReader(line.split(' '))).toEqual({ status: 0, stderr: '' });
});

test('segtool, and nobody reads it: quiet, and the status is that of what was found', async () => {
  const log = `${folder.path}/log`;
  const lines = Array.from({ length: 2000 }, (_, at) =>
    JSON.stringify({ timestamp: at, value: `${SHARED_DATA} ${String(at)}` }),
  );
  expect((await rivulet(['segtool', 'import', log, '--write'], { input: Buffer.from(lines.join('\n')) })).status).toBe(
    0,
  );
  for (const command of ['verify', 'stats', 'inspect', 'dump', 'export'])
    expect(await withoutReader(['segtool', command, log, '--no-progress'])).toEqual({ status: 0, stderr: '' });
  const { status } = await rivulet(['segtool', 'verify', `${folder.path}/nothing`]);
  expect((await withoutReader(['segtool', 'verify', `${folder.path}/nothing`])).status).toBe(status);
});

test.skipIf(!existsSync('/dev/full'))('a full disk under the output is one line and status 1', async () => {
  for (const args of ['--help', 'version']) {
    const { status, stderr } = await rivulet(['-c', `exec "$0" ${args} > /dev/full`, EXECUTABLE], {
      executable: '/bin/sh',
    });
    expect(status).toBe(1);
    expect(stderr).toMatch(/^rivulet: standard output: ENOSPC[^\n]*\n$/);
  }
});
