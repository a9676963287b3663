// Entry of the single executable: hands the native parts that it carries to whoever asks for a package with one, then runs.
const { getAsset } = require('node:sea');
const { NativeAssets, NATIVE_DIR_VARIABLE } = require('../src/cli/native-assets.ts');
const { setModuleLoader } = require('../src/platform/checksum.ts');
const hashes = require('rivulet:native-hashes');

// Before anything is loaded, so it cannot wait for the command line to be parsed.
const flag = process.argv.findIndex((text) => text === '--native-dir' || text.startsWith('--native-dir='));
if (flag > 1) {
  const [text] = process.argv.splice(flag, process.argv[flag].includes('=') ? 1 : 2).map((part, index, parts) => parts[1] ?? part.slice(part.indexOf('=') + 1));
  process.env[NATIVE_DIR_VARIABLE] = text;
}
const natives = new NativeAssets({ asset: (name) => new Uint8Array(getAsset(name)), hash: (name) => hashes[name] });
globalThis.rivuletNative = (name) => natives.load(name);
const packages = {
  lmdb: () => require('lmdb'),
  snappy: () => require('snappy'),
  'lz4-napi': () => require('lz4-napi'),
  '@node-rs/crc32': () => require('@node-rs/crc32'),
};
setModuleLoader((name) => {
  const load = packages[name];
  if (load === undefined) throw new Error(`this executable carries no package ${name}`);
  return load();
});
require('../src/cli/main.ts').runExecutable(() => natives.path('rivulet.node'));
