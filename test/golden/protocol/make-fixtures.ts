// Writes the fixtures of messages and numbers that have none yet: `node test/golden/protocol/make-fixtures.ts`. It never
// changes one that is there: a released version is frozen, and a change of its bytes is a new version in a new file.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { OPERATIONS, RESERVED } from '../../../src/protocol/operations.ts';
import { MESSAGES } from '../../protocol/messages.ts';

const folder = new URL('./', import.meta.url);
for (const { name, sample, encode } of MESSAGES) {
  const file = new URL(`${name}.hex`, folder);
  if (existsSync(file)) continue;
  const lines = Buffer.from(encode(sample)).toString('hex').match(/.{1,64}/g) ?? [];
  writeFileSync(file, `${lines.join('\n')}\n`);
}

const numbersFile = new URL('numbers.json', folder);
const numbers = existsSync(numbersFile) ? (JSON.parse(readFileSync(numbersFile, 'utf8')) as Record<string, string>) : {};
for (const { operation, name } of [...OPERATIONS, ...RESERVED]) numbers[String(operation)] ??= name;
writeFileSync(numbersFile, `${JSON.stringify(numbers, undefined, 2)}\n`);
