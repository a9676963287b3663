import { expect, test } from 'vitest';
import { utf8Encode } from '../../src/base/bytes.ts';
import { murmur2 } from '../../src/client/murmur2.ts';

// The vectors that the field's clients test themselves with.
test.each([
  ['21', -973932308],
  ['foobar', -790332482],
  ['a-little-bit-long-string', -985981536],
  ['a-little-bit-longer-string', -1486304829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
  ['abc', 479470107],
])('murmur2 of %s', (text, hash) => {
  expect(murmur2(utf8Encode(text))).toBe(hash);
});
