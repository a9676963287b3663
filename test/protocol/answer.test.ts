import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ByteReader, ByteWriter } from '../../src/base/bytes.ts';
import { RivuletError, errorCode } from '../../src/base/errors.ts';
import { FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import {
  decodeAnswer,
  encodeAnswerFrame,
  encodeConnectionFailure,
  encodeFailureFrame,
  encodeRequestFrame,
  failure,
} from '../../src/protocol/answer.ts';
import { FACTS } from '../../src/protocol/facts.ts';
import { FACTS_MAX, type Failure, MESSAGE_BYTES_MAX } from '../../src/protocol/failure.ts';
import { type Frame, FrameReader } from '../../src/protocol/frame.ts';
import { failureArbitrary, join } from './messages.ts';

const header = { operation: 4, version: 1, correlationId: 77 };
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
function frameOf(bytes: Uint8Array, expect: 'requests' | 'answers'): Frame {
  const reader = new FrameReader({ expect, bodyBytesMax: FRAME_BYTES_MAX });
  for (let at = 0; at < bytes.length;) {
    const room = reader.writable();
    const size = Math.min(room.length, bytes.length - at);
    room.set(bytes.subarray(at, at + size));
    reader.advance(size);
    at += size;
  }
  const frame = reader.next();
  if (frame === undefined || 'fault' in frame) throw new Error('no frame');
  return frame;
}
function refusalOf(value: Failure): Failure | undefined {
  const answer = decodeAnswer(frameOf(join(encodeFailureFrame(header, value)), 'answers').body);
  return answer.ok ? answer.value.failure : undefined;
}

describe('answers', () => {
  test('a fine answer is code 0, then the response, of any size and in any pieces', () => {
    for (const sizes of [[], [0], [10], [2000], [10, 3000], [2000, 10, 10]]) {
      const pieces = sizes.map((size, index) => new Uint8Array(size).fill(index + 1));
      const frame = frameOf(join(encodeAnswerFrame(header, pieces)), 'answers');
      expect(frame).toMatchObject(header);
      expect(hex(frame.body)).toBe('0000' + hex(join(pieces)));
      const answer = decodeAnswer(frame.body);
      expect(answer).toEqual({ ok: true, value: { failure: undefined, response: join(pieces) } });
    }
  });

  test('payload pieces of an answer are passed on, not copied', () => {
    const payload = new Uint8Array(100);
    expect(encodeAnswerFrame(header, [new Uint8Array(30), payload]).at(-1)).toBe(payload);
    expect(encodeRequestFrame(header, [new Uint8Array(30), payload]).at(-1)).toBe(payload);
  });

  test('the layout of a refusal never changes', () => {
    const facts = { leaderId: 2, leaderHost: 'b', known: true };
    const frame = frameOf(join(encodeFailureFrame(header, failure('NOT_LEADER', 'no', facts))), 'answers');
    expect(hex(frame.body)).toBe(
      '0028' +
        '0002' +
        '6e6f' +
        '0003' +
        '0008' +
        '6c65616465724964' +
        '01' +
        '0000000000000002' +
        '000a' +
        '6c6561646572486f7374' +
        '00' +
        '0001' +
        '62' +
        '0005' +
        '6b6e6f776e' +
        '02' +
        '01',
    );
  });

  test('failures come through whole, also as RivuletError', () => {
    fc.assert(
      fc.property(failureArbitrary, (value) => {
        expect(refusalOf(value)).toEqual(value);
      }),
    );
    const error = new RivuletError('OFFSET_EXPIRED', 'gone', { facts: { logStart: 5, highWatermark: undefined } });
    expect(refusalOf(error)).toEqual({ code: 'OFFSET_EXPIRED', message: 'gone', facts: { logStart: 5 } });
  });

  test('long messages, names and too many facts are cut, never refused', () => {
    const facts = Object.fromEntries(
      Array.from({ length: FACTS_MAX + 10 }, (_, index) => [
        `fact-${String(index)}-${'n'.repeat(100)}`,
        'ü'.repeat(5000),
      ]),
    );
    const came = refusalOf(failure('INVALID_ARGUMENT', '𝄞'.repeat(3000), facts));
    expect(came?.message).toBe('𝄞'.repeat(MESSAGE_BYTES_MAX / 4));
    expect(Object.keys(came?.facts ?? {})).toHaveLength(FACTS_MAX);
    expect(came?.facts[`fact-0-${'n'.repeat(57)}`]).toBe('ü'.repeat(MESSAGE_BYTES_MAX / 2));
  });

  test('numbers that are no safe integers travel as text', () => {
    expect(refusalOf(failure('INTERNAL', '', { half: 0.5, many: 2 ** 60 }))?.facts).toEqual({
      half: '0.5',
      many: String(2 ** 60),
    });
  });

  test('a code of a newer broker becomes INTERNAL and keeps its number', () => {
    const body = new ByteWriter(8).u16(9999).string('hm').u16(0).finish();
    expect(decodeAnswer(body)).toEqual({
      ok: true,
      value: { failure: { code: 'INTERNAL', message: 'hm', facts: { wireCode: 9999 } } },
    });
  });

  test('a fact called __proto__ is a fact', () => {
    const whole = new ByteWriter(26)
      .u16(errorCode('INTERNAL'))
      .string('')
      .u16(1)
      .string('__proto__')
      .u8(1)
      .i64(1)
      .finish();
    const decoded = decodeAnswer(whole);
    expect(decoded.ok && decoded.value.failure !== undefined && Object.entries(decoded.value.failure.facts)).toEqual([
      ['__proto__', 1],
    ]);
  });

  test('refuses every prefix and trailing bytes of a refusal, and never throws on garbage', () => {
    const { body } = frameOf(join(encodeFailureFrame(header, failure('NOT_LEADER', 'no', { leaderId: 2 }))), 'answers');
    for (let size = 0; size < body.length; size += 1) expect(decodeAnswer(body.subarray(0, size)).ok).toBe(false);
    expect(decodeAnswer(Uint8Array.of(...body, 0)).ok).toBe(false);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (garbage) => {
        decodeAnswer(garbage);
        decodeAnswer(Uint8Array.of(0, 40, ...garbage));
      }),
      { numRuns: 500 },
    );
  });

  test('the last words about a broken stream belong to no request', () => {
    const frame = frameOf(join(encodeConnectionFailure({ fault: 'FRAME_TOO_LARGE', message: 'too large' })), 'answers');
    expect(frame).toMatchObject({ operation: 0, version: 1, correlationId: 0 });
    expect(new ByteReader(frame.body).u16()).toBe(errorCode('FRAME_TOO_LARGE'));
  });
});

describe('facts', () => {
  test('each is named like a field and carried by some error', () => {
    for (const [name, entry] of Object.entries(FACTS)) {
      expect(name).toMatch(/^[a-z][A-Za-z]{1,63}$/);
      expect(entry.with.length).toBeGreaterThan(0);
    }
  });
});
