// Records that could not be handled, kept in a topic of their own with where they came from and why.
import type { ConsumedRecord, Producer, ProducerHeader } from './api.ts';

/** Headers of a record in a dead-letter topic. Its own headers, key and value stay as they were. */
export const DEAD_LETTER_HEADERS = {
  group: 'rivulet-dead-letter-group',
  topic: 'rivulet-dead-letter-topic',
  partition: 'rivulet-dead-letter-partition',
  offset: 'rivulet-dead-letter-offset',
  timestamp: 'rivulet-dead-letter-timestamp',
  attempts: 'rivulet-dead-letter-attempts',
  error: 'rivulet-dead-letter-error',
} as const;

/** Of an earlier time in a dead-letter topic: they would speak of another place. */
const OWN: ReadonlySet<string> = new Set(Object.values(DEAD_LETTER_HEADERS));
const ERROR_BYTES_MAX = 1024;

export class DeadLetters {
  readonly #producer: Producer;
  readonly #topic: string;
  readonly #group: string;
  constructor(producer: Producer, topic: string, group: string) {
    this.#producer = producer;
    this.#topic = topic;
    this.#group = group;
  }

  /** Resolves once it is committed there. */
  async send(record: ConsumedRecord, error: unknown, attempts: number): Promise<void> {
    const headers: ProducerHeader[] = [
      ...record.headers.filter(({ key }) => !OWN.has(key)),
      { key: DEAD_LETTER_HEADERS.group, value: this.#group },
      { key: DEAD_LETTER_HEADERS.topic, value: record.topic },
      { key: DEAD_LETTER_HEADERS.partition, value: String(record.partition) },
      { key: DEAD_LETTER_HEADERS.offset, value: String(record.offset) },
      { key: DEAD_LETTER_HEADERS.timestamp, value: String(record.timestamp) },
      { key: DEAD_LETTER_HEADERS.attempts, value: String(attempts) },
      { key: DEAD_LETTER_HEADERS.error, value: textOf(error) },
    ];
    await this.#producer.send(this.#topic, { key: record.key, value: record.value, headers });
  }
}

function textOf(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.slice(0, ERROR_BYTES_MAX);
}
