// Run as a process of its own, and killed, by lmdb-store.test.ts: applies entry after entry and prints each that was
// confirmed.
import * as fs from 'node:fs';
import { lmdbStore } from '../../src/host/lmdb-store.ts';
import { changesAt, sameEntries, stateAt } from './lmdb-damage.ts';

const [, , folder, quarantine] = process.argv;
if (folder !== undefined && quarantine !== undefined) {
  const store = lmdbStore({ folder, quarantine });
  const loaded = await store.load();
  let index = loaded.kind === 'ok' ? loaded.appliedIndex : 0;
  if (loaded.kind === 'damaged') throw new Error(loaded.reason);
  if (loaded.kind === 'ok' && !sameEntries(loaded.entries, stateAt(index)))
    throw new Error(`wrong values at ${String(index)}`);
  fs.writeSync(1, `loaded ${String(index)}\n`);
  for (;;) {
    index += 1;
    await store.apply(index, changesAt(index));
    fs.writeSync(1, `applied ${String(index)}\n`);
  }
}
