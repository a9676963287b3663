// The only place of the client that knows how requests look on the wire.
import { ByteReader, ByteWriter, DecodeError, readU16, readU32, stringSize, writeU16, writeU32 } from '../base/bytes.ts';
import { NO_ERROR, RivuletError, errorName } from '../base/errors.ts';
import type { BatchIdentity } from './batch-writer.ts';
import type { Link } from './link.ts';

export const OP = { hello: 1, metadata: 2, produce: 3, fetch: 4, listOffsets: 5, initProducer: 6, createTopic: 20, alterTopic: 21, deleteTopic: 22 } as const;
const VERSION = 1;
export const FRAME_HEADER_BYTES = 12;
const RESPONSE_FLAG = 1;
const RECEIVE_BYTES = 256 * 1024;

export interface AnswerFrame {
  readonly operation: number;
  readonly version: number;
  readonly correlationId: number;
  readonly error: RivuletError | undefined;
  readonly body: Uint8Array;
}
export interface Dialect {
  readonly operations: ReadonlyMap<number, number>;
}
export interface NodeView {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}
export interface PartitionView {
  readonly partition: number;
  readonly leader: number;
  readonly leaderEpoch: number;
  readonly replicas: readonly number[];
  readonly inSync: readonly number[];
}
export interface TopicView {
  readonly name: string;
  readonly id: string;
  readonly config: Readonly<Record<string, string>>;
  readonly partitions: readonly PartitionView[];
}
export interface ClusterView {
  readonly clusterId: string;
  readonly controllerId: number;
  readonly nodes: readonly NodeView[];
  readonly topics: readonly TopicView[];
}
export interface ProduceAnswer {
  readonly baseOffset: number;
  readonly leaderEpoch: number;
}
export interface ProduceRequest {
  readonly topic: string;
  readonly partition: number;
  readonly acks: 'committed' | 'leader';
  readonly identity: BatchIdentity;
  readonly batches: Uint8Array;
}
export interface FetchedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly error: RivuletError | undefined;
  readonly logStart: number;
  readonly highWatermark: number;
  readonly resumeAt: number;
  readonly batches: Uint8Array;
}
export interface FetchRequest {
  readonly partitions: readonly {
    readonly topic: string; readonly partition: number; readonly offset: number; readonly maxBytes: number;
    readonly leaderEpoch: number; readonly lastEpoch: number;
  }[];
  readonly maxBytes: number;
  readonly minBytes: number;
  readonly waitMs: number;
}
export type OffsetAt = 'earliest' | 'latest' | { readonly timestamp: number };
export interface FoundOffset {
  readonly offset: number;
  readonly timestamp: number;
  readonly leaderEpoch: number;
}

export function frameHeader(operation: number, version: number, correlationId: number, bodyBytes: number, flags = 0): Uint8Array {
  const header = new Uint8Array(FRAME_HEADER_BYTES);
  writeU32(header, 0, FRAME_HEADER_BYTES - 4 + bodyBytes);
  writeU16(header, 4, operation);
  header[6] = version;
  header[7] = flags;
  writeU32(header, 8, correlationId);
  return header;
}

/** Assembles frames in one buffer, which grows to the largest frame it has to hold. */
export class FrameInput {
  readonly #bytesMax: number;
  #buffer = new Uint8Array(RECEIVE_BYTES);
  #start = 0;
  #end = 0;
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }
  writable(): Uint8Array {
    const held = this.#end - this.#start;
    const needed = held >= 4 ? readU32(this.#buffer, this.#start) + 4 : 0;
    if (needed > this.#buffer.length && needed <= this.#bytesMax + 4) {
      const grown = new Uint8Array(needed + RECEIVE_BYTES);
      grown.set(this.#buffer.subarray(this.#start, this.#end));
      this.#buffer = grown;
      this.#start = 0;
      this.#end = held;
    } else if (this.#start > 0 && (held === 0 || this.#buffer.length - this.#end < Math.max(RECEIVE_BYTES / 4, needed - held))) {
      this.#buffer.copyWithin(0, this.#start, this.#end);
      this.#start = 0;
      this.#end = held;
    }
    return this.#buffer.subarray(this.#end);
  }
  advance(bytes: number): void {
    this.#end += bytes;
  }
  next(): (AnswerFrame & { readonly flags: number }) | { readonly fault: string } | undefined {
    const held = this.#end - this.#start;
    if (held < 4) return undefined;
    const length = readU32(this.#buffer, this.#start);
    if (length < FRAME_HEADER_BYTES - 4 || length > this.#bytesMax) return { fault: `length ${String(length)}` };
    if (held < length + 4) return undefined;
    const at = this.#start;
    this.#start += length + 4;
    const flags = this.#buffer[at + 7] as number;
    const operation = readU16(this.#buffer, at + 4);
    const version = this.#buffer[at + 6] as number;
    const correlationId = readU32(this.#buffer, at + 8);
    const body = this.#buffer.subarray(at + FRAME_HEADER_BYTES, at + 4 + length);
    if ((flags & RESPONSE_FLAG) === 0) return { operation, version, correlationId, flags, error: undefined, body };
    if (body.length < 2) return { fault: 'a response without error code' };
    const code = readU16(body, 0);
    if (code === NO_ERROR) return { operation, version, correlationId, flags, error: undefined, body: body.subarray(2) };
    try {
      const message = new ByteReader(body.subarray(2)).string();
      const error = new RivuletError(errorName(code) ?? 'INTERNAL', message);
      return { operation, version, correlationId, flags, error, body: body.subarray(body.length) };
    } catch (error) {
      return { fault: error instanceof Error ? error.message : String(error) };
    }
  }
}

function decoded<Value>(answer: AnswerFrame, read: (reader: ByteReader) => Value): Value {
  if (answer.error !== undefined) throw answer.error;
  try {
    const reader = new ByteReader(answer.body);
    const value = read(reader);
    reader.end();
    return value;
  } catch (error) {
    if (error instanceof DecodeError) throw new RivuletError('MALFORMED_FRAME', `the answer cannot be read: ${error.message}`, { cause: error });
    throw error;
  }
}

async function call<Value>(link: Link, operation: number, body: Uint8Array, timeoutMs: number, read: (reader: ByteReader) => Value): Promise<Value> {
  return new Promise((resolve, reject) => {
    const sent = link.request(operation, VERSION, [body], timeoutMs, (answer, failure) => {
      try {
        if (answer === undefined) throw failure ?? new RivuletError('CONNECTION_LOST');
        resolve(decoded(answer, read));
      } catch (error) {
        reject(error instanceof Error ? error : new RivuletError('INTERNAL'));
      }
    });
    if (!sent) reject(link.ended ?? new RivuletError('CONNECTION_LOST'));
  });
}

export function helloRequest(clientId: string): { operation: number; version: number; body: Uint8Array } {
  return { operation: OP.hello, version: VERSION, body: new ByteWriter(stringSize(clientId)).string(clientId).finish() };
}

export function readHello(answer: AnswerFrame): Dialect {
  return decoded(answer, (reader) => {
    const operations = new Map<number, number>();
    const count = reader.count(3);
    for (let index = 0; index < count; index += 1) operations.set(reader.u16(), reader.u8());
    return { operations };
  });
}

export function speaksInitProducer(link: Link): boolean {
  return link.dialect.operations.has(OP.initProducer);
}

export async function fetchMetadata(link: Link, topics: readonly string[] | undefined, timeoutMs: number): Promise<ClusterView> {
  const names = topics ?? [];
  const writer = new ByteWriter(5 + names.reduce((sum, name) => sum + stringSize(name), 0)).bool(topics === undefined).u32(names.length);
  for (const name of names) writer.string(name);
  return call(link, OP.metadata, writer.finish(), timeoutMs, (reader) => {
    const clusterId = reader.string();
    const controllerId = reader.i32();
    const nodes: NodeView[] = [];
    const topicViews: TopicView[] = [];
    for (let count = reader.count(8); count > 0; count -= 1) nodes.push({ nodeId: reader.u32(), host: reader.string(), port: reader.u16() });
    for (let count = reader.count(8); count > 0; count -= 1) {
      const name = reader.string();
      const id = reader.string();
      const config = readConfig(reader);
      const partitions: PartitionView[] = [];
      for (let rest = reader.count(16); rest > 0; rest -= 1) {
        const partition = partitions.length;
        partitions.push({ partition, leader: reader.i32(), leaderEpoch: reader.i32(), replicas: readNodes(reader), inSync: readNodes(reader) });
      }
      topicViews.push({ name, id, config, partitions });
    }
    return { clusterId, controllerId, nodes, topics: topicViews };
  });
}

function readNodes(reader: ByteReader): readonly number[] {
  const nodes: number[] = [];
  for (let count = reader.count(4); count > 0; count -= 1) nodes.push(reader.i32());
  return nodes;
}

function readConfig(reader: ByteReader): Readonly<Record<string, string>> {
  const entries: [string, string][] = [];
  for (let count = reader.count(4); count > 0; count -= 1) entries.push([reader.string(), reader.string()]);
  return Object.fromEntries(entries);
}

type ConfigChange = Readonly<Record<string, string | null>>;

function configSize(config: ConfigChange): number {
  return Object.entries(config).reduce((sum, [key, value]) => sum + stringSize(key) + 1 + stringSize(value ?? ''), 4);
}

function writeConfig(writer: ByteWriter, config: ConfigChange): ByteWriter {
  const entries = Object.entries(config);
  writer.u32(entries.length);
  for (const [key, value] of entries) writer.string(key).bool(value !== null).string(value ?? '');
  return writer;
}

export async function createTopic(link: Link, spec: { name: string; partitions: number; replicas: number; config: ConfigChange }, timeoutMs: number): Promise<void> {
  const writer = new ByteWriter(stringSize(spec.name) + 8 + configSize(spec.config)).string(spec.name).u32(spec.partitions).u32(spec.replicas);
  return call(link, OP.createTopic, writeConfig(writer, spec.config).finish(), timeoutMs, () => undefined);
}

/** Partitions 0: as they are. */
export async function alterTopic(link: Link, change: { name: string; partitions: number; confirm: boolean; config: ConfigChange }, timeoutMs: number): Promise<void> {
  const writer = new ByteWriter(stringSize(change.name) + 5 + configSize(change.config)).string(change.name).u32(change.partitions).bool(change.confirm);
  return call(link, OP.alterTopic, writeConfig(writer, change.config).finish(), timeoutMs, () => undefined);
}

export async function deleteTopic(link: Link, name: string, timeoutMs: number): Promise<void> {
  return call(link, OP.deleteTopic, new ByteWriter(stringSize(name)).string(name).finish(), timeoutMs, () => undefined);
}

export async function initProducer(
  link: Link, name: string | undefined, producerId: number, producerEpoch: number, timeoutMs: number,
): Promise<{ producerId: number; producerEpoch: number }> {
  const text = name ?? '';
  const body = new ByteWriter(stringSize(text) + 12).string(text).i64(producerId).i32(producerEpoch).finish();
  return call(link, OP.initProducer, body, timeoutMs, (reader) => ({ producerId: reader.i64(), producerEpoch: reader.u16() }));
}

/** False: the link has ended, nothing was sent and nobody is called back. */
export function sendProduce(
  link: Link, request: ProduceRequest, timeoutMs: number, done: (answer: ProduceAnswer | undefined, failure: RivuletError | undefined) => void,
): boolean {
  const { topic, partition, acks, identity, batches } = request;
  const head = new ByteWriter(stringSize(topic) + 4 + 1 + 8 + 2 + 4 + 4)
    .string(topic).u32(partition).bool(acks === 'committed').i64(identity.producerId).u16(identity.producerEpoch & 0xffff)
    .i32(identity.baseSequence).u32(timeoutMs).finish();
  return link.request(OP.produce, VERSION, [head, batches], timeoutMs, (answer, failure) => {
    if (answer === undefined || answer.error !== undefined) {
      done(undefined, failure ?? answer?.error);
      return;
    }
    let result: ProduceAnswer;
    try {
      result = decoded(answer, (reader) => ({ baseOffset: reader.i64(), leaderEpoch: reader.i32() }));
    } catch (error) {
      // What cannot be read says nothing: the outcome is open.
      done(undefined, new RivuletError('INTERNAL', 'the answer to a publish cannot be read', { cause: error }));
      return;
    }
    done(result, undefined);
  });
}

export function sendFetch(
  link: Link, request: FetchRequest, timeoutMs: number,
  done: (answers: readonly FetchedPartition[] | undefined, failure: RivuletError | undefined) => void,
): boolean {
  const size = request.partitions.reduce((sum, { topic }) => sum + stringSize(topic) + 24, 16);
  const writer = new ByteWriter(size).u32(request.maxBytes).u32(request.minBytes).u32(request.waitMs).u32(request.partitions.length);
  for (const { topic, partition, offset, maxBytes, leaderEpoch, lastEpoch } of request.partitions) {
    writer.string(topic).u32(partition).i64(offset).u32(maxBytes).i32(leaderEpoch).i32(lastEpoch);
  }
  return link.request(OP.fetch, VERSION, [writer.finish()], timeoutMs, (answer, failure) => {
    let answers: readonly FetchedPartition[];
    try {
      if (answer === undefined) throw failure ?? new RivuletError('CONNECTION_LOST');
      answers = decoded(answer, readFetched);
    } catch (error) {
      done(undefined, error instanceof RivuletError ? error : new RivuletError('INTERNAL', 'the answer to a fetch cannot be read', { cause: error }));
      return;
    }
    done(answers, undefined);
  });
}

function readFetched(reader: ByteReader): readonly FetchedPartition[] {
  const heads: { topic: string; partition: number; code: number; logStart: number; highWatermark: number; resumeAt: number; bytes: number }[] = [];
  for (let count = reader.count(36); count > 0; count -= 1) {
    heads.push({
      topic: reader.string(), partition: reader.u32(), code: reader.u16(), logStart: reader.i64(), highWatermark: reader.i64(),
      resumeAt: reader.i64(), bytes: reader.u32(),
    });
  }
  return heads.map(({ topic, partition, code, logStart, highWatermark, resumeAt, bytes }) => {
    const error = code === NO_ERROR ? undefined : new RivuletError(errorName(code) ?? 'INTERNAL');
    return { topic, partition, error, logStart, highWatermark, resumeAt, batches: reader.raw(bytes) };
  });
}

export async function listOffsets(
  link: Link, asked: readonly { topic: string; partition: number; at: OffsetAt }[], timeoutMs: number,
): Promise<readonly FoundOffset[]> {
  const writer = new ByteWriter(asked.reduce((sum, { topic }) => sum + stringSize(topic) + 12, 4)).u32(asked.length);
  for (const { topic, partition, at } of asked) writer.string(topic).u32(partition).i64(at === 'earliest' ? -2 : at === 'latest' ? -1 : at.timestamp);
  return call(link, OP.listOffsets, writer.finish(), timeoutMs, (reader) => {
    const found: FoundOffset[] = [];
    for (let count = reader.count(22); count > 0; count -= 1) {
      const code = reader.u16();
      found.push({ offset: reader.i64(), timestamp: reader.i64(), leaderEpoch: reader.i32() });
      if (code !== NO_ERROR) throw new RivuletError(errorName(code) ?? 'INTERNAL');
    }
    return found;
  });
}
