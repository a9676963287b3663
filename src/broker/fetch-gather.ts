// What one look at the partitions of a fetch finds: slices of their logs, within the bounds of the request.
import { NO_EPOCH } from '../base/brands.ts';
import { BATCH_BYTES_MAX, FRAME_BYTES_MAX } from '../base/limits.ts';
import type { MappedSlice } from '../ports/disk.ts';
import type { FetchedPartition, FetchPartition, FetchRequest } from '../protocol/operations/fetch.v1.ts';
import type { FetchFailure, Replica } from '../replication/contract.ts';
import type { Failure } from '../protocol/failure.ts';
import { leaderFacts, refusal } from './failures.ts';
import type { BrokerNode } from './node.ts';

export interface ColdPartition {
  readonly replica: Replica;
  readonly wanted: FetchPartition;
  readonly maxBytes: number;
}

/** Whoever holds it sends or releases the slices. */
export interface Gathered {
  readonly partitions: FetchedPartition[];
  readonly slices: MappedSlice[];
  bytes: number;
  /** Some partition was refused: the client should hear of it at once. */
  failed: boolean;
  readonly cold: ColdPartition[];
  /** At their high watermark. */
  readonly waiting: Replica[];
}

/** Of a partition's part in the heading of an answer, facts of a refusal included; see `fetch.v1.ts`. */
const HEADING_BYTES_MAX = 600;
const FRAME_SPARE_BYTES = 64 * 1024;

/** Served in the order of the request. The first batch of the answer comes whole; what does not fit waits for another fetch. */
export function gather(node: BrokerNode, request: FetchRequest): Gathered {
  const found: Gathered = { partitions: [], slices: [], bytes: 0, failed: false, cold: [], waiting: [] };
  const frameMax = FRAME_BYTES_MAX - FRAME_SPARE_BYTES - request.partitions.length * HEADING_BYTES_MAX;
  const bytesMax = Math.min(Math.max(request.maxBytes, 1), frameMax);
  for (const wanted of request.partitions) found.partitions.push(look(node, wanted, bytesMax, frameMax, found));
  return found;
}

export function releaseAll(slices: readonly MappedSlice[]): void {
  for (const slice of slices) slice.release();
}

function look(
  node: BrokerNode,
  wanted: FetchPartition,
  bytesMax: number,
  frameMax: number,
  found: Gathered,
): FetchedPartition {
  const { topicId, partition } = wanted;
  const held = node.replicas.find(topicId, partition);
  if (!held.ok) {
    found.failed = true;
    const failure = refusal(held.code, undefined, leaderFacts(node, held.leader));
    return {
      topicId,
      partition,
      failure,
      logStart: undefined,
      highWatermark: undefined,
      leaderEpoch: NO_EPOCH,
      batches: [],
    };
  }
  const { replica } = held;
  const room = bytesMax - found.bytes;
  const maxBytes = Math.min(Math.max(wanted.maxBytes, 1), Math.max(room, 1));
  const outcome = replica.fetch({
    offset: wanted.fetchOffset,
    maxBytes,
    lastFetchedEpoch: wanted.lastFetchedEpoch,
    currentLeaderEpoch: wanted.currentLeaderEpoch,
  });
  const describe = (failure: Failure | undefined, batches: readonly Uint8Array[]): FetchedPartition => {
    const { logStartOffset: logStart, highWatermark, leaderEpoch } = replica;
    return { topicId, partition, failure, logStart, highWatermark, leaderEpoch, batches };
  };
  switch (outcome.kind) {
    case 'slices': {
      // The log gives its first batch whole: only the first of the answer may pass the bound, and none that of the frame.
      const fits = found.bytes === 0 ? outcome.bytes <= Math.max(frameMax, BATCH_BYTES_MAX) : outcome.bytes <= room;
      if (!fits) {
        releaseAll(outcome.slices);
        return describe(undefined, []);
      }
      found.bytes += outcome.bytes;
      found.slices.push(...outcome.slices);
      return describe(
        undefined,
        outcome.slices.map((slice) => slice.view),
      );
    }
    case 'empty':
      found.waiting.push(replica);
      return describe(undefined, []);
    case 'cold':
      found.cold.push({ replica, wanted, maxBytes });
      return describe(undefined, []);
    case 'failed':
      found.failed = true;
      return describe(failureOf(node, replica, outcome), []);
  }
}

function failureOf(node: BrokerNode, replica: Replica, outcome: FetchFailure): Failure {
  const { code, resumeEpoch, resumeOffset, damagedFrom } = outcome;
  const range = { logStart: replica.logStartOffset, highWatermark: replica.highWatermark };
  if (code === 'LOG_TRUNCATED')
    return refusal(code, undefined, { ...range, divergingEpoch: resumeEpoch, divergingEndOffset: resumeOffset });
  if (code === 'DAMAGED_RANGE') return refusal(code, undefined, { ...range, damagedFrom, damagedTo: resumeOffset });
  if (code === 'OFFSET_EXPIRED' || code === 'OFFSET_BEYOND_END') return refusal(code, undefined, range);
  return refusal(code, undefined, leaderFacts(node, outcome.leader, replica.leaderEpoch));
}
