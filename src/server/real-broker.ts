// A broker on the real ports of this machine.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FatalError } from '../base/fatal.ts';
import { loadAddon, type NativeAddon } from '../host/addon.ts';
import { listenAdmin, type AdminListener } from '../host/admin-http.ts';
import { bootClock } from '../host/clock.ts';
import { openDisk } from '../host/disk.ts';
import { withFaults } from '../host/fault-disk.ts';
import { readBootId } from '../host/identity.ts';
import { lmdbStore } from '../host/lmdb-store.ts';
import { crc32c } from '../platform/checksum.ts';
import { compression } from '../platform/compression.ts';
import { systemRandom } from '../platform/random.ts';
import { tcpNetwork } from '../platform/tcp.ts';
import { openTelemetry, type MeasuredTelemetry } from '../platform/telemetry.ts';
import type { Disk } from '../ports/disk.ts';
import type { Address, TlsOptions } from '../ports/network.ts';
import { abortProcess } from './abort.ts';
import { ConfigError, configOf, type BrokerConfig } from './config.ts';
import { startBrokerOn, type RunningBroker, type ServerPorts } from './start.ts';

export interface StartOptions extends Partial<BrokerConfig> {
  /** Where the native addon lies; found beside the package where it is not given. */
  readonly addonPath?: string;
  /** UV_THREADPOOL_SIZE of this process, which the entry point sets before anything asynchronous; 4 where it does not. */
  readonly poolThreads?: number;
  readonly softwareVersion?: string;
  /** Standard error where it is not given. */
  readonly telemetry?: MeasuredTelemetry;
}

export interface Broker {
  /** With the port that was taken where port 0 was asked for. */
  readonly listen: Address;
  readonly admin: Address | undefined;
  readonly advertised: Address;
  readonly nodeId: number;
  readonly clusterId: string;
  /** Absolute. */
  readonly dataDir: string;
  /** False: the last run did not end cleanly, and was recovered from. */
  readonly clean: boolean;
  /** Gives back memory that only starting has used. Worth it once, some time after the start, in a process that is a broker only. */
  trim(): void;
  /** Ends what is under way within a bound, and leaves the data directory marked as clean. */
  close(): Promise<void>;
}

/**
 * Resolves when the broker can be used: metadata loaded, partitions open, listening. Throws ConfigError for a bad setting and
 * FatalError when the node cannot be started. A failure of the storage later on aborts the process: after it no answer, no
 * exit hook and no second sync may happen.
 */
export async function startBroker(options: StartOptions = {}): Promise<Broker> {
  const { addonPath, poolThreads, softwareVersion = 'development', telemetry: given, ...settings } = options;
  const config = configOf(settings);
  const dataDir = resolve(config.dataDir);
  const telemetry = given ?? openTelemetry({ level: config.logLevel, base: { node: config.nodeId } });
  const addon = loadAddon(addonPath ?? findAddon());
  const ports: ServerPorts = {
    disk: diskOf(config, dataDir, addon, poolThreads),
    clock: bootClock(addon),
    random: systemRandom,
    crc32c,
    compression,
    telemetry,
    network: tcpNetwork({
      onListenerError: (error) => {
        telemetry.log('warn', 'listener.error', { reason: error.message });
      },
    }),
    metadataStore: lmdbStore({ folder: resolve(dataDir, 'meta'), quarantine: resolve(dataDir, 'quarantine') }),
    bootId: (await readBootId()) ?? '',
    fatal: abortProcess,
    onBug: (error) => abortProcess('INVARIANT_BROKEN', error.message, error),
    hostName: hostname(),
    softwareVersion,
    ...(await tlsOf(config)),
  };
  const running = await startBrokerOn(ports, config);
  let admin: AdminListener | undefined;
  try {
    admin = await openAdmin(config, telemetry, running);
  } catch (error) {
    await running.close();
    throw error;
  }
  return brokerOf(running, admin, dataDir, addon);
}

function brokerOf(
  running: RunningBroker,
  admin: AdminListener | undefined,
  dataDir: string,
  addon: NativeAddon,
): Broker {
  const { listen, advertised, nodeId, clusterId, clean } = running;
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await running.close();
    // Last, so that whoever watches sees the node draining.
    await admin?.close();
  };
  return {
    listen,
    admin: admin?.address,
    advertised,
    nodeId,
    clusterId,
    dataDir,
    clean,
    trim: () => void addon.forgetProgram(),
    close: () => (closing ??= close()),
  };
}

async function openAdmin(
  config: BrokerConfig,
  telemetry: MeasuredTelemetry,
  running: RunningBroker,
): Promise<AdminListener | undefined> {
  if (config.adminListen === undefined) return undefined;
  const { host, port } = config.adminListen;
  const { core } = running;
  try {
    return await listenAdmin(config.adminListen, {
      metricsText: () => telemetry.metricsText(),
      metricsContentType: telemetry.metricsContentType,
      healthy: () => ({ ok: true, detail: { nodeId: config.nodeId } }),
      ready: () => ({
        ok: !core.stopping,
        detail: {
          stopping: core.stopping,
          diskPressure: core.headroom.underPressure,
          metadataStore: !core.metadata.storeDisabled,
        },
      }),
    });
  } catch (error) {
    throw new FatalError(
      'LISTEN_FAILED',
      `Cannot serve metrics on ${host}:${String(port)}: ${error instanceof Error ? error.message : String(error)}. Name another place with --admin-listen, or none.`,
      error,
    );
  }
}

function diskOf(config: BrokerConfig, dataDir: string, addon: NativeAddon, poolThreads: number | undefined): Disk {
  const disk = openDisk(dataDir, addon, poolThreads === undefined ? {} : { poolThreads });
  if (config.fault === undefined) return disk;
  try {
    return withFaults(disk, config.fault);
  } catch (error) {
    throw new ConfigError('fault', error instanceof Error ? error.message : String(error));
  }
}

async function tlsOf({ tlsCert, tlsKey, tlsClientCa }: BrokerConfig): Promise<{ readonly tls?: TlsOptions }> {
  if (tlsCert === undefined || tlsKey === undefined) return {};
  const certificate = await pem('tls-cert', tlsCert);
  const key = await pem('tls-key', tlsKey);
  if (tlsClientCa === undefined) return { tls: { certificate, key } };
  return { tls: { certificate, key, clientAuthorities: await pem('tls-client-ca', tlsClientCa) } };
}

async function pem(setting: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new ConfigError(
      setting,
      `--${setting} ${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** Beside the sources, or beside the built library. */
function findAddon(): string {
  const places = ['../../native/build/rivulet.node', '../../../native/build/rivulet.node'].map((place) =>
    fileURLToPath(new URL(place, import.meta.url)),
  );
  const found = places.find((place) => existsSync(place));
  if (found === undefined)
    throw new Error(
      `the native addon is at none of ${places.join(', ')}; build it with make -C native, or give addonPath`,
    );
  return found;
}
