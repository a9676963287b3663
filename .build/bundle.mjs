// Bundles the command line into one CommonJS file and the native parts into one executable with Node inside.
// Usage: node .build/bundle.mjs x64|arm64 OUTPUT
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);
const [arch = process.arch, output = `${root}dist/rivulet`] = process.argv.slice(2);
const work = `${root}dist/.work-${arch}`;
mkdirSync(work, { recursive: true });

/** Asset name → file. */
const natives = {
  'rivulet.node': arch === process.arch ? `${root}native/build/rivulet.node` : `${root}native/build/rivulet-${arch}.node`,
  'lmdb.node': `${root}node_modules/@lmdb/lmdb-linux-${arch}/node.napi.glibc.node`,
  'snappy.node': `${root}node_modules/@napi-rs/snappy-linux-${arch}-gnu/snappy.linux-${arch}-gnu.node`,
  'lz4.node': `${root}node_modules/@antoniomuso/lz4-napi-linux-${arch}-gnu/lz4-napi.linux-${arch}-gnu.node`,
  'crc32.node': `${root}node_modules/@node-rs/crc32-linux-${arch}-gnu/crc32.linux-${arch}-gnu.node`,
};
const hashes = Object.fromEntries(Object.entries(natives).map(([name, path]) => [name, createHash('sha256').update(readFileSync(path)).digest('hex')]));

/** Loaders that look for the right binary of the machine → the native part that takes their place; all they do is to hand it on. */
const loaders = { 'snappy/index.js': 'snappy.node', 'lz4-napi/index.js': 'lz4.node', '@node-rs/crc32/index.js': 'crc32.node' };
const version = JSON.parse(readFileSync(`${root}package.json`, 'utf8')).version;

const nativeParts = {
  name: 'native-parts',
  setup(builder) {
    builder.onResolve({ filter: /^rivulet:native-hashes$/ }, () => ({ path: 'hashes', namespace: 'made' }));
    builder.onResolve({ filter: /^node-gyp-build-optional-packages$/ }, () => ({ path: 'lmdb', namespace: 'made' }));
    builder.onResolve({ filter: /^msgpackr-extract$/ }, () => ({ path: 'absent', namespace: 'made' }));
    // Parts of packages that the broker never calls, and that would be loaded at every start: default metrics, push gateway,
    // cluster and tracing of the metrics package, worker transports of the logger.
    builder.onResolve({ filter: /^(\.\/lib\/(defaultMetrics|pushgateway|cluster)|@opentelemetry\/api|thread-stream)$/ }, ({ importer }) =>
      /node_modules\/(prom-client|pino)\//.test(importer) ? { path: 'unused', namespace: 'made' } : undefined,
    );
    builder.onLoad({ filter: /node_modules\/(snappy|lz4-napi|@node-rs\/crc32)\/index\.js$/ }, ({ path }) => {
      const part = loaders[path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)];
      return { contents: `module.exports = globalThis.rivuletNative(${JSON.stringify(part)});`, loader: 'js' };
    });
    builder.onLoad({ filter: /.*/, namespace: 'made' }, ({ path }) => {
      if (path === 'hashes') return { contents: JSON.stringify(hashes), loader: 'json' };
      if (path === 'lmdb') return { contents: 'module.exports = () => globalThis.rivuletNative("lmdb.node");', loader: 'js' };
      if (path === 'unused') return { contents: 'module.exports = {};', loader: 'js' };
      if (path === 'absent') return { contents: 'throw Object.assign(new Error("not part of this executable"), { code: "MODULE_NOT_FOUND" });', loader: 'js' };
      throw new Error(`nothing is made for ${path}`);
    });
  },
};

await build({
  entryPoints: [`${root}.build/executable.cjs`],
  outfile: `${work}/rivulet.cjs`,
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node24',
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: 'none',
  logLevel: 'warning',
  logOverride: { 'empty-import-meta': 'silent' },
  define: { RIVULET_VERSION: JSON.stringify(version) },
  plugins: [nativeParts],
});

// Node without its symbols is a sixth smaller; where strip cannot (another architecture), it stays as it is.
const base = `${work}/node-${version}-${createHash('sha256').update(readFileSync(`${root}node_modules/node-linux-${arch}/package.json`)).digest('hex').slice(0, 8)}`;
try {
  readFileSync(base, { flag: 'r' }).length;
} catch {
  copyFileSync(`${root}node_modules/node-linux-${arch}/bin/node`, `${base}.tmp`);
  if (arch === process.arch) execFileSync('strip', [`${base}.tmp`]);
  renameSync(`${base}.tmp`, base);
}
/** One executable: Node, the loader, and the assets. */
function assemble(path, assets) {
  const blob = `${work}/rivulet.blob`;
  // With room for the young generation from the start, a start collects less garbage.
  const config = { main: `${root}.build/loader.cjs`, output: blob, disableExperimentalSEAWarning: true, execArgv: ['--min-semi-space-size=8'], assets };
  writeFileSync(`${work}/sea.json`, JSON.stringify(config));
  execFileSync(process.execPath, ['--experimental-sea-config', `${work}/sea.json`], { stdio: ['ignore', 'ignore', 'pipe'] });
  copyFileSync(base, `${path}.tmp`);
  chmodSync(`${path}.tmp`, 0o755);
  // Its parser warns about the sections that strip has emptied; what it says is shown only when it fails.
  try {
    execFileSync(process.execPath, [require.resolve('postject/dist/cli.js'), `${path}.tmp`, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2'], { stdio: 'pipe' });
  } catch (error) {
    process.stderr.write(`${error.stdout}${error.stderr}`);
    throw error;
  }
  renameSync(`${path}.tmp`, path);
}

/** V8's compiled form of the bundle after a start and a stop of the broker; empty for an architecture that cannot run here. */
async function codeCache(assets) {
  const cache = `${work}/main.cache`;
  writeFileSync(cache, '');
  if (arch !== process.arch) return cache;
  const trial = `${work}/trial`;
  assemble(trial, { ...assets, 'main.cache': cache });
  const data = mkdtempSync(join(tmpdir(), 'rivulet-build-'));
  const broker = spawn(trial, ['serve', '--data-dir', data, '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--json'], {
    env: { ...process.env, RIVULET_BUILD_CODE_CACHE: cache, RIVULET_NATIVE_DIR: join(data, 'native') },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const limit = setTimeout(() => broker.kill('SIGKILL'), 30_000);
  broker.stdout.once('data', () => broker.kill('SIGTERM'));
  const [status] = await once(broker, 'close');
  clearTimeout(limit);
  rmSync(data, { recursive: true, force: true });
  rmSync(trial);
  if (status !== 0) throw new Error(`the trial start of the executable ended with status ${status}`);
  return cache;
}

const assets = { ...natives, 'main.cjs': `${work}/rivulet.cjs` };
assemble(output, { ...assets, 'main.cache': await codeCache(assets) });
