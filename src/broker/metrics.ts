// What a broker counts. Names are public: dashboards are built on them.
import type { Counter, Histogram, Telemetry } from '../ports/telemetry.ts';
import type { OperationEntry } from '../protocol/operations.ts';

export interface BrokerMetrics {
  readonly produceSeconds: Histogram;
  readonly fetchSeconds: Histogram;
  readonly producedBytes: Counter;
  readonly fetchedBytes: Counter;
  readonly receivedBytes: Counter;
  readonly connectionsAccepted: Counter;
  readonly connectionsRefused: Counter;
  readonly coldReads: Counter;
  readonly loopDelaySeconds: Histogram;
  request(operation: OperationEntry): void;
  refused(code: string): void;
}

export function brokerMetrics(telemetry: Telemetry): BrokerMetrics {
  const requests = new Map<number, Counter>();
  const refusals = new Map<string, Counter>();
  return {
    produceSeconds: telemetry.histogram(
      'rivulet_produce_latency_seconds',
      'From the whole request of a produce to its answer.',
    ),
    fetchSeconds: telemetry.histogram(
      'rivulet_fetch_latency_seconds',
      'From the whole request of a fetch to its answer, waiting for data included.',
    ),
    producedBytes: telemetry.counter('rivulet_produced_bytes_total', 'Bytes of batches that were acknowledged.'),
    fetchedBytes: telemetry.counter('rivulet_fetched_bytes_total', 'Bytes of batches handed to connections.'),
    receivedBytes: telemetry.counter('rivulet_received_bytes_total', 'Bytes read from connections.'),
    connectionsAccepted: telemetry.counter('rivulet_connections_accepted_total', 'Connections that were accepted.'),
    connectionsRefused: telemetry.counter(
      'rivulet_connections_refused_total',
      'Connections turned away because there were too many.',
    ),
    coldReads: telemetry.counter('rivulet_cold_reads_total', 'Fetches that had to bring data into memory first.'),
    loopDelaySeconds: telemetry.histogram('rivulet_event_loop_delay_seconds', 'How late the ticker was.'),
    request(operation): void {
      let counter = requests.get(operation.operation);
      if (counter === undefined) {
        counter = telemetry.counter('rivulet_requests_total', 'Requests by operation.', { operation: operation.name });
        requests.set(operation.operation, counter);
      }
      counter.add();
    },
    refused(code): void {
      let counter = refusals.get(code);
      if (counter === undefined) {
        counter = telemetry.counter('rivulet_refusals_total', 'Requests answered with an error, by its name.', {
          code,
        });
        refusals.set(code, counter);
      }
      counter.add();
    },
  };
}
