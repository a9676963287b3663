import type { NodeId } from '../../base/brands.ts';
import { type ByteReader, DecodeError } from '../../base/bytes.ts';
import {
  type Decoded,
  type Pieces,
  type Sink,
  LABEL_BYTES_MAX,
  decode,
  encode,
  readList,
  readNodeId,
  writeList,
} from '../wire.ts';

export type RaftEntryKind = 'noop' | 'command' | 'voters';
export interface RaftEntry {
  readonly index: number;
  readonly term: number;
  readonly kind: RaftEntryKind;
  readonly bytes: Uint8Array;
}
interface Candidacy {
  readonly term: number;
  readonly toDisk: string | undefined;
  readonly lastIndex: number;
  readonly lastTerm: number;
}
interface Verdict {
  readonly term: number;
  readonly forTerm: number;
  readonly granted: boolean;
}
/** What nodes say to each other to agree on the metadata log. Times are whole milliseconds of the leader's clock. */
export type RaftMessage =
  | ({ readonly kind: 'preVote' } & Candidacy)
  | ({ readonly kind: 'vote'; readonly transfer: boolean } & Candidacy)
  | ({ readonly kind: 'preVoteAnswer' } & Verdict)
  | ({ readonly kind: 'voteAnswer' } & Verdict)
  | {
      readonly kind: 'append';
      readonly term: number;
      readonly prevIndex: number;
      readonly prevTerm: number;
      readonly entries: readonly RaftEntry[];
      readonly commitIndex: number;
      readonly sentMs: number;
    }
  | {
      readonly kind: 'appended';
      readonly term: number;
      readonly match: number;
      readonly received: number;
      readonly sentMs: number;
    }
  | {
      readonly kind: 'appendRejected';
      readonly term: number;
      readonly prevIndex: number;
      readonly hintIndex: number;
      readonly hintTerm: number;
      readonly sentMs: number;
    }
  | { readonly kind: 'heartbeat'; readonly term: number; readonly commitIndex: number; readonly sentMs: number }
  | { readonly kind: 'heartbeatAnswer'; readonly term: number; readonly received: number; readonly sentMs: number }
  | { readonly kind: 'newerTerm'; readonly term: number }
  | { readonly kind: 'timeoutNow'; readonly term: number };

/** Who sends, and how it is; one frame says it for all messages in it. */
export interface RaftRequest {
  readonly from: NodeId;
  readonly diskId: string;
  readonly incarnation: number;
  /** Empty: it does not know yet. A frame from another cluster is refused. */
  readonly clusterId: string;
  /** Its disk has not finished a write for long: it is not to lead. */
  readonly diskStuck: boolean;
  /** It wants to stop: leaderships are to go elsewhere. */
  readonly leaving: boolean;
  /** It leads the metadata log, and surely no other node does. */
  readonly holdsLease: boolean;
  /** Its own clock, in milliseconds, when it sent. */
  readonly clockMs: number;
  /** The newest such clock that it has received from the other side; −1: none. */
  readonly echoMs: number;
  readonly messages: readonly RaftMessage[];
}

export const RAFT_MESSAGES_MAX = 1024;
export const RAFT_ENTRY_BYTES_MAX: number = 4 * 1024 * 1024;
const ENTRIES_MAX = 65_536;
const KINDS: readonly RaftMessage['kind'][] = [
  'preVote',
  'vote',
  'preVoteAnswer',
  'voteAnswer',
  'append',
  'appended',
  'appendRejected',
  'heartbeat',
  'heartbeatAnswer',
  'newerTerm',
  'timeoutNow',
];
const ENTRY_KINDS: readonly RaftEntryKind[] = ['noop', 'command', 'voters'];
const DISK_STUCK = 1;
const LEAVING = 2;
const HOLDS_LEASE = 4;

// request = node id i32, disk id string, incarnation i64, cluster id string (empty: not known), state u8, clock i64, echo i64
//           (−1: none), count u32, count × message
// state   = bit 0: its disk is stuck · bit 1: it wants to stop · bit 2: it leads and holds a lease
export function encodeRequest(request: RaftRequest): Pieces {
  return [
    encode((sink) => {
      sink.i32(request.from).string(request.diskId).i64(request.incarnation).string(request.clusterId);
      sink.u8(
        (request.diskStuck ? DISK_STUCK : 0) + (request.leaving ? LEAVING : 0) + (request.holdsLease ? HOLDS_LEASE : 0),
      );
      sink.i64(request.clockMs).i64(request.echoMs);
      writeList(sink, request.messages, (message) => {
        writeMessage(sink, message);
      });
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<RaftRequest> {
  return decode(body, (reader) => {
    const from = readNodeId(reader);
    const diskId = reader.string(LABEL_BYTES_MAX);
    const incarnation = reader.i64();
    const clusterId = reader.string(LABEL_BYTES_MAX);
    const { at } = reader;
    const state = reader.u8();
    if (state > DISK_STUCK + LEAVING + HOLDS_LEASE) throw new DecodeError(`state ${String(state)}`, at);
    const clockMs = reader.i64();
    const echoMs = reader.i64();
    const messages = readList(reader, { elementBytesMin: 9, countMax: RAFT_MESSAGES_MAX }, () => readMessage(reader));
    return {
      from,
      diskId,
      incarnation,
      clusterId,
      diskStuck: (state & DISK_STUCK) !== 0,
      leaving: (state & LEAVING) !== 0,
      holdsLease: (state & HOLDS_LEASE) !== 0,
      clockMs,
      echoMs,
      messages,
    };
  });
}

// message = kind u8, term i64, and by kind:
//   0 preVote: to disk string (empty: any), last index i64, last term i64 · 1 vote: the same, transfer bool
//   2 preVoteAnswer, 3 voteAnswer: for term i64, granted bool
//   4 append: previous index i64, previous term i64, commit index i64, sent i64, count u32, count × entry
//   5 appended: match i64, received i64, sent i64
//   6 appendRejected: previous index i64, hint index i64, hint term i64, sent i64
//   7 heartbeat: commit index i64, sent i64 · 8 heartbeatAnswer: received i64, sent i64 · 9 newerTerm · 10 timeoutNow
// entry   = term i64, kind u8 (0 noop, 1 command, 2 voters), bytes blob; the first stands behind the previous index
function writeMessage(sink: Sink, message: RaftMessage): void {
  sink.u8(KINDS.indexOf(message.kind)).i64(message.term);
  switch (message.kind) {
    case 'preVote':
    case 'vote':
      sink
        .string(message.toDisk ?? '')
        .i64(message.lastIndex)
        .i64(message.lastTerm);
      if (message.kind === 'vote') sink.bool(message.transfer);
      break;
    case 'preVoteAnswer':
    case 'voteAnswer':
      sink.i64(message.forTerm).bool(message.granted);
      break;
    case 'append':
      sink.i64(message.prevIndex).i64(message.prevTerm).i64(message.commitIndex).i64(message.sentMs);
      writeList(sink, message.entries, (entry) =>
        sink.i64(entry.term).u8(ENTRY_KINDS.indexOf(entry.kind)).blob(entry.bytes),
      );
      break;
    case 'appended':
      sink.i64(message.match).i64(message.received).i64(message.sentMs);
      break;
    case 'appendRejected':
      sink.i64(message.prevIndex).i64(message.hintIndex).i64(message.hintTerm).i64(message.sentMs);
      break;
    case 'heartbeat':
      sink.i64(message.commitIndex).i64(message.sentMs);
      break;
    case 'heartbeatAnswer':
      sink.i64(message.received).i64(message.sentMs);
      break;
    case 'newerTerm':
    case 'timeoutNow':
      break;
  }
}

function readMessage(reader: ByteReader): RaftMessage {
  const { at } = reader;
  const kind = KINDS[reader.u8()];
  if (kind === undefined) throw new DecodeError('a message of unknown kind', at);
  const term = count(reader);
  switch (kind) {
    case 'preVote':
      return { kind, term, ...readCandidacy(reader) };
    case 'vote':
      return { kind, term, ...readCandidacy(reader), transfer: reader.bool() };
    case 'preVoteAnswer':
    case 'voteAnswer':
      return { kind, term, forTerm: count(reader), granted: reader.bool() };
    case 'append':
      return readAppend(reader, term);
    case 'appended':
      return { kind, term, match: index(reader), received: index(reader), sentMs: reader.i64() };
    case 'appendRejected':
      return {
        kind,
        term,
        prevIndex: index(reader),
        hintIndex: index(reader),
        hintTerm: count(reader),
        sentMs: reader.i64(),
      };
    case 'heartbeat':
      return { kind, term, commitIndex: index(reader), sentMs: reader.i64() };
    case 'heartbeatAnswer':
      return { kind, term, received: index(reader), sentMs: reader.i64() };
    case 'newerTerm':
    case 'timeoutNow':
      return { kind, term };
  }
}

function readCandidacy(reader: ByteReader): Omit<Candidacy, 'term'> {
  const toDisk = reader.string(LABEL_BYTES_MAX);
  return { toDisk: toDisk === '' ? undefined : toDisk, lastIndex: index(reader), lastTerm: count(reader) };
}

function readAppend(reader: ByteReader, term: number): RaftMessage {
  const prevIndex = index(reader);
  const prevTerm = count(reader);
  const commitIndex = index(reader);
  const sentMs = reader.i64();
  let next = prevIndex;
  const entries = readList(reader, { elementBytesMin: 13, countMax: ENTRIES_MAX }, () => {
    next += 1;
    const { at } = reader;
    const entryTerm = count(reader);
    const kind = ENTRY_KINDS[reader.u8()];
    if (kind === undefined) throw new DecodeError('an entry of unknown kind', at);
    // It is kept for long, and the receive buffer is not.
    return { index: next, term: entryTerm, kind, bytes: reader.blob(RAFT_ENTRY_BYTES_MAX).slice() };
  });
  return { kind: 'append', term, prevIndex, prevTerm, entries, commitIndex, sentMs };
}

function count(reader: ByteReader): number {
  const { at } = reader;
  const value = reader.i64();
  if (value < 0) throw new DecodeError(`a count of ${String(value)}`, at);
  return value;
}
function index(reader: ByteReader): number {
  const { at } = reader;
  const value = reader.i64();
  if (value < -1) throw new DecodeError(`an index of ${String(value)}`, at);
  return value;
}

// response = nothing: answers are messages of the other side
export function encodeResponse(): Pieces {
  return [];
}
export function decodeResponse(body: Uint8Array): Decoded<undefined> {
  return decode(body, () => undefined);
}
