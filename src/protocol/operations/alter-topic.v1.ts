import type { TopicId } from '../../base/brands.ts';
import { type ByteReader, DecodeError } from '../../base/bytes.ts';
import {
  CONFIG_ENTRIES_MAX,
  CONFIG_TEXT_BYTES_MAX,
  type Decoded,
  type Pieces,
  decode,
  encode,
  readList,
  readTopicId,
  readTopicName,
  writeList,
  writeTopicId,
} from '../wire.ts';

export interface ConfigChange {
  readonly key: string;
  /** Undefined: back to the default. */
  readonly value: string | undefined;
}
export interface AlterTopicRequest {
  readonly name: string;
  readonly config: readonly ConfigChange[];
  /** The new count, not smaller than before. Undefined: as it is. */
  readonly partitions: number | undefined;
  /** Needed with more partitions: keys land in other partitions from then on. */
  readonly confirmKeyMovement: boolean;
  /** Check everything, change nothing. */
  readonly validateOnly: boolean;
  readonly timeoutMs: number;
}
export interface AlterTopicResponse {
  readonly topicId: TopicId;
  /** As it is now. */
  readonly partitions: number;
}

// request = name string, count u32, count × change, partitions u32 (0: as it is), confirm key movement bool,
//           validate only bool, timeout ms u32
// change  = key string, has value bool, value string (empty when has value is 0: back to the default)
export function encodeRequest(request: AlterTopicRequest): Pieces {
  return [
    encode((sink) => {
      sink.string(request.name);
      writeList(sink, request.config, (item) =>
        sink
          .string(item.key)
          .bool(item.value !== undefined)
          .string(item.value ?? ''),
      );
      sink
        .u32(request.partitions ?? 0)
        .bool(request.confirmKeyMovement)
        .bool(request.validateOnly)
        .u32(request.timeoutMs);
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<AlterTopicRequest> {
  return decode(body, (reader) => {
    const name = readTopicName(reader);
    const config = readList(reader, { elementBytesMin: 5, countMax: CONFIG_ENTRIES_MAX }, () => readChange(reader));
    const partitions = reader.u32();
    return {
      name,
      config,
      partitions: partitions === 0 ? undefined : partitions,
      confirmKeyMovement: reader.bool(),
      validateOnly: reader.bool(),
      timeoutMs: reader.u32(),
    };
  });
}
function readChange(reader: ByteReader): ConfigChange {
  const key = reader.string(CONFIG_TEXT_BYTES_MAX);
  const hasValue = reader.bool();
  const at = reader.at;
  const value = reader.string(CONFIG_TEXT_BYTES_MAX);
  if (!hasValue && value !== '') throw new DecodeError('a value where none was announced', at);
  return { key, value: hasValue ? value : undefined };
}

// response = topic id 16 bytes, partitions u32
export function encodeResponse(response: AlterTopicResponse): Pieces {
  return [
    encode((sink) => {
      writeTopicId(sink, response.topicId);
      sink.u32(response.partitions);
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<AlterTopicResponse> {
  return decode(body, (reader) => ({ topicId: readTopicId(reader), partitions: reader.u32() }));
}
