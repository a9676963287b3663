// Two copies of a log, batch by batch: where they are the same, where one lacks what the other has, where they differ.
import { readBatches, type FoundBatch, type Skipped } from './batches.ts';
import type { LogReport } from './log-check.ts';
import type { ToolDeps } from './tool.ts';

export type Comparison = 'same' | 'only-first' | 'only-second' | 'different';

export interface DiffRange {
  readonly kind: Comparison;
  readonly from: number;
  to: number;
}

export interface DiffSide {
  readonly deps: ToolDeps;
  readonly log: LogReport;
}

/** Ascending; offsets that neither copy has are left out. */
export async function diffLogs(first: DiffSide, second: DiffSide): Promise<readonly DiffRange[]> {
  const [left, right] = [new Side(first), new Side(second)];
  const ranges: DiffRange[] = [];
  const note = (kind: Comparison, from: number, to: number): void => {
    const last = ranges.at(-1);
    if (last?.kind === kind && last.to === from) last.to = to;
    else ranges.push({ kind, from, to });
  };
  try {
    for (;;) {
      const [one, two] = [await left.peek(), await right.peek()];
      if (one === undefined && two === undefined) return ranges;
      if (two === undefined || (one !== undefined && one.header.lastOffset < two.header.baseOffset)) {
        if (one !== undefined) note('only-first', one.header.baseOffset, one.header.lastOffset + 1);
        left.take();
      } else if (one === undefined || two.header.lastOffset < one.header.baseOffset) {
        note('only-second', two.header.baseOffset, two.header.lastOffset + 1);
        right.take();
      } else {
        const same =
          one.header.baseOffset === two.header.baseOffset &&
          one.header.lastOffset === two.header.lastOffset &&
          one.header.crc === two.header.crc &&
          one.header.leaderEpoch === two.header.leaderEpoch;
        const from = Math.min(one.header.baseOffset, two.header.baseOffset);
        left.take();
        right.take();
        // Batches that were cut otherwise: up to where both begin anew.
        let to = Math.max(one.header.lastOffset, two.header.lastOffset) + 1;
        for (
          let side = await overlapping(left, right, to);
          side !== undefined;
          side = await overlapping(left, right, to)
        ) {
          to = Math.max(to, side.batch.header.lastOffset + 1);
          side.of.take();
        }
        note(same ? 'same' : 'different', from, to);
      }
    }
  } finally {
    await left.close();
    await right.close();
  }
}

/** The side whose next batch begins below. */
async function overlapping(
  left: Side,
  right: Side,
  below: number,
): Promise<{ readonly of: Side; readonly batch: FoundBatch } | undefined> {
  for (const side of [left, right]) {
    const batch = await side.peek();
    if (batch !== undefined && batch.header.baseOffset < below) return { of: side, batch };
  }
  return undefined;
}

class Side {
  private readonly batches: AsyncGenerator<FoundBatch | Skipped>;
  private current: FoundBatch | undefined;
  constructor({ deps, log }: DiffSide) {
    this.batches = readBatches(deps, log);
  }
  async peek(): Promise<FoundBatch | undefined> {
    while (this.current === undefined) {
      const next = await this.batches.next();
      if (next.done === true) return undefined;
      if (next.value.kind === 'batch') this.current = next.value;
    }
    return this.current;
  }
  take(): void {
    this.current = undefined;
  }
  async close(): Promise<void> {
    await this.batches.return(undefined);
  }
}
