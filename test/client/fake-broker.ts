// A broker in memory, over the real transport and the real frames, that follows the rules of idempotent producers and breaks
// the others on demand.
import { ByteReader, ByteWriter, readI32, readI64, readU16, stringSize, writeI64, writeU32 } from '../../src/base/bytes.ts';
import { FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import { errorCode, type ErrorName } from '../../src/base/errors.ts';
import { FrameInput, OP, frameHeader } from '../../src/client/wire.ts';
import { crc32c } from '../../src/platform/checksum.ts';
import { tcpNetwork } from '../../src/platform/tcp.ts';
import type { Address, Connection, ConnectionHandler, Listener } from '../../src/ports/network.ts';

export interface StoredRange {
  readonly bytes: Uint8Array;
  readonly baseOffset: number;
  readonly lastOffset: number;
}

interface ProducerState {
  epoch: number;
  nextSequence: number;
  readonly recent: { readonly sequence: number; readonly count: number; readonly baseOffset: number }[];
}

export class FakePartition {
  readonly batches: StoredRange[] = [];
  logStart = 0;
  end = 0;
  epoch = 3;
  readonly producers: Map<number, ProducerState> = new Map();

  append(given: Uint8Array): number {
    const bytes = given.slice();
    const count = readI32(bytes, 57);
    writeI64(bytes, 0, this.end);
    writeU32(bytes, 12, this.epoch);
    const baseOffset = this.end;
    this.end += count;
    this.batches.push({ bytes, baseOffset, lastOffset: this.end - 1 });
    return baseOffset;
  }

  publish(batch: Uint8Array): { error: ErrorName } | { baseOffset: number } {
    if (crc32c(batch.subarray(21)) !== new ByteReader(batch.subarray(17, 21)).u32()) return { error: 'CORRUPT_BATCH' };
    const producerId = readI64(batch, 43) ?? -1;
    if (producerId < 0) return { baseOffset: this.append(batch) };
    const epoch = readU16(batch, 51);
    const sequence = readI32(batch, 53);
    const count = readI32(batch, 57);
    let state = this.producers.get(producerId);
    if (state !== undefined && epoch < state.epoch) return { error: 'PRODUCER_FENCED' };
    if (state === undefined || epoch > state.epoch) {
      if (sequence !== 0) return { error: state === undefined ? 'UNKNOWN_PRODUCER' : 'OUT_OF_ORDER_SEQUENCE' };
      state = { epoch, nextSequence: 0, recent: [] };
      this.producers.set(producerId, state);
    }
    const repeated = state.recent.find((known) => known.sequence === sequence && known.count === count);
    if (repeated !== undefined) return { baseOffset: repeated.baseOffset };
    if (sequence < state.nextSequence) return { error: 'DUPLICATE_SEQUENCE' };
    if (sequence > state.nextSequence) return { error: 'OUT_OF_ORDER_SEQUENCE' };
    const baseOffset = this.append(batch);
    state.nextSequence = sequence + count;
    state.recent.push({ sequence, count, baseOffset });
    if (state.recent.length > 5) state.recent.shift();
    return { baseOffset };
  }
}

export type PublishFault =
  | 'none'
  /** Appended, then the connection is cut before the answer. */
  | 'drop-after-append'
  | 'drop-before-append'
  /** Appended, never answered. */
  | 'silent-after-append'
  | 'silent-before-append'
  | 'garbage'
  | { readonly refuse: ErrorName };

export interface FakeOptions {
  readonly topics: Readonly<Record<string, number>>;
  /** Called for each publish; default: none. */
  readonly onPublish?: (count: number, partition: number, batch: Uint8Array) => PublishFault;
  readonly onFetch?: (count: number, offset: number) => ErrorName | undefined;
  readonly onFetchBytes?: (bytes: Uint8Array) => Uint8Array;
  readonly speaksInitProducer?: boolean;
  /** Accept publishes without storing them: for measuring. */
  readonly sink?: boolean;
  readonly nodeId?: number;
}

export class FakeBroker {
  readonly options: FakeOptions;
  readonly topics: Map<string, FakePartition[]> = new Map();
  readonly connections: Set<Connection> = new Set();
  publishes = 0;
  fetches = 0;
  hellos = 0;
  metadataRequests = 0;
  resumeAt = -1;
  nextProducerId = 1000;
  readonly epochs: Map<number, number> = new Map();
  readonly names: Map<string, number> = new Map();
  #listener: Listener | undefined;

  private constructor(options: FakeOptions) {
    this.options = options;
    for (const [topic, count] of Object.entries(options.topics)) this.topics.set(topic, Array.from({ length: count }, () => new FakePartition()));
  }

  static async start(options: FakeOptions): Promise<FakeBroker> {
    const broker = new FakeBroker(options);
    broker.#listener = await tcpNetwork().listen({ host: '127.0.0.1', port: 0 }, (connection) => broker.#accept(connection));
    return broker;
  }

  get address(): Address {
    if (this.#listener === undefined) throw new Error('not listening');
    return this.#listener.address;
  }
  get server(): string {
    return `127.0.0.1:${String(this.address.port)}`;
  }

  partition(topic: string, index = 0): FakePartition {
    const found = this.topics.get(topic)?.[index];
    if (found === undefined) throw new Error(`no ${topic}/${String(index)}`);
    return found;
  }

  async stop(): Promise<void> {
    for (const connection of this.connections) connection.destroy();
    await this.#listener?.close();
  }

  #accept(connection: Connection): ConnectionHandler {
    this.connections.add(connection);
    const input = new FrameInput(FRAME_BYTES_MAX);
    return {
      receiveBuffer: () => input.writable(),
      received: (bytes) => {
        input.advance(bytes);
        for (;;) {
          const frame = input.next();
          if (frame === undefined) return;
          if ('fault' in frame) {
            connection.destroy();
            return;
          }
          if (!this.connections.has(connection)) return;
          this.#handle(connection, frame.operation, frame.correlationId, frame.body);
        }
      },
      drained: () => undefined,
      closed: () => {
        this.connections.delete(connection);
      },
    };
  }

  #cut(connection: Connection): void {
    this.connections.delete(connection);
    connection.destroy();
  }

  #answer(connection: Connection, operation: number, id: number, body: Uint8Array, more: readonly Uint8Array[] = []): void {
    const code = new Uint8Array(2);
    const bytes = more.reduce((sum, piece) => sum + piece.length, 2 + body.length);
    connection.send([frameHeader(operation, 1, id, bytes, 1), code, body, ...more]);
  }

  #refuse(connection: Connection, operation: number, id: number, name: ErrorName): void {
    const body = new ByteWriter(2 + stringSize(name)).u16(errorCode(name)).string(name).finish();
    connection.send([frameHeader(operation, 1, id, body.length, 1), body]);
  }

  #handle(connection: Connection, operation: number, id: number, body: Uint8Array): void {
    switch (operation) {
      case OP.hello: {
        this.hellos += 1;
        const spoken = Object.values(OP).filter((op) => op !== OP.initProducer || this.options.speaksInitProducer !== false);
        const writer = new ByteWriter(4 + spoken.length * 3).u32(spoken.length);
        for (const op of spoken) writer.u16(op).u8(1);
        this.#answer(connection, operation, id, writer.finish());
        return;
      }
      case OP.metadata:
        this.metadataRequests += 1;
        this.#answer(connection, operation, id, this.#metadata(new ByteReader(body)));
        return;
      case OP.initProducer:
        this.#initProducer(connection, id, new ByteReader(body));
        return;
      case OP.produce:
        this.#produce(connection, id, body);
        return;
      case OP.fetch:
        this.#fetch(connection, id, new ByteReader(body));
        return;
      case OP.listOffsets: {
        const reader = new ByteReader(body);
        reader.u32();
        const partition = this.partition(reader.string(), reader.u32());
        const at = reader.i64();
        const offset = at === -2 ? partition.logStart : partition.end;
        this.#answer(connection, operation, id, new ByteWriter(26).u32(1).u16(0).i64(offset).i64(-1).i32(partition.epoch).finish());
        return;
      }
      case OP.createTopic: {
        const reader = new ByteReader(body);
        const name = reader.string();
        if (this.topics.has(name)) this.#refuse(connection, operation, id, 'TOPIC_EXISTS');
        else {
          this.topics.set(name, Array.from({ length: reader.u32() }, () => new FakePartition()));
          this.#answer(connection, operation, id, new Uint8Array());
        }
        return;
      }
      case OP.deleteTopic:
        if (this.topics.delete(new ByteReader(body).string())) this.#answer(connection, operation, id, new Uint8Array());
        else this.#refuse(connection, operation, id, 'UNKNOWN_TOPIC');
        return;
      default:
        this.#refuse(connection, operation, id, 'UNSUPPORTED_OPERATION');
    }
  }

  #metadata(reader: ByteReader): Uint8Array {
    const all = reader.bool();
    const asked: string[] = [];
    for (let count = reader.count(2); count > 0; count -= 1) asked.push(reader.string());
    const names = all ? [...this.topics.keys()] : asked.filter((name) => this.topics.has(name));
    const writer = new ByteWriter(65_536).string('fake').i32(1).u32(1).u32(this.options.nodeId ?? 1).string('127.0.0.1').u16(this.address.port).u32(names.length);
    for (const name of names) {
      const partitions = this.topics.get(name) ?? [];
      writer.string(name).string('0'.repeat(32)).u32(0).u32(partitions.length);
      for (const partition of partitions) writer.i32(this.options.nodeId ?? 1).i32(partition.epoch).u32(1).i32(1).u32(1).i32(1);
    }
    return writer.bytes.subarray(0, writer.at);
  }

  #initProducer(connection: Connection, id: number, reader: ByteReader): void {
    const name = reader.string();
    const known = reader.i64();
    let producerId = name === '' ? known : (this.names.get(name) ?? -1);
    if (producerId < 0) {
      producerId = this.nextProducerId;
      this.nextProducerId += 1;
      if (name !== '') this.names.set(name, producerId);
      this.epochs.set(producerId, 0);
    } else this.epochs.set(producerId, (this.epochs.get(producerId) ?? 0) + 1);
    const epoch = this.epochs.get(producerId) ?? 0;
    if (name !== '') {
      for (const partitions of this.topics.values()) {
        for (const partition of partitions) {
          const state = partition.producers.get(producerId);
          if (state !== undefined) partition.producers.set(producerId, { epoch, nextSequence: 0, recent: [] });
        }
      }
    }
    this.#answer(connection, OP.initProducer, id, new ByteWriter(10).i64(producerId).u16(epoch).finish());
  }

  #produce(connection: Connection, id: number, body: Uint8Array): void {
    const reader = new ByteReader(body);
    const topic = reader.string();
    const index = reader.u32();
    reader.raw(1 + 8 + 2 + 4 + 4);
    const batch = body.subarray(reader.at);
    this.publishes += 1;
    if (this.options.sink === true) {
      this.#answer(connection, OP.produce, id, new ByteWriter(12).i64(0).i32(1).finish());
      return;
    }
    const fault = this.options.onPublish?.(this.publishes, index, batch) ?? 'none';
    if (fault === 'drop-before-append') this.#cut(connection);
    else if (fault === 'garbage') connection.send([new Uint8Array(64).fill(0xff)]);
    else if (typeof fault === 'object') this.#refuse(connection, OP.produce, id, fault.refuse);
    else if (fault !== 'silent-before-append') {
      const partition = this.partition(topic, index);
      const result = partition.publish(batch);
      if (fault === 'drop-after-append') this.#cut(connection);
      else if (fault === 'silent-after-append') return;
      else if ('error' in result) this.#refuse(connection, OP.produce, id, result.error);
      else this.#answer(connection, OP.produce, id, new ByteWriter(12).i64(result.baseOffset).i32(partition.epoch).finish());
    }
  }

  #fetch(connection: Connection, id: number, reader: ByteReader): void {
    this.fetches += 1;
    const maxBytes = reader.u32();
    reader.u32();
    const waitMs = reader.u32();
    const heads: { topic: string; index: number; code: number; payload: Uint8Array[] }[] = [];
    let total = 0;
    for (let count = reader.count(2); count > 0; count -= 1) {
      const topic = reader.string();
      const index = reader.u32();
      const offset = reader.i64();
      reader.raw(12);
      const partition = this.partition(topic, index);
      let error = this.options.onFetch?.(this.fetches, offset);
      if (error === undefined && offset < partition.logStart) error = 'OFFSET_EXPIRED';
      if (error === undefined && offset > partition.end) error = 'OFFSET_BEYOND_END';
      const payload: Uint8Array[] = [];
      if (error === undefined) {
        for (let at = firstFrom(partition.batches, offset); at < partition.batches.length; at += 1) {
          const stored = partition.batches[at];
          if (stored === undefined || (total > 0 && total + stored.bytes.length > maxBytes)) break;
          payload.push(this.options.onFetchBytes === undefined ? stored.bytes : this.options.onFetchBytes(stored.bytes));
          total += stored.bytes.length;
        }
      }
      heads.push({ topic, index, code: error === undefined ? 0 : errorCode(error), payload });
    }
    const respond = (): void => {
      if (!this.connections.has(connection)) return;
      const writer = new ByteWriter(4 + heads.reduce((sum, { topic }) => sum + stringSize(topic) + 34, 0)).u32(heads.length);
      for (const { topic, index, code, payload } of heads) {
        const partition = this.partition(topic, index);
        const size = payload.reduce((sum, piece) => sum + piece.length, 0);
        writer.string(topic).u32(index).u16(code).i64(partition.logStart).i64(partition.end).i64(this.resumeAt).u32(size);
      }
      this.#answer(connection, OP.fetch, id, writer.finish(), heads.flatMap(({ payload }) => payload));
    };
    if (total === 0 && heads.every(({ code }) => code === 0)) setTimeout(respond, Math.min(waitMs, 20));
    else respond();
  }
}

function firstFrom(batches: readonly StoredRange[], offset: number): number {
  let low = 0;
  let high = batches.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((batches[middle]?.lastOffset ?? 0) < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
