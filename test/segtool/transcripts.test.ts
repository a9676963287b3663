// What people read, word for word: test/golden/segtool/*.txt. UPDATE_GOLDEN=1 writes them.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { inspect } from '../../src/segtool/inspect.ts';
import { planLog } from '../../src/segtool/repair-plan.ts';
import { renderInspect, renderRepair, renderUndo, renderVerify } from '../../src/segtool/render.ts';
import { repair, undo } from '../../src/segtool/repair.ts';
import { verify } from '../../src/segtool/verify.ts';
import type { ToolDeps } from '../../src/segtool/tool.ts';
import { damaged } from './damage.ts';
import { makeTemplate, toolMachine, type Files, type Template } from './store-bench.ts';

const FOLDER = fileURLToPath(new URL('../golden/segtool/', import.meta.url));

function golden(name: string, text: string): void {
  const path = `${FOLDER}${name}.txt`;
  if (process.env['UPDATE_GOLDEN'] === '1') {
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(path, `${text}\n`);
  }
  expect(existsSync(path)).toBe(true);
  expect(`${text}\n`).toBe(readFileSync(path, 'utf8'));
}

async function verified(deps: ToolDeps): Promise<string> {
  const report = await verify(deps, '');
  return renderVerify(
    report,
    report.logs.flatMap((log) => planLog(log).lost.map(({ from, to }) => ({ log: log.target.label, from, to }))),
  );
}

describe('transcripts', () => {
  let template: Template;
  beforeAll(async () => {
    template = await makeTemplate('clean');
  });
  function broken(...kinds: readonly string[]): Files {
    let { files } = template;
    for (const [index, kind] of kinds.entries())
      files = damaged({ ...template, files }, kind, 40 + index)?.files ?? files;
    return files;
  }

  test('inspect of a whole log and of a damaged one', async () => {
    const whole = toolMachine(template.files);
    golden('inspect-clean', renderInspect(await whole.machine.run(() => inspect(whole.deps, '', { ratios: true }))));
    const other = toolMachine(broken('flip a bit of records', 'remove a segment with all its files'));
    golden('inspect-damaged', renderInspect(await other.machine.run(() => inspect(other.deps, '', { ratios: false }))));
  });

  test('verify: clean, damaged, unreadable', async () => {
    const whole = toolMachine(template.files);
    golden('verify-clean', await whole.machine.run(() => verified(whole.deps)));
    const other = toolMachine(broken('flip a bit of records', 'remove an index', 'truncate a seal'));
    golden('verify-damaged', await other.machine.run(() => verified(other.deps)));
    const none = toolMachine(new Map());
    golden('verify-nothing', await none.machine.run(() => verified(none.deps)));
  });

  test('repair: plan, done, again; undo', async () => {
    const { machine, deps } = toolMachine(broken('flip a bit of records', 'swap blocks', 'remove an index'));
    golden('repair-plan', renderRepair(await machine.run(() => repair(deps, '', { write: false })), false));
    golden('repair-done', renderRepair(await machine.run(() => repair(deps, '', { write: true })), true));
    golden('repair-again', renderRepair(await machine.run(() => repair(deps, '', { write: true })), true));
    golden('verify-repaired', await machine.run(() => verified(deps)));
    golden('undo', renderUndo(await machine.run(() => undo(deps, undefined))));
  });
});
