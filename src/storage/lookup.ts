// Walks over checked batches: by time, and for the owner's state. Off the hot path, by positional reads.
import { assert } from '../base/assert.ts';
import { NO_TIMESTAMP, offset, position, timestampMs, type Offset } from '../base/brands.ts';
import type { HeaderVisit, LogPlace, TimestampLookup } from './contract.ts';
import { recordDamage } from './damage.ts';
import { walkFile, type WalkedBatch } from './file-walk.ts';
import type { LogState } from './log-state.ts';
import { ageBase } from './retention.ts';
import type { Segment } from './segment.ts';
import { loadFacts, loadForReading } from './segment-loader.ts';
import { withFile } from './sealing.ts';

/** The first batch, from the log start on, whose largest timestamp is at least the one asked for. */
export async function offsetForTimestamp(state: LogState, timestamp: number): Promise<TimestampLookup | undefined> {
  for (const segment of state.segments.slice()) {
    await loadFacts(state, segment);
    if (segment.removed || (segment.facts?.maxTimestamp ?? -1) < timestamp) continue;
    await loadForReading(state, segment);
    const relative = segment.index?.floorTime(timestamp) ?? 0;
    let found: TimestampLookup | undefined;
    await walkFrom(state, segment, Math.max(segment.baseOffset + relative, state.logStart), ({ header }) => {
      if (header.lastOffset < state.logStart || header.maxTimestamp < timestamp) return true;
      found = {
        offset: offset(Math.max(header.baseOffset, state.logStart)),
        timestamp: timestampMs(header.maxTimestamp),
      };
      return false;
    });
    if (found !== undefined) return found;
  }
  return undefined;
}

/** What lies between an offset and the end, and how long retention will leave the offset alone. */
export async function placeOf(state: LogState, at: Offset, nowMs: number): Promise<LogPlace> {
  const from = Math.max(at, state.logStart);
  const segments = state.segments.slice(Math.max(0, state.segmentIndexAt(offset(from))));
  for (const segment of segments) await loadFacts(state, segment);
  const [first, ...rest] = segments;
  const facts = first?.facts;
  if (first === undefined || facts === undefined || first.removed || from >= state.logEnd)
    return { bytesToEnd: 0, timestamp: NO_TIMESTAMP, retainedForMs: undefined, retainedForBytes: undefined };
  await loadForReading(state, first);
  let found = { position: 0, timestamp: -1 };
  await walkFrom(state, first, from, ({ header, position: start }) => {
    if (header.lastOffset < from) return true;
    found = { position: start, timestamp: header.baseTimestamp };
    return false;
  });
  const { retentionMs, retentionBytes } = state.config;
  const bytesAfter = rest.reduce((sum, segment) => sum + (segment.facts?.size ?? 0), 0);
  const seenMs = Math.max(facts.rolledMs, first.lastAppendMs);
  const born = ageBase(facts.maxTimestamp, seenMs, nowMs) ?? nowMs;
  return {
    bytesToEnd: facts.size - found.position + bytesAfter,
    timestamp: timestampMs(Math.max(-1, found.timestamp)),
    retainedForMs: retentionMs < 0 ? undefined : Math.max(0, born + retentionMs - nowMs),
    retainedForBytes: retentionBytes < 0 ? undefined : Math.max(0, retentionBytes - bytesAfter),
  };
}

export async function scanHeaders(state: LogState, from: Offset, visit: HeaderVisit): Promise<void> {
  const end = state.written;
  const start = Math.max(from, state.logStart);
  for (const segment of state.segments.slice()) {
    if (segment.nextOffset <= start || segment.baseOffset >= end || segment.removed) continue;
    await loadFacts(state, segment);
    await walkFrom(state, segment, Math.max(start, segment.baseOffset), ({ header, position: at }) => {
      if (header.baseOffset >= end) return false;
      if (header.lastOffset >= start) visit(header, { segment: segment.baseOffset, position: position(at) });
      return true;
    });
  }
}

/** From the batch that holds `at` to the end of the segment, stepping over damage. */
async function walkFrom(
  state: LogState,
  segment: Segment,
  at: number,
  visit: (batch: WalkedBatch) => boolean,
): Promise<void> {
  if (segment.removed || segment.facts === undefined) return;
  const { clock, crc32c } = state.deps;
  const to = segment.size;
  const end = segment.nextOffset;
  const epochs = [...state.epochs.entries];
  const { generation } = state;
  await withFile(state, segment, async (file) => {
    const boundary = segment.boundaryBelow(at);
    let from = { position: boundary.position, offset: offset(boundary.offset), epochAtLeast: -1, to, epochs };
    for (;;) {
      const stop = await walkFile(file, clock, crc32c, from, visit);
      // A truncation meanwhile: what stands there now is not what the walk expected, and no damage.
      if (stop.kind === 'stopped' || stop.offset >= end || state.generation !== generation) return;
      assert(stop.position >= from.position, 'a walk goes forward');
      const resync = await recordDamage(state, segment, file, to, stop);
      if (resync === undefined) return;
      from = { position: resync.position, offset: resync.offset, epochAtLeast: -1, to, epochs };
    }
  });
}
