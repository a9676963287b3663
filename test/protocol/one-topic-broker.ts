// A broker of one topic in memory, for clients under test: what the protocol asks for, by the codecs of src/protocol. Refuses what
// the documentation says a broker refuses.
import { type AddressInfo, type Server, type Socket, createServer } from 'node:net';
import { NO_TIMESTAMP, type LeaderEpoch, nodeId, offset, producerId, topicId } from '../../src/base/brands.ts';
import { crc32cTable } from '../../src/base/checksum.ts';
import { FRAME_BYTES_MAX } from '../../src/base/limits.ts';
import { checkBatch, stampBatch } from '../../src/format/batch.ts';
import { encodeAnswerFrame, encodeConnectionFailure, encodeFailureFrame, failure } from '../../src/protocol/answer.ts';
import type { Failure } from '../../src/protocol/failure.ts';
import { type Frame, FrameReader } from '../../src/protocol/frame.ts';
import * as createTopic from '../../src/protocol/operations/create-topic.v1.ts';
import * as fetch from '../../src/protocol/operations/fetch.v1.ts';
import * as hello from '../../src/protocol/operations/hello.v1.ts';
import * as initProducer from '../../src/protocol/operations/init-producer.v1.ts';
import * as listOffsets from '../../src/protocol/operations/list-offsets.v1.ts';
import * as metadata from '../../src/protocol/operations/metadata.v1.ts';
import * as produce from '../../src/protocol/operations/produce.v1.ts';
import { OPERATIONS, type OperationName, admit } from '../../src/protocol/operations.ts';
import type { Decoded, Pieces } from '../../src/protocol/wire.ts';

const EPOCH = 5 as LeaderEpoch;
const TOPIC = topicId('a1'.repeat(16));
const NODE = nodeId(1);

interface Stored {
  readonly base: number;
  readonly last: number;
  readonly sequence: number;
  readonly bytes: Uint8Array;
}
class Refusal extends Error {
  readonly failure: Failure;
  constructor(code: Failure['code'], message: string) {
    super(message);
    this.failure = failure(code, message);
  }
}
function valueOf<Value>(decoded: Decoded<Value>): Value {
  if (decoded.ok) return decoded.value;
  throw new Refusal('MALFORMED_REQUEST', decoded.fault.message);
}

export class OneTopicBroker {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #name = '';
  #partitions: Stored[][] = [];
  /** Batches that were refused or could not be checked, for the test to look at. */
  readonly refusals: Failure[] = [];

  private constructor() {
    this.#server = createServer((socket) => {
      this.#serve(socket);
    });
  }
  static async listen(): Promise<OneTopicBroker> {
    const broker = new OneTopicBroker();
    await new Promise<void>((resolve, reject) => {
      broker.#server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    return broker;
  }
  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => {
      this.#server.close(() => {
        resolve();
      });
    });
  }

  #serve(socket: Socket): void {
    const reader = new FrameReader({ expect: 'requests', bodyBytesMax: FRAME_BYTES_MAX });
    let helloDone = false;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket)).on('error', () => socket.destroy());
    socket.on('data', (data: Buffer) => {
      for (let at = 0; at < data.length;) {
        const room = reader.writable();
        const size = Math.min(room.length, data.length - at);
        room.set(data.subarray(at, at + size));
        reader.advance(size);
        at += size;
        for (let next = reader.next(); next !== undefined; next = reader.next()) {
          const pieces = 'fault' in next ? encodeConnectionFailure(next) : this.#answer(next, helloDone);
          for (const piece of pieces) socket.write(piece);
          if ('fault' in next) {
            socket.end();
            return;
          }
          helloDone = true;
        }
      }
    });
  }

  #answer(frame: Frame, helloDone: boolean): Pieces {
    const admission = admit(frame, helloDone);
    if (!admission.ok) return encodeFailureFrame(frame, admission.failure);
    try {
      return encodeAnswerFrame(frame, this.#handle(admission.operation.name, frame.body));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.refusals.push(error.failure);
      return encodeFailureFrame(frame, error.failure);
    }
  }

  #handle(name: OperationName, body: Uint8Array): Pieces {
    switch (name) {
      case 'Hello':
        valueOf(hello.decodeRequest(body));
        return hello.encodeResponse({
          protocol: 1,
          softwareName: 'one-topic',
          softwareVersion: '0',
          clusterId: 'c',
          nodeId: NODE,
          sessionId: 's',
          operations: OPERATIONS,
          limits: { frameBytesMax: FRAME_BYTES_MAX, batchBytesMax: 1_000_000, requestsInFlightMax: 16 },
        });
      case 'CreateTopic': {
        const request = valueOf(createTopic.decodeRequest(body));
        this.#name = request.name;
        this.#partitions = Array.from({ length: request.partitions }, () => []);
        return createTopic.encodeResponse({
          topicId: TOPIC,
          created: true,
          partitions: request.partitions,
          replicas: 1,
        });
      }
      case 'Metadata':
        return this.#metadata(valueOf(metadata.decodeRequest(body)));
      case 'InitProducer':
        valueOf(initProducer.decodeRequest(body));
        return initProducer.encodeResponse({ producerId: producerId(4711), producerEpoch: 0 });
      case 'Produce':
        return this.#produce(valueOf(produce.decodeRequest(body)));
      case 'ListOffsets':
        return listOffsets.encodeResponse({
          partitions: valueOf(listOffsets.decodeRequest(body)).partitions.map(({ topicId: id, partition, target }) => ({
            topicId: id,
            partition,
            failure: undefined,
            offset: offset(target.kind === 'earliest' ? 0 : this.#end(partition)),
            timestamp: NO_TIMESTAMP,
            leaderEpoch: EPOCH,
          })),
        });
      case 'Fetch':
        return this.#fetch(valueOf(fetch.decodeRequest(body)));
      case 'AlterTopic':
      case 'DeleteTopic':
      case 'ClusterStatus':
      case 'JoinGroup':
      case 'Heartbeat':
      case 'LeaveGroup':
      case 'CommitOffset':
      case 'FetchOffsets':
      case 'Replay':
      case 'ListGroups':
      case 'DescribeGroup':
      case 'DeleteGroup':
        throw new Refusal('INTERNAL', `${name} is not for this test`);
    }
  }

  #log(partition: number): Stored[] {
    const log = this.#partitions[partition];
    if (log === undefined) throw new Refusal('UNKNOWN_PARTITION', `partition ${String(partition)}`);
    return log;
  }
  #end(partition: number): number {
    return (this.#log(partition).at(-1)?.last ?? -1) + 1;
  }

  #metadata(request: metadata.MetadataRequest): Pieces {
    if (request.topics.kind !== 'names' || request.topics.names[0] !== this.#name)
      throw new Refusal('UNKNOWN_TOPIC', 'another topic');
    const partitions = this.#partitions.map((_, partition) => ({
      partition,
      leader: NODE,
      leaderEpoch: EPOCH,
      replicas: [NODE],
      inSync: [NODE],
    }));
    return metadata.encodeResponse({
      clusterId: 'c',
      controllerId: NODE,
      nodes: [{ nodeId: NODE, host: '127.0.0.1', port: this.port }],
      topics: [
        {
          failure: undefined,
          name: this.#name,
          id: TOPIC,
          partitions,
          config: [{ key: 'retention.ms', value: '3600000', isDefault: false }],
        },
      ],
    });
  }

  #produce(request: produce.ProduceRequest): Pieces {
    if (request.topicId !== TOPIC) throw new Refusal('UNKNOWN_TOPIC', 'another topic');
    if (request.leaderEpoch !== EPOCH) throw new Refusal('FENCED_LEADER_EPOCH', `epoch ${String(request.leaderEpoch)}`);
    const log = this.#log(request.partition);
    const checked = checkBatch(request.batches, 0, crc32cTable);
    if (!checked.ok) throw new Refusal('INVALID_BATCH', `${checked.fault}: ${checked.detail}`);
    const { baseSequence, recordCount } = checked.header;
    const known = log.find(({ sequence }) => sequence === baseSequence);
    const base = known?.base ?? this.#end(request.partition);
    const last = base + recordCount - 1;
    if (known === undefined) {
      stampBatch(request.batches, 0, base, EPOCH);
      log.push({ base, last, sequence: baseSequence, bytes: request.batches.slice() });
    }
    return produce.encodeResponse({
      baseOffset: offset(base),
      lastOffset: offset(last),
      leaderEpoch: EPOCH,
      logStart: offset(0),
      throttleMs: 0,
      duplicate: known !== undefined,
    });
  }

  #fetch(request: fetch.FetchRequest): Pieces {
    const partitions = request.partitions.map(({ topicId: id, partition, fetchOffset }) => ({
      topicId: id,
      partition,
      failure: undefined,
      logStart: offset(0),
      highWatermark: offset(this.#end(partition)),
      leaderEpoch: EPOCH,
      batches: this.#log(partition)
        .filter(({ last }) => last >= fetchOffset)
        .map(({ bytes }) => bytes),
    }));
    return fetch.encodeResponse({ throttleMs: 0, partitions });
  }
}
