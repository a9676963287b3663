// Where a consumer stands in one partition: what was delivered, what is fetched and waits, what to fetch next. Synchronous.
import { DecodeError } from '../base/bytes.ts';
import type { TopicId } from '../base/brands.ts';
import { RivuletError } from '../base/errors.ts';
import type { ClientPorts, StartPosition } from './api.ts';
import { type BatchView, type StoredBatch, openBatch, readStoredBatch } from './batch-view.ts';
import type { Deadline } from './deadlines.ts';

interface Fetched {
  readonly bytes: Uint8Array;
  readonly stored: StoredBatch;
}

export class PartitionReader {
  readonly topic: string;
  readonly partition: number;
  /** Of the topic when it was first seen: one that is created anew under the name is another. */
  topicId: TopicId | undefined;
  /** Still to be turned into an offset. */
  start: StartPosition | undefined;
  /** Next offset to deliver; undefined until `start` is resolved. */
  position: number | undefined;
  /** Next offset to fetch: behind what is buffered. */
  fetchOffset = 0;
  /** Of the last batch fetched: lets the broker tell that the log it was read from is not its own any more. */
  lastEpoch = -1;
  /** Deliver nothing from here on. */
  upTo: number = Number.MAX_SAFE_INTEGER;
  highWatermark = -1;
  logStart = -1;
  paused = false;
  /** Part of a fetch, or of a look-up of its start, that is out. */
  busy = false;
  /** Answers of an older generation are not for this position any more. */
  generation = 0;
  failures = 0;
  /** When the first of them was. */
  failingSinceMs = 0;
  backoff: Deadline | undefined;
  /** Ends the iteration when what is buffered has been delivered. */
  failure: RivuletError | undefined;
  /** Where to go on once what is buffered was delivered. */
  pendingSeek: StartPosition | undefined;
  bufferedBytes = 0;
  #buffered: Fetched[] = [];

  constructor(topic: string, partition: number, start: StartPosition) {
    this.topic = topic;
    this.partition = partition;
    this.start = start;
  }

  get label(): string {
    return `${this.topic}/${String(this.partition)}`;
  }
  get hasBuffered(): boolean {
    return this.#buffered.length > 0;
  }
  get done(): boolean {
    return this.position !== undefined && this.#buffered.length === 0 && this.fetchOffset >= this.upTo;
  }

  /** False: the topic that this reader reads is gone. */
  isOf(topicId: TopicId): boolean {
    this.topicId ??= topicId;
    return this.topicId === topicId;
  }

  /** Drops what was fetched and starts elsewhere. Returns the bytes that became free. */
  seek(to: StartPosition): number {
    const freed = this.bufferedBytes;
    this.generation += 1;
    this.#buffered = [];
    this.bufferedBytes = 0;
    this.failure = undefined;
    this.pendingSeek = undefined;
    this.failures = 0;
    this.lastEpoch = -1;
    if (typeof to === 'number') {
      this.start = undefined;
      this.position = to;
      this.fetchOffset = to;
    } else {
      this.start = to;
      this.position = undefined;
    }
    return freed;
  }

  /**
   * Takes the batches of one answer (its bytes are kept). Checks checksums and that offsets go on without a gap; what is
   * wrong becomes `failure`, behind the good batches before it. Returns the bytes buffered.
   */
  accept(bytes: Uint8Array, ports: ClientPorts): number {
    let at = 0;
    let kept = 0;
    const before = this.fetchOffset;
    while (at < bytes.length && this.fetchOffset < this.upTo) {
      let stored: StoredBatch | undefined;
      try {
        stored = readStoredBatch(bytes, at, ports.crc32c);
      } catch (error) {
        if (!(error instanceof DecodeError)) throw error;
        this.#poisoned(this.fetchOffset, -1, error.message);
        break;
      }
      if (stored === undefined) break;
      if (stored.lastOffset < this.fetchOffset || stored.baseOffset > this.fetchOffset) {
        this.#poisoned(
          this.fetchOffset,
          stored.baseOffset,
          `the broker answered with offset ${String(stored.baseOffset)} where ${String(this.fetchOffset)} comes next`,
        );
        break;
      }
      this.fetchOffset = stored.lastOffset + 1;
      this.lastEpoch = stored.leaderEpoch;
      at = stored.end;
      this.#buffered.push({ bytes, stored });
      kept += stored.end - stored.at;
    }
    if (at === 0 && bytes.length > 0 && this.failure === undefined && this.fetchOffset === before) {
      this.#poisoned(before, -1, `${String(bytes.length)} bytes hold no whole batch`);
    }
    this.bufferedBytes += kept;
    return kept;
  }

  /**
   * The next batch with records; control batches are passed over. `freed` is told the bytes that left the buffer. A batch that
   * cannot be decoded becomes `failure`; the position stays at it.
   */
  take(ports: ClientPorts, freed: (bytes: number) => void): BatchView | undefined {
    for (;;) {
      const next = this.#buffered.shift();
      if (next === undefined) return undefined;
      const { bytes, stored } = next;
      const size = stored.end - stored.at;
      this.bufferedBytes -= size;
      freed(size);
      const from = this.position ?? stored.baseOffset;
      if (stored.isControl) {
        this.position = stored.lastOffset + 1;
        continue;
      }
      try {
        const place = {
          topic: this.topic,
          partition: this.partition,
          highWatermark: this.highWatermark,
          from,
          upTo: this.upTo,
        };
        return openBatch(bytes, stored, place, ports.compression);
      } catch (error) {
        if (!(error instanceof DecodeError)) throw error;
        freed(this.bufferedBytes);
        this.bufferedBytes = 0;
        this.#buffered = [];
        this.#poisoned(stored.baseOffset, stored.lastOffset, error.message);
        return undefined;
      }
    }
  }

  #poisoned(from: number, to: number, detail: string): void {
    const range = to < 0 ? `from offset ${String(from)}` : `offsets ${String(from)} to ${String(to)}`;
    this.failure = new RivuletError('POISONED_BATCH', `${this.label}, ${range}: ${detail}; seek behind it to go on`, {
      facts: { topic: this.topic, partition: this.partition, fromOffset: from, toOffset: to },
    });
  }
}
