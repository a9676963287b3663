// One partition on this node: its log, what is committed of it, and what it remembers of its producers.
import { NO_TIMESTAMP, offset, type LeaderEpoch, type Offset, type TopicId } from '../base/brands.ts';
import type { ErrorName } from '../base/errors.ts';
import type { PartitionState } from '../core/metadata/image.ts';
import { findDivergence } from '../core/partition/divergence.ts';
import { decodeProducerSnapshot, encodeProducerSnapshot } from '../core/partition/producer-snapshot.ts';
import { PRODUCERS_MAX_DEFAULT, ProducerTable } from '../core/partition/producers.ts';
import { highWatermark, type MemberProgress } from '../core/partition/watermark.ts';
import { encodeEpochStart } from '../format/records.ts';
import { checkBatch } from '../format/batch.ts';
import { assert } from '../base/assert.ts';
import type { TopicSettings } from '../protocol/topic-config.ts';
import type { LogConfig, StorageDeps } from '../storage/config.ts';
import { Health } from '../storage/health.ts';
import type { PartitionLog } from '../storage/log.ts';
import type {
  FetchCall,
  FetchOutcome,
  LogPlace,
  OffsetAt,
  OffsetOutcome,
  ProduceCall,
  ProduceFailure,
  Replica,
} from './contract.ts';
import { leaveProducerFile, takeProducerFile } from './producer-file.ts';
import { PendingProduces } from './pending-produces.ts';
import { logConfigOf, type ReplicaMetrics } from './replica-settings.ts';
import { judgeRequest } from './sequence-check.ts';

export interface ReplicaOptions {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly nodeId: number;
  readonly state: PartitionState;
  readonly settings: TopicSettings;
  /** The node's own; the topic's settings go over it. */
  readonly logConfig: LogConfig;
  readonly metrics: ReplicaMetrics;
  readonly producersMax?: number;
  readonly pendingMax?: number;
  readonly listenersMax?: number;
}

const PENDING_MAX_DEFAULT = 16_384;
const LISTENERS_MAX_DEFAULT = 8192;
const NO_ROOM_WAIT: { readonly room: Promise<void> | undefined } = { room: undefined };

export class PartitionReplica implements Replica {
  readonly topicId: TopicId;
  readonly partition: number;
  private readonly deps: StorageDeps;
  private readonly log: PartitionLog;
  private readonly options: ReplicaOptions;
  private readonly pending: PendingProduces;
  private readonly listenersMax: number;
  private readonly listeners = new Set<() => void>();
  private readonly producers: ProducerTable;
  private evictedSeen = 0;
  private current: PartitionState;
  private settings: TopicSettings;
  private committed: Offset;
  /** The epoch whose first batch is in the log, or that needs none. */
  private begun: LeaderEpoch | undefined;
  private beginning: Promise<void> | undefined;
  private ended: 'SHUTTING_DOWN' | 'UNKNOWN_TOPIC' | undefined;
  private nowMs = 0;

  private constructor(deps: StorageDeps, log: PartitionLog, options: ReplicaOptions, producers: ProducerTable) {
    this.deps = deps;
    this.log = log;
    this.options = options;
    this.topicId = options.topicId;
    this.partition = options.partition;
    this.current = options.state;
    this.settings = options.settings;
    this.producers = producers;
    this.pending = new PendingProduces(options.pendingMax ?? PENDING_MAX_DEFAULT);
    this.listenersMax = options.listenersMax ?? LISTENERS_MAX_DEFAULT;
    this.committed =
      log.checkpointedHighWatermark < log.logEndOffset ? log.checkpointedHighWatermark : log.logEndOffset;
    this.nowMs = deps.clock.bootMs();
    log.onRoll = (base): Uint8Array | undefined =>
      encodeProducerSnapshot(this.producers, base, deps.clock.bootMs(), deps.crc32c);
    log.onAdvance = (): void => {
      this.advance();
    };
  }

  /** Rebuilds what is remembered of producers and, as the leader of a new epoch, begins it in the log. */
  static async open(deps: StorageDeps, log: PartitionLog, options: ReplicaOptions): Promise<PartitionReplica> {
    const producers = await rebuildProducers(deps, log, options);
    const replica = new PartitionReplica(deps, log, options, producers);
    await replica.beginEpoch();
    replica.advance();
    return replica;
  }

  get state(): PartitionState {
    return this.current;
  }
  get isLeader(): boolean {
    return this.ended === undefined && this.current.leader === this.options.nodeId;
  }
  get leaderEpoch(): LeaderEpoch {
    return this.current.leaderEpoch;
  }
  get logStartOffset(): Offset {
    return this.log.logStartOffset;
  }
  get logEndOffset(): Offset {
    return this.log.logEndOffset;
  }
  get syncedOffset(): Offset {
    return this.log.syncedOffset;
  }
  get highWatermark(): Offset {
    return this.committed;
  }
  get sizeInBytes(): number {
    return this.log.sizeInBytes;
  }
  get damaged(): PartitionLog['damaged'] {
    return this.log.damaged;
  }
  get maxBatchBytes(): number {
    return this.settings.maxBatchBytes;
  }
  get pendingProduces(): number {
    return this.pending.length;
  }
  get producerCount(): number {
    return this.producers.size;
  }
  get oldestUncommittedMs(): number {
    const oldest = this.pending.oldestMs;
    return oldest === undefined ? 0 : Math.max(0, this.nowMs - oldest);
  }

  produce(call: ProduceCall): { readonly room: Promise<void> | undefined } {
    const refused = this.refuseProduce(call);
    if (refused !== undefined) {
      call.done(refused);
      return NO_ROOM_WAIT;
    }
    const verdict = judgeRequest(this.producers, call.batches);
    if (verdict.kind === 'rejected') {
      this.options.metrics.sequencesRejected.add();
      call.done(verdict.failure);
      return NO_ROOM_WAIT;
    }
    if (verdict.kind === 'duplicate') {
      this.options.metrics.duplicates.add(call.batches.length);
      this.answer(call, verdict.baseOffset, verdict.lastOffset, true);
      return NO_ROOM_WAIT;
    }
    return this.append(call);
  }

  fetch(call: FetchCall): FetchOutcome {
    const { log } = this;
    const code = this.refuseReader(call.currentLeaderEpoch);
    if (code !== undefined) return { kind: 'failed', code, leader: this.current.leader };
    if (call.offset < log.logStartOffset) return { kind: 'failed', code: 'OFFSET_EXPIRED' };
    const divergence = findDivergence(log.epochs, log.logEndOffset, call.offset, call.lastFetchedEpoch);
    if (divergence !== undefined)
      return {
        kind: 'failed',
        code: 'LOG_TRUNCATED',
        resumeOffset: divergence.endOffset,
        resumeEpoch: divergence.epoch,
      };
    if (call.offset > log.logEndOffset) return { kind: 'failed', code: 'OFFSET_BEYOND_END' };
    if (call.offset >= this.committed) return { kind: 'empty' };
    const result = log.read(call.offset, call.maxBytes, this.committed);
    switch (result.kind) {
      case 'slices':
      case 'empty':
      case 'cold':
        return result;
      case 'expired':
        return { kind: 'failed', code: 'OFFSET_EXPIRED' };
      case 'beyond':
        return { kind: 'failed', code: 'OFFSET_BEYOND_END' };
      case 'damaged':
        return { kind: 'failed', code: 'DAMAGED_RANGE', damagedFrom: result.from, resumeOffset: result.to };
    }
  }

  prepare(from: Offset, maxBytes: number): Promise<void> {
    return this.log.prepare(from, maxBytes);
  }

  placeOf(at: Offset): Promise<LogPlace> {
    return this.log.placeOf(at);
  }

  async listOffset(at: OffsetAt, currentLeaderEpoch: number): Promise<OffsetOutcome> {
    const code = this.refuseReader(currentLeaderEpoch);
    if (code !== undefined) return { ok: false, code, leader: this.current.leader };
    const answer = (from: Offset, timestamp: typeof NO_TIMESTAMP = NO_TIMESTAMP): OffsetOutcome => ({
      ok: true,
      offset: from,
      timestamp,
      leaderEpoch: this.leaderEpoch,
    });
    if (at === 'earliest') return answer(this.log.logStartOffset);
    if (at === 'latest') return answer(this.committed);
    const found = await this.log.offsetForTimestamp(at);
    const gone = this.refuseReader(currentLeaderEpoch);
    if (gone !== undefined) return { ok: false, code: gone, leader: this.current.leader };
    return found === undefined || found.offset >= this.committed
      ? answer(this.committed)
      : answer(found.offset, found.timestamp);
  }

  onAdvance(listener: () => void): (() => void) | undefined {
    if (this.listeners.size >= this.listenersMax) return undefined;
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }

  /** Timeouts of produces. */
  tick(nowMs: number): void {
    this.nowMs = nowMs;
    this.pending.expire(nowMs, this.options.metrics.commitTimeouts);
    if (this.begun !== this.leaderEpoch && this.isLeader) this.beginEpochInBackground();
  }

  /** Removes what retention allows, and producers that have been silent for long. */
  async retain(): Promise<void> {
    if (this.ended !== undefined) return;
    this.options.metrics.producersExpired.add(
      this.producers.expire(this.deps.clock.bootMs(), this.settings.producerExpiryMs),
    );
    await this.log.retain(this.deps.clock.wallMs());
  }

  /** Metadata has changed. */
  update(state: PartitionState, settings: TopicSettings): void {
    const { nodeId } = this.options;
    const lost = this.isLeader && (state.leader !== nodeId || state.leaderEpoch !== this.leaderEpoch);
    this.current = state;
    this.settings = settings;
    this.log.updateConfig(logConfigOf(this.options.logConfig, settings));
    if (lost) {
      this.pending.abandon('LEADERSHIP_LOST');
      this.notify();
    }
    if (this.isLeader && this.begun !== this.leaderEpoch) this.beginEpochInBackground();
    this.advance();
  }

  /** New work is refused. What was appended is still answered when it commits, unless the topic is gone. */
  end(why: 'SHUTTING_DOWN' | 'UNKNOWN_TOPIC'): void {
    if (this.ended !== undefined) return;
    this.ended = why;
    if (why === 'UNKNOWN_TOPIC') this.pending.abandon('LEADERSHIP_LOST');
    this.notify();
  }

  /**
   * Before the log is closed cleanly: everything that there is room for is durable and answered, and the producers are kept for
   * the next start.
   */
  async settle(): Promise<void> {
    if (this.beginning !== undefined) await this.beginning;
    await this.log.finish();
    this.advance();
    const { deps, log } = this;
    const bytes = encodeProducerSnapshot(this.producers, log.logEndOffset, deps.clock.bootMs(), deps.crc32c);
    if (bytes !== undefined) await leaveProducerFile(deps, new Health(deps.telemetry, deps.fatal), log, bytes);
  }
  async closeLog(clean: boolean): Promise<void> {
    if (this.beginning !== undefined) await this.beginning;
    await this.log.close({ clean });
  }

  private refuseReader(currentLeaderEpoch: number): ErrorName | undefined {
    if (this.ended !== undefined) return this.ended;
    if (!this.isLeader) return 'NOT_LEADER';
    if (currentLeaderEpoch < 0 || currentLeaderEpoch === this.leaderEpoch) return undefined;
    return currentLeaderEpoch < this.leaderEpoch ? 'FENCED_LEADER_EPOCH' : 'UNKNOWN_LEADER_EPOCH';
  }

  private refuseProduce(call: ProduceCall): ProduceFailure | undefined {
    const code = this.refuseReader(call.leaderEpoch);
    if (code !== undefined)
      return { ok: false, code, message: undefined, leader: this.current.leader, leaderEpoch: this.leaderEpoch };
    if (this.begun !== this.leaderEpoch) return failure('PARTITION_OFFLINE', 'the leader epoch is being begun');
    if (this.current.inSync.length < this.settings.minInsyncReplicas) {
      return failure(
        'NOT_ENOUGH_REPLICAS',
        `${String(this.current.inSync.length)} in sync, min.insync.replicas is ${String(this.settings.minInsyncReplicas)}`,
      );
    }
    if (this.pending.full)
      return failure('TOO_MANY_REQUESTS', 'too many produces of this partition wait for their commit');
    for (const { header, size } of call.batches) {
      if (header.isControl) return failure('INVALID_BATCH', 'a client may not send control batches');
      if (size > this.settings.maxBatchBytes)
        return failure(
          'BATCH_TOO_LARGE',
          `a batch of ${String(size)} bytes, max.batch.bytes is ${String(this.settings.maxBatchBytes)}`,
        );
    }
    return call.batches.length === 0 ? failure('INVALID_BATCH', 'no batch') : undefined;
  }

  private append(call: ProduceCall): { readonly room: Promise<void> | undefined } {
    const result = this.log.append(call.bytes, call.batches, this.leaderEpoch);
    if (!result.ok) {
      // After a failure of the storage no answer leaves: the process ends.
      if (this.log.failed) return NO_ROOM_WAIT;
      call.done(failure(result.code === 'STORAGE_FAILED' ? 'SHUTTING_DOWN' : result.code, undefined));
      return NO_ROOM_WAIT;
    }
    this.remember(call, result.baseOffset);
    if (call.acks === 'leader' && result.whenWritten !== undefined)
      this.answerWhenWritten(call, result.baseOffset, result.lastOffset, result.whenWritten);
    else {
      // Where nothing waits for the disk it is committed by now.
      if (this.log.config.fsync !== 'always') this.advance();
      this.answer(call, result.baseOffset, result.lastOffset, false);
    }
    return result.room === undefined ? NO_ROOM_WAIT : { room: result.room };
  }

  private remember(call: ProduceCall, baseOffset: Offset): void {
    let at: number = baseOffset;
    for (const { header } of call.batches) {
      if (header.producerId >= 0) this.producers.record(header, offset(at), this.deps.clock.bootMs());
      at += header.lastOffsetDelta + 1;
    }
    if (this.producers.evicted !== this.evictedSeen) {
      this.options.metrics.producersEvicted.add(this.producers.evicted - this.evictedSeen);
      this.evictedSeen = this.producers.evicted;
    }
  }

  /** A repeated batch is answered as the first one was, and not before it: it could still be lost. */
  private answer(call: ProduceCall, baseOffset: Offset, lastOffset: Offset, duplicate: boolean): void {
    const { leaderEpoch } = this;
    const written = lastOffset < this.log.writtenOffset;
    if (lastOffset < this.committed || (call.acks === 'leader' && written)) {
      call.done({ ok: true, baseOffset, lastOffset, leaderEpoch, logStartOffset: this.log.logStartOffset, duplicate });
      return;
    }
    const sinceMs = this.deps.clock.bootMs();
    this.pending.add({
      baseOffset,
      lastOffset,
      leaderEpoch,
      duplicate,
      sinceMs,
      deadlineMs: sinceMs + call.timeoutMs,
      done: call.done,
    });
  }

  private answerWhenWritten(
    call: ProduceCall,
    baseOffset: Offset,
    lastOffset: Offset,
    whenWritten: Promise<void>,
  ): void {
    const { leaderEpoch } = this;
    const answer = (): void => {
      call.done({
        ok: true,
        baseOffset,
        lastOffset,
        leaderEpoch,
        logStartOffset: this.log.logStartOffset,
        duplicate: false,
      });
    };
    // It stays pending when the storage has failed, and never rejects.
    whenWritten.then(answer, () => undefined);
  }

  private advance(): void {
    const { log } = this;
    if (this.current.leader !== this.options.nodeId || log.failed) return;
    const members = this.memberProgress();
    const next = highWatermark(this.committed, members, this.settings.minInsyncReplicas, log.config.fsync === 'always');
    if (next === this.committed) return;
    this.committed = next;
    log.setHighWatermark(next);
    this.pending.committed(next, log.logStartOffset);
    this.notify();
  }

  /** One node holds every copy there is; followers will report theirs. */
  private memberProgress(): readonly MemberProgress[] {
    return [{ written: this.log.writtenOffset, synced: this.log.syncedOffset }];
  }

  private notify(): void {
    // A copy: who is called may listen anew at once, and is not called again for it.
    if (this.listeners.size > 0) for (const listener of Array.from(this.listeners)) listener();
  }

  private beginEpochInBackground(): void {
    if (this.beginning !== undefined || this.log.failed || this.log.isClosed) return;
    this.beginning = this.beginEpoch().then(
      () => {
        this.beginning = undefined;
        this.notify();
      },
      (error: unknown) => {
        this.beginning = undefined;
        // Storage has said why it failed, and the process is ending.
        if (!this.log.failed)
          this.deps.telemetry.log('error', 'replica.epoch-not-begun', {
            topicId: this.topicId,
            partition: this.partition,
            reason: String(error),
          });
      },
    );
  }

  /**
   * Everything of an epoch stands behind its first batch, so that a reader whose records were lost can be told. Left undone
   * when the disk is full: then the partition is read, and not written, until there is room.
   */
  private async beginEpoch(): Promise<void> {
    const { log, deps } = this;
    const epoch = this.leaderEpoch;
    if (!this.isLeader || this.begun === epoch) return;
    const last = log.epochs.at(-1)?.epoch ?? -1;
    if (log.logEndOffset > 0 && last < epoch) {
      const bytes = encodeEpochStart(epoch, this.options.nodeId, deps.clock.wallMs(), deps.crc32c);
      const checked = checkBatch(bytes, 0, deps.crc32c);
      assert(checked.ok, 'what was encoded just now is a batch');
      if (!log.append(bytes, [{ at: 0, size: checked.size, header: checked.header }], epoch).ok) return;
    }
    // Of an earlier try it may still wait for room: neither a start nor a stop waits with it.
    if (!(await log.syncUnlessFull())) return;
    if (epoch === this.leaderEpoch) this.begun = epoch;
  }
}

function failure(code: ErrorName, message: string | undefined): ProduceFailure {
  return { ok: false, code, message };
}

async function rebuildProducers(deps: StorageDeps, log: PartitionLog, options: ReplicaOptions): Promise<ProducerTable> {
  const nowMs = deps.clock.bootMs();
  const max = options.producersMax ?? PRODUCERS_MAX_DEFAULT;
  const left = await takeProducerFile(deps, new Health(deps.telemetry, deps.fatal), log);
  const kept = left === undefined ? undefined : decodeProducerSnapshot(left, nowMs, max, deps.crc32c);
  if (kept?.ok === true && kept.covers === log.logEndOffset) return kept.table;
  let table = new ProducerTable(max);
  let from = log.logStartOffset;
  const snapshot = await log.latestSnapshot();
  if (snapshot !== undefined) {
    const restored = decodeProducerSnapshot(snapshot.bytes, nowMs, max, deps.crc32c);
    if (restored.ok && restored.covers <= log.logEndOffset) {
      table = restored.table;
      from = restored.covers;
    } else
      deps.telemetry.log('warn', 'replica.producers-rebuilt', {
        topicId: options.topicId,
        partition: options.partition,
        reason: restored.ok ? 'the snapshot is ahead of the log' : restored.reason,
      });
  }
  await log.scanHeaders(from, (header) => {
    if (header.producerId >= 0 && !header.isControl && header.baseOffset >= from)
      table.record(header, offset(header.baseOffset), nowMs);
  });
  return table;
}
