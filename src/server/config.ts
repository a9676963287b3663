// Every setting of a broker, once: the command line makes flags, RIVULET_… variables and keys of the config file of this
// table, and embedding programs give the same values by field. All are checked before anything is touched.
import { isIP } from 'node:net';
import {
  CONNECTIONS_MAX_DEFAULT,
  CONNECTIONS_PER_ADDRESS_MAX_DEFAULT,
  HANDSHAKE_TIMEOUT_MS_DEFAULT,
  IDLE_TIMEOUT_MS_DEFAULT,
  INDEX_INTERVAL_BYTES_DEFAULT,
  INPUT_BYTES_MAX_DEFAULT,
  OUTPUT_BYTES_MAX_DEFAULT,
  PARTITIONS_PER_TOPIC_MAX,
  REQUESTS_IN_FLIGHT_MAX_DEFAULT,
  SEGMENT_BYTES_DEFAULT,
  SEGMENT_BYTES_MAX,
  SEGMENT_BYTES_MIN,
} from '../base/limits.ts';
import type { Address } from '../ports/network.ts';
import type { LogLevel } from '../ports/telemetry.ts';
import type { FsyncPolicy, Preallocation } from '../storage/config.ts';
import { parseHostPort, parsePeers, peersFault, type PeerNode } from './peers.ts';

export { parsePeers, type ParsedPeers, type PeerNode } from './peers.ts';

export interface BrokerConfig {
  readonly dataDir: string;
  readonly listen: Address;
  /** Undefined: no admin endpoint. */
  readonly adminListen: Address | undefined;
  /** What clients are told to connect to. Undefined: the listening address, or the host name where that is a wildcard. */
  readonly advertise: Address | undefined;
  readonly nodeId: number;
  /** All nodes of the cluster, this one included. Empty: it is alone. */
  readonly peers: readonly PeerNode[];
  readonly fsync: FsyncPolicy;
  readonly fsyncInterval: number;
  readonly groupCommitMaxBytes: number;
  readonly groupCommitLinger: number;
  readonly segmentBytes: number;
  readonly indexInterval: number;
  readonly preallocate: Preallocation;
  readonly retentionMs: number;
  readonly retentionBytes: number;
  readonly defaultPartitions: number;
  readonly autoCreateTopics: boolean;
  readonly minFreeBytes: number;
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  readonly maxInFlight: number;
  readonly maxOutputBytes: number;
  readonly maxInputBytes: number;
  readonly handshakeTimeout: number;
  readonly idleTimeout: number;
  /** Paths of PEM files. */
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
  readonly tlsClientCa: string | undefined;
  readonly insecure: boolean;
  readonly logLevel: LogLevel;
  readonly validateCompressed: boolean;
  /** Faults of the disk on demand, for tests of the whole program; see src/host/fault-disk.ts. */
  readonly fault: string | undefined;
}

export type SettingKind =
  | 'path'
  | 'address'
  | 'peers'
  | 'bytes'
  | 'milliseconds'
  | 'count'
  | 'switch'
  | 'choice'
  | 'text';

export interface Setting {
  readonly key: keyof BrokerConfig;
  /** Of the flag without dashes, and of the key in the config file. */
  readonly name: string;
  readonly kind: SettingKind;
  /** As it would be written; undefined: none. */
  readonly defaultText: string | undefined;
  /** Of numbers, in bytes, milliseconds or pieces. */
  readonly min?: number;
  readonly max?: number;
  /** −1 is allowed beside the range: no limit. */
  readonly unlimited?: boolean;
  readonly choices?: readonly string[];
  /** `none` is allowed and gives undefined. */
  readonly optional?: boolean;
  /** Not shown in help. */
  readonly hidden?: boolean;
  readonly sentence: string;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const HUGE = Number.MAX_SAFE_INTEGER;

export const SETTINGS: readonly Setting[] = [
  {
    key: 'dataDir',
    name: 'data-dir',
    kind: 'path',
    defaultText: './rivulet-data',
    sentence: 'Directory that holds everything; made when it is missing.',
  },
  {
    key: 'listen',
    name: 'listen',
    kind: 'address',
    defaultText: '127.0.0.1:9400',
    sentence: 'Where clients connect; port 0 takes any free one.',
  },
  {
    key: 'adminListen',
    name: 'admin-listen',
    kind: 'address',
    defaultText: '127.0.0.1:9401',
    optional: true,
    sentence: 'Where /metrics, /healthz and /readyz are served over HTTP; none: nowhere.',
  },
  {
    key: 'advertise',
    name: 'advertise',
    kind: 'address',
    defaultText: undefined,
    optional: true,
    sentence: 'Host and port that clients are told to connect to, where it differs from --listen.',
  },
  {
    key: 'nodeId',
    name: 'node-id',
    kind: 'count',
    defaultText: '1',
    min: 0,
    max: 2 ** 31 - 1,
    sentence: 'Number of this node; a data directory belongs to one node for ever.',
  },
  {
    key: 'peers',
    name: 'peers',
    kind: 'peers',
    defaultText: 'none',
    sentence: 'The nodes of the cluster, this one included, and the same on each of them; none: this node is alone.',
  },
  {
    key: 'fsync',
    name: 'fsync',
    kind: 'choice',
    defaultText: 'always',
    choices: ['always', 'interval', 'never'],
    sentence:
      'What an acknowledged record survives: always, power loss; interval, power loss but for the last interval; never, the end of the process.',
  },
  {
    key: 'fsyncInterval',
    name: 'fsync-interval',
    kind: 'milliseconds',
    defaultText: '1000',
    min: 1,
    max: DAY_MS,
    sentence: 'With --fsync interval: the most that a power loss costs.',
  },
  {
    key: 'groupCommitMaxBytes',
    name: 'group-commit-max-bytes',
    kind: 'bytes',
    defaultText: '1MiB',
    min: 1,
    max: SEGMENT_BYTES_MAX,
    sentence: 'A group commit does not linger once this much waits for it.',
  },
  {
    key: 'groupCommitLinger',
    name: 'group-commit-linger',
    kind: 'milliseconds',
    defaultText: '0',
    min: 0,
    max: 10_000,
    sentence: 'How long the first batch of a group commit waits for company.',
  },
  {
    key: 'segmentBytes',
    name: 'segment-bytes',
    kind: 'bytes',
    defaultText: String(SEGMENT_BYTES_DEFAULT),
    min: SEGMENT_BYTES_MIN,
    max: SEGMENT_BYTES_MAX,
    sentence: 'Size at which a segment is rolled, for topics that do not say; the unit of retention.',
  },
  {
    key: 'indexInterval',
    name: 'index-interval',
    kind: 'bytes',
    defaultText: String(INDEX_INTERVAL_BYTES_DEFAULT),
    min: 256,
    max: 1024 * 1024,
    sentence: 'Bytes of log between two entries of the offset index.',
  },
  {
    key: 'preallocate',
    name: 'preallocate',
    kind: 'choice',
    defaultText: 'recycle',
    choices: ['recycle', 'zero', 'fallocate', 'none'],
    sentence: 'How segments are made ready: from retired ones, zero-filled ahead, reserved only, or not at all.',
  },
  {
    key: 'retentionMs',
    name: 'retention-ms',
    kind: 'milliseconds',
    defaultText: '7d',
    min: 1,
    max: HUGE,
    unlimited: true,
    sentence: 'Age at which segments are removed, for topics that do not say; -1: never.',
  },
  {
    key: 'retentionBytes',
    name: 'retention-bytes',
    kind: 'bytes',
    defaultText: '-1',
    min: 0,
    max: HUGE,
    unlimited: true,
    sentence: 'Size to which a partition is cut from its head, for topics that do not say; -1: no limit.',
  },
  {
    key: 'defaultPartitions',
    name: 'default-partitions',
    kind: 'count',
    defaultText: '1',
    min: 1,
    max: PARTITIONS_PER_TOPIC_MAX,
    sentence: 'Partitions of a topic that is created without a number.',
  },
  {
    key: 'autoCreateTopics',
    name: 'auto-create-topics',
    kind: 'switch',
    defaultText: 'false',
    sentence: 'Create a topic when a producer asks for one that is missing.',
  },
  {
    key: 'minFreeBytes',
    name: 'min-free-bytes',
    kind: 'bytes',
    defaultText: '256MiB',
    min: 0,
    max: HUGE,
    sentence: 'Below this much free disk space produces are refused with DISK_PRESSURE; all else goes on.',
  },
  {
    key: 'maxConnections',
    name: 'max-connections',
    kind: 'count',
    defaultText: String(CONNECTIONS_MAX_DEFAULT),
    min: 1,
    max: 1_000_000,
    sentence: 'Connections at the same time.',
  },
  {
    key: 'maxConnectionsPerAddress',
    name: 'max-connections-per-address',
    kind: 'count',
    defaultText: String(CONNECTIONS_PER_ADDRESS_MAX_DEFAULT),
    min: 1,
    max: 1_000_000,
    sentence: 'Connections at the same time from one address.',
  },
  {
    key: 'maxInFlight',
    name: 'max-in-flight',
    kind: 'count',
    defaultText: String(REQUESTS_IN_FLIGHT_MAX_DEFAULT),
    min: 1,
    max: 65_536,
    sentence: 'Requests of one connection that are not answered yet.',
  },
  {
    key: 'maxOutputBytes',
    name: 'max-output-bytes',
    kind: 'bytes',
    defaultText: String(OUTPUT_BYTES_MAX_DEFAULT),
    min: 65_536,
    max: 2 ** 31,
    sentence: 'Bytes that wait for one client to read them before its requests are read no further.',
  },
  {
    key: 'maxInputBytes',
    name: 'max-input-bytes',
    kind: 'bytes',
    defaultText: String(INPUT_BYTES_MAX_DEFAULT),
    min: 1024 * 1024,
    max: 2 ** 40,
    sentence:
      'Memory for requests that are being received, over all connections; beyond it they are read one after the other.',
  },
  {
    key: 'handshakeTimeout',
    name: 'handshake-timeout',
    kind: 'milliseconds',
    defaultText: String(HANDSHAKE_TIMEOUT_MS_DEFAULT),
    min: 1,
    max: DAY_MS,
    sentence: 'A connection that has not said Hello by then is closed.',
  },
  {
    key: 'idleTimeout',
    name: 'idle-timeout',
    kind: 'milliseconds',
    defaultText: String(IDLE_TIMEOUT_MS_DEFAULT),
    min: 1,
    max: 30 * DAY_MS,
    sentence: 'A connection without a request for this long is closed.',
  },
  {
    key: 'tlsCert',
    name: 'tls-cert',
    kind: 'path',
    defaultText: undefined,
    optional: true,
    sentence: 'Certificate chain, PEM; makes the listener TLS.',
  },
  {
    key: 'tlsKey',
    name: 'tls-key',
    kind: 'path',
    defaultText: undefined,
    optional: true,
    sentence: 'Its private key, PEM.',
  },
  {
    key: 'tlsClientCa',
    name: 'tls-client-ca',
    kind: 'path',
    defaultText: undefined,
    optional: true,
    sentence: 'Clients must show a certificate of one of these authorities, PEM.',
  },
  {
    key: 'insecure',
    name: 'insecure',
    kind: 'switch',
    defaultText: 'false',
    sentence: 'Allow listening beyond loopback without asking clients who they are.',
  },
  {
    key: 'logLevel',
    name: 'log-level',
    kind: 'choice',
    defaultText: 'info',
    choices: ['debug', 'info', 'warn', 'error', 'fatal'],
    sentence: 'Lines below this level are not written.',
  },
  {
    key: 'validateCompressed',
    name: 'validate-compressed',
    kind: 'switch',
    defaultText: 'false',
    sentence: 'Decompress and check the records of compressed batches before they are stored; costs processor time.',
  },
  {
    key: 'fault',
    name: 'fault',
    kind: 'text',
    defaultText: undefined,
    optional: true,
    hidden: true,
    sentence: 'Faults of the disk on demand, for tests.',
  },
];

/** What is wrong with a configuration, and with which setting. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** Name of the setting, as in its flag without the dashes. */
  readonly setting: string;
  constructor(setting: string, message: string) {
    super(message);
    this.setting = setting;
  }
}

const byName = new Map(SETTINGS.map((setting) => [setting.name, setting]));

/** Undefined: there is none of that name. */
export function settingOf(name: string): Setting | undefined {
  return byName.get(name);
}

/**
 * Settings by name, as text: from flags, variables or a file, merged by the caller. What is missing gets its default.
 * Throws ConfigError that names the bad one.
 */
export function parseConfig(texts: Readonly<Record<string, string | undefined>>): BrokerConfig {
  for (const name of Object.keys(texts)) {
    if (!byName.has(name)) throw new ConfigError(name, `there is no setting "${name}"`);
  }
  const values = SETTINGS.map((setting) => [
    setting.key,
    parseSetting(setting, texts[setting.name] ?? setting.defaultText),
  ]);
  return checkConfig(Object.fromEntries(values) as BrokerConfig);
}

/** Defaults for what is not given, and every value checked. Throws ConfigError that names the bad one. */
export function configOf(given: Partial<BrokerConfig>): BrokerConfig {
  const config: BrokerConfig = {
    ...parseConfig({}),
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
  };
  for (const setting of SETTINGS) checkValue(setting, config[setting.key]);
  const none = { ...config, ...('adminListen' in given ? { adminListen: given.adminListen } : {}) };
  return checkConfig(none);
}

/** One setting as it was written. Throws ConfigError. */
export function parseSetting(setting: Setting, text: string | undefined): BrokerConfig[keyof BrokerConfig] {
  if (text === undefined) return undefined;
  if (setting.optional === true && text === 'none') return undefined;
  switch (setting.kind) {
    case 'path':
    case 'text':
      if (text === '') throw wrong(setting, text, 'it must not be empty');
      return text;
    case 'address':
      return parseAddress(setting, text);
    case 'peers': {
      const parsed = parsePeers(text);
      if (!parsed.ok) throw wrong(setting, text, parsed.message);
      return parsed.peers;
    }
    case 'switch':
      if (text !== 'true' && text !== 'false') throw wrong(setting, text, 'it must be true or false');
      return text === 'true';
    case 'choice':
      if (setting.choices?.includes(text) !== true)
        throw wrong(setting, text, `it must be one of ${(setting.choices ?? []).join(', ')}`);
      return text as BrokerConfig['fsync'];
    case 'bytes':
    case 'milliseconds':
    case 'count': {
      const value = parseNumber(setting, text);
      checkValue(setting, value);
      return value;
    }
  }
}

const UNITS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  bytes: { '': 1, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4 },
  milliseconds: { '': 1, ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: DAY_MS },
  count: { '': 1 },
};

function parseNumber(setting: Setting, text: string): number {
  const units = UNITS[setting.kind] ?? {};
  const [, digits, unit] = /^(-?\d{1,16})([A-Za-z]*)$/.exec(text) ?? [];
  const factor = unit === undefined ? undefined : units[unit];
  if (digits === undefined || factor === undefined) {
    const named = Object.keys(units).filter((name) => name !== '');
    throw wrong(
      setting,
      text,
      `it must be a whole number${named.length === 0 ? '' : `, with ${named.join(', ')} behind it or nothing`}`,
    );
  }
  return digits === '-1' ? -1 : Number(digits) * factor;
}

function checkValue(setting: Setting, value: BrokerConfig[keyof BrokerConfig]): void {
  if (setting.kind === 'choice' && !(typeof value === 'string' && setting.choices?.includes(value) === true)) {
    throw wrong(setting, JSON.stringify(value), `it must be one of ${(setting.choices ?? []).join(', ')}`);
  }
  if (setting.min === undefined || setting.max === undefined) return;
  if (setting.unlimited === true && value === -1) return;
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < setting.min || value > setting.max) {
    throw wrong(
      setting,
      JSON.stringify(value),
      `it must be ${String(setting.min)} to ${String(setting.max)}${setting.unlimited === true ? ', or -1 for no limit' : ''}`,
    );
  }
}

/** HOST:PORT, with an IPv6 address in brackets. */
function parseAddress(setting: Setting, text: string): Address {
  const address = parseHostPort(text);
  if (address === undefined) throw wrong(setting, text, 'it must be HOST:PORT, with an IPv6 address in brackets');
  return address;
}

function wrong(setting: Setting, text: string, why: string): ConfigError {
  return new ConfigError(setting.name, `--${setting.name} is "${text}"; ${why}`);
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/** What no single setting shows. */
function checkConfig(config: BrokerConfig): BrokerConfig {
  if ((config.tlsCert === undefined) !== (config.tlsKey === undefined)) {
    throw new ConfigError(
      config.tlsCert === undefined ? 'tls-cert' : 'tls-key',
      '--tls-cert and --tls-key go together',
    );
  }
  if (config.tlsClientCa !== undefined && config.tlsCert === undefined)
    throw new ConfigError('tls-client-ca', '--tls-client-ca needs --tls-cert and --tls-key');
  if (!isLoopback(config.listen.host) && config.tlsClientCa === undefined && !config.insecure) {
    throw new ConfigError(
      'listen',
      `--listen ${config.listen.host} is reachable from other machines, and nobody who connects is asked who they are; use --tls-client-ca, or say --insecure`,
    );
  }
  if (config.adminListen !== undefined && !isLoopback(config.adminListen.host) && !config.insecure) {
    throw new ConfigError(
      'admin-listen',
      `--admin-listen ${config.adminListen.host} is reachable from other machines without authentication; use a loopback address, or say --insecure`,
    );
  }
  if (config.advertise?.port === 0)
    throw new ConfigError('advertise', '--advertise needs a port that clients can connect to');
  checkPeers(config);
  return config;
}

function checkPeers({ peers, nodeId }: BrokerConfig): void {
  const fault = peersFault(peers);
  if (fault !== undefined) throw new ConfigError('peers', `--peers: ${fault}`);
  if (peers.length === 0 || peers.some((peer) => peer.nodeId === nodeId)) return;
  const named = peers.map((peer) => String(peer.nodeId)).join(', ');
  throw new ConfigError(
    'peers',
    `--peers names the nodes ${named}, and this one is node ${String(nodeId)}; --node-id must be one of them`,
  );
}
