// The long campaign: node test/segtool/campaign.ts [--count 10000] [--seed 1]
import { parseArgs } from 'node:util';
import { KINDS } from './damage.ts';
import { makeTemplate, TEMPLATE_NAMES } from './store-bench.ts';
import { campaign } from './trial.ts';

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '10000' },
    seed: { type: 'string', default: '1' },
    kind: { type: 'string' },
  },
});
const templates = await Promise.all(TEMPLATE_NAMES.map((name) => makeTemplate(name)));
const kinds = values.kind === undefined ? KINDS : KINDS.filter((kind) => kind.includes(values.kind ?? ''));
const result = await campaign(templates, kinds, Number(values.count), Number(values.seed), (done) => {
  if (done % 1000 === 0) console.error(`${String(done)} damages`);
});
for (const failure of result.failures.slice(0, 20)) console.log(failure.slice(0, 1500));
for (const [kind, cases] of result.notFound)
  console.log(`not found: ${kind}, ${String(cases.length)} times, such as ${cases[0] ?? ''}`);
if (result.beyond.length > 0)
  console.log(
    `beyond the recovery point, not to be found by the format: ${String(result.beyond.length)}, such as ${result.beyond.slice(0, 3).join('; ')}`,
  );
console.log(
  `${String(result.trials)} damages, ${String(result.lossless)} without any loss, ${String(result.failures.length)} failed`,
);
process.exitCode = result.failures.length === 0 && result.notFound.size === 0 ? 0 : 1;
