import type { TopicId } from '../../base/brands.ts';
import { array, bool, is, string, struct, topicIdField, u32, type KeyValue } from '../fields.ts';
import type { Operation } from '../operation.ts';
import { keyValue } from './metadata.v1.ts';

export interface CreateTopicRequest {
  readonly name: string;
  /** 0: the broker's default. */
  readonly partitions: number;
  readonly replicas: number;
  readonly config: readonly KeyValue[];
  readonly ifNotExists: boolean;
}
export interface CreateTopicResponse {
  readonly topicId: TopicId;
  readonly created: boolean;
}

export const createTopic: Operation<CreateTopicRequest, CreateTopicResponse> = {
  code: 7,
  name: 'CreateTopic',
  version: 1,
  about: 'Creates a topic; answered when the topic is durable in the metadata log and its partitions can be written.',
  beforeHello: false,
  changesState: true,
  request: struct<CreateTopicRequest>({
    // Longer than a valid name may be, so that a bad name gets INVALID_TOPIC_NAME and not a broken connection.
    name: is(string(4096), 'Topic name: letters, digits, dots, dashes, underscores; up to 249.'),
    partitions: is(u32, '0: the default of the broker.'),
    replicas: is(u32, '0: the default of the broker.'),
    config: is(array(keyValue, 256), 'Settings that differ from the defaults.'),
    ifNotExists: is(bool, 'True: an existing topic of that name is a success.'),
  }),
  response: struct<CreateTopicResponse>({
    topicId: is(topicIdField, 'Topic.'),
    created: is(bool, 'False: it existed.'),
  }),
  requestPayload: undefined,
  responsePayload: undefined,
};
