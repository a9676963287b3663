// The table of findings in docs/SEGTOOL.md is that of the program. UPDATE_DOCS=1 writes it.
import { readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { FINDINGS } from '../../src/segtool/findings.ts';

const PATH = fileURLToPath(new URL('../../docs/SEGTOOL.md', import.meta.url));
const [BEGIN, END] = ['<!-- findings: from src/segtool/findings.ts -->', '<!-- end of findings -->'];

test('docs/SEGTOOL.md has every finding as the program has it', () => {
  const rows = Object.entries(FINDINGS).map(
    ([code, { severity, sentence, repair }]) => `| \`${code}\` | ${severity} | ${sentence} | ${repair} |`,
  );
  const wanted = [
    BEGIN,
    '',
    '| code | severity | what it is | repair |',
    '| --- | --- | --- | --- |',
    ...rows,
    '',
    END,
  ].join('\n');
  const text = readFileSync(PATH, 'utf8');
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
  expect(begin).toBeGreaterThan(0);
  expect(end).toBeGreaterThan(begin);
  if (process.env['UPDATE_DOCS'] === '1')
    writeFileSync(PATH, text.slice(0, begin) + wanted + text.slice(end + END.length));
  else expect(text.slice(begin, end + END.length)).toBe(wanted);
});
