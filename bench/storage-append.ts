// Append throughput of one log on the real disk, by way of preallocation: node bench/storage-append.ts [folder] [rounds]
// Rounds are interleaved, so that what else the machine does meets all alike; medians and their ratio to `none` are printed.
import * as fs from 'node:fs/promises';
import * as os from 'node:os';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { leaderEpoch } from '../src/base/brands.ts';
import { writeI64, writeU32 } from '../src/base/bytes.ts';
import { checkBatch } from '../src/format/batch.ts';
import { loadAddon } from '../src/host/addon.ts';
import { openDisk } from '../src/host/disk.ts';
import { crc32c } from '../src/platform/checksum.ts';
import { systemClock } from '../src/platform/clock.ts';
import { systemRandom } from '../src/platform/random.ts';
import { silentTelemetry } from '../src/platform/telemetry.ts';
import { LOG_CONFIG_DEFAULT, type LogConfig, type Preallocation, type StorageDeps } from '../src/storage/config.ts';
import { PartitionLog } from '../src/storage/log.ts';

const WAYS: readonly Preallocation[] = ['none', 'fallocate', 'zero', 'recycle'];
const POLICIES = ['always', 'never'] as const;
const BATCH_BYTES = 16 * 1024;
const SEGMENT_BYTES = 8 * 1024 * 1024;
const TOTAL_BYTES = { always: 24 * 1024 * 1024, never: 96 * 1024 * 1024 } as const;
/** Recycling needs something to recycle: the head goes while the tail grows, for every way alike. */
const KEPT_BYTES = 2 * SEGMENT_BYTES;
/** Appends that wait for their group commit at once, as requests of so many producers do. */
const IN_FLIGHT = 4;

const ADDON = fileURLToPath(new URL('../native/build/rivulet.node', import.meta.url));

function makeBatch(): Uint8Array {
  const bytes = new Uint8Array(BATCH_BYTES);
  writeU32(bytes, 8, BATCH_BYTES - 12);
  bytes[16] = 2;
  writeI64(bytes, 27, 1000);
  writeI64(bytes, 35, 1000);
  writeI64(bytes, 43, -1);
  writeU32(bytes, 51, 0xffff_ffff);
  bytes[55] = 0xff;
  bytes[56] = 0xff;
  writeU32(bytes, 57, 1);
  for (let at = 61; at < bytes.length; at += 1) bytes[at] = (at * 31) & 0xff;
  writeU32(bytes, 17, crc32c(bytes.subarray(21)));
  return bytes;
}

/** MiB a second. */
async function measure(root: string, config: LogConfig, policy: (typeof POLICIES)[number]): Promise<number> {
  const addon = loadAddon(ADDON);
  const deps: StorageDeps = {
    disk: openDisk(root, addon),
    clock: systemClock(),
    random: systemRandom,
    crc32c,
    telemetry: silentTelemetry,
    fatal: (reason, detail) => {
      throw new Error(`${reason}: ${detail}`);
    },
  };
  const log = await PartitionLog.open(deps, 'log', config, { clean: false, create: true });
  const bytes = makeBatch();
  const checked = checkBatch(bytes, 0, crc32c);
  if (!checked.ok) throw new Error(checked.detail);
  const batches = [{ at: 0, size: checked.size, header: checked.header }];
  const appendAll = async (total: number): Promise<void> => {
    for (let done = 0, since = 0; done < total; done += BATCH_BYTES) {
      const result = log.append(bytes, batches, leaderEpoch(0));
      if (!result.ok) throw new Error(result.code);
      if (result.whenWritten !== undefined) await result.whenWritten;
      since += 1;
      if (since === IN_FLIGHT) {
        since = 0;
        if (policy === 'always') await log.sync();
        else await new Promise(setImmediate);
      }
      if (done % SEGMENT_BYTES === 0) await log.retain(Date.now());
    }
  };
  // Into balance first: segments are retired and prepared.
  await appendAll(4 * SEGMENT_BYTES);
  const startMs = performance.now();
  await appendAll(TOTAL_BYTES[policy]);
  const tookMs = performance.now() - startMs;
  await log.close({ clean: true });
  return TOTAL_BYTES[policy] / 1048576 / (tookMs / 1000);
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

const parent = process.argv[2] ?? os.tmpdir();
const rounds = Number(process.argv[3] ?? 5);
const results = new Map<string, number[]>();
for (let round = 0; round < rounds; round += 1) {
  for (const policy of POLICIES) {
    for (let turn = 0; turn < WAYS.length; turn += 1) {
      const preallocate = WAYS[(turn + round) % WAYS.length] ?? 'none';
      const root = await fs.mkdtemp(path.join(parent, 'rivulet-bench-'));
      try {
        const config: LogConfig = {
          ...LOG_CONFIG_DEFAULT,
          fsync: policy,
          preallocate,
          segmentBytes: SEGMENT_BYTES,
          retentionBytes: KEPT_BYTES,
        };
        const key = `${policy} ${preallocate}`;
        results.set(key, [...(results.get(key) ?? []), await measure(root, config, policy)]);
      } finally {
        await fs.rm(root, { recursive: true, force: true });
      }
    }
  }
}
for (const policy of POLICIES) {
  const base = median(results.get(`${policy} none`) ?? []);
  for (const preallocate of WAYS) {
    const values = results.get(`${policy} ${preallocate}`) ?? [];
    console.log(
      `${policy.padEnd(7)} ${preallocate.padEnd(10)} median ${median(values).toFixed(1).padStart(7)} MiB/s  ` +
        `ratio ${(median(values) / base).toFixed(2)}  (${values.map((value) => value.toFixed(1)).join(', ')})`,
    );
  }
}
