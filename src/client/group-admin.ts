// What operators ask of groups, and do to them.
import { RivuletError } from '../base/errors.ts';
import type { Cluster } from './cluster.ts';
import { Fetcher, offsetAt } from './fetcher.ts';
import type {
  GroupAdmin,
  GroupDescription,
  GroupListing,
  GroupPartitionDescription,
  ResetOptions,
  ResetResult,
  TopicPartition,
} from './group-api.ts';
import { type Commit, deleteGroup, describeGroup, fetchOffsets, listGroups, replay } from './group-wire.ts';
import type { Link } from './link.ts';
import type { TopicView } from './wire.ts';

const RESET_TIMEOUT_MS_DEFAULT = 60_000;

export class ClientGroupAdmin implements GroupAdmin {
  readonly #cluster: Cluster;
  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  async listGroups(): Promise<readonly GroupListing[]> {
    return await listGroups(await this.#link(), this.#cluster.settings.requestTimeoutMs);
  }

  async describeGroup(group: string): Promise<GroupDescription> {
    const told = await describeGroup(await this.#link(), group, this.#cluster.settings.requestTimeoutMs);
    const count = (topics: readonly { readonly partitions: readonly number[] }[]): number =>
      topics.reduce((sum, { partitions }) => sum + partitions.length, 0);
    return {
      group: told.group,
      state: told.state,
      generation: told.generation,
      members: told.members.map(({ assigned, release, ...member }) => ({
        ...member,
        assigned: count(assigned),
        releasing: count(release),
      })),
      partitions: told.partitions.map((each) => describedPartition(each, told.now)),
    };
  }

  async resetGroup(group: string, options: ResetOptions): Promise<readonly ResetResult[]> {
    const places = await this.#placesToReset(group, options);
    if (places.length === 0)
      throw new RivuletError('INVALID_ARGUMENT', `group ${group} has committed nothing: name the topics to reset`);
    const targets: (TopicPartition & Commit)[] = [];
    for (const { view, partition } of places) {
      const found = await this.#target(view.name, partition, options.to);
      targets.push({ topic: view.name, topicId: view.id, partition, ...found });
    }
    const timeoutMs = options.timeoutMs ?? RESET_TIMEOUT_MS_DEFAULT;
    const request = { group, pause: options.pause ?? false, timeoutMs, targets };
    const before = await replay(await this.#link(), request, timeoutMs + this.#cluster.settings.requestTimeoutMs);
    return targets.map(({ topic, partition, offset }, index) => ({
      topic,
      partition,
      before: before[index],
      after: offset,
    }));
  }

  async deleteGroup(group: string): Promise<void> {
    await deleteGroup(await this.#link(), group, this.#cluster.settings.requestTimeoutMs);
  }

  async #link(): Promise<Link> {
    return await this.#cluster.controllerLink();
  }

  async #placesToReset(
    group: string,
    { topics, partition }: ResetOptions,
  ): Promise<readonly { readonly view: TopicView; readonly partition: number }[]> {
    if (topics !== undefined) {
      const views = await Promise.all(topics.map(async (topic) => await this.#cluster.retryingTopic(topic)));
      const places = views.flatMap((view) => view.partitions.map((each) => ({ view, partition: each.partition })));
      const chosen = places.filter((place) => partition === undefined || place.partition === partition);
      if (chosen.length === 0)
        throw new RivuletError('UNKNOWN_PARTITION', `there is no partition ${String(partition)}`);
      return chosen;
    }
    const committed = await fetchOffsets(await this.#link(), group, undefined, this.#cluster.settings.requestTimeoutMs);
    const { topics: all } = await this.#cluster.describe(undefined);
    return committed.flatMap((each) => {
      const view = all.find(({ id }) => id === each.topicId);
      return view === undefined || (partition !== undefined && each.partition !== partition)
        ? []
        : [{ view, partition: each.partition }];
    });
  }

  async #target(
    topic: string,
    partition: number,
    to: ResetOptions['to'],
  ): Promise<{ readonly offset: number; readonly leaderEpoch: number }> {
    if (typeof to === 'number') return { offset: to, leaderEpoch: -1 };
    return await Fetcher.lookUp(this.#cluster, topic, partition, offsetAt(to));
  }
}

function describedPartition(
  each: Awaited<ReturnType<typeof describeGroup>>['partitions'][number],
  now: number,
): GroupPartitionDescription {
  const { topic, partition, memberId, committed, committedAt, metadata, logStart, highWatermark, lagBytes } = each;
  const from = committed ?? logStart;
  const lagRecords =
    highWatermark === undefined || from === undefined
      ? undefined
      : Math.max(0, highWatermark - Math.max(from, logStart ?? 0));
  return {
    topic,
    partition,
    memberId,
    committed,
    committedAt,
    metadata,
    logStart,
    highWatermark,
    lagRecords,
    lagBytes,
    lagMs: lagRecords === undefined ? undefined : each.nextTimestamp < 0 ? 0 : Math.max(0, now - each.nextTimestamp),
    retentionMarginMs: each.retentionMarginMs,
    retentionMarginBytes: each.retentionMarginBytes,
  };
}
