import { NO_EPOCH, NO_TIMESTAMP } from '../../base/brands.ts';
import type { ErrorName } from '../../base/errors.ts';
import {
  decodeRequest,
  encodeResponse,
  type ListedOffset,
  type ListOffsetsPartition,
} from '../../protocol/operations/list-offsets.v1.ts';
import type { Call } from '../call.ts';
import { leaderFacts, refusal } from '../failures.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export async function listOffsets(node: BrokerNode, call: Call, body: Uint8Array): Promise<void> {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  const partitions: ListedOffset[] = [];
  // One after the other: a look-up by time reads from the disk, and one client must not take all its threads.
  for (const wanted of decoded.value.partitions) partitions.push(await listOne(node, wanted));
  call.answer(encodeResponse({ partitions }));
}

async function listOne(
  node: BrokerNode,
  { topicId, partition, currentLeaderEpoch, target }: ListOffsetsPartition,
): Promise<ListedOffset> {
  const held = node.replicas.find(topicId, partition);
  const refuse = (code: ErrorName, leader: number | undefined): ListedOffset => {
    const failure = refusal(code, undefined, leaderFacts(node, leader));
    return { topicId, partition, failure, offset: undefined, timestamp: NO_TIMESTAMP, leaderEpoch: NO_EPOCH };
  };
  if (!held.ok) return refuse(held.code, held.leader);
  const outcome = await held.replica.listOffset(
    target.kind === 'timestamp' ? target.timestamp : target.kind,
    currentLeaderEpoch,
  );
  if (!outcome.ok) return refuse(outcome.code, outcome.leader);
  const { offset, timestamp, leaderEpoch } = outcome;
  return { topicId, partition, failure: undefined, offset, timestamp, leaderEpoch };
}
