// Puts a broker together over any ports, in the order that recovery needs, and takes it apart in the reverse one.
import { nodeId as asNodeId, type NodeId } from '../base/brands.ts';
import { FatalError, type FatalReason } from '../base/fatal.ts';
import { BrokerCore } from '../broker/broker.ts';
import { BROKER_SETTINGS_DEFAULT, type BrokerPorts, type BrokerSettings } from '../broker/settings.ts';
import { DiskError } from '../ports/disk.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import type { Address, Listener, Network, TlsOptions } from '../ports/network.ts';
import { LocalMetadataLog } from '../replication/metadata-log.ts';
import { ReplicaManager } from '../replication/replica-manager.ts';
import type { TopicDefaults } from '../replication/replica-settings.ts';
import { LOG_CONFIG_DEFAULT, type LogConfig, type StorageDeps } from '../storage/config.ts';
import { Store } from '../storage/store.ts';
import { ConfigError, type BrokerConfig } from './config.ts';

export interface ServerPorts extends BrokerPorts {
  readonly network: Network;
  readonly metadataStore: MetadataStore;
  /** Of the running system: changes when the machine restarts. */
  readonly bootId: string;
  /** Called once when the storage has failed. Ends the process, or throws in a test. */
  readonly fatal: (reason: FatalReason, detail: string, cause: unknown) => never;
  readonly tls?: TlsOptions;
  /** Advertised where the listening address is a wildcard. */
  readonly hostName: string;
  readonly softwareVersion: string;
}

export interface RunningBroker {
  readonly listen: Address;
  readonly advertised: Address;
  readonly nodeId: number;
  readonly clusterId: string;
  readonly core: BrokerCore;
  /** The last run of this data directory ended cleanly, or there was none. */
  readonly clean: boolean;
  /** Stops accepting, ends what is under way within a bound, and leaves the data directory marked as clean. */
  close(): Promise<void>;
}

/** The metadata log is small: a node is not to reserve a whole segment of the data's size for it. */
const META_SEGMENT_BYTES = 1024 * 1024;

/** Resolves when clients can connect and every partition is open. Throws FatalError when that cannot be. */
export async function startBrokerOn(ports: ServerPorts, config: BrokerConfig): Promise<RunningBroker> {
  refusePeers(config);
  const undo = new Unwinding();
  try {
    return await build(ports, config, undo);
  } catch (error) {
    await undo.run().catch((second: unknown) => {
      ports.telemetry.log('error', 'start.not-undone', {
        reason: second instanceof Error ? second.message : String(second),
      });
    });
    throw error;
  }
}

/** A node that was meant for a cluster must not begin one of its own: nobody would see it until the data has parted. */
function refusePeers({ peers }: BrokerConfig): void {
  if (peers.length <= 1) return;
  throw new ConfigError(
    'peers',
    `--peers names ${String(peers.length)} nodes, and this version runs each node alone; leave --peers out`,
  );
}

async function build(ports: ServerPorts, config: BrokerConfig, undo: Unwinding): Promise<RunningBroker> {
  const { disk, clock, random, crc32c, telemetry, fatal } = ports;
  const deps: StorageDeps = { disk, clock, random, crc32c, telemetry, fatal };
  const logConfig = logConfigOf(config);
  await makeRoot(ports, config);
  const store = await Store.open(deps, { nodeId: config.nodeId, bootId: ports.bootId });
  // An unclean end is made good by the registration, which begins new epochs: a start that did not get there, or a stop that
  // failed half-way, must leave it to the next one.
  let isSettled = store.clean;
  undo.add((orderly) => store.close({ clean: orderly && isSettled }));
  const metaLog = await store.openMetaLog({
    ...logConfig,
    segmentBytes: META_SEGMENT_BYTES,
    retentionMs: -1,
    retentionBytes: -1,
  });
  const metadata = await LocalMetadataLog.open(deps, metaLog, ports.metadataStore, { nodeId: config.nodeId });
  undo.add(() => metadata.close());
  const nodeId = asNodeId(config.nodeId);
  await register(metadata, store, nodeId, {});
  isSettled = true;
  const topicDefaults: TopicDefaults = {
    'segment.bytes': config.segmentBytes,
    'retention.ms': config.retentionMs,
    'retention.bytes': config.retentionBytes,
  };
  const replicas = await ReplicaManager.open({
    deps,
    store,
    metadata,
    nodeId: config.nodeId,
    logConfig,
    topicDefaults,
  });
  undo.add(() => replicas.close());
  const identity = {
    clusterId: store.diskId,
    nodeId,
    softwareVersion: ports.softwareVersion,
    startedAt: clock.wallMs(),
  };
  const core = new BrokerCore({
    settings: brokerSettingsOf(config, topicDefaults),
    identity,
    ports,
    metadata,
    replicas,
  });
  await core.start();
  undo.add(() => core.close());
  const listener = await listen(ports, config, core);
  undo.add(() => listener.close());
  const advertised = advertisedOf(config, listener, ports.hostName);
  core.advertise(advertised);
  const known = metadata.image().nodes.get(config.nodeId);
  if (known?.host !== advertised.host || known.port !== advertised.port)
    await register(metadata, store, nodeId, advertised);
  let closing: Promise<void> | undefined;
  return {
    listen: listener.address,
    advertised,
    nodeId: config.nodeId,
    clusterId: store.diskId,
    core,
    clean: store.clean,
    close: () => (closing ??= undo.run()),
  };
}

/** Says that this node is there; after an unclean end that begins new epochs. Throws FatalError when it cannot be written. */
async function register(
  metadata: LocalMetadataLog,
  store: Store,
  nodeId: NodeId,
  endpoint: Partial<Address>,
): Promise<void> {
  const { diskId, incarnation, clean } = store;
  const outcome = await metadata.propose({ kind: 'RegisterNode', nodeId, diskId, incarnation, clean, ...endpoint });
  if (!outcome.ok)
    throw new FatalError(
      outcome.code === 'STORAGE_FULL' ? 'DATA_DIR_UNUSABLE' : 'STORE_DAMAGED',
      `This node cannot be registered: ${outcome.code}: ${outcome.message}`,
    );
}

async function makeRoot(ports: ServerPorts, config: BrokerConfig): Promise<void> {
  try {
    await ports.disk.makeDirectory('');
  } catch (error) {
    if (!(error instanceof DiskError)) throw error;
    throw new FatalError(
      'DATA_DIR_UNUSABLE',
      `The data directory ${config.dataDir} cannot be made: ${error.message}`,
      error,
    );
  }
}

async function listen(ports: ServerPorts, config: BrokerConfig, core: BrokerCore): Promise<Listener> {
  const { host, port } = config.listen;
  try {
    return await ports.network.listen(config.listen, core.accept, ports.tls);
  } catch (error) {
    throw new FatalError(
      'LISTEN_FAILED',
      `Cannot listen on ${host}:${String(port)}: ${error instanceof Error ? error.message : String(error)}`,
      error,
    );
  }
}

function advertisedOf(config: BrokerConfig, listener: Listener, hostName: string): Address {
  if (config.advertise !== undefined) return config.advertise;
  const { host, port } = listener.address;
  return { host: host === '0.0.0.0' || host === '::' ? hostName : host, port };
}

function logConfigOf(config: BrokerConfig): LogConfig {
  return {
    ...LOG_CONFIG_DEFAULT,
    fsync: config.fsync,
    fsyncIntervalMs: config.fsyncInterval,
    groupCommitMaxBytes: config.groupCommitMaxBytes,
    groupCommitLingerMs: config.groupCommitLinger,
    segmentBytes: config.segmentBytes,
    indexIntervalBytes: config.indexInterval,
    preallocate: config.preallocate,
    retentionMs: config.retentionMs,
    retentionBytes: config.retentionBytes,
  };
}

function brokerSettingsOf(config: BrokerConfig, topicDefaults: TopicDefaults): BrokerSettings {
  return {
    ...BROKER_SETTINGS_DEFAULT,
    connectionsMax: config.maxConnections,
    connectionsPerAddressMax: config.maxConnectionsPerAddress,
    requestsInFlightMax: config.maxInFlight,
    outputBytesMax: config.maxOutputBytes,
    inputBytesMax: config.maxInputBytes,
    handshakeTimeoutMs: config.handshakeTimeout,
    idleTimeoutMs: config.idleTimeout,
    defaultPartitions: config.defaultPartitions,
    autoCreateTopics: config.autoCreateTopics,
    topicDefaults,
    minFreeBytes: config.minFreeBytes,
    validateCompressed: config.validateCompressed,
  };
}

/** What was opened, closed in the reverse order. */
class Unwinding {
  private readonly steps: ((orderly: boolean) => Promise<void>)[] = [];
  /** `orderly`: nothing that was closed before has failed. */
  add(step: (orderly: boolean) => Promise<void>): void {
    this.steps.push(step);
  }
  /** Runs all of them, then throws the first failure. */
  async run(): Promise<void> {
    const failures: unknown[] = [];
    for (const step of this.steps.splice(0).reverse()) {
      await step(failures.length === 0).catch((error: unknown) => {
        failures.push(error);
      });
    }
    if (failures.length > 0) throw failures[0];
  }
}
