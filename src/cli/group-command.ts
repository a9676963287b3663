// The commands on consumer groups and what they accept; loaded when one is run, like all others.
import type { Command } from 'commander';
import { startPosition, wholeNumber } from './arguments.ts';
import type { RedriveFlags, ResetFlags } from './commands/group.ts';
import type * as Groups from './commands/group.ts';
import type { ConnectionFlags } from './connection.ts';
import type { MakeCommand } from './segtool-command.ts';

/** `rivulet group` with all its parts. `connected` adds the options by which the cluster is found. */
export function groupCommand(make: MakeCommand, connected: (made: Command) => Command): Command {
  const load = async (): Promise<typeof Groups> => await import('./commands/group.ts');
  const list = connected(make('list', 'Lists groups.', ['rivulet group list --json']));
  list.action(async (flags: ConnectionFlags) => await (await load()).listGroups(flags));
  const describe = connected(
    make('describe', 'Shows members, positions, lag, and how long until retention overtakes the group.', [
      'rivulet group describe billing',
    ]),
  );
  describe
    .argument('<group>')
    .action(async (group: string, flags: ConnectionFlags) => await (await load()).describeGroup(group, flags));
  const reset = connected(
    make('reset', 'Sets where a group goes on: earliest, latest, an offset, or a time.', [
      'rivulet group reset billing --to earliest',
      'rivulet group reset billing --topic orders --to 2026-12-01T08:00:00Z --pause',
    ]),
  );
  reset
    .argument('<group>')
    .requiredOption('--to <WHERE>', 'earliest, latest, an offset, or a time', startPosition)
    .option(
      '--topic <NAME>',
      'this topic; repeatable. Default: all in which the group has committed something',
      (name: string, earlier?: readonly string[]) => [...(earlier ?? []), name],
    )
    .option('--partition <N>', 'this partition only', wholeNumber('--partition'))
    .option('--pause', 'stop active members, reset, and let them go on; without it a group with members is refused')
    .option('--pause-timeout-ms <N>', 'what members get to stop', wholeNumber('--pause-timeout-ms', 1))
    .action(async (group: string, flags: ResetFlags) => await (await load()).resetGroup(group, flags));
  const remove = connected(
    make('delete', 'Forgets a group without members, and its positions.', ['rivulet group delete billing']),
  );
  remove
    .argument('<group>')
    .action(async (group: string, flags: ConnectionFlags) => await (await load()).deleteGroup(group, flags));
  const redrive = connected(
    make('redrive', 'Sends the records of a dead-letter topic back to the topics they came from.', [
      'rivulet group redrive orders-dead',
      'rivulet group redrive orders-dead --to orders-retry',
    ]),
  );
  redrive
    .argument('<dead-letter-topic>')
    .option('--group <GROUP>', 'keeps what was redriven; default: redrive.<topic>')
    .option('--to <TOPIC>', 'send all to this topic instead')
    .action(async (topic: string, flags: RedriveFlags) => await (await load()).redrive(topic, flags));
  const made = make('group', 'Shows, resets and deletes consumer groups, and redrives dead letters.', []);
  for (const part of [list, describe, reset, remove, redrive]) made.addCommand(part);
  return made;
}
