// How far groups are behind, as metrics: looked at now and then, off the loop, so that a scrape costs nothing. Groups that come when
// there are many already have none: each would be a line in every scrape for ever.
import type { MonotonicMs } from '../../base/brands.ts';
import type { Gauge, Telemetry } from '../../ports/telemetry.ts';
import type { DescribedPartition, DescribeGroupResponse } from '../../protocol/operations/describe-group.v1.ts';
import { StorageFailed } from '../../storage/health.ts';
import type { BrokerNode } from '../node.ts';
import { describe } from './describe.ts';

const SAMPLE_EVERY_MS = 15_000;
const GROUPS_MEASURED_MAX = 256;

interface GroupGauges {
  readonly records: Gauge;
  readonly bytes: Gauge;
  readonly seconds: Gauge;
  readonly margin: Gauge;
}

export interface GroupLag {
  readonly records: number;
  readonly bytes: number;
  /** Age of the oldest record that is still to be read. */
  readonly seconds: number;
  /** Until retention by time may remove a record that is still to be read; -1: it will not. */
  readonly marginSeconds: number;
}

export class LagSampler {
  private readonly node: BrokerNode;
  private readonly gauges = new Map<string, GroupGauges>();
  private sampledMs = 0;
  private running: Promise<void> | undefined;

  constructor(node: BrokerNode) {
    this.node = node;
  }

  tick(nowMs: MonotonicMs): void {
    if (this.running !== undefined || nowMs - this.sampledMs < SAMPLE_EVERY_MS || this.node.stopping) return;
    this.sampledMs = nowMs;
    if (!this.node.groups.isCoordinator) return;
    this.running = this.sample().finally(() => {
      this.running = undefined;
    });
  }
  async close(): Promise<void> {
    await this.running;
  }

  private async sample(): Promise<void> {
    const { metadata, ports } = this.node;
    try {
      for (const groupId of metadata.image().groups.keys()) {
        if (this.gauges.has(groupId) || this.gauges.size >= GROUPS_MEASURED_MAX) continue;
        this.gauges.set(groupId, gaugesOf(ports.telemetry, groupId));
      }
      for (const [groupId, gauges] of this.gauges) {
        if (this.node.stopping) return;
        const group = metadata.image().groups.get(groupId);
        const lag = lagOf(group === undefined ? undefined : await describe(this.node, group));
        gauges.records.set(lag.records);
        gauges.bytes.set(lag.bytes);
        gauges.seconds.set(lag.seconds);
        gauges.margin.set(lag.marginSeconds);
      }
    } catch (error) {
      // The process is ending.
      if (error instanceof StorageFailed) return;
      ports.telemetry.log('warn', 'group.lag-not-known', {
        reason: error instanceof Error ? error.message : String(error),
      });
    }
  }
}

function gaugesOf(telemetry: Telemetry, group: string): GroupGauges {
  const gauge = (name: string, help: string): Gauge => telemetry.gauge(`rivulet_group_${name}`, help, { group });
  return {
    records: gauge('lag_records', 'Records that a group has still to read, over all its partitions.'),
    bytes: gauge('lag_bytes', 'Bytes on disk that a group has still to read.'),
    seconds: gauge('lag_seconds', 'Age of the oldest record that a group has still to read; 0: there is none.'),
    margin: gauge(
      'retention_margin_seconds',
      'Time until retention may remove a record that a group has still to read; -1: it will not.',
    ),
  };
}

export function lagOf(described: DescribeGroupResponse | undefined): GroupLag {
  const lag = { records: 0, bytes: 0, seconds: 0, marginSeconds: -1 };
  for (const partition of described?.partitions ?? []) {
    lag.records += recordsBehind(partition);
    lag.bytes += partition.lagBytes ?? 0;
    if (partition.nextTimestamp >= 0)
      lag.seconds = Math.max(lag.seconds, ((described?.now ?? 0) - partition.nextTimestamp) / 1000);
    if (partition.retentionMarginMs !== undefined) {
      const seconds = partition.retentionMarginMs / 1000;
      lag.marginSeconds = lag.marginSeconds < 0 ? seconds : Math.min(lag.marginSeconds, seconds);
    }
  }
  return lag;
}

function recordsBehind({ committed, logStart, highWatermark }: DescribedPartition): number {
  if (logStart === undefined || highWatermark === undefined) return 0;
  return Math.max(0, highWatermark - Math.max(committed ?? logStart, logStart));
}
