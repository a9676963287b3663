import { CLIENT_ID_BYTES_MAX, GROUP_ID_BYTES_MAX, GROUP_TOPICS_MAX } from '../../base/limits.ts';
import { type Membership, readGroupId, readMemberId, readMembership, writeMembership } from '../group-fields.ts';
import { type Decoded, type Pieces, decode, encode, readList, readTopicName, writeList } from '../wire.ts';

export interface JoinGroupRequest {
  readonly group: string;
  /** Made by the member itself, anew for each membership; undefined: by the broker. With its own, a repeat is harmless. */
  readonly memberId: string | undefined;
  /** Takes over what the member of the same instance id owns, and fences that one. */
  readonly instanceId: string | undefined;
  /** For people. */
  readonly clientId: string;
  /** Without a heartbeat for this long the member is out, and must have stopped by itself. */
  readonly sessionTimeoutMs: number;
  /** What it may take to release partitions; after that its heartbeats are refused. */
  readonly rebalanceTimeoutMs: number;
  /** Names; topics that do not exist yet count from when they do. */
  readonly topics: readonly string[];
}
export interface JoinGroupResponse {
  readonly memberId: string;
  readonly membership: Membership;
}

// request = group string, member id string (empty: the broker makes one), instance id string (empty: not static),
//           client id string, session timeout ms u32, rebalance timeout ms u32, count u32, count × topic name string
export function encodeRequest(request: JoinGroupRequest): Pieces {
  return [
    encode((sink) => {
      sink
        .string(request.group)
        .string(request.memberId ?? '')
        .string(request.instanceId ?? '')
        .string(request.clientId);
      sink.u32(request.sessionTimeoutMs).u32(request.rebalanceTimeoutMs);
      writeList(sink, request.topics, (name) => sink.string(name));
    }),
  ];
}
export function decodeRequest(body: Uint8Array): Decoded<JoinGroupRequest> {
  return decode(body, (reader) => {
    const group = readGroupId(reader);
    const memberId = readMemberId(reader);
    const instanceId = reader.string(GROUP_ID_BYTES_MAX);
    return {
      group,
      memberId: memberId === '' ? undefined : memberId,
      instanceId: instanceId === '' ? undefined : instanceId,
      clientId: reader.string(CLIENT_ID_BYTES_MAX),
      sessionTimeoutMs: reader.u32(),
      rebalanceTimeoutMs: reader.u32(),
      topics: readList(reader, { elementBytesMin: 2, countMax: GROUP_TOPICS_MAX }, () => readTopicName(reader)),
    };
  });
}

// response   = member id string, membership
// membership = generation i64, state u8 (0: stable, 1: revoking, 2: waiting, 3: paused), heartbeat ms u32,
//              assigned topics, topics to release
// topics     = count u32, count × (topic id 16 bytes, count u32, count × partition u32)
export function encodeResponse(response: JoinGroupResponse): Pieces {
  return [
    encode((sink) => {
      writeMembership(sink.string(response.memberId), response.membership);
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<JoinGroupResponse> {
  return decode(body, (reader) => ({ memberId: readMemberId(reader), membership: readMembership(reader) }));
}
