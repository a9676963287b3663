// Checks a recorded run of a broker against what POSIX promises: when an answer leaves by a socket, everything that it
// acknowledges must survive a power cut at that moment. Record with UV_USE_IO_URING=0 (what goes through a ring is not seen):
//   strace -f -y -ttt -xx -s 256 -o LOG -e trace=openat,creat,write,pwrite64,pwritev,writev,fdatasync,fsync,rename,renameat,
//     renameat2,unlink,unlinkat,mkdir,mkdirat,ftruncate,fallocate,sendto,sendmsg,close -p PID
import { firstDescriptor, lastNumber, outgoingBytes, pathArguments, readTrace, type SystemCall } from './strace-log.ts';

export interface FileWrite {
  readonly path: string;
  readonly at: number;
  /** Infinity where strace does not say (write without a position). */
  readonly end: number;
  /** Line at which it ended. */
  readonly line: number;
  /** As far as printed. */
  readonly bytes: Uint8Array;
}

export interface SocketSend {
  readonly line: number;
  readonly seconds: number;
  /** strace's name of the socket. */
  readonly socket: string;
  /** As far as printed. */
  readonly bytes: Uint8Array;
}

export interface ByteRange {
  readonly path: string;
  readonly at: number;
  readonly end: number;
  /** Writes that ended after this line are not judged: what was written over it since says the same, say. */
  readonly untilLine?: number;
}

/**
 * What a send acknowledges; undefined when it is no answer to a produce. `writes`: those to *.log that ended before it, oldest
 * first, under the names that the files have now.
 */
export type Acknowledges = (send: SocketSend, writes: readonly FileWrite[]) => readonly ByteRange[] | undefined;

export interface AuditOptions {
  readonly acknowledges: Acknowledges;
  /**
   * What must be durable when a call that is no send begins: what must outlive a file before it goes, say. Undefined: nothing.
   */
  readonly presupposes?: (call: SystemCall, writes: () => readonly FileWrite[]) => readonly ByteRange[] | undefined;
  /** For relative paths of calls that strace does not annotate. Default '/'. */
  readonly workingDirectory?: string;
  /** Which files' writes the rule is told. Default: names that end in '.log'. */
  readonly isLog?: (path: string) => boolean;
}

export interface AuditViolation {
  readonly line: number;
  readonly kind: 'data not durable' | 'name not durable' | 'never written';
  readonly path: string;
  readonly detail: string;
}

export interface AuditReport {
  readonly violations: readonly AuditViolation[];
  /** Counts, so that an audit that saw nothing is not taken for a good one. */
  readonly answers: number;
  /** Other calls that presupposed something. */
  readonly presuppositions: number;
  readonly sends: number;
  readonly logWrites: number;
  readonly fileSyncs: number;
  readonly directorySyncs: number;
}

interface Write extends ByteRange {
  readonly line: number;
  readonly bytes: Uint8Array;
  durable: boolean;
  /** A failed sync marked its pages clean: a later sync proves nothing about them. */
  lost: boolean;
}

interface File {
  writes: Write[];
}

/** For one producer with one request in flight: an answer acknowledges every log write that ended before it. */
export function everyWriteBefore(isAnswer: (send: SocketSend) => boolean): Acknowledges {
  return (send, writes) => (isAnswer(send) ? writes.map(({ path, at, end }) => ({ path, at, end })) : undefined);
}

function parentOf(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash <= 0 ? '/' : path.slice(0, slash);
}

function isUnder(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

class Auditor {
  readonly violations: AuditViolation[] = [];
  answers = 0;
  presuppositions = 0;
  sends = 0;
  logWrites = 0;
  fileSyncs = 0;
  directorySyncs = 0;
  private readonly options: AuditOptions;
  private readonly isLog: (path: string) => boolean;
  private readonly files = new Map<string, File>();
  /** Names made in this run that no directory sync has covered, with the line at which they were made. */
  private readonly looseNames = new Map<string, number>();
  private readonly directories = new Set<string>();

  constructor(options: AuditOptions) {
    this.options = options;
    this.isLog = options.isLog ?? ((path) => path.endsWith('.log'));
  }

  started(call: SystemCall, line: number): void {
    const target = firstDescriptor(call.args);
    if (target.kind !== 'socket' || !['write', 'writev', 'sendto', 'sendmsg'].includes(call.name)) {
      const ranges = this.options.presupposes?.(call, () => this.known());
      if (ranges === undefined) return;
      this.presuppositions += 1;
      this.check(ranges, line);
      return;
    }
    this.sends += 1;
    this.checkSend({ line, seconds: call.seconds, socket: target.label, bytes: outgoingBytes(call.args) });
  }

  ended(call: SystemCall, line: number): void {
    const failed = call.result === undefined || call.result < 0;
    if (call.name === 'fsync' || call.name === 'fdatasync') this.synced(call, failed);
    else if (!failed) this.changed(call, line);
  }

  private changed(call: SystemCall, line: number): void {
    // The bytes of a write are no paths.
    const isWrite = /^p?writev?(64)?$/.test(call.name);
    const [first, second] = isWrite ? [] : pathArguments(call.args, this.options.workingDirectory ?? '/');
    switch (call.name) {
      case 'write':
      case 'writev':
      case 'pwrite64':
      case 'pwritev':
        this.wrote(call, line);
        return;
      case 'openat':
      case 'creat':
        if (first !== undefined && (call.name === 'creat' || /O_CREAT/.test(call.args))) this.created(first, line);
        return;
      case 'mkdir':
      case 'mkdirat':
        if (first !== undefined) {
          this.directories.add(first);
          this.looseNames.set(first, line);
        }
        return;
      case 'rename':
      case 'renameat':
      case 'renameat2':
        if (first !== undefined && second !== undefined) this.renamed(first, second, line);
        return;
      case 'unlink':
      case 'unlinkat':
        if (first !== undefined) {
          this.files.delete(first);
          this.looseNames.delete(first);
        }
        return;
      default:
    }
  }

  private created(path: string, line: number): void {
    // Opening what this run already knows creates nothing.
    if (this.files.has(path)) return;
    this.files.set(path, { writes: [] });
    this.looseNames.set(path, line);
  }

  private renamed(from: string, to: string, line: number): void {
    const moved = (path: string): string => to + path.slice(from.length);
    const below = [...this.files].filter(([path]) => isUnder(path, from));
    const names = [...this.looseNames].filter(([path]) => isUnder(path, from));
    this.files.delete(to);
    for (const [path] of below) this.files.delete(path);
    for (const [path] of names) this.looseNames.delete(path);
    for (const [path, file] of below) {
      this.files.set(moved(path), { writes: file.writes.map((write) => Object.assign(write, { path: moved(path) })) });
    }
    for (const [path, madeAt] of names) this.looseNames.set(moved(path), madeAt);
    if (this.directories.delete(from)) this.directories.add(to);
    // Until the new folder is synced the file may be found under the old name only.
    this.looseNames.set(to, line);
  }

  private wrote(call: SystemCall, line: number): void {
    const target = firstDescriptor(call.args);
    if (target.kind !== 'path' || call.result === undefined) return;
    const positioned = call.name === 'pwrite64' || call.name === 'pwritev';
    const at = positioned ? lastNumber(call.args) : 0;
    const end = positioned ? at + call.result : Infinity;
    const file = this.files.get(target.path) ?? { writes: [] };
    this.files.set(target.path, file);
    file.writes.push({
      path: target.path,
      at,
      end,
      line,
      bytes: outgoingBytes(call.args),
      durable: false,
      lost: false,
    });
    if (this.isLog(target.path)) this.logWrites += 1;
  }

  /** Covers what had ended when the call began; counts from when the call ended. */
  private synced(call: SystemCall, failed: boolean): void {
    const target = firstDescriptor(call.args);
    if (target.kind !== 'path') return;
    const file = this.files.get(target.path);
    for (const write of file?.writes ?? []) {
      if (write.line >= call.startLine) continue;
      if (failed) write.lost ||= !write.durable;
      else write.durable ||= !write.lost;
    }
    if (file !== undefined) this.fileSyncs += failed ? 0 : 1;
    else this.directorySyncs += failed ? 0 : 1;
    if (failed) return;
    for (const [name, madeAt] of this.looseNames) {
      if (parentOf(name) === target.path && madeAt < call.startLine) this.looseNames.delete(name);
    }
  }

  private known(): readonly FileWrite[] {
    return [...this.files.entries()]
      .filter(([path]) => this.isLog(path))
      .flatMap(([, file]) => file.writes)
      .toSorted((left, right) => left.line - right.line);
  }

  private checkSend(send: SocketSend): void {
    const ranges = this.options.acknowledges(send, this.known());
    if (ranges === undefined) return;
    this.answers += 1;
    this.check(ranges, send.line);
  }

  private check(ranges: readonly ByteRange[], line: number): void {
    for (const range of ranges) this.checkRange(range, line);
    for (const path of new Set(ranges.map((range) => range.path))) this.checkNames(path, line);
  }

  private checkRange(range: ByteRange, line: number): void {
    const touching = (this.files.get(range.path)?.writes ?? []).filter(
      (write) => write.at < range.end && range.at < write.end && write.line <= (range.untilLine ?? Infinity),
    );
    const where = `[${String(range.at)}, ${String(range.end)})`;
    if (touching.length === 0) {
      this.violations.push({
        line,
        kind: 'never written',
        path: range.path,
        detail: `no write of ${where} in this record`,
      });
      return;
    }
    const loose = touching.find((write) => !write.durable);
    if (loose === undefined) return;
    const why = loose.lost ? 'its sync failed' : 'no sync began after it and ended before the answer';
    this.violations.push({
      line,
      kind: 'data not durable',
      path: range.path,
      detail: `${where}: written at line ${String(loose.line)}, ${why}`,
    });
  }

  private checkNames(path: string, line: number): void {
    for (let name = path; name !== '/'; name = parentOf(name)) {
      const madeAt = this.looseNames.get(name);
      if (madeAt === undefined) continue;
      const detail = `made at line ${String(madeAt)}, and ${parentOf(name)} was not synced since`;
      this.violations.push({ line, kind: 'name not durable', path: name, detail });
    }
  }
}

export function auditTrace(log: string, options: AuditOptions): AuditReport {
  const auditor = new Auditor(options);
  for (const event of readTrace(log)) {
    if (event.kind === 'start') auditor.started(event.call, event.line);
    else auditor.ended(event.call, event.line);
  }
  const { violations, answers, presuppositions, sends, logWrites, fileSyncs, directorySyncs } = auditor;
  return { violations, answers, presuppositions, sends, logWrites, fileSyncs, directorySyncs };
}
