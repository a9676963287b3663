// Entries that somebody waits for: answered when what stands at their index is applied, or when that can no more be known.
import type { EntryOutcome } from './contract.ts';

/** Outcomes are kept for askers that learn the index only after it was applied. */
const RECENT_MAX = 4096;

interface Waiting {
  readonly term: number;
  readonly resolve: (outcome: EntryOutcome) => void;
}
interface Recent {
  readonly term: number;
  readonly outcome: EntryOutcome;
}

function lost(message: string): EntryOutcome {
  return { ok: false, code: 'LEADERSHIP_LOST', message };
}

export class Proposals {
  private readonly waiting = new Map<number, Waiting[]>();
  private readonly recent = new Map<number, Recent>();
  private count = 0;

  get size(): number {
    return this.count;
  }
  /** Resolves when the entry of that index is applied, which it may be already. */
  wait(index: number, term: number, appliedIndex: number): Promise<EntryOutcome> {
    const known = this.recent.get(index);
    if (known !== undefined) return Promise.resolve(known.term === term ? known.outcome : lost('another entry came'));
    if (index <= appliedIndex) return Promise.resolve(lost('it was applied too long ago'));
    return new Promise((resolve) => {
      this.waiting.set(index, [...(this.waiting.get(index) ?? []), { term, resolve }]);
      this.count += 1;
    });
  }
  applied(index: number, term: number, outcome: EntryOutcome): void {
    this.recent.set(index, { term, outcome });
    const oldest = this.recent.keys().next();
    if (this.recent.size > RECENT_MAX && oldest.done !== true) this.recent.delete(oldest.value);
    for (const each of this.take(index)) each.resolve(each.term === term ? outcome : lost('another entry came'));
  }
  /** Those of terms up to this one may still be applied, or not. */
  lose(upToTerm: number): void {
    for (const [index, list] of this.waiting) {
      if (!list.some(({ term }) => term <= upToTerm)) continue;
      for (const each of this.take(index)) each.resolve(lost('the leader of the metadata log has changed'));
    }
  }
  loseAll(): void {
    this.lose(Number.POSITIVE_INFINITY);
  }
  private take(index: number): readonly Waiting[] {
    const list = this.waiting.get(index) ?? [];
    this.waiting.delete(index);
    this.count -= list.length;
    return list;
  }
}
