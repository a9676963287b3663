// What is done where the walk of a log after a crash has stopped before the end: the one place that decides between "the
// log ends here" and "this is damage". Everything it needs was looked up before; it reads nothing.

export interface TailFinding {
  /**
   * active: the last segment, which nothing follows. rolled: others follow, but no intact seal says what it held.
   * sealed: its seal is intact and says that it went further, so all of it was synced.
   */
  readonly segment: 'active' | 'rolled' | 'sealed';
  /** The first offset that is not there. */
  readonly stopOffset: number;
  /** Everything below was synced, says the checkpoint or a younger sync mark. */
  readonly syncedPoint: number;
  /** Where the next segment begins; the synced point for the active one. */
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
 * Below the synced point, or in a sealed segment, a bad batch is damage, never a tail. Above it the log ends there, whatever
 * follows: write-back keeps no order, so a power cut loses an earlier page of what no fdatasync has covered and keeps a later
 * one. That holds for `always` too, because the sync marks keep the synced point at most one finished group commit old. What
 * lies above it is the group commit that was under way, which nobody was answered, and at most the one before it: that one
 * was answered, but only after its fdatasync had returned, so that a power cut cannot have taken it. A bad batch in it is
 * one that rotted in the moments before the crash; it goes to quarantine and is reported, but not as damage. To call
 * everything there damage, as if it might have been answered, would stop consumers after ordinary power cuts at records
 * that nobody ever acknowledged.
 */
export function decideRecovery(found: TailFinding): RecoveryDecision {
  const { segment, stopOffset, syncedPoint, boundary, continuation } = found;
  if (stopOffset < syncedPoint || segment === 'sealed') {
    if (continuation !== undefined && (segment === 'active' || continuation < boundary)) {
      return { kind: 'damaged', to: continuation, resumes: true };
    }
    return { kind: 'damaged', to: Math.max(stopOffset, boundary), resumes: false };
  }
  const ours = continuation !== undefined || found.tornHeader || !found.recycles;
  const follows = continuation !== undefined || found.laterHolds;
  return { kind: 'cut', quarantine: found.fault !== 'end' && ours, tailHole: follows };
}
