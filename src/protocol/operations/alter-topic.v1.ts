import { array, bool, is, optional, string, struct, u32, type Field } from '../fields.ts';
import type { Operation } from '../operation.ts';

export interface ConfigChange {
  readonly key: string;
  /** Undefined: back to the default. */
  readonly value: string | undefined;
}
export interface AlterTopicRequest {
  readonly name: string;
  /** 0: unchanged. */
  readonly partitions: number;
  readonly confirmKeyMovement: boolean;
  readonly config: readonly ConfigChange[];
}
export interface AlterTopicResponse {
  readonly partitions: number;
}

const change: Field<ConfigChange> = struct<ConfigChange>({
  key: is(string(128), 'Setting.'),
  value: is(optional(string(4096)), 'New value; absent: back to the default.'),
});

export const alterTopic: Operation<AlterTopicRequest, AlterTopicResponse> = {
  code: 8,
  name: 'AlterTopic',
  version: 1,
  about: 'Changes settings, or adds partitions. All of it or nothing.',
  beforeHello: false,
  changesState: true,
  request: struct<AlterTopicRequest>({
    name: is(string(4096), 'Topic.'),
    partitions: is(u32, 'New number of partitions, never fewer; 0: unchanged.'),
    confirmKeyMovement: is(bool, 'Must be true to add partitions: keys move to other partitions.'),
    config: is(array(change, 256), 'Settings to change.'),
  }),
  response: struct<AlterTopicResponse>({ partitions: is(u32, 'Partitions now.') }),
  requestPayload: undefined,
  responsePayload: undefined,
};
