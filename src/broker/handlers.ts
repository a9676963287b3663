// The one table from operations to what does them.
import type { OperationName } from '../protocol/operations.ts';
import type { Call } from './call.ts';
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
import { joinGroup } from './handlers/join-group.ts';
import { heartbeat } from './handlers/heartbeat.ts';
import { leaveGroup } from './handlers/leave-group.ts';
import { commitOffset } from './handlers/commit-offset.ts';
import { fetchOffsets } from './handlers/fetch-offsets.ts';
import { replay } from './handlers/replay.ts';
import { listGroups } from './handlers/list-groups.ts';
import { describeGroup } from './handlers/describe-group.ts';
import { deleteGroup } from './handlers/delete-group.ts';

/** `body` is a view of the receive buffer, good until the handler first waits or returns. Answers `call` once, then or later. */
export type Handler = (node: BrokerNode, call: Call, body: Uint8Array) => Promise<void> | undefined | void;

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
  JoinGroup: joinGroup,
  Heartbeat: heartbeat,
  LeaveGroup: leaveGroup,
  CommitOffset: commitOffset,
  FetchOffsets: fetchOffsets,
  Replay: replay,
  ListGroups: listGroups,
  DescribeGroup: describeGroup,
  DeleteGroup: deleteGroup,
};
