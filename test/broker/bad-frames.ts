// What no good client sends, with the refusal that each must get.
import { crc32cTable } from '../../src/base/checksum.ts';
import { UNAUTHENTICATED_FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import { writeU16, writeU32 } from '../../src/base/bytes.ts';
import type { ErrorName } from '../../src/base/errors.ts';
import {
  ATTRIBUTES_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  CRC_AT,
  CRC_COVERS_FROM,
  LAST_OFFSET_DELTA_AT,
  MAGIC_AT,
  RECORD_COUNT_AT,
} from '../../src/format/batch.ts';
import { batchOf, joined } from './raw-client.ts';

/** What it is, its bytes, the code and the message of the refusal. */
export type BadBytes = readonly [what: string, bytes: Uint8Array, code: ErrorName, message: RegExp];

/** Of a frame, whatever follows it. */
export function header(length: number, operation: number, version = 1, flags = 0): Uint8Array {
  const bytes = new Uint8Array(12);
  writeU32(bytes, 0, length);
  writeU16(bytes, 4, operation);
  bytes[6] = version;
  bytes[7] = flags;
  writeU32(bytes, 8, 99);
  return bytes;
}

/** Sent before Hello: each ends its connection. */
export const BAD_FRAMES: readonly BadBytes[] = [
  ['shorter than its header', header(3, 1), 'MALFORMED_FRAME', /length is 3/],
  ['longer than allowed before Hello', header(UNAUTHENTICATED_FRAME_BYTES_MAX + 100, 1), 'FRAME_TOO_LARGE', /at most/],
  ['of a length that lies by gigabytes', header(0xffff_fff0, 3), 'FRAME_TOO_LARGE', /at most/],
  ['an answer', header(8, 1, 1, 1), 'MALFORMED_FRAME', /flags/],
  ['HTTP', new TextEncoder().encode('GET / HTTP/1.1\r\nHost: broker\r\n\r\n'), 'FRAME_TOO_LARGE', /HTTP/],
  ['TLS', Uint8Array.from([0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0]), 'FRAME_TOO_LARGE', /TLS/],
  [
    'garbage',
    Uint8Array.from({ length: 4096 }, (_, index) => (index * 197 + 91) & 0xff),
    'FRAME_TOO_LARGE',
    /frame length/,
  ],
];

/** A good batch, spoilt; `sealed`: with a checksum that is right for the spoilt bytes. */
function spoilt(change: (batch: Uint8Array) => void, sealed: boolean): Uint8Array {
  const batch = batchOf(['one', 'two', 'three']);
  change(batch);
  if (sealed) writeU32(batch, CRC_AT, crc32cTable(batch.subarray(CRC_COVERS_FROM)));
  return batch;
}

/** Each is refused whole, and its connection goes on. */
export const BAD_BATCHES: readonly BadBytes[] = [
  [
    'flipped bit',
    spoilt((batch) => {
      batch[batch.length - 2] = (batch[batch.length - 2] ?? 0) ^ 1;
    }, false),
    'CORRUPT_BATCH',
    /checksum/,
  ],
  [
    'magic of another version',
    spoilt((batch) => {
      batch[MAGIC_AT] = 1;
    }, true),
    'INVALID_BATCH',
    /magic/,
  ],
  [
    'length that lies upwards',
    spoilt((batch) => {
      writeU32(batch, BATCH_LENGTH_AT, batch.length + 100);
    }, true),
    'INVALID_BATCH',
    /short/,
  ],
  [
    'length that lies downwards',
    spoilt((batch) => {
      writeU32(batch, BATCH_LENGTH_AT, 10);
    }, true),
    'INVALID_BATCH',
    /length/,
  ],
  [
    'negative length',
    spoilt((batch) => {
      writeU32(batch, BATCH_LENGTH_AT, 0xffff_ffff);
    }, true),
    'INVALID_BATCH',
    /length/,
  ],
  [
    'unknown codec',
    spoilt((batch) => {
      writeU16(batch, ATTRIBUTES_AT, 5);
    }, true),
    'UNKNOWN_CODEC',
    /codec 5/,
  ],
  [
    'unknown attributes',
    spoilt((batch) => {
      writeU16(batch, ATTRIBUTES_AT, 0x4000);
    }, true),
    'INVALID_BATCH',
    /attribute/,
  ],
  [
    'control bit',
    spoilt((batch) => {
      writeU16(batch, ATTRIBUTES_AT, 0x20);
    }, true),
    'INVALID_BATCH',
    /control/,
  ],
  [
    'record count that lies upwards',
    spoilt((batch) => {
      writeU32(batch, RECORD_COUNT_AT, 4);
      writeU32(batch, LAST_OFFSET_DELTA_AT, 3);
    }, true),
    'INVALID_BATCH',
    /record/,
  ],
  [
    'record count that lies downwards',
    spoilt((batch) => {
      writeU32(batch, RECORD_COUNT_AT, 2);
      writeU32(batch, LAST_OFFSET_DELTA_AT, 1);
    }, true),
    'INVALID_BATCH',
    /record/,
  ],
  [
    'last offset delta that is not dense',
    spoilt((batch) => {
      writeU32(batch, LAST_OFFSET_DELTA_AT, 9);
    }, true),
    'INVALID_BATCH',
    /delta/,
  ],
  [
    'offset delta inside a record that is not dense',
    spoilt((batch) => {
      batch[BATCH_HEADER_BYTES + 3] = 8;
    }, true),
    'INVALID_BATCH',
    /record 0/,
  ],
  ['half a header', spoilt(() => undefined, false).subarray(0, 30), 'INVALID_BATCH', /short/],
  ['bytes behind the batch', joined([batchOf(['fine']), Uint8Array.of(1, 2, 3)]), 'INVALID_BATCH', /batch 1/],
];

export const BAD_TOPIC_NAMES: readonly string[] = [
  '',
  '.',
  '..',
  'a/b',
  '../../etc/passwd',
  'nul\0inside',
  'x'.repeat(250),
  'x'.repeat(300),
  'ümlaut',
  'sp ace',
];
