// A broker on simulated ports: time passes as the test says, and disks fail on demand.
import { crc32cTable } from '../../src/base/checksum.ts';
import { compression } from '../../src/platform/compression.ts';
import { configOf, type BrokerConfig } from '../../src/server/config.ts';
import { startBrokerOn, type RunningBroker, type ServerPorts } from '../../src/server/start.ts';
import { SimClock } from '../../src/sim/clock.ts';
import { SimDisk } from '../../src/sim/disk.ts';
import { SimMetadataStore } from '../../src/sim/metadata-store.ts';
import { SimNetwork } from '../../src/sim/network.ts';
import { Scheduler } from '../../src/sim/scheduler.ts';
import { RecordingTelemetry } from '../../src/sim/telemetry.ts';
import { countingDisk, type SliceCount } from './counting-disk.ts';
import { RawClient } from './raw-client.ts';

export const PORT = 9400;

export class SimNode {
  readonly scheduler: Scheduler;
  readonly wires: SimNetwork;
  disk: SimDisk;
  readonly clock: SimClock;
  readonly telemetry: RecordingTelemetry = new RecordingTelemetry();
  slices: SliceCount;
  /** What ended the node, or would have: reasons of fatal conditions and bugs. */
  readonly ends: string[] = [];
  private counted: ReturnType<typeof countingDisk>;
  private store: SimMetadataStore;
  private current: RunningBroker | undefined;
  private clients = 0;

  constructor(seed = 1) {
    this.scheduler = new Scheduler({ seed });
    this.wires = new SimNetwork(this.scheduler, { windowBytes: 65_536 });
    this.disk = new SimDisk(this.scheduler, { owner: 'node', capacityBytes: 1e9 });
    this.clock = new SimClock(this.scheduler, 'node');
    this.store = new SimMetadataStore(this.scheduler, 'node');
    this.counted = countingDisk(this.disk);
    this.slices = this.counted.slices;
  }

  get broker(): RunningBroker {
    if (this.current === undefined) throw new Error('the broker is not running');
    return this.current;
  }

  async start(given: Partial<BrokerConfig> = {}, others: Partial<ServerPorts> = {}): Promise<void> {
    const end = (why: string): never => {
      this.ends.push(why);
      throw new Error(`the node ended: ${why}`);
    };
    const ports: ServerPorts = {
      disk: this.counted.disk,
      clock: this.clock,
      random: this.scheduler.random.stream('node'),
      crc32c: crc32cTable,
      compression,
      telemetry: this.telemetry,
      network: this.wires.network('node'),
      metadataStore: this.store,
      bootId: 'boot',
      fatal: (reason) => end(reason),
      onBug: (error) => end(error.message),
      hostName: 'node',
      softwareVersion: 'test',
      ...others,
    };
    const config = configOf({
      listen: { host: 'node', port: PORT },
      insecure: true,
      adminListen: undefined,
      segmentBytes: 256 * 1024,
      minFreeBytes: 0,
      ...given,
    });
    this.current = await startBrokerOn(ports, config);
  }

  /** The process ends without a word, or the machine does; `start` begins the next one on what is left. */
  end(how: 'kill' | 'power'): void {
    this.scheduler.cancelOwner('node');
    this.wires.crashHost('node', how);
    this.disk = how === 'kill' ? this.disk.kill() : this.disk.crash('random');
    this.store = how === 'kill' ? this.store.kill() : this.store.crash('random');
    if (how === 'power') this.wires.restartHost('node');
    this.counted = countingDisk(this.disk);
    this.slices = this.counted.slices;
    this.current = undefined;
  }

  /** From a host of its own, unless one is named. */
  client(host?: string): Promise<RawClient> {
    this.clients += 1;
    return RawClient.over(this.wires.network(host ?? `client-${String(this.clients)}`), 'node', PORT);
  }
  async greeted(host?: string): Promise<RawClient> {
    const client = await this.client(host);
    await client.hello();
    return client;
  }
  pass(ms: number): Promise<void> {
    return this.scheduler.delay(ms, 'test', 'time passes');
  }
}

/** Runs the work on a broker, stops it, and holds that nothing is left over. */
export function withSimNode(
  work: (node: SimNode) => Promise<void>,
  config: Partial<BrokerConfig> = {},
  ports: Partial<ServerPorts> = {},
): Promise<SimNode> {
  const node = new SimNode();
  return node.scheduler.drive(async () => {
    await node.start(config, ports);
    await work(node);
    if (node.ends.length === 0) await node.broker.close();
    return node;
  });
}
