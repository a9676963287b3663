import { decodeRequest, encodeResponse } from '../../protocol/operations/produce.v1.ts';
import type { Failure } from '../../protocol/failure.ts';
import type { ProduceFailure, ProduceOutcome } from '../../replication/contract.ts';
import type { Call } from '../call.ts';
import { checkBatches } from '../checked-batches.ts';
import { leaderFacts, refusal } from '../failures.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

/** A client that waits longer for a commit asks again; what it sent is known by its sequence. */
const COMMIT_WAIT_MS_MAX = 300_000;

/** The batches go from the receive buffer into the log; nothing is copied and nothing is kept of them. */
export function produce(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  const { topicId, partition, leaderEpoch, acks, timeoutMs, batches: bytes } = decoded.value;
  const found = node.replicas.find(topicId, partition);
  if (!found.ok) {
    call.refuse(refusal(found.code, undefined, leaderFacts(node, found.leader)));
    return;
  }
  if (node.headroom.underPressure) {
    call.refuse(refusal('DISK_PRESSURE'));
    return;
  }
  const { replica } = found;
  const { crc32c, compression } = node.ports;
  const checked = checkBatches(bytes, {
    crc32c,
    compression,
    maxBatchBytes: replica.maxBatchBytes,
    validateCompressed: node.settings.validateCompressed,
  });
  if (!checked.ok) {
    call.refuse(checked.failure);
    return;
  }
  const size = bytes.length;
  const { room } = replica.produce({
    bytes,
    batches: checked.batches,
    acks,
    timeoutMs: Math.min(timeoutMs, COMMIT_WAIT_MS_MAX),
    leaderEpoch,
    done: (outcome) => {
      finish(node, call, size, outcome);
    },
  });
  if (room !== undefined) call.session.holdUntil(room);
}

function finish(node: BrokerNode, call: Call, bytes: number, outcome: ProduceOutcome): void {
  node.metrics.produceSeconds.observe((node.ports.clock.bootMs() - call.startedMs) / 1000);
  if (!outcome.ok) {
    call.refuse(failureOf(node, outcome));
    return;
  }
  node.metrics.producedBytes.add(bytes);
  const { baseOffset, lastOffset, leaderEpoch, logStartOffset, duplicate } = outcome;
  call.answer(
    encodeResponse({ baseOffset, lastOffset, leaderEpoch, logStart: logStartOffset, throttleMs: 0, duplicate }),
  );
}

function failureOf(node: BrokerNode, outcome: ProduceFailure): Failure {
  const { code, message, baseOffset, lastOffset, expectedSequence, producerEpoch, leader, leaderEpoch } = outcome;
  const leadership = leader === undefined && leaderEpoch === undefined ? {} : leaderFacts(node, leader, leaderEpoch);
  return refusal(code, message, { baseOffset, lastOffset, expectedSequence, producerEpoch, ...leadership });
}
