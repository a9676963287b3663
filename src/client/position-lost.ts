// What happens when a consumer's position is not readable any more: the application is asked, and never answered for.
import { RivuletError } from '../base/errors.ts';
import type { PositionLost, StartPosition } from './api.ts';
import type { PartitionReader } from './partition-reader.ts';

export interface LostFacts {
  readonly logStart: number;
  readonly highWatermark: number;
  readonly resumeAt: number;
}

/** Asks, and moves or fails the reader. `freed` is told the bytes that left its buffer. */
export function settleLostPosition(
  reader: PartitionReader,
  reason: PositionLost['reason'],
  facts: LostFacts,
  why: RivuletError,
  ask: ((event: PositionLost) => 'stop' | 'earliest' | 'latest' | number) | undefined,
  freed: (bytes: number) => void,
): void {
  const position = reader.fetchOffset;
  const { topic, partition } = reader;
  const range = facts.logStart < 0 ? '' : `; retained: ${String(facts.logStart)} to ${String(facts.highWatermark)}`;
  const error = new RivuletError(reason, `${reader.label} at offset ${String(position)}: ${why.message}${range}`, {
    facts: { ...why.facts, topic, partition, position, ...facts },
    cause: why,
  });
  const answer = ask === undefined ? 'stop' : ask({ reason, topic, partition, position, ...facts, error });
  if (answer === 'stop') {
    reader.failure = error;
    return;
  }
  // What was fetched before is good and still to be delivered: the new position is taken up behind it.
  reader.generation += 1;
  reader.lastEpoch = -1;
  moveTo(reader, answer, freed);
}

function moveTo(reader: PartitionReader, to: StartPosition, freed: (bytes: number) => void): void {
  if (reader.hasBuffered) reader.pendingSeek = to;
  else freed(reader.seek(to));
}
