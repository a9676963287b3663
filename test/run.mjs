// Runs the checks, cheapest first, on the Node that the lock file pins. Needs only Node 20, npm, make and g++ on the machine:
// installs and builds what is missing. Usage: node test/run.mjs all|check|STAGE [vitest arguments]
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { arch } from 'node:process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const nodeBin = `${root}node_modules/node-linux-${arch}/bin`;
const env = {
  ...process.env,
  PATH: `${nodeBin}:${root}node_modules/.bin:${process.env.PATH}`,
  npm_config_update_notifier: 'false',
  // Within a minute: sweeps and properties do a part of their work. See test/effort.ts.
  ...(process.argv[2] === 'check' ? { RIVULET_EFFORT: 'quick' } : {}),
};
const totals = { passed: 0, failed: 0 };

/** Each stage: a name, whether `check` runs it, and what it does; every one counts as one check or as its tests. */
const stages = [
  { name: 'format', check: true, run: () => tool('oxfmt', ['--check', 'src', 'test', 'bench']) },
  {
    name: 'types',
    check: true,
    run: () => tool('tsc', ['-p', 'tsconfig.json']) && tool('tsc', ['-p', 'src/tsconfig.pure.json']),
  },
  {
    name: 'lint',
    check: true,
    run: () =>
      tool('oxlint', [
        '--type-aware',
        '--deny-warnings',
        '--ignore-pattern',
        'test/architecture/canary/**',
        'src',
        'test',
        'bench',
      ]) && canaryIsReported(),
  },
  { name: 'architecture', check: true, tests: ['test/architecture'] },
  {
    name: 'unit',
    check: true,
    // A module keeps no state between tests: loading all anew for each file is a third of the time.
    // Some of them wait more than they work.
    flags: ['--no-isolate', '--maxWorkers=3'],
    tests: [
      'base',
      'format',
      'golden',
      'protocol',
      'core',
      'sim',
      'storage',
      'replication',
      'broker',
      'client',
      'server',
      'segtool',
      'cli',
    ].map((folder) => `test/${folder}/`),
  },
  { name: 'real ports', check: true, tests: ['test/platform/', 'test/host/', 'test/conformance/'] },
  { name: 'crash', check: true, tests: ['test/crash/'] },
  { name: 'executable', check: false, run: () => tool('./build.sh', []) },
  { name: 'processes', check: false, tests: ['test/process/'] },
];

function tool(command, args) {
  return spawnSync(command, args, { cwd: root, env, stdio: 'inherit' }).status === 0;
}

function canaryIsReported() {
  const { stdout } = spawnSync('oxlint', ['--type-aware', '-f', 'unix', 'test/architecture/canary/floating.ts'], {
    cwd: root,
    env,
    encoding: 'utf8',
  });
  const reported = stdout.includes('no-floating-promises');
  if (!reported) console.error('lint: the deliberate floating promise was not reported, so type-aware rules are off');
  return reported;
}

function runTests(name, paths, flags = []) {
  const existing = paths.filter((path) => existsSync(root + path));
  if (existing.length === 0) return true;
  mkdirSync(`${root}dist`, { recursive: true });
  const report = `${root}dist/test-${name.replaceAll(/[ ,]+/g, '-')}.json`;
  rmSync(report, { force: true });
  const args = [
    'run',
    '--config',
    'test/vitest.config.ts',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
    ...flags,
    ...existing,
    ...process.argv.slice(3),
  ];
  const { status } = spawnSync('vitest', args, { cwd: root, env, stdio: 'inherit' });
  if (!existsSync(report)) {
    totals.failed += 1;
    return false;
  }
  const result = JSON.parse(readFileSync(report, 'utf8'));
  totals.passed += result.numPassedTests;
  totals.failed += Math.max(result.numFailedTests, status === 0 ? 0 : 1);
  return status === 0;
}

function merged(list) {
  if (process.argv[2] !== 'check') return list;
  const result = [];
  for (const stage of list) {
    const last = result.at(-1);
    if (
      last?.tests !== undefined &&
      stage.tests !== undefined &&
      last.flags === undefined &&
      stage.flags === undefined &&
      last.name !== 'architecture'
    )
      result[result.length - 1] = {
        ...last,
        name: `${last.name}, ${stage.name}`,
        tests: [...last.tests, ...stage.tests],
      };
    else result.push(stage);
  }
  return result;
}

/** What the checks need: packages as locked, and the addon. */
function prepare() {
  const lock = createHash('sha256')
    .update(readFileSync(`${root}package-lock.json`))
    .digest('hex');
  const stamp = `${root}node_modules/.rivulet-lock`;
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== lock) {
    if (!tool('npm', ['ci', '--no-audit', '--no-fund'])) return false;
    writeFileSync(stamp, lock);
  }
  return tool('make', ['-s', '-C', 'native']);
}

function runStage(stage) {
  const began = Date.now();
  const ok = stage.tests === undefined ? stage.run() : runTests(stage.name, stage.tests, stage.flags);
  if (stage.tests === undefined) totals[ok ? 'passed' : 'failed'] += 1;
  console.log(`${ok ? 'ok  ' : 'FAIL'} ${stage.name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  return ok;
}

const wanted = process.argv[2] ?? 'all';
// In a check, stages of tests that need nothing of their own share one run: two cores are never idle for long.
const chosen = merged(
  stages.filter((stage) => wanted === 'all' || (wanted === 'check' && stage.check) || stage.name === wanted),
);
if (chosen.length === 0) {
  console.error(`no stage ${wanted}; there are: all, check, ${stages.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}
let ok = prepare();
if (!ok) totals.failed += 1;
for (const stage of chosen) {
  if (!ok) break;
  ok = runStage(stage);
}
console.log(`${totals.passed} passed, ${totals.failed} failed`);
process.exit(ok && totals.failed === 0 ? 0 : 1);
