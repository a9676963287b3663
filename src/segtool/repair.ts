// The repair of a directory from end to end: finish what was interrupted, judge, plan, and with `write` carry it out.
import type { BatchHeader } from '../format/batch.ts';
import { diffLogs, type DiffSide } from './diff.ts';
import { checkLog, type LogReport } from './log-check.ts';
import type { KnownLoss } from './log-files.ts';
import { applyRepair, prepareRepair, RepairRefused, undoRepair } from './repair-apply.ts';
import { readJournal, repairIds, type Journal } from './repair-journal.ts';
import { holesOf, planLog, type LogPlan, type Piece } from './repair-plan.ts';
import { findTargets } from './targets.ts';
import type { ToolDeps } from './tool.ts';
import { verify } from './verify.ts';

export interface OtherCopy {
  readonly deps: ToolDeps;
  /** Of one partition, or of a directory with the same topics and partitions. */
  readonly path: string;
}

export interface RepairReport {
  readonly plans: readonly LogPlan[];
  /** Finished first: interrupted by an earlier run. */
  readonly resumed: readonly Journal[];
  /** Undefined: a dry run, or nothing to do. */
  readonly done: Journal | undefined;
}

/** With `write` the caller holds the lock of the directory. */
export async function repair(
  deps: ToolDeps,
  path: string,
  how: { readonly write: boolean; readonly from?: OtherCopy | undefined },
): Promise<RepairReport> {
  const resumed = how.write ? await finishInterrupted(deps) : [];
  const report = await verify(deps, path);
  const [unreadable] = report.unreadable;
  if (unreadable !== undefined) throw new RepairRefused(`${unreadable.path} cannot be read: ${unreadable.reason}`);
  const plans: LogPlan[] = [];
  for (const log of report.logs) {
    const whole = log.target.only === undefined ? log : await checkLog(deps, { ...log.target, only: undefined });
    plans.push(
      planLog(whole, how.from === undefined ? [] : await fromCopy(deps, how.from, whole, report.logs.length === 1)),
    );
  }
  if (!how.write) return { plans, resumed, done: undefined };
  const journal = await prepareRepair(deps, how.from?.deps, plans);
  return { plans, resumed, done: journal === undefined ? undefined : await applyRepair(deps, journal) };
}

async function finishInterrupted(deps: ToolDeps): Promise<readonly Journal[]> {
  const finished: Journal[] = [];
  for (const id of await repairIds(deps.disk)) {
    const journal = await readJournal(deps, id);
    if (journal?.state === 'planned') finished.push(await applyRepair(deps, journal));
    else if (journal?.state === 'undoing') finished.push(await undoRepair(deps, journal));
  }
  return finished;
}

/** The newest repair that is done, or the one that is named. */
export async function undo(deps: ToolDeps, id: string | undefined): Promise<Journal> {
  const ids = id === undefined ? await repairIds(deps.disk) : [id];
  for (const each of ids.toReversed()) {
    const journal = await readJournal(deps, each);
    if (journal === undefined) continue;
    if (id === undefined && journal.state === 'undone') continue;
    return await undoRepair(deps, journal);
  }
  throw new RepairRefused(id === undefined ? 'there is no repair to undo' : `there is no repair ${id}`);
}

/** Batches of the other copy that lie whole in what is missing here, each one checked, with the epochs that this log knows. */
async function fromCopy(deps: ToolDeps, copy: OtherCopy, log: LogReport, isOnly: boolean): Promise<readonly Piece[]> {
  const holes = holesOf(log);
  if (holes.length === 0) return [];
  const { logs } = await findTargets(copy.deps.disk, copy.path);
  const tail = log.target.directory.split('/').slice(-2).join('/');
  const target =
    logs.length === 1 && isOnly
      ? logs[0]
      : logs.find(({ directory }) => directory === tail || directory.endsWith(`/${tail}`));
  if (target === undefined) return [];
  const given = target.directory.split('/').slice(-2).join('/');
  // Where the whole log is missing there is nothing to compare: then its name is all that is known.
  if (given !== tail && [given, tail].every((name) => PARTITION.test(name)))
    throw new RepairRefused(`${target.label} of the other copy is another log than ${log.target.label}`);
  const found: (Omit<Piece, 'path'> & { readonly segment: number })[] = [];
  const other = await checkLog(copy.deps, target, {
    visit: (segment) => (header, position, bytes) => {
      if (isWanted(header, holes, log)) {
        found.push({
          source: 'copy',
          segment,
          position,
          end: position + bytes.length,
          baseOffset: header.baseOffset,
          nextOffset: header.lastOffset + 1,
          firstEpoch: header.leaderEpoch,
          lastEpoch: header.leaderEpoch,
          patches: [],
        });
      }
    },
  });
  await needsSameLog({ deps, log }, { deps: copy.deps, log: other }, holes);
  const paths = new Map(
    other.segments.map(({ baseOffset, path, scan }) => [
      baseOffset,
      scan.runs.every(({ patches }) => patches.length === 0) ? path : undefined,
    ]),
  );
  return found.flatMap(({ segment, ...piece }) => {
    const path = paths.get(segment);
    return path === undefined ? [] : [{ ...piece, path }];
  });
}

/** A topic's id and the number of a partition. */
const PARTITION = /^[0-9a-f]{32}\/\d+$/;

/** The batches around what is missing must be the same in both: a log of another partition, or one that went another way, is no copy. */
async function needsSameLog(own: DiffSide, copy: DiffSide, holes: readonly KnownLoss[]): Promise<void> {
  const both = (await diffLogs(own, copy)).filter(({ kind }) => kind === 'same' || kind === 'different');
  for (const hole of holes) {
    const around = [
      both.findLast(({ to }) => to <= hole.from),
      ...both.filter(({ from, to }) => from < hole.to && to > hole.from),
      both.find(({ from }) => from >= hole.to),
    ];
    const other = around.find((range) => range?.kind === 'different');
    if (other !== undefined)
      throw new RepairRefused(
        `${copy.log.target.label} of the other copy is another log: offsets ${String(other.from)} to ${String(other.to - 1)} differ from those of ${own.log.target.label}`,
      );
  }
}

function isWanted(header: BatchHeader, holes: readonly KnownLoss[], log: LogReport): boolean {
  if (!holes.some(({ from, to }) => from <= header.baseOffset && header.lastOffset < to)) return false;
  const begun = log.epochs.findLast(({ startOffset }) => startOffset <= header.baseOffset);
  const checkpoint = log.files.checkpoint.value;
  return (
    checkpoint === undefined ||
    begun === undefined ||
    header.baseOffset >= checkpoint.recoveryPoint ||
    begun.epoch === header.leaderEpoch
  );
}
