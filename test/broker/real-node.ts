// A broker on the ports of this machine in a folder of its own, that can be stopped and started again.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { loadAddon } from '../../src/host/addon.ts';
import { bootClock } from '../../src/host/clock.ts';
import { openDisk } from '../../src/host/disk.ts';
import { lmdbStore } from '../../src/host/lmdb-store.ts';
import { crc32c } from '../../src/platform/checksum.ts';
import { compression } from '../../src/platform/compression.ts';
import { systemRandom } from '../../src/platform/random.ts';
import { tcpNetwork } from '../../src/platform/tcp.ts';
import type { Disk } from '../../src/ports/disk.ts';
import { configOf, type BrokerConfig } from '../../src/server/config.ts';
import { startBrokerOn, type RunningBroker, type ServerPorts } from '../../src/server/start.ts';
import { RecordingTelemetry } from '../../src/sim/telemetry.ts';
import { countingDisk, type SliceCount } from './counting-disk.ts';
import { RawClient } from './raw-client.ts';

const ADDON_PATH = resolve(import.meta.dirname, '../../native/build/rivulet.node');

export interface RealNodeOptions {
  readonly config?: Partial<BrokerConfig>;
  readonly ports?: Partial<ServerPorts>;
  /** Around the real disk. */
  readonly disk?: (disk: Disk) => Disk;
}

export class RealNode {
  readonly root: string = mkdtempSync(join(tmpdir(), 'rivulet-broker-'));
  readonly telemetry: RecordingTelemetry = new RecordingTelemetry();
  readonly slices: SliceCount[] = [];
  private readonly clients: RawClient[] = [];
  private current: RunningBroker | undefined;

  static async start(options: RealNodeOptions = {}): Promise<RealNode> {
    const node = new RealNode();
    await node.start(options);
    return node;
  }

  get broker(): RunningBroker {
    if (this.current === undefined) throw new Error('the broker is not running');
    return this.current;
  }

  async start(options: RealNodeOptions = {}): Promise<void> {
    const addon = loadAddon(ADDON_PATH);
    const counted = countingDisk(openDisk(this.root, addon));
    this.slices.push(counted.slices);
    const fail = (detail: string): never => {
      throw new Error(`the broker gave up: ${detail}`);
    };
    const ports: ServerPorts = {
      disk: options.disk?.(counted.disk) ?? counted.disk,
      clock: bootClock(addon),
      random: systemRandom,
      crc32c,
      compression,
      telemetry: this.telemetry,
      network: tcpNetwork(),
      metadataStore: lmdbStore({ folder: join(this.root, 'meta'), quarantine: join(this.root, 'quarantine') }),
      bootId: 'test',
      fatal: (reason, detail) => fail(`${reason}: ${detail}`),
      onBug: (error) => fail(error.stack ?? error.message),
      hostName: '127.0.0.1',
      softwareVersion: 'test',
      ...options.ports,
    };
    const config = configOf({
      listen: { host: '127.0.0.1', port: 0 },
      adminListen: undefined,
      segmentBytes: 256 * 1024,
      minFreeBytes: 0,
      dataDir: this.root,
      ...options.config,
    });
    this.current = await startBrokerOn(ports, config);
  }

  async client(): Promise<RawClient> {
    const client = await RawClient.tcp(this.broker.listen.port);
    this.clients.push(client);
    return client;
  }
  async greeted(): Promise<RawClient> {
    const client = await this.client();
    await client.hello();
    return client;
  }

  async stop(): Promise<void> {
    for (const client of this.clients.splice(0)) client.end();
    const running = this.current;
    this.current = undefined;
    await running?.close();
  }

  /** Stops, removes the folder, and tells how many slices outlived their use. */
  async remove(): Promise<{ readonly leaked: number; readonly twice: number; readonly taken: number }> {
    await this.stop();
    rmSync(this.root, { recursive: true, force: true });
    const sum = (pick: (count: SliceCount) => number): number =>
      this.slices.reduce((total, count) => total + pick(count), 0);
    return { leaked: sum(({ live }) => live), twice: sum(({ twice }) => twice), taken: sum(({ taken }) => taken) };
  }
}
