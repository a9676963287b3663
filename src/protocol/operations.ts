// The only table of operations. A number or name that was ever released stays taken: an operation that goes away moves to
// RESERVED. docs/PROTOCOL.md is generated from this table and from the grammar comments in operations/.
import { SPOKEN_FACT, failure, formatSpoken } from './answer.ts';
import type { Failure } from './failure.ts';
import type { FrameHeader } from './frame.ts';
import type { VersionRange } from './negotiate.ts';

/** What a client may do when it does not know whether its request was carried out. */
export type Repeat =
  /** Changes nothing, or the second time nothing more: send it again. */
  | 'repeat'
  /** Send the same bytes again: producer id, epoch and sequence make the repeat harmless; without them, tell the application. */
  | 'repeat-same-bytes'
  /** The first attempt may have been carried out: the answer to a repeat may be an error that says just that. */
  | 'look-first';

export type OperationName =
  | 'Hello'
  | 'Metadata'
  | 'Produce'
  | 'Fetch'
  | 'ListOffsets'
  | 'InitProducer'
  | 'CreateTopic'
  | 'AlterTopic'
  | 'DeleteTopic'
  | 'ClusterStatus'
  | 'JoinGroup'
  | 'Heartbeat'
  | 'LeaveGroup'
  | 'CommitOffset'
  | 'FetchOffsets'
  | 'Replay'
  | 'ListGroups'
  | 'DescribeGroup'
  | 'DeleteGroup';

export interface OperationEntry extends VersionRange {
  readonly name: OperationName;
  /** Answered on a connection that has not said Hello. */
  readonly beforeHello: boolean;
  readonly changesState: boolean;
  readonly afterUnknown: Repeat;
  /** Which broker to ask. */
  readonly at: 'any' | 'leader' | 'coordinator' | 'connected';
  readonly sentence: string;
}

function entry(
  operation: number,
  name: OperationName,
  rules: Pick<OperationEntry, 'changesState' | 'afterUnknown' | 'at'> & {
    readonly beforeHello?: boolean;
    readonly max?: number;
  },
  sentence: string,
): OperationEntry {
  return { operation, name, min: 1, max: 1, beforeHello: false, ...rules, sentence };
}

export const OPERATION: Readonly<Record<OperationName, OperationEntry>> = {
  Hello: entry(
    1,
    'Hello',
    { beforeHello: true, changesState: false, afterUnknown: 'repeat', at: 'connected' },
    'First on every connection: who speaks, and what both sides speak.',
  ),
  Metadata: entry(
    2,
    'Metadata',
    { changesState: false, afterUnknown: 'repeat', at: 'any' },
    'Nodes, topics, and who leads which partition.',
  ),
  Produce: entry(
    3,
    'Produce',
    { changesState: true, afterUnknown: 'repeat-same-bytes', at: 'leader' },
    'Appends record batches to one partition, all or none.',
  ),
  Fetch: entry(
    4,
    'Fetch',
    { changesState: false, afterUnknown: 'repeat', at: 'leader' },
    'Reads stored batches from an offset on; waits for them if asked to.',
  ),
  ListOffsets: entry(
    5,
    'ListOffsets',
    { changesState: false, afterUnknown: 'repeat', at: 'leader' },
    'Finds the first, the next, or the offset of a time.',
  ),
  InitProducer: entry(
    6,
    'InitProducer',
    { changesState: true, afterUnknown: 'repeat', at: 'any' },
    'Gives a producer its id and epoch; fences older sessions of the same name.',
  ),
  CreateTopic: entry(
    7,
    'CreateTopic',
    { changesState: true, afterUnknown: 'look-first', at: 'any' },
    'Creates a topic with its partitions.',
  ),
  AlterTopic: entry(
    8,
    'AlterTopic',
    { changesState: true, afterUnknown: 'repeat', at: 'any' },
    'Changes settings; adds partitions.',
  ),
  DeleteTopic: entry(
    9,
    'DeleteTopic',
    { changesState: true, afterUnknown: 'look-first', at: 'any' },
    'Deletes a topic and its records.',
  ),
  ClusterStatus: entry(
    10,
    'ClusterStatus',
    { changesState: false, afterUnknown: 'repeat', at: 'any' },
    'Nodes and the state of all partitions in numbers.',
  ),
  JoinGroup: entry(
    20,
    'JoinGroup',
    { changesState: true, afterUnknown: 'repeat', at: 'coordinator' },
    'Makes a member of a group, and tells what it is to read.',
  ),
  Heartbeat: entry(
    21,
    'Heartbeat',
    { changesState: true, afterUnknown: 'repeat', at: 'coordinator' },
    'Keeps a membership alive, releases partitions, and tells what the member is to read now.',
  ),
  LeaveGroup: entry(
    22,
    'LeaveGroup',
    { changesState: true, afterUnknown: 'repeat', at: 'coordinator' },
    'Ends a membership: what it owns is free at once.',
  ),
  CommitOffset: entry(
    23,
    'CommitOffset',
    { changesState: true, afterUnknown: 'repeat', at: 'coordinator' },
    'Records how far a group has come in partitions that the member owns.',
  ),
  FetchOffsets: entry(
    24,
    'FetchOffsets',
    { changesState: false, afterUnknown: 'repeat', at: 'coordinator' },
    'Tells how far a group has come.',
  ),
  Replay: entry(
    25,
    'Replay',
    { changesState: true, afterUnknown: 'repeat', at: 'coordinator' },
    'Sets the committed offsets of a group that nobody reads for, or that is paused for it.',
  ),
  ListGroups: entry(
    26,
    'ListGroups',
    { changesState: false, afterUnknown: 'repeat', at: 'coordinator' },
    'All groups in numbers.',
  ),
  DescribeGroup: entry(
    27,
    'DescribeGroup',
    { changesState: false, afterUnknown: 'repeat', at: 'coordinator' },
    'Members, who owns what, committed offsets, and how far behind they are.',
  ),
  DeleteGroup: entry(
    28,
    'DeleteGroup',
    { changesState: true, afterUnknown: 'look-first', at: 'coordinator' },
    'Deletes a group without members, and its committed offsets.',
  ),
};

/** Ascending by number. */
export const OPERATIONS: readonly OperationEntry[] = Object.values(OPERATION).sort(
  (left, right) => left.operation - right.operation,
);

/** Taken, and not spoken yet. Number 0 is an answer about the connection. */
export const RESERVED: readonly { readonly operation: number; readonly name: string }[] = [
  { operation: 0, name: 'Connection' },
  { operation: 30, name: 'Authenticate' },
  { operation: 40, name: 'Raft' },
  { operation: 41, name: 'ReplicaFetch' },
  { operation: 42, name: 'ReplicaAck' },
  { operation: 43, name: 'EpochEnd' },
  { operation: 44, name: 'RangeChecksum' },
  { operation: 45, name: 'RangeRead' },
];

/** Versions of the frame layout and of the rules that hold for all operations. */
export const PROTOCOL_MIN = 1;
export const PROTOCOL_MAX = 1;

const byNumber = new Map<number, OperationEntry>(OPERATIONS.map((item) => [item.operation, item]));

/** Undefined: this side does not speak it. */
export function operationOf(operation: number): OperationEntry | undefined {
  return byNumber.get(operation);
}

export type Admission =
  | { readonly ok: true; readonly operation: OperationEntry }
  /** To be answered; the connection goes on. */
  | { readonly ok: false; readonly failure: Failure };

/** Decides by the header alone whether a request is looked at. */
export function admit(header: Pick<FrameHeader, 'operation' | 'version'>, helloDone: boolean): Admission {
  const known = byNumber.get(header.operation);
  const facts = (): Record<string, string> => ({ [SPOKEN_FACT]: formatSpoken(OPERATIONS) });
  if (known === undefined) {
    return {
      ok: false,
      failure: failure('UNSUPPORTED_OPERATION', `operation ${String(header.operation)} is not known`, facts()),
    };
  }
  if (header.version < known.min || header.version > known.max) {
    const range =
      known.min === known.max
        ? `version ${String(known.min)} is`
        : `versions ${String(known.min)} to ${String(known.max)} are`;
    const message = `${known.name} version ${String(header.version)} is not known; ${range}`;
    return { ok: false, failure: failure('UNSUPPORTED_VERSION', message, facts()) };
  }
  if (!helloDone && !known.beforeHello)
    return { ok: false, failure: failure('HELLO_REQUIRED', `${known.name} before Hello`) };
  return { ok: true, operation: known };
}
