// Branded numbers: an offset is never a position, a term never an epoch. Values are made only by the named constructors
// below and by decoders, so passing a bare number is a type error.
import { assert } from './assert.ts';

declare const brand: unique symbol;
type Brand<Base, Name extends string> = Base & { readonly [brand]: Name };

/** Record number in a partition; dense, from 0, never reused. Safe integer: at a million a second they last 285 years. */
export type Offset = Brand<number, 'Offset'>;
/** Byte position in one file. */
export type Position = Brand<number, 'Position'>;
/** Leadership of one partition. -1 is "none". */
export type LeaderEpoch = Brand<number, 'LeaderEpoch'>;
/** Leadership of the metadata log (Raft). */
export type Term = Brand<number, 'Term'>;
export type NodeId = Brand<number, 'NodeId'>;
/** Milliseconds since 1970-01-01 UTC, wall clock: for record timestamps, retention and logs only. */
export type TimestampMs = Brand<number, 'TimestampMs'>;
/** Milliseconds of a clock that only moves forward; comparable only with readings of the same clock of the same process. */
export type MonotonicMs = Brand<number, 'MonotonicMs'>;
/** -1 is "no producer id" (anonymous, not idempotent). */
export type ProducerId = Brand<number, 'ProducerId'>;
/** 32 lower-case hex digits. Never reused: a recreated topic has another id. */
export type TopicId = Brand<string, 'TopicId'>;

function safe(value: number, least: number, name: string): number {
  assert(Number.isSafeInteger(value) && value >= least, `${name} out of range: ${String(value)}`);
  return value;
}

export function offset(value: number): Offset {
  return safe(value, 0, 'offset') as Offset;
}
export function position(value: number): Position {
  return safe(value, 0, 'position') as Position;
}
export function leaderEpoch(value: number): LeaderEpoch {
  return safe(value, -1, 'leader epoch') as LeaderEpoch;
}
export function term(value: number): Term {
  return safe(value, 0, 'term') as Term;
}
export function nodeId(value: number): NodeId {
  return safe(value, 0, 'node id') as NodeId;
}
/** May be -1 ("none") as in the public batch format. */
export function timestampMs(value: number): TimestampMs {
  return safe(value, -1, 'timestamp') as TimestampMs;
}
export function monotonicMs(value: number): MonotonicMs {
  assert(Number.isFinite(value) && value >= 0, `monotonic time out of range: ${String(value)}`);
  return value as MonotonicMs;
}
export function producerId(value: number): ProducerId {
  return safe(value, -1, 'producer id') as ProducerId;
}
export function topicId(value: string): TopicId {
  assert(/^[0-9a-f]{32}$/.test(value), `topic id is not 32 hex digits: ${value}`);
  return value as TopicId;
}

export const NO_EPOCH: LeaderEpoch = leaderEpoch(-1);
export const NO_PRODUCER: ProducerId = producerId(-1);
export const NO_TIMESTAMP: TimestampMs = timestampMs(-1);

export function addOffset(base: Offset, count: number): Offset {
  return offset(base + count);
}
export function addPosition(base: Position, bytes: number): Position {
  return position(base + bytes);
}
export function addMs(base: MonotonicMs, ms: number): MonotonicMs {
  return monotonicMs(base + ms);
}
