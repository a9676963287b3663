// The import table of docs/ARCHITECTURE.md. Anything else fails the build: static, dynamic or type-only.
import { dirname, join, normalize } from 'node:path';
import { describe, expect, test } from 'vitest';
import { importsOf, sources } from './source.ts';

const PURE = ['base', 'format', 'protocol', 'core'];
const WORK = ['storage', 'core', 'protocol', 'ports', 'format', 'base'];

/** Group → groups it may import besides itself. */
const TABLE: Readonly<Record<string, readonly string[]>> = {
  base: [],
  format: ['base'],
  protocol: ['base', 'format'],
  core: ['base'],
  ports: ['base'],
  storage: ['ports', 'format', 'base'],
  replication: WORK,
  broker: ['replication', ...WORK],
  platform: ['protocol', 'ports', 'base'],
  host: ['platform', 'protocol', 'ports', 'base'],
  sim: ['ports', 'base'],
  client: ['platform', 'ports', 'protocol', 'format', 'base'],
  server: ['host', 'platform', 'broker', 'replication', ...WORK, 'client', 'segtool'],
  segtool: ['storage', 'format', 'ports', 'base'],
  cli: ['server', 'client', 'segtool', 'host', 'platform', 'format', 'ports', 'base'],
};
/** Packages and node: modules, per group; pure folders and seams have none. */
const OUTSIDE: Readonly<Record<string, readonly RegExp[]>> = {
  platform: [/^node:/, /^pino$/, /^prom-client$/],
  host: [/^node:/, /^lmdb$/],
  sim: [/^node:timers$/],
  server: [/^node:/],
  cli: [/^node:/, /^commander$/],
};

function groupOf(path: string): string {
  return path.split('/')[1] ?? '';
}

const files = sources('src').filter(({ path }) => path !== 'src/pure-globals.d.ts');

describe('imports', () => {
  test('every folder of src is in the table', () => {
    expect([...new Set(files.map(({ path }) => groupOf(path)))].filter((group) => TABLE[group] === undefined)).toEqual(
      [],
    );
  });

  test('every import is one that the table allows', () => {
    const forbidden: string[] = [];
    for (const file of files) {
      const group = groupOf(file.path);
      for (const target of importsOf(file)) {
        if (!target.startsWith('.')) {
          if (!(OUTSIDE[group] ?? []).some((allowed) => allowed.test(target)))
            forbidden.push(`${file.path}: ${target}`);
          continue;
        }
        const into = groupOf(normalize(join(dirname(file.path), target)));
        if (into !== group && !(TABLE[group] ?? []).includes(into)) forbidden.push(`${file.path}: ${target}`);
      }
    }
    expect(forbidden).toEqual([]);
  });

  test('relative imports name a file of the tree, with its ending', () => {
    const known = new Set(files.map(({ path }) => path));
    const missing = files.flatMap((file) =>
      importsOf(file)
        .filter((target) => target.startsWith('.') && !known.has(normalize(join(dirname(file.path), target))))
        .map((target) => `${file.path}: ${target}`),
    );
    expect(missing).toEqual([]);
  });

  test('the core folders do not import each other', () => {
    const crossing = files
      .filter(({ path }) => path.startsWith('src/core/'))
      .flatMap((file) =>
        importsOf(file)
          .map((target) => normalize(join(dirname(file.path), target)))
          .filter((target) => target.startsWith('src/core/') && target.split('/')[2] !== file.path.split('/')[2])
          .map((target) => `${file.path}: ${target}`),
      );
    expect(crossing).toEqual([]);
  });

  test('what the command line reaches is free of the simulator', () => {
    const byPath = new Map(files.map((file) => [file.path, file]));
    const seen = new Set<string>();
    const waiting = ['src/cli/main.ts', 'src/server/index.ts'];
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      const file = byPath.get(path);
      if (file === undefined || seen.has(path)) continue;
      seen.add(path);
      for (const target of importsOf(file))
        if (target.startsWith('.')) waiting.push(normalize(join(dirname(path), target)));
    }
    expect(seen.size).toBeGreaterThan(50);
    expect([...seen].filter((path) => groupOf(path) === 'sim')).toEqual([]);
  });
});

describe('purity', () => {
  const pure = files.filter(({ path }) => PURE.includes(groupOf(path)));
  test('pure folders name nothing asynchronous, random or timed', () => {
    const banned =
      /\b(async|await|Promise|Date|setTimeout|setInterval|queueMicrotask|performance|process|Buffer|Math\.random)\b/;
    const found = pure.flatMap(({ path, code }) =>
      code
        .split('\n')
        .map((line, index) => ({
          line: line.replace(/'[^']*'|`[^`]*`|"[^"]*"/g, ''),
          at: `${path}:${String(index + 1)}`,
        }))
        .filter(({ line }) => banned.test(line))
        .map(({ at }) => at),
    );
    expect(found).toEqual([]);
  });

  test('only ports read clocks, chance and timers', () => {
    const banned = /\b(Date\.now|new Date\(\)|performance\.now|Math\.random|setTimeout|setInterval)\b/;
    const allowed = ['platform', 'host', 'sim', 'cli'];
    const found = files
      .filter(({ path, code }) => !allowed.includes(groupOf(path)) && banned.test(code))
      .map(({ path }) => path);
    expect(found).toEqual([]);
  });
});

describe('what a CommonJS bundle cannot have', () => {
  test('no top-level await, and import.meta only where a bundle never gets to', () => {
    const found = files
      .filter(({ path }) => groupOf(path) !== 'sim')
      .filter(
        ({ path, code }) =>
          /^(?:const .* = )?await /m.test(code) ||
          (code.includes('import.meta') && !['src/platform/checksum.ts', 'src/server/real-broker.ts'].includes(path)),
      )
      .map(({ path }) => path);
    expect(found).toEqual([]);
  });
});
