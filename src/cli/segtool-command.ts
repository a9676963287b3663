// The commands of segtool and what they accept; loaded when one is run, like all others.
import { Option, type Command } from 'commander';
import { CODEC_NAMES } from '../base/codec.ts';
import { codec, separator, wholeNumber } from './arguments.ts';
import type * as Segtool from './commands/segtool.ts';
import type {
  DumpFlags,
  ExportFlags,
  FindFlags,
  ImportFlags,
  InspectFlags,
  RepairFlags,
  SegtoolFlags,
  UndoFlags,
} from './commands/segtool.ts';

export type MakeCommand = (name: string, about: string, examples: readonly string[]) => Command;

const STATUSES = '\nExit status: 0 clean or done, 1 damaged or failed, 2 wrong usage, 3 unreadable.';

interface Parts {
  readonly load: () => Promise<typeof Segtool>;
  /** A command with the options that all of them have. */
  readonly part: MakeCommand;
  readonly addonPath: () => string;
}

/** The command `segtool` with all its parts; `addonPath` finds the native addon when one of them is run. */
export function segtoolCommand(make: MakeCommand, addonPath: () => string): Command {
  const load = async (): Promise<typeof Segtool> => await import('./commands/segtool.ts');
  const part = (name: string, about: string, examples: readonly string[]): Command =>
    make(name, about, examples)
      .option('--json', 'facts as JSON')
      .option('--no-progress', 'no progress line')
      .addHelpText('after', STATUSES);
  const top = make(
    'segtool',
    'Inspects, verifies and repairs the files of a broker, without a broker. Nothing is changed without --write.',
    ['segtool verify /var/lib/rivulet', 'segtool repair /var/lib/rivulet', 'segtool repair /var/lib/rivulet --write'],
  );

  const parts = { load, part, addonPath };
  for (const each of [...checking(parts), ...reading(parts), ...moving(parts)]) top.addCommand(each);
  return top;
}

/** What is there, what is wrong, and mending it. */
function checking({ load, part, addonPath }: Parts): Command[] {
  return [
    part('inspect', 'What there is: logs, segments, codecs, epochs, indexes, seals, gaps.', [
      'segtool inspect ./rivulet-data',
      'segtool inspect topics/…/0/00000000000000000000.log --json',
    ])
      .argument('<path...>')
      .option('--ratios', 'decompress, and say how much compression saves')
      .action(
        async (paths: readonly string[], flags: InspectFlags) =>
          await (await load()).runInspect(paths, flags, addonPath),
      ),
    part('verify', 'What is wrong: every batch, index, seal and checkpoint.', [
      'segtool verify ./rivulet-data',
      'segtool verify ./rivulet-data --json',
    ])
      .argument('<path...>')
      .action(
        async (paths: readonly string[], flags: SegtoolFlags) =>
          await (await load()).runVerify(paths, flags, addonPath),
      ),
    part('repair', 'Says what a repair would do; with --write, does it. What is taken out goes to quarantine.', [
      'segtool repair ./rivulet-data',
      'segtool repair ./rivulet-data --write',
      'segtool repair ./rivulet-data --from /backup/rivulet-data --write',
    ])
      .argument('<path>')
      .option('--write', 'do it')
      .option('--from <PATH>', 'another copy: what is missing here and intact there is put back')
      .action(async (path: string, flags: RepairFlags) => await (await load()).runRepair(path, flags, addonPath)),
    part('undo', 'Puts back what a repair took out.', ['segtool undo ./rivulet-data --write'])
      .argument('<path>')
      .argument('[repair]', 'its name; without it, the newest')
      .option('--write', 'do it')
      .action(
        async (path: string, id: string | undefined, flags: UndoFlags) =>
          await (await load()).runUndo(path, id, flags, addonPath),
      ),
  ];
}

/** Looking into logs. */
function reading({ load, part, addonPath }: Parts): Command[] {
  return [
    filtered(
      part('dump', 'Prints batches or records; goes on past damage and says where it skipped.', [
        'segtool dump ./rivulet-data/topics/…/0 --records --from 100 --to 200',
        'segtool dump … --records --key user-7 --hex',
      ]),
    )
      .argument('<path>')
      .option('--records', 'records, decompressed')
      .option('--hex', 'keys and values as hexadecimal bytes')
      .option('--control', 'control records too')
      .action(async (path: string, flags: DumpFlags) => await (await load()).runDump(path, flags, addonPath)),
    part('find', 'Finds a record: by offset, by time, or by event id.', [
      'segtool find … --offset 1234',
      'segtool find … --timestamp 2026-12-01T08:00:00Z',
      'segtool find … --event-id 3f0c',
    ])
      .argument('<path>')
      .option('--offset <N>', 'the record with this offset', wholeNumber('--offset'))
      .option('--timestamp <TIME>', 'the first record at or after: milliseconds, or ISO 8601')
      .option('--event-id <ID>', 'all records with this event-id header')
      .action(async (path: string, flags: FindFlags) => await (await load()).runFind(path, flags, addonPath)),
    part('stats', 'Sizes of batches and records, rates over time, largest keys.', ['segtool stats ./rivulet-data'])
      .argument('<path>')
      .action(async (path: string, flags: SegtoolFlags) => await (await load()).runStats(path, flags, addonPath)),
    part('diff', 'Compares two copies of logs: same, missing, different.', [
      'segtool diff /data/a/topics/…/0 /data/b/topics/…/0',
    ])
      .argument('<first>')
      .argument('<second>')
      .action(
        async (first: string, second: string, flags: SegtoolFlags) =>
          await (await load()).runDiff(first, second, flags, addonPath),
      ),
  ];
}

/** Records out of logs and into them. */
function moving({ load, part, addonPath }: Parts): Command[] {
  return [
    filtered(
      part('export', 'Writes records as JSON lines, or their raw values.', [
        'segtool export …/0 > records.jsonl',
        "segtool export …/0 --raw --separator '\\n'",
      ]),
    )
      .argument('<path>')
      .option('--raw', 'values only')
      .addOption(
        new Option('--separator <BYTES>', 'behind each raw value')
          .argParser(separator('--separator'))
          .default(Uint8Array.of(0x0a), '\\n'),
      )
      .action(async (path: string, flags: ExportFlags) => await (await load()).runExport(path, flags, addonPath)),
    part('import', 'Writes exported JSON lines from standard input into a new log.', [
      'segtool import ./new-log --write < records.jsonl',
    ])
      .argument('<path>', 'a directory that is empty or does not exist')
      .option('--write', 'do it')
      .option('--compression <CODEC>', CODEC_NAMES.join(', '), codec, 'none')
      .action(async (path: string, flags: ImportFlags) => await (await load()).runImport(path, flags, addonPath)),
  ];
}

function filtered(command: Command): Command {
  return command
    .option('--from <OFFSET>', 'first offset', wholeNumber('--from'))
    .option('--to <OFFSET>', 'first offset that is not wanted any more', wholeNumber('--to'))
    .option('--key <TEXT>', 'records with this key')
    .option('--header <NAME=VALUE>', 'records with this header; NAME alone: with any value');
}
