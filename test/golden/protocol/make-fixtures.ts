// Writes the fixtures of messages and numbers that have none yet: `node test/golden/protocol/make-fixtures.ts`. It never
// changes one that is there: a released version is frozen, and a change of its bytes is a new version in a new file.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { ERRORS, ERROR_NAMES } from '../../../src/base/errors.ts';
import { OPERATIONS, RESERVED } from '../../../src/protocol/operations.ts';
import { MESSAGES } from '../../protocol/messages.ts';

const folder = new URL('./', import.meta.url);
for (const { name, sample, encode } of MESSAGES) {
  const file = new URL(`${name}.hex`, folder);
  if (existsSync(file)) continue;
  const lines =
    Buffer.from(encode(sample))
      .toString('hex')
      .match(/.{1,64}/g) ?? [];
  writeFileSync(file, `${lines.join('\n')}\n`);
}

/** Adds what is new to a file of numbers and names; what is there stays. */
function freeze(fileName: string, entries: readonly (readonly [number, string])[]): void {
  const file = new URL(fileName, folder);
  const known = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>) : {};
  for (const [number, name] of entries) known[String(number)] ??= name;
  writeFileSync(file, `${JSON.stringify(known, undefined, 2)}\n`);
}
freeze(
  'numbers.json',
  [...OPERATIONS, ...RESERVED].map(({ operation, name }) => [operation, name] as const),
);
freeze(
  'errors.json',
  ERROR_NAMES.map((name) => [ERRORS[name].code, name] as const),
);
