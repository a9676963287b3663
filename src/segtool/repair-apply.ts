// Carries a plan out: everything new is written beside first, then the record, then the files change places one by one.
import { leaderEpoch, offset, position, type LeaderEpoch, type Offset } from '../base/brands.ts';
import { CHECKPOINT_SLOT_BYTES, encodeCheckpoint, newestCheckpoint, type Checkpoint } from '../format/checkpoint.ts';
import { encodeSeal } from '../format/seal.ts';
import { parseSegmentFileName, segmentFileName } from '../format/segment.ts';
import type { Disk, DiskFile } from '../ports/disk.ts';
import { walkFile } from '../storage/file-walk.ts';
import { QUARANTINE_DIRECTORY } from '../storage/quarantine.ts';
import { readSmallFile } from '../storage/small-file.ts';
import { emptyFacts } from '../storage/segment.ts';
import { SegmentIndex } from '../storage/segment-index.ts';
import { encodeLosses } from './log-files.ts';
import {
  readJournal,
  repairDirectory,
  repairIds,
  stateOf,
  writeJournal,
  type Change,
  type FileState,
  type Journal,
} from './repair-journal.ts';
import type { CheckpointDraft, LogPlan, Piece, PlanStep } from './repair-plan.ts';
import { within, type ToolDeps } from './tool.ts';

/** The files are not those that the repair was made for; nothing was changed. */
export class RepairRefused extends Error {
  override readonly name = 'RepairRefused';
}

const COPY_BYTES = 1024 * 1024;

/** The number of the next repair; what an interrupted preparation left there is removed. */
async function nextRepair(deps: ToolDeps): Promise<string> {
  let highest = 0;
  for (const id of await repairIds(deps.disk)) {
    if ((await readJournal(deps, id)) === undefined) await discard(deps.disk, repairDirectory(id));
    else highest = Math.max(highest, Number(id.slice('repair-'.length)));
  }
  return `repair-${String(highest + 1).padStart(4, '0')}`;
}

/** A preparation without a record holds only copies. */
async function discard(disk: Disk, directory: string): Promise<void> {
  if (await disk.exists(`${directory}/journal.json`))
    throw new RepairRefused(`${directory}/journal.json cannot be read; look at it before anything else`);
  for (const { name, kind } of await disk.readDirectory(directory)) {
    if (kind === 'directory') {
      for (const entry of await disk.readDirectory(`${directory}/${name}`))
        await disk.unlink(`${directory}/${name}/${entry.name}`);
      await disk.removeDirectory(`${directory}/${name}`);
    } else await disk.unlink(`${directory}/${name}`);
  }
  await disk.removeDirectory(directory);
}

/** Writes everything new and the record; the log itself is untouched when it resolves. Undefined: there is nothing to do. */
export async function prepareRepair(
  deps: ToolDeps,
  copy: ToolDeps | undefined,
  plans: readonly LogPlan[],
): Promise<Journal | undefined> {
  const id = await nextRepair(deps);
  const preparation = new Preparation(deps, copy, repairDirectory(id));
  await preparation.begin();
  for (const plan of plans) for (const step of plan.steps) await preparation.step(plan.directory, step);
  if (preparation.changes.length === 0) {
    await discard(deps.disk, repairDirectory(id));
    return undefined;
  }
  await preparation.end();
  const lost = plans.flatMap((plan) => plan.lost.map(({ from, to }) => ({ log: plan.directory, from, to })));
  const journal: Journal = { id, state: 'planned', atMs: deps.clock.wallMs(), changes: preparation.changes, lost };
  await writeJournal(deps, journal);
  return journal;
}

class Preparation {
  readonly changes: Change[] = [];
  private readonly deps: ToolDeps;
  private readonly copy: ToolDeps | undefined;
  private readonly directory: string;
  constructor(deps: ToolDeps, copy: ToolDeps | undefined, directory: string) {
    this.deps = deps;
    this.copy = copy;
    this.directory = directory;
  }

  async begin(): Promise<void> {
    const { disk } = this.deps;
    for (const part of ['new', 'old', 'undone']) await disk.makeDirectory(`${this.directory}/${part}`);
    for (const path of ['', QUARANTINE_DIRECTORY, this.directory]) await disk.syncDirectory(path);
  }
  async end(): Promise<void> {
    await this.deps.disk.syncDirectory(`${this.directory}/new`);
  }

  async step(directory: string, step: PlanStep): Promise<void> {
    const path = (name: string): string => within(directory, name);
    if (step.kind === 'remove') await this.put(path(step.name), undefined, step.why);
    else if (step.kind === 'marker')
      await this.put(path(segmentFileName(step.base, 'log')), writeBytes(new Uint8Array(0)), step.why);
    else if (step.kind === 'losses')
      await this.put(path('losses.json'), writeBytes(encodeLosses(step.losses)), step.why);
    else if (step.kind === 'checkpoint')
      await this.put(path('checkpoint'), writeBytes(await this.checkpoint(directory, step.draft)), step.why);
    else if (step.kind === 'segment') {
      const made = await this.put(
        path(segmentFileName(step.base, 'log')),
        (file) => this.copyPieces(file, step.pieces),
        step.why,
      );
      await this.derive(
        directory,
        step,
        made ?? path(segmentFileName(step.base, 'log')),
        step.pieces.reduce((sum, piece) => sum + piece.end - piece.position, 0),
      );
    } else await this.derive(directory, step, path(segmentFileName(step.base, 'log')), step.bytes);
  }

  /** Resolves to where the new file lies; undefined: what is there is the same already. */
  private async put(
    path: string,
    write: ((file: DiskFile) => Promise<void>) | undefined,
    why: string,
  ): Promise<string | undefined> {
    const { disk } = this.deps;
    const before = await stateOf(this.deps, path);
    const made = `${this.directory}/new/${String(this.changes.length)}`;
    let after: FileState | undefined;
    if (write !== undefined) {
      const file = await disk.open(made, 'create');
      try {
        await write(file);
        await file.sync();
      } finally {
        await file.close();
      }
      after = await stateOf(this.deps, made);
      if (after !== undefined && isSame(before, after)) {
        await disk.unlink(made);
        return undefined;
      }
    } else if (before === undefined) return undefined;
    this.changes.push({ path, before, after, why });
    return made;
  }

  private async copyPieces(target: DiskFile, pieces: readonly Piece[]): Promise<void> {
    let at = 0;
    for (const piece of pieces) {
      const { disk } = piece.source === 'copy' && this.copy !== undefined ? this.copy : this.deps;
      const file = await disk.open(piece.path, 'read');
      try {
        for (let from = piece.position; from < piece.end;) {
          const buffer = new Uint8Array(Math.min(COPY_BYTES, piece.end - from));
          const got = await file.read(buffer, position(from));
          if (got === 0) throw new RepairRefused(`${piece.path} has become shorter while it was read`);
          await target.writeSlow(buffer.subarray(0, got), position(at));
          from += got;
          at += got;
          this.deps.progress?.(got);
        }
      } finally {
        await file.close();
      }
      for (const patch of piece.patches) await target.writeSlow(patch.bytes, position(at - piece.end + patch.at));
    }
  }

  /** Walks the segment, which proves the bytes once more, and writes what is derived from it. */
  private async derive(
    directory: string,
    how: {
      readonly base: number;
      readonly isLast: boolean;
      readonly rolledMs: number;
      readonly interval: number;
      readonly epochBefore: number;
      readonly why: string;
    },
    log: string,
    bytes: number,
  ): Promise<void> {
    const walked = await walkWhole(this.deps, log, how.base, bytes, how.interval, how.epochBefore);
    const path = (suffix: 'index' | 'timeindex' | 'seal'): string =>
      within(directory, segmentFileName(how.base, suffix));
    await this.put(path('index'), writeBytes(walked.index.offsetBytes), how.why);
    await this.put(path('timeindex'), writeBytes(walked.index.timeBytes), how.why);
    if (how.isLast) return;
    const { facts, epochs, nextOffset } = walked;
    const seal = encodeSeal(
      {
        baseOffset: offset(how.base),
        nextOffset: offset(nextOffset),
        facts: { ...facts, crc: facts.crc ?? 0, rolledMs: how.rolledMs },
        epochs,
      },
      this.deps.crc32c,
    );
    await this.put(path('seal'), writeBytes(seal), how.why);
  }

  private async checkpoint(directory: string, draft: CheckpointDraft): Promise<Uint8Array> {
    const slot =
      draft.keep === undefined
        ? encodeCheckpoint(await this.newCheckpoint(directory, draft), this.deps.crc32c)
        : await this.intactSlot(within(directory, 'checkpoint'));
    const bytes = new Uint8Array(2 * CHECKPOINT_SLOT_BYTES);
    for (const at of [0, CHECKPOINT_SLOT_BYTES]) bytes.set(slot, at);
    return bytes;
  }

  /** As it stands: a higher sequence would take back what a younger sync mark says. */
  private async intactSlot(path: string): Promise<Uint8Array> {
    const bytes = (await readSmallFile(this.deps.disk, path, 16 * CHECKPOINT_SLOT_BYTES)) ?? new Uint8Array(0);
    const newest = newestCheckpoint(bytes, this.deps.crc32c);
    if (newest === undefined) throw new RepairRefused(`${path} has changed since it was read`);
    return bytes.subarray(newest.slot * CHECKPOINT_SLOT_BYTES, (newest.slot + 1) * CHECKPOINT_SLOT_BYTES);
  }

  private async newCheckpoint(directory: string, draft: CheckpointDraft): Promise<Omit<Checkpoint, 'epochsCut'>> {
    await this.syncWhatStays(directory);
    const last = within(directory, segmentFileName(draft.segmentBase, 'log'));
    const change = this.changes.find(({ path }) => path === last);
    return {
      sequence: draft.sequence,
      clean: false,
      recoveryPoint: offset(draft.recoveryPoint),
      segmentBase: offset(draft.segmentBase),
      segmentPosition: change?.after?.bytes ?? (await this.dataEnd(last, draft.segmentBase)),
      logStart: offset(draft.logStart),
      highWatermark: offset(draft.highWatermark),
      epochs: draft.epochs,
      active: undefined,
    };
  }

  /** The checkpoint calls all of the log synced; a process that was killed has left some of it in the page cache alone. */
  private async syncWhatStays(directory: string): Promise<void> {
    const { disk } = this.deps;
    const changed = new Set(this.changes.map(({ path }) => path));
    for (const { name } of await disk.readDirectory(directory)) {
      const path = within(directory, name);
      if (parseSegmentFileName(name)?.suffix !== 'log' || changed.has(path)) continue;
      const file = await disk.open(path, 'write');
      try {
        await file.sync();
      } finally {
        await file.close();
      }
    }
  }

  /** Of the last segment, when it stays as it is: behind its data lies prepared space. */
  private async dataEnd(path: string, base: number): Promise<number> {
    if (!(await this.deps.disk.exists(path))) return 0;
    return (await walkWhole(this.deps, path, base, Number.POSITIVE_INFINITY, COPY_BYTES)).end;
  }
}

async function walkWhole(
  deps: ToolDeps,
  path: string,
  base: number,
  bytes: number,
  interval: number,
  epochBefore = -1,
): Promise<{
  index: SegmentIndex;
  facts: ReturnType<typeof emptyFacts>;
  epochs: Parameters<typeof encodeSeal>[0]['epochs'];
  nextOffset: number;
  end: number;
}> {
  const index = new SegmentIndex(interval);
  const facts = emptyFacts();
  const epochs: { epoch: LeaderEpoch; startOffset: Offset }[] = [];
  const file = await deps.disk.open(path, 'read');
  try {
    const to = Math.min(bytes, await file.size());
    const stop = await walkFile(
      file,
      deps.clock,
      deps.crc32c,
      { position: 0, offset: offset(base), epochAtLeast: -1, to },
      ({ header, position: at, bytes: batch }) => {
        index.note(header.baseOffset - base, at, facts.maxTimestamp);
        if (facts.batchCount === 0) {
          facts.firstTimestamp = header.baseTimestamp;
          facts.firstEpoch = header.leaderEpoch;
        }
        if (header.leaderEpoch > (epochs.at(-1)?.epoch ?? epochBefore))
          epochs.push({ epoch: leaderEpoch(header.leaderEpoch), startOffset: offset(header.baseOffset) });
        facts.batchCount += 1;
        facts.recordCount += header.recordCount;
        facts.lastEpoch = header.leaderEpoch;
        facts.maxTimestamp = Math.max(facts.maxTimestamp, header.maxTimestamp);
        facts.crc = deps.crc32c(batch, facts.crc);
        facts.size = at + batch.length;
        return true;
      },
    );
    if (Number.isFinite(bytes) && stop.position !== bytes)
      throw new RepairRefused(
        `${path}: ${stop.detail} at ${String(stop.position)}, where the plan has an intact batch`,
      );
    return { index, facts, epochs, nextOffset: stop.offset, end: stop.position };
  } finally {
    await file.close();
  }
}

function writeBytes(bytes: Uint8Array): (file: DiskFile) => Promise<void> {
  return async (file) => {
    if (bytes.length > 0) await file.writeSlow(bytes, position(0));
  };
}

function isSame(left: FileState | undefined, right: FileState | undefined): boolean {
  return left?.bytes === right?.bytes && left?.crc32c === right?.crc32c;
}

function folderOf(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash < 0 ? '' : path.slice(0, slash);
}

interface Held {
  readonly at: string;
  readonly state: FileState;
}

/**
 * One file out, durably, then the other in. Each step is told from what is there, and can be repeated. A rename between two
 * folders can survive a power cut in one of them only: then the same file is found under both names.
 */
async function exchange(deps: ToolDeps, path: string, out: Held | undefined, into: Held | undefined): Promise<void> {
  const { disk } = deps;
  const isThere = await disk.exists(path);
  if (out !== undefined && (await disk.exists(out.at))) {
    const notYetIn = into === undefined || (await disk.exists(into.at));
    if (isThere && notYetIn && isSame(await stateOf(deps, path), out.state)) {
      await disk.unlink(path);
      await disk.syncDirectory(folderOf(path));
    }
  } else if (out !== undefined) {
    if (!isThere) throw new RepairRefused(`${path} is gone, and was not taken out`);
    await disk.rename(path, out.at);
    await disk.syncDirectory(folderOf(out.at));
    await disk.syncDirectory(folderOf(path));
  }
  if (into === undefined || !(await disk.exists(into.at))) return;
  if (await disk.exists(path)) {
    if (!isSame(await stateOf(deps, path), into.state))
      throw new RepairRefused(`${path} was made again by somebody else while a repair was unfinished`);
    await disk.unlink(into.at);
  } else await disk.rename(into.at, path);
  await disk.syncDirectory(folderOf(path));
  await disk.syncDirectory(folderOf(into.at));
}

function held(at: string, state: FileState | undefined): Held | undefined {
  return state === undefined ? undefined : { at, state };
}

/** Carries out what is recorded; done again after an interruption it ends at the same files. */
export async function applyRepair(deps: ToolDeps, journal: Journal): Promise<Journal> {
  const directory = repairDirectory(journal.id);
  for (const [index, change] of journal.changes.entries())
    await exchange(
      deps,
      change.path,
      held(`${directory}/old/${String(index)}`, change.before),
      held(`${directory}/new/${String(index)}`, change.after),
    );
  const done: Journal = { ...journal, state: 'done' };
  await writeJournal(deps, done);
  return done;
}

/** Puts back what a repair took out. Refused when the files it had put in place have changed since. */
export async function undoRepair(deps: ToolDeps, journal: Journal): Promise<Journal> {
  if (journal.state === 'done') {
    for (const change of journal.changes) {
      if (!isSame(await stateOf(deps, change.path), change.after))
        throw new RepairRefused(`${change.path} has changed since the repair: undoing it would lose that`);
    }
    await writeJournal(deps, { ...journal, state: 'undoing' });
  } else if (journal.state !== 'undoing')
    throw new RepairRefused(
      journal.state === 'undone'
        ? `${journal.id} is undone already`
        : `${journal.id} is not finished: run repair --write first`,
    );
  const directory = repairDirectory(journal.id);
  await deps.disk.makeDirectory(`${directory}/undone`);
  await deps.disk.syncDirectory(directory);
  const undone: Journal = { ...journal, state: 'undone' };
  for (const [index, change] of [...journal.changes.entries()].toReversed())
    await exchange(
      deps,
      change.path,
      held(`${directory}/undone/${String(index)}`, change.after),
      held(`${directory}/old/${String(index)}`, change.before),
    );
  await writeJournal(deps, undone);
  return undone;
}
