// Public entry point `rivulet/protocol`: what a client or a broker in another program needs to speak the protocol.
export * from './answer.ts';
export * from './facts.ts';
export { FACTS_MAX, type Failure, MESSAGE_BYTES_MAX } from './failure.ts';
export * from './frame.ts';
export * from './negotiate.ts';
export * from './operations.ts';
export * from './topic-config.ts';
export type { Decoded, DecodeFault, Pieces } from './wire.ts';
export * as helloV1 from './operations/hello.v1.ts';
export * as metadataV1 from './operations/metadata.v1.ts';
export * as produceV1 from './operations/produce.v1.ts';
export * as fetchV1 from './operations/fetch.v1.ts';
export * as listOffsetsV1 from './operations/list-offsets.v1.ts';
export * as initProducerV1 from './operations/init-producer.v1.ts';
export * as createTopicV1 from './operations/create-topic.v1.ts';
export * as alterTopicV1 from './operations/alter-topic.v1.ts';
export * as deleteTopicV1 from './operations/delete-topic.v1.ts';
export * as clusterStatusV1 from './operations/cluster-status.v1.ts';
