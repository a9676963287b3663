import { Writable } from 'node:stream';
import pino from 'pino';
import * as prom from 'prom-client';
import type { Counter, Gauge, Histogram, LogFields, LogLevel, Telemetry } from '../ports/telemetry.ts';

/** What the broker's telemetry adds to the port: the text of /metrics. */
export interface MeasuredTelemetry extends Telemetry {
  /** The Prometheus text format. */
  metricsText(): Promise<string>;
  readonly metricsContentType: string;
  /** Waits until the lines logged so far are handed to the system. */
  flush(): void;
}

export interface TelemetryOptions {
  /** A descriptor (2 is standard error, the default) or a stream for the lines. */
  readonly output?: number | Writable;
  readonly level?: LogLevel;
  /** Constant fields of each line, such as the node id. */
  readonly base?: LogFields;
}

type Labels = Readonly<Record<string, string>>;

/** From 50 µs to 10 s: a sync into written blocks takes 0.1 ms, a stuck disk seconds. */
const SECONDS_BUCKETS: readonly number[] = [
  0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10,
];
const BYTES_BUCKETS: readonly number[] = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];

/** Lines of JSON by pino, metrics in a registry of their own (two brokers in one process do not mix). */
export function openTelemetry(options: TelemetryOptions = {}): MeasuredTelemetry {
  const output = options.output ?? 2;
  // Synchronous: a line that says why the process stops must not stay in a buffer.
  const destination = typeof output === 'number' ? pino.destination({ fd: output, sync: true }) : output;
  const logger = pino(
    {
      level: options.level ?? 'info',
      base: { ...options.base },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
    },
    destination,
  );
  const metrics = new Metrics();
  return {
    log: (level, event, fields) => {
      logger[level]({ event, ...fields });
    },
    counter: (name, help, labels) => metrics.counter(name, help, labels ?? {}),
    gauge: (name, help, labels) => metrics.gauge(name, help, labels ?? {}),
    histogram: (name, help, labels) => metrics.histogram(name, help, labels ?? {}),
    observeGauge: (name, help, read, labels) => {
      metrics.observeGauge(name, help, read, labels ?? {});
    },
    metricsText: () => metrics.registry.metrics(),
    metricsContentType: metrics.registry.contentType,
    flush: () => {
      if (!(destination instanceof Writable)) destination.flushSync();
    },
  };
}

/** Labels of one name must have the same keys each time; a difference is refused by prom-client with an error. */
class Metrics {
  readonly registry: prom.Registry = new prom.Registry();
  private readonly counters = new Map<string, prom.Counter>();
  private readonly gauges = new Map<string, prom.Gauge>();
  private readonly histograms = new Map<string, prom.Histogram>();
  private readonly readers = new Map<string, Map<string, { labels: Labels; read: () => number }>>();
  private readonly children = new Map<string, Counter | Gauge | Histogram>();

  counter(name: string, help: string, labels: Labels): Counter {
    return this.child(`c ${name}`, labels, () => {
      const metric = known(
        this.counters,
        name,
        () => new prom.Counter({ name, help, labelNames: Object.keys(labels), registers: [this.registry] }),
      );
      const child = metric.labels(labels);
      return {
        add: (value = 1) => {
          child.inc(value);
        },
      };
    });
  }
  gauge(name: string, help: string, labels: Labels): Gauge {
    return this.child(`g ${name}`, labels, () => {
      const metric = known(
        this.gauges,
        name,
        () => new prom.Gauge({ name, help, labelNames: Object.keys(labels), registers: [this.registry] }),
      );
      const child = metric.labels(labels);
      return {
        set: (value: number) => {
          child.set(value);
        },
      };
    });
  }
  histogram(name: string, help: string, labels: Labels): Histogram {
    return this.child(`h ${name}`, labels, () => {
      const buckets = [...(name.endsWith('_bytes') ? BYTES_BUCKETS : SECONDS_BUCKETS)];
      const metric = known(
        this.histograms,
        name,
        () => new prom.Histogram({ name, help, buckets, labelNames: Object.keys(labels), registers: [this.registry] }),
      );
      const child = metric.labels(labels);
      return {
        observe: (value: number) => {
          child.observe(value);
        },
      };
    });
  }
  observeGauge(name: string, help: string, read: () => number, labels: Labels): void {
    const readers = known(this.readers, name, () => {
      const made = new Map<string, { labels: Labels; read: () => number }>();
      this.gauges.set(
        name,
        new prom.Gauge({
          name,
          help,
          labelNames: Object.keys(labels),
          registers: [this.registry],
          collect(): void {
            for (const one of made.values()) this.set(one.labels, one.read());
          },
        }),
      );
      return made;
    });
    readers.set(labelKey(labels), { labels, read });
  }
  /** Asking twice gives the same metric, so that callers need not keep them. */
  private child<Kind extends Counter | Gauge | Histogram>(prefix: string, labels: Labels, make: () => Kind): Kind {
    const key = `${prefix} ${labelKey(labels)}`;
    const existing = this.children.get(key);
    if (existing !== undefined) return existing as Kind;
    const made = make();
    this.children.set(key, made);
    return made;
  }
}

function labelKey(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([left], [right]) => (left < right ? -1 : 1)));
}

function known<Value>(map: Map<string, Value>, name: string, make: () => Value): Value {
  const existing = map.get(name);
  if (existing !== undefined) return existing;
  const made = make();
  map.set(name, made);
  return made;
}

const ignore = (): void => undefined;

/** Says and counts nothing: for tests and for commands that use a part of the broker. */
export const silentTelemetry: Telemetry = {
  log: ignore,
  counter: () => ({ add: ignore }),
  gauge: () => ({ set: ignore }),
  histogram: () => ({ observe: ignore }),
  observeGauge: ignore,
};
