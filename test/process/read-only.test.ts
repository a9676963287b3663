// A file system that turns read-only under the built executable, as ext4 does when it meets an error.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { done, rivulet, startBroker, temporaryFolder } from './harness.ts';
import { expectTruth, mayMount, produceUntilDown } from './until-down.ts';

const folder = temporaryFolder();
afterAll(() => {
  folder.remove();
});

test('a file system that turns read-only: abort with one line; a start on it says so; writable again, nothing is lost', async (context) => {
  if (!mayMount() || !existsSync('/dev/loop-control')) context.skip('needs the right to mount and loop devices');
  const image = join(folder.path, 'image');
  const mounted = join(folder.path, 'mounted');
  mkdirSync(mounted);
  writeFileSync(image, '');
  execFileSync('truncate', ['-s', '600M', image]);
  if (spawnSync('mkfs.ext4', ['-q', '-F', image]).status !== 0) context.skip('needs mkfs.ext4');
  if (spawnSync('mount', ['-o', 'loop', image, mounted]).status !== 0) context.skip('may not mount a loop device');
  try {
    const path = join(mounted, 'data');
    const args = ['--min-free-bytes', '0', '--segment-bytes', '1MiB'];
    const first = await startBroker(path, { args });
    await done(['topic', 'create', 'ro', '--server', first.server]);
    const producing = produceUntilDown(first, 'ro', 1_000_000);
    await new Promise((resolve) => setTimeout(resolve, 500));
    // What ext4 does to itself when it meets an error.
    execFileSync('mount', ['-o', 'remount,abort', mounted]);
    const acknowledged = await producing;
    expect(await first.ended, first.stderr()).toEqual({ status: null, signal: 'SIGABRT' });
    expect(first.stderr().match(/"event":"fatal","reason":"STORAGE_FAILED"/g)).toHaveLength(1);
    expect(acknowledged.size).toBeGreaterThan(10);
    const refused = await rivulet(
      ['serve', '--data-dir', path, '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0'],
      { timeoutMs: 20_000 },
    );
    expect(refused.status).toBe(74);
    expect(refused.stderr).toMatch(/DATA_DIR_UNUSABLE/);
    execFileSync('umount', [mounted]);
    execFileSync('mount', ['-o', 'loop', image, mounted]);
    await expectTruth(path, 'ro', acknowledged);
  } finally {
    execFileSync('umount', ['-l', mounted]);
  }
});
