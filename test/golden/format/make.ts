// Run by hand after a deliberate change of a format: node test/golden/format/make.ts. batch-by-hand.bin is not made here:
// verify.py --make writes it, from the public specification, without any code of ours.
import { writeFileSync } from 'node:fs';
import { FIXTURES } from './fixtures.ts';

for (const [name, make] of Object.entries(FIXTURES)) writeFileSync(new URL(name, import.meta.url), make());
