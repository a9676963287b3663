// A client of frames, so that tests can send what no good client would. Answers are kept until they are asked for.
import { connect as connectTcp, type Socket } from 'node:net';
import { NO_EPOCH, NO_PRODUCER, offset, type TopicId } from '../../src/base/brands.ts';
import { FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { encodeBatch, type BatchInput } from '../../src/format/records.ts';
import type { Connection, ConnectionHandler, Network } from '../../src/ports/network.ts';
import {
  createTopicV1,
  decodeAnswer,
  encodeRequestFrame,
  fetchV1,
  FrameReader,
  helloV1,
  listOffsetsV1,
  metadataV1,
  OPERATION,
  produceV1,
  type Failure,
  type Frame,
  type OperationName,
  type Pieces,
} from '../../src/protocol/index.ts';

export interface RawAnswer {
  readonly operation: number;
  readonly correlationId: number;
  readonly failure: Failure | undefined;
  /** A copy. */
  readonly body: Uint8Array;
}

/** What carries the bytes: real sockets and simulated ones look alike from here. */
export interface Wire {
  send(bytes: Uint8Array): void;
  pause(): void;
  resume(): void;
  end(): void;
}

const WAIT_MS = 20_000;

export class RawClient {
  private wire: Wire | undefined;
  private readonly reader = new FrameReader({ expect: 'answers', bodyBytesMax: FRAME_BYTES_MAX });
  private readonly answers: RawAnswer[] = [];
  private readonly waiters: (() => void)[] = [];
  private correlation = 0;
  isClosed = false;

  static async tcp(port: number): Promise<RawClient> {
    const client = new RawClient();
    const socket = connectTcp({ host: '127.0.0.1', port });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve).once('error', reject);
    });
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Uint8Array) => {
      client.take(chunk);
    });
    socket.on('close', () => {
      client.close();
    });
    client.wire = wireOf(socket);
    return client;
  }

  static async over(network: Network, host: string, port: number): Promise<RawClient> {
    const client = new RawClient();
    let connection: Connection | undefined;
    const room = new Uint8Array(65_536);
    const handler: ConnectionHandler = {
      receiveBuffer: () => room,
      received: (bytes) => {
        client.take(room.subarray(0, bytes));
      },
      drained: () => undefined,
      closed: () => {
        client.close();
      },
    };
    connection = await network.connect({ host, port }, 10_000, (made) => {
      connection = made;
      return handler;
    });
    const open = connection;
    client.wire = {
      send: (bytes) => {
        open.send([bytes]);
      },
      pause: () => {
        open.pause();
      },
      resume: () => {
        open.resume();
      },
      end: () => {
        open.destroy();
      },
    };
    return client;
  }

  send(bytes: Uint8Array): void {
    this.wire?.send(bytes);
  }
  pauseReading(): void {
    this.wire?.pause();
  }
  resumeReading(): void {
    this.wire?.resume();
  }
  end(): void {
    this.wire?.end();
  }

  /** Returns the correlation id. */
  request(name: OperationName, body: Pieces, version = 1): number {
    this.correlation += 1;
    this.send(
      joined(
        encodeRequestFrame({ operation: OPERATION[name].operation, version, correlationId: this.correlation }, body),
      ),
    );
    return this.correlation;
  }

  /** The answer to a request, or the last words of the connection (correlation id 0, unless others are asked for). */
  answer(correlationId: number): Promise<RawAnswer> {
    return this.until(
      () => {
        const at = this.answers.findIndex((each) => each.correlationId === correlationId);
        return at < 0 ? undefined : this.answers.splice(at, 1)[0];
      },
      `an answer to request ${String(correlationId)}`,
    );
  }
  async closed(): Promise<void> {
    await this.until(() => (this.isClosed ? true : undefined), 'the end of the connection');
  }

  /** Sends a request and gives the response's body; a refusal is thrown. */
  async call(name: OperationName, body: Pieces): Promise<Uint8Array> {
    const { failure, body: response } = await this.answer(this.request(name, body));
    if (failure !== undefined) throw Object.assign(new Error(`${failure.code}: ${failure.message}`), { failure });
    return response;
  }
  /** The failure of a request that must be refused. */
  async refused(name: OperationName, body: Pieces, version = 1): Promise<Failure> {
    const { failure } = await this.answer(this.request(name, body, version));
    if (failure === undefined) throw new Error(`${name} was not refused`);
    return failure;
  }

  async hello(): Promise<helloV1.HelloResponse> {
    const body = helloV1.encodeRequest({
      protocolMin: 1,
      protocolMax: 1,
      clientId: 'raw',
      softwareName: 'test',
      softwareVersion: '1',
      authentication: undefined,
    });
    return value(helloV1.decodeResponse(await this.call('Hello', body)));
  }
  async createTopic(name: string, given: Partial<createTopicV1.CreateTopicRequest> = {}): Promise<TopicId> {
    const request = {
      name,
      partitions: 1,
      replicas: 0,
      config: [],
      validateOnly: false,
      ifNotExists: false,
      timeoutMs: 10_000,
      ...given,
    };
    const { topicId } = value(
      createTopicV1.decodeResponse(await this.call('CreateTopic', createTopicV1.encodeRequest(request))),
    );
    if (topicId === undefined) throw new Error('no topic id');
    return topicId;
  }
  async metadata(names: readonly string[], autoCreate = false): Promise<metadataV1.MetadataResponse> {
    const request = { topics: { kind: 'names', names }, autoCreate, includeConfig: false } as const;
    return value(metadataV1.decodeResponse(await this.call('Metadata', metadataV1.encodeRequest(request))));
  }
  async produce(
    topicId: TopicId,
    batches: Uint8Array,
    given: Partial<produceV1.ProduceRequest> = {},
  ): Promise<produceV1.ProduceResponse> {
    return value(produceV1.decodeResponse(await this.call('Produce', produceBody(topicId, batches, given))));
  }
  async fetch(topicId: TopicId, fetchOffset: number, given: FetchWish = {}): Promise<fetchV1.FetchedPartition> {
    const { partitions } = value(
      fetchV1.decodeResponse(await this.call('Fetch', fetchBody(topicId, fetchOffset, given))),
    );
    return first(partitions);
  }
  async listOffset(topicId: TopicId, target: listOffsetsV1.OffsetTarget): Promise<number> {
    const body = listOffsetsV1.encodeRequest({
      partitions: [{ topicId, partition: 0, currentLeaderEpoch: NO_EPOCH, target }],
    });
    const { partitions } = value(listOffsetsV1.decodeResponse(await this.call('ListOffsets', body)));
    return first(partitions).offset ?? -1;
  }

  private take(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      const room = this.reader.writable();
      const size = Math.min(room.length, chunk.length - at);
      room.set(chunk.subarray(at, at + size));
      this.reader.advance(size);
      at += size;
      for (let frame = this.reader.next(); frame !== undefined; frame = this.reader.next()) {
        if ('fault' in frame) throw new Error(`the broker sent a bad frame: ${frame.message}`);
        this.answers.push(answerOf(frame));
      }
    }
    this.wake();
  }
  private close(): void {
    this.isClosed = true;
    this.wake();
  }
  private wake(): void {
    for (const waiter of this.waiters.splice(0)) waiter();
  }
  private async until<Value>(look: () => Value | undefined, what: string): Promise<Value> {
    const late = new AbortController();
    const timer = setTimeout(() => {
      late.abort();
      this.wake();
    }, WAIT_MS);
    try {
      for (;;) {
        const found = look();
        if (found !== undefined) return found;
        if (this.isClosed) throw new Error(`the connection ended before ${what}`);
        if (late.signal.aborted) throw new Error(`no sign of ${what}`);
        await new Promise<void>((resolve) => this.waiters.push(resolve));
      }
    } finally {
      clearTimeout(timer);
    }
  }
}

function wireOf(socket: Socket): Wire {
  return {
    send: (bytes) => {
      socket.write(bytes);
    },
    pause: () => {
      socket.pause();
    },
    resume: () => {
      socket.resume();
    },
    end: () => {
      socket.destroy();
    },
  };
}

function answerOf(frame: Frame): RawAnswer {
  const decoded = decodeAnswer(frame.body.slice());
  if (!decoded.ok) throw new Error(`the broker sent a bad answer: ${decoded.fault.message}`);
  const { failure } = decoded.value;
  const body = decoded.value.failure === undefined ? decoded.value.response : new Uint8Array(0);
  return { operation: frame.operation, correlationId: frame.correlationId, failure, body };
}

export interface FetchWish {
  readonly waitMs?: number;
  readonly minBytes?: number;
  readonly maxBytes?: number;
  readonly partition?: number;
  readonly lastFetchedEpoch?: number;
}

export function fetchBody(topicId: TopicId, fetchOffset: number, given: FetchWish = {}): Pieces {
  const { waitMs = 0, minBytes = 0, maxBytes = 1024 * 1024, partition = 0 } = given;
  const wanted = {
    topicId,
    partition,
    fetchOffset: offset(fetchOffset),
    currentLeaderEpoch: NO_EPOCH,
    lastFetchedEpoch: NO_EPOCH,
    maxBytes,
  };
  return fetchV1.encodeRequest({ waitMs, minBytes, maxBytes, partitions: [wanted] });
}

export function produceBody(
  topicId: TopicId,
  batches: Uint8Array,
  given: Partial<produceV1.ProduceRequest> = {},
): Pieces {
  return produceV1.encodeRequest({
    topicId,
    partition: 0,
    leaderEpoch: NO_EPOCH,
    acks: 'committed',
    timeoutMs: 10_000,
    ...given,
    batches,
  });
}

/** A batch of text records. */
export function batchOf(
  texts: readonly string[],
  given: Omit<BatchInput, 'records'> = {},
  timestamp = 1000,
): Uint8Array<ArrayBuffer> {
  const records = texts.map((text) => ({ timestamp, key: null, value: new TextEncoder().encode(text) }));
  return encodeBatch({ records, producerId: NO_PRODUCER, ...given }, crc32cTable);
}

export function joined(pieces: Pieces): Uint8Array {
  return new Uint8Array(Buffer.concat(pieces));
}

export function value<Value>(
  decoded:
    | { readonly ok: true; readonly value: Value }
    | { readonly ok: false; readonly fault: { readonly message: string } },
): Value {
  if (!decoded.ok) throw new Error(`the answer does not follow its grammar: ${decoded.fault.message}`);
  return decoded.value;
}
export function first<Item>(items: readonly Item[]): Item {
  const [item] = items;
  if (item === undefined) throw new Error('nothing there');
  return item;
}
