import type { NodeId, TopicId } from '../../base/brands.ts';
import { DecodeError } from '../../base/bytes.ts';
import {
  type Decoded,
  type Pieces,
  decode,
  encode,
  readList,
  readNodeId,
  readTopicId,
  writeList,
  writeTopicId,
} from '../wire.ts';

/** Between nodes: where logs end, asked by the controller when every replica of a partition may have lost its tail. */
export interface LogEndsRequest {
  readonly from: NodeId;
  readonly partitions: readonly { readonly topicId: TopicId; readonly partition: number }[];
}
export interface LogEndAnswer {
  /** The replica is open, and what it has is durable; else the rest means nothing. */
  readonly known: boolean;
  /** −1: the log is empty. */
  readonly lastEpoch: number;
  readonly logEnd: number;
  /** Part of it cannot be read. */
  readonly damaged: boolean;
}
/** In the order of the request. */
export interface LogEndsResponse {
  readonly ends: readonly LogEndAnswer[];
}

export const LOG_ENDS_MAX = 4096;

// request   = node id i32, count u32, count × partition
// partition = topic id, partition u32
export function encodeRequest(request: LogEndsRequest): Pieces {
  return [
    encode((sink) => {
      sink.i32(request.from);
      writeList(sink, request.partitions, ({ topicId, partition }) => {
        writeTopicId(sink, topicId);
        sink.u32(partition);
      });
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<LogEndsRequest> {
  return decode(body, (reader) => ({
    from: readNodeId(reader),
    partitions: readList(reader, { elementBytesMin: 20, countMax: LOG_ENDS_MAX }, () => ({
      topicId: readTopicId(reader),
      partition: reader.u32(),
    })),
  }));
}

// response = count u32, count × end
// end      = known bool, last epoch i32, log end i64, damaged bool
export function encodeResponse(response: LogEndsResponse): Pieces {
  return [
    encode((sink) => {
      writeList(sink, response.ends, (end) =>
        sink.bool(end.known).i32(end.lastEpoch).i64(end.logEnd).bool(end.damaged),
      );
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<LogEndsResponse> {
  return decode(body, (reader) => ({
    ends: readList(reader, { elementBytesMin: 14, countMax: LOG_ENDS_MAX }, () => {
      const { at } = reader;
      const end = { known: reader.bool(), lastEpoch: reader.i32(), logEnd: reader.i64(), damaged: reader.bool() };
      if (end.lastEpoch < -1 || end.logEnd < 0) throw new DecodeError('not the end of a log', at);
      return end;
    }),
  }));
}
