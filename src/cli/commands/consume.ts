// rivulet consume: records to standard output.
import type { ConsumedRecord, PositionLost, StartPosition } from '../../client/api.ts';
import { consumeAsMember } from './consume-group.ts';
import { withClient, type ConnectionFlags } from '../connection.ts';
import { CommandError } from '../failure.ts';
import { Output, OutputClosed } from '../output.ts';
import { compileFormat, FORMAT_HELP, isUnterminated, recordJson } from '../records.ts';
import { UsageError } from '../failure.ts';

/** Who does not follow wants an end, also when the broker is gone. */
const RETRY_TIMEOUT_MS = 30_000;

export interface ConsumeFlags extends ConnectionFlags {
  readonly from: StartPosition;
  readonly partition?: number;
  readonly follow?: boolean;
  readonly max?: number;
  readonly separator: Uint8Array;
  readonly format?: Uint8Array;
  readonly skipDamaged?: boolean;
  readonly group?: string;
  readonly instanceId?: string;
}

export async function consume(topic: string, flags: ConsumeFlags): Promise<void> {
  const output = new Output();
  const write = recordWriter(flags, output);
  const stop = new AbortController();
  const onSignal = (): void => {
    stop.abort();
  };
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  try {
    await withClient(flags, async (client) => {
      const { partitions } = await client.admin.describeTopic(topic);
      if (flags.partition !== undefined && flags.partition >= partitions.length) {
        throw new CommandError(
          `topic ${topic} has no partition ${String(flags.partition)}`,
          `It has ${String(partitions.length)}, from 0 on.`,
        );
      }
      if (flags.group !== undefined) {
        const { group, instanceId, from, follow = false, max = Number.POSITIVE_INFINITY } = flags;
        const reading = { topic, group, instanceId, from, follow, max, signal: stop.signal };
        await consumeAsMember(client, reading, write, output);
        return;
      }
      const consumer = client.consumer({
        ...(flags.partition === undefined
          ? { topics: [topic] }
          : { assignments: [{ topic, partition: flags.partition }] }),
        from: flags.from,
        signal: stop.signal,
        onPositionLost: (event) => positionLost(event, flags),
        ...(flags.follow === true
          ? {}
          : { until: 'high-watermark-at-start' as const, retryTimeoutMs: flags.timeoutMs ?? RETRY_TIMEOUT_MS }),
      });
      let left = flags.max ?? Number.POSITIVE_INFINITY;
      if (left === 0) return;
      for await (const batch of consumer.batches()) {
        for (let index = 0; index < batch.length && left > 0; index += 1) {
          write(batch.record(index));
          left -= 1;
          if (output.isFull) await output.flush();
        }
        await output.flush();
        if (left === 0) break;
      }
    });
    await output.flush();
  } catch (error) {
    if (error instanceof OutputClosed || stop.signal.aborted) return;
    // What was read before the failure is the user's.
    await output.flush().catch(() => undefined);
    throw error;
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

function recordWriter(flags: ConsumeFlags, output: Output): (record: ConsumedRecord) => void {
  if (flags.json === true) {
    return (record) => {
      output.add(Buffer.from(`${JSON.stringify(recordJson(record))}\n`));
    };
  }
  if (flags.format !== undefined) {
    const format = compileFormat(flags.format);
    if (format === undefined) throw new UsageError(`--format has an unknown field; known: ${FORMAT_HELP}`);
    return (record) => {
      for (const piece of format(record)) output.add(piece);
    };
  }
  return (record) => {
    if (record.value !== null) output.add(record.value);
    if (!isUnterminated(record)) output.add(flags.separator);
  };
}

function positionLost(event: PositionLost, flags: ConsumeFlags): 'stop' | number {
  if (event.reason !== 'DAMAGED_RANGE' || flags.skipDamaged !== true || event.resumeAt < 0) return 'stop';
  process.stderr.write(
    `rivulet: skipped damaged offsets ${String(event.position)} to ${String(event.resumeAt - 1)} of ${event.topic} partition ${String(event.partition)}\n`,
  );
  return event.resumeAt;
}
