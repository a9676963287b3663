// The registry of errors that a client can see. Numbers and names never change and are never reused; sentences may.
// docs/PROTOCOL.md is generated from this table.

/**
 * What a failed publish means. rejected: not appended, never will be by this request, safe to send again as new.
 * unknown: may or may not be in the log; retry with the same producer id, epoch and sequence.
 */
export type Outcome = 'rejected' | 'unknown';

/** What the client does next. `refresh` is: fetch metadata, then retry at the leader it names. */
export type ClientAction =
  | 'retry'
  | 'refresh'
  | 'fix-request'
  | 'fix-input'
  | 'ask-application'
  | 'ask-operator'
  | 'reconnect'
  | 'stop';

export interface ErrorEntry {
  readonly code: number;
  readonly outcome: Outcome;
  readonly retriable: boolean;
  readonly action: ClientAction;
  readonly sentence: string;
}

function entry(code: number, outcome: Outcome, retriable: boolean, action: ClientAction, sentence: string): ErrorEntry {
  return { code, outcome, retriable, action, sentence };
}

/** Written out, so that the public surface is explicit and an entry cannot be added or lost by accident. */
export type ErrorName =
  | 'MALFORMED_FRAME'
  | 'FRAME_TOO_LARGE'
  | 'UNSUPPORTED_OPERATION'
  | 'UNSUPPORTED_VERSION'
  | 'MALFORMED_REQUEST'
  | 'HELLO_REQUIRED'
  | 'INVALID_ARGUMENT'
  | 'TOO_MANY_REQUESTS'
  | 'TOO_MANY_CONNECTIONS'
  | 'SHUTTING_DOWN'
  | 'INTERNAL'
  | 'THROTTLED'
  | 'UNKNOWN_TOPIC'
  | 'UNKNOWN_PARTITION'
  | 'TOPIC_EXISTS'
  | 'INVALID_TOPIC_NAME'
  | 'INVALID_CONFIG'
  | 'CONFIRMATION_REQUIRED'
  | 'CORRUPT_BATCH'
  | 'INVALID_BATCH'
  | 'BATCH_TOO_LARGE'
  | 'UNKNOWN_CODEC'
  | 'NOT_LEADER'
  | 'FENCED_LEADER_EPOCH'
  | 'UNKNOWN_LEADER_EPOCH'
  | 'NOT_ENOUGH_REPLICAS'
  | 'COMMIT_TIMEOUT'
  | 'LEADERSHIP_LOST'
  | 'STORAGE_FULL'
  | 'DISK_PRESSURE'
  | 'STORAGE_FAILED'
  | 'PARTITION_OFFLINE'
  | 'OFFSET_EXPIRED'
  | 'OFFSET_BEYOND_END'
  | 'OFFSET_NOT_AVAILABLE'
  | 'LOG_TRUNCATED'
  | 'DAMAGED_RANGE'
  | 'OUT_OF_ORDER_SEQUENCE'
  | 'PRODUCER_FENCED'
  | 'UNKNOWN_PRODUCER'
  | 'DUPLICATE_SEQUENCE'
  | 'COORDINATOR_NOT_AVAILABLE'
  | 'UNKNOWN_MEMBER'
  | 'STALE_GENERATION'
  | 'REBALANCE_IN_PROGRESS'
  | 'GROUP_NOT_EMPTY'
  | 'UNKNOWN_GROUP'
  | 'COMMIT_NOT_OWNED'
  | 'COMMIT_BACKWARDS'
  | 'COMMIT_BEYOND_END'
  | 'INSTANCE_FENCED'
  | 'GROUP_FULL'
  | 'GROUP_LIMIT'
  | 'AUTHENTICATION_FAILED'
  | 'NOT_AUTHORIZED'
  | 'NOT_CONNECTED'
  | 'CONNECTION_LOST'
  | 'REQUEST_TIMEOUT'
  | 'BUFFER_FULL'
  | 'CLOSED'
  | 'ABORTED'
  | 'POISONED_BATCH';

const table: Readonly<Record<ErrorName, ErrorEntry>> = {
  // Frames and requests
  MALFORMED_FRAME: entry(
    1,
    'rejected',
    false,
    'fix-request',
    'The frame does not follow the protocol; the connection is closed.',
  ),
  FRAME_TOO_LARGE: entry(
    2,
    'rejected',
    false,
    'fix-request',
    'The declared length is over the limit; the connection is closed.',
  ),
  UNSUPPORTED_OPERATION: entry(
    3,
    'rejected',
    false,
    'fix-request',
    'This broker does not know the operation; the answer lists what it speaks.',
  ),
  UNSUPPORTED_VERSION: entry(
    4,
    'rejected',
    false,
    'fix-request',
    'This broker does not speak that version of the operation; the answer lists what it speaks.',
  ),
  MALFORMED_REQUEST: entry(
    5,
    'rejected',
    false,
    'fix-request',
    'The body does not follow the grammar of its operation.',
  ),
  HELLO_REQUIRED: entry(6, 'rejected', false, 'fix-request', 'The first request on a connection must be Hello.'),
  INVALID_ARGUMENT: entry(
    7,
    'rejected',
    false,
    'fix-input',
    'A field has a value that is not allowed; the message names it.',
  ),
  TOO_MANY_REQUESTS: entry(8, 'rejected', true, 'retry', 'More requests in flight on this connection than allowed.'),
  TOO_MANY_CONNECTIONS: entry(9, 'rejected', true, 'reconnect', 'The broker has as many connections as it allows.'),
  SHUTTING_DOWN: entry(10, 'rejected', true, 'refresh', 'The broker is stopping and takes no new work.'),
  INTERNAL: entry(11, 'unknown', true, 'retry', 'The broker failed in a way it did not expect; its log says more.'),
  THROTTLED: entry(12, 'rejected', true, 'retry', 'A quota is used up; retry after the delay that the answer names.'),
  // Topics
  UNKNOWN_TOPIC: entry(20, 'rejected', true, 'refresh', 'There is no topic of that name or id.'),
  UNKNOWN_PARTITION: entry(21, 'rejected', false, 'fix-input', 'The topic has no partition of that number.'),
  TOPIC_EXISTS: entry(22, 'rejected', false, 'fix-input', 'A topic of that name exists already.'),
  INVALID_TOPIC_NAME: entry(
    23,
    'rejected',
    false,
    'fix-input',
    'Topic names have 1 to 249 letters, digits, dots, dashes and underscores, and are not "." or "..".',
  ),
  INVALID_CONFIG: entry(
    24,
    'rejected',
    false,
    'fix-input',
    'A topic setting has a value that is not allowed; the message names it.',
  ),
  CONFIRMATION_REQUIRED: entry(
    25,
    'rejected',
    false,
    'fix-input',
    'Adding partitions moves keys to other partitions: confirm it explicitly.',
  ),
  // Batches
  CORRUPT_BATCH: entry(
    30,
    'rejected',
    true,
    'retry',
    'The checksum of the batch does not match: its bytes changed on the way.',
  ),
  INVALID_BATCH: entry(
    31,
    'rejected',
    false,
    'fix-input',
    'The batch does not follow the record batch format; the message says where.',
  ),
  BATCH_TOO_LARGE: entry(32, 'rejected', false, 'fix-input', 'The batch or one of its records is larger than allowed.'),
  UNKNOWN_CODEC: entry(
    33,
    'rejected',
    false,
    'fix-input',
    'The compression codec is not one of none, gzip, snappy, lz4, zstd.',
  ),
  // Partition leadership and storage
  NOT_LEADER: entry(
    40,
    'rejected',
    true,
    'refresh',
    'This node does not lead the partition; the answer may name the leader.',
  ),
  FENCED_LEADER_EPOCH: entry(
    41,
    'rejected',
    true,
    'refresh',
    'The request knows an older leader epoch than this node.',
  ),
  UNKNOWN_LEADER_EPOCH: entry(
    42,
    'rejected',
    true,
    'retry',
    'The request knows a newer leader epoch than this node; it will catch up.',
  ),
  NOT_ENOUGH_REPLICAS: entry(
    43,
    'rejected',
    true,
    'retry',
    'The in-sync set is smaller than min.insync.replicas; nothing was appended.',
  ),
  COMMIT_TIMEOUT: entry(44, 'unknown', true, 'retry', 'Appended, but not committed within the timeout.'),
  LEADERSHIP_LOST: entry(45, 'unknown', true, 'refresh', 'Appended, but leadership ended before it was committed.'),
  STORAGE_FULL: entry(
    46,
    'rejected',
    true,
    'retry',
    'The disk has no room; nothing was appended; reads and commits go on.',
  ),
  DISK_PRESSURE: entry(
    47,
    'rejected',
    true,
    'retry',
    'Free disk space is below the hard level; nothing was appended; reads and commits go on.',
  ),
  STORAGE_FAILED: entry(48, 'unknown', false, 'ask-operator', 'The storage of this node failed; it stops.'),
  PARTITION_OFFLINE: entry(49, 'rejected', true, 'retry', 'The partition has no leader now, or is being opened.'),
  // Reads
  OFFSET_EXPIRED: entry(
    60,
    'rejected',
    false,
    'ask-application',
    'The offset is below the log start: retention removed it. The answer holds the retained range.',
  ),
  OFFSET_BEYOND_END: entry(61, 'rejected', false, 'ask-application', 'The offset is beyond the end of the log.'),
  OFFSET_NOT_AVAILABLE: entry(62, 'rejected', true, 'retry', 'A new leader does not know its high watermark yet.'),
  LOG_TRUNCATED: entry(
    63,
    'rejected',
    false,
    'ask-application',
    'Records that were read before were lost by an unclean restart; the answer holds where the logs part.',
  ),
  DAMAGED_RANGE: entry(
    64,
    'rejected',
    false,
    'ask-operator',
    'The records of this offset range are damaged on disk; the answer holds the range; segtool can repair.',
  ),
  // Producers
  OUT_OF_ORDER_SEQUENCE: entry(80, 'rejected', false, 'stop', 'A sequence is missing before this batch.'),
  PRODUCER_FENCED: entry(81, 'rejected', false, 'stop', 'A newer session of this producer exists.'),
  UNKNOWN_PRODUCER: entry(
    82,
    'rejected',
    false,
    'stop',
    'The broker does not know this producer id; it must start at sequence 0.',
  ),
  DUPLICATE_SEQUENCE: entry(
    83,
    'rejected',
    false,
    'stop',
    'The batch is in the log already, so long ago that its offset is not known any more.',
  ),
  // Groups
  COORDINATOR_NOT_AVAILABLE: entry(
    100,
    'rejected',
    true,
    'refresh',
    'This node does not coordinate the groups now; the answer may name the one that does.',
  ),
  UNKNOWN_MEMBER: entry(
    101,
    'rejected',
    true,
    'retry',
    'The group does not know the member: its session has ended. Stop everything, then join as a new member.',
  ),
  STALE_GENERATION: entry(
    102,
    'rejected',
    true,
    'retry',
    'The partitions of the member have changed since that generation: send a heartbeat and follow its answer.',
  ),
  REBALANCE_IN_PROGRESS: entry(103, 'rejected', true, 'retry', 'The group is between two assignments.'),
  GROUP_NOT_EMPTY: entry(
    104,
    'rejected',
    false,
    'fix-input',
    'The group has members; stop them, or have them paused for a Replay.',
  ),
  UNKNOWN_GROUP: entry(105, 'rejected', false, 'fix-input', 'There is no group of that id.'),
  COMMIT_NOT_OWNED: entry(106, 'rejected', false, 'fix-request', 'The member does not own that partition.'),
  COMMIT_BACKWARDS: entry(107, 'rejected', false, 'fix-request', 'A commit never moves back; use Replay.'),
  COMMIT_BEYOND_END: entry(108, 'rejected', false, 'fix-request', 'The committed offset is beyond the high watermark.'),
  INSTANCE_FENCED: entry(109, 'rejected', false, 'stop', 'A newer member uses the same static instance id.'),
  GROUP_FULL: entry(110, 'rejected', false, 'ask-operator', 'The group has as many members as a group may have.'),
  GROUP_LIMIT: entry(
    111,
    'rejected',
    false,
    'ask-operator',
    'There are as many groups, members, shared partitions or committed offsets as the cluster keeps: delete groups that are not needed.',
  ),
  // Access
  AUTHENTICATION_FAILED: entry(120, 'rejected', false, 'ask-operator', 'The credentials are not accepted.'),
  NOT_AUTHORIZED: entry(121, 'rejected', false, 'ask-operator', 'The principal has no right to do this.'),
  // Made by the client library; never on the wire
  NOT_CONNECTED: entry(140, 'rejected', true, 'reconnect', 'No broker could be reached; nothing was sent.'),
  CONNECTION_LOST: entry(141, 'unknown', true, 'reconnect', 'The connection ended before the answer came.'),
  REQUEST_TIMEOUT: entry(142, 'unknown', true, 'retry', 'The answer did not come in time.'),
  BUFFER_FULL: entry(
    143,
    'rejected',
    true,
    'retry',
    'The buffer of the producer is full and too many records wait for room: await each send, or ready().',
  ),
  CLOSED: entry(144, 'rejected', false, 'stop', 'The client, producer or consumer is closed.'),
  ABORTED: entry(145, 'rejected', false, 'stop', 'The signal of the caller was aborted.'),
  POISONED_BATCH: entry(
    146,
    'rejected',
    false,
    'ask-application',
    'A stored batch cannot be decoded: its checksum, compressed data or record structure is wrong.',
  ),
};

export const ERRORS: Readonly<Record<ErrorName, ErrorEntry>> = table;
export const ERROR_NAMES: readonly ErrorName[] = Object.keys(table) as ErrorName[];

/** Code 0 on the wire is success. */
export const NO_ERROR = 0;

const byCode = new Map<number, ErrorName>(ERROR_NAMES.map((name) => [table[name].code, name]));

/** Undefined for 0 and for codes of a newer broker; the client treats those as INTERNAL. */
export function errorName(code: number): ErrorName | undefined {
  return byCode.get(code);
}
export function errorCode(name: ErrorName): number {
  return table[name].code;
}

/** Facts that travel with an error; absent ones are left out. */
export interface ErrorFacts {
  readonly [fact: string]: string | number | boolean | undefined;
}

/** What a user of the client or the broker API catches. Branch on `code`, never on the message. */
export class RivuletError extends Error {
  override readonly name = 'RivuletError';
  readonly brand = 'rivulet.error' as const;
  readonly code: ErrorName;
  readonly facts: ErrorFacts;
  constructor(code: ErrorName, message?: string, options: { facts?: ErrorFacts; cause?: unknown } = {}) {
    super(message ?? table[code].sentence, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.facts = options.facts ?? {};
  }
  get retriable(): boolean {
    return table[this.code].retriable;
  }
  get outcome(): Outcome {
    return table[this.code].outcome;
  }
}

/** Works across two copies of the package in one process. */
export function isRivuletError(value: unknown): value is RivuletError {
  return typeof value === 'object' && value !== null && 'brand' in value && value.brand === 'rivulet.error';
}
