// How a broker words its refusals: the sentence of the registry where nothing better is known, and the facts that go along.
import { ERRORS, type ErrorFacts, type ErrorName } from '../base/errors.ts';
import type { Failure } from '../protocol/failure.ts';
import type { FactName } from '../protocol/facts.ts';
import type { BrokerNode } from './node.ts';

export type Facts = ErrorFacts & { readonly [Fact in FactName]?: string | number | boolean | undefined };

export const RETRY_AFTER_MS = 1000;
const WITH_RETRY: ReadonlySet<ErrorName> = new Set<ErrorName>([
  'THROTTLED',
  'TOO_MANY_REQUESTS',
  'STORAGE_FULL',
  'DISK_PRESSURE',
  'SHUTTING_DOWN',
]);

export function refusal(code: ErrorName, message?: string, facts: Facts = {}): Failure {
  const withRetry =
    WITH_RETRY.has(code) && facts.retryAfterMs === undefined ? { retryAfterMs: RETRY_AFTER_MS, ...facts } : facts;
  return { code, message: message ?? ERRORS[code].sentence, facts: withRetry };
}

/** Where the leader is, for a client that asked the wrong node or with the wrong epoch. */
export function leaderFacts(node: BrokerNode, leader: number | undefined, leaderEpoch?: number): Facts {
  if (leader === undefined || leader < 0) return { leaderEpoch };
  const endpoint = node.endpointOf(leader);
  return { leaderId: leader, leaderHost: endpoint?.host, leaderPort: endpoint?.port, leaderEpoch };
}
