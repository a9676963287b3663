// The power goes, or the process, at every operation of a repair and of its undo: the next run ends at the same files.
import { describe, expect, test } from 'vitest';
import { repair, undo } from '../../src/segtool/repair.ts';
import { verify } from '../../src/segtool/verify.ts';
import { SimCrash, type SimDisk } from '../../src/sim/disk.ts';
import { effort } from '../effort.ts';
import { DIRECTORY, type Machine } from '../storage/log-bench.ts';
import { damaged } from './damage.ts';
import { makeTemplate, openFiles, toolDeps, toolMachine, type Files } from './store-bench.ts';

/** Every operation, or every so many. */
const STRIDE = effort(1, 17);

/** Of the log itself; what quarantine holds may be numbered otherwise. */
function logFiles(disk: SimDisk): ReadonlyMap<string, string> {
  return new Map(
    [...disk.dump()]
      .filter(([path]) => path.startsWith(`${DIRECTORY}/`))
      .map(([path, bytes]) => [path, Buffer.from(bytes).toString('base64')]),
  );
}

async function damagedFiles(): Promise<{ readonly files: Files; readonly end: number }> {
  const template = await makeTemplate('clean', 24);
  const first = damaged(template, 'flip a bit of records', 3);
  if (first === undefined) throw new Error('nothing was damaged');
  const second = damaged({ ...template, files: first.files }, 'remove an index', 5);
  return { files: second?.files ?? first.files, end: template.end };
}

/** Runs until the operation with that number, where the power goes; false: it had ended before. */
async function interrupted(
  machine: Machine,
  at: number,
  choice: 'keep-all' | 'lose-all' | 'random' | 'kill',
  work: () => Promise<unknown>,
): Promise<boolean> {
  const begun = machine.disk.boundaryCount;
  let next: SimDisk | undefined;
  const { disk } = machine;
  disk.onBoundary = (number) => {
    if (number - begun !== at || next !== undefined) return;
    next = choice === 'kill' ? disk.kill() : disk.crash(choice);
  };
  let ended = false;
  const run = work().then(
    () => {
      ended = true;
    },
    (error: unknown) => {
      if (!(error instanceof SimCrash)) throw error;
    },
  );
  await machine.scheduler.runUntil(() => ended || next !== undefined, 600_000);
  if (next === undefined) {
    await run;
    return false;
  }
  machine.scheduler.cancelOwner('node');
  machine.disk = next;
  return true;
}

describe('repair --write, interrupted at every operation', () => {
  test.each(['keep-all', 'lose-all', 'random', 'kill'] as const)(
    'run again it ends at the same files: %s',
    async (choice) => {
      const { files } = await damagedFiles();
      const whole = toolMachine(files);
      await whole.machine.run(() => repair(whole.deps, '', { write: true }));
      const wanted = logFiles(whole.machine.disk);
      let points = 0;
      for (let at = 1; ; at += STRIDE) {
        const { machine } = toolMachine(files, 5 + at);
        const cut = await interrupted(machine, at, choice, () => repair(toolDeps(machine), '', { write: true }));
        if (!cut) break;
        points += STRIDE;
        await machine.run(() => repair(toolDeps(machine), '', { write: true }));
        expect(logFiles(machine.disk), `cut before operation ${String(at)}`).toEqual(wanted);
        expect((await machine.run(() => verify(toolDeps(machine), ''))).verdict).toBe('clean');
      }
      expect(points).toBeGreaterThan(100);
    },
    120_000,
  );

  test('what a power cut leaves of a finished repair is what it had said', async () => {
    const { files } = await damagedFiles();
    const { machine, deps } = toolMachine(files);
    await machine.run(() => repair(deps, '', { write: true }));
    const wanted = logFiles(machine.disk);
    machine.powerCut('lose-all');
    expect(logFiles(machine.disk)).toEqual(wanted);
    const opened = await openFiles(machine.disk.dump(), true);
    expect(opened.fatals).toBe(0);
  });
});

describe('undo, interrupted at every operation', () => {
  test.each(['lose-all', 'random'] as const)(
    'run again it puts back every byte: %s',
    async (choice) => {
      const { files } = await damagedFiles();
      const before = toolMachine(files);
      const wanted = logFiles(before.machine.disk);
      await before.machine.run(() => repair(before.deps, '', { write: true }));
      const repaired = before.machine.disk.dump();
      let points = 0;
      for (let at = 1; ; at += STRIDE) {
        const { machine } = toolMachine(repaired, 5 + at);
        const cut = await interrupted(machine, at, choice, () => undo(toolDeps(machine), undefined));
        if (!cut) {
          expect(logFiles(machine.disk)).toEqual(wanted);
          break;
        }
        points += STRIDE;
        await machine.run(() =>
          undo(toolDeps(machine), 'repair-0001').catch((error: unknown) => {
            // The power went after its very last step.
            if (!(error instanceof Error) || !error.message.includes('undone already')) throw error;
          }),
        );
        expect(logFiles(machine.disk), `cut before operation ${String(at)}`).toEqual(wanted);
      }
      expect(points).toBeGreaterThan(40);
    },
    120_000,
  );

  test('refused when the repaired files have changed since', async () => {
    const { files } = await damagedFiles();
    const { machine, deps } = toolMachine(files);
    const done = await machine.run(() => repair(deps, '', { write: true }));
    const changed = done.done?.changes.find(({ after, path }) => path.endsWith('.log') && (after?.bytes ?? 0) > 0);
    if (changed === undefined) throw new Error('nothing was changed');
    machine.disk.flipBit(changed.path, 5);
    const now = logFiles(machine.disk);
    await expect(machine.run(() => undo(deps, undefined))).rejects.toThrow('has changed since the repair');
    expect(logFiles(machine.disk)).toEqual(now);
  });
});
