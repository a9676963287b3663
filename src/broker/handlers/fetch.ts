import { FETCH_WAIT_MS_MAX } from '../../base/limits.ts';
import { decodeRequest } from '../../protocol/operations/fetch.v1.ts';
import type { Call } from '../call.ts';
import { FetchRun } from '../fetch-run.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export function fetch(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  const request = decoded.value;
  const waits = request.minBytes > 0 && request.partitions.length > 0;
  const waitMs = waits ? Math.min(request.waitMs, FETCH_WAIT_MS_MAX) : 0;
  new FetchRun(node, call, request, call.startedMs + waitMs).start();
}
