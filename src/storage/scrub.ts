// Compares sealed segments with their seals, at a bounded rate, so that damage is found before somebody needs the bytes.
import { position } from '../base/brands.ts';
import type { OffsetRange } from './contract.ts';
import { isNotFound } from './health.ts';
import type { LogState } from './log-state.ts';
import { readSeal, rebuildSegment } from './segment-loader.ts';
import { withFile } from './sealing.ts';
import type { Segment } from './segment.ts';

const PIECE_BYTES = 1024 * 1024;

export async function scrubLog(
  state: LogState,
  bytesPerSecond: number,
): Promise<{ readonly bytes: number; readonly damaged: readonly OffsetRange[] }> {
  let bytes = 0;
  for (const segment of state.segments.filter((each) => each.sealed)) {
    if (state.closed || state.health.failed) break;
    if (segment.removed) continue;
    try {
      bytes += await scrubSegment(state, segment, bytesPerSecond);
    } catch (error) {
      // Retention was faster.
      // oxlint-disable-next-line typescript/no-unnecessary-condition -- changed by others while this waited
      if (!segment.removed || !isNotFound(error)) throw error;
    }
  }
  return { bytes, damaged: state.damaged };
}

async function scrubSegment(state: LogState, segment: Segment, bytesPerSecond: number): Promise<number> {
  const seal = await readSeal(state, segment);
  if (seal === undefined) {
    await rebuildSegment(state, segment);
    return segment.facts?.size ?? 0;
  }
  const { size } = seal.facts;
  let crc = 0;
  await withFile(state, segment, async (file) => {
    // The disk is asked, not the page cache.
    await file.dropCache(position(0), size);
    const buffer = new Uint8Array(Math.min(PIECE_BYTES, Math.max(1, size)));
    for (let at = 0; at < size && !segment.removed && !state.closed;) {
      const got = await file.read(buffer.subarray(0, Math.min(buffer.length, size - at)), position(at));
      if (got === 0) break;
      crc = state.deps.crc32c(buffer.subarray(0, got), crc);
      at += got;
      state.metrics.scrubbedBytes.add(got);
      await pause(state, (got / bytesPerSecond) * 1000);
    }
  });
  if (!segment.removed && !state.closed && crc !== seal.facts.crc) await explain(state, segment);
  return size;
}

/** The seal does not match: which batches, if any, are bad. A header field outside the batch checksum may be. */
async function explain(state: LogState, segment: Segment): Promise<void> {
  const before = state.damaged.length;
  state.deps.telemetry.log('error', 'log.seal-mismatch', {
    directory: state.directory,
    baseOffset: segment.baseOffset,
  });
  segment.retireMapping();
  await rebuildSegment(state, segment, { keepSeal: true });
  if (state.damaged.length > before || segment.removed) return;
  // Every batch checks by itself: what changed lies outside their checksums, and no record of it can be trusted less.
  state.addDamage(segment.baseOffset, segment.nextOffset, `${segment.path} does not match its seal`);
}

function pause(state: LogState, ms: number): Promise<void> {
  return new Promise((resolve) => {
    state.deps.clock.setTimer(Math.max(0, ms), resolve);
  });
}
