// Hello: the first request on every connection. Both sides learn what the other speaks.
import { CLIENT_ID_BYTES_MAX } from '../../base/limits.ts';
import { array, i32, is, string, struct, u16, u32, u8, type Field } from '../fields.ts';
import type { Operation } from '../operation.ts';

export interface HelloRequest {
  readonly clientId: string;
  readonly software: string;
  readonly softwareVersion: string;
}
export interface SpokenOperation {
  readonly code: number;
  readonly versionMin: number;
  readonly versionMax: number;
}
export interface HelloResponse {
  readonly software: string;
  readonly softwareVersion: string;
  readonly clusterId: string;
  readonly nodeId: number;
  readonly operations: readonly SpokenOperation[];
  readonly frameBytesMax: number;
  readonly batchBytesMax: number;
  readonly requestsInFlightMax: number;
}

const spoken: Field<SpokenOperation> = struct({
  code: is(u16, 'Operation number.'),
  versionMin: is(u8, 'Oldest version spoken.'),
  versionMax: is(u8, 'Newest version spoken.'),
});

export const hello: Operation<HelloRequest, HelloResponse> = {
  code: 1,
  name: 'Hello',
  version: 1,
  about: 'First request on every connection; tells what the broker speaks and its limits.',
  beforeHello: true,
  changesState: false,
  request: struct<HelloRequest>({
    clientId: is(string(CLIENT_ID_BYTES_MAX), 'Shown in logs and used by quotas; may be empty.'),
    software: is(string(64), 'Name of the client software.'),
    softwareVersion: is(string(64), 'Its version.'),
  }),
  response: struct<HelloResponse>({
    software: is(string(64), 'Name of the broker software.'),
    softwareVersion: is(string(64), 'Its version.'),
    clusterId: is(string(64), 'Same on all nodes of a cluster.'),
    nodeId: is(i32, 'The node that answers.'),
    operations: is(array(spoken, 1024), 'What the broker speaks; use the newest version that both sides know.'),
    frameBytesMax: is(u32, 'Largest frame length the broker accepts from now on.'),
    batchBytesMax: is(u32, 'Largest batch the broker accepts.'),
    requestsInFlightMax: is(u32, 'Unanswered requests on this connection; more are not read.'),
  }),
  requestPayload: undefined,
  responsePayload: undefined,
};
