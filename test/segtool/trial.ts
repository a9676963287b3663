// One damage: found, repaired, served, and nothing lost that was there.
import { LEADER_EPOCH_AT } from '../../src/format/batch.ts';
import { isDamage } from '../../src/segtool/findings.ts';
import { repair } from '../../src/segtool/repair.ts';
import { verify } from '../../src/segtool/verify.ts';
import type { ReadBack } from '../storage/log-bench.ts';
import { damaged, type Damage } from './damage.ts';
import {
  logNames,
  openFiles,
  syncedPointOf,
  toolMachine,
  type Files,
  type KnownBatch,
  type Template,
} from './store-bench.ts';

export interface Trial {
  /**
   * outside: nothing of the log was touched. beyond: only what lies above the recovery point after an unclean stop, where no
   * history and no size says what was there: an active segment with older batches in it looks like a recycled one.
   */
  readonly outcome: 'found' | 'not-found' | 'outside' | 'beyond';
  readonly codes: readonly string[];
  readonly lostBatches: number;
}

/** Everything that belongs to the log is as it was: prepared space behind its end is no part of it. */
function isOutside(template: Template, damage: Damage): boolean {
  const paths = new Set([...template.files.keys(), ...damage.files.keys()]);
  return [...paths].every((path) => {
    const [was, is] = [template.files.get(path), damage.files.get(path)];
    if (was === undefined || is === undefined) return false;
    if (path !== logNames(template.files).at(-1)) return Buffer.compare(was, is) === 0;
    const data = dataBytes(template, path);
    return is.length >= data && Buffer.compare(was.subarray(0, data), is.subarray(0, data)) === 0;
  });
}

function dataBytes(template: Template, path: string): number {
  const logs = logNames(template.files).map((each) => Number(each.slice(-24, -4)));
  const base = Number(path.slice(-24, -4));
  const next = logs.find((each) => each > base) ?? template.end;
  return template.batches
    .filter((batch) => batch.base >= base && batch.base < next)
    .reduce((sum, { bytes }) => sum + bytes.length, 0);
}

function contains(files: Files, batch: KnownBatch): boolean {
  return logNames(files).some((path) => Buffer.from(files.get(path) ?? []).includes(Buffer.from(batch.bytes)));
}

/** The same, but of a higher epoch: above the recovery point a new leader looks like that. */
function isRaised(found: ReadBack, batch: KnownBatch): boolean {
  const bytes = Uint8Array.from(found.bytes);
  bytes.set(batch.bytes.subarray(LEADER_EPOCH_AT, LEADER_EPOCH_AT + 4), LEADER_EPOCH_AT);
  return found.epoch > batch.epoch && Buffer.compare(bytes, batch.bytes) === 0;
}

/**
 * The broker alone, before any repair: what it calls damaged is what verify calls lost, or what repair puts right. Where a
 * changed base offset sends it past the end, repair knows better.
 */
async function agree(
  template: Template,
  damage: Damage,
  repaired: {
    readonly end: number;
    readonly isAccounted: (at: number) => boolean;
    readonly need: (holds: boolean, what: string) => void;
  },
): Promise<void> {
  const alone = await openFiles(damage.files, template.clean);
  for (const { from, to } of alone.read.damaged)
    for (let at = from; at < Math.min(to, repaired.end); at += 1)
      repaired.need(repaired.isAccounted(at), `the broker alone has damage at ${String(at)}, which was not reported`);
}

/** Throws with what is wrong. */
export async function tryDamage(template: Template, damage: Damage): Promise<Trial> {
  const where = `${template.name}: ${damage.kind}, ${damage.detail}`;
  const need = (holds: boolean, what: string): void => {
    if (!holds) throw new Error(`${where}: ${what}`);
  };
  const point = syncedPointOf(damage.files);
  const { machine, deps } = toolMachine(damage.files);
  const before = await machine.run(() => verify(deps, ''));
  need(before.verdict !== 'unreadable', 'unreadable');
  const done = await machine.run(() => repair(deps, '', { write: true }));
  const after = await machine.run(() => verify(deps, ''));
  need(
    after.verdict === 'clean',
    `not clean after repair: ${JSON.stringify(after.findings)} was ${JSON.stringify(before.findings)}`,
  );
  const again = await machine.run(() => repair(deps, '', { write: true }));
  need(again.done === undefined, `a second repair finds work: ${JSON.stringify(again.plans)}`);

  const lost = done.plans.flatMap((plan) => plan.lost);
  const isLost = (at: number): boolean => lost.some(({ from, to }) => from <= at && at < to);
  const isFound = before.findings.some(isDamage);
  const repaired = machine.disk.dump();
  const opened = await openFiles(repaired, template.clean);
  need(opened.fatals === 0, 'the log does not open');
  const served = new Map(opened.read.batches.map((batch) => [batch.baseOffset, batch]));
  let lostBatches = 0;
  for (const batch of template.batches) {
    const found = served.get(batch.base);
    if (found === undefined) {
      lostBatches += 1;
      need(!contains(damage.files, batch), `the intact batch at ${String(batch.base)} is not served`);
      if (batch.base >= opened.start && batch.base < opened.end)
        need(isLost(batch.base), `offset ${String(batch.base)} is not served and not reported`);
      if (batch.base >= opened.end)
        need(isFound || batch.base >= point.synced, `the end at ${String(batch.base)} is gone without a finding`);
    } else {
      need(
        Buffer.compare(found.bytes, batch.bytes) === 0 ||
          (!template.clean && batch.base >= point.checkpoint && isRaised(found, batch)),
        `the batch at ${String(batch.base)} is served with other bytes`,
      );
      need(!isLost(batch.base), `offset ${String(batch.base)} is reported lost and served`);
    }
  }
  const isServed = (at: number): boolean =>
    opened.read.batches.some(({ baseOffset, lastOffset }) => baseOffset <= at && at <= lastOffset);
  await agree(template, damage, { end: opened.end, isAccounted: (at) => isLost(at) || isServed(at), need });
  need(served.size + lostBatches === template.batches.length, 'batches are served that were never written');
  for (const range of opened.read.damaged)
    for (let at = range.from; at < range.to; at += 1)
      need(isLost(at), `the broker has damage at ${String(at)}, which was not reported`);
  const outside = isOutside(template, damage);
  need(!outside || lostBatches === 0, 'records are lost by damage outside of the log');
  const below = template.batches.filter(({ last }) => last < point.synced);
  const beyond =
    !template.clean && point.synced < template.end && below.every((batch) => contains(damage.files, batch));
  return {
    outcome: isFound ? 'found' : outside ? 'outside' : beyond ? 'beyond' : 'not-found',
    codes: before.findings.filter(isDamage).map(({ code }) => code),
    lostBatches,
  };
}

export interface Campaign {
  readonly trials: number;
  readonly notFound: ReadonlyMap<string, readonly string[]>;
  readonly failures: readonly string[];
  readonly lossless: number;
  readonly beyond: readonly string[];
}

/** The same seed gives the same damages. */
export async function campaign(
  templates: readonly Template[],
  kinds: readonly string[],
  count: number,
  seed: number,
  note?: (done: number) => void,
): Promise<Campaign> {
  const notFound = new Map<string, string[]>();
  const failures: string[] = [];
  let trials = 0;
  let lossless = 0;
  const beyond: string[] = [];
  for (let index = 0; trials < count && index < count * 20; index += 1) {
    const template = templates[(seed + index) % templates.length];
    const kind = kinds[Math.floor(index / templates.length) % kinds.length];
    if (template === undefined || kind === undefined) throw new Error('no template or no kind');
    const damage = damaged(template, kind, seed + index);
    if (damage === undefined) continue;
    trials += 1;
    try {
      const trial = await tryDamage(template, damage);
      if (trial.lostBatches === 0) lossless += 1;
      if (trial.outcome === 'beyond') beyond.push(`${kind}: ${damage.detail}`);
      if (trial.outcome === 'not-found')
        notFound.set(kind, [...(notFound.get(kind) ?? []), `${template.name}: ${damage.detail}`]);
    } catch (error) {
      failures.push(
        `seed ${String(seed + index)} ${error instanceof Error ? (error.message.startsWith(template.name) ? error.message : `${template.name}: ${kind}, ${damage.detail}: ${error.stack ?? ''}`) : String(error)}`,
      );
    }
    note?.(trials);
  }
  return { trials, notFound, failures, lossless, beyond };
}
