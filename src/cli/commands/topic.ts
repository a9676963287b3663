// rivulet topic create|list|describe|alter|delete
import { isRivuletError } from '../../base/errors.ts';
import type { Admin, TopicDescription } from '../../client/api.ts';
import { withClient, type ConnectionFlags } from '../connection.ts';
import { UsageError } from '../failure.ts';
import { Output, table } from '../output.ts';

export interface TopicSettingFlags extends ConnectionFlags {
  readonly partitions?: number;
  readonly replicas?: number;
  readonly retentionMs?: string;
  readonly retentionBytes?: string;
  readonly segmentBytes?: string;
  readonly maxBatchBytes?: string;
  readonly config?: Readonly<Record<string, string>>;
}

function settings(flags: TopicSettingFlags): Record<string, string> {
  return {
    ...flags.config,
    ...(flags.retentionMs === undefined ? {} : { 'retention.ms': flags.retentionMs }),
    ...(flags.retentionBytes === undefined ? {} : { 'retention.bytes': flags.retentionBytes }),
    ...(flags.segmentBytes === undefined ? {} : { 'segment.bytes': flags.segmentBytes }),
    ...(flags.maxBatchBytes === undefined ? {} : { 'max.batch.bytes': flags.maxBatchBytes }),
  };
}

export async function createTopic(
  name: string,
  flags: TopicSettingFlags & { readonly ifNotExists?: boolean },
): Promise<void> {
  await withClient(flags, async ({ admin }) => {
    const spec = {
      name,
      config: settings(flags),
      ...(flags.partitions === undefined ? {} : { partitions: flags.partitions }),
      ...(flags.replicas === undefined ? {} : { replicas: flags.replicas }),
    };
    let created = true;
    let topic: TopicDescription;
    try {
      topic = await admin.createTopic(spec);
    } catch (error) {
      if (flags.ifNotExists !== true || !isRivuletError(error) || error.code !== 'TOPIC_EXISTS') throw error;
      created = false;
      topic = await admin.describeTopic(name);
    }
    if (flags.json === true) await new Output().line(JSON.stringify({ ...topicJson(topic), created }));
    else
      await new Output().line(
        created ? `created ${name} with ${partitionCount(topic)}` : `${name} exists, with ${partitionCount(topic)}`,
      );
  });
}

function partitionCount(topic: TopicDescription): string {
  return topic.partitions.length === 1 ? '1 partition' : `${String(topic.partitions.length)} partitions`;
}

function topicJson(topic: TopicDescription): Record<string, unknown> {
  return { name: topic.name, id: topic.id, partitions: topic.partitions, config: topic.config };
}

export async function listTopics(flags: ConnectionFlags): Promise<void> {
  await withClient(flags, async ({ admin }) => {
    const topics = (await admin.listTopics()).toSorted((left, right) => (left.name < right.name ? -1 : 1));
    const output = new Output();
    if (flags.json === true) await output.line(JSON.stringify(topics.map(topicJson)));
    else if (topics.length === 0) await output.line('no topics; create one with: rivulet topic create NAME');
    else {
      const rows = topics.map((topic) => [
        topic.name,
        String(topic.partitions.length),
        String(replicas(topic)),
        topic.id,
      ]);
      await output.line(table(['TOPIC', 'PARTITIONS', 'REPLICAS', 'ID'], rows));
    }
  });
}

function replicas(topic: TopicDescription): number {
  return topic.partitions[0]?.replicas.length ?? 0;
}

export async function describeTopic(name: string, flags: ConnectionFlags): Promise<void> {
  await withClient(flags, async ({ admin }) => {
    const topic = await admin.describeTopic(name);
    const ranges = await offsetRanges(admin, name);
    const output = new Output();
    if (flags.json === true) {
      const partitions = topic.partitions.map((partition) => ({ ...partition, ...ranges.get(partition.partition) }));
      await output.line(JSON.stringify({ ...topicJson(topic), partitions }));
      return;
    }
    const rows = topic.partitions.map(({ partition, leader, leaderEpoch, replicas: copies, inSync }) => {
      const range = ranges.get(partition);
      const records = range === undefined ? '?' : String(range.highWatermark - range.logStartOffset);
      const cells = [
        partition,
        leader,
        leaderEpoch,
        copies.join(','),
        inSync.join(','),
        range?.logStartOffset ?? '?',
        range?.highWatermark ?? '?',
        records,
      ];
      return cells.map(String);
    });
    const header = ['PARTITION', 'LEADER', 'EPOCH', 'REPLICAS', 'IN-SYNC', 'LOG START', 'HIGH WATERMARK', 'OFFSETS'];
    const config = Object.entries(topic.config).map(([key, value]) => [key, value]);
    await output.line(
      `topic ${topic.name}, id ${topic.id}\n\n${table(header, rows)}\n\n${table(['SETTING', 'VALUE'], config)}`,
    );
  });
}

interface OffsetRange {
  readonly logStartOffset: number;
  readonly highWatermark: number;
}

/** Partitions that nobody serves now are left out. */
async function offsetRanges(admin: Admin, name: string): Promise<ReadonlyMap<number, OffsetRange>> {
  try {
    const [earliest, latest] = await Promise.all([
      admin.listOffsets(name, 'earliest'),
      admin.listOffsets(name, 'latest'),
    ]);
    const ends = new Map(latest.map(({ partition, offset }) => [partition, offset]));
    return new Map(
      earliest.map(({ partition, offset }) => [
        partition,
        { logStartOffset: offset, highWatermark: ends.get(partition) ?? offset },
      ]),
    );
  } catch (error) {
    if (isRivuletError(error) && error.retriable) return new Map();
    throw error;
  }
}

export interface AlterFlags extends TopicSettingFlags {
  readonly unset?: readonly string[];
  readonly confirmKeyMovement?: boolean;
}

export async function alterTopic(name: string, flags: AlterFlags): Promise<void> {
  const config: Record<string, string | null> = { ...settings(flags) };
  for (const key of flags.unset ?? []) config[key] = null;
  if (Object.keys(config).length === 0 && flags.partitions === undefined)
    throw new UsageError('topic alter needs something to change');
  await withClient(flags, async ({ admin }) => {
    const topic = await admin.alterTopic(name, {
      config,
      confirmKeyMove: flags.confirmKeyMovement === true,
      ...(flags.partitions === undefined ? {} : { partitions: flags.partitions }),
    });
    await new Output().line(
      flags.json === true ? JSON.stringify(topicJson(topic)) : `altered ${name}; it has ${partitionCount(topic)}`,
    );
  });
}

export async function deleteTopic(
  name: string,
  flags: ConnectionFlags & { readonly ifExists?: boolean },
): Promise<void> {
  await withClient(flags, async ({ admin }) => {
    let deleted = true;
    try {
      await admin.deleteTopic(name);
    } catch (error) {
      if (flags.ifExists !== true || !isRivuletError(error) || error.code !== 'UNKNOWN_TOPIC') throw error;
      deleted = false;
    }
    await new Output().line(
      flags.json === true ? JSON.stringify({ name, deleted }) : deleted ? `deleted ${name}` : `there is no ${name}`,
    );
  });
}
