// The worked examples of docs/PROTOCOL.md: one conversation, from Hello to Fetch.
import { type LeaderEpoch, NO_EPOCH, nodeId, offset, topicId } from '../../../src/base/brands.ts';
import { utf8Encode } from '../../../src/base/bytes.ts';
import { crc32cTable } from '../../../src/base/checksum.ts';
import { stampBatch } from '../../../src/format/batch.ts';
import { encodeBatch } from '../../../src/format/records.ts';
import { encodeAnswerFrame, encodeFailureFrame, encodeRequestFrame } from '../../../src/protocol/answer.ts';
import * as createTopic from '../../../src/protocol/operations/create-topic.v1.ts';
import * as fetch from '../../../src/protocol/operations/fetch.v1.ts';
import * as hello from '../../../src/protocol/operations/hello.v1.ts';
import * as produce from '../../../src/protocol/operations/produce.v1.ts';
import { OPERATION, admit } from '../../../src/protocol/operations.ts';
import { join } from '../../protocol/messages.ts';
import { Annotated } from './annotate.ts';
import { groupExamples } from './group-examples.ts';

const TOPIC = topicId('00112233445566778899aabbccddeeff');
const EPOCH = 7 as LeaderEpoch;
const header = (
  name: keyof typeof OPERATION,
  correlationId: number,
): { operation: number; version: number; correlationId: number } => ({
  operation: OPERATION[name].operation,
  version: 1,
  correlationId,
});

/** Two records, as the producer makes them: base offset 0 and leader epoch −1, for the leader to stamp. */
function twoRecords(): Uint8Array<ArrayBuffer> {
  const records = [
    { timestamp: 1_700_000_000_000, key: utf8Encode('k1'), value: utf8Encode('v1') },
    {
      timestamp: 1_700_000_000_005,
      key: null,
      value: utf8Encode(''),
      headers: [{ key: 'event-id', value: utf8Encode('e-2') }],
    },
  ];
  return encodeBatch({ records, producerId: 4711, producerEpoch: 3, baseSequence: 0 }, crc32cTable);
}

function annotateBatch(to: Annotated, stamped: boolean): Annotated {
  to.i64(stamped ? 'base offset, stamped by the leader' : 'base offset: the leader stamps it').u32(
    'batch length: bytes that follow',
  );
  to.i32(stamped ? 'leader epoch, stamped' : 'leader epoch: the leader stamps it')
    .u8('magic')
    .raw(4, 'CRC32C of all bytes from here to the end of the batch');
  to.i16('attributes: no compression, no control batch')
    .i32('last offset delta')
    .i64('base timestamp')
    .i64('max timestamp');
  to.i64('producer id').i16('producer epoch').i32('base sequence').i32('record count');
  to.varint(10, 'record 0: length').u8('attributes').varint(0, 'timestamp delta').varint(0, 'offset delta');
  to.varint(2, 'key length').raw(2, 'key "k1"').varint(2, 'value length').raw(2, 'value "v1"').varint(0, 'headers');
  to.varint(19, 'record 1: length').u8('attributes').varint(5, 'timestamp delta').varint(1, 'offset delta');
  to.varint(-1, 'key length, null').varint(0, 'value length').varint(1, 'headers');
  return to.varint(8, 'header key length').raw(8, '"event-id"').varint(3, 'header value length').raw(3, '"e-2"');
}

export interface Example {
  readonly title: string;
  readonly block: string;
}

export function examples(): Example[] {
  return [
    ...helloExamples(),
    ...createTopicExamples(),
    ...produceExamples(),
    ...fetchExamples(),
    ...groupExamples(),
    refusal(),
  ];
}

function helloExamples(): Example[] {
  const request = encodeRequestFrame(
    header('Hello', 1),
    hello.encodeRequest({
      protocolMin: 1,
      protocolMax: 1,
      clientId: 'sensor-7',
      softwareName: 'mine',
      softwareVersion: '1.0',
      authentication: undefined,
    }),
  );
  const answer = encodeAnswerFrame(
    header('Hello', 1),
    hello.encodeResponse({
      protocol: 1,
      softwareName: 'rivulet',
      softwareVersion: '0.1.0',
      clusterId: 'c-1',
      nodeId: nodeId(1),
      sessionId: 's-1',
      operations: [
        { operation: 1, min: 1, max: 1 },
        { operation: 2, min: 1, max: 1 },
      ],
      limits: { frameBytesMax: 16_777_216, batchBytesMax: 9_437_184, requestsInFlightMax: 256 },
    }),
  );
  const asked = new Annotated(join(request))
    .frame('Hello', false)
    .u16('protocol min')
    .u16('protocol max')
    .string('client id');
  asked
    .string('software name')
    .string('software version')
    .string('authentication mechanism: none')
    .u32('bytes of authentication');
  const told = new Annotated(join(answer))
    .frame('Hello', true)
    .u16('error code: fine')
    .u16('protocol')
    .string('software name');
  told
    .string('software version')
    .string('cluster id')
    .i32('node id')
    .string('session id')
    .u32('operations (a real broker lists all)');
  told
    .u16('operation')
    .u8('lowest version')
    .u8('highest version')
    .u16('operation')
    .u8('lowest version')
    .u8('highest version');
  told.u32('frame bytes max').u32('batch bytes max').u32('requests in flight max');
  return [
    { title: 'Hello, request', block: asked.end() },
    { title: 'Hello, answer', block: told.end() },
  ];
}

function createTopicExamples(): Example[] {
  const request = encodeRequestFrame(
    header('CreateTopic', 2),
    createTopic.encodeRequest({
      name: 'orders',
      partitions: 3,
      replicas: 1,
      config: [{ key: 'retention.ms', value: '3600000' }],
      validateOnly: false,
      ifNotExists: true,
      timeoutMs: 10_000,
    }),
  );
  const answer = encodeAnswerFrame(
    header('CreateTopic', 2),
    createTopic.encodeResponse({ topicId: TOPIC, created: true, partitions: 3, replicas: 1 }),
  );
  const asked = new Annotated(join(request))
    .frame('CreateTopic', false)
    .string('name')
    .u32('partitions')
    .u16('replicas')
    .u32('settings');
  asked.string('key').string('value').u8('validate only').u8('if not exists').u32('timeout ms');
  const told = new Annotated(join(answer))
    .frame('CreateTopic', true)
    .u16('error code: fine')
    .raw(16, 'topic id')
    .u8('created')
    .u32('partitions')
    .u16('replicas');
  return [
    { title: 'CreateTopic, request', block: asked.end() },
    { title: 'CreateTopic, answer', block: told.end() },
  ];
}

function produceExamples(): Example[] {
  const request = encodeRequestFrame(
    header('Produce', 3),
    produce.encodeRequest({
      topicId: TOPIC,
      partition: 0,
      leaderEpoch: EPOCH,
      acks: 'committed',
      timeoutMs: 30_000,
      batches: twoRecords(),
    }),
  );
  const answer = encodeAnswerFrame(
    header('Produce', 3),
    produce.encodeResponse({
      baseOffset: offset(42),
      lastOffset: offset(43),
      leaderEpoch: EPOCH,
      logStart: offset(0),
      throttleMs: 0,
      duplicate: false,
    }),
  );
  const asked = new Annotated(join(request))
    .frame('Produce', false)
    .raw(16, 'topic id')
    .u32('partition')
    .i32('leader epoch')
    .u8('acks: committed')
    .u32('timeout ms');
  const told = new Annotated(join(answer))
    .frame('Produce', true)
    .u16('error code: fine')
    .i64('base offset')
    .i64('last offset')
    .i32('leader epoch');
  told.i64('log start offset').u32('throttle ms').u8('duplicate: no');
  return [
    { title: 'Produce of two records, request', block: annotateBatch(asked, false).end() },
    { title: 'Produce, answer', block: told.end() },
  ];
}

function fetchExamples(): Example[] {
  const request = encodeRequestFrame(
    header('Fetch', 4),
    fetch.encodeRequest({
      waitMs: 500,
      minBytes: 1,
      maxBytes: 1_048_576,
      partitions: [
        {
          topicId: TOPIC,
          partition: 0,
          fetchOffset: offset(43),
          currentLeaderEpoch: EPOCH,
          lastFetchedEpoch: NO_EPOCH,
          maxBytes: 1_048_576,
        },
      ],
    }),
  );
  const stored = twoRecords();
  stampBatch(stored, 0, 42, EPOCH);
  const answer = encodeAnswerFrame(
    header('Fetch', 4),
    fetch.encodeResponse({
      throttleMs: 0,
      partitions: [
        {
          topicId: TOPIC,
          partition: 0,
          failure: undefined,
          logStart: offset(0),
          highWatermark: offset(44),
          leaderEpoch: EPOCH,
          batches: [stored],
        },
      ],
    }),
  );
  const asked = new Annotated(join(request))
    .frame('Fetch', false)
    .u32('wait ms')
    .u32('min bytes')
    .u32('max bytes')
    .u8('isolation')
    .u32('partitions');
  asked
    .raw(16, 'topic id')
    .u32('partition')
    .i64('fetch offset')
    .i32('current leader epoch')
    .i32('last fetched epoch: none')
    .u32('max bytes');
  const told = new Annotated(join(answer))
    .frame('Fetch', true)
    .u16('error code: fine')
    .u32('throttle ms')
    .u32('partitions')
    .raw(16, 'topic id')
    .u32('partition');
  told
    .u16('error code of the partition: fine')
    .i64('log start offset')
    .i64('high watermark')
    .i32('leader epoch')
    .u32('bytes of batches');
  return [
    { title: 'Fetch from offset 43, request', block: asked.end() },
    {
      title: 'Fetch, answer: the whole batch that holds offset 43, so offset 42 comes too',
      block: annotateBatch(told, true).end(),
    },
  ];
}

function refusal(): Example {
  const admission = admit({ operation: OPERATION.Fetch.operation, version: 9 }, true);
  if (admission.ok) throw new Error('version 9 of Fetch is spoken by now: take another for the example');
  const frame = encodeFailureFrame(
    { operation: OPERATION.Fetch.operation, version: 9, correlationId: 5 },
    admission.failure,
  );
  const told = new Annotated(join(frame))
    .frame('Fetch', true)
    .u16('error code: UNSUPPORTED_VERSION')
    .string('message')
    .u16('facts');
  return { title: 'A refusal: Fetch version 9', block: told.string('name').u8('type: string').string('value').end() };
}
