// Values that no encoder of ours would send: each rule of a decoder that the general tests of all messages cannot aim at.
import { describe, expect, test } from 'vitest';
import { ByteWriter } from '../../src/base/bytes.ts';
import { errorCode } from '../../src/base/errors.ts';
import { REQUEST_PARTITIONS_MAX } from '../../src/base/limits.ts';
import { decodeAnswer } from '../../src/protocol/answer.ts';
import { FACTS_MAX } from '../../src/protocol/failure.ts';
import * as fetch from '../../src/protocol/operations/fetch.v1.ts';
import * as initProducer from '../../src/protocol/operations/init-producer.v1.ts';
import * as metadata from '../../src/protocol/operations/metadata.v1.ts';
import * as produce from '../../src/protocol/operations/produce.v1.ts';
import type { Decoded } from '../../src/protocol/wire.ts';

const ID = new Uint8Array(16).fill(1);
const faultOf = (decoded: Decoded<unknown>): string | undefined => (decoded.ok ? undefined : decoded.fault.message);

function fetchRequest(
  change: { offset?: number; current?: number; last?: number; isolation?: number; id?: Uint8Array } = {},
): Decoded<unknown> {
  const { offset = 0, current = -1, last = -1, isolation = 0, id = ID } = change;
  const writer = new ByteWriter(57)
    .u32(0)
    .u32(0)
    .u32(0)
    .u8(isolation)
    .u32(1)
    .raw(id)
    .u32(0)
    .i64(offset)
    .i32(current)
    .i32(last)
    .u32(0);
  return fetch.decodeRequest(writer.finish());
}

describe('fields', () => {
  test('offsets, epochs and ids below what they may be are faults', () => {
    expect(faultOf(fetchRequest())).toBeUndefined();
    expect(faultOf(fetchRequest({ offset: -1 }))).toContain('offset is -1');
    expect(faultOf(fetchRequest({ current: -2 }))).toContain('leader epoch is -2');
    expect(faultOf(fetchRequest({ last: -2 }))).toContain('leader epoch is -2');
    expect(faultOf(fetchRequest({ id: new Uint8Array(16) }))).toContain('topic id is zero');
    expect(faultOf(fetchRequest({ isolation: 1 }))).toContain('reserved');
    const nodes = (controller: number): Decoded<unknown> =>
      metadata.decodeResponse(new ByteWriter(14).string('').i32(controller).u32(0).u32(0).finish());
    expect(faultOf(nodes(-1))).toBeUndefined();
    expect(faultOf(nodes(-2))).toContain('node id is -2');
  });

  test('64-bit values beyond the safe integers are faults', () => {
    const writer = new ByteWriter(33).u32(0x0020_0000).u32(0).i64(0).i32(0).i64(0).u32(0).bool(false);
    expect(faultOf(produce.decodeResponse(writer.finish()))).toContain('safe integers');
  });

  test('a count that the rest cannot hold is refused where it stands, before any element is read', () => {
    const lying = fetch.decodeRequest(
      new ByteWriter(57).u32(0).u32(0).u32(0).u8(0).u32(2).raw(new Uint8Array(40)).finish(),
    );
    expect(lying).toMatchObject({ ok: false, fault: { at: 13 } });
    expect(faultOf(lying)).toContain('cannot fit');
  });

  test('a count over the limit is refused, though the bytes are there', () => {
    const names = (count: number): Decoded<unknown> =>
      metadata.decodeRequest(
        new ByteWriter(7 + 2 * count)
          .u8(1)
          .u32(count)
          .raw(new Uint8Array(2 * count))
          .bool(false)
          .bool(false)
          .finish(),
      );
    expect(faultOf(names(REQUEST_PARTITIONS_MAX))).toBeUndefined();
    expect(faultOf(names(REQUEST_PARTITIONS_MAX + 1))).toContain('at most');
  });

  test('acks are 1 or 2', () => {
    const acks = (value: number): Decoded<unknown> =>
      produce.decodeRequest(new ByteWriter(30).raw(ID).u32(0).i32(0).u8(value).u32(0).u8(0).finish());
    expect([0, 1, 2, 3, 255].map((value) => acks(value).ok)).toEqual([false, true, true, false, false]);
  });

  test('producer id and epoch are both there or both not, within their ranges', () => {
    const ask = (id: number, epoch: number): boolean =>
      initProducer.decodeRequest(new ByteWriter(14).string('').i64(id).i32(epoch).finish()).ok;
    expect([ask(-1, -1), ask(0, 0), ask(5, 32_767)]).toEqual([true, true, true]);
    expect([ask(-1, 0), ask(0, -1), ask(5, 32_768), ask(-2, -1), ask(-1, -2)]).toEqual([
      false,
      false,
      false,
      false,
      false,
    ]);
    const answer = (id: number, epoch: number): boolean =>
      initProducer.decodeResponse(new ByteWriter(12).i64(id).i32(epoch).finish()).ok;
    expect([answer(0, 0), answer(-1, 0), answer(0, -1)]).toEqual([true, false, false]);
  });

  test('announced and present bytes of batches must agree', () => {
    const answer = (announced: number, present: number): Decoded<unknown> =>
      fetch.decodeResponse(
        new ByteWriter(54 + present)
          .u32(0)
          .u32(1)
          .raw(ID)
          .u32(0)
          .u16(0)
          .i64(-1)
          .i64(-1)
          .i32(-1)
          .u32(announced)
          .raw(new Uint8Array(present))
          .finish(),
      );
    expect([answer(3, 3).ok, answer(2, 3).ok, answer(4, 3).ok, answer(0xffff_ffff, 3).ok]).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  test('more facts than allowed are a fault', () => {
    const facts = (count: number): boolean => {
      const writer = new ByteWriter(6 + 5 * count).u16(errorCode('INTERNAL')).string('').u16(count);
      for (let index = 0; index < count; index += 1)
        writer
          .string(String.fromCharCode(64 + index))
          .u8(2)
          .bool(true);
      return decodeAnswer(writer.finish()).ok;
    };
    expect([facts(FACTS_MAX), facts(FACTS_MAX + 1)]).toEqual([true, false]);
  });
});
