import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { ERRORS, ERROR_NAMES } from '../../src/base/errors.ts';
import { FACTS } from '../../src/protocol/facts.ts';
import { OPERATIONS, RESERVED } from '../../src/protocol/operations.ts';
import { TOPIC_CONFIG_KEYS } from '../../src/protocol/topic-config.ts';
import { PROTOCOL_PAGE, grammarOf, protocolDocument } from '../golden/protocol/make-docs.ts';

const page = readFileSync(PROTOCOL_PAGE, 'utf8');
/** The registry promises that numbers and names never change. */
const released = JSON.parse(readFileSync(new URL('../golden/protocol/errors.json', import.meta.url), 'utf8')) as Record<
  string,
  string
>;

describe('docs/PROTOCOL.md', () => {
  test('is what node test/golden/protocol/make-docs.ts makes', () => {
    expect(page === protocolDocument(), 'docs/PROTOCOL.md is out of date: node test/golden/protocol/make-docs.ts').toBe(
      true,
    );
  });

  test('names every operation, reserved number, error, fact and setting', () => {
    for (const { operation, name } of OPERATIONS) expect(page).toContain(`### ${name} (${String(operation)})`);
    for (const { operation, name } of RESERVED) expect(page).toContain(`${String(operation)} ${name}`);
    for (const name of ERROR_NAMES)
      expect(page).toContain(`| ${String(ERRORS[name].code)} | ${name} | ${ERRORS[name].outcome} |`);
    for (const name of Object.keys(FACTS)) expect(page).toContain(`| \`${name}\` |`);
    for (const key of TOPIC_CONFIG_KEYS) expect(page).toContain(`| \`${key}\` |`);
  });

  test('grammarOf takes the comment right above the encoder, and insists on one', () => {
    const source = '// no\n\n// request = a u8\n//           b u8\nexport function encodeRequest(request: X): Y {\n';
    expect(grammarOf(source, 'encodeRequest')).toBe('request = a u8\n          b u8');
    expect(() => grammarOf(source, 'encodeResponse')).toThrow('no grammar');
    expect(() => grammarOf('\nexport function encodeRequest(request: X): Y {', 'encodeRequest')).toThrow('no grammar');
  });
});

describe('error codes', () => {
  test('that were released keep their number and name', () => {
    for (const [code, name] of Object.entries(released))
      expect(ERROR_NAMES.find((known) => ERRORS[known].code === Number(code))).toBe(name);
  });

  test('are all frozen', () => {
    const missing = ERROR_NAMES.map((name) => String(ERRORS[name].code)).filter((code) => !(code in released));
    expect(missing, 'new codes are added by node test/golden/protocol/make-fixtures.ts').toEqual([]);
  });
});
