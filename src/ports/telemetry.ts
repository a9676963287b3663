export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'fatal';

/** Stable facts; secrets never go in. */
export interface LogFields {
  readonly [field: string]: string | number | boolean | undefined;
}

export interface Counter {
  add(value?: number): void;
}
export interface Gauge {
  set(value: number): void;
}
export interface Histogram {
  /** In the unit its name ends with. */
  observe(value: number): void;
}

/** Names follow Prometheus conventions: rivulet_..._total, ..._seconds, ..._bytes. Asking twice gives the same metric. */
export interface Telemetry {
  log(level: LogLevel, event: string, fields?: LogFields): void;
  counter(name: string, help: string, labels?: Readonly<Record<string, string>>): Counter;
  gauge(name: string, help: string, labels?: Readonly<Record<string, string>>): Gauge;
  histogram(name: string, help: string, labels?: Readonly<Record<string, string>>): Histogram;
  /** Computed when asked for. */
  observeGauge(name: string, help: string, read: () => number, labels?: Readonly<Record<string, string>>): void;
}
