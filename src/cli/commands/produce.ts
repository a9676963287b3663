// rivulet produce: standard input to records.
import { readFile } from 'node:fs/promises';
import type { CodecName } from '../../base/codec.ts';
import { RivuletError } from '../../base/errors.ts';
import { RECORD_BYTES_MAX } from '../../base/limits.ts';
import type { DeliveryReport, Producer, ProducerRecord, RetryEvent } from '../../client/api.ts';
import { withClient, type ConnectionFlags } from '../connection.ts';
import { CommandError } from '../failure.ts';
import { RecordSplitter } from '../record-splitter.ts';
import { UNTERMINATED_HEADER } from '../records.ts';

export interface ProduceFlags extends ConnectionFlags {
  readonly separator: Uint8Array;
  readonly keySeparator?: Uint8Array;
  readonly header?: Readonly<Record<string, string>>;
  readonly compression: CodecName;
  readonly batchBytes?: number;
  readonly lingerMs?: number;
  readonly producerName?: string;
  readonly partition?: number;
  readonly acks: 'committed' | 'leader';
  readonly deliveryTimeoutMs?: number;
  readonly whole?: boolean;
  readonly progress: boolean;
}

interface Tally {
  records: number;
  bytes: number;
  committed: number;
  failed: number;
  unknown: number;
  /** Partition → first and last offset. */
  readonly offsets: Map<number, [number, number]>;
}

export async function produce(topic: string, flags: ProduceFlags): Promise<void> {
  const began = performance.now();
  const tally: Tally = { records: 0, bytes: 0, committed: 0, failed: 0, unknown: 0, offsets: new Map() };
  await withClient(flags, async (client) => {
    const { partitions } = await client.admin.describeTopic(topic);
    if (flags.partition !== undefined && flags.partition >= partitions.length) {
      throw new CommandError(
        `topic ${topic} has no partition ${String(flags.partition)}`,
        `It has ${String(partitions.length)}, from 0 on.`,
      );
    }
    const notice = retryNotice();
    const producer = client.producer({
      acks: flags.acks,
      compression: flags.compression,
      onDelivery: (report) => {
        count(tally, report);
        notice.over();
      },
      onRetry: notice.waits,
      ...(flags.batchBytes === undefined ? {} : { batchBytes: flags.batchBytes }),
      ...(flags.lingerMs === undefined ? {} : { lingerMs: flags.lingerMs }),
      ...(flags.producerName === undefined ? {} : { name: flags.producerName }),
      ...(flags.deliveryTimeoutMs === undefined ? {} : { deliveryTimeoutMs: flags.deliveryTimeoutMs }),
    });
    const progress = flags.progress ? startProgress(tally, began) : undefined;
    try {
      await sendAll(topic, flags, producer, tally);
      await producer.flush();
    } catch (error) {
      throw explained(error, tally);
    } finally {
      progress?.();
      await producer.close({ timeoutMs: 1000 }).catch(() => undefined);
    }
  });
  summary(topic, flags, tally, (performance.now() - began) / 1000);
}

async function sendAll(topic: string, flags: ProduceFlags, producer: Producer, tally: Tally): Promise<void> {
  const enqueue = async (record: ProducerRecord): Promise<void> => {
    while (!producer.enqueue(topic, record)) await producer.ready();
  };
  const toRecord = recordMaker(flags);
  if (flags.whole === true) {
    const whole = await readFile('/dev/stdin');
    tally.records += 1;
    tally.bytes += whole.length;
    await enqueue(toRecord(whole, false));
    return;
  }
  const splitter = new RecordSplitter({ separator: flags.separator, recordBytesMax: RECORD_BYTES_MAX });
  for await (const chunk of process.stdin) {
    // Records that found no room wait here, so that no more is read than can be kept.
    const waiting: ProducerRecord[] = [];
    splitter.push(chunk as Buffer, (bytes) => {
      tally.records += 1;
      tally.bytes += bytes.length;
      const record = toRecord(bytes, false);
      if (waiting.length > 0 || !producer.enqueue(topic, record)) waiting.push(record);
    });
    for (const record of waiting) await enqueue(record);
    if (tally.failed > 0) break;
  }
  const rest = splitter.end();
  if (rest === undefined || tally.failed > 0) return;
  tally.records += 1;
  tally.bytes += rest.length;
  await enqueue(toRecord(rest, true));
}

function recordMaker(flags: ProduceFlags): (bytes: Uint8Array, unterminated: boolean) => ProducerRecord {
  const { header, partition } = flags;
  const keySeparator = flags.keySeparator === undefined ? undefined : Buffer.from(flags.keySeparator);
  return (bytes, unterminated) => {
    let key: Uint8Array | null = null;
    let value = bytes;
    if (keySeparator !== undefined) {
      const at = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf(keySeparator);
      if (at >= 0) {
        key = bytes.subarray(0, at);
        value = bytes.subarray(at + keySeparator.length);
      }
    }
    return {
      key,
      value,
      ...(header === undefined && !unterminated
        ? {}
        : { headers: unterminated ? { ...header, [UNTERMINATED_HEADER]: '' } : { ...header } }),
      ...(partition === undefined ? {} : { partition }),
    };
  };
}

function count(tally: Tally, report: DeliveryReport): void {
  if (report.error !== undefined) {
    if (report.error.outcome === 'unknown') tally.unknown += report.recordCount;
    tally.failed += report.recordCount;
    return;
  }
  tally.committed += report.recordCount;
  const last = report.baseOffset + report.recordCount - 1;
  const known = tally.offsets.get(report.partition);
  if (known === undefined) tally.offsets.set(report.partition, [report.baseOffset, last]);
  else tally.offsets.set(report.partition, [Math.min(known[0], report.baseOffset), Math.max(known[1], last)]);
}

function explained(error: unknown, tally: Tally): unknown {
  if (tally.committed === 0 && tally.failed === 0) return error;
  const message = error instanceof Error ? error.message : String(error);
  const counts = `${String(tally.committed)} records committed, ${String(tally.unknown)} unknown, ${String(tally.failed - tally.unknown)} rejected`;
  if (error instanceof RivuletError)
    return new RivuletError(error.code, `${message} (${counts})`, { facts: error.facts, cause: error });
  return new CommandError(`${message} (${counts})`);
}

/** A failed attempt or two are nobody's business; who waits for long learns why. */
const NOTICE_AFTER_MS = 2000;
const NOTICE_EVERY_MS = 10_000;

function retryNotice(): { readonly waits: (event: RetryEvent) => void; readonly over: () => void } {
  let since: number | undefined;
  let next = 0;
  return {
    waits: ({ error }) => {
      const now = performance.now();
      since ??= now;
      if (now - since < NOTICE_AFTER_MS || now < next) return;
      next = now + NOTICE_EVERY_MS;
      process.stderr.write(
        `waiting since ${((now - since) / 1000).toFixed(0)} s, trying again: ${error.code}: ${error.message}\n`,
      );
    },
    over: () => {
      since = undefined;
    },
  };
}

function startProgress(tally: Tally, began: number): () => void {
  const timer = setInterval(() => {
    const seconds = (performance.now() - began) / 1000;
    process.stderr.write(`\r${String(tally.committed)} records committed, ${rate(tally.bytes, seconds)}  `);
  }, 500);
  return () => {
    clearInterval(timer);
    process.stderr.write('\r\u001b[K');
  };
}

function rate(bytes: number, seconds: number): string {
  return `${(bytes / 1e6 / Math.max(seconds, 0.001)).toFixed(1)} MB/s`;
}

function summary(topic: string, flags: ProduceFlags, tally: Tally, seconds: number): void {
  const offsets = [...tally.offsets].toSorted(([left], [right]) => left - right);
  if (flags.json === true) {
    const partitions = offsets.map(([partition, [firstOffset, lastOffset]]) => ({
      partition,
      firstOffset,
      lastOffset,
    }));
    process.stdout.write(
      `${JSON.stringify({ topic, records: tally.committed, bytes: tally.bytes, seconds, outcome: flags.acks === 'leader' ? 'appended' : 'committed', partitions })}\n`,
    );
    return;
  }
  const where = offsets
    .map(([partition, [first, last]]) => `partition ${String(partition)} offsets ${String(first)} to ${String(last)}`)
    .join(', ');
  process.stderr.write(
    `${String(tally.committed)} records ${flags.acks === 'leader' ? 'appended' : 'committed'} to ${topic}${where === '' ? '' : ` (${where})`}, ${rate(tally.bytes, seconds)}\n`,
  );
}
