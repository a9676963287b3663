// What goes in through `produce` comes out of `consume` byte for byte.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { done, realLogs, rivulet, startBroker, temporaryFolder, type RunningBroker } from './harness.ts';

const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;

describe('produce and consume', () => {
  const folder = temporaryFolder();
  let broker: RunningBroker;
  beforeAll(async () => {
    broker = await startBroker(folder.path);
  });
  afterAll(async () => {
    await broker.stop();
    folder.remove();
  });

  async function roundTrip(
    topic: string,
    input: Uint8Array,
    produceFlags: readonly string[] = [],
    consumeFlags: readonly string[] = [],
  ): Promise<Buffer> {
    await done(['topic', 'create', topic, '--server', broker.server]);
    await done(['produce', topic, '--server', broker.server, ...produceFlags], { input });
    return await done(['consume', topic, '--server', broker.server, '--from', 'earliest', ...consumeFlags]);
  }

  for (const { name, bytes } of realLogs()) {
    for (const codec of CODECS) {
      test(`${name} comes back byte for byte with ${codec}`, async () => {
        const back = await roundTrip(`log-${name}-${codec}`, bytes, ['--compression', codec]);
        expect(back.equals(bytes)).toBe(true);
      });
    }
  }

  test('an empty file gives no record and no byte', async () => {
    expect((await roundTrip('empty', new Uint8Array(0))).length).toBe(0);
  });

  test('a file of empty lines comes back', async () => {
    const input = Buffer.from('\n\r\n\n\n\r\n');
    expect((await roundTrip('empty-lines', input)).equals(input)).toBe(true);
  });

  test('one line of 8 MiB comes back with every codec', async () => {
    const line = Buffer.alloc(8 * 1024 * 1024);
    for (let at = 0, state = 1; at < line.length; at += 1) {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      line[at] = 0x20 + ((state >>> 16) % 90);
    }
    for (const codec of CODECS) {
      const back = await roundTrip(`large-${codec}`, line, ['--compression', codec]);
      expect(back.equals(line), codec).toBe(true);
    }
  });

  test('a line over the limit is refused by name, and nothing hangs', async () => {
    await done(['topic', 'create', 'too-large', '--server', broker.server]);
    const { status, stderr } = await rivulet(['produce', 'too-large', '--server', broker.server], {
      input: Buffer.alloc(9 * 1024 * 1024, 0x61),
    });
    expect(status).toBe(1);
    expect(stderr).toMatch(/record 1 of the input/);
  });

  test('binary data with a separator comes back', async () => {
    const input = Buffer.alloc(300_000);
    for (let at = 0, state = 7; at < input.length; at += 1) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      input[at] = state >>> 24;
    }
    expect((await roundTrip('binary-0', input, ['--separator', '\\0'], ['--separator', '\\0'])).equals(input)).toBe(
      true,
    );
    expect(
      (await roundTrip('binary-2', input, ['--separator', '\\x00\\xff'], ['--separator', '\\x00\\xff'])).equals(input),
    ).toBe(true);
  });

  test('keys, headers and offsets are shown by --json and --format', async () => {
    await done(['topic', 'create', 'keyed', '--server', broker.server]);
    await done(['produce', 'keyed', '--server', broker.server, '-K', ':', '-H', 'source=test'], {
      input: Buffer.from('a:1\nb:2\nplain\n'),
    });
    const json = (await done(['consume', 'keyed', '--server', broker.server, '--json']))
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(json.map(({ offset, key, value, headers }) => ({ offset, key, value, headers }))).toEqual([
      { offset: 0, key: 'a', value: '1', headers: [{ key: 'source', value: 'test' }] },
      { offset: 1, key: 'b', value: '2', headers: [{ key: 'source', value: 'test' }] },
      { offset: 2, key: null, value: 'plain', headers: [{ key: 'source', value: 'test' }] },
    ]);
    const formatted = await done([
      'consume',
      'keyed',
      '--server',
      broker.server,
      '--from',
      '1',
      '--format',
      '%o:%k=%s\\n',
    ]);
    expect(formatted.toString()).toBe('1:b=2\n2:=plain\n');
  });

  test('--max, --from an offset and --from a time give what they name', async () => {
    await done(['topic', 'create', 'ranges', '--server', broker.server]);
    await done(['produce', 'ranges', '--server', broker.server], { input: Buffer.from('a\nb\nc\n') });
    const between = new Date(Date.now() + 1).toISOString();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await done(['produce', 'ranges', '--server', broker.server], { input: Buffer.from('d\ne\n') });
    const consume = async (...flags: string[]): Promise<string> =>
      (await done(['consume', 'ranges', '--server', broker.server, ...flags])).toString();
    expect(await consume('--from', '1', '--max', '2')).toBe('b\nc\n');
    expect(await consume('--from', between)).toBe('d\ne\n');
    expect(await consume('--from', 'latest')).toBe('');
  });

  test('errors say what is wrong and what to do, with the status of their kind', async () => {
    const missing = await rivulet(['consume', 'no-such-topic', '--server', broker.server]);
    expect(missing.status).toBe(1);
    expect(missing.stderr).toMatch(/UNKNOWN_TOPIC[\s\S]*rivulet topic create/);
    const wrong = await rivulet(['consume', 'x', '--from', 'yesterday', '--server', broker.server]);
    expect(wrong.status).toBe(2);
    expect(wrong.stderr).toMatch(/--from is earliest, latest/);
    const unknown = await rivulet(['frobnicate']);
    expect(unknown.status).toBe(2);
    const nobody = await rivulet(['topic', 'list', '--server', '127.0.0.1:1', '--timeout-ms', '2000']);
    expect(nobody.status).toBe(1);
    expect(nobody.stderr).toMatch(/rivulet serve/);
  });
});
