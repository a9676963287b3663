// How requests on groups are refused: where the coordinator is, and what it said.
import type { GroupFailure } from '../../core/group/requests.ts';
import type { Failure } from '../../protocol/failure.ts';
import type { Call } from '../call.ts';
import { leaderFacts, refusal } from '../failures.ts';
import type { BrokerNode } from '../node.ts';

/** True: it was refused, because groups are not this node's to answer for. */
export function refusedElsewhere(node: BrokerNode, call: Call): boolean {
  if (node.groups.isCoordinator) return false;
  call.refuse(failureOf(node, { ok: false, code: 'COORDINATOR_NOT_AVAILABLE', message: undefined }));
  return true;
}

export function failureOf(node: BrokerNode, { code, message, facts }: GroupFailure): Failure {
  const where = code === 'COORDINATOR_NOT_AVAILABLE' ? leaderFacts(node, node.metadata.leader?.nodeId) : {};
  return refusal(code, message, { ...where, ...facts });
}
