// The data directory: who owns it, what wrote it, and whether it was stopped cleanly.
import { isTopicName } from '../base/limits.ts';
import { FatalError } from '../base/fatal.ts';
import { utf8Encode } from '../base/bytes.ts';
import { assert } from '../base/assert.ts';
import {
  decodeStoreFile,
  encodeStoreFile,
  FORMAT_VERSION,
  STORE_FILE_BYTES_MAX,
  type StoreFile,
} from '../format/store-file.ts';
import { DiskError, type DiskLock } from '../ports/disk.ts';
import type { LogConfig, StorageDeps } from './config.ts';
import { Health, isNotFound, isPressure } from './health.ts';
import { makeDurableDirectory, PartitionLog } from './log.ts';
import { quarantineMove } from './quarantine.ts';
import { readSmallFile, unlinkIfThere, writeSmallFile } from './small-file.ts';
import { SuperblockFile } from './superblock-file.ts';

const STORE_FILE = 'store.json';
const META_LOG = 'meta-log';
const TOPICS = 'topics';

export interface StoreOptions {
  /** Written into a new store; an existing one must have the same. */
  readonly nodeId: number;
  /** Of the running system: tells a restart of the process from a restart of the machine. */
  readonly bootId: string;
}

export interface PartitionDirectory {
  readonly topicId: string;
  readonly partition: number;
  readonly path: string;
}

export interface NodeVote {
  readonly term: number;
  /** -1: none. */
  readonly vote: number;
}

/** One process's hold on a data directory. Conditions in which it cannot be used are thrown as FatalError. */
export class Store {
  readonly formatVersion: number = FORMAT_VERSION;
  readonly metaLogDirectory: string = META_LOG;
  readonly nodeId: number;
  /** 32 hex digits; a new disk has another. */
  readonly diskId: string;
  /** True when the store did not exist before. */
  readonly created: boolean;
  /** The last run stopped cleanly: it had written that as its last act. */
  readonly clean: boolean;
  /** Counts the starts of this store; rises by one at each open. */
  readonly incarnation: number;
  readonly previousBootId: string;
  private readonly deps: StorageDeps;
  private readonly health: Health;
  private readonly lock: DiskLock;
  private readonly superblock: SuperblockFile;
  private readonly logs = new Set<PartitionLog>();
  /** Name hints that are being written, by topic. */
  private readonly hints = new Map<string, Promise<void>>();
  private closing: Promise<void> | undefined;

  private constructor(
    deps: StorageDeps,
    lock: DiskLock,
    superblock: SuperblockFile,
    facts: StoreFile & { created: boolean; clean: boolean; previousBootId: string },
  ) {
    this.deps = deps;
    this.health = new Health(deps.telemetry, deps.fatal);
    this.lock = lock;
    this.superblock = superblock;
    this.nodeId = facts.nodeId;
    this.diskId = facts.diskId;
    this.created = facts.created;
    this.clean = facts.clean;
    this.previousBootId = facts.previousBootId;
    this.incarnation = superblock.current.incarnation;
    deps.telemetry.observeGauge('rivulet_log_mapped_bytes', 'Bytes of log and index files mapped into memory.', () =>
      [...this.logs].reduce((sum, log) => sum + (log.isClosed ? 0 : log.mappedBytes), 0),
    );
  }

  static async open(deps: StorageDeps, options: StoreOptions): Promise<Store> {
    const lock = await takeLock(deps);
    try {
      const existing = await readStoreFile(deps);
      if (existing !== undefined && existing.nodeId !== options.nodeId) {
        throw new FatalError(
          'DATA_DIR_UNUSABLE',
          `The data directory belongs to node ${String(existing.nodeId)}, not to node ${String(options.nodeId)}.`,
        );
      }
      const { file, loaded } = await SuperblockFile.open(deps);
      if (loaded.kind === 'damaged' || (loaded.kind === 'absent' && existing !== undefined && (await hasLogs(deps)))) {
        throw new FatalError(
          'STORE_DAMAGED',
          'The superblock is lost: what this node voted for is not known. Use segtool verify.',
        );
      }
      const clean = loaded.kind === 'ok' && loaded.superblock.clean;
      const previousBootId = loaded.kind === 'ok' ? loaded.superblock.bootId : '';
      // The clean marker is gone before anything else is written.
      await file.write({ incarnation: file.current.incarnation + 1, bootId: options.bootId, clean: false });
      await deps.disk.syncDirectory('');
      const facts = existing ?? (await createStoreFile(deps, options));
      return new Store(deps, lock, file, {
        ...facts,
        created: existing === undefined,
        clean: clean || existing === undefined,
        previousBootId,
      });
    } catch (error) {
      await lock.release();
      throw asFatal(error);
    }
  }

  get vote(): NodeVote {
    return { term: this.superblock.current.term, vote: this.superblock.current.vote };
  }
  /** Durable when it resolves. */
  writeVote(vote: NodeVote): Promise<void> {
    assert(vote.term >= this.vote.term, `term went back from ${String(this.vote.term)} to ${String(vote.term)}`);
    return this.health.guard('writing the superblock failed', () =>
      this.superblock.write({ term: vote.term, vote: vote.vote }),
    );
  }

  partitionDirectory(topicId: string, partition: number): string {
    assert(
      /^[0-9a-f]{32}$/.test(topicId) && Number.isSafeInteger(partition) && partition >= 0,
      `not a partition: ${topicId} ${String(partition)}`,
    );
    return `${TOPICS}/${topicId}/${String(partition)}`;
  }

  async openMetaLog(config: LogConfig): Promise<PartitionLog> {
    return await this.openLog(META_LOG, { ...config, fsync: 'always' });
  }
  /** Opens (recovering) or creates the log of a partition. `topicName` is kept as a hint for people. */
  async openPartition(topicId: string, partition: number, topicName: string, config: LogConfig): Promise<PartitionLog> {
    const log = await this.openLog(this.partitionDirectory(topicId, partition), config);
    if (isTopicName(topicName)) {
      // Partitions of a topic are opened side by side: the first one writes for all.
      const writing = this.hints.get(topicId) ?? this.writeHint(topicId, topicName);
      this.hints.set(topicId, writing);
      await writing.finally(() => this.hints.delete(topicId));
    }
    return log;
  }

  private async writeHint(topicId: string, topicName: string): Promise<void> {
    const hint = `${TOPICS}/${topicId}/name`;
    try {
      await this.health.guardSpace('writing a name hint failed', async () => {
        if (!(await this.deps.disk.exists(hint)))
          await writeSmallFile(this.deps.disk, hint, utf8Encode(`${topicName}\n`));
      });
    } catch (error) {
      // Nothing depends on it: it is written when the partition is opened the next time.
      if (!isPressure(error)) throw error;
    }
  }

  /** All partition directories on disk. */
  async listPartitions(): Promise<readonly PartitionDirectory[]> {
    const { disk } = this.deps;
    const found: PartitionDirectory[] = [];
    if (!(await disk.exists(TOPICS))) return found;
    for (const topic of await disk.readDirectory(TOPICS)) {
      if (topic.kind !== 'directory' || !/^[0-9a-f]{32}$/.test(topic.name)) continue;
      for (const entry of await disk.readDirectory(`${TOPICS}/${topic.name}`)) {
        const partition = /^(0|[1-9]\d{0,9})$/.test(entry.name) ? Number(entry.name) : -1;
        if (entry.kind === 'directory' && partition >= 0)
          found.push({ topicId: topic.name, partition, path: `${TOPICS}/${topic.name}/${entry.name}` });
      }
    }
    return found;
  }

  /** Moves a directory that metadata does not know to quarantine; never deletes. Left to the next start under pressure. */
  async setAside(directory: string, reason: string): Promise<void> {
    this.checkClosed(directory);
    try {
      await this.health.guardSpace('setting a directory aside failed', async () => {
        const copy = await quarantineMove(this.deps, directory, reason, 0);
        await this.deps.disk.syncDirectory(parentOf(directory));
        this.deps.telemetry.log('warn', 'store.set-aside', { directory, reason, copy });
      });
    } catch (error) {
      if (!isPressure(error)) throw error;
      this.deps.telemetry.log('warn', 'store.not-set-aside', { directory, reason: String(error) });
    }
  }

  /** Removes the files of a partition whose topic was deleted. The log must be closed. Safe to repeat, as after pressure, which is thrown on. */
  async removePartition(topicId: string, partition: number): Promise<void> {
    const directory = this.partitionDirectory(topicId, partition);
    this.checkClosed(directory);
    await this.health.guardSpace('removing a partition failed', async () => {
      const doomed = `${directory}.deleted`;
      if (await this.deps.disk.exists(directory)) {
        await this.deps.disk.rename(directory, doomed);
        await this.deps.disk.syncDirectory(parentOf(directory));
      }
      await removeTree(this.deps, doomed);
      const topic = parentOf(directory);
      if (!(await this.deps.disk.exists(topic))) return;
      const left = (await this.deps.disk.readDirectory(topic)).filter((entry) => entry.name !== 'name');
      if (left.length > 0) return;
      await unlinkIfThere(this.deps.disk, `${topic}/name`);
      await this.deps.disk.removeDirectory(topic);
      await this.deps.disk.syncDirectory(TOPICS);
    });
  }

  /** Closes the logs still open, then writes the clean marker, last. */
  close(how: { readonly clean: boolean }): Promise<void> {
    this.closing ??= this.closeOnce(how.clean);
    return this.closing;
  }

  private async openLog(directory: string, config: LogConfig): Promise<PartitionLog> {
    this.checkClosed(directory);
    const log = await PartitionLog.open(this.deps, directory, config, { clean: this.clean, create: true });
    this.logs.add(log);
    return log;
  }
  private checkClosed(directory: string): void {
    for (const log of this.logs) assert(log.directory !== directory || log.isClosed, `the log ${directory} is open`);
  }

  private async closeOnce(clean: boolean): Promise<void> {
    for (const log of this.logs) await log.close({ clean });
    if (clean && ![...this.logs].some((log) => log.failed)) {
      await this.health.guard('writing the clean marker failed', () => this.superblock.write({ clean: true }));
    }
    await this.superblock.close();
    await this.lock.release();
  }
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

async function takeLock(deps: StorageDeps): Promise<DiskLock> {
  try {
    return await deps.disk.lock('lock');
  } catch (error) {
    if (error instanceof DiskError && error.kind === 'locked')
      throw new FatalError('DATA_DIR_LOCKED', `Another process uses the data directory: ${error.message}`, error);
    throw asFatal(error);
  }
}

function asFatal(error: unknown): unknown {
  if (!(error instanceof DiskError)) return error;
  return new FatalError(
    error.kind === 'io' ? 'STORAGE_FAILED' : 'DATA_DIR_UNUSABLE',
    `The data directory cannot be used: ${error.message}`,
    error,
  );
}

async function hasLogs(deps: StorageDeps): Promise<boolean> {
  return (await deps.disk.exists(META_LOG)) || (await deps.disk.exists(TOPICS));
}

async function readStoreFile(deps: StorageDeps): Promise<StoreFile | undefined> {
  const bytes = await readSmallFile(deps.disk, STORE_FILE, STORE_FILE_BYTES_MAX);
  if (bytes === undefined) return undefined;
  const decoded = decodeStoreFile(bytes, deps.crc32c);
  if (!decoded.ok)
    throw new FatalError('STORE_DAMAGED', `${STORE_FILE} cannot be read: ${decoded.reason}. Use segtool verify.`);
  const { value } = decoded;
  if (value.kind === 'known') return value;
  throw new FatalError(
    'FORMAT_TOO_NEW',
    `The data directory has format ${String(value.formatVersion)}; this version knows up to ${String(FORMAT_VERSION)}.`,
  );
}

async function createStoreFile(deps: StorageDeps, options: StoreOptions): Promise<StoreFile> {
  const diskId = [...deps.random.bytes(16)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  const content: StoreFile = { formatVersion: FORMAT_VERSION, nodeId: options.nodeId, diskId };
  await makeDurableDirectory(deps, TOPICS);
  await writeSmallFile(deps.disk, STORE_FILE, encodeStoreFile(content, deps.crc32c));
  await deps.disk.syncDirectory('');
  return content;
}

async function removeTree(deps: StorageDeps, directory: string): Promise<void> {
  let entries;
  try {
    entries = await deps.disk.readDirectory(directory);
  } catch (error) {
    if (isNotFound(error)) return;
    throw error;
  }
  for (const entry of entries) {
    const path = `${directory}/${entry.name}`;
    if (entry.kind === 'directory') await removeTree(deps, path);
    else await deps.disk.unlink(path);
  }
  await deps.disk.removeDirectory(directory);
}
