// Tables and sentences for people. The same facts leave as JSON elsewhere; nothing is computed here.
import type { Finding } from './findings.ts';
import type { InspectReport, LogShown } from './inspect.ts';
import type { Journal } from './repair-journal.ts';
import type { RepairReport } from './repair.ts';
import type { LogPlan, PlanStep } from './repair-plan.ts';
import { segmentFileName } from '../format/segment.ts';
import type { VerifyReport } from './verify.ts';

export function columns(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const numeric = header.map(
    (_, column) => rows.length > 0 && rows.every((row) => /^[\d.,]*[A-Za-z%×]*$/.test(row[column] ?? '')),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) =>
        numeric[column] === true ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return [line(header), ...rows.map(line)].join('\n');
}

export function size(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? String(value) : value.toFixed(value < 10 ? 1 : 0)}${units[unit] ?? ''}`;
}

export function ranges(list: readonly { readonly from: number; readonly to: number }[]): string {
  return list.map(({ from, to }) => (to === from + 1 ? String(from) : `${String(from)}–${String(to - 1)}`)).join(', ');
}

function time(ms: number): string {
  return ms < 0 ? '-' : new Date(ms).toISOString();
}

function plural(count: number, one: string): string {
  return `${String(count)} ${one}${count === 1 ? '' : one.endsWith('h') ? 'es' : 's'}`;
}

export function renderFindings(findings: readonly Finding[]): string {
  return findings
    .map(({ code, severity, file, position, offsets, detail, repair }) => {
      const where = [
        file,
        position === undefined ? '' : `at ${String(position)}`,
        offsets === undefined ? '' : `offsets ${ranges([offsets])}`,
      ]
        .filter((part) => part !== '')
        .join(', ');
      return `${severity.toUpperCase().padEnd(7)}  ${code}  ${where}\n         ${detail}\n         repair: ${repair}`;
    })
    .join('\n');
}

export function renderVerify(
  { verdict, findings, logs, unreadable }: VerifyReport,
  lostAfter: readonly { readonly log: string; readonly from: number; readonly to: number }[],
): string {
  const bytes = logs.reduce(
    (sum, { segments }) => sum + segments.reduce((part, { scan }) => part + scan.facts.size, 0),
    0,
  );
  const batches = logs.reduce(
    (sum, { segments }) => sum + segments.reduce((part, { scan }) => part + scan.facts.batchCount, 0),
    0,
  );
  const parts: string[] = [];
  if (findings.length > 0) parts.push(renderFindings(findings), '');
  for (const { path, reason } of unreadable) parts.push(`UNREADABLE  ${path === '' ? '.' : path}\n         ${reason}`);
  parts.push(
    `${verdict}: ${plural(logs.length, 'log')}, ${plural(
      logs.reduce((sum, { segments }) => sum + segments.length, 0),
      'segment',
    )}, ${plural(batches, 'intact batch')}, ${size(bytes)}`,
  );
  if (verdict === 'damaged') {
    parts.push(
      lostAfter.length === 0
        ? 'Repair loses nothing.'
        : `Repair keeps every intact batch; lost stay ${lostAfter.map(({ log, from, to }) => `${log} ${ranges([{ from, to }])}`).join('; ')}.`,
    );
    parts.push('See what it would do: segtool repair PATH   (changes nothing without --write)');
  }
  return parts.join('\n');
}

export function renderInspect({ report, logs }: InspectReport): string {
  const parts = logs.map(renderLog);
  const total = (of: (log: LogShown) => number): number => logs.reduce((sum, log) => sum + of(log), 0);
  parts.push(
    `${plural(logs.length, 'log')}, ${plural(
      total(({ records }) => records),
      'record',
    )}, ${plural(
      total(({ batches }) => batches),
      'batch',
    )}, ${size(total(({ bytes }) => bytes))}; ${report.verdict}${report.findings.length === 0 ? '' : `, ${plural(report.findings.length, 'finding')} (segtool verify tells)`}`,
  );
  return parts.join('\n\n');
}

function renderLog(log: LogShown): string {
  const rows = log.segments.map((segment) => [
    String(segment.baseOffset),
    String(segment.nextOffset),
    String(segment.batches),
    String(segment.records),
    size(segment.bytes),
    codecs(segment.codecs),
    segment.firstEpoch < 0
      ? '-'
      : segment.firstEpoch === segment.lastEpoch
        ? String(segment.firstEpoch)
        : `${String(segment.firstEpoch)}–${String(segment.lastEpoch)}`,
    time(segment.firstTimestamp),
    time(segment.maxTimestamp),
    segment.producers.length === 0 ? '-' : String(segment.producers.length),
    segment.index,
    segment.timeIndex,
    segment.seal,
    segment.lost.length === 0 ? '-' : ranges(segment.lost),
  ]);
  const head = [
    `${log.log}   offsets ${String(log.logStart)} to ${String(log.logEnd)}, ${plural(log.records, 'record')}, ${size(log.bytes)}`,
    `recovery point ${String(log.recoveryPoint ?? '-')}${log.syncedByMark === undefined ? '' : `, synced to ${String(log.syncedByMark)} by a sync mark`}, high watermark ${String(log.highWatermark ?? '-')}, ${log.stoppedCleanly ? 'stopped cleanly' : 'not stopped cleanly'}`,
    `epochs ${log.epochs.length === 0 ? '-' : log.epochs.map(({ epoch, startOffset }) => `${String(epoch)} from ${String(startOffset)}`).join(', ')}`,
    ...(log.lost.length === 0 ? [] : [`lost ${ranges(log.lost)}`]),
  ];
  const titles = [
    'BASE',
    'NEXT',
    'BATCHES',
    'RECORDS',
    'BYTES',
    'CODECS',
    'EPOCHS',
    'FIRST TIME',
    'LAST TIME',
    'PRODUCERS',
    'INDEX',
    'TIME INDEX',
    'SEAL',
    'LOST',
  ];
  return `${head.join('\n')}\n\n${columns(titles, rows)}`;
}

function codecs(uses: LogShown['segments'][number]['codecs']): string {
  const names = Object.entries(uses).map(
    ([name, { batches, bytes, plainBytes }]) =>
      `${name} ${String(batches)}${name === 'none' || plainBytes === 0 ? '' : ` (${(plainBytes / bytes).toFixed(2)}:1)`}`,
  );
  return names.length === 0 ? '-' : names.join(', ');
}

function renderStep(plan: LogPlan, step: PlanStep): string {
  const file = (name: string): string => (plan.directory === '' ? name : `${plan.directory}/${name}`);
  switch (step.kind) {
    case 'segment': {
      const patched = step.pieces.reduce((sum, { patches }) => sum + patches.length, 0);
      const copied = step.pieces.filter(({ source }) => source === 'copy').length;
      const notes = [
        patched > 0 ? plural(patched, 'header field') + ' as it was' : '',
        copied > 0 ? `${plural(copied, 'batch')} from the other copy` : '',
      ].filter((note) => note !== '');
      const last = step.pieces.at(-1);
      return `write   ${file(segmentFileName(step.base, 'log'))}, offsets ${ranges([{ from: step.base, to: last?.nextOffset ?? step.base }])}${notes.length === 0 ? '' : `; ${notes.join('; ')}`}: ${step.why}`;
    }
    case 'marker':
      return step.to > step.base
        ? `mark    ${file(segmentFileName(step.base, 'log'))}, offsets ${ranges([{ from: step.base, to: step.to }])} as lost: ${step.why}`
        : `write   ${file(segmentFileName(step.base, 'log'))}, empty: ${step.why}`;
    case 'derive':
      return `rebuild ${file(segmentFileName(step.base, 'index'))} and its like: ${step.why}`;
    case 'checkpoint':
      return `write   ${file('checkpoint')}: ${step.why}`;
    case 'losses':
      return `write   ${file('losses.json')}: ${step.why}`;
    case 'remove':
      return `take out ${file(step.name)}: ${step.why}`;
  }
}

export function renderRepair({ plans, resumed, done }: RepairReport, write: boolean): string {
  const parts: string[] = resumed.map((journal) => `finished ${journal.id}, which had been interrupted`);
  const busy = plans.filter(({ steps }) => steps.length > 0);
  for (const plan of busy) {
    parts.push(`${plan.label}\n${plan.steps.map((step) => `  ${renderStep(plan, step)}`).join('\n')}`);
    if (plan.restored.length > 0) parts.push(`  restored from the other copy: ${ranges(plan.restored)}`);
    parts.push(
      plan.lost.length === 0
        ? '  nothing is lost'
        : `  lost: ${ranges(plan.lost)}; consumers get DAMAGED_RANGE there, everything else keeps its offset`,
    );
  }
  if (busy.length === 0) parts.push('Nothing to repair.');
  else if (!write)
    parts.push(
      'Nothing was changed. To do it: say --write. What is taken out goes to quarantine first, and undo puts it back.',
    );
  else if (done !== undefined)
    parts.push(
      `done: ${done.id}, ${plural(done.changes.length, 'file')} changed. To put it back: segtool undo PATH --write`,
    );
  return parts.join('\n');
}

export function renderUndo(journal: Journal): string {
  return `${journal.id} is undone: ${plural(journal.changes.length, 'file')} as before`;
}
