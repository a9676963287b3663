import type { TopicId } from '../../base/brands.ts';
import {
  CONFIG_ENTRIES_MAX,
  CONFIG_TEXT_BYTES_MAX,
  type Decoded,
  type Pieces,
  decode,
  encode,
  readList,
  readOptionalTopicId,
  readTopicName,
  writeList,
  writeTopicId,
} from '../wire.ts';

export interface ConfigSetting {
  readonly key: string;
  readonly value: string;
}
export interface CreateTopicRequest {
  readonly name: string;
  /** 0: the broker's default. */
  readonly partitions: number;
  /** 0: the broker's default. */
  readonly replicas: number;
  readonly config: readonly ConfigSetting[];
  /** Check everything, change nothing. */
  readonly validateOnly: boolean;
  /** A topic of that name is no error, whatever its settings; the answer describes it. */
  readonly ifNotExists: boolean;
  readonly timeoutMs: number;
}
export interface CreateTopicResponse {
  /** Undefined: only validated. */
  readonly topicId: TopicId | undefined;
  /** False: it existed, or was only validated. */
  readonly created: boolean;
  readonly partitions: number;
  readonly replicas: number;
}

// request = name string, partitions u32 (0: default), replicas u16 (0: default), count u32, count × setting,
//           validate only bool, if not exists bool, timeout ms u32
// setting = key string, value string
export function encodeRequest(request: CreateTopicRequest): Pieces {
  return [
    encode((sink) => {
      sink.string(request.name).u32(request.partitions).u16(request.replicas);
      writeList(sink, request.config, (item) => sink.string(item.key).string(item.value));
      sink.bool(request.validateOnly).bool(request.ifNotExists).u32(request.timeoutMs);
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<CreateTopicRequest> {
  return decode(body, (reader) => ({
    name: readTopicName(reader),
    partitions: reader.u32(),
    replicas: reader.u16(),
    config: readList(reader, { elementBytesMin: 4, countMax: CONFIG_ENTRIES_MAX }, () => ({
      key: reader.string(CONFIG_TEXT_BYTES_MAX),
      value: reader.string(CONFIG_TEXT_BYTES_MAX),
    })),
    validateOnly: reader.bool(),
    ifNotExists: reader.bool(),
    timeoutMs: reader.u32(),
  }));
}

// response = topic id 16 bytes (zeros: only validated), created bool, partitions u32, replicas u16
export function encodeResponse(response: CreateTopicResponse): Pieces {
  return [
    encode((sink) => {
      writeTopicId(sink, response.topicId);
      sink.bool(response.created).u32(response.partitions).u16(response.replicas);
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<CreateTopicResponse> {
  return decode(body, (reader) => ({
    topicId: readOptionalTopicId(reader),
    created: reader.bool(),
    partitions: reader.u32(),
    replicas: reader.u16(),
  }));
}
