// Run by hand: node test/format/bench.ts. What checking a batch and its records costs; the least of many rounds, as machines are shared.
import { checkBatch } from '../../src/format/batch.ts';
import { checkRecords, encodeBatch } from '../../src/format/records.ts';
import { crc32c } from '../../src/platform/checksum.ts';

function batchOf(recordBytes: number, totalBytes: number, keyed: boolean): Uint8Array {
  const count = Math.max(1, Math.floor(totalBytes / (recordBytes + 8)));
  const key = keyed ? new Uint8Array(16).fill(7) : null;
  const records = Array.from({ length: count }, (_, index) => ({
    timestamp: 1_700_000_000_000 + index,
    key,
    value: new Uint8Array(recordBytes),
  }));
  return encodeBatch({ records }, crc32c);
}

function perRun(run: () => void): number {
  for (let index = 0; index < 2000; index += 1) run();
  const times: number[] = [];
  for (let round = 0; round < 40; round += 1) {
    const start = process.hrtime.bigint();
    for (let index = 0; index < 100; index += 1) run();
    times.push(Number(process.hrtime.bigint() - start) / 100);
  }
  return Math.min(...times);
}

const lines: string[] = [];
for (const [recordBytes, keyed] of [
  [100, false],
  [100, true],
  [1024, false],
  [1024, true],
] as const) {
  const batch = batchOf(recordBytes, 65_536, keyed);
  const checked = checkBatch(batch, 0, crc32c);
  if (!checked.ok) throw new Error(checked.detail);
  const { recordCount } = checked.header;
  const checkNs = perRun(() => checkBatch(batch, 0, crc32c));
  const recordsNs = perRun(() => checkRecords(batch, recordCount, 61));
  lines.push(
    `${String(recordBytes)} B${keyed ? ' keyed' : ''}: ${String(batch.length)} bytes, ${String(recordCount)} records, checkBatch ${checkNs.toFixed(0)} ns (${(batch.length / checkNs).toFixed(1)} GB/s), checkRecords ${(recordsNs / recordCount).toFixed(1)} ns a record`,
  );
}
process.stdout.write(`${lines.join('\n')}\n`);
