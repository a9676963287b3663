// Main of the single executable: runs the bundle with V8's compiled form of it, which holds the functions that a start runs,
// so that they are not compiled again at each start. Without it (another processor or flags: V8 refuses it) all goes the same, slower.
const { writeFileSync } = require('node:fs');
const { getAsset, getRawAsset } = require('node:sea');
const { Script } = require('node:vm');

// Set by the build only, which makes the compiled form by running the executable once.
const making = process.env.RIVULET_BUILD_CODE_CACHE;
const cachedData = making === undefined ? Buffer.from(getRawAsset('main.cache')) : undefined;
const script = new Script(`(function (require, process, __filename) {${getAsset('main.cjs', 'utf8')}\n})`, { filename: 'rivulet.cjs', cachedData });
if (making !== undefined) process.once('exit', () => writeFileSync(making, script.createCachedData()));
script.runInThisContext()(require, process, process.execPath);
