// Removing the head: by time, by size, or because the owner says so. The log start is durable before a file goes.
import { offset, type Offset } from '../base/brands.ts';
import type { CheckpointFile } from './checkpoint-file.ts';
import { isNotFound, isPressure } from './health.ts';
import type { LogState } from './log-state.ts';
import type { Preallocator } from './preallocate.ts';
import { loadFacts } from './segment-loader.ts';
import { sidePath } from './sealing.ts';
import type { Segment } from './segment.ts';
import { unlinkIfThere } from './small-file.ts';

/** The wall clock has jumped when it moved by so much more or less than the monotonic one. */
const JUMP_MS = 60_000;
/** Time retention waits so long after a jump, and after the machine was switched on. */
const STABLE_MS = 600_000;

export class Retention {
  private readonly state: LogState;
  private readonly checkpoint: CheckpointFile;
  private readonly preallocator: Preallocator;
  private lastWallMs: number;
  private lastBootMs: number;
  private pausedUntilBootMs = 0;
  /** The log start is durable up to here. */
  private recordedStart: Offset;

  constructor(state: LogState, checkpoint: CheckpointFile, preallocator: Preallocator) {
    this.state = state;
    this.checkpoint = checkpoint;
    this.preallocator = preallocator;
    this.recordedStart = state.logStart;
    // A jump before the first look is one, too.
    this.lastWallMs = state.deps.clock.wallMs();
    this.lastBootMs = state.deps.clock.bootMs();
    // A machine that was just switched on may not have been told the time yet.
    if (this.lastBootMs < STABLE_MS) this.pausedUntilBootMs = STABLE_MS;
  }

  /** The active segment has been idle longer than records are kept: it is to be rolled, so that it can go. */
  activeIsOld(nowMs: number): boolean {
    const { state } = this;
    const { retentionMs } = state.config;
    const { active } = state;
    if (retentionMs < 0 || active.size === 0 || this.timePaused(nowMs)) return false;
    const { maxTimestamp } = active.facts ?? { maxTimestamp: -1 };
    const seen = active.lastAppendMs >= 0 ? active.lastAppendMs : nowMs;
    return nowMs - (ageBase(maxTimestamp, seen, nowMs) ?? nowMs) > retentionMs;
  }

  async retain(nowMs: number): Promise<void> {
    const { state } = this;
    const { retentionMs, retentionBytes } = state.config;
    const paused = this.timePaused(nowMs);
    if (retentionMs < 0 && retentionBytes < 0) return;
    for (const segment of state.segments) if (segment.facts === undefined) await loadFacts(state, segment);
    let bytes = state.segments.reduce((sum, segment) => sum + (segment.facts?.size ?? 0), 0);
    let start: Offset | undefined;
    const ages = this.ages(nowMs);
    for (const [index, segment] of state.segments.entries()) {
      const { facts } = segment;
      if (!segment.sealed || facts === undefined) break;
      const tooOld = retentionMs >= 0 && !paused && (ages[index] ?? 0) > retentionMs;
      // As Kafka: a segment goes when what stays is still at least the limit.
      const tooMuch = retentionBytes >= 0 && bytes - facts.size >= retentionBytes;
      if (!tooOld && !tooMuch) break;
      bytes -= facts.size;
      start = segment.nextOffset;
    }
    if (start !== undefined) await this.deleteTo(start);
  }

  /** Of each segment. One whose own clocks are not believed is at least as old as the one behind it. */
  private ages(nowMs: number): readonly number[] {
    const ages: number[] = [];
    let age = 0;
    for (const { facts, lastAppendMs } of this.state.segments.toReversed()) {
      const closedMs = facts === undefined || facts.rolledMs < 0 ? lastAppendMs : facts.rolledMs;
      const base = ageBase(facts?.maxTimestamp ?? -1, closedMs, nowMs);
      if (base !== undefined) age = nowMs - base;
      ages.push(age);
    }
    return ages.toReversed();
  }

  /** Inside `exclusive`. */
  async deleteTo(start: Offset): Promise<void> {
    const { state } = this;
    const to = offset(Math.min(start, state.written));
    if (to > state.logStart) state.moveLogStart(to);
    if (state.logStart > this.recordedStart) {
      await this.checkpoint.recordAgain();
      this.recordedStart = state.logStart;
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
    segment.retireMapping();
    const bytes = segment.facts?.size ?? 0;
    state.metrics.retainedBytes.add(bytes);
    telemetry.log('info', 'log.segment-removed', { directory: state.directory, baseOffset: segment.baseOffset, bytes });
    await state.health.guard('removing a segment failed', async () => {
      await segment.close();
      for (const suffix of ['index', 'timeindex', 'seal'] as const)
        await unlinkIfThere(disk, sidePath(state, segment, suffix));
      // Bytes that somebody still reads must not be written over.
      const spare = segment.slicesOut.count === 0 && this.preallocator.wantsSpare;
      const target = `${segment.path}.${spare ? 'spare' : 'deleted'}`;
      try {
        await disk.rename(segment.path, target);
      } catch (error) {
        if (isNotFound(error)) return;
        if (!isPressure(error)) throw error;
        // A new name takes room in the directory that is not there.
        await disk.unlink(segment.path);
        await disk.syncDirectory(state.directory);
        return;
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

/** 2020-01-01 UTC. What is stamped earlier was stamped by a clock that had not been set: such machines begin at 1970. */
const CLOCKS_SET_AFTER_MS = 1_577_836_800_000;

/**
 * The largest timestamp says how old a segment is. One that lies in the future is not believed: the producer's clock is
 * ahead; nor is one of a clock that was never set. The segment is as old as the last append to it then. Undefined: that is
 * not believed either.
 */
export function ageBase(maxTimestamp: number, closedMs: number, nowMs: number): number | undefined {
  return [maxTimestamp, closedMs].find((ms) => ms >= CLOCKS_SET_AFTER_MS && ms <= nowMs);
}
