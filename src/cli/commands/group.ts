// rivulet group list|describe|reset|delete|redrive
import type { ConsumedRecord, ProducerHeader } from '../../client/api.ts';
import type { GroupPartitionDescription } from '../../client/group-api.ts';
import { DEAD_LETTER_HEADERS } from '../../client/index.ts';
import { withClient, type ConnectionFlags } from '../connection.ts';
import { CommandError, UsageError } from '../failure.ts';
import { Output, table } from '../output.ts';
import { asText } from '../records.ts';
import { endsOf, isAtEnds } from './consume-group.ts';

const LOOK_EVERY_MS = 100;

export async function listGroups(flags: ConnectionFlags): Promise<void> {
  await withClient(flags, async ({ admin }) => {
    const groups = await admin.listGroups();
    const output = new Output();
    if (flags.json === true) {
      await output.line(JSON.stringify(groups));
      return;
    }
    const rows = groups.map(({ group, state, members, offsets, generation }) => [
      group,
      state,
      String(members),
      String(offsets),
      String(generation),
    ]);
    await output.line(table(['GROUP', 'STATE', 'MEMBERS', 'COMMITTED', 'GENERATION'], rows));
  });
}

export async function describeGroup(group: string, flags: ConnectionFlags): Promise<void> {
  await withClient(flags, async ({ admin }) => {
    const told = await admin.describeGroup(group);
    const output = new Output();
    if (flags.json === true) {
      await output.line(JSON.stringify(told));
      return;
    }
    await output.line(`group ${told.group}: ${told.state}, generation ${String(told.generation)}`);
    const partitions = told.partitions.map((each) => [
      each.topic,
      String(each.partition),
      number(each.committed),
      number(each.highWatermark),
      number(each.lagRecords),
      bytes(each.lagBytes),
      duration(each.lagMs),
      margin(each),
      each.memberId ?? '-',
    ]);
    const header = [
      'TOPIC',
      'PARTITION',
      'COMMITTED',
      'END',
      'LAG',
      'LAG-BYTES',
      'LAG-TIME',
      'RETENTION-MARGIN',
      'MEMBER',
    ];
    await output.line(`\n${table(header, partitions)}`);
    if (told.members.length === 0) return;
    const members = told.members.map((each) => [
      each.memberId,
      each.instanceId ?? '-',
      each.clientId,
      String(each.assigned),
      String(each.releasing),
      duration(each.silentMs),
    ]);
    await output.line(`\n${table(['MEMBER', 'INSTANCE', 'CLIENT', 'ASSIGNED', 'RELEASING', 'SILENT'], members)}`);
  });
}

const number = (value: number | undefined): string => (value === undefined ? '-' : String(value));

function bytes(value: number | undefined): string {
  if (value === undefined) return '-';
  for (const [unit, size] of [
    ['GiB', 2 ** 30],
    ['MiB', 2 ** 20],
    ['KiB', 2 ** 10],
  ] as const)
    if (value >= size) return `${(value / size).toFixed(1)}${unit}`;
  return `${String(value)}B`;
}

function duration(ms: number | undefined): string {
  if (ms === undefined) return '-';
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${String(seconds)}s`;
  if (seconds < 7200) return `${String(Math.floor(seconds / 60))}m`;
  if (seconds < 172_800) return `${String(Math.floor(seconds / 3600))}h`;
  return `${String(Math.floor(seconds / 86_400))}d`;
}

/** How long until retention overtakes the group, or how much may still be appended; whichever is known. */
function margin({ retentionMarginMs, retentionMarginBytes }: GroupPartitionDescription): string {
  const parts = [
    ...(retentionMarginMs === undefined ? [] : [duration(retentionMarginMs)]),
    ...(retentionMarginBytes === undefined ? [] : [bytes(retentionMarginBytes)]),
  ];
  return parts.length === 0 ? '-' : parts.join('/');
}

export interface ResetFlags extends ConnectionFlags {
  readonly topic?: readonly string[];
  readonly partition?: number;
  readonly to: 'earliest' | 'latest' | number | Date | { readonly timestamp: number };
  readonly pause?: boolean;
  readonly pauseTimeoutMs?: number;
}

export async function resetGroup(group: string, flags: ResetFlags): Promise<void> {
  const to = typeof flags.to === 'object' && 'timestamp' in flags.to ? new Date(flags.to.timestamp) : flags.to;
  await withClient(flags, async ({ admin }) => {
    const results = await admin.resetGroup(group, {
      to,
      ...(flags.topic === undefined ? {} : { topics: flags.topic }),
      ...(flags.partition === undefined ? {} : { partition: flags.partition }),
      ...(flags.pause === undefined ? {} : { pause: flags.pause }),
      ...(flags.pauseTimeoutMs === undefined ? {} : { timeoutMs: flags.pauseTimeoutMs }),
    });
    const output = new Output();
    if (flags.json === true) await output.line(JSON.stringify(results));
    else {
      const rows = results.map((each) => [each.topic, String(each.partition), number(each.before), String(each.after)]);
      await output.line(table(['TOPIC', 'PARTITION', 'BEFORE', 'AFTER'], rows));
    }
  });
}

export async function deleteGroup(group: string, flags: ConnectionFlags): Promise<void> {
  await withClient(flags, async ({ admin }) => {
    await admin.deleteGroup(group);
    await new Output().line(flags.json === true ? JSON.stringify({ group, deleted: true }) : `deleted ${group}`);
  });
}

export interface RedriveFlags extends ConnectionFlags {
  readonly group?: string;
  readonly to?: string;
}

/** Where a dead-letter record came from stays with it, for whoever looks at it later. */
export const REDRIVEN_HEADER = 'rivulet-redriven-from';
const OWN_HEADERS: ReadonlySet<string> = new Set(Object.values(DEAD_LETTER_HEADERS));

/** Sends what a dead-letter topic holds back to where it came from; goes on where it was left, and ends at the present end. */
export async function redrive(topic: string, flags: RedriveFlags): Promise<void> {
  const group = flags.group ?? `redrive.${topic}`;
  await withClient(flags, async (client) => {
    const ends = await endsOf(client, topic);
    const producer = client.producer();
    const counts = new Map<string, number>();
    const consumer = client.groupConsumer({ group, topics: [topic], retry: { retries: 0 }, onPoison: () => undefined });
    let failure: unknown;
    const running = consumer.run(async (record) => {
      try {
        const target = flags.to ?? originOf(record);
        await producer.send(target, { key: record.key, value: record.value, headers: headersOf(record) });
        counts.set(target, (counts.get(target) ?? 0) + 1);
      } catch (error) {
        failure ??= error;
        throw error;
      }
    });
    const timer = setInterval(() => {
      if (failure !== undefined || isAtEnds(consumer, ends)) consumer.close().catch(() => undefined);
    }, LOOK_EVERY_MS);
    try {
      await running;
    } finally {
      clearInterval(timer);
      await consumer.close();
    }
    const sent = Array.from(counts, ([name, records]) => ({ topic: name, records }));
    if (flags.json === true) await new Output().line(JSON.stringify({ from: topic, group, sent }));
    else if (sent.length === 0) await new Output().line(`nothing to redrive in ${topic} for group ${group}`);
    else
      await new Output().line(
        sent.map(({ topic: name, records }) => `${String(records)} records to ${name}`).join('\n'),
      );
    if (failure !== undefined)
      throw failure instanceof Error ? failure : new CommandError('a record could not be sent');
  });
}

function originOf(record: ConsumedRecord): string {
  const { value } = record.headers.find(({ key }) => key === DEAD_LETTER_HEADERS.topic) ?? {};
  const topic = value === null || value === undefined ? undefined : asText(value);
  if (topic === undefined)
    throw new UsageError(
      `the record at offset ${String(record.offset)} of ${record.topic} does not say where it came from; name a topic by --to`,
    );
  return topic;
}

function headersOf(record: ConsumedRecord): readonly ProducerHeader[] {
  return [
    ...record.headers.filter(({ key }) => key !== REDRIVEN_HEADER && !OWN_HEADERS.has(key)),
    { key: REDRIVEN_HEADER, value: `${record.topic}/${String(record.partition)}/${String(record.offset)}` },
  ];
}
