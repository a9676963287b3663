// What a broker is told: its limits and policies, and who it is.
import type { NodeId, TimestampMs } from '../base/brands.ts';
import type { Crc32c } from '../base/checksum.ts';
import type { InvariantError } from '../base/assert.ts';
import {
  CONNECTIONS_MAX_DEFAULT,
  CONNECTIONS_PER_ADDRESS_MAX_DEFAULT,
  FRAME_TIMEOUT_MS_DEFAULT,
  HANDSHAKE_TIMEOUT_MS_DEFAULT,
  IDLE_TIMEOUT_MS_DEFAULT,
  INPUT_BYTES_MAX_DEFAULT,
  OUTPUT_BYTES_MAX_DEFAULT,
  REQUESTS_IN_FLIGHT_MAX_DEFAULT,
} from '../base/limits.ts';
import type { Clock } from '../ports/clock.ts';
import type { Compression } from '../ports/compression.ts';
import type { Disk } from '../ports/disk.ts';
import type { Random } from '../ports/random.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { TopicConfigKey } from '../protocol/topic-config.ts';

export interface BrokerSettings {
  readonly connectionsMax: number;
  readonly connectionsPerAddressMax: number;
  readonly requestsInFlightMax: number;
  /** Unsent bytes of one connection beyond which its requests are read no further. */
  readonly outputBytesMax: number;
  /** Memory for requests that are being received, over all connections, beside the small buffer of each. */
  readonly inputBytesMax: number;
  readonly handshakeTimeoutMs: number;
  /** For a frame to become whole, beside what its size takes at `SLOWEST_BYTES_PER_MS`. */
  readonly frameTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** A connection whose output does not move for this long is closed. */
  readonly drainTimeoutMs: number;
  /** Frames of one connection handled before the others have their turn. */
  readonly framesPerTurn: number;
  readonly parkedFetchesMax: number;
  readonly coldReadsMax: number;
  readonly defaultPartitions: number;
  readonly autoCreateTopics: boolean;
  readonly topicDefaults: Partial<Readonly<Record<TopicConfigKey, number>>>;
  /** Free disk space below which produces are refused. */
  readonly minFreeBytes: number;
  /** Decompress and walk the records of compressed batches too. */
  readonly validateCompressed: boolean;
}

export const BROKER_SETTINGS_DEFAULT: BrokerSettings = {
  connectionsMax: CONNECTIONS_MAX_DEFAULT,
  connectionsPerAddressMax: CONNECTIONS_PER_ADDRESS_MAX_DEFAULT,
  requestsInFlightMax: REQUESTS_IN_FLIGHT_MAX_DEFAULT,
  outputBytesMax: OUTPUT_BYTES_MAX_DEFAULT,
  inputBytesMax: INPUT_BYTES_MAX_DEFAULT,
  handshakeTimeoutMs: HANDSHAKE_TIMEOUT_MS_DEFAULT,
  frameTimeoutMs: FRAME_TIMEOUT_MS_DEFAULT,
  idleTimeoutMs: IDLE_TIMEOUT_MS_DEFAULT,
  drainTimeoutMs: 30_000,
  framesPerTurn: 128,
  parkedFetchesMax: 16_384,
  coldReadsMax: 4,
  defaultPartitions: 1,
  autoCreateTopics: false,
  topicDefaults: {},
  minFreeBytes: 0,
  validateCompressed: false,
};

export interface BrokerIdentity {
  readonly clusterId: string;
  readonly nodeId: NodeId;
  readonly softwareVersion: string;
  readonly startedAt: TimestampMs;
}

export interface BrokerPorts {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly random: Random;
  readonly crc32c: Crc32c;
  readonly compression: Compression;
  readonly telemetry: Telemetry;
  /** A broken invariant: ends the process, or throws in a test. */
  readonly onBug: (error: InvariantError) => never;
}
