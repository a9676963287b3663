// segtool inspect|verify|repair|undo|dump|find|stats|export|import|diff
import { existsSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { utf8Encode } from '../../base/bytes.ts';
import type { CodecName } from '../../base/codec.ts';
import { FatalError } from '../../base/fatal.ts';
import { DiskError, type DiskLock } from '../../ports/disk.ts';
import { systemRandom } from '../../platform/random.ts';
import { silentTelemetry } from '../../platform/telemetry.ts';
import { diffLogs } from '../../segtool/diff.ts';
import { describeBatch, dumpRecords, jsonRecord, type DumpedRecord, type RecordFilter } from '../../segtool/dump.ts';
import { readBatches } from '../../segtool/batches.ts';
import { finding } from '../../segtool/findings.ts';
import { ImportError, importRecords } from '../../segtool/import.ts';
import { inspect } from '../../segtool/inspect.ts';
import { checkLog, type LogReport } from '../../segtool/log-check.ts';
import { RepairRefused } from '../../segtool/repair-apply.ts';
import { planLog } from '../../segtool/repair-plan.ts';
import { repair, undo } from '../../segtool/repair.ts';
import { columns, ranges, renderInspect, renderRepair, renderUndo, renderVerify, size } from '../../segtool/render.ts';
import { logStats, type LogStats } from '../../segtool/stats.ts';
import { findTargets } from '../../segtool/targets.ts';
import { logBytes, settled, verify, type Verdict } from '../../segtool/verify.ts';
import { CommandError, EndedWith, STATUS_FAILED, UsageError } from '../failure.ts';
import { Output, OutputClosed } from '../output.ts';
import { openPath, type OpenedPath } from '../segtool-disk.ts';

type AddonPath = () => string;

export interface SegtoolFlags {
  readonly json?: boolean;
  readonly progress: boolean;
}
export interface InspectFlags extends SegtoolFlags {
  readonly ratios?: boolean;
}
export interface RepairFlags extends SegtoolFlags {
  readonly write?: boolean;
  readonly from?: string;
}
export interface UndoFlags extends SegtoolFlags {
  readonly write?: boolean;
}
interface FilterFlags extends SegtoolFlags {
  readonly from?: number;
  readonly to?: number;
  readonly key?: string;
  readonly header?: string;
}
export interface DumpFlags extends FilterFlags {
  readonly records?: boolean;
  readonly hex?: boolean;
  readonly control?: boolean;
}
export interface FindFlags extends SegtoolFlags {
  readonly offset?: number;
  readonly timestamp?: string;
  readonly eventId?: string;
}
export interface ExportFlags extends FilterFlags {
  readonly raw?: boolean;
  readonly separator: Uint8Array;
}
export interface ImportFlags extends SegtoolFlags {
  readonly write?: boolean;
  readonly compression: CodecName;
}

const STATUS_UNREADABLE = 3;
const STATUS: Readonly<Record<Verdict, number>> = { clean: 0, damaged: STATUS_FAILED, unreadable: STATUS_UNREADABLE };
const LIVE_NOTE = 'A broker is running on this directory: the end of its logs may move while they are read.';

async function opened<Result>(
  given: string,
  flags: SegtoolFlags,
  addonPath: AddonPath,
  work: (at: OpenedPath) => Promise<Result>,
): Promise<Result> {
  if (!existsSync(given)) throw new EndedWith(STATUS_UNREADABLE, `${given}: there is nothing there`);
  const at = openPath(given, addonPath, flags.progress && flags.json !== true);
  if (at.isLive && flags.json !== true) process.stderr.write(`${LIVE_NOTE}\n`);
  try {
    at.progress.total = await logBytes(at.deps, at.path);
    return await work(at);
  } catch (error) {
    if (error instanceof DiskError) throw new EndedWith(STATUS_UNREADABLE, `${given}: ${error.message}`);
    if (error instanceof RepairRefused || error instanceof ImportError) throw new CommandError(error.message);
    throw error;
  } finally {
    at.progress.end();
  }
}

function endWith(status: number): void {
  if (status !== 0) throw new EndedWith(status);
}

let output: Output | undefined;

function standardOutput(): Output {
  output ??= new Output();
  return output;
}

/** A reader that has gone does not change what was found: the exit status still says it. */
async function print(flags: SegtoolFlags, json: unknown, text: () => string): Promise<void> {
  try {
    await standardOutput().line(flags.json === true ? JSON.stringify(json) : text());
  } catch (error) {
    if (!(error instanceof OutputClosed)) throw error;
  }
}

export async function runInspect(paths: readonly string[], flags: InspectFlags, addonPath: AddonPath): Promise<void> {
  let status = 0;
  for (const path of paths) {
    await opened(path, flags, addonPath, async ({ deps, path: within }) => {
      const found = await inspect(deps, within, { ratios: flags.ratios === true });
      if (found.report.verdict === 'unreadable') status = STATUS_UNREADABLE;
      await print(
        flags,
        { path, verdict: found.report.verdict, logs: found.logs, unreadable: found.report.unreadable },
        () => renderInspect(found),
      );
    });
  }
  endWith(status);
}

export async function runVerify(paths: readonly string[], flags: SegtoolFlags, addonPath: AddonPath): Promise<void> {
  let status = 0;
  for (const path of paths) {
    await opened(path, flags, addonPath, async ({ deps, path: within, isLive }) => {
      const found = await verify(deps, within);
      const report = isLive ? settled(found) : found;
      const findings = isLive
        ? [...report.findings, finding('TAIL_MAY_MOVE', 'lock', 'its lock names a running process')]
        : report.findings;
      const lost = report.logs
        .filter(({ target }) => target.only === undefined)
        .flatMap((log) => planLog(log).lost.map(({ from, to }) => ({ log: log.target.label, from, to })));
      status = Math.max(status, STATUS[report.verdict]);
      await print(
        flags,
        { path, verdict: report.verdict, findings, lostAfterRepair: lost, unreadable: report.unreadable },
        () => renderVerify({ ...report, findings }, lost),
      );
    });
  }
  endWith(status);
}

/** Refused while a broker, or another repair, works on the directory. */
async function locked<Result>({ deps }: OpenedPath, work: () => Promise<Result>): Promise<Result> {
  let lock: DiskLock;
  try {
    lock = await deps.disk.lock('lock');
  } catch (error) {
    if (error instanceof DiskError && error.kind === 'locked')
      throw new FatalError('DATA_DIR_LOCKED', `Nothing was changed: ${error.message}. Stop the broker first.`, error);
    throw error;
  }
  try {
    return await work();
  } finally {
    await lock.release();
  }
}

export async function runRepair(path: string, flags: RepairFlags, addonPath: AddonPath): Promise<void> {
  await opened(path, flags, addonPath, async (at) => {
    if (flags.from !== undefined && !existsSync(flags.from))
      throw new EndedWith(STATUS_UNREADABLE, `${flags.from}: there is no other copy`);
    const other = flags.from === undefined ? undefined : openPath(flags.from, addonPath, false);
    const from = other === undefined ? undefined : { deps: other.deps, path: other.path };
    const write = flags.write === true;
    const run = async (): Promise<void> => {
      const report = await repair(at.deps, at.path, { write, from });
      const plans = report.plans.map(({ steps, ...rest }) => ({
        ...rest,
        steps: steps.map((step) => ({
          ...step,
          ...('pieces' in step
            ? { pieces: step.pieces.map(({ patches, ...piece }) => ({ ...piece, patches: patches.length })) }
            : {}),
        })),
      }));
      await print(
        flags,
        { path, write, plans, resumed: report.resumed.map(({ id }) => id), done: report.done?.id ?? null },
        () => renderRepair(report, write),
      );
    };
    await (write ? locked(at, run) : run());
  });
}

export async function runUndo(
  path: string,
  id: string | undefined,
  flags: UndoFlags,
  addonPath: AddonPath,
): Promise<void> {
  if (flags.write !== true) throw new UsageError('undo changes files: say --write');
  await opened(path, flags, addonPath, (at) =>
    locked(at, async () => {
      const journal = await undo(at.deps, id);
      await print(flags, { path, undone: journal.id, files: journal.changes.map((change) => change.path) }, () =>
        renderUndo(journal),
      );
    }),
  );
}

function filterOf(flags: FilterFlags): RecordFilter {
  const at = flags.header?.indexOf('=') ?? -1;
  const header =
    flags.header === undefined
      ? undefined
      : at < 0
        ? { name: flags.header, value: undefined }
        : { name: flags.header.slice(0, at), value: utf8Encode(flags.header.slice(at + 1)) };
  return { from: flags.from, to: flags.to, key: flags.key === undefined ? undefined : utf8Encode(flags.key), header };
}

async function* reports({ deps, path }: OpenedPath): AsyncGenerator<LogReport> {
  for (const target of (await findTargets(deps.disk, path)).logs) yield checkLog(deps, target);
}

export async function runDump(path: string, flags: DumpFlags, addonPath: AddonPath): Promise<void> {
  const to = standardOutput();
  await opened(path, flags, addonPath, async (at) => {
    for await (const log of reports(at)) {
      if (flags.json !== true) await to.line(`# ${log.target.label}`);
      if (flags.records === true) await dumpAllRecords(to, at, log, flags);
      else await dumpAllBatches(to, at, log, flags);
    }
  });
}

async function dumpAllBatches(to: Output, at: OpenedPath, log: LogReport, flags: DumpFlags): Promise<void> {
  for await (const found of readBatches(at.deps, log, filterOf(flags))) {
    if (flags.json === true) await to.line(JSON.stringify(found.kind === 'batch' ? describeBatch(found) : found));
    else if (found.kind === 'skipped') await to.line(`skipped offsets ${ranges([found])}`);
    else {
      const batch = describeBatch(found);
      await to.line(
        `offsets ${ranges([{ from: batch.baseOffset, to: batch.lastOffset + 1 }])}  ${batch.file} at ${String(batch.position)}, ${String(batch.bytes)} bytes, ${String(batch.records)} records, ${batch.codec}, epoch ${String(batch.epoch)}, ${new Date(batch.baseTimestamp).toISOString()}${batch.control ? ', control' : ''}${batch.producerId < 0 ? '' : `, producer ${String(batch.producerId)} epoch ${String(batch.producerEpoch)} sequence ${String(batch.baseSequence)}`}, crc ${batch.crc}`,
      );
      if (flags.hex === true) await to.line(Buffer.from(found.bytes).toString('hex'));
    }
  }
}

async function dumpAllRecords(to: Output, at: OpenedPath, log: LogReport, flags: DumpFlags): Promise<void> {
  for await (const found of dumpRecords(at.deps, log, { ...filterOf(flags), control: flags.control })) {
    if (flags.json === true) await to.line(JSON.stringify(found.kind === 'record' ? jsonRecord(found.record) : found));
    else if (found.kind === 'skipped') await to.line(`skipped offsets ${ranges([found])}`);
    else if (found.kind === 'undecodable') await to.line(`offsets ${ranges([found])} do not decode: ${found.reason}`);
    else await to.line(recordLine(found, flags.hex === true));
  }
}

function recordLine({ record }: DumpedRecord, hex: boolean): string {
  const show = (bytes: Uint8Array | null): string => {
    if (bytes === null) return 'null';
    if (hex) return Buffer.from(bytes).toString('hex');
    return JSON.stringify(jsonRecord({ ...record, key: bytes }).key);
  };
  const headers = record.headers.map(({ key, value }) => `${key}=${show(value)}`).join(' ');
  return `${String(record.offset)}  ${record.timestamp < 0 ? '-' : new Date(record.timestamp).toISOString()}  ${show(record.key)}  ${show(record.value)}${headers === '' ? '' : `  ${headers}`}`;
}

export async function runFind(path: string, flags: FindFlags, addonPath: AddonPath): Promise<void> {
  const wanted = [flags.offset, flags.timestamp, flags.eventId].filter((each) => each !== undefined);
  if (wanted.length !== 1) throw new UsageError('say one of --offset, --timestamp, --event-id');
  const since = flags.timestamp === undefined ? undefined : timeOf(flags.timestamp);
  const filter: RecordFilter = {
    ...(flags.offset === undefined ? {} : { from: flags.offset, to: flags.offset + 1 }),
    since,
    header: flags.eventId === undefined ? undefined : { name: 'event-id', value: utf8Encode(flags.eventId) },
  };
  let found = 0;
  await opened(path, flags, addonPath, async (at) => {
    const to = standardOutput();
    for await (const log of reports(at)) {
      for await (const each of dumpRecords(at.deps, log, filter)) {
        if (each.kind !== 'record') {
          process.stderr.write(`skipped offsets ${ranges([each])} of ${log.target.label}: segtool verify says why\n`);
          continue;
        }
        found += 1;
        const line = { log: log.target.label, file: each.file, position: each.position, ...jsonRecord(each.record) };
        await to.line(
          flags.json === true
            ? JSON.stringify(line)
            : `${log.target.label}  ${each.file} at ${String(each.position)}\n  ${recordLine(each, false)}`,
        );
        if (flags.eventId === undefined) break;
      }
    }
  });
  if (found === 0) throw new CommandError('there is no such record');
}

function timeOf(text: string): number {
  const ms = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
  if (!Number.isSafeInteger(ms)) throw new UsageError(`--timestamp ${text}: neither milliseconds nor an ISO 8601 time`);
  return ms;
}

export async function runStats(path: string, flags: SegtoolFlags, addonPath: AddonPath): Promise<void> {
  await opened(path, flags, addonPath, async (at) => {
    for await (const log of reports(at)) {
      const stats = await logStats(at.deps, log);
      await print(flags, stats, () => renderStats(stats));
    }
  });
}

function renderStats(stats: LogStats): string {
  const bars = (buckets: LogStats['batchBytes']): string => {
    const most = buckets.reduce((largest, { count }) => Math.max(largest, count), 1);
    return columns(
      ['BELOW', 'COUNT', ''],
      buckets.map(({ below, count }) => [size(below), String(count), '#'.repeat(Math.ceil((count / most) * 40))]),
    );
  };
  const rates = stats.rates.map(({ fromMs, records, bytes }) => [
    new Date(fromMs).toISOString(),
    String(records),
    size(bytes),
  ]);
  const keys = stats.largestKeys.map(({ key, records, bytes }) => [JSON.stringify(key), String(records), size(bytes)]);
  return [
    `${stats.log}   ${String(stats.batches)} batches, ${String(stats.records)} records`,
    `Batches\n${bars(stats.batchBytes)}`,
    `Records\n${bars(stats.recordBytes)}`,
    `Over time\n${columns(['FROM', 'RECORDS', 'BYTES'], rates)}`,
    `Largest keys\n${columns(['KEY', 'RECORDS', 'BYTES'], keys)}`,
  ].join('\n\n');
}

export async function runExport(path: string, flags: ExportFlags, addonPath: AddonPath): Promise<void> {
  const to = standardOutput();
  let skipped = 0;
  await opened(path, { ...flags, progress: false }, addonPath, async (at) => {
    for await (const log of reports(at)) {
      for await (const found of dumpRecords(at.deps, log, filterOf(flags))) {
        if (found.kind !== 'record') {
          skipped += 1;
          process.stderr.write(`skipped offsets ${ranges([found])} of ${log.target.label}\n`);
        } else if (flags.raw === true) {
          to.add(found.record.value ?? new Uint8Array(0));
          to.add(flags.separator);
        } else to.add(Buffer.from(`${JSON.stringify(jsonRecord(found.record))}\n`));
        if (to.isFull) await to.flush();
      }
    }
    await to.flush();
  });
  endWith(skipped === 0 ? 0 : STATUS_FAILED);
}

export async function runImport(path: string, flags: ImportFlags, addonPath: AddonPath): Promise<void> {
  if (flags.write !== true) throw new UsageError('import writes files: say --write');
  const whole = resolve(path);
  await opened(dirname(whole), { ...flags, progress: false }, addonPath, async ({ deps, path: parent }) => {
    const within = parent === '' ? basename(whole) : `${parent}/${basename(whole)}`;
    const storage = {
      ...deps,
      random: systemRandom,
      telemetry: silentTelemetry,
      fatal: (_reason: string, detail: string): never => {
        throw new CommandError(detail);
      },
    };
    const records = await importRecords(deps, storage, within, inputLines(), flags.compression);
    await print(flags, { path, records }, () => `${String(records)} records in ${path}`);
  });
}

/** Not opened before it is read: what comes earlier would be lost. */
async function* inputLines(): AsyncGenerator<string> {
  yield* createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
}

export async function runDiff(first: string, second: string, flags: SegtoolFlags, addonPath: AddonPath): Promise<void> {
  const unequal: string[] = [];
  await opened(first, flags, addonPath, (one) =>
    opened(second, flags, addonPath, async (two) => {
      const [left, right] = [
        (await findTargets(one.deps.disk, one.path)).logs,
        (await findTargets(two.deps.disk, two.path)).logs,
      ];
      for (const target of left) {
        const tail = (directory: string): string => directory.split('/').slice(-2).join('/');
        const other =
          left.length === 1 && right.length === 1
            ? right[0]
            : right.find(({ directory }) => tail(directory) === tail(target.directory));
        if (other === undefined) {
          unequal.push(target.label);
          await print(flags, { log: target.label, missing: 'second' }, () => `${target.label}  is not in ${second}`);
          continue;
        }
        const differences = await diffLogs(
          { deps: one.deps, log: await checkLog(one.deps, target) },
          { deps: two.deps, log: await checkLog(two.deps, other) },
        );
        if (differences.some(({ kind }) => kind !== 'same')) unequal.push(target.label);
        await print(
          flags,
          { log: target.label, ranges: differences },
          () =>
            `${target.label}\n${columns(
              ['OFFSETS', ''],
              differences.map((range) => [ranges([range]), range.kind]),
            )}`,
        );
      }
      for (const target of right)
        if (
          left.length > 1 &&
          !left.some(({ directory }) => directory.endsWith(target.directory.split('/').slice(-2).join('/')))
        ) {
          unequal.push(target.label);
          await print(flags, { log: target.label, missing: 'first' }, () => `${target.label}  is not in ${first}`);
        }
    }),
  );
  endWith(unequal.length === 0 ? 0 : STATUS_FAILED);
}
