// rivulet consume --group: as a member of a group. What was written is committed, and nothing before it was.
import type { Client, ConsumedRecord, StartPosition } from '../../client/api.ts';
import type { GroupConsumer } from '../../client/group-api.ts';
import { UsageError } from '../failure.ts';
import type { Output } from '../output.ts';

const COMMIT_EVERY_MS = 200;
const CLOSE_TIMEOUT_MS = 5000;

export interface GroupReading {
  readonly topic: string;
  readonly group: string;
  readonly instanceId: string | undefined;
  readonly from: StartPosition;
  readonly follow: boolean;
  readonly max: number;
  readonly signal: AbortSignal;
}

/** Ends at the ends found at the start, or after `max` records; with `follow`, when the signal aborts. */
export async function consumeAsMember(
  client: Client,
  reading: GroupReading,
  write: (record: ConsumedRecord) => void,
  output: Output,
): Promise<void> {
  const { topic, group, from } = reading;
  if (from !== 'earliest' && from !== 'latest')
    throw new UsageError(
      'with --group, --from is earliest or latest: where to begin when the group has committed nothing',
    );
  const ends = reading.follow ? undefined : await endsOf(client, topic);
  const consumer = client.groupConsumer({
    group,
    topics: [topic],
    from,
    autoCommitMs: false,
    ...(reading.instanceId === undefined ? {} : { instanceId: reading.instanceId }),
  });
  const close = (): void => {
    consumer.close({ timeoutMs: CLOSE_TIMEOUT_MS }).catch(() => undefined);
  };
  reading.signal.addEventListener('abort', close, { once: true });
  // While it runs nothing is written: what is committed behind it was flushed by it.
  let keeping = Promise.resolve();
  const keep = async (): Promise<void> => {
    await output.written();
    await consumer.commit();
  };
  const timer = setInterval(() => {
    keeping = keeping.then(keep).then(() => {
      if (ends !== undefined && isAtEnds(consumer, ends)) close();
    });
    // The loop reports it.
    keeping.catch(close);
  }, COMMIT_EVERY_MS);
  let left = reading.max;
  try {
    for await (const record of consumer) {
      await keeping;
      write(record);
      left -= 1;
      if (output.isFull) await output.flush();
      if (left > 0) continue;
      await output.written();
      consumer.done(record);
      break;
    }
    await keeping;
    await output.written();
  } finally {
    clearInterval(timer);
    reading.signal.removeEventListener('abort', close);
    await consumer.close({ timeoutMs: CLOSE_TIMEOUT_MS });
  }
}

/** Partition → high watermark now. */
export async function endsOf(client: Client, topic: string): Promise<ReadonlyMap<number, number>> {
  const found = await client.admin.listOffsets(topic, 'latest');
  return new Map(found.map(({ partition, offset }) => [partition, offset]));
}

/** True when this member is done with what was there at the start, as far as it owns it. */
export function isAtEnds(consumer: GroupConsumer, ends: ReadonlyMap<number, number>): boolean {
  if (consumer.memberId === undefined || !consumer.isSettled) return false;
  return consumer.assignment.every(({ topic, partition }) => {
    const position = consumer.position(topic, partition);
    return position !== undefined && position >= (ends.get(partition) ?? 0);
  });
}
