// The data directory: who owns it, what wrote it, and whether it was stopped cleanly.
import type { LogConfig, StorageDeps } from './config.ts';
import type { PartitionLog } from './log.ts';

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

/** The lowest free bytes, names and identities of one data directory. Fatal conditions are thrown as FatalError. */
export declare class Store {
  static open(deps: StorageDeps, options: StoreOptions): Promise<Store>;
  readonly formatVersion: number;
  readonly nodeId: number;
  /** 32 hex digits; a new disk has another. */
  readonly diskId: string;
  /** True when the store did not exist before. */
  readonly created: boolean;
  /** The last run stopped cleanly. */
  readonly clean: boolean;
  /** Counts the starts of this store; rises by one at each open. */
  readonly incarnation: number;
  readonly previousBootId: string;
  get vote(): NodeVote;
  /** Durable when it resolves. */
  writeVote(vote: NodeVote): Promise<void>;
  /** `meta-log` */
  readonly metaLogDirectory: string;
  partitionDirectory(topicId: string, partition: number): string;
  openMetaLog(config: LogConfig): Promise<PartitionLog>;
  /** Opens (recovering) or creates the log of a partition. `topicName` is kept as a hint for people. */
  openPartition(topicId: string, partition: number, topicName: string, config: LogConfig): Promise<PartitionLog>;
  /** All partition directories on disk. */
  listPartitions(): Promise<readonly PartitionDirectory[]>;
  /** Moves a directory that metadata does not know to quarantine; never deletes. */
  setAside(directory: string, reason: string): Promise<void>;
  /** Removes the files of a partition whose topic was deleted. The log must be closed. Safe to repeat. */
  removePartition(topicId: string, partition: number): Promise<void>;
  /** Closes the logs still open, then writes the clean marker last. */
  close(how: { readonly clean: boolean }): Promise<void>;
}
