import { expect, test } from 'vitest';
import { ConfigError, configOf, parseConfig, parseSetting, SETTINGS, settingOf } from '../../src/server/config.ts';

function faultOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof ConfigError) return `${error.setting}: ${error.message}`;
    throw error;
  }
  throw new Error('it was accepted');
}

test('SETTINGS: names and fields are unique, and each default is a value of its own setting', () => {
  expect(new Set(SETTINGS.map(({ name }) => name)).size).toBe(SETTINGS.length);
  expect(new Set(SETTINGS.map(({ key }) => key)).size).toBe(SETTINGS.length);
  const defaults = parseConfig({});
  for (const setting of SETTINGS) {
    expect(parseSetting(setting, setting.defaultText)).toEqual(defaults[setting.key]);
    expect(setting.sentence).toMatch(/\.$/);
    expect(settingOf(setting.name)).toBe(setting);
  }
});

test('parseConfig: units, addresses and none', () => {
  const config = parseConfig({
    'segment-bytes': '16MiB',
    'retention-ms': '36h',
    listen: '[::1]:0',
    'admin-listen': 'none',
    fsync: 'interval',
    'retention-bytes': '-1',
  });
  expect(config).toMatchObject({
    segmentBytes: 16 * 1024 * 1024,
    retentionMs: 129_600_000,
    listen: { host: '::1', port: 0 },
    adminListen: undefined,
    fsync: 'interval',
    retentionBytes: -1,
  });
});

test.each([
  ['fsync', 'sometimes', /one of always, interval, never/],
  ['segment-bytes', '10', /1024 to/],
  ['segment-bytes', '1XB', /whole number/],
  ['segment-bytes', '-1', /1024 to/],
  ['retention-ms', '0', /-1 for no limit/],
  ['listen', '127.0.0.1', /HOST:PORT/],
  ['listen', '127.0.0.1:99999', /HOST:PORT/],
  ['listen', '0.0.0.0:9400', /--insecure/],
  ['admin-listen', '0.0.0.0:9401', /--insecure/],
  ['insecure', 'yes', /true or false/],
  ['node-id', '1.5', /whole number/],
  ['data-dir', '', /empty/],
  ['tls-key', undefined, /go together/],
  ['advertise', 'broker:0', /port/],
])('parseConfig: %s = %j is refused by name', (name, text, message) => {
  const texts: Record<string, string> = text === undefined ? { 'tls-cert': 'cert.pem' } : { [name]: text };
  const fault = faultOf(() => parseConfig(texts));
  expect(fault.startsWith(`${name}: `)).toBe(true);
  expect(fault).toMatch(message);
});

test('parseConfig: a name that is not a setting is refused', () => {
  expect(faultOf(() => parseConfig({ 'segment-byte': '1MiB' }))).toMatch(/no setting "segment-byte"/);
});

test('configOf: values of a program are checked like texts', () => {
  expect(faultOf(() => configOf({ segmentBytes: 3 }))).toMatch(/^segment-bytes/);
  expect(faultOf(() => configOf({ fsync: 'maybe' as 'always' }))).toMatch(/^fsync/);
  expect(configOf({ adminListen: undefined }).adminListen).toBeUndefined();
  expect(configOf({}).adminListen).toEqual({ host: '127.0.0.1', port: 9401 });
  expect(configOf({ listen: { host: '0.0.0.0', port: 1 }, insecure: true }).listen.host).toBe('0.0.0.0');
});
