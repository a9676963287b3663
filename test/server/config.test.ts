import { expect, test } from 'vitest';
import {
  ConfigError,
  configOf,
  parseConfig,
  parsePeers,
  parseSetting,
  SETTINGS,
  settingOf,
} from '../../src/server/config.ts';

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
  ['peers', '', /empty/],
  ['peers', 'a:9400', /"a:9400" must be ID@HOST:PORT/],
  ['peers', '1@a:9400, 2@b:9400', /" 2@b:9400" must be ID@HOST:PORT/],
  ['peers', '1@a:9400,', /"" must be/],
  ['peers', '1@a', /"1@a" must be/],
  ['peers', '-1@a:9400', /"-1@a:9400"/],
  ['peers', '1@::1:9400', /IPv6 address in brackets/],
  ['peers', '1@[::x]:9400', /IPv6 address in brackets/],
  ['peers', '1@[127.0.0.1]:9400', /IPv6 address in brackets/],
  ['peers', '1@a:0', /node 1 has port 0/],
  ['peers', '1@a:65536', /"1@a:65536"/],
  ['peers', '3000000000@a:9400', /node id 3000000000 must be/],
  ['peers', '1@a:9400,2@b:9400,1@c:9400', /node 1 is named twice/],
  ['peers', '1@a:9400,2@a:9400', /a:9400 is named twice, for node 2 too/],
  ['peers', Array.from({ length: 10 }, (_, at) => `${String(at + 1)}@a:${String(at + 1)}`).join(), /names 10 nodes/],
  ['peers', '2@b:9400,3@c:9400', /nodes 2, 3, and this one is node 1; --node-id/],
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

test('peers: names, IPv4 and IPv6 addresses; a node alone by default and by name', () => {
  const three = parseConfig({ 'node-id': '2', peers: '1@edge-1.local:9400,2@10.0.0.2:9400,3@[fe80::1]:65535' });
  expect(three.peers).toEqual([
    { nodeId: 1, host: 'edge-1.local', port: 9400 },
    { nodeId: 2, host: '10.0.0.2', port: 9400 },
    { nodeId: 3, host: 'fe80::1', port: 65_535 },
  ]);
  expect(parseConfig({}).peers).toEqual([]);
  expect(parseConfig({ peers: 'none' }).peers).toEqual([]);
  const nine = Array.from({ length: 9 }, (_, at) => `${String(at)}@a:${String(9400 + at)}`).join();
  expect(parsePeers(nine)).toMatchObject({ ok: true, peers: { length: 9 } });
});

test('configOf: peers of a program are checked like those of a text', () => {
  const first = { nodeId: 1, host: 'a', port: 9400 };
  expect(configOf({ peers: [first] }).peers).toEqual([first]);
  expect(faultOf(() => configOf({ peers: [first, first] }))).toMatch(/^peers: --peers: node 1 is named twice/);
  expect(faultOf(() => configOf({ peers: [{ ...first, port: 1.5 }] }))).toMatch(/^peers: .*port 1\.5/);
  expect(faultOf(() => configOf({ nodeId: 4, peers: [first] }))).toMatch(/^peers: .*this one is node 4/);
});
