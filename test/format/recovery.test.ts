import { describe, expect, it } from 'vitest';
import { decideRecovery, type RecoveryDecision, type TailFinding } from '../../src/format/recovery.ts';

// The stop is at offset 100; the synced point at 80 (above it) or 120 (below it); the next segment begins at 150.
const STOP = 100;
const NEXT_SEGMENT = 150;
const SEGMENTS = ['active', 'rolled', 'sealed'] as const;
const PLACES = ['above', 'below'] as const;
const FAULTS = ['end', 'zeros', 'fault'] as const;
/** nothing: no intact batch behind the stop. here: one in this file, at 110. later: a later segment begins with one. */
const FOLLOWS = ['nothing', 'here', 'later', 'here and later'] as const;

interface Case {
  readonly segment: (typeof SEGMENTS)[number];
  readonly place: (typeof PLACES)[number];
  readonly fault: (typeof FAULTS)[number];
  readonly follows: (typeof FOLLOWS)[number];
  readonly tornHeader: boolean;
  readonly recycles: boolean;
}

function possible({ segment, fault, follows }: Case): boolean {
  // Nothing is behind the end of a file, and nothing comes after the active segment.
  if (fault === 'end' && follows.startsWith('here')) return false;
  return segment !== 'active' || !follows.endsWith('later');
}

function crossed<Left, Right>(left: readonly Left[], right: readonly Right[]): readonly (readonly [Left, Right])[] {
  return left.flatMap((one) => right.map((other) => [one, other] as const));
}

function allCases(): readonly Case[] {
  const wheres = crossed(SEGMENTS, PLACES);
  const whats = crossed(FAULTS, FOLLOWS);
  const files = crossed([false, true], [false, true]);
  return crossed(crossed(wheres, whats), files)
    .map(([[[segment, place], [fault, follows]], [tornHeader, recycles]]) => {
      return { segment, place, fault, follows, tornHeader, recycles };
    })
    .filter(possible);
}

function findingOf({ segment, place, fault, follows, tornHeader, recycles }: Case): TailFinding {
  const syncedPoint = place === 'below' ? 120 : 80;
  return {
    segment,
    stopOffset: STOP,
    syncedPoint,
    boundary: segment === 'active' ? syncedPoint : NEXT_SEGMENT,
    fault,
    continuation: follows.startsWith('here') ? 110 : undefined,
    laterHolds: follows.endsWith('later'),
    tornHeader,
    recycles,
  };
}

// What happens, written out by hand: rows by segment and place, columns by what follows.
const TABLE: Readonly<Record<string, readonly string[]>> = {
  //               nothing        here           later          both
  'active above': ['cut', 'cut, a hole', '-', '-'],
  'active below': ['lost to 120', 'to 110', '-', '-'],
  'rolled above': ['cut', 'cut, a hole', 'cut, a hole', 'cut, a hole'],
  'rolled below': ['lost to 150', 'to 110', 'lost to 150', 'to 110'],
  'sealed above': ['lost to 150', 'to 110', 'lost to 150', 'to 110'],
  'sealed below': ['lost to 150', 'to 110', 'lost to 150', 'to 110'],
};

function described(decision: RecoveryDecision): string {
  if (decision.kind === 'cut') return decision.tailHole ? 'cut, a hole' : 'cut';
  return `${decision.resumes ? 'to' : 'lost to'} ${String(decision.to)}`;
}

describe('decideRecovery', () => {
  it('decides every combination as the table says', () => {
    const cases = allCases();
    expect(cases).toHaveLength(200);
    for (const each of cases) {
      const column = FOLLOWS.indexOf(each.follows);
      const expected = TABLE[`${each.segment} ${each.place}`]?.[column];
      expect(described(decideRecovery(findingOf(each))), JSON.stringify(each)).toBe(expected);
    }
  });

  it('never cuts below the synced point or in a sealed segment', () => {
    for (const each of allCases()) {
      if (decideRecovery(findingOf(each)).kind !== 'cut') continue;
      expect(each.place, JSON.stringify(each)).toBe('above');
      expect(each.segment, JSON.stringify(each)).not.toBe('sealed');
    }
  });

  it('keeps what it cuts, unless it is of an earlier life of a recycled file', () => {
    for (const each of allCases()) {
      const decision = decideRecovery(findingOf(each));
      if (decision.kind !== 'cut') continue;
      const ours = each.follows.startsWith('here') || each.tornHeader || !each.recycles;
      expect(decision.quarantine, JSON.stringify(each)).toBe(each.fault !== 'end' && ours);
    }
  });

  it('does not go on at a batch that belongs to the next segment', () => {
    const finding = findingOf({
      segment: 'sealed',
      place: 'below',
      fault: 'fault',
      follows: 'here',
      tornHeader: false,
      recycles: true,
    });
    expect(decideRecovery({ ...finding, continuation: NEXT_SEGMENT })).toEqual({
      kind: 'damaged',
      to: NEXT_SEGMENT,
      resumes: false,
    });
    expect(decideRecovery({ ...finding, continuation: NEXT_SEGMENT - 1 })).toEqual({
      kind: 'damaged',
      to: NEXT_SEGMENT - 1,
      resumes: true,
    });
  });
});
