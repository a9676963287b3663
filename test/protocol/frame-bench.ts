// Frames a second through FrameReader and the Produce decoder, without a socket: `node test/protocol/frame-bench.ts`.
import { topicId, type LeaderEpoch } from '../../src/base/brands.ts';
import { FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import { encodeRequestFrame } from '../../src/protocol/answer.ts';
import { FrameReader } from '../../src/protocol/frame.ts';
import * as produce from '../../src/protocol/operations/produce.v1.ts';
import { join } from './messages.ts';

const READ_BYTES_MAX = 1024 * 1024;
const RUN_MS = 1500;

function batchBytes(body: Uint8Array): number {
  const decoded = produce.decodeRequest(body);
  return decoded.ok ? decoded.value.batches.length : 0;
}

function measure(bodyBytes: number, decode: boolean): string {
  const request = {
    topicId: topicId('a1'.repeat(16)),
    partition: 0,
    leaderEpoch: 1 as LeaderEpoch,
    acks: 'committed',
    timeoutMs: 1,
    batches: new Uint8Array(bodyBytes - 29),
  } as const;
  const one = join(encodeRequestFrame({ operation: 3, version: 1, correlationId: 1 }, produce.encodeRequest(request)));
  // The stream repeats after whole frames; reads cut it wherever the room ends.
  const stream = join(Array.from({ length: Math.ceil((4 * READ_BYTES_MAX) / one.length) }, () => one));
  const reader = new FrameReader({ expect: 'requests', bodyBytesMax: FRAME_BYTES_MAX });
  const started = performance.now();
  let frames = 0;
  let at = 0;
  let seen = 0;
  while (performance.now() - started < RUN_MS) {
    for (let read = 0; read < 16; read += 1) {
      const room = reader.writable();
      const size = Math.min(room.length, READ_BYTES_MAX, stream.length - at);
      room.set(stream.subarray(at, at + size));
      reader.advance(size);
      at = at + size === stream.length ? 0 : at + size;
      for (let next = reader.next(); next !== undefined; next = reader.next()) {
        if ('fault' in next) throw new Error(next.message);
        frames += 1;
        seen += decode ? batchBytes(next.body) : next.body.length;
      }
    }
  }
  const seconds = (performance.now() - started) / 1000;
  const perSecond = frames / seconds;
  return `${String(bodyBytes)}-byte bodies${decode ? ', decoded as Produce' : ''}: ${Math.round(perSecond).toLocaleString('en')} frames/s, ${(seen / seconds / 2 ** 20).toFixed(0)} MiB/s`;
}

for (const bodyBytes of [100, 65_536])
  for (const decode of [false, true]) process.stdout.write(`${measure(bodyBytes, decode)}\n`);
