import { describe, expect, test } from 'vitest';
import type { FsyncPolicy, Preallocation } from '../../src/storage/config.ts';
import { OPERATIONS, StorageSweep, sweepConfig, type Operation, type SweepCounts } from './storage-sweep.ts';

/** Every sequence of that length; a shorter one is the start of a longer one that appends behind it. */
function* sequences(length: number): Generator<Operation[]> {
  for (let number = 0; number < OPERATIONS.length ** length; number += 1) {
    const sequence: Operation[] = [];
    for (let rest = number; sequence.length < length; rest = Math.floor(rest / OPERATIONS.length))
      sequence.unshift(OPERATIONS[rest % OPERATIONS.length] ?? 'append');
    yield sequence;
  }
}

/** Cuts in an operation are made once, in the sequence that has nothing but appends behind it. */
function examineFrom(sequence: readonly Operation[]): number {
  return Math.max(
    0,
    sequence.findLastIndex((operation) => operation !== OPERATIONS[0]),
  );
}

async function sweep(
  length: number,
  config: { readonly fsync: FsyncPolicy; readonly preallocate: Preallocation },
  how: { readonly samples: number; readonly choicesMax: number; readonly oneIn: number },
): Promise<SweepCounts> {
  const run = new StorageSweep({
    config: sweepConfig(config),
    choicesMax: how.choicesMax,
    samples: how.samples,
    tornOneIn: 8,
    cutAfterOneIn: 4,
    secondCrashOneIn: 40,
  });
  let number = 0;
  for (const sequence of sequences(length)) {
    number += 1;
    if (number % how.oneIn === 0) await run.run(sequence, examineFrom(sequence));
  }
  console.info(`${config.fsync} ${config.preallocate} ${String(length)} operations: ${JSON.stringify(run.counts)}`);
  return run.counts;
}

describe('every short life of a log, cut anywhere', () => {
  test('always: any three operations, every cut, every subset of what is pending', { timeout: 300_000 }, async () => {
    const counts = await sweep(3, { fsync: 'always', preallocate: 'none' }, { samples: 4, choicesMax: 6, oneIn: 1 });
    expect(counts.sequences).toBe(OPERATIONS.length ** 3);
    expect(counts.states).toBeGreaterThan(1000);
  });
});
