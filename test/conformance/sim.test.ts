import { SimDisk } from '../../src/sim/disk.ts';
import { SimMetadataStore } from '../../src/sim/metadata-store.ts';
import { SimNetwork } from '../../src/sim/network.ts';
import { Scheduler } from '../../src/sim/scheduler.ts';
import { diskConformance } from './disk.ts';
import { metadataStoreConformance } from './metadata-store.ts';
import { networkConformance } from './network.ts';

const SEEDS = [1, 2, 3];

for (const seed of SEEDS) {
  diskConformance(`sim, seed ${String(seed)}`, () => {
    const scheduler = new Scheduler({ seed });
    const disk = new SimDisk(scheduler, { capacityBytes: 1e9 });
    return Promise.resolve({
      disk,
      second: disk.secondProcess(),
      run: (work) => scheduler.drive(work),
      close: () => Promise.resolve(),
    });
  });

  networkConformance(`sim, seed ${String(seed)}`, () => {
    const scheduler = new Scheduler({ seed });
    const wires = new SimNetwork(scheduler);
    return {
      server: wires.network('server'),
      client: wires.network('client'),
      address: { host: 'server', port: 0 },
      run: (work) => scheduler.drive(work),
      pause: () => scheduler.delay(5, 'test', 'pause'),
    };
  });
}

metadataStoreConformance('sim', () => {
  const scheduler = new Scheduler({ seed: 1 });
  let store: SimMetadataStore | undefined;
  return Promise.resolve({
    open: () => {
      store = store === undefined ? new SimMetadataStore(scheduler) : store.kill();
      return store;
    },
    run: (work) => scheduler.drive(work),
    close: () => Promise.resolve(),
  });
});
