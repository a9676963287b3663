// Every limit in one place, each with its reason; the relations between them are asserted below, where they are read.
import { assert } from './assert.ts';
import { utf8Size } from './bytes.ts';

/** Largest key, value or header block of one record. */
export const RECORD_BYTES_MAX: number = 8 * 1024 * 1024 + 64 * 1024;
/** Largest batch as stored, header included. Room for one largest record that did not compress. */
export const BATCH_BYTES_MAX: number = 9 * 1024 * 1024;
/** Records of one batch: a batch of one-byte records stays decodable in a bounded time. */
export const BATCH_RECORDS_MAX = 1_000_000;
/** Uncompressed bytes of one batch: what a consumer must be able to hold; bounds decompression. */
export const BATCH_UNCOMPRESSED_BYTES_MAX: number = 64 * 1024 * 1024;
/** Body of one frame, both directions; a fetch answer may hold several batches. */
export const FRAME_BYTES_MAX: number = 16 * 1024 * 1024;
/** Batches of one Produce request. */
export const PRODUCE_BATCHES_MAX = 1024;
/** Partitions of one Fetch or Metadata request. */
export const REQUEST_PARTITIONS_MAX = 4096;
export const TOPIC_NAME_BYTES_MAX = 249;
export const CLIENT_ID_BYTES_MAX = 255;
export const GROUP_ID_BYTES_MAX = 255;
export const MEMBER_ID_BYTES_MAX = 128;
/** Groups that are remembered: each has at least a committed offset or a member. */
export const GROUPS_MAX = 10_000;
export const GROUP_MEMBERS_MAX = 1000;
/** Members of all groups: a row may have some 5 KiB. */
export const MEMBERS_MAX = 20_000;
/** Topics that one member may name. */
export const GROUP_TOPICS_MAX = 256;
/** All their names together: the rows of all members of a group fit in one entry of the metadata log. */
export const GROUP_TOPICS_BYTES_MAX = 4096;
/** Partitions that one group may share out; what is beyond stays unassigned, and is said. */
export const GROUP_PARTITIONS_MAX = 16_384;
/** Partitions that all groups together may share out. */
export const ASSIGNED_PARTITIONS_MAX = 262_144;
/** Text beside one committed offset. */
export const COMMIT_METADATA_BYTES_MAX = 512;
/** Committed offsets of all groups: they are held in memory. */
export const COMMITTED_OFFSETS_MAX = 262_144;
export const SESSION_TIMEOUT_MS_MIN = 1000;
export const SESSION_TIMEOUT_MS_MAX = 1_800_000;
export const REBALANCE_TIMEOUT_MS_MAX = 3_600_000;
export const HEADER_COUNT_MAX = 1024;
export const SEGMENT_BYTES_DEFAULT: number = 64 * 1024 * 1024;
/** Positions in the sparse index are 32 bits. */
export const SEGMENT_BYTES_MAX: number = 1024 * 1024 * 1024;
/** Small on purpose: tests and small devices roll often. A larger batch gets a segment of its own. */
export const SEGMENT_BYTES_MIN = 1024;
export const INDEX_INTERVAL_BYTES_DEFAULT = 4096;
export const PARTITIONS_PER_TOPIC_MAX = 1024;
export const REQUESTS_IN_FLIGHT_MAX_DEFAULT = 256;
export const CONNECTIONS_MAX_DEFAULT = 4096;
export const CONNECTIONS_PER_ADDRESS_MAX_DEFAULT = 4096;
/** Bytes waiting in one connection's output before its requests are no longer read. */
/** Over all connections, beside a small buffer for each; one whole frame more in the worst case. */
export const INPUT_BYTES_MAX_DEFAULT: number = 32 * 1024 * 1024;
export const OUTPUT_BYTES_MAX_DEFAULT: number = 32 * 1024 * 1024;
export const HANDSHAKE_TIMEOUT_MS_DEFAULT = 10_000;
export const IDLE_TIMEOUT_MS_DEFAULT = 600_000;
export const FRAME_TIMEOUT_MS_DEFAULT = 30_000;
export const FETCH_WAIT_MS_MAX = 60_000;
/** What a connection may make us buffer before its Hello was accepted. */
export const UNAUTHENTICATED_FRAME_BYTES_MAX: number = 64 * 1024;

const FRAME_OVERHEAD = 64 * 1024;
assert(RECORD_BYTES_MAX + 1024 < BATCH_BYTES_MAX, 'the largest record fits in a batch, header and varints included');
assert(BATCH_BYTES_MAX + FRAME_OVERHEAD < FRAME_BYTES_MAX, 'the largest batch fits in a frame with its request fields');
assert(BATCH_UNCOMPRESSED_BYTES_MAX >= BATCH_BYTES_MAX, 'a batch that does not compress can be decoded');
assert(SEGMENT_BYTES_MAX + BATCH_BYTES_MAX < 2 ** 32, 'every position in a segment fits in the index');
assert(
  GROUP_MEMBERS_MAX * (GROUP_TOPICS_BYTES_MAX + 1024) + GROUP_PARTITIONS_MAX * 64 < RECORD_BYTES_MAX,
  'all rows of a group fit in one entry',
);
assert(OUTPUT_BYTES_MAX_DEFAULT >= 2 * FRAME_BYTES_MAX, 'one answer leaves while the next is prepared');

const CONTROL = /\p{Cc}/u;
const MEMBER_ID = /^[A-Za-z0-9._-]{1,128}$/;
const TOPIC_NAME = /^[A-Za-z0-9._-]{1,249}$/;

/** 1 to 255 bytes of text without control characters; also the rule for instance ids. */
export function isGroupId(text: string): boolean {
  return text !== '' && utf8Size(text) <= GROUP_ID_BYTES_MAX && !CONTROL.test(text);
}
/** Member ids are made by programs: letters, digits, dot, underscore, dash. */
export function isMemberId(text: string): boolean {
  return MEMBER_ID.test(text);
}

/** Same rule as the field's: letters, digits, dot, underscore, dash; never "." or "..". */
export function isTopicName(name: string): boolean {
  return TOPIC_NAME.test(name) && name !== '.' && name !== '..';
}
