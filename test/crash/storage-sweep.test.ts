import { describe, expect, test } from 'vitest';
import type { FsyncPolicy, Preallocation } from '../../src/storage/config.ts';
import { effort } from '../effort.ts';
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

/** All sequences of four, instead of one in a few: takes many minutes. */
const EXHAUSTIVE = process.env['RIVULET_SWEEP'] === 'exhaustive';

interface Case {
  readonly what: string;
  readonly policy: { readonly fsync: FsyncPolicy; readonly preallocate: Preallocation };
  readonly sequence: readonly Operation[];
  readonly examineFrom: number;
  readonly survivors: readonly string[];
}

/** Lives that have found something, and what. */
const FOUND: readonly Case[] = [
  {
    what: 'a recovery point joined to the epochs of a log that was cut below it',
    policy: { fsync: 'always', preallocate: 'none' },
    sequence: ['roll', 'delete', 'truncate'],
    examineFrom: 2,
    survivors: [],
  },
  {
    what: 'a checkpoint that could not be read back: two epochs at the offset that everything was removed up to',
    policy: { fsync: 'always', preallocate: 'none' },
    sequence: ['append', 'truncate', 'delete', 'roll'],
    examineFrom: 3,
    survivors: [],
  },
  {
    what: 'the seal of a segment that was cut, back after a power cut',
    policy: { fsync: 'interval', preallocate: 'none' },
    sequence: ['roll', 'truncate', 'truncate', 'roll'],
    examineFrom: 3,
    survivors: ['1111110001'],
  },
  {
    what: 'the same, of another one',
    policy: { fsync: 'never', preallocate: 'none' },
    sequence: ['roll', 'kill', 'truncate', 'roll'],
    examineFrom: 3,
    survivors: ['10111011111010000'],
  },
];

describe('every short life of a log, cut anywhere', () => {
  test.each(FOUND)('found before: $what', async ({ policy, sequence, examineFrom: from, survivors }) => {
    const run = new StorageSweep({
      config: sweepConfig(policy),
      choicesMax: 4,
      samples: 3,
      survivors,
      tornOneIn: 8,
      cutAfterOneIn: 4,
      secondCrashOneIn: 40,
    });
    await run.run(sequence, from);
    expect(run.counts.states).toBeGreaterThan(10);
  });

  test('always: any two operations, every cut, every subset of what is pending', { timeout: 300_000 }, async () => {
    const counts = await sweep(
      2,
      { fsync: 'always', preallocate: 'none' },
      { samples: 8, choicesMax: 6, oneIn: effort(1, 4) },
    );
    expect(counts.sequences).toBe(OPERATIONS.length ** 2 / effort(1, 4));
    expect(counts.states).toBeGreaterThan(effort(300, 50));
  });

  test('always: three and four operations', { timeout: EXHAUSTIVE ? 3_600_000 : 300_000 }, async () => {
    const policy = { fsync: 'always', preallocate: 'none' } as const;
    const three = await sweep(3, policy, { samples: 4, choicesMax: 6, oneIn: EXHAUSTIVE ? 1 : effort(1, 48) });
    const four = await sweep(4, policy, { samples: 4, choicesMax: 6, oneIn: EXHAUSTIVE ? 1 : effort(45, 2000) });
    expect(three.states + four.states).toBeGreaterThan(effort(5000, 30));
  });

  test.each([
    ['always', 'recycle'],
    ['interval', 'none'],
    ['never', 'none'],
  ] as const)('%s, %s: three operations', { timeout: EXHAUSTIVE ? 3_600_000 : 300_000 }, async (fsync, preallocate) => {
    const how = { samples: 3, choicesMax: 4 };
    const three = await sweep(3, { fsync, preallocate }, { ...how, oneIn: EXHAUSTIVE ? 1 : effort(5, 60) });
    expect(three.states).toBeGreaterThan(effort(1000, 10));
    if (EXHAUSTIVE) await sweep(4, { fsync, preallocate }, { ...how, oneIn: 1 });
  });
});
