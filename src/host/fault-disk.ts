// Faults on demand in the real executable, for tests. The composition root hands in the value of RIVULET_FAULT:
//
//   faults    = fault *( ";" fault )
//   fault     = operation ":" pattern *( ":" option )
//   operation = open | read | write | sync | allocate | truncate | map | populate | rename | unlink | mkdir | readdir
//             | syncdir | stat | lock | close | "*"
//   pattern   = path inside the data directory; "*" stands for any run of characters, "?" for one; the directory itself
//               is "."; a rename is matched by its source
//   option    = "nth=" N      the first matching call that is hit, from 1 (default 1)
//             | "count=" N    how many are hit from there on; "count=*": all (default 1)
//             | "delay=" MS   the call is held up first (calls on the loop block it, as a slow disk does)
//             | "short=" N    a write puts N bytes in the file before it fails
//             | code          EIO, ENOSPC, EROFS, EMFILE, EACCES: the call fails and does not reach the disk
//             | "KILL"        the process kills itself at that moment
//
//   sync:topics/*:nth=3:EIO          the third sync of a file under topics fails
//   write:topics/*.log:short=100:count=5:ENOSPC     five writes end early for want of room
//   sync:*:delay=5000                one sync hangs for five seconds, then goes on
//
// A fault without code only delays. Wrong input is an error that names the bad part: a fault that hits nothing proves nothing.
import type { Position } from '../base/brands.ts';
import type { Disk, DiskFile, DiskOperation, Mapping } from '../ports/disk.ts';
import { diskErrorOf } from './disk-errors.ts';

const OPERATIONS: readonly (DiskOperation | '*')[] = [
  '*',
  'open',
  'read',
  'write',
  'sync',
  'allocate',
  'truncate',
  'map',
  'populate',
  'rename',
  'unlink',
  'mkdir',
  'readdir',
  'syncdir',
  'stat',
  'lock',
  'close',
];
const CODES: readonly string[] = ['EIO', 'ENOSPC', 'EROFS', 'EMFILE', 'EACCES', 'KILL'];

interface Fault {
  readonly operation: DiskOperation | '*';
  readonly pattern: RegExp;
  readonly nth: number;
  readonly count: number;
  readonly delayMs: number;
  readonly shortBytes: number;
  readonly code: string | undefined;
  matched: number;
}

/** Throws an Error that names the part it does not understand. */
export function withFaults(disk: Disk, description: string): Disk {
  return new FaultyDisk(disk, new Faults(parseFaults(description)));
}

function parseFaults(description: string): Fault[] {
  return description
    .split(';')
    .filter((part) => part.trim() !== '')
    .map((part) => parseFault(part.trim()));
}

function parseFault(text: string): Fault {
  const [operation, pattern, ...options] = text.split(':');
  const known = OPERATIONS.find((name) => name === operation);
  if (known === undefined)
    throw new Error(`RIVULET_FAULT: unknown operation in "${text}"; known: ${OPERATIONS.join(' ')}`);
  if (pattern === undefined || pattern === '') throw new Error(`RIVULET_FAULT: no path in "${text}"`);
  const numbers = { nth: 1, count: 1, delay: 0, short: 0 };
  let code: string | undefined;
  for (const option of options) {
    const [, name, value] = /^(nth|count|delay|short)=(\d+|\*)$/.exec(option) ?? [];
    if (CODES.includes(option)) code = option;
    else if (name === 'count' && value === '*') numbers.count = Number.POSITIVE_INFINITY;
    else if (
      value !== undefined &&
      value !== '*' &&
      (name === 'nth' || name === 'count' || name === 'delay' || name === 'short')
    )
      numbers[name] = Number(value);
    else throw new Error(`RIVULET_FAULT: unknown option "${option}" in "${text}"`);
  }
  return {
    operation: known,
    pattern: globExpression(pattern),
    nth: numbers.nth,
    count: numbers.count,
    delayMs: numbers.delay,
    shortBytes: numbers.short,
    code,
    matched: 0,
  };
}

function globExpression(pattern: string): RegExp {
  const escaped = pattern.replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`);
  return new RegExp(`^${escaped.replaceAll('*', '.*').replaceAll('?', '.')}$`, 's');
}

class Faults {
  private readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    this.faults = faults;
  }
  /** The first fault that this call is to meet. */
  private meet(operation: DiskOperation, path: string): Fault | undefined {
    const name = path === '' ? '.' : path;
    let met: Fault | undefined;
    for (const fault of this.faults) {
      if ((fault.operation !== '*' && fault.operation !== operation) || !fault.pattern.test(name)) continue;
      fault.matched += 1;
      if (fault.matched >= fault.nth && fault.matched < fault.nth + fault.count) met ??= fault;
    }
    return met;
  }
  async around<Value>(operation: DiskOperation, path: string, work: () => Promise<Value>): Promise<Value> {
    const fault = this.meet(operation, path);
    if (fault === undefined) return await work();
    if (fault.delayMs > 0) {
      await new Promise<void>((resolve) => {
        setTimeout(resolve, fault.delayMs);
      });
    }
    fail(fault, operation, path);
    return await work();
  }
  now<Value>(operation: DiskOperation, path: string, work: () => Value, shortly?: (bytes: number) => void): Value {
    const fault = this.meet(operation, path);
    if (fault === undefined) return work();
    if (fault.delayMs > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, fault.delayMs);
    if (fault.shortBytes > 0) shortly?.(fault.shortBytes);
    fail(fault, operation, path);
    return work();
  }
}

/** Does nothing for a fault that only delays. */
function fail(fault: Fault, operation: DiskOperation, path: string): void {
  if (fault.code === undefined) return;
  if (fault.code === 'KILL') {
    process.kill(process.pid, 'SIGKILL');
    return;
  }
  throw diskErrorOf(
    Object.assign(new Error(`${fault.code}: injected by RIVULET_FAULT`), { code: fault.code }),
    operation,
    path,
  );
}

class FaultyDisk implements Disk {
  private readonly disk: Disk;
  private readonly faults: Faults;
  constructor(disk: Disk, faults: Faults) {
    this.disk = disk;
    this.faults = faults;
  }
  open: Disk['open'] = async (path, mode) =>
    new FaultyFile(await this.faults.around('open', path, () => this.disk.open(path, mode)), this.faults);
  makeDirectory: Disk['makeDirectory'] = (path) =>
    this.faults.around('mkdir', path, () => this.disk.makeDirectory(path));
  readDirectory: Disk['readDirectory'] = (path) =>
    this.faults.around('readdir', path, () => this.disk.readDirectory(path));
  rename: Disk['rename'] = (from, to) => this.faults.around('rename', from, () => this.disk.rename(from, to));
  unlink: Disk['unlink'] = (path) => this.faults.around('unlink', path, () => this.disk.unlink(path));
  removeDirectory: Disk['removeDirectory'] = (path) =>
    this.faults.around('unlink', path, () => this.disk.removeDirectory(path));
  syncDirectory: Disk['syncDirectory'] = (path) =>
    this.faults.around('syncdir', path, () => this.disk.syncDirectory(path));
  exists: Disk['exists'] = (path) => this.faults.around('stat', path, () => this.disk.exists(path));
  space: Disk['space'] = () => this.faults.around('stat', '', () => this.disk.space());
  lock: Disk['lock'] = (path) => this.faults.around('lock', path, () => this.disk.lock(path));
}

class FaultyFile implements DiskFile {
  readonly path: string;
  private readonly file: DiskFile;
  private readonly faults: Faults;
  constructor(file: DiskFile, faults: Faults) {
    this.path = file.path;
    this.file = file;
    this.faults = faults;
  }
  size: DiskFile['size'] = () => this.faults.around('stat', this.path, () => this.file.size());
  write: DiskFile['write'] = (bytes, at) => {
    this.faults.now(
      'write',
      this.path,
      () => {
        this.file.write(bytes, at);
      },
      (short) => {
        this.file.write(bytes.subarray(0, short), at);
      },
    );
  };
  writeSlow: DiskFile['writeSlow'] = (bytes, at) =>
    this.faults.around('write', this.path, () => this.file.writeSlow(bytes, at));
  read: DiskFile['read'] = (target, at) => this.faults.around('read', this.path, () => this.file.read(target, at));
  readNow: DiskFile['readNow'] = (target, at) =>
    this.faults.now('read', this.path, () => this.file.readNow(target, at));
  sync: DiskFile['sync'] = () => this.faults.around('sync', this.path, () => this.file.sync());
  startWriteback: DiskFile['startWriteback'] = (at, bytes) => {
    this.file.startWriteback(at, bytes);
  };
  allocate: DiskFile['allocate'] = (at, bytes) =>
    this.faults.around('allocate', this.path, () => this.file.allocate(at, bytes));
  writeZeros: DiskFile['writeZeros'] = (at, bytes) =>
    this.faults.around('write', this.path, () => this.file.writeZeros(at, bytes));
  truncate: DiskFile['truncate'] = (size) => this.faults.around('truncate', this.path, () => this.file.truncate(size));
  dropCache: DiskFile['dropCache'] = (at, bytes) => this.file.dropCache(at, bytes);
  map: DiskFile['map'] = (bytes) =>
    new FaultyMapping(
      this.faults.now('map', this.path, () => this.file.map(bytes)),
      this.path,
      this.faults,
    );
  close: DiskFile['close'] = () => this.faults.around('close', this.path, () => this.file.close());
}

class FaultyMapping implements Mapping {
  readonly bytes: number;
  private readonly mapping: Mapping;
  private readonly path: string;
  private readonly faults: Faults;
  constructor(mapping: Mapping, path: string, faults: Faults) {
    this.bytes = mapping.bytes;
    this.mapping = mapping;
    this.path = path;
    this.faults = faults;
  }
  slice: Mapping['slice'] = (at, length) => this.mapping.slice(at, length);
  resident: Mapping['resident'] = (at: Position, length: number) => this.mapping.resident(at, length);
  populate: Mapping['populate'] = (at, length) =>
    this.faults.around('populate', this.path, () => this.mapping.populate(at, length));
  forget: Mapping['forget'] = (at, length) => {
    this.mapping.forget(at, length);
  };
  unmap: Mapping['unmap'] = () => {
    this.mapping.unmap();
  };
}
