import type { NodeId } from '../../base/brands.ts';
import { CLIENT_ID_BYTES_MAX } from '../../base/limits.ts';
import {
  type Decoded,
  LABEL_BYTES_MAX,
  type Pieces,
  decode,
  encode,
  readList,
  readNodeId,
  writeList,
} from '../wire.ts';

/** Credentials; none yet is accepted or asked for. */
export interface Authentication {
  readonly mechanism: string;
  readonly bytes: Uint8Array;
}
export interface HelloRequest {
  /** Versions of the frame layout and of the rules that hold for all operations; now 1. */
  readonly protocolMin: number;
  readonly protocolMax: number;
  /** For logs and quotas. */
  readonly clientId: string;
  readonly softwareName: string;
  readonly softwareVersion: string;
  readonly authentication: Authentication | undefined;
}
export interface SpokenOperation {
  readonly operation: number;
  readonly min: number;
  readonly max: number;
}
export interface ConnectionLimits {
  /** Largest body of a frame, in either direction. */
  readonly frameBytesMax: number;
  readonly batchBytesMax: number;
  readonly requestsInFlightMax: number;
}
export interface HelloResponse {
  readonly protocol: number;
  readonly softwareName: string;
  readonly softwareVersion: string;
  readonly clusterId: string;
  readonly nodeId: NodeId;
  /** Of this connection, as the broker's log names it. */
  readonly sessionId: string;
  readonly operations: readonly SpokenOperation[];
  readonly limits: ConnectionLimits;
}

export const AUTHENTICATION_BYTES_MAX = 16_384;
const OPERATIONS_MAX = 1024;

// request = protocol min u16, protocol max u16, client id string, software name string, software version string,
//           authentication mechanism string (empty: none), authentication blob
export function encodeRequest(request: HelloRequest): Pieces {
  const { authentication } = request;
  return [
    encode((sink) => {
      sink.u16(request.protocolMin).u16(request.protocolMax).string(request.clientId);
      sink.string(request.softwareName).string(request.softwareVersion);
      sink.string(authentication?.mechanism ?? '').blob(authentication?.bytes ?? new Uint8Array(0));
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<HelloRequest> {
  return decode(body, (reader) => {
    const protocolMin = reader.u16();
    const protocolMax = reader.u16();
    const clientId = reader.string(CLIENT_ID_BYTES_MAX);
    const softwareName = reader.string(LABEL_BYTES_MAX);
    const softwareVersion = reader.string(LABEL_BYTES_MAX);
    const mechanism = reader.string(LABEL_BYTES_MAX);
    const bytes = reader.blob(AUTHENTICATION_BYTES_MAX);
    const authentication = mechanism === '' && bytes.length === 0 ? undefined : { mechanism, bytes };
    return { protocolMin, protocolMax, clientId, softwareName, softwareVersion, authentication };
  });
}

// response  = protocol u16, software name string, software version string, cluster id string, node id i32, session id string,
//             count u32, count × operation, frame bytes max u32, batch bytes max u32, requests in flight max u32
// operation = operation u16, lowest version u8, highest version u8
export function encodeResponse(response: HelloResponse): Pieces {
  const { limits } = response;
  return [
    encode((sink) => {
      sink.u16(response.protocol).string(response.softwareName).string(response.softwareVersion);
      sink.string(response.clusterId).i32(response.nodeId).string(response.sessionId);
      writeList(sink, response.operations, (item) => sink.u16(item.operation).u8(item.min).u8(item.max));
      sink.u32(limits.frameBytesMax).u32(limits.batchBytesMax).u32(limits.requestsInFlightMax);
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<HelloResponse> {
  return decode(body, (reader) => ({
    protocol: reader.u16(),
    softwareName: reader.string(LABEL_BYTES_MAX),
    softwareVersion: reader.string(LABEL_BYTES_MAX),
    clusterId: reader.string(LABEL_BYTES_MAX),
    nodeId: readNodeId(reader),
    sessionId: reader.string(LABEL_BYTES_MAX),
    operations: readList(reader, { elementBytesMin: 4, countMax: OPERATIONS_MAX }, () => ({
      operation: reader.u16(),
      min: reader.u8(),
      max: reader.u8(),
    })),
    limits: { frameBytesMax: reader.u32(), batchBytesMax: reader.u32(), requestsInFlightMax: reader.u32() },
  }));
}
