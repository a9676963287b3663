import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { InvariantError } from '../../src/base/assert.ts';
import { FRAME_BYTES_MAX, UNAUTHENTICATED_FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import {
  FLAG_RESPONSE,
  FRAME_HEADER_BYTES,
  type Frame,
  type FrameFault,
  FrameReader,
  RECEIVE_BYTES_BUSY,
  RECEIVE_BYTES_INITIAL,
  encodeFrame,
} from '../../src/protocol/frame.ts';
import { join } from './messages.ts';

interface Taken {
  readonly operation: number;
  readonly version: number;
  readonly correlationId: number;
  readonly body: string;
}
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const take = ({ operation, version, correlationId, body }: Frame): Taken => ({
  operation,
  version,
  correlationId,
  body: hex(body),
});
const requests = (bodyBytesMax = FRAME_BYTES_MAX): FrameReader => new FrameReader({ expect: 'requests', bodyBytesMax });
const request = (correlationId: number, body: Uint8Array): Uint8Array =>
  join(encodeFrame({ operation: 3, version: 1, flags: 0, correlationId }, [body]));
/** Body whose bytes tell where they belong. */
const patterned = (size: number, seed: number): Uint8Array =>
  Uint8Array.from({ length: size }, (_, index) => (index * 31 + seed * 7 + (index >> 8)) & 0xff);

/** Feeds all of `stream` in reads of at most the given sizes, as often as there is room; returns what came out. */
function feed(
  reader: FrameReader,
  stream: Uint8Array,
  sizes: readonly number[],
  onRead?: (received: number) => void,
): (Taken | FrameFault)[] {
  const out: (Taken | FrameFault)[] = [];
  let at = 0;
  for (let read = 0; at < stream.length; read += 1) {
    const room = reader.writable();
    expect(room.length).toBeGreaterThan(0);
    const size = Math.min(room.length, stream.length - at, sizes[read % sizes.length] ?? stream.length);
    room.set(stream.subarray(at, at + size));
    reader.advance(size);
    at += size;
    onRead?.(at);
    for (let next = reader.next(); next !== undefined; next = reader.next()) {
      if ('fault' in next) return [...out, next];
      out.push(take(next));
    }
  }
  return out;
}

describe('encodeFrame', () => {
  test('lays out length, operation, version, flags, correlation id, body', () => {
    const pieces = encodeFrame({ operation: 0x0102, version: 3, flags: FLAG_RESPONSE, correlationId: 0xa1b2_c3d4 }, [
      Uint8Array.of(9, 8),
    ]);
    expect(hex(join(pieces))).toBe('0000000a' + '0102' + '03' + '01' + 'a1b2c3d4' + '0908');
  });

  test('a body without pieces, and with empty ones', () => {
    const header = { operation: 1, version: 1, flags: 0, correlationId: 1 };
    expect(hex(join(encodeFrame(header, [])))).toBe('00000008' + '0001' + '01' + '00' + '00000001');
    expect(hex(join(encodeFrame(header, [new Uint8Array(0), Uint8Array.of(5), new Uint8Array(0)])))).toBe(
      '00000009' + '0001' + '01' + '00' + '00000001' + '05',
    );
  });

  test('never copies a payload behind the first piece, nor a large first piece', () => {
    const header = { operation: 1, version: 1, flags: 0, correlationId: 1 };
    const payload = new Uint8Array(64);
    const large = new Uint8Array(5000);
    expect(encodeFrame(header, [new Uint8Array(20), payload])[1]).toBe(payload);
    expect(encodeFrame(header, [large, payload]).slice(1)).toEqual([large, payload]);
    expect(encodeFrame(header, [large])[1]).toBe(large);
  });
});

describe('FrameReader', () => {
  const frames = [patterned(0, 1), patterned(1, 2), patterned(40, 3), patterned(0, 4), patterned(300, 5)];
  const stream = join(frames.map((body, index) => request(index, body)));
  const expected = frames.map((body, index) => ({ operation: 3, version: 1, correlationId: index, body: hex(body) }));

  test('gives the same frames wherever the stream is cut in two', () => {
    for (let cut = 1; cut < stream.length; cut += 1)
      expect(feed(requests(), stream, [cut, stream.length])).toEqual(expected);
  });

  test('gives the same frames for every fixed read size, byte by byte included', () => {
    for (let size = 1; size <= 64; size += 1) expect(feed(requests(), stream, [size])).toEqual(expected);
  });

  test('gives the same frames for any bodies and any read sizes', () => {
    const bodies = fc.array(fc.oneof(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 0, max: 70_000 })), {
      minLength: 1,
      maxLength: 12,
    });
    const sizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 100_000 })), {
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(bodies, sizes, (lengths, reads) => {
        // A read size of a few bytes alone would make thousands of reads.
        const all = lengths.map((length, index) => patterned(length, index));
        const input = join(all.map((body, index) => request(index, body)));
        const out = feed(requests(), input, [...reads, 50_000]);
        expect(out).toEqual(
          all.map((body, index) => ({ operation: 3, version: 1, correlationId: index, body: hex(body) })),
        );
      }),
      { numRuns: 60 },
    );
  });

  test('bodies are views of the receive buffer and may be changed in place', () => {
    const reader = requests();
    const room = reader.writable();
    room.set(stream);
    reader.advance(stream.length);
    reader.next();
    const second = reader.next();
    if (second === undefined || 'fault' in second) throw new Error('no frame');
    expect(second.body.buffer).toBe(room.buffer);
    second.body[0] = 77;
    expect(room[FRAME_HEADER_BYTES * 2]).toBe(77);
  });

  test('bodies stay valid until the next writable(), while later frames are taken', () => {
    const reader = requests();
    reader.writable().set(stream);
    reader.advance(stream.length);
    const taken: Frame[] = [];
    for (let next = reader.next(); next !== undefined; next = reader.next()) if (!('fault' in next)) taken.push(next);
    expect(taken.map(take)).toEqual(expected);
  });

  test('frames that were not taken yet survive further reads', () => {
    const reader = requests();
    const one = request(1, patterned(5000, 1));
    for (let count = 0; count < 20; count += 1) {
      for (let at = 0; at < one.length;) {
        const room = reader.writable();
        const size = Math.min(room.length, one.length - at);
        room.set(one.subarray(at, at + size));
        reader.advance(size);
        at += size;
      }
    }
    for (let count = 0; count < 20; count += 1) expect(take(reader.next() as Frame).body).toBe(hex(patterned(5000, 1)));
    expect(reader.next()).toBeUndefined();
  });

  test('an owner that never takes frames is stopped by an assertion, not by the end of memory', () => {
    const reader = requests(64 * 1024);
    const one = request(1, patterned(60_000, 1));
    expect(() => {
      for (let count = 0; count < 100; count += 1) {
        for (let at = 0; at < one.length;) {
          const room = reader.writable();
          const size = Math.min(room.length, one.length - at);
          room.set(one.subarray(at, at + size));
          reader.advance(size);
          at += size;
        }
      }
    }).toThrow(InvariantError);
    expect(reader.capacity).toBeLessThanOrEqual(RECEIVE_BYTES_BUSY);
  });
});

describe('FrameReader faults', () => {
  const fault = (reader: FrameReader, bytes: readonly number[]): FrameFault | undefined => {
    const out = feed(reader, Uint8Array.from(bytes), [1])[0];
    return out !== undefined && 'fault' in out ? out : undefined;
  };

  test('a length below the header, from the first four bytes on', () => {
    for (let length = 0; length < 8; length += 1)
      expect(fault(requests(), [0, 0, 0, length])?.fault).toBe('MALFORMED_FRAME');
    expect(fault(requests(), [0, 0, 0, 8])).toBeUndefined();
  });

  test('a length over the limit of the moment, from the first four bytes on', () => {
    for (const bytes of [
      [0xff, 0xff, 0xff, 0xff],
      [0x7f, 0xff, 0xff, 0xff],
      [0x80, 0, 0, 0],
      [0x01, 0, 0, 0x09],
    ]) {
      const reader = requests();
      expect(fault(reader, bytes)?.fault).toBe('FRAME_TOO_LARGE');
      expect(reader.capacity).toBe(RECEIVE_BYTES_INITIAL);
    }
    expect(fault(requests(), [0x01, 0, 0, 0x08])).toBeUndefined();
    expect(fault(requests(UNAUTHENTICATED_FRAME_BYTES_MAX), [0, 1, 0, 9])?.fault).toBe('FRAME_TOO_LARGE');
    expect(fault(requests(UNAUTHENTICATED_FRAME_BYTES_MAX), [0, 1, 0, 8])).toBeUndefined();
  });

  test('the limit can be raised once the peer is known', () => {
    const reader = requests(100);
    expect(feed(reader, request(1, patterned(100, 1)), [64])).toHaveLength(1);
    reader.bodyBytesMax = 200_000;
    expect(feed(reader, request(2, patterned(200_000, 2)), [9000])).toEqual([
      { operation: 3, version: 1, correlationId: 2, body: hex(patterned(200_000, 2)) },
    ]);
    reader.bodyBytesMax = 100;
    expect(feed(reader, request(3, patterned(101, 3)), [64])).toMatchObject([{ fault: 'FRAME_TOO_LARGE' }]);
  });

  test('reserved flags, and an answer where a request is expected or the other way round', () => {
    for (let flags = 0; flags < 256; flags += 1) {
      const bytes = [0, 0, 0, 8, 0, 3, 1, flags];
      expect(fault(requests(), bytes)?.fault).toBe(flags === 0 ? undefined : 'MALFORMED_FRAME');
      expect(fault(new FrameReader({ expect: 'answers', bodyBytesMax: 100 }), bytes)?.fault).toBe(
        flags === 1 ? undefined : 'MALFORMED_FRAME',
      );
    }
  });

  test('frames before the fault are given first, the fault for ever after, and what follows is not kept', () => {
    const reader = requests(1000);
    const good = request(5, patterned(10, 1));
    const out = feed(reader, join([good, Uint8Array.of(0, 0, 0, 3), good]), [1000]);
    expect(out).toMatchObject([{ correlationId: 5 }, { fault: 'MALFORMED_FRAME' }]);
    const first = reader.next();
    for (let read = 0; read < 100; read += 1) {
      const room = reader.writable();
      expect(room.length).toBeGreaterThan(0);
      reader.advance(room.length);
      expect(reader.next()).toBe(first);
    }
    expect(reader.capacity).toBe(RECEIVE_BYTES_INITIAL);
  });

  test('names the usual wrong guests', () => {
    expect(fault(requests(), [...new TextEncoder().encode('GET / HTTP/1.1\r\n')])?.message).toContain('HTTP');
    expect(fault(requests(), [0x16, 0x03, 0x01, 0x02, 0x00])?.message).toContain('TLS');
  });

  test('garbage never throws, and the fault does not depend on how it was cut', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 300 }), fc.integer({ min: 1, max: 50 }), (garbage, size) => {
        expect(feed(requests(200), garbage, [size])).toEqual(feed(requests(200), garbage, [300]));
      }),
      { numRuns: 500 },
    );
  });

  test('an advance beyond the room is a bug of the owner', () => {
    const reader = requests();
    const room = reader.writable();
    expect(() => {
      reader.advance(room.length + 1);
    }).toThrow(InvariantError);
  });
});

describe('FrameReader memory', () => {
  test('a declared length costs nothing until its bytes arrive', () => {
    const reader = requests();
    const large = request(1, new Uint8Array(FRAME_BYTES_MAX));
    const out = feed(reader, large, [40_000], (received) => {
      expect(reader.capacity).toBeLessThanOrEqual(Math.max(RECEIVE_BYTES_INITIAL, 4 * received));
    });
    expect(out).toHaveLength(1);
    expect(reader.capacity).toBeLessThanOrEqual(2 * FRAME_BYTES_MAX);
  });

  test('byte by byte after a large declared length the buffer stays at its initial size', () => {
    const reader = requests();
    feed(reader, request(1, new Uint8Array(FRAME_BYTES_MAX)).subarray(0, 8000), [1]);
    expect(reader.capacity).toBe(RECEIVE_BYTES_INITIAL);
  });

  test('grows to the busy size while reads fill it, and back when the connection turns quiet', () => {
    const reader = requests();
    const bulk = join(Array.from({ length: 400 }, (_, index) => request(index, new Uint8Array(65_536))));
    expect(feed(reader, bulk, [Number.MAX_SAFE_INTEGER])).toHaveLength(400);
    expect(reader.capacity).toBe(RECEIVE_BYTES_BUSY);
    const small = request(1, new Uint8Array(20));
    for (let count = 0; count < 64 * 7; count += 1) feed(reader, small, [small.length]);
    reader.writable();
    expect(reader.capacity).toBe(RECEIVE_BYTES_INITIAL);
  });

  test('after one large frame the buffer goes back step by step, and keeps what is in it', () => {
    const reader = requests();
    feed(reader, request(1, new Uint8Array(8_000_000)), [60_000]);
    expect(reader.capacity).toBeGreaterThanOrEqual(8_000_000);
    for (let count = 0; count < 64 * 12; count += 1) {
      expect(feed(reader, request(count, patterned(100, count)), [70])).toEqual([
        { operation: 3, version: 1, correlationId: count, body: hex(patterned(100, count)) },
      ]);
    }
    expect(reader.capacity).toBe(RECEIVE_BYTES_INITIAL);
  });
});
