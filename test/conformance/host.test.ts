// The same promises, on the real file system and real sockets. Needs the addon: `make -C native`.
import * as fs from 'node:fs/promises';
import * as os from 'node:os';
import * as path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { loadAddon } from '../../src/host/addon.ts';
import { openDisk } from '../../src/host/disk.ts';
import { lmdbStore } from '../../src/host/lmdb-store.ts';
import { tcpNetwork } from '../../src/platform/tcp.ts';
import { diskConformance } from './disk.ts';
import { metadataStoreConformance } from './metadata-store.ts';
import { networkConformance } from './network.ts';

const addonPath = path.resolve(import.meta.dirname, '../../native/build/rivulet.node');

diskConformance('host', async () => {
  const addon = loadAddon(addonPath);
  const root = await fs.mkdtemp(path.join(os.tmpdir(), 'rivulet-disk-'));
  return {
    disk: openDisk(root, addon),
    second: openDisk(root, addon),
    run: (work) => work(),
    close: () => fs.rm(root, { recursive: true, force: true }),
  };
});

for (const receiveInPlace of [true, false]) {
  networkConformance(`host, ${receiveInPlace ? 'in place' : 'by events'}`, () => {
    const network = tcpNetwork({ receiveInPlace });
    return {
      server: network,
      client: network,
      address: { host: '127.0.0.1', port: 0 },
      run: (work) => work(),
      pause: () => delay(5),
    };
  });
}

metadataStoreConformance('host', async () => {
  const root = await fs.mkdtemp(path.join(os.tmpdir(), 'rivulet-meta-'));
  const folder = path.join(root, 'meta');
  const quarantine = path.join(root, 'quarantine');
  await Promise.all([fs.mkdir(folder), fs.mkdir(quarantine)]);
  return {
    open: () => lmdbStore({ folder, quarantine }),
    run: (work) => work(),
    close: () => fs.rm(root, { recursive: true, force: true }),
  };
});
