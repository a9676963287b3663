// What is done where the walk of a log after a crash has stopped before the end: the one place that decides between "the
// log ends here" and "this is damage". Everything it needs was looked up before; it reads nothing.

export interface TailFinding {
  /**
   * active: the last segment, which nothing follows. rolled: others follow, but no intact seal says what it held.
   * sealed: its seal is intact and says that it went further, so all of it was synced.
   */
  readonly segment: 'active' | 'rolled' | 'sealed';
  readonly fsync: 'always' | 'interval' | 'never';
  /** The first offset that is not there. */
  readonly stopOffset: number;
  /** Everything below was synced, says the checkpoint. */
  readonly recoveryPoint: number;
  /** Where the next segment begins; the recovery point for the active one, behind which nothing was promised. */
  readonly boundary: number;
  /** end: the file ends there. zeros: prepared space. fault: something that is not the next batch. */
  readonly fault: 'end' | 'zeros' | 'fault';
  /** Offset of the first intact batch behind the stop, in the same file, that continues the log; undefined: none. */
  readonly continuation: number | undefined;
  /** A later segment begins with an intact batch. */
  readonly laterHolds: boolean;
  /** The header at the stop begins with the expected offset: a batch of ours began there. */
  readonly tornHeader: boolean;
  /** Segments are made from retired ones: what lies behind the end may be of an earlier life. */
  readonly recycles: boolean;
}

export type RecoveryDecision =
  | {
      /** The log ends at the stop. What is behind it is cleared, and later segments go to quarantine. */
      readonly kind: 'cut';
      /** What is behind it belonged to this log: a copy goes to quarantine first. */
      readonly quarantine: boolean;
      /** Records that were written later are intact and go too: write-back has left a hole before them. */
      readonly tailHole: boolean;
    }
  | {
      /** [stop, to) is lost and reported; no byte is cut. */
      readonly kind: 'damaged';
      readonly to: number;
      /** At `to` an intact batch goes on in the same file. Otherwise the rest of the segment is lost. */
      readonly resumes: boolean;
    };

/**
 * Below the recovery point, or in a sealed segment, a bad batch is damage, never a tail. Above it, one with nothing behind it
 * is a torn tail. One with intact batches behind it is damage where each was synced before it was answered (`always`: they
 * may have been answered), and elsewhere the hole that write-back leaves, which is cut like a torn tail.
 */
export function decideRecovery(found: TailFinding): RecoveryDecision {
  const { segment, stopOffset, recoveryPoint, boundary, continuation } = found;
  const follows = continuation !== undefined || found.laterHolds;
  const wasSynced = stopOffset < recoveryPoint || segment === 'sealed';
  if (wasSynced || (found.fsync === 'always' && follows)) {
    if (continuation !== undefined && (segment === 'active' || continuation < boundary)) {
      return { kind: 'damaged', to: continuation, resumes: true };
    }
    return { kind: 'damaged', to: Math.max(stopOffset, boundary), resumes: false };
  }
  const ours = continuation !== undefined || found.tornHeader || !found.recycles;
  return { kind: 'cut', quarantine: found.fault !== 'end' && ours, tailHole: follows };
}
