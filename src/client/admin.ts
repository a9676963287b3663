import { RivuletError } from '../base/errors.ts';
import { PARTITIONS_PER_TOPIC_MAX, isTopicName } from '../base/limits.ts';
import type { Admin, ClusterDescription, PartitionOffset, TopicDescription, TopicSpec } from './api.ts';
import type { Cluster } from './cluster.ts';
import { Fetcher, offsetAt } from './fetcher.ts';
import { ClientGroupAdmin } from './group-admin.ts';
import { alterTopic, clusterStatus, createTopic, deleteTopic } from './wire.ts';

function checkName(name: string): void {
  if (!isTopicName(name)) throw new RivuletError('INVALID_TOPIC_NAME', undefined, { facts: { topic: name } });
}

function checkPartitions(partitions: number): void {
  if (!Number.isSafeInteger(partitions) || partitions < 1 || partitions > PARTITIONS_PER_TOPIC_MAX) {
    throw new RivuletError(
      'INVALID_ARGUMENT',
      `partitions is ${String(partitions)}; it must be 1 to ${String(PARTITIONS_PER_TOPIC_MAX)}`,
    );
  }
}

/** Changes are sent once: a repeated create would fail with TOPIC_EXISTS although the first one worked. */
export class ClientAdmin extends ClientGroupAdmin implements Admin {
  readonly #cluster: Cluster;

  constructor(cluster: Cluster) {
    super(cluster);
    this.#cluster = cluster;
  }

  async createTopic(spec: TopicSpec): Promise<TopicDescription> {
    checkName(spec.name);
    const partitions = spec.partitions ?? 1;
    checkPartitions(partitions);
    const link = await this.#cluster.anyLink();
    const request = { name: spec.name, partitions, replicas: spec.replicas ?? 0, config: spec.config ?? {} };
    await createTopic(link, request, this.#cluster.settings.requestTimeoutMs);
    return await this.describeTopic(spec.name);
  }

  async listTopics(): Promise<readonly TopicDescription[]> {
    const view = await this.#cluster.describe(undefined);
    return view.topics.toSorted((left, right) => (left.name < right.name ? -1 : 1));
  }

  async describeTopic(name: string): Promise<TopicDescription> {
    checkName(name);
    const view = await this.#cluster.describe([name]);
    const found = view.topics.find((topic) => topic.name === name);
    if (found === undefined)
      throw new RivuletError('UNKNOWN_TOPIC', `there is no topic "${name}"`, { facts: { topic: name } });
    return found;
  }

  async alterTopic(name: string, change: Parameters<Admin['alterTopic']>[1]): Promise<TopicDescription> {
    checkName(name);
    if (change.partitions !== undefined) checkPartitions(change.partitions);
    const link = await this.#cluster.anyLink();
    const request = {
      name,
      partitions: change.partitions ?? 0,
      confirm: change.confirmKeyMove ?? false,
      config: change.config ?? {},
    };
    await alterTopic(link, request, this.#cluster.settings.requestTimeoutMs);
    return await this.describeTopic(name);
  }

  async deleteTopic(name: string): Promise<void> {
    checkName(name);
    const link = await this.#cluster.anyLink();
    await deleteTopic(link, name, undefined, this.#cluster.settings.requestTimeoutMs);
    await this.#cluster.refresh([name]);
  }

  async listOffsets(topic: string, at: Parameters<Admin['listOffsets']>[1]): Promise<readonly PartitionOffset[]> {
    checkName(topic);
    const view = await this.#cluster.retryingTopic(topic);
    const found: PartitionOffset[] = [];
    for (const { partition } of view.partitions) {
      const { offset, timestamp, leaderEpoch } = await Fetcher.lookUp(this.#cluster, topic, partition, offsetAt(at));
      found.push({ topic, partition, offset, timestamp, leaderEpoch });
    }
    return found;
  }

  async clusterStatus(): Promise<ClusterDescription> {
    return await this.#cluster.retrying(
      async (link) => await clusterStatus(link, this.#cluster.settings.requestTimeoutMs),
    );
  }
}
