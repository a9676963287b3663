// What a follower and a leader say to each other; not in the table of operations, which is for clients.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { LeaderEpoch, NodeId, Offset } from '../../src/base/brands.ts';
import { ByteWriter } from '../../src/base/bytes.ts';
import { ERROR_NAMES } from '../../src/base/errors.ts';
import * as replicaAck from '../../src/protocol/between-nodes/replica-ack.v1.ts';
import * as replicaFetch from '../../src/protocol/between-nodes/replica-fetch.v1.ts';
import {
  bytes,
  epoch,
  ID,
  id,
  integer,
  join,
  list,
  type Message,
  message,
  node,
  offset,
  OTHER_ID,
  safe,
  SAMPLE_BATCHES,
  text,
  u32,
} from './message-values.ts';

const DISK = '00112233445566778899aabbccddeeff';
const at = (value: number): Offset => value as Offset;
const inEpoch = (value: number): LeaderEpoch => value as LeaderEpoch;
const ascending = (count: number): fc.Arbitrary<Offset[]> =>
  fc.array(offset, { minLength: count, maxLength: count }).map((all) => all.toSorted((left, right) => left - right));

const answer = fc.oneof(
  fc.record({
    kind: fc.constant('ok' as const),
    highWatermark: offset,
    logStart: offset,
    batches: fc.oneof(
      fc.constant([]),
      bytes(1).map((view) => [view]),
    ),
  }),
  fc.record({ kind: fc.constant('diverged' as const), epoch, endOffset: offset }),
  fc.record({ kind: fc.constant('refused' as const), code: fc.constantFrom(...ERROR_NAMES) }),
);

const MESSAGES: readonly Message[] = [
  message('replica-fetch.v1.request', {
    encode: replicaFetch.encodeRequest,
    decode: replicaFetch.decodeRequest,
    sample: {
      from: 2 as NodeId,
      diskId: DISK,
      incarnation: 3,
      waitMs: 500,
      minBytes: 1,
      maxBytes: 4_194_304,
      partitions: [
        {
          topicId: ID,
          partition: 7,
          leaderEpoch: inEpoch(5),
          fetchOffset: at(100),
          lastEpoch: inEpoch(4),
          written: at(100),
          synced: at(90),
          highWatermark: at(80),
          maxBytes: 1_048_576,
        },
        {
          topicId: OTHER_ID,
          partition: 0,
          leaderEpoch: inEpoch(0),
          fetchOffset: at(0),
          lastEpoch: inEpoch(-1),
          written: at(0),
          synced: at(0),
          highWatermark: at(0),
          maxBytes: 1,
        },
      ],
    },
    arbitrary: fc.record({
      from: node,
      diskId: text(64),
      incarnation: safe(0),
      waitMs: u32,
      minBytes: u32,
      maxBytes: u32,
      partitions: list(
        fc
          .record({
            topicId: id,
            partition: u32,
            leaderEpoch: epoch,
            lastEpoch: epoch,
            offsets: ascending(3),
            share: fc.double({ min: 0, max: 1, noNaN: true }),
            maxBytes: u32,
          })
          .map(({ offsets: [synced = at(0), written = at(0), fetchOffset = at(0)], share, ...rest }) => ({
            ...rest,
            synced,
            written,
            fetchOffset,
            highWatermark: at(Math.floor(fetchOffset * share)),
          })),
      ),
    }),
  }),
  message('replica-fetch.v1.response', {
    encode: replicaFetch.encodeResponse,
    decode: replicaFetch.decodeResponse,
    sample: {
      entries: [
        { index: 0, answer: { kind: 'ok', highWatermark: at(90), logStart: at(10), batches: [SAMPLE_BATCHES] } },
        { index: 3, answer: { kind: 'diverged', epoch: inEpoch(4), endOffset: at(70) } },
        { index: 4, answer: { kind: 'refused', code: 'FENCED_LEADER_EPOCH' } },
        { index: 9, answer: { kind: 'ok', highWatermark: at(0), logStart: at(0), batches: [] } },
      ],
    },
    arbitrary: fc
      .tuple(fc.uniqueArray(integer(0, 4000), { maxLength: 5 }), fc.array(answer, { minLength: 5, maxLength: 5 }))
      .map(([indexes, answers]) => ({
        entries: indexes
          .toSorted((left, right) => left - right)
          .flatMap((index, place) => {
            const given = answers[place];
            return given === undefined ? [] : [{ index, answer: given }];
          }),
      })),
  }),
  message('replica-ack.v1.request', {
    encode: replicaAck.encodeRequest,
    decode: replicaAck.decodeRequest,
    sample: {
      from: 2 as NodeId,
      diskId: DISK,
      incarnation: 3,
      partitions: [
        { topicId: ID, partition: 7, leaderEpoch: inEpoch(5), written: at(100), synced: at(90) },
        { topicId: OTHER_ID, partition: 0, leaderEpoch: inEpoch(0), written: at(0), synced: at(0) },
      ],
    },
    arbitrary: fc.record({
      from: node,
      diskId: text(64),
      incarnation: safe(0),
      partitions: list(
        fc
          .record({ topicId: id, partition: u32, leaderEpoch: epoch, offsets: ascending(2) })
          .map(({ offsets: [synced = at(0), written = at(0)], ...rest }) => ({ ...rest, synced, written })),
      ),
    }),
  }),
  message('replica-ack.v1.response', {
    encode: replicaAck.encodeResponse,
    decode: replicaAck.decodeResponse,
    sample: { counted: 2 },
    arbitrary: fc.record({ counted: u32 }),
  }),
];

describe.each(MESSAGES)('$name', ({ sample, arbitrary, encode, decode }) => {
  const sampled = encode(sample);

  test('decodes what it encodes', () => {
    expect(decode(sampled)).toEqual({ ok: true, value: sample });
    fc.assert(
      fc.property(arbitrary, (value) => {
        expect(decode(encode(value))).toEqual({ ok: true, value });
      }),
    );
  });

  test('refuses every prefix and any trailing byte', () => {
    for (let size = 0; size < sampled.length; size += 1)
      expect(decode(sampled.subarray(0, size)).ok, `prefix of ${String(size)}`).toBe(false);
    expect(decode(Uint8Array.of(...sampled, 0)).ok).toBe(false);
  });

  test('garbage never throws, and what is taken for a message has the size of its bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.integer({ min: 0, max: sampled.length }), (garbage, keep) => {
        const input = Uint8Array.of(...sampled.subarray(0, keep), ...garbage);
        const decoded = decode(input);
        if (decoded.ok) expect(encode(decoded.value)).toHaveLength(input.length);
        else expect(decoded.fault.at).toBeLessThanOrEqual(input.length);
      }),
      { numRuns: 500 },
    );
  });
});

describe('rules of their own', () => {
  const partition = (fetchOffset: number, written: number, synced: number, highWatermark: number): boolean =>
    replicaFetch.decodeRequest(
      join(
        replicaFetch.encodeRequest({
          from: 1 as NodeId,
          diskId: DISK,
          incarnation: 1,
          waitMs: 0,
          minBytes: 0,
          maxBytes: 0,
          partitions: [
            {
              topicId: ID,
              partition: 0,
              leaderEpoch: inEpoch(0),
              fetchOffset: at(fetchOffset),
              lastEpoch: inEpoch(0),
              written: at(written),
              synced: at(synced),
              highWatermark: at(highWatermark),
              maxBytes: 0,
            },
          ],
        }),
      ),
    ).ok;

  test('offsets of a follower that cannot be are refused', () => {
    expect(partition(9, 9, 9, 9)).toBe(true);
    expect(partition(9, 8, 7, 9)).toBe(true);
    expect(partition(9, 10, 7, 9)).toBe(false);
    expect(partition(9, 8, 9, 9)).toBe(false);
    expect(partition(9, 9, 9, 10)).toBe(false);
    const ack = { topicId: ID, partition: 0, leaderEpoch: inEpoch(0), written: at(1), synced: at(2) };
    const request = { from: 1 as NodeId, diskId: DISK, incarnation: 1, partitions: [ack] };
    expect(replicaAck.decodeRequest(join(replicaAck.encodeRequest(request))).ok).toBe(false);
  });

  test('entries ascend; an error of a newer node is an error', () => {
    const entries = (...indexes: number[]): boolean => {
      const writer = new ByteWriter(4 + 7 * indexes.length).u32(indexes.length);
      for (const index of indexes) writer.u32(index).u8(2).u16(21);
      return replicaFetch.decodeResponse(writer.finish()).ok;
    };
    expect([entries(), entries(0), entries(0, 1), entries(1, 1), entries(1, 0)]).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    const newer = replicaFetch.decodeResponse(new ByteWriter(11).u32(1).u32(0).u8(2).u16(65_000).finish());
    expect(newer).toEqual({
      ok: true,
      value: { entries: [{ index: 0, answer: { kind: 'refused', code: 'INTERNAL' } }] },
    });
    expect(replicaFetch.decodeResponse(new ByteWriter(11).u32(1).u32(0).u8(2).u16(0).finish()).ok).toBe(false);
  });
});
