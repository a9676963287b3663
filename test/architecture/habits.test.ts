import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { ERROR_NAMES, ERRORS } from '../../src/base/errors.ts';
import { FATAL } from '../../src/base/fatal.ts';
import { ROOT, sources } from './source.ts';

const files = sources('src');

describe('files', () => {
  test('no dumping grounds: utils, helpers, common, types', () => {
    const names = /(^|\/)(utils?|helpers?|common|types|misc)(\.ts|\/)/;
    expect([...files, ...sources('test')].map(({ path }) => path).filter((path) => names.test(path))).toEqual([]);
  });
  test('none over 600 lines', () => {
    expect(files.filter(({ text }) => text.split('\n').length > 601).map(({ path }) => path)).toEqual([]);
  });
  test('a disabled rule carries its reason', () => {
    const bare = files.flatMap(({ path, text }) =>
      text
        .split('\n')
        .filter((line) => /(oxlint|eslint)-disable/.test(line) && !/-- \S/.test(line))
        .map((line) => `${path}: ${line.trim()}`),
    );
    expect(bare).toEqual([]);
  });
  test('nothing is left to be done later', () => {
    const later = /\b(TODO|FIXME|XXX|HACK)\b/;
    expect(files.filter(({ text }) => later.test(text)).map(({ path }) => path)).toEqual([]);
  });
});

describe('repository', () => {
  test('the top level holds only what was asked for', () => {
    const allowed = [
      'package.json',
      'package-lock.json',
      'tsconfig.json',
      'src',
      'native',
      'bench',
      'test',
      'build.sh',
      'README.md',
      'docs',
      'LICENSE',
      'examples',
    ];
    const tracked = execFileSync('git', ['ls-tree', '--name-only', 'HEAD'], { cwd: ROOT, encoding: 'utf8' })
      .trim()
      .split('\n');
    expect(tracked.filter((name) => !name.startsWith('.') && !allowed.includes(name))).toEqual([]);
  });
  test('the lock file names no download addresses', () => {
    const lock = readFileSync(join(ROOT, 'package-lock.json'), 'utf8');
    expect(lock).not.toMatch(/"resolved"|https?:\/\/[a-z.]*(npmjs|yarnpkg)/);
  });
  test('the executable and the addon are not tracked', () => {
    const tracked = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' });
    expect(tracked).not.toMatch(/\.node$|^dist\//m);
  });
});

describe('registries', () => {
  test('error numbers never change and are never reused', () => {
    const golden = join(ROOT, 'test/golden/errors.json');
    const known = JSON.parse(readFileSync(golden, 'utf8')) as Record<string, number>;
    for (const [name, code] of Object.entries(known)) {
      expect(ERROR_NAMES, `${name} was released`).toContain(name);
      expect(ERRORS[name as keyof typeof ERRORS].code, name).toBe(code);
    }
    const added = ERROR_NAMES.filter((name) => known[name] === undefined);
    expect(added, 'new errors go into test/golden/errors.json, once').toEqual([]);
  });
  test('each fatal reason has an exit status of its own', () => {
    const statuses = Object.values(FATAL).map(({ status }) => status);
    expect(new Set(statuses).size).toBe(statuses.length);
    expect(statuses.every((status) => status > 2 && status < 256)).toBe(true);
  });
  test('every test folder mirrors a source folder or is a kind of test', () => {
    const kinds = ['architecture', 'conformance', 'crash', 'golden', 'process'];
    const folders = readdirSync(join(ROOT, 'test'), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(
      folders.map(({ name }) => name).filter((name) => !kinds.includes(name) && !existsSync(join(ROOT, 'src', name))),
    ).toEqual([]);
  });
});
