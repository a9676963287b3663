// The client library is used on machines that have neither the broker's addon nor LMDB.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const PROGRAM = `
  import { registerHooks } from 'node:module';
  const loaded = [];
  registerHooks({
    load(url, context, next) {
      loaded.push(url);
      return next(url, context);
    },
  });
  const { connect } = await import(process.argv[1]);
  const failure = await connect({ servers: ['127.0.0.1:1'], connectTimeoutMs: 1000 }).catch((error) => error.code);
  console.log(JSON.stringify({ failure, loaded }));
`;

test('connect loads neither the addon, nor LMDB, nor anything of the broker', () => {
  const entry = fileURLToPath(new URL('../../src/client/index.ts', import.meta.url));
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', PROGRAM, entry], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  expect(child.stderr).toBe('');
  const { failure, loaded } = JSON.parse(child.stdout) as { failure: string; loaded: string[] };
  expect(failure).toBe('NOT_CONNECTED');
  expect(loaded.some((url) => url.endsWith('/client/client.ts'))).toBe(true);
  const strangers =
    /lmdb|\/native\/|\/src\/(host|storage|replication|broker|server|cli|segtool|sim)\/|pino|prom-client|commander/;
  expect(loaded.filter((url) => strangers.test(url))).toEqual([]);
});
