// One partition while this member of a group owns it: what is handed out of it, what is done, and what stops it.
import type { TopicId } from '../base/brands.ts';
import type { ClientPorts, ConsumedRecord, StartPosition } from './api.ts';
import type { BatchView } from './batch-view.ts';
import type { TopicPartition } from './group-api.ts';
import { PartitionReader } from './partition-reader.ts';
import { Progress } from './progress.ts';

/** Records handed out behind one that is not done: what a crash may repeat is bounded by this. */
const WINDOW_MAX = 10_000;

/** A record on its way through a handler. */
export interface Work {
  readonly owned: OwnedPartition;
  readonly record: ConsumedRecord;
  attempts: number;
}

export class OwnedPartition implements TopicPartition {
  readonly topic: string;
  readonly topicId: TopicId;
  readonly partition: number;
  readonly reader: PartitionReader;
  /** Aborts when it was lost, or given back before its handlers came to an end. */
  readonly abort: AbortController = new AbortController();
  /** Next offset to read as the coordinator knows it; undefined: nothing is committed. */
  committed: number | undefined;
  /** Nothing more is handed out: it is being given back. */
  draining = false;
  /** Stopped at this one; what was handed out behind it waits. */
  poison: Work | undefined;
  readonly held: Work[] = [];
  /** Handlers at work, or the record that the application has in hand. */
  running = 0;
  /** Told when the last of them ends. */
  idle: (() => void) | undefined;
  #progress: Progress | undefined;
  #batch: BatchView | undefined;
  #index = 0;
  #epoch = -1;

  constructor(
    place: TopicPartition & { readonly topicId: TopicId },
    start: StartPosition,
    committed: number | undefined,
    leaderEpoch: number,
  ) {
    this.topic = place.topic;
    this.topicId = place.topicId;
    this.partition = place.partition;
    this.committed = committed;
    this.reader = new PartitionReader(place.topic, place.partition, start);
    if (typeof start === 'number') this.reader.seek(start);
    this.reader.lastEpoch = leaderEpoch;
    this.#epoch = leaderEpoch;
  }

  /** What may be committed now; undefined: nothing that is not. */
  get committable(): { readonly offset: number; readonly leaderEpoch: number } | undefined {
    const progress = this.#progressNow();
    if (progress === undefined || progress.done === this.committed) return undefined;
    // Of the last batch handed out: right where all of it is done, and otherwise not known.
    return { offset: progress.done, leaderEpoch: progress.window === 0 ? this.#epoch : -1 };
  }

  /** Everything below is done; undefined: not known yet. */
  get done(): number | undefined {
    return this.#progressNow()?.done;
  }

  /** Between what is done and the high watermark as last told. */
  get lag(): number | undefined {
    const progress = this.#progressNow();
    if (progress === undefined || this.reader.highWatermark < 0) return undefined;
    return Math.max(0, this.reader.highWatermark - progress.done);
  }

  get canHandOut(): boolean {
    return (
      !this.draining &&
      this.poison === undefined &&
      (this.#batch !== undefined || this.reader.hasBuffered) &&
      (this.#progress?.window ?? 0) < WINDOW_MAX
    );
  }

  /** The next record; it counts as handed out. Undefined: there is none now. `freed` is told bytes that left the buffer. */
  next(ports: ClientPorts, freed: (bytes: number) => void): ConsumedRecord | undefined {
    for (;;) {
      this.#batch ??= this.#take(ports, freed);
      const batch = this.#batch;
      const progress = this.#progressNow();
      if (batch === undefined || progress === undefined) return undefined;
      const record = batch.record(this.#index);
      this.#index += 1;
      if (this.#index >= batch.length) this.#batch = undefined;
      // Behind a position that the application chose anew, which lies further back.
      if (record.offset < progress.passed) continue;
      progress.hand(record.offset);
      this.reader.position = record.offset + 1;
      this.#epoch = batch.leaderEpoch;
      return record;
    }
  }

  finish(offset: number): void {
    this.#progress?.finish(offset);
  }

  /** Nothing more is read of it. Returns the bytes that were buffered. */
  stop(): number {
    this.draining = true;
    this.#batch = undefined;
    this.held.splice(0);
    return this.reader.seek(this.reader.position ?? 0);
  }

  #take(ports: ClientPorts, freed: (bytes: number) => void): BatchView | undefined {
    const { reader } = this;
    this.#progressNow();
    const batch = reader.take(ports, freed);
    this.#index = 0;
    if (!reader.hasBuffered && reader.pendingSeek !== undefined && reader.failure === undefined) {
      const to = reader.pendingSeek;
      reader.pendingSeek = undefined;
      freed(reader.seek(to));
    } else if (batch === undefined && reader.position !== undefined) this.#progress?.skipTo(reader.position);
    return batch;
  }

  /** Known once the start is an offset. */
  #progressNow(): Progress | undefined {
    const { position } = this.reader;
    if (position === undefined) return this.#progress;
    if (this.#progress === undefined) this.#progress = new Progress(position);
    else if (this.#batch === undefined && !this.reader.hasBuffered) this.#progress.skipTo(position);
    return this.#progress;
  }
}
