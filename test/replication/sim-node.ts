// A whole node below the broker, on simulated ports: data directory, metadata log, replicas. Its power can be cut.
import { nodeId, offset, topicId, type NodeId, type TopicId } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { checkBatch } from '../../src/format/batch.ts';
import { decodeRecords, encodeBatch } from '../../src/format/records.ts';
import type { Acks, ProduceOutcome, Replica } from '../../src/replication/contract.ts';
import { LocalMetadataLog } from '../../src/replication/metadata-log.ts';
import { ReplicaManager } from '../../src/replication/replica-manager.ts';
import { SimClock } from '../../src/sim/clock.ts';
import { SimDisk, type SimDiskOptions } from '../../src/sim/disk.ts';
import { SimMetadataStore } from '../../src/sim/metadata-store.ts';
import type { SeededRandom } from '../../src/sim/random.ts';
import { Scheduler } from '../../src/sim/scheduler.ts';
import { RecordingTelemetry } from '../../src/sim/telemetry.ts';
import { LOG_CONFIG_DEFAULT, type FsyncPolicy, type LogConfig, type StorageDeps } from '../../src/storage/config.ts';
import type { CheckedBatch } from '../../src/storage/contract.ts';
import { Store } from '../../src/storage/store.ts';

export const NODE: NodeId = nodeId(1);
export const TOPIC: TopicId = topicId('0123456789abcdef0123456789abcdef');
export const SMALL: LogConfig = {
  ...LOG_CONFIG_DEFAULT,
  segmentBytes: 4096,
  indexIntervalBytes: 256,
  preallocate: 'none',
  mappedSegmentsMax: 4,
};

export interface Running {
  readonly store: Store;
  readonly metadata: LocalMetadataLog;
  readonly replicas: ReplicaManager;
}

export interface NodeOptions {
  readonly fsync?: FsyncPolicy;
  readonly snapshotEvery?: number;
  readonly replayDirectlyMax?: number;
  readonly producersMax?: number;
  /** Of the topics' segments; 0: the default. */
  readonly segmentBytes?: number;
}

export class SimNode {
  readonly scheduler: Scheduler;
  readonly clock: SimClock;
  readonly telemetry: RecordingTelemetry = new RecordingTelemetry();
  readonly fatals: string[] = [];
  readonly random: SeededRandom;
  disk: SimDisk;
  image: SimMetadataStore;
  running: Running | undefined;
  private readonly options: NodeOptions;
  constructor(seed = 1, options: NodeOptions = {}, disk: SimDiskOptions = {}) {
    this.options = options;
    this.scheduler = new Scheduler({ seed });
    this.random = this.scheduler.random.stream('node');
    this.clock = new SimClock(this.scheduler, 'node');
    this.disk = new SimDisk(this.scheduler, { owner: 'node', ...disk });
    this.image = new SimMetadataStore(this.scheduler, 'node');
  }

  get deps(): StorageDeps {
    const { disk } = this;
    return {
      disk,
      clock: this.clock,
      random: this.random,
      crc32c: crc32cTable,
      telemetry: this.telemetry,
      fatal: (reason, detail) => {
        this.fatals.push(`${reason}: ${detail}`);
        throw new Error(`fatal ${reason}: ${detail}`);
      },
    };
  }
  get now(): Running {
    if (this.running === undefined) throw new Error('the node is not running');
    return this.running;
  }
  run<Value>(work: () => Promise<Value>): Promise<Value> {
    return this.scheduler.drive(work, 600_000);
  }

  start(): Promise<Running> {
    return this.run(() => this.startInside());
  }
  async startInside(): Promise<Running> {
    const { deps, options } = this;
    const store = await Store.open(deps, { nodeId: NODE, bootId: 'boot' });
    const log = await store.openMetaLog({ ...SMALL, segmentBytes: 1024 });
    const metadata = await LocalMetadataLog.open(deps, log, this.image, {
      nodeId: NODE,
      snapshotEvery: options.snapshotEvery ?? 4096,
      // Below every length: the store is opened first, unless a test says otherwise.
      replayDirectlyMax: options.replayDirectlyMax ?? -1,
    });
    await metadata.propose({
      kind: 'RegisterNode',
      nodeId: NODE,
      diskId: store.diskId,
      incarnation: store.incarnation,
      clean: store.clean,
    });
    const replicas = await ReplicaManager.open({
      deps,
      store,
      metadata,
      nodeId: NODE,
      logConfig: { ...SMALL, fsync: options.fsync ?? 'always' },
      topicDefaults: { 'segment.bytes': options.segmentBytes ?? 4096 },
      ...(options.producersMax === undefined ? {} : { producersMax: options.producersMax }),
    });
    this.running = { store, metadata, replicas };
    return this.running;
  }
  stop(): Promise<void> {
    return this.run(async () => {
      const { store, metadata, replicas } = this.now;
      await replicas.close();
      await metadata.close();
      await store.close({ clean: true });
      this.running = undefined;
      // The next process opens it anew.
      this.disk = this.disk.secondProcess();
      this.image = this.image.kill();
    });
  }
  kill(): void {
    this.scheduler.cancelOwner('node');
    this.disk = this.disk.kill();
    this.image = this.image.kill();
    this.running = undefined;
  }
  powerCut(choice: Parameters<SimDisk['crash']>[0] = 'random'): void {
    this.scheduler.cancelOwner('node');
    this.disk = this.disk.crash(choice);
    this.image = this.image.crash('random');
    this.running = undefined;
  }

  async createTopic(
    id: TopicId = TOPIC,
    name = 'orders',
    partitions = 1,
    config: readonly { key: string; value: string }[] = [],
  ): Promise<void> {
    const { metadata, replicas } = this.now;
    const outcome = await metadata.propose({
      kind: 'CreateTopic',
      topicId: id,
      name,
      assignment: Array.from({ length: partitions }, () => [NODE]),
      config,
    });
    if (!outcome.ok) throw new Error(`topic not created: ${outcome.code}`);
    await replicas.whenReady(id);
  }
  replica(id: TopicId = TOPIC, partition = 0): Replica {
    const found = this.now.replicas.find(id, partition);
    if (!found.ok) throw new Error(`no replica: ${found.code}`);
    return found.replica;
  }
}

export interface Sequenced {
  readonly producerId?: number;
  readonly producerEpoch?: number;
  readonly baseSequence?: number;
}

export function batchOf(values: readonly string[], sequence: Sequenced = {}): Uint8Array<ArrayBuffer> {
  const records = values.map((value) => ({
    timestamp: 1_767_225_600_000,
    key: null,
    value: new TextEncoder().encode(value),
  }));
  return encodeBatch({ records, ...sequence }, crc32cTable);
}

export function checked(bytes: Uint8Array): CheckedBatch[] {
  const found: CheckedBatch[] = [];
  for (let at = 0; at < bytes.length;) {
    const result = checkBatch(bytes, at, crc32cTable);
    if (!result.ok) throw new Error(`bad batch in a test: ${result.fault} ${result.detail}`);
    found.push({ at, size: result.size, header: result.header });
    at += result.size;
  }
  return found;
}

export function produce(
  replica: Replica,
  bytes: Uint8Array,
  acks: Acks = 'committed',
  timeoutMs = 60_000,
): Promise<ProduceOutcome> {
  return new Promise((done) => {
    replica.produce({ bytes, batches: checked(bytes), acks, timeoutMs, leaderEpoch: -1, done });
  });
}

export interface ReadRecord {
  readonly offset: number;
  readonly epoch: number;
  readonly value: string;
}

function recordsIn(bytes: Uint8Array, from: number): ReadRecord[] {
  return checked(bytes)
    .filter(({ header }) => !header.isControl)
    .flatMap(({ at, size, header }) =>
      decodeRecords(bytes.subarray(at + 61, at + size), header)
        .filter((record) => record.offset >= from)
        .map((record) => ({
          offset: record.offset,
          epoch: header.leaderEpoch,
          value: new TextDecoder().decode(record.value ?? new Uint8Array()),
        })),
    );
}

/** All that a consumer sees from an offset on, control batches left out. */
export async function readAll(
  replica: Replica,
  from = 0,
  damaged?: (from: number, to: number) => void,
): Promise<ReadRecord[]> {
  const records: ReadRecord[] = [];
  for (let next = offset(from); ;) {
    const result = replica.fetch({ offset: next, maxBytes: 8192, lastFetchedEpoch: -1, currentLeaderEpoch: -1 });
    if (result.kind === 'empty') return records;
    if (result.kind === 'cold') {
      await replica.prepare(next, 8192);
      continue;
    }
    if (
      result.kind === 'failed' &&
      result.code === 'DAMAGED_RANGE' &&
      damaged !== undefined &&
      result.resumeOffset !== undefined
    ) {
      damaged(next, result.resumeOffset);
      next = result.resumeOffset;
      continue;
    }
    if (result.kind === 'failed') throw new Error(`fetch at ${String(next)}: ${result.code}`);
    for (const slice of result.slices) {
      const bytes = Uint8Array.from(slice.view);
      slice.release();
      records.push(...recordsIn(bytes, next));
    }
    next = result.nextOffset;
  }
}
