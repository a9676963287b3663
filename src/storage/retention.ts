// Removing the head: by time, by size, or because the owner says so. The log start is durable before a file goes.
import { offset, type Offset } from '../base/brands.ts';
import type { CheckpointFile } from './checkpoint-file.ts';
import { isNotFound } from './health.ts';
import type { LogState } from './log-state.ts';
import type { Preallocator } from './preallocate.ts';
import { loadFacts } from './segment-loader.ts';
import { sidePath } from './sealing.ts';
import type { Segment } from './segment.ts';
import { unlinkIfThere } from './small-file.ts';

/** The wall clock has jumped when it moved by so much more or less than the monotonic one. */
const JUMP_MS = 60_000;
/** Time retention waits so long after a jump. */
const STABLE_MS = 600_000;

export class Retention {
  private readonly state: LogState;
  private readonly checkpoint: CheckpointFile;
  private readonly preallocator: Preallocator;
  private lastWallMs: number;
  private lastBootMs: number;
  private pausedUntilBootMs = 0;

  constructor(state: LogState, checkpoint: CheckpointFile, preallocator: Preallocator) {
    this.state = state;
    this.checkpoint = checkpoint;
    this.preallocator = preallocator;
    // A jump before the first look is one, too.
    this.lastWallMs = state.deps.clock.wallMs();
    this.lastBootMs = state.deps.clock.bootMs();
  }

  /** The active segment has been idle longer than records are kept: it is to be rolled, so that it can go. */
  activeIsOld(nowMs: number): boolean {
    const { state } = this;
    const { retentionMs } = state.config;
    const { active } = state;
    if (retentionMs < 0 || active.size === 0 || this.timePaused(nowMs)) return false;
    const { maxTimestamp } = active.facts ?? { maxTimestamp: -1 };
    const seen = active.lastAppendMs >= 0 ? active.lastAppendMs : nowMs;
    return nowMs - ageBase(maxTimestamp, seen, nowMs) > retentionMs;
  }

  async retain(nowMs: number): Promise<void> {
    const { state } = this;
    const { retentionMs, retentionBytes } = state.config;
    const paused = this.timePaused(nowMs);
    if (retentionMs < 0 && retentionBytes < 0) return;
    for (const segment of state.segments) if (segment.facts === undefined) await loadFacts(state, segment);
    let bytes = state.segments.reduce((sum, segment) => sum + (segment.facts?.size ?? 0), 0);
    let start: Offset | undefined;
    for (const segment of state.segments) {
      const { facts } = segment;
      if (!segment.sealed || facts === undefined) break;
      const tooOld =
        retentionMs >= 0 &&
        !paused &&
        nowMs - ageBase(facts.maxTimestamp, facts.rolledMs >= 0 ? facts.rolledMs : nowMs, nowMs) > retentionMs;
      // As Kafka: a segment goes when what stays is still at least the limit.
      const tooMuch = retentionBytes >= 0 && bytes - facts.size >= retentionBytes;
      if (!tooOld && !tooMuch) break;
      bytes -= facts.size;
      start = segment.nextOffset;
    }
    if (start !== undefined) await this.deleteTo(start);
  }

  /** Inside `exclusive`. */
  async deleteTo(start: Offset): Promise<void> {
    const { state } = this;
    const to = offset(Math.min(start, state.written));
    if (to > state.logStart) {
      state.moveLogStart(to);
      await this.checkpoint.recordAgain();
    }
    while (state.segments.length > 1) {
      const segment = state.segments[0];
      // What is not synced yet still has a sync coming, on its open file.
      if (segment === undefined || segment.nextOffset > Math.min(state.logStart, state.synced)) break;
      state.segments.shift();
      await this.remove(segment);
    }
  }

  private async remove(segment: Segment): Promise<void> {
    const { state } = this;
    const { disk, telemetry } = state.deps;
    segment.removed = true;
    state.cache.forget(segment);
    const inUse = (segment.mapped?.refs ?? 0) > 0;
    segment.retireMapping();
    const bytes = segment.facts?.size ?? 0;
    state.metrics.retainedBytes.add(bytes);
    telemetry.log('info', 'log.segment-removed', { directory: state.directory, baseOffset: segment.baseOffset, bytes });
    await state.health.guard('removing a segment failed', async () => {
      await segment.close();
      for (const suffix of ['index', 'timeindex', 'seal'] as const)
        await unlinkIfThere(disk, sidePath(state, segment, suffix));
      // Bytes that somebody still reads must not be written over.
      const spare = !inUse && this.preallocator.wantsSpare;
      const target = `${segment.path}.${spare ? 'spare' : 'deleted'}`;
      try {
        await disk.rename(segment.path, target);
      } catch (error) {
        if (isNotFound(error)) return;
        throw error;
      }
      if (spare) this.preallocator.addSpare(target);
      else await disk.unlink(target);
      await disk.syncDirectory(state.directory);
    });
  }

  private timePaused(nowMs: number): boolean {
    const bootMs = this.state.deps.clock.bootMs();
    const jump = nowMs - this.lastWallMs - (bootMs - this.lastBootMs);
    if (Math.abs(jump) > JUMP_MS) {
      this.pausedUntilBootMs = bootMs + STABLE_MS;
      this.state.deps.telemetry.log('warn', 'log.retention-paused', {
        directory: this.state.directory,
        jumpMs: Math.round(jump),
      });
    }
    this.lastWallMs = nowMs;
    this.lastBootMs = bootMs;
    return bootMs < this.pausedUntilBootMs;
  }
}

/**
 * The largest timestamp says how old a segment is. One that lies in the future is not believed: the producer's clock is
 * ahead, and the segment is as old as the last append to it.
 */
export function ageBase(maxTimestamp: number, closedMs: number, nowMs: number): number {
  return maxTimestamp >= 0 && maxTimestamp <= nowMs ? maxTimestamp : closedMs;
}
