// The machine is short of descriptors or of room under the built executable: that ends nothing, and passes by itself.
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { done, rivulet, startBroker, temporaryFolder, type RunningBroker } from './harness.ts';

const folder = temporaryFolder();
afterAll(() => {
  folder.remove();
});
let count = 0;
function dataDir(): string {
  count += 1;
  return join(folder.path, `data-${String(count)}`);
}

async function expectServed(broker: RunningBroker, topic: string): Promise<void> {
  let last = '';
  for (let round = 0; round < 30; round += 1) {
    const { status, stderr } = await rivulet(['produce', topic, '--server', broker.server], {
      input: Buffer.from('it passed\n'),
    });
    if (status === 0) {
      expect((await done(['consume', topic, '--server', broker.server])).toString()).toContain('it passed\n');
      return;
    }
    last = stderr;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  expect.fail(`never served: ${last}\n${broker.stderr()}`);
}

describe('pressure while a topic is made', () => {
  for (const fault of [
    'write:topics/*/checkpoint*:count=3:ENOSPC',
    'open:topics/*:count=4:EMFILE',
    'mkdir:topics/*:count=2:ENOSPC',
    'allocate:topics/*:count=3:ENOSPC',
    'readdir:topics/*:count=2:EMFILE',
  ]) {
    test(`${fault}: the broker goes on, and the topic is served when it has passed`, async () => {
      const broker = await startBroker(dataDir(), { env: { RIVULET_FAULT: fault } });
      try {
        await rivulet(['topic', 'create', 'pressed', '--server', broker.server]);
        await expectServed(broker, 'pressed');
        await broker.stop();
      } finally {
        broker.destroy();
      }
    }, 60_000);
  }
});

describe('pressure while the broker stops', () => {
  for (const fault of ['write:topics/*.tmp:count=*:delay=300:ENOSPC', 'open:topics/*.tmp:nth=3:count=*:EMFILE']) {
    test(`${fault}: SIGTERM ends it, and the next start has all that was acknowledged`, async () => {
      const path = dataDir();
      const broker = await startBroker(path, {
        args: ['--segment-bytes', '1048576', '--preallocate', 'zero'],
        env: { RIVULET_FAULT: fault },
      });
      const line = `${'q'.repeat(1000)}\n`;
      try {
        await done(['topic', 'create', 'stopped', '--server', broker.server]);
        const producing = rivulet(['produce', 'stopped', '--server', broker.server, '--delivery-timeout-ms', '5000'], {
          input: Buffer.from(line.repeat(6000)),
        });
        await new Promise((resolve) => setTimeout(resolve, 2500));
        await broker.stop();
        await producing;
      } finally {
        broker.destroy();
      }
      const again = await startBroker(path);
      try {
        const read = (await done(['consume', 'stopped', '--server', again.server])).toString().split('\n');
        expect(read.pop()).toBe('');
        expect(read.length).toBeGreaterThan(500);
        expect(read.every((each) => each.length === 1000)).toBe(true);
        await again.stop();
      } finally {
        again.destroy();
      }
    }, 60_000);
  }
});
