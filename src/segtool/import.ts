// Records, as export writes them, into a new log of its own: the same format, written by the broker's own code.
import { leaderEpoch } from '../base/brands.ts';
import { utf8Encode } from '../base/bytes.ts';
import type { CodecName } from '../base/codec.ts';
import { checkBatch } from '../format/batch.ts';
import { encodeBatch, type RecordInput } from '../format/records.ts';
import { LOG_CONFIG_DEFAULT, type StorageDeps } from '../storage/config.ts';
import { PartitionLog } from '../storage/log.ts';
import { fromBase64 } from './base64.ts';
import type { ToolDeps } from './tool.ts';

/** A line that is no record, or a directory that is not empty. */
export class ImportError extends Error {
  override readonly name = 'ImportError';
}

const BATCH_RECORDS = 1000;
const BATCH_BYTES = 256 * 1024;

/** Resolves to the number of records. Offsets count from 0. What fails leaves nothing behind. */
export async function importRecords(
  deps: ToolDeps,
  storage: StorageDeps,
  directory: string,
  lines: AsyncIterable<string>,
  codec: CodecName,
): Promise<number> {
  const existed = await deps.disk.exists(directory);
  if (existed && (await deps.disk.readDirectory(directory)).length > 0)
    throw new ImportError(`${directory} is not empty`);
  const log = await PartitionLog.open(
    storage,
    directory,
    { ...LOG_CONFIG_DEFAULT, fsync: 'interval', preallocate: 'none' },
    { clean: false, create: true },
  );
  try {
    const total = await appendAll(deps, log, lines, codec);
    await log.close({ clean: true });
    return total;
  } catch (error) {
    await log.close({ clean: false });
    for (const { name } of await deps.disk.readDirectory(directory)) await deps.disk.unlink(`${directory}/${name}`);
    if (!existed) await deps.disk.removeDirectory(directory);
    throw error;
  }
}

async function appendAll(
  deps: ToolDeps,
  log: PartitionLog,
  lines: AsyncIterable<string>,
  codec: CodecName,
): Promise<number> {
  let records: RecordInput[] = [];
  let [bytes, total, number] = [0, 0, 0];
  const flush = async (): Promise<void> => {
    if (records.length === 0) return;
    const batch = encodeBatch(
      { records, codec, compress: (name, plain) => deps.compression.compress(name, plain) },
      deps.crc32c,
    );
    const checked = checkBatch(batch, 0, deps.crc32c);
    if (!checked.ok) throw new ImportError(`records ${String(total)} on: ${checked.detail}`);
    const result = log.append(batch, [{ at: 0, size: checked.size, header: checked.header }], leaderEpoch(0));
    if (!result.ok) throw new ImportError(`the disk is full or slow: ${result.code}`);
    if (result.whenWritten !== undefined) await result.whenWritten;
    if (result.room !== undefined) await result.room;
    total += records.length;
    records = [];
    bytes = 0;
  };
  for await (const line of lines) {
    number += 1;
    if (line.trim() === '') continue;
    const record = parseRecord(line, number);
    records.push(record);
    bytes += line.length;
    if (records.length >= BATCH_RECORDS || bytes >= BATCH_BYTES) await flush();
  }
  await flush();
  return total;
}

function parseRecord(line: string, number: number): RecordInput {
  const wrong = (what: string): never => {
    throw new ImportError(`line ${String(number)}: ${what}`);
  };
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    return wrong(error instanceof Error ? error.message : 'not JSON');
  }
  if (typeof value !== 'object' || value === null) return wrong('not an object');
  const timestamp: unknown = Reflect.get(value, 'timestamp');
  const headers: unknown = Reflect.get(value, 'headers') ?? [];
  if (typeof timestamp !== 'number' || !Number.isSafeInteger(timestamp) || timestamp < -1)
    return wrong('timestamp is not a whole number of milliseconds');
  if (!Array.isArray(headers)) return wrong('headers is not a list');
  return {
    timestamp,
    key: bytesOf(Reflect.get(value, 'key'), () => wrong('key is neither text, null nor {"base64": …}')),
    value: bytesOf(Reflect.get(value, 'value'), () => wrong('value is neither text, null nor {"base64": …}')),
    headers: headers.map((each: unknown) => {
      const name: unknown = typeof each === 'object' && each !== null ? Reflect.get(each, 'key') : undefined;
      if (typeof name !== 'string' || typeof each !== 'object' || each === null) return wrong('a header has no key');
      return { key: name, value: bytesOf(Reflect.get(each, 'value'), () => wrong(`header ${name} has no value`)) };
    }),
  };
}

function bytesOf(value: unknown, wrong: () => never): Uint8Array | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return utf8Encode(value);
  if (typeof value !== 'object') return wrong();
  const text: unknown = Reflect.get(value, 'base64');
  if (typeof text !== 'string') return wrong();
  return fromBase64(text) ?? wrong();
}
