// One happy run of the executable, recorded call by call and replayed against what POSIX promises: no answer left before its
// bytes, its file's name and its recovery state were durable. And the audit is no rubber stamp: it names every fsync of a log or
// of its folder that is taken out of the record.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readI64, readU16, readU32 } from '../../src/base/bytes.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { BATCH_HEADER_BYTES, MAGIC_AT } from '../../src/format/batch.ts';
import { CHECKPOINT_SLOT_BYTES, decodeCheckpoint, type Checkpoint } from '../../src/format/checkpoint.ts';
import { decodeSuperblock } from '../../src/format/superblock.ts';
import { FRAME_HEADER_BYTES, OPERATION } from '../../src/protocol/index.ts';
import { batchOf, RawClient } from '../broker/raw-client.ts';
import {
  auditTrace,
  type AuditOptions,
  type ByteRange,
  type FileWrite,
  type SocketSend,
} from '../crash/strace-audit.ts';
import { firstDescriptor, outgoingBytes, pathArguments, readTrace, type SystemCall } from '../crash/strace-log.ts';
import { portOf, startBroker, temporaryFolder } from './harness.ts';

const TRACED =
  'openat,creat,write,pwrite64,pwritev,writev,fdatasync,fsync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,ftruncate,fallocate,sendto,sendmsg';
const SEGMENT_BYTES = 4096;
const RECORDS = 45;

const straceWorks = spawnSync('strace', ['-o', '/dev/null', 'true'], { timeout: 10_000 }).status === 0;
if (!straceWorks) console.warn('strace is missing or may not trace here: the audit of the executable is SKIPPED');

interface Recording {
  readonly text: string;
  readonly earliest: number;
}

/** Start, create, produce with rolls, retention by size, stop; one request at a time. */
async function recordRun(dataDir: string, log: string, topic: 'new' | 'kept'): Promise<Recording> {
  const broker = await startBroker(dataDir, {
    // A slot of a checkpoint is printed whole.
    prefix: ['strace', '-f', '-y', '-ttt', '-s', '4200', '-o', log, '-e', `trace=${TRACED}`],
    env: { UV_USE_IO_URING: '0' },
    args: ['--fsync', 'always', '--segment-bytes', String(SEGMENT_BYTES), '--retention-bytes', '10000'],
  });
  try {
    const client = await RawClient.tcp(portOf(broker.server));
    await client.hello();
    const topicId =
      topic === 'new'
        ? await client.createTopic('traced')
        : ((await client.metadata(['traced'])).topics[0]?.id ?? expect.unreachable('the topic is gone'));
    for (let record = 0; record < RECORDS; record += 1) {
      await client.produce(topicId, batchOf([`record ${String(record)} ${'x'.repeat(300)}`]));
    }
    // Retention comes by every half minute.
    let earliest = await client.listOffset(topicId, { kind: 'earliest' });
    for (let waits = 0; topic === 'new' && waits < 100 && earliest === 0; waits += 1) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      earliest = await client.listOffset(topicId, { kind: 'earliest' });
    }
    await client.produce(topicId, batchOf(['the last one']));
    client.end();
    await broker.stop();
    return { text: relevant(readFileSync(log, 'utf8')), earliest };
  } finally {
    broker.destroy();
  }
}

/** Without what wakes threads and what opens files to read them. */
function relevant(log: string): string {
  return log
    .split('\n')
    .filter((line) => !line.includes('<anon_inode:') && (!line.includes(' openat(') || line.includes('O_CREAT')))
    .join('\n');
}

// ---- What an answer, a removal and a clean marker stand for ----

function isBatch(write: FileWrite): boolean {
  return write.path.endsWith('.log') && write.bytes.length >= BATCH_HEADER_BYTES && write.bytes[MAGIC_AT] === 2;
}
function isPartitionOf(write: FileWrite): boolean {
  return write.path.includes('/topics/');
}
function isNodeState(path: string): boolean {
  return /\/(superblock|store\.json)$/.test(path);
}
function range({ path, at, end }: FileWrite): ByteRange {
  return { path, at, end };
}

/** The bytes that an answer speaks of, and all that the next start needs to believe them. */
function acknowledged(send: SocketSend, writes: readonly FileWrite[]): readonly ByteRange[] | undefined {
  const { bytes } = send;
  // HTTP of the admin endpoint is no answer.
  if (bytes.length < FRAME_HEADER_BYTES + 2 || bytes[7] !== 1) return undefined;
  expect(readU32(bytes, 0) + 4, 'one answer in each send, printed whole').toBe(bytes.length);
  const node = writes.filter(({ path }) => isNodeState(path)).map(range);
  if (readU16(bytes, FRAME_HEADER_BYTES) !== 0) return node;
  const operation = readU16(bytes, 4);
  if (operation === OPERATION.CreateTopic.operation) {
    return [...node, ...writes.filter((write) => isBatch(write) && write.path.includes('/meta-log/')).map(range)];
  }
  if (operation !== OPERATION.Produce.operation) return node;
  const baseOffset = readI64(bytes, FRAME_HEADER_BYTES + 2);
  const batch = writes.filter(
    (write) => isBatch(write) && isPartitionOf(write) && readI64(write.bytes, 0) === baseOffset,
  );
  const missing = { path: `/the batch at offset ${String(baseOffset)}`, at: 0, end: 1 };
  return [...node, ...(batch.length === 0 ? [missing] : batch.map(range))];
}

function checkpointOf(write: FileWrite): Checkpoint | undefined {
  if (!write.path.endsWith('/checkpoint') || write.bytes.length !== CHECKPOINT_SLOT_BYTES) return undefined;
  const decoded = decodeCheckpoint(write.bytes, crc32cTable);
  return decoded.ok ? decoded.value : undefined;
}

/** Before a segment goes, a log start above it is durable, in both slots. Before the clean marker, everything is. */
function presupposed(call: SystemCall, writes: () => readonly FileWrite[]): readonly ByteRange[] | undefined {
  const [from = '', to = ''] = call.name.startsWith('rename') ? pathArguments(call.args, '/') : [];
  const removed = /^(.*)\/(\d{20})\.log$/.exec(from);
  if (removed !== null && /\.(spare|deleted)$/.test(to)) {
    const [, folder = '', base = ''] = removed;
    const records = writes().filter(
      (write) =>
        write.path === `${folder}/checkpoint` &&
        (checkpointOf(write)?.logStart ?? Number.NEGATIVE_INFINITY) > Number(base),
    );
    // Later ones say the same, and while one slot is written over the other stands.
    const slots = new Map(records.toReversed().map((write) => [write.at, write]));
    if (slots.size < 2) return [{ path: `/both slots with a log start above ${base}`, at: 0, end: 1 }];
    return [...slots.values()].map((write) => ({ ...range(write), untilLine: write.line }));
  }
  const target = firstDescriptor(call.args);
  if (call.name !== 'pwrite64' || target.kind !== 'path' || !target.path.endsWith('/superblock')) return undefined;
  const superblock = decodeSuperblock(outgoingBytes(call.args), crc32cTable);
  if (!superblock.ok || !superblock.value.clean) return undefined;
  return writes()
    .filter(({ path }) => /\.log$|\/checkpoint$/.test(path))
    .map(range);
}

const OPTIONS: AuditOptions = {
  acknowledges: acknowledged,
  presupposes: presupposed,
  isLog: (path) => /\.log$|\/checkpoint$|\/superblock$|\/store\.json$/.test(path),
};

// ---- Taking syncs out of the record ----

interface Sync {
  readonly startLine: number;
  readonly line: number;
  readonly path: string;
}

function syncsOf(text: string): readonly Sync[] {
  return readTrace(text).flatMap(({ kind, line, call }) => {
    const target = firstDescriptor(call.args);
    if (kind !== 'end' || !/^f(data)?sync$/.test(call.name) || target.kind !== 'path') return [];
    return [{ startLine: call.startLine, line, path: target.path }];
  });
}

/** Names that got into a folder by a rename, and when. */
function namesOf(text: string): readonly { readonly path: string; readonly line: number }[] {
  return readTrace(text).flatMap(({ kind, line, call }) =>
    kind === 'end' && call.name.startsWith('rename') ? [{ path: pathArguments(call.args, '/')[1] ?? '', line }] : [],
  );
}

/** What the audit says of the record without one sync. */
function violationsWithout(text: string, sync: Sync): readonly string[] {
  // Blank, so that the lines keep their numbers.
  const left = text
    .split('\n')
    .map((each, index) => (index + 1 === sync.startLine || index + 1 === sync.line ? '' : each));
  return auditTrace(left.join('\n'), OPTIONS).violations.map(({ kind, path }) => `${kind}: ${path}`);
}

function only<Item>(items: readonly Item[], what: string): Item {
  const [item] = items;
  if (item === undefined) return expect.unreachable(`no ${what} in the record`);
  return item;
}

describe.skipIf(!straceWorks)('a recording of the executable', () => {
  const folder = temporaryFolder();
  const dataDir = join(folder.path, 'data');
  let first: Recording;
  let second: Recording;
  let syncs: readonly Sync[];
  beforeAll(async () => {
    first = await recordRun(dataDir, join(folder.path, 'first.strace'), 'new');
    second = await recordRun(dataDir, join(folder.path, 'second.strace'), 'kept');
    syncs = syncsOf(first.text);
  }, 120_000);
  afterAll(() => {
    folder.remove();
  });

  test('no answer leaves before its bytes, its name and its recovery state are durable', () => {
    const report = auditTrace(first.text, OPTIONS);
    expect(report.violations).toEqual([]);
    // Hello, create, the produces, and what asked for the log start.
    expect(report.answers).toBeGreaterThanOrEqual(RECORDS + 4);
    expect(first.earliest).toBeGreaterThan(0);
    // Both slots of the clean marker, and the segments that went.
    expect(report.presuppositions).toBeGreaterThanOrEqual(3);
  });

  test('nor in the life after a clean stop, which appends to what it found', () => {
    const report = auditTrace(second.text, OPTIONS);
    expect(report.violations).toEqual([]);
    expect(report.answers).toBeGreaterThanOrEqual(RECORDS + 3);
    expect(report.presuppositions).toBeGreaterThanOrEqual(2);
  });

  test('an fsync of a log that is taken out is found, each that an answer waited for', () => {
    const logs = syncs.filter(({ path }) => /\/topics\/.*\.log$/.test(path));
    const found = logs.filter((sync) => violationsWithout(first.text, sync).includes(`data not durable: ${sync.path}`));
    expect(found.length).toBeGreaterThanOrEqual(RECORDS + 1);
    // The others are the last ones of segments that were rolled, before they are sealed.
    const rolled = namesOf(first.text).filter(({ path }) => /\/\d{20}\.log$/.test(path)).length;
    expect(logs.length - found.length).toBeLessThanOrEqual(rolled);
  });

  test('an fsync of a folder that is taken out is found: of each segment, of each folder above it', () => {
    // The last one comes when retention syncs the folder as well.
    const segments = namesOf(first.text).filter(
      ({ path }) => /\/topics\/.*\/\d{20}\.log$/.test(path) && Number(basename(path, '.log')) < RECORDS,
    );
    expect(segments.length).toBeGreaterThan(3);
    for (const { path, line } of segments) {
      const sync = only(
        syncs.filter((each) => each.path === dirname(path) && each.startLine > line),
        `fsync of the folder of ${path}`,
      );
      expect(violationsWithout(first.text, sync), path).toContain(`name not durable: ${path}`);
    }
    const partition = dirname(only(segments, 'segment').path);
    for (const child of [partition, dirname(partition)]) {
      const sync = only(
        syncs.filter(({ path }) => path === dirname(child)),
        `fsync of ${dirname(child)}`,
      );
      expect(violationsWithout(first.text, sync)).toContain(`name not durable: ${child}`);
    }
  });

  test('so is one of the recovery state: the superblock, the log start before a segment goes', () => {
    const ofPath = (suffix: string): readonly Sync[] => syncs.filter(({ path }) => path.endsWith(suffix));
    const missed = (sync: Sync): boolean => violationsWithout(first.text, sync).length === 0;
    expect(ofPath('/superblock').some((sync) => !missed(sync))).toBe(true);
    expect(ofPath('/0/checkpoint').some((sync) => !missed(sync))).toBe(true);
    expect(ofPath('/store.json.tmp').every((sync) => !missed(sync))).toBe(true);
    expect(ofPath('/meta-log/00000000000000000000.log').some((sync) => !missed(sync))).toBe(true);
  });
});
