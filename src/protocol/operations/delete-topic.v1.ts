import type { TopicId } from '../../base/brands.ts';
import {
  type Decoded,
  type Pieces,
  decode,
  encode,
  readOptionalTopicId,
  readTopicId,
  readTopicName,
  writeTopicId,
} from '../wire.ts';

export interface DeleteTopicRequest {
  readonly name: string;
  /** Given: deletes the topic only if it still has this id, so that a repeat cannot hit a topic created anew. */
  readonly topicId: TopicId | undefined;
  readonly timeoutMs: number;
}
export interface DeleteTopicResponse {
  /** Of the topic that is gone. */
  readonly topicId: TopicId;
}

// request = name string, topic id 16 bytes (zeros: whichever has the name), timeout ms u32
export function encodeRequest(request: DeleteTopicRequest): Pieces {
  return [
    encode((sink) => {
      sink.string(request.name);
      writeTopicId(sink, request.topicId);
      sink.u32(request.timeoutMs);
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<DeleteTopicRequest> {
  return decode(body, (reader) => ({
    name: readTopicName(reader),
    topicId: readOptionalTopicId(reader),
    timeoutMs: reader.u32(),
  }));
}

// response = topic id 16 bytes
export function encodeResponse(response: DeleteTopicResponse): Pieces {
  return [
    encode((sink) => {
      writeTopicId(sink, response.topicId);
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<DeleteTopicResponse> {
  return decode(body, (reader) => ({ topicId: readTopicId(reader) }));
}
