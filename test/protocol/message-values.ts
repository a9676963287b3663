// What the samples and generators of messages are made of.
import fc from 'fast-check';
import {
  type LeaderEpoch,
  type NodeId,
  type Offset,
  type TimestampMs,
  type TopicId,
  topicId,
} from '../../src/base/brands.ts';
import { ERROR_NAMES } from '../../src/base/errors.ts';
import type { Failure } from '../../src/protocol/failure.ts';
import type { Decoded, Pieces } from '../../src/protocol/wire.ts';

export interface Message {
  /** As in `fetch.v1.request`. */
  readonly name: string;
  readonly sample: unknown;
  readonly arbitrary: fc.Arbitrary<unknown>;
  readonly encode: (value: unknown) => Uint8Array;
  readonly decode: (body: Uint8Array) => Decoded<unknown>;
  /** Bytes of the sample from which on any cut is valid, because raw bytes end the message. Undefined: no cut is valid. */
  readonly rawFrom: number | undefined;
}

export function join(pieces: Pieces): Uint8Array {
  const all: Uint8Array = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

export interface Codec<Value> {
  readonly sample: NoInfer<Value>;
  readonly arbitrary: fc.Arbitrary<NoInfer<Value>>;
  readonly encode: (value: Value) => Pieces;
  readonly decode: (body: Uint8Array) => Decoded<Value>;
  readonly rawFrom?: number;
}
export function message<Value>(name: string, codec: Codec<Value>): Message {
  const { sample, arbitrary, decode, rawFrom } = codec;
  return { name, sample, arbitrary, encode: (value) => join(codec.encode(value as Value)), decode, rawFrom };
}

// ---- Values ----

export const ID: TopicId = topicId('00112233445566778899aabbccddeeff');
export const OTHER_ID: TopicId = topicId('f0e1d2c3b4a5968778695a4b3c2d1e0f');
export const integer = (min: number, max: number): fc.Arbitrary<number> =>
  fc.oneof(fc.integer({ min, max }), fc.constantFrom(min, max));
export const u16: fc.Arbitrary<number> = integer(0, 0xffff);
export const u32: fc.Arbitrary<number> = integer(0, 0xffff_ffff);
export const safe = (min: number): fc.Arbitrary<number> =>
  fc.oneof(
    fc.maxSafeInteger().map((value) => Math.max(min, value)),
    fc.constantFrom(min, Number.MAX_SAFE_INTEGER),
  );
export const offset: fc.Arbitrary<Offset> = safe(0) as fc.Arbitrary<Offset>;
export const timestamp: fc.Arbitrary<TimestampMs> = safe(-1) as fc.Arbitrary<TimestampMs>;
export const epoch: fc.Arbitrary<LeaderEpoch> = integer(-1, 0x7fff_ffff) as fc.Arbitrary<LeaderEpoch>;
export const node: fc.Arbitrary<NodeId> = integer(0, 0x7fff_ffff) as fc.Arbitrary<NodeId>;
export const id: fc.Arbitrary<TopicId> = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .filter((bytes) => bytes.some((byte) => byte !== 0))
  .map((bytes) => topicId(Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')));
export const text = (maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: 'grapheme', maxLength }).filter((value) => new TextEncoder().encode(value).length <= maxLength);
export const optional = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> =>
  fc.option(value, { nil: undefined });
export const list = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value[]> => fc.array(value, { maxLength: 5 });
export const bytes = (minLength: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ minLength, maxLength: 200 });
export const failureArbitrary: fc.Arbitrary<Failure> = fc.record({
  code: fc.constantFrom(...ERROR_NAMES),
  message: text(80),
  // Whole numbers as names would be put in another order by the language itself.
  facts: fc.dictionary(fc.stringMatching(/^[a-zA-Z]{1,12}$/), fc.oneof(fc.maxSafeInteger(), fc.boolean(), text(30)), {
    maxKeys: 4,
    noNullPrototype: true,
  }),
});
export const failed: fc.Arbitrary<Failure | undefined> = optional(failureArbitrary);
export const SAMPLE_BATCHES: Uint8Array = Uint8Array.from({ length: 70 }, (_, index) => index);

export const NOT_LEADER: Failure = {
  code: 'NOT_LEADER',
  message: 'node 1 does not lead it',
  facts: { leaderId: 2, leaderHost: 'b.example', leaderPort: 9400, leaderEpoch: 7, known: true },
};
