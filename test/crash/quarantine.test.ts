// What is taken out of a log is never lost: at every moment of a truncation and of a recovery that cuts a tail, a power cut
// leaves the bytes in the log or in quarantine, with a note beside them.
import { describe, expect, test } from 'vitest';
import { offset, position } from '../../src/base/brands.ts';
import type { SimDisk } from '../../src/sim/disk.ts';
import { appendWritten, batch, DIRECTORY, Machine, SMALL } from '../storage/log-bench.ts';

/** Recognised wherever they lie. */
const MARKED = batch({ bytes: 300, fill: 0xa7 }).subarray(61);

/** Nothing is synced by itself: what was written last is a tail. */
const NEVER = { ...SMALL, fsync: 'never' } as const;

type Files = ReadonlyMap<string, Uint8Array>;

function holds(bytes: Uint8Array, wanted: Uint8Array): boolean {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf(wanted) >= 0;
}

function whereIs(files: Files): 'log' | 'quarantine' | 'quarantine without a note' | 'lost' {
  for (const [path, bytes] of files) if (path.startsWith(DIRECTORY) && holds(bytes, MARKED)) return 'log';
  for (const [path, bytes] of files) {
    if (!path.startsWith('quarantine/') || !holds(bytes, MARKED)) continue;
    const note = files.get(path.replace(/\.bin$/, '.json'));
    return note === undefined || note.length === 0 ? 'quarantine without a note' : 'quarantine';
  }
  return 'lost';
}

/** Every disk that a cut before any operation of the work can leave, or some of them where there are many. */
async function cutEverywhere(machine: Machine, work: () => Promise<unknown>): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  const look = (disk: SimDisk): void => {
    const where = whereIs(disk.dump());
    found.set(where, (found.get(where) ?? 0) + 1);
  };
  machine.disk.onBoundary = (): void => {
    const pending = machine.disk.pendingChoices();
    const all = (1n << BigInt(pending)) - 1n;
    if (pending <= 8) for (let mask = 0n; mask <= all; mask += 1n) look(machine.disk.crashWith(mask));
    else for (const mask of [0n, all, all ^ 1n, all >> 1n, 1n]) look(machine.disk.crashWith(mask));
  };
  await work();
  machine.disk.onBoundary = undefined;
  look(machine.disk.crashWith(0n));
  return found;
}

/** As if the system said that what it was told to keep was kept, when it was not. */
function withoutQuarantineSync(machine: Machine): void {
  const { disk } = machine;
  const open = disk.open.bind(disk);
  disk.open = async (path, mode) => {
    const file = await open(path, mode);
    if (path.startsWith('quarantine/')) file.sync = async (): Promise<void> => await Promise.resolve();
    return file;
  };
}

async function truncated(damage?: (machine: Machine) => void): Promise<Map<string, number>> {
  const machine = new Machine(5);
  const log = await machine.open();
  await machine.run(() => appendWritten(log, batch({ fill: 1 })));
  await machine.run(() => appendWritten(log, batch({ bytes: 300, fill: 0xa7 })));
  await machine.run(() => log.sync());
  damage?.(machine);
  return await cutEverywhere(machine, async () => await machine.run(() => log.truncateTo(offset(1))));
}

async function recovered(damage?: (machine: Machine) => void): Promise<Map<string, number>> {
  const machine = new Machine(6);
  const log = await machine.open(NEVER);
  await machine.run(() => appendWritten(log, batch({ fill: 1 })));
  await machine.run(() => log.sync());
  await machine.run(() => appendWritten(log, batch({ bytes: 300, fill: 0xa7 })));
  machine.kill();
  // The last batch is torn: its end is gone, the rest of it is what somebody may want to see.
  const [path = '', bytes = new Uint8Array()] =
    [...machine.disk.dump()].find(([name, content]) => name.endsWith('.log') && holds(content, MARKED)) ?? [];
  const end = Buffer.from(bytes).indexOf(MARKED) + MARKED.length;
  await machine.run(async () => {
    const file = await machine.disk.open(path, 'write');
    await file.writeSlow(Uint8Array.of(0xff), position(end - 300 - 61 + 30));
    await file.sync();
    await file.close();
  });
  damage?.(machine);
  return await cutEverywhere(machine, async () => await machine.open(NEVER));
}

describe('what is taken out of a log', () => {
  test.each([
    ['a truncation', truncated],
    ['a recovery that cuts a torn tail', recovered],
  ] as const)('%s keeps the bytes at every moment', async (_name, life) => {
    const found = await life();
    expect([...found.keys()].toSorted()).toEqual(['log', 'quarantine']);
    expect(found.get('quarantine')).toBeGreaterThan(0);
  });

  test.each([
    ['a truncation', truncated],
    ['a recovery that cuts a torn tail', recovered],
  ] as const)('%s without the sync of the copy is found out', async (_name, life) => {
    const found = await life(withoutQuarantineSync);
    expect([...found.keys()].some((where) => where === 'lost' || where === 'quarantine without a note')).toBe(true);
  });
});
