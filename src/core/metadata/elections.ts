// Who is to lead which partition, from the image and from which nodes are alive. What comes out are entries to propose; each names the
// version that it was decided on, so that an old decision changes nothing. Topics are given one by one, so that the caller can pass
// over those that have not changed.
import type { NodeId, TopicId } from '../../base/brands.ts';
import type { PartitionChange } from './entry.ts';
import { minInsyncOf, NO_LEADER, type PartitionState, type TopicState } from './image.ts';

/** A node that is neither alive nor gone keeps what it has, and gets nothing. */
export interface LiveNodes {
  /** It answers, and this start of it is registered: what it has is known. */
  isAlive(node: NodeId): boolean;
  /** It is given up: out of the in-sync sets, and others lead. Never one that is alive. */
  isGone(node: NodeId): boolean;
  /** It is not gone, does not want to stop, and its disk takes writes: nothing speaks against its leading on. */
  mayLead(node: NodeId): boolean;
}

/** Leaders for partitions whose leader is gone, and in-sync sets without the nodes that are. At most `max` of them. */
export function changesForLiveness(topics: Iterable<TopicState>, live: LiveNodes, max: number): PartitionChange[] {
  const changes: PartitionChange[] = [];
  for (const { topicId, partitions } of topics) {
    for (const [partition, state] of partitions.entries()) {
      if (changes.length >= max) return changes;
      const next = afterFailures(state, live);
      if (next !== undefined)
        changes.push({ kind: 'PartitionChange', topicId, partition, expectedVersion: state.version, ...next });
    }
  }
  return changes;
}

type Decision = Pick<PartitionChange, 'leader' | 'inSync'>;

function afterFailures(state: PartitionState, live: LiveNodes): Decision | undefined {
  const { leader, replicas, inSync } = state;
  if (replicas.length === 1) return soleReplica(state, live);
  const staying = inSync.filter((node) => !live.isGone(node));
  const leads = staying.find((node) => node === leader);
  if (leads !== undefined && live.mayLead(leads))
    return staying.length < inSync.length ? { leader, inSync: staying } : undefined;
  const candidates = replicas.filter((node) => staying.includes(node) && live.isAlive(node));
  const able = candidates.find((node) => live.mayLead(node));
  // One that would rather not lead is better than none.
  const next = able ?? leads ?? candidates[0];
  if (next !== undefined)
    return next === leader && staying.length === inSync.length ? undefined : { leader: next, inSync: staying };
  const eligible = replicas.find((node) => state.eligible?.includes(node) === true && live.isAlive(node));
  if (eligible !== undefined) return { leader: eligible, inSync: [eligible] };
  // Nobody who is known to have all: it waits for one of them, with the set as it is.
  return leader === NO_LEADER ? undefined : { leader: NO_LEADER, inSync };
}

/** It keeps its place while it is away: there is nobody to take it, and readers are told by the connection. */
function soleReplica(state: PartitionState, live: LiveNodes): Decision | undefined {
  const [only] = state.replicas;
  if (only === undefined || state.leader === only || !live.isAlive(only)) return undefined;
  return { leader: only, inSync: [only] };
}

export interface Undecided {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly state: PartitionState;
  /** Replicas to hear before one can be chosen, so that one of them has whatever was committed. */
  readonly quorum: number;
}

/** Partitions of which every replica may have lost its tail: what each of them still has must be compared. */
export function undecided(topics: Iterable<TopicState>, max: number): Undecided[] {
  const found: Undecided[] = [];
  for (const { topicId, partitions, config } of topics) {
    for (const [partition, state] of partitions.entries()) {
      if (found.length >= max) return found;
      if (state.leader !== NO_LEADER || state.inSync.length > 0 || (state.eligible?.length ?? 0) > 0) continue;
      const count = state.replicas.length;
      found.push({ topicId, partition, state, quorum: count - minInsyncOf(config, count) + 1 });
    }
  }
  return found;
}

/** What a replica says of its log after recovery. */
export interface LogEnd {
  readonly nodeId: NodeId;
  /** Epoch of the last batch; -1: the log is empty. */
  readonly lastEpoch: number;
  readonly logEnd: number;
  /** Part of it cannot be read: it may give bytes, but cannot say "I do not have it". */
  readonly damaged: boolean;
}

/**
 * The replica that has all that was committed: the greatest (epoch, end) among enough of those that never lost a disk. What was
 * committed under `always` is on min.insync.replicas disks, and any `quorum` of the disks holds one of them. Undefined: wait for more.
 */
export function chooseByLogEnd(candidate: Undecided, ends: readonly LogEnd[]): NodeId | undefined {
  const { state, quorum } = candidate;
  const intact = ends.filter(
    ({ nodeId, damaged }) => !damaged && state.replicas.includes(nodeId) && state.blank?.includes(nodeId) !== true,
  );
  if (new Set(intact.map(({ nodeId }) => nodeId)).size < quorum) return undefined;
  let best: LogEnd | undefined;
  for (const end of intact) {
    if (best === undefined || end.lastEpoch > best.lastEpoch) best = end;
    else if (end.lastEpoch === best.lastEpoch && end.logEnd > best.logEnd) best = end;
  }
  return best?.nodeId;
}

export function recoveredChange({ topicId, partition, state }: Undecided, leader: NodeId): PartitionChange {
  return { kind: 'PartitionChange', topicId, partition, expectedVersion: state.version, leader, inSync: [leader] };
}

/** Leaderships that go back to the first replica, which is in sync again. */
export function changesForBalance(topics: Iterable<TopicState>, live: LiveNodes, max: number): PartitionChange[] {
  const changes: PartitionChange[] = [];
  for (const { topicId, partitions } of topics) {
    for (const [partition, { leader, replicas, inSync, version }] of partitions.entries()) {
      if (changes.length >= max) return changes;
      const [first] = replicas;
      if (first === undefined || leader === first || leader === NO_LEADER) continue;
      if (inSync.includes(first) && live.isAlive(first) && live.mayLead(first))
        changes.push({ kind: 'PartitionChange', topicId, partition, expectedVersion: version, leader: first, inSync });
    }
  }
  return changes;
}
