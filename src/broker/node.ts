// What all sessions of a broker share.
import type { Address } from '../ports/network.ts';
import type { MetadataLog, Replicas } from '../replication/contract.ts';
import type { ColdReads } from './cold-reads.ts';
import type { GroupDriver } from './groups/driver.ts';
import type { InputBudget } from './input-budget.ts';
import type { Headroom } from './headroom.ts';
import type { BrokerMetrics } from './metrics.ts';
import type { ParkedFetches } from './parked-fetches.ts';
import type { BrokerIdentity, BrokerPorts, BrokerSettings } from './settings.ts';

export interface BrokerNode {
  readonly settings: BrokerSettings;
  readonly identity: BrokerIdentity;
  readonly ports: BrokerPorts;
  readonly metadata: MetadataLog;
  readonly replicas: Replicas;
  readonly metrics: BrokerMetrics;
  readonly coldReads: ColdReads;
  readonly parked: ParkedFetches;
  readonly headroom: Headroom;
  readonly input: InputBudget;
  readonly groups: GroupDriver;
  /** True once the broker has begun to stop. */
  readonly stopping: boolean;
  /** Where clients reach a node; undefined: it has not said. */
  endpointOf(nodeId: number): Address | undefined;
}
