import type { ProducerId } from '../../base/brands.ts';
import { type ByteReader, DecodeError } from '../../base/bytes.ts';
import { CLIENT_ID_BYTES_MAX } from '../../base/limits.ts';
import { type Decoded, type Pieces, decode, encode, readProducerId } from '../wire.ts';

export interface InitProducerRequest {
  /** A new session of a name gets a higher epoch and fences the older one, durably. Undefined: no name. */
  readonly name: string | undefined;
  /** What this producer holds, when it wants the next epoch of its own id; −1 and −1 at first. */
  readonly producerId: ProducerId;
  readonly producerEpoch: number;
}
export interface InitProducerResponse {
  readonly producerId: ProducerId;
  /** 0 to 32,767. */
  readonly producerEpoch: number;
}

/** The batch header has 16 signed bits for it. */
const EPOCH_MAX = 0x7fff;

// request = name string (empty: none), producer id i64 (−1: none yet), producer epoch i32 (−1: none yet)
export function encodeRequest(request: InitProducerRequest): Pieces {
  return [
    encode((sink) =>
      sink
        .string(request.name ?? '')
        .i64(request.producerId)
        .i32(request.producerEpoch),
    ),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<InitProducerRequest> {
  return decode(body, (reader) => {
    const name = reader.string(CLIENT_ID_BYTES_MAX);
    const producerId = readProducerId(reader);
    const at = reader.at;
    const producerEpoch = readEpoch(reader, -1);
    if ((producerId === -1) !== (producerEpoch === -1)) throw new DecodeError('producer id and epoch go together', at);
    return { name: name === '' ? undefined : name, producerId, producerEpoch };
  });
}

// response = producer id i64, producer epoch i32 (0 to 32767)
export function encodeResponse(response: InitProducerResponse): Pieces {
  return [encode((sink) => sink.i64(response.producerId).i32(response.producerEpoch))];
}
export function decodeResponse(body: Uint8Array): Decoded<InitProducerResponse> {
  return decode(body, (reader) => {
    const producerId = readProducerId(reader);
    if (producerId === -1) throw new DecodeError('no producer id', 0);
    return { producerId, producerEpoch: readEpoch(reader, 0) };
  });
}
function readEpoch(reader: ByteReader, least: number): number {
  const at = reader.at;
  const epoch = reader.i32();
  if (epoch < least || epoch > EPOCH_MAX) throw new DecodeError(`producer epoch is ${String(epoch)}`, at);
  return epoch;
}
