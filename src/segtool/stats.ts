// How large batches and records are, how many came when, and which keys are the largest.
import { toBase64 } from './base64.ts';
import { readBatches, recordsOf } from './batches.ts';
import { jsonBytes, type JsonBytes } from './dump.ts';
import type { LogReport } from './log-check.ts';
import type { ToolDeps } from './tool.ts';

export interface Bucket {
  /** Counts sizes below this many bytes and not below half of it. */
  readonly below: number;
  readonly count: number;
}

export interface LogStats {
  readonly log: string;
  readonly batches: number;
  readonly records: number;
  readonly undecodable: number;
  readonly batchBytes: readonly Bucket[];
  readonly recordBytes: readonly Bucket[];
  /** Records and bytes of values by time. */
  readonly rates: readonly {
    readonly fromMs: number;
    readonly toMs: number;
    readonly records: number;
    readonly bytes: number;
  }[];
  readonly largestKeys: readonly { readonly key: JsonBytes; readonly records: number; readonly bytes: number }[];
  /** Keys beyond those that are counted were met. */
  readonly keysCut: boolean;
}

const KEYS_MAX = 1_000_000;
const KEYS_SHOWN = 10;
const STEPS_SHOWN = 20;

class Histogram {
  private readonly counts = new Map<number, number>();
  add(bytes: number): void {
    const below = 2 ** Math.ceil(Math.log2(bytes + 1));
    this.counts.set(below, (this.counts.get(below) ?? 0) + 1);
  }
  get buckets(): readonly Bucket[] {
    return [...this.counts]
      .map(([below, count]) => ({ below, count }))
      .toSorted((left, right) => left.below - right.below);
  }
}

export async function logStats(deps: ToolDeps, log: LogReport): Promise<LogStats> {
  const [batchBytes, recordBytes] = [new Histogram(), new Histogram()];
  const keys = new Map<string, { key: Uint8Array; records: number; bytes: number }>();
  const times = timeSteps(log);
  let [batches, records, undecodable, keysCut] = [0, 0, 0, false];
  for await (const found of readBatches(deps, log)) {
    if (found.kind === 'skipped') continue;
    batches += 1;
    batchBytes.add(found.bytes.length);
    const decoded = recordsOf(deps.compression, found.header, found.bytes);
    if (!decoded.ok) {
      undecodable += 1;
      continue;
    }
    for (const { key, value, timestamp } of decoded.records) {
      records += 1;
      const bytes = (key?.length ?? 0) + (value?.length ?? 0);
      recordBytes.add(bytes);
      times.add(timestamp, bytes);
      if (key === null) continue;
      const name = toBase64(key);
      const known = keys.get(name);
      if (known !== undefined) {
        known.records += 1;
        known.bytes += bytes;
      } else if (keys.size < KEYS_MAX) keys.set(name, { key: key.slice(), records: 1, bytes });
      else keysCut = true;
    }
  }
  const largest = [...keys.values()].toSorted((left, right) => right.bytes - left.bytes).slice(0, KEYS_SHOWN);
  return {
    log: log.target.label,
    batches,
    records,
    undecodable,
    batchBytes: batchBytes.buckets,
    recordBytes: recordBytes.buckets,
    rates: times.rates,
    largestKeys: largest.map(({ key, ...rest }) => ({ key: jsonBytes(key), ...rest })),
    keysCut,
  };
}

function timeSteps(log: LogReport): {
  add: (timestamp: number, bytes: number) => void;
  readonly rates: LogStats['rates'];
} {
  const stamps = log.segments
    .flatMap(({ scan }) => [scan.facts.firstTimestamp, scan.facts.maxTimestamp])
    .filter((stamp) => stamp >= 0);
  const first = stamps.length === 0 ? 0 : stamps.reduce((least, stamp) => Math.min(least, stamp));
  const last = stamps.length === 0 ? 0 : stamps.reduce((most, stamp) => Math.max(most, stamp));
  const step = Math.max(1, Math.ceil((last - first + 1) / STEPS_SHOWN));
  const rates = Array.from({ length: Math.min(STEPS_SHOWN, Math.ceil((last - first + 1) / step)) }, (_, index) => ({
    fromMs: first + index * step,
    toMs: first + (index + 1) * step,
    records: 0,
    bytes: 0,
  }));
  return {
    add: (timestamp, bytes) => {
      const slot = rates[Math.min(rates.length - 1, Math.max(0, Math.floor((timestamp - first) / step)))];
      if (slot === undefined || timestamp < 0) return;
      slot.records += 1;
      slot.bytes += bytes;
    },
    rates,
  };
}
