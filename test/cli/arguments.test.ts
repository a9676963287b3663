import { describe, expect, test } from 'vitest';
import { codec, keyValue, separator, serverList, startPosition, wholeNumber } from '../../src/cli/arguments.ts';
import { explain, UsageError } from '../../src/cli/failure.ts';
import { ERROR_NAMES, RivuletError } from '../../src/base/errors.ts';
import { FATAL, FatalError } from '../../src/base/fatal.ts';
import { serveSettings } from '../../src/cli/serve-settings.ts';
import { variableOf } from '../../src/cli/serve-options.ts';
import { SETTINGS } from '../../src/server/config.ts';
import { table } from '../../src/cli/output.ts';
import { compileFormat } from '../../src/cli/records.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

describe('values of flags', () => {
  test('whole numbers: what is not one within the range is refused by the name of the flag', () => {
    const parse = wholeNumber('--max', 0, 10);
    expect(parse('10')).toBe(10);
    for (const bad of ['', '-1', '11', '1.5', '1e3', 'x', '0x10', ' 1'])
      expect(() => parse(bad), bad).toThrow(/--max needs a whole number from 0 to 10/);
  });
  test('--from: words, offsets and times', () => {
    expect(startPosition('earliest')).toBe('earliest');
    expect(startPosition('42')).toBe(42);
    expect(startPosition('2026-12-01T08:00:00Z')).toEqual({ timestamp: Date.UTC(2026, 11, 1, 8) });
    for (const bad of ['yesterday', '-1', '', '2026-13-01', '12:00'])
      expect(() => startPosition(bad), bad).toThrow(UsageError);
  });
  test('--separator: escapes, and bytes of any text', () => {
    const parse = separator('--separator');
    expect([...parse('\\n')]).toEqual([10]);
    expect([...parse('\\0')]).toEqual([0]);
    expect([...parse('\\x00\\xfF')]).toEqual([0, 255]);
    expect([...parse('ä|\\\\')]).toEqual([0xc3, 0xa4, 0x7c, 0x5c]);
    for (const bad of ['', '\\q', '\\x1', '\\']) expect(() => parse(bad), bad).toThrow(UsageError);
  });
  test('codecs, servers and headers', () => {
    expect(codec('zstd')).toBe('zstd');
    expect(() => codec('brotli')).toThrow(/none, gzip, snappy, lz4, zstd/);
    expect(serverList('a:1, [::1]:2,c')).toEqual(['a:1', '[::1]:2', 'c']);
    for (const bad of ['', ',', 'a:b', 'a:1:2']) expect(() => serverList(bad), bad).toThrow(UsageError);
    const parse = keyValue('--header');
    expect(parse('b=2=3', parse('a=1'))).toEqual({ a: '1', b: '2=3' });
    expect(() => parse('=x')).toThrow(UsageError);
  });
  test('--format: fields, and an unknown one is refused', () => {
    const record = {
      topic: 't',
      partition: 1,
      offset: 2,
      timestamp: 3,
      key: null,
      value: Buffer.from('v'),
      headers: [],
    };
    const format = compileFormat(Buffer.from('%t/%p@%o %T [%k] %s %S%%\n'));
    expect(Buffer.concat([...(format?.(record) ?? [])]).toString()).toBe('t/1@2 3 [] v 1%\n');
    expect(compileFormat(Buffer.from('%q'))).toBeUndefined();
    expect(compileFormat(Buffer.from('%'))).toBeUndefined();
  });
});

describe('settings of serve', () => {
  test('flags win over variables, variables over the file, the file over defaults', () => {
    const folder = mkdtempSync(join(tmpdir(), 'rivulet-config-'));
    try {
      const file = join(folder, 'config.json');
      writeFileSync(file, JSON.stringify({ 'segment-bytes': '1MiB', fsync: 'never', 'max-connections': 7 }));
      const settings = serveSettings(
        { config: file, fsync: 'interval' },
        { RIVULET_FSYNC: 'always', RIVULET_SEGMENT_BYTES: '2MiB' },
      );
      expect(settings).toMatchObject({
        fsync: 'interval',
        segmentBytes: 2 * 1024 * 1024,
        maxConnections: 7,
        groupCommitLinger: 0,
      });
      writeFileSync(file, JSON.stringify({ 'segment-bites': 1 }));
      expect(() => serveSettings({ config: file }, {})).toThrow(/segment-bites/);
      writeFileSync(file, '{');
      expect(() => serveSettings({ config: file }, {})).toThrow(/config\.json/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
  test('a bad value names its setting and where it came from', () => {
    expect(() => serveSettings({ fsync: 'sometimes' }, {})).toThrow(/--fsync is "sometimes"/);
    expect(() => serveSettings({}, { RIVULET_FSYNC_INTERVAL: 'soon' })).toThrow(
      /fsync-interval.*RIVULET_FSYNC_INTERVAL/,
    );
    expect(() => serveSettings({ listen: '0.0.0.0:9400' }, {})).toThrow(/--insecure/);
  });
  test('each setting has a variable of its own', () => {
    expect(new Set(SETTINGS.map(variableOf)).size).toBe(SETTINGS.length);
  });
});

describe('errors of the command line', () => {
  test('every error of the registry becomes a message with status 1, and says what to do unless its message does', () => {
    for (const name of ERROR_NAMES) {
      const explained = explain(new RivuletError(name, 'what happened'));
      expect(explained).toMatchObject({ status: 1, code: name, message: 'what happened' });
      expect(explained.advice, name).toMatch(/\S/);
    }
  });
  test('usage is 2, and each fatal reason has its own status', () => {
    expect(explain(new UsageError('x')).status).toBe(2);
    expect(explain(new FatalError('DATA_DIR_LOCKED', 'x')).status).toBe(FATAL.DATA_DIR_LOCKED.status);
  });
});

describe('table', () => {
  test('numbers to the right, text to the left, no blanks at line ends', () => {
    expect(
      table(
        ['NAME', 'N'],
        [
          ['a', '1'],
          ['long-name', '20'],
        ],
      ),
    ).toBe('NAME        N\na           1\nlong-name  20');
  });
});
