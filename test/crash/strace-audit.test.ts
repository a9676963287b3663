import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs/promises';
import * as os from 'node:os';
import * as path from 'node:path';
import { describe, expect, test } from 'vitest';
import { auditTrace, everyWriteBefore, type AuditOptions, type AuditReport } from './strace-audit.ts';
import { outgoingBytes, pathArguments, quotedStrings, readTrace, unescapeBytes } from './strace-log.ts';

const ANSWER = everyWriteBefore((send) => new TextDecoder().decode(send.bytes).startsWith('ans'));

function audit(lines: readonly string[]): AuditReport {
  return auditTrace(lines.join('\n'), { acknowledges: ANSWER, workingDirectory: '/w' });
}

/** As libuv issues them: descriptors opened by pool threads, the write on the main thread, the sync on another. */
const GOOD: readonly string[] = [
  '10 100.000001 mkdir("/w/topics", 0777) = -1 EEXIST (File exists)',
  '10 100.000002 mkdir("/w/topics/t", 0777) = 0',
  '11 100.000003 openat(AT_FDCWD</w>, "topics/t/0.log", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0640) = 21</w/topics/t/0.log>',
  '11 100.000004 fsync(22</w/topics>) = 0',
  '11 100.000005 fsync(23</w/topics/t>) = 0',
  '10 100.000006 pwrite64(21</w/topics/t/0.log>, "hello\\n\\0\\1", 8, 0) = 8',
  '12 100.000007 fdatasync(21</w/topics/t/0.log> <unfinished ...>',
  '10 100.000008 write(15<anon_inode:[eventfd]>, "\\1\\0\\0\\0\\0\\0\\0\\0", 8) = 8',
  '12 100.000009 <... fdatasync resumed>) = 0',
  '10 100.000010 writev(27<socket:[23760]>, [{iov_base="ans\\1", iov_len=4}, {iov_base="wer", iov_len=3}], 2) = 7',
];

function without(part: string): readonly string[] {
  const left = GOOD.filter((line) => !line.includes(part));
  expect(left.length).toBeLessThan(GOOD.length);
  return left;
}

describe('readTrace', () => {
  test('joins the halves of a call that others interrupted', () => {
    const calls = readTrace(GOOD.join('\n')).filter((event) => event.call.name === 'fdatasync');
    expect(calls.map((event) => [event.kind, event.line, event.call.result])).toEqual([
      ['start', 7, 0],
      ['end', 9, 0],
    ]);
  });

  test('decodes strings as strace escapes them, with and without -xx', () => {
    expect([...unescapeBytes('a\\n\\0\\377\\x41\\"\\\\')]).toEqual([97, 10, 0, 255, 0x41, 0x22, 0x5c]);
    expect([...(quotedStrings('3</a>, "x\\"y", 2')[0] ?? [])]).toEqual([120, 34, 121]);
    expect([...outgoingBytes('3<socket:[1]>, [{iov_base="ab", iov_len=2}, {iov_base="\\x63", iov_len=1}], 2')]).toEqual(
      [97, 98, 99],
    );
    expect(pathArguments('AT_FDCWD<\\x2f\\x77>, "\\x61", AT_FDCWD</w>, "../b", 0', '/')).toEqual(['/w/a', '/b']);
  });
});

describe('auditTrace', () => {
  test('passes a run that syncs data and every name before the answer', () => {
    expect(audit(GOOD)).toEqual({
      violations: [],
      answers: 1,
      presuppositions: 0,
      sends: 1,
      logWrites: 1,
      fileSyncs: 1,
      directorySyncs: 2,
    });
  });

  test('passes the same run printed in hex', () => {
    const hex = GOOD.map((line) =>
      line.replaceAll(
        /"((?:[^"\\]|\\.)*)"/g,
        (_, text: string) =>
          `"${[...unescapeBytes(text)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}"`,
      ),
    );
    expect(audit(hex).violations).toEqual([]);
    expect(audit(hex).answers).toBe(1);
  });

  test('finds a missing fdatasync', () => {
    expect(audit(without('fdatasync')).violations.map(({ kind, path: file }) => [kind, file])).toEqual([
      ['data not durable', '/w/topics/t/0.log'],
    ]);
  });

  test('finds a missing sync of the folder of the file', () => {
    expect(audit(without('fsync(23')).violations.map(({ kind, path: file }) => [kind, file])).toEqual([
      ['name not durable', '/w/topics/t/0.log'],
    ]);
  });

  test('finds a missing sync of the folder above', () => {
    expect(audit(without('fsync(22')).violations.map(({ kind, path: file }) => [kind, file])).toEqual([
      ['name not durable', '/w/topics/t'],
    ]);
  });

  test('finds an answer that leaves while the sync is under way', () => {
    const early = GOOD.toSpliced(9, 1).toSpliced(7, 0, GOOD[9] ?? '');
    expect(audit(early).violations.map(({ kind }) => kind)).toEqual(['data not durable']);
  });

  test('a sync that began before the write ended does not cover it', () => {
    const swapped = GOOD.toSpliced(5, 2, GOOD[6] ?? '', GOOD[5] ?? '');
    expect(audit(swapped).violations.map(({ kind }) => kind)).toEqual(['data not durable']);
  });

  test('a failed sync proves nothing, and neither does the one after it', () => {
    const failed = GOOD.toSpliced(8, 1, '12 100.000009 <... fdatasync resumed>) = -1 EIO (Input/output error)');
    expect(audit(failed).violations.map(({ kind }) => kind)).toEqual(['data not durable']);
    const again = failed.toSpliced(9, 0, '12 100.0000095 fdatasync(21</w/topics/t/0.log>) = 0');
    expect(audit(again).violations[0]?.detail).toContain('its sync failed');
  });

  test('a rename makes the name loose again, and carries the writes along', () => {
    const rename = '11 100.0000055 rename("topics/t/0.log", "topics/t/1.log") = 0';
    const renamed = GOOD.toSpliced(9, 0, rename);
    expect(audit(renamed).violations.map(({ kind, path: file }) => [kind, file])).toEqual([
      ['name not durable', '/w/topics/t/1.log'],
    ]);
    expect(audit(renamed.toSpliced(10, 0, '11 100.0000099 fsync(23</w/topics/t>) = 0')).violations).toEqual([]);
  });

  test('an answer for bytes that nobody wrote is a violation', () => {
    const report = auditTrace(GOOD.join('\n'), { acknowledges: () => [{ path: '/w/topics/t/0.log', at: 8, end: 16 }] });
    expect(report.violations.map(({ kind }) => kind)).toEqual(['never written']);
  });

  test('what a call presupposes is judged when it begins', () => {
    const unlink = '13 100.0000065 unlink("topics/t/old.log") = 0';
    const presupposes: AuditOptions['presupposes'] = (call, writes) => (call.name === 'unlink' ? writes() : undefined);
    const judge = (at: number): AuditReport =>
      auditTrace(GOOD.toSpliced(at, 0, unlink).join('\n'), {
        acknowledges: ANSWER,
        workingDirectory: '/w',
        presupposes,
      });
    expect(judge(9)).toMatchObject({ violations: [], presuppositions: 1 });
    expect(judge(7).violations.map(({ kind, line }) => [kind, line])).toEqual([['data not durable', 8]]);
  });

  test('sends that are no answers are counted and not judged', () => {
    const report = audit([
      ...without('fdatasync').slice(0, -1),
      '10 100.1 sendto(9<socket:[1]>, "metadata", 8, 0, NULL, 0) = 8',
    ]);
    expect(report).toMatchObject({ violations: [], answers: 0, sends: 1 });
  });
});

const PROGRAM = `
import fs from 'node:fs'; import net from 'node:net';
const [folder, skip] = process.argv.slice(2);
fs.mkdirSync(folder + '/t');
const syncFolder = (name, then) => skip === name ? then() : fs.open(name, 'r', (e, fd) => fs.fsync(fd, () => fs.close(fd, then)));
fs.open(folder + '/t/0.log', 'wx+', (e, fd) => {
  syncFolder(folder + '/t', () => syncFolder(folder, () => {
    fs.writeSync(fd, Buffer.from('record'), 0, 6, 0);
    const answer = () => {
      const server = net.createServer((peer) => { peer.end('answer'); server.close(); });
      server.listen(0, '127.0.0.1', () => net.connect(server.address().port).resume());
    };
    if (skip === 'data') answer(); else fs.fdatasync(fd, answer);
  }));
});
`;
const TRACED =
  'openat,creat,write,pwrite64,pwritev,writev,fdatasync,fsync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,ftruncate,fallocate,sendto,sendmsg,close';

async function record(skip: string): Promise<AuditReport> {
  const root = await fs.mkdtemp(path.join(os.tmpdir(), 'rivulet-audit-'));
  try {
    const program = path.join(root, 'program.mjs');
    await fs.writeFile(program, PROGRAM);
    const log = path.join(root, 'log');
    const left = skip === 'data' || skip === '' ? skip : path.join(root, skip);
    const run = spawnSync(
      'strace',
      [
        '-f',
        '-y',
        '-ttt',
        '-xx',
        '-s',
        '128',
        '-o',
        log,
        '-e',
        `trace=${TRACED}`,
        process.execPath,
        program,
        root,
        left,
      ],
      {
        timeout: 30_000,
        env: { ...process.env, UV_USE_IO_URING: '0' },
        encoding: 'utf8',
      },
    );
    expect(run.status, run.stderr).toBe(0);
    return auditTrace(await fs.readFile(log, 'utf8'), { acknowledges: ANSWER, workingDirectory: root });
  } finally {
    await fs.rm(root, { recursive: true, force: true });
  }
}

const straceWorks = spawnSync('strace', ['-o', '/dev/null', 'true'], { timeout: 10_000 }).status === 0;
if (!straceWorks) console.warn('strace is missing or may not trace here: the live audit is SKIPPED');

describe.skipIf(!straceWorks)('auditTrace on a live record', () => {
  test('passes a program that syncs, and names what another leaves out', { timeout: 60_000 }, async () => {
    expect(await record('')).toMatchObject({
      violations: [],
      answers: 1,
      logWrites: 1,
      fileSyncs: 1,
      directorySyncs: 2,
    });
    expect((await record('data')).violations.map(({ kind }) => kind)).toEqual(['data not durable']);
    expect((await record('t')).violations.map(({ kind }) => kind)).toEqual(['name not durable']);
  });
});
