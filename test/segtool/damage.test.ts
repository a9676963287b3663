import { beforeAll, describe, expect, test } from 'vitest';
import { crc32cTable } from '../../src/base/checksum.ts';
import { newestCheckpoint } from '../../src/format/checkpoint.ts';
import { verify } from '../../src/segtool/verify.ts';
import { effort } from '../effort.ts';
import { damaged, KINDS } from './damage.ts';
import {
  logNames,
  makeTemplate,
  openFiles,
  syncedPointOf,
  TEMPLATE_NAMES,
  toolMachine,
  type Template,
} from './store-bench.ts';
import { campaign, tryDamage } from './trial.ts';

const PER_KIND = effort(9, 1);

describe('verify and repair against generated damage', () => {
  let templates: readonly Template[];
  beforeAll(async () => {
    templates = await Promise.all(TEMPLATE_NAMES.map((name) => makeTemplate(name)));
  });

  test('the templates are whole: several segments, several epochs, a tail', async () => {
    for (const template of templates) {
      expect([...template.files.keys()].filter((path) => path.endsWith('.log')).length).toBeGreaterThan(5);
      expect(new Set(template.batches.map(({ epoch }) => epoch)).size).toBe(3);
      expect(template.end).toBe(120);
      expect((await openFiles(template.files, template.clean)).read.damaged).toEqual([]);
      const { machine, deps } = toolMachine(template.files);
      expect((await machine.run(() => verify(deps, ''))).verdict).toBe('clean');
      const { checkpoint, synced } = syncedPointOf(template.files);
      if (template.name === 'marked') expect(synced - checkpoint).toBeGreaterThan(5);
      else expect(synced).toBe(checkpoint);
    }
  });

  test.each(KINDS)('%s: found, repaired, served, nothing intact lost, every lost offset reported', async (kind) => {
    const result = await campaign(templates, [kind], PER_KIND, 1000 + KINDS.indexOf(kind));
    expect(result.failures).toEqual([]);
    expect(result.trials).toBeGreaterThan(0);
    expect([...result.notFound.values()].flat()).toEqual([]);
  });

  test('a broker reads past bytes that were put into a sealed segment, and behind what its seal had said', async () => {
    const template = templates.find(({ name }) => name === 'killed');
    if (template === undefined) throw new Error('no template');
    const log = logNames(template.files)[3] ?? '';
    const first = template.batches.find(({ base }) => base === Number(log.slice(-24, -4)));
    const whole = Buffer.from(template.files.get(log) ?? []);
    const noise = Buffer.alloc(138, 0xa5);
    const at = first?.bytes.length ?? 0;
    const files = new Map([
      ...template.files,
      [log, Buffer.concat([whole.subarray(0, at), noise, whole.subarray(at)])],
    ]);
    const opened = await openFiles(files, true);
    expect(opened.fatals).toBe(0);
    // The one behind the bytes it may miss, which repair gives back.
    expect(opened.read.batches.length).toBeGreaterThanOrEqual(template.batches.length - 1);
    const served = new Set(opened.read.batches.map(({ baseOffset }) => baseOffset));
    const last = template.batches.findLast(({ base }) => base < Number(logNames(template.files)[4]?.slice(-24, -4)));
    expect(served).toContain(last?.base);
  });

  test('zeros that reach into the base offset of the batch behind them do not give its records other offsets', async () => {
    const [template] = templates;
    const log = template === undefined ? '' : (logNames(template.files)[0] ?? '');
    if (template === undefined) throw new Error('no template');
    const bytes = Uint8Array.from(template.files.get(log) ?? []);
    const behind = template.batches[3];
    const at = template.batches.slice(0, 3).reduce((sum, batch) => sum + batch.bytes.length, 0);
    bytes.fill(0, 12, at + 8);
    const trial = await tryDamage(template, {
      kind: 'zeros',
      detail: log,
      files: new Map([...template.files, [log, bytes]]),
    });
    expect(behind?.base).toBe(6);
    expect([trial.outcome, trial.lostBatches]).toEqual(['found', 3]);
  });

  test('a segment that ends before the place which the checkpoint names: repair leaves none that points behind its end', async () => {
    for (const template of templates) {
      const [path = '', file = new Uint8Array()] =
        [...template.files].find(([name]) => name.endsWith('/checkpoint')) ?? [];
      const checkpoint = newestCheckpoint(file, crc32cTable)?.value;
      if (checkpoint === undefined) throw new Error(path);
      const log = path.replace('checkpoint', `${String(checkpoint.segmentBase).padStart(20, '0')}.log`);
      const bytes = template.files.get(log) ?? new Uint8Array();
      // At the end of a batch: nothing torn is left that would have the file made anew.
      const end = template.batches
        .filter(({ base }) => base >= checkpoint.segmentBase)
        .reduce<number[]>((ends, batch) => [...ends, (ends.at(-1) ?? 0) + batch.bytes.length], [])
        .findLast((at) => at < checkpoint.segmentPosition);
      if (end === undefined) continue;
      const files = new Map([...template.files, [log, bytes.slice(0, end)]]);
      expect((await tryDamage(template, { kind: 'cut', detail: template.name, files })).outcome).toBe('found');
    }
  });

  test('each bit of the last batch header that lies outside its checksum', async () => {
    for (const template of templates) {
      const path = logNames(template.files).at(-1) ?? '';
      const batches = template.batches.filter(({ base }) => base >= Number(path.slice(-24, -4)));
      const at = batches.slice(0, -1).reduce((sum, { bytes }) => sum + bytes.length, 0);
      for (let bit = 0; bit < 8 * 21; bit += effort(1, 5)) {
        const bytes = Uint8Array.from(template.files.get(path) ?? []);
        const index = at + (bit >> 3);
        bytes[index] = (bytes[index] ?? 0) ^ (1 << (bit & 7));
        const files = new Map([...template.files, [path, bytes]]);
        await tryDamage(template, { kind: 'bit', detail: `${template.name} bit ${String(bit)}`, files });
      }
    }
  });

  test('the same seed makes the same damage', () => {
    const [template] = templates;
    if (template === undefined) throw new Error('no template');
    for (const kind of KINDS) expect(damaged(template, kind, 4)?.detail).toBe(damaged(template, kind, 4)?.detail);
  });
});
