import type { TopicId } from '../../base/brands.ts';
import { is, string, struct, topicIdField } from '../fields.ts';
import type { Operation } from '../operation.ts';

export interface DeleteTopicRequest {
  readonly name: string;
}
export interface DeleteTopicResponse {
  readonly topicId: TopicId;
}

export const deleteTopic: Operation<DeleteTopicRequest, DeleteTopicResponse> = {
  code: 9,
  name: 'DeleteTopic',
  version: 1,
  about: 'Deletes a topic and its records. Answered when that is durable; disk space returns soon after.',
  beforeHello: false,
  changesState: true,
  request: struct<DeleteTopicRequest>({ name: is(string(4096), 'Topic.') }),
  response: struct<DeleteTopicResponse>({ topicId: is(topicIdField, 'The topic that is gone.') }),
  requestPayload: undefined,
  responsePayload: undefined,
};
