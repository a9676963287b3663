import type { Counter, Gauge, Histogram, LogFields, LogLevel, Telemetry } from '../ports/telemetry.ts';

export interface RecordedLog {
  readonly level: LogLevel;
  readonly event: string;
  readonly fields: LogFields;
}

type Labels = Readonly<Record<string, string>>;

function keyOf(name: string, labels: Labels | undefined): string {
  const pairs = Object.entries(labels ?? {}).toSorted(([left], [right]) => (left < right ? -1 : 1));
  return pairs.length === 0 ? name : `${name}{${pairs.map(([label, value]) => `${label}="${value}"`).join(',')}}`;
}

/** Keeps everything, for tests to look at. Metric keys are `name` or `name{label="value",…}` with labels sorted. */
export class RecordingTelemetry implements Telemetry {
  readonly logs: RecordedLog[] = [];
  readonly counters: Map<string, number> = new Map();
  readonly gauges: Map<string, number> = new Map();
  readonly histograms: Map<string, number[]> = new Map();
  private readonly observed = new Map<string, () => number>();

  log(level: LogLevel, event: string, fields: LogFields = {}): void {
    this.logs.push({ level, event, fields });
  }

  /** Log lines of one event, in order. */
  events(event: string): readonly RecordedLog[] {
    return this.logs.filter((line) => line.event === event);
  }

  /** A counter, gauge or observed gauge; 0 when nothing was recorded. */
  value(name: string, labels?: Labels): number {
    const key = keyOf(name, labels);
    return this.counters.get(key) ?? this.gauges.get(key) ?? this.observed.get(key)?.() ?? 0;
  }

  counter(name: string, _help: string, labels?: Labels): Counter {
    const key = keyOf(name, labels);
    return {
      add: (value = 1) => {
        this.counters.set(key, (this.counters.get(key) ?? 0) + value);
      },
    };
  }

  gauge(name: string, _help: string, labels?: Labels): Gauge {
    const key = keyOf(name, labels);
    return {
      set: (value) => {
        this.gauges.set(key, value);
      },
    };
  }

  histogram(name: string, _help: string, labels?: Labels): Histogram {
    const key = keyOf(name, labels);
    return {
      observe: (value) => {
        const seen = this.histograms.get(key);
        if (seen === undefined) this.histograms.set(key, [value]);
        else seen.push(value);
      },
    };
  }

  observeGauge(name: string, _help: string, read: () => number, labels?: Labels): void {
    this.observed.set(keyOf(name, labels), read);
  }
}
