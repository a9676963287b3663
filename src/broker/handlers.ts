// The one table from operations to what does them.
import type { OperationName } from '../protocol/operations.ts';
import type { Call } from './call.ts';
import { refusal } from './failures.ts';
import type { BrokerNode } from './node.ts';
import { alterTopic } from './handlers/alter-topic.ts';
import { clusterStatus } from './handlers/cluster-status.ts';
import { createTopic } from './handlers/create-topic.ts';
import { deleteTopic } from './handlers/delete-topic.ts';
import { fetch } from './handlers/fetch.ts';
import { hello } from './handlers/hello.ts';
import { initProducer } from './handlers/init-producer.ts';
import { listOffsets } from './handlers/list-offsets.ts';
import { metadata } from './handlers/metadata.ts';
import { produce } from './handlers/produce.ts';

/** `body` is a view of the receive buffer, good until the handler first waits or returns. Answers `call` once, then or later. */
export type Handler = (node: BrokerNode, call: Call, body: Uint8Array) => Promise<void> | undefined | void;

function notCoordinating(_node: BrokerNode, call: Call): void {
  call.refuse(refusal('COORDINATOR_NOT_AVAILABLE'));
}

export const HANDLERS: Readonly<Record<OperationName, Handler>> = {
  Hello: hello,
  Metadata: metadata,
  Produce: produce,
  Fetch: fetch,
  ListOffsets: listOffsets,
  InitProducer: initProducer,
  CreateTopic: createTopic,
  AlterTopic: alterTopic,
  DeleteTopic: deleteTopic,
  ClusterStatus: clusterStatus,
  JoinGroup: notCoordinating,
  Heartbeat: notCoordinating,
  LeaveGroup: notCoordinating,
  CommitOffset: notCoordinating,
  FetchOffsets: notCoordinating,
  Replay: notCoordinating,
  ListGroups: notCoordinating,
  DescribeGroup: notCoordinating,
  DeleteGroup: notCoordinating,
};
