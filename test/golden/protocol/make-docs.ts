// Makes docs/PROTOCOL.md: `node test/golden/protocol/make-docs.ts`. The tables come from the registries, the grammar from the
// comments above each encoder, the examples from real frames; a test fails when the page is not what this makes.
import { readFileSync, writeFileSync } from 'node:fs';
import { utf8Encode } from '../../../src/base/bytes.ts';
import { ERRORS, ERROR_NAMES, type ErrorName } from '../../../src/base/errors.ts';
import {
  ASSIGNED_PARTITIONS_MAX,
  BATCH_BYTES_MAX,
  BATCH_RECORDS_MAX,
  BATCH_UNCOMPRESSED_BYTES_MAX,
  CLIENT_ID_BYTES_MAX,
  COMMITTED_OFFSETS_MAX,
  COMMIT_METADATA_BYTES_MAX,
  FETCH_WAIT_MS_MAX,
  FRAME_BYTES_MAX,
  FRAME_TIMEOUT_MS_DEFAULT,
  GROUPS_MAX,
  GROUP_ID_BYTES_MAX,
  GROUP_MEMBERS_MAX,
  GROUP_PARTITIONS_MAX,
  GROUP_TOPICS_BYTES_MAX,
  GROUP_TOPICS_MAX,
  HANDSHAKE_TIMEOUT_MS_DEFAULT,
  HEADER_COUNT_MAX,
  IDLE_TIMEOUT_MS_DEFAULT,
  MEMBERS_MAX,
  MEMBER_ID_BYTES_MAX,
  OUTPUT_BYTES_MAX_DEFAULT,
  PARTITIONS_PER_TOPIC_MAX,
  PRODUCE_BATCHES_MAX,
  REBALANCE_TIMEOUT_MS_MAX,
  RECORD_BYTES_MAX,
  REQUESTS_IN_FLIGHT_MAX_DEFAULT,
  REQUEST_PARTITIONS_MAX,
  SESSION_TIMEOUT_MS_MAX,
  TOPIC_NAME_BYTES_MAX,
  UNAUTHENTICATED_FRAME_BYTES_MAX,
} from '../../../src/base/limits.ts';
import { keyPartition, murmur2 } from '../../../src/client/murmur2.ts';
import { FACTS } from '../../../src/protocol/facts.ts';
import { FACTS_MAX, MESSAGE_BYTES_MAX } from '../../../src/protocol/failure.ts';
import { OPERATIONS, type OperationEntry, RESERVED } from '../../../src/protocol/operations.ts';
import { TOPIC_CONFIG, TOPIC_CONFIG_KEYS } from '../../../src/protocol/topic-config.ts';
import { examples } from './examples.ts';
import {
  BATCH_TEXT,
  CONVENTIONS_TEXT,
  FETCH_TEXT,
  FRAME_TEXT,
  GROUP_TEXT,
  INTRODUCTION,
  KEY_TEXT,
  NEGOTIATION_TEXT,
  PRODUCE_TEXT,
  RETRY_TEXT,
} from './prose.ts';

const operationsFolder = new URL('../../../src/protocol/operations/', import.meta.url);
/** Made by the client library for its own conditions; a broker never sends them. */
const CLIENT_CODES_FROM = 140;

function table(head: readonly string[], rows: readonly (readonly (string | number | boolean)[])[]): string {
  const line = (cells: readonly (string | number | boolean)[]): string =>
    `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** The comment lines right above `export function <encoder>`. */
export function grammarOf(source: string, encoder: 'encodeRequest' | 'encodeResponse'): string {
  const lines = source.split('\n');
  const at = lines.findIndex((line) => line.startsWith(`export function ${encoder}(`));
  let from = at;
  while (from > 0 && lines[from - 1]?.startsWith('// ') === true) from -= 1;
  if (at < 0 || from === at) throw new Error(`no grammar above ${encoder}`);
  return lines
    .slice(from, at)
    .map((line) => line.slice(3))
    .join('\n');
}

const AFTER_UNKNOWN: Readonly<Record<OperationEntry['afterUnknown'], string>> = {
  repeat: 'repeat it',
  'repeat-same-bytes': 'repeat the same bytes, if they carry a producer id',
  'look-first': 'repeat it; the answer may say that it was done before',
};
const AT: Readonly<Record<OperationEntry['at'], string>> = {
  any: 'any broker',
  leader: "the partition's leader",
  coordinator: 'the coordinator: the controller that Metadata names',
  connected: 'each broker connected to',
};

function operationSection(entry: OperationEntry): string {
  const versions = Array.from({ length: entry.max - entry.min + 1 }, (_, index) => entry.min + index);
  const file = entry.name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase();
  const bodies = versions.map((version) => {
    const source = readFileSync(new URL(`${file}.v${String(version)}.ts`, operationsFolder), 'utf8');
    return `Version ${String(version)}:\n\n\`\`\`\n${grammarOf(source, 'encodeRequest')}\n\n${grammarOf(source, 'encodeResponse')}\n\`\`\``;
  });
  const facts = [
    `Ask ${AT[entry.at]}.`,
    entry.changesState ? 'Changes state.' : 'Changes nothing.',
    `Outcome unknown: ${AFTER_UNKNOWN[entry.afterUnknown]}.`,
  ];
  return `### ${entry.name} (${String(entry.operation)})\n\n${entry.sentence} ${facts.join(' ')}\n\n${bodies.join('\n\n')}`;
}

function operationsSection(): string {
  const rows = OPERATIONS.map((entry) => [
    entry.operation,
    entry.name,
    entry.min === entry.max ? entry.min : `${String(entry.min)} to ${String(entry.max)}`,
    entry.beforeHello ? 'yes' : 'no',
    entry.changesState ? 'yes' : 'no',
    AT[entry.at],
    AFTER_UNKNOWN[entry.afterUnknown],
  ]);
  const reserved = RESERVED.map(({ operation, name }) => `${String(operation)} ${name}`).join(', ');
  return [
    '## Operations',
    table(['number', 'name', 'versions', 'before Hello', 'changes state', 'ask', 'after an unknown outcome'], rows),
    `Reserved, and answered with UNSUPPORTED_OPERATION: ${reserved}. Numbers and names are never used again for something else.`,
    'A bar begins an alternative, `n × x` is x repeated n times, text in parentheses explains. `error` is the error part described above.',
    ...OPERATIONS.map(operationSection),
  ].join('\n\n');
}

function errorRows(names: readonly ErrorName[]): string {
  return table(
    ['code', 'name', 'outcome', 'retriable', 'action', 'meaning'],
    names.map((name) => {
      const { code, outcome, retriable, action, sentence } = ERRORS[name];
      return [code, name, outcome, retriable ? 'yes' : 'no', action, sentence];
    }),
  );
}

function errorsSection(): string {
  const facts = Object.entries(FACTS).map(([name, entry]) => [
    `\`${name}\``,
    entry.type,
    entry.with.join(', '),
    entry.sentence,
  ]);
  return [
    '## Errors',
    errorRows(ERROR_NAMES.filter((name) => ERRORS[name].code < CLIENT_CODES_FROM)),
    'Codes that are not in this table come from a newer broker: treat them as INTERNAL.',
    '`action`: retry: the same request later. refresh: ask for Metadata, then retry at the leader it names. fix-request: the client is wrong. fix-input: what the client was given is wrong. ask-application, ask-operator: someone has to decide. reconnect: on a new connection. stop: this producer or member has ended.',
    'Never on the wire, but the same registry: what the client library itself reports.',
    errorRows(ERROR_NAMES.filter((name) => ERRORS[name].code >= CLIENT_CODES_FROM)),
    '### Facts',
    'Names of facts, and the errors that carry them where the broker knows them. Others may be added; pass over what you do not know.',
    table(['fact', 'type', 'with', 'meaning'], facts),
  ].join('\n\n');
}

function topicSettingsSection(): string {
  const rows = TOPIC_CONFIG_KEYS.map((key) => {
    const { unit, defaultValue, min, max, unlimited, sentence } = TOPIC_CONFIG[key];
    const range = `${String(min)} to ${String(max)}${unlimited ? ', or -1: no limit' : ''}`;
    return [`\`${key}\``, unit, defaultValue ?? 'a majority of the replicas', range, sentence];
  });
  return [
    '## Topic settings',
    'Keys and values are strings; every value is a whole number in decimal digits. Anything else is refused with INVALID_CONFIG. A broker may be started with other defaults; Metadata tells the values in effect.',
    table(['key', 'unit', 'default', 'range', 'meaning'], rows),
  ].join('\n\n');
}

function limitsSection(): string {
  const rows: readonly (readonly [string, number])[] = [
    ['body of a frame, bytes', FRAME_BYTES_MAX],
    ['body of a frame before Hello was answered, bytes', UNAUTHENTICATED_FRAME_BYTES_MAX],
    ['record batch as stored, bytes', BATCH_BYTES_MAX],
    ['record batch uncompressed, bytes', BATCH_UNCOMPRESSED_BYTES_MAX],
    ['records of a batch', BATCH_RECORDS_MAX],
    ['key, value, or all headers of a record, bytes', RECORD_BYTES_MAX],
    ['headers of a record', HEADER_COUNT_MAX],
    ['batches of one Produce', PRODUCE_BATCHES_MAX],
    ['partitions, or topics, of one request', REQUEST_PARTITIONS_MAX],
    ['partitions of a topic', PARTITIONS_PER_TOPIC_MAX],
    ['topic name, bytes', TOPIC_NAME_BYTES_MAX],
    ['client id, producer name, bytes', CLIENT_ID_BYTES_MAX],
    ['group id, instance id, bytes', GROUP_ID_BYTES_MAX],
    ['member id, bytes', MEMBER_ID_BYTES_MAX],
    ['groups', GROUPS_MAX],
    ['members of a group', GROUP_MEMBERS_MAX],
    ['members of all groups', MEMBERS_MAX],
    ['topics that a member names', GROUP_TOPICS_MAX],
    ['their names together, bytes', GROUP_TOPICS_BYTES_MAX],
    ['partitions that a group shares out', GROUP_PARTITIONS_MAX],
    ['partitions that all groups share out', ASSIGNED_PARTITIONS_MAX],
    ['text beside a committed offset, bytes', COMMIT_METADATA_BYTES_MAX],
    ['committed offsets of all groups', COMMITTED_OFFSETS_MAX],
    ['session timeout, ms; at least 1,000', SESSION_TIMEOUT_MS_MAX],
    ['rebalance timeout, ms', REBALANCE_TIMEOUT_MS_MAX],
    ['wait of a Fetch, ms; a longer one counts as this', FETCH_WAIT_MS_MAX],
    ['requests in flight on a connection (default)', REQUESTS_IN_FLIGHT_MAX_DEFAULT],
    [
      'answers not yet taken by the client, bytes (default); beyond it its requests are not read',
      OUTPUT_BYTES_MAX_DEFAULT,
    ],
    ['time to say Hello, ms (default)', HANDSHAKE_TIMEOUT_MS_DEFAULT],
    ['time from the first to the last byte of a frame, ms (default)', FRAME_TIMEOUT_MS_DEFAULT],
    ['time without any request, ms (default)', IDLE_TIMEOUT_MS_DEFAULT],
    ['message, or text of a fact, bytes', MESSAGE_BYTES_MAX],
    ['facts of one error', FACTS_MAX],
  ];
  const text =
    'What this version of the broker was built with; the answer to Hello says what counts on the connection.';
  return [
    '## Limits',
    text,
    table(
      ['what', 'at most'],
      rows.map(([what, most]) => [what, most.toLocaleString('en')]),
    ),
  ].join('\n\n');
}

/** Keys of the published vectors of the field's default partitioner, and some more. */
export const MURMUR2_KEYS: readonly string[] = [
  '',
  'a',
  'abc',
  '21',
  'foobar',
  'a-little-bit-long-string',
  'a-little-bit-longer-string',
  'zähler',
];

function keysSection(): string {
  const rows = MURMUR2_KEYS.map((key) => {
    const bytes = utf8Encode(key);
    return [`\`${JSON.stringify(key)}\``, murmur2(bytes), keyPartition(bytes, 3), keyPartition(bytes, 10)];
  });
  return [
    KEY_TEXT,
    table(['key (UTF-8)', 'murmur2, as signed 32 bits', 'of 3 partitions', 'of 10 partitions'], rows),
  ].join('\n\n');
}

function examplesSection(): string {
  const blocks = examples().map(({ title, block }) => `### ${title}\n\n${block}`);
  return [
    '## Worked examples',
    'One conversation, byte for byte; on the left what is on the wire, on the right what it says.',
    ...blocks,
  ].join('\n\n');
}

export function protocolDocument(): string {
  const sections = [
    INTRODUCTION,
    CONVENTIONS_TEXT,
    FRAME_TEXT,
    NEGOTIATION_TEXT,
    operationsSection(),
    BATCH_TEXT,
    PRODUCE_TEXT,
    keysSection(),
    FETCH_TEXT,
    GROUP_TEXT,
    RETRY_TEXT,
    errorsSection(),
    topicSettingsSection(),
    limitsSection(),
    examplesSection(),
  ];
  return `${sections.map((section) => section.trim()).join('\n\n')}\n`;
}

export const PROTOCOL_PAGE: URL = new URL('../../../docs/PROTOCOL.md', import.meta.url);

if (import.meta.main) writeFileSync(PROTOCOL_PAGE, protocolDocument());
