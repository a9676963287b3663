// The command line: what it accepts, and which command does it. Commands are loaded when they are run, so that a broker
// does not load what only tools need.
import { basename } from 'node:path';
import process from 'node:process';
import { Command, CommanderError, Option } from 'commander';
import { CODEC_NAMES } from '../base/codec.ts';
import { codec, DEFAULT_SERVER, keyValue, separator, startPosition, wholeNumber } from './arguments.ts';
import { CommandError, EndedWith, printFailure, STATUS_DONE, STATUS_USAGE, UsageError } from './failure.ts';
import { OutputClosed } from './output.ts';
import { FORMAT_HELP } from './records.ts';
import type { AlterFlags, TopicSettingFlags } from './commands/topic.ts';
import type { ConsumeFlags } from './commands/consume.ts';
import type { ProduceFlags } from './commands/produce.ts';
import type { ConnectionFlags } from './connection.ts';
import { groupCommand } from './group-command.ts';
import { segtoolCommand } from './segtool-command.ts';
import { addServeOptions } from './serve-options.ts';
import { VERSION } from './version.ts';

/** Where the addon lies; unpacked first, if need be. */
export type AddonPath = () => string;

function separatorOption(about: string): Option {
  return new Option('--separator <BYTES>', about)
    .argParser(separator('--separator'))
    .default(Uint8Array.of(0x0a), '\\n');
}

function command(name: string, about: string, examples: readonly string[]): Command {
  const made = new Command(name).description(about).showHelpAfterError('(see --help)').exitOverride();
  made.configureOutput({ outputError: () => undefined });
  if (examples.length > 0)
    made.addHelpText('after', `\nExamples:\n${examples.map((example) => `  $ ${example}`).join('\n')}`);
  return made;
}

function withConnection(made: Command): Command {
  return made
    .addOption(
      new Option('--server <HOST:PORT,…>', 'brokers of the cluster; any that answers is enough')
        .default(DEFAULT_SERVER)
        .env('RIVULET_SERVER'),
    )
    .option('--timeout-ms <N>', 'bound of connecting and of one request', wholeNumber('--timeout-ms', 1))
    .option('--json', 'facts as JSON');
}

function produceCommand(): Command {
  const made = command('produce', 'Reads standard input and appends each line as a record.', [
    'rivulet produce readings < sensors.log',
    "printf 'k1:a\\nk2:b\\n' | rivulet produce readings -K :",
    "find . -print0 | rivulet produce files --separator '\\0' --compression zstd",
  ]);
  return withConnection(made)
    .argument('<topic>')
    .addOption(separatorOption('what ends a record; escapes \\n \\r \\t \\0 \\xHH'))
    .option('-K, --key-separator <BYTES>', 'what stands between key and value', separator('--key-separator'))
    .option('-H, --header <KEY=VALUE>', 'header of every record; repeatable', keyValue('--header'))
    .option('--whole', 'the whole input is one record')
    .option('--compression <CODEC>', CODEC_NAMES.join(', '), codec, 'none')
    .option('--batch-bytes <N>', 'send a batch when it holds this many bytes', wholeNumber('--batch-bytes', 1))
    .option('--linger-ms <N>', 'how long an incomplete batch waits for more', wholeNumber('--linger-ms'))
    .option('--partition <N>', 'append to this partition', wholeNumber('--partition'))
    .option('--producer-name <NAME>', 'durable identity; a new session of it fences the older one')
    .addOption(
      new Option('--acks <WHEN>', 'committed: stored under the fsync policy; leader: appended')
        .choices(['committed', 'leader'])
        .default('committed'),
    )
    .option(
      '--delivery-timeout-ms <N>',
      'from reading a record to its outcome, retries included',
      wholeNumber('--delivery-timeout-ms', 1),
    )
    .option('--no-progress', 'no progress line')
    .action(async (topic: string, flags: ProduceFlags) => {
      const { produce } = await import('./commands/produce.ts');
      await produce(topic, { ...flags, progress: flags.progress && process.stderr.isTTY && flags.json !== true });
    });
}

function consumeCommand(): Command {
  const made = command(
    'consume',
    'Writes the records of a topic to standard output; ends at the end that it found at the start.',
    [
      'rivulet consume readings --from earliest > copy.log',
      'rivulet consume readings --from 2026-12-01T08:00:00Z --follow --json',
      "rivulet consume readings --from earliest --format '%o %k %s\\n' --max 10",
      'rivulet consume readings --group billing --follow',
    ],
  );
  return withConnection(made)
    .argument('<topic>')
    .option('--from <WHERE>', 'earliest, latest, an offset, or a time', startPosition, 'earliest' as const)
    .option('--partition <N>', 'this partition only', wholeNumber('--partition'))
    .option('-f, --follow', 'go on with new records as they come')
    .option('--max <N>', 'end after so many records', wholeNumber('--max'))
    .addOption(separatorOption('written behind each record'))
    .option('--format <TEMPLATE>', FORMAT_HELP, separator('--format'))
    .option('-g, --group <GROUP>', 'as a member of this group: goes on behind what it has committed, and commits')
    .option('--instance-id <ID>', 'with --group: static membership')
    .option('--skip-damaged', 'go on behind damaged ranges, naming each on standard error')
    .action(async (topic: string, flags: ConsumeFlags) => {
      const { consume } = await import('./commands/consume.ts');
      await consume(topic, flags);
    });
}

function withSettings(made: Command): Command {
  return made
    .option('--partitions <N>', 'number of partitions', wholeNumber('--partitions', 1))
    .option('--retention-ms <N>', 'remove segments older than this; -1: never')
    .option('--retention-bytes <N>', 'keep at most this much per partition; -1: no limit')
    .option('--segment-bytes <N>', 'size at which a segment is rolled')
    .option('--max-batch-bytes <N>', 'largest batch accepted')
    .option('--config <KEY=VALUE>', 'any setting of a topic; repeatable', keyValue('--config'));
}

function topicCommand(): Command {
  const made = command('topic', 'Creates, shows, changes and deletes topics.', []);
  const create = command('create', 'Creates a topic.', [
    'rivulet topic create readings',
    'rivulet topic create orders --partitions 6 --retention-ms 604800000 --if-not-exists',
  ]);
  withSettings(withConnection(create))
    .argument('<name>')
    .option('--replicas <N>', 'copies of each partition', wholeNumber('--replicas', 1))
    .option('--if-not-exists', 'fine when it exists')
    .action(
      async (name: string, flags: TopicSettingFlags) =>
        await (await import('./commands/topic.ts')).createTopic(name, flags),
    );
  const list = withConnection(command('list', 'Lists topics.', ['rivulet topic list --json']));
  list.action(async (flags: ConnectionFlags) => await (await import('./commands/topic.ts')).listTopics(flags));
  const describe = withConnection(
    command('describe', 'Shows partitions, leaders, offsets and settings.', ['rivulet topic describe readings']),
  );
  describe
    .argument('<name>')
    .action(
      async (name: string, flags: ConnectionFlags) =>
        await (await import('./commands/topic.ts')).describeTopic(name, flags),
    );
  const alter = command('alter', 'Changes settings, or adds partitions.', [
    'rivulet topic alter readings --retention-ms 86400000',
    'rivulet topic alter readings --partitions 6 --confirm-key-movement',
  ]);
  withSettings(withConnection(alter))
    .argument('<name>')
    .option('--unset <KEY>', 'back to the default; repeatable', (key: string, earlier?: readonly string[]) => [
      ...(earlier ?? []),
      key,
    ])
    .option('--confirm-key-movement', 'adding partitions moves keys to other partitions: say that this is wanted')
    .action(
      async (name: string, flags: AlterFlags) => await (await import('./commands/topic.ts')).alterTopic(name, flags),
    );
  const remove = withConnection(
    command('delete', 'Deletes a topic and its records.', ['rivulet topic delete readings']),
  );
  remove
    .argument('<name>')
    .option('--if-exists', 'fine when it does not exist')
    .action(
      async (name: string, flags: ConnectionFlags) =>
        await (await import('./commands/topic.ts')).deleteTopic(name, flags),
    );
  for (const part of [create, list, describe, alter, remove]) made.addCommand(part);
  return made;
}

function clusterCommand(): Command {
  const made = command('cluster', 'Shows the cluster.', []);
  const status = withConnection(command('status', 'Nodes, controller, health.', ['rivulet cluster status --json']));
  status.action(async (flags: ConnectionFlags) => await (await import('./commands/cluster.ts')).clusterStatus(flags));
  return made.addCommand(status);
}

function serveCommand(addonPath: AddonPath): Command {
  const made = command('serve', 'Runs a broker until it gets SIGTERM or SIGINT.', [
    'rivulet serve',
    'rivulet serve --data-dir /var/lib/rivulet --fsync interval --fsync-interval 50',
    'rivulet serve --config /etc/rivulet.json --json',
  ]);
  addServeOptions(made);
  return made.action(async (flags: Readonly<Record<string, unknown>>) => {
    const { serve } = await import('./commands/serve.ts');
    await serve(flags, addonPath);
  });
}

function program(addonPath: AddonPath): Command {
  const top = command('rivulet', 'A replayable, partitioned log broker for the edge.', [
    'rivulet serve',
    'rivulet topic create readings',
    "echo '21.5' | rivulet produce readings",
    'rivulet consume readings --from earliest',
  ]);
  top
    .version(VERSION, '-V, --version')
    .option('--native-dir <DIR>', 'where native parts are unpacked (also RIVULET_NATIVE_DIR)');
  for (const part of [
    serveCommand(addonPath),
    topicCommand(),
    produceCommand(),
    consumeCommand(),
    groupCommand(command, withConnection),
    clusterCommand(),
    segtoolCommand(command, addonPath),
  ])
    top.addCommand(part);
  top.addCommand(
    command('version', 'Prints the version.', []).action(() => {
      process.stdout.write(`rivulet ${VERSION}, Node ${process.versions.node}\n`);
    }),
  );
  return top;
}

/** Runs one command to its end; resolves to the exit status. `argv` as the process has it. */
export async function run(argv: readonly string[], addonPath: AddonPath): Promise<number> {
  const json = argv.includes('--json');
  try {
    await program(addonPath).parseAsync([...argv]);
    return STATUS_DONE;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return STATUS_DONE;
      if (error.code === 'commander.help') return STATUS_USAGE;
      return printFailure(new UsageError(error.message.replace(/^error: /, '')), json);
    }
    if (error instanceof OutputClosed) return STATUS_DONE;
    if (error instanceof EndedWith && error.message === '') return error.status;
    return printFailure(error, json);
  }
}

/** Entry of the executable. Called by the name segtool (a link) it is the same program. */
export function runExecutable(addonPath: AddonPath): void {
  const argv =
    basename(process.argv0) === 'segtool'
      ? [...process.argv.slice(0, 2), 'segtool', ...process.argv.slice(2)]
      : process.argv;
  // Help and version are written without waiting: whoever reads them may go early, as `head` does.
  let unwritten: number | undefined;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE' || process.stdout.listenerCount('error') > 1) return;
    unwritten = printFailure(new CommandError(`standard output: ${error.message}`), false);
    process.exitCode = unwritten;
  });
  process.stderr.on('error', () => undefined);
  run(argv, addonPath).then(
    (status) => {
      process.exitCode = unwritten ?? status;
    },
    (error: unknown) => {
      process.exitCode = printFailure(error, false);
    },
  );
}
