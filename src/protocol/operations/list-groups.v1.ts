import { GROUPS_MAX } from '../../base/limits.ts';
import { readGeneration, readGroupId } from '../group-fields.ts';
import { type Decoded, type Pieces, decode, encode, readChoice, readList, writeList } from '../wire.ts';

export type ListGroupsRequest = Readonly<Record<never, never>>;

export type GroupState =
  /** No members. */
  | 'empty'
  /** Every partition is with the member that it belongs to. */
  | 'stable'
  | 'rebalancing'
  | 'paused';

export interface ListedGroup {
  readonly group: string;
  readonly state: GroupState;
  readonly generation: number;
  readonly members: number;
  /** Partitions with a committed offset. */
  readonly offsets: number;
}
export interface ListGroupsResponse {
  /** By id. */
  readonly groups: readonly ListedGroup[];
}

export const GROUP_STATES: readonly GroupState[] = ['empty', 'stable', 'rebalancing', 'paused'];

// request = (empty)
export function encodeRequest(_request: ListGroupsRequest): Pieces {
  return [];
}
export function decodeRequest(body: Uint8Array): Decoded<ListGroupsRequest> {
  return decode(body, () => ({}));
}

// response = count u32, count × group
// group    = group string, state u8 (0: empty, 1: stable, 2: rebalancing, 3: paused), generation i64, members u32,
//            partitions with a committed offset u32
export function encodeResponse(response: ListGroupsResponse): Pieces {
  return [
    encode((sink) => {
      writeList(sink, response.groups, (item) => {
        sink.string(item.group).u8(GROUP_STATES.indexOf(item.state)).i64(item.generation);
        sink.u32(item.members).u32(item.offsets);
      });
    }),
  ];
}
export function decodeResponse(body: Uint8Array): Decoded<ListGroupsResponse> {
  return decode(body, (reader) => ({
    groups: readList(reader, { elementBytesMin: 19, countMax: GROUPS_MAX }, () => ({
      group: readGroupId(reader),
      state: readChoice(reader, 'state of the group', GROUP_STATES),
      generation: readGeneration(reader, 0),
      members: reader.u32(),
      offsets: reader.u32(),
    })),
  }));
}
