// What docs/PROTOCOL.md says in words, section by section; the tables around it are made by make-docs.ts.

export const INTRODUCTION = `
# The Rivulet protocol

Everything needed to write a client in another language. This page is made from the broker's own tables
(\`node test/golden/protocol/make-docs.ts\`); \`test/protocol/independent_client.py\` was written from it alone.

In short: connect by TCP (default port 9400), say Hello, ask Metadata who leads the partitions of a topic, send Produce and
Fetch to those leaders. Records travel and are stored in Kafka's record batch format, magic 2; the rest of the protocol is
Rivulet's own.
`;

export const CONVENTIONS_TEXT = `
## Conventions

All numbers are big-endian. \`u8\`, \`u16\`, \`u32\` are unsigned, \`i32\`, \`i64\` signed in two's complement; every \`i64\` lies within
±(2^53 − 1). \`bool\` is one byte, 0 or 1, nothing else. \`string\` is a length in bytes as u16, then that many bytes of UTF-8.
\`blob\` is a length in bytes as u32, then the bytes. \`count\` says how many elements follow. A topic id is 16 bytes, shown as 32
hexadecimal digits; all zeros means none. Times are milliseconds since 1970-01-01 UTC, spans of time milliseconds.

A body is exactly what its grammar says: bytes missing or left over are an error (MALFORMED_REQUEST), and so are reserved fields
that are not 0.
`;

export const FRAME_TEXT = `
## Frames

\`\`\`
frame  = length u32, operation u16, version u8, flags u8, correlation id u32, body
length   counts what follows it: 8 + the bytes of the body
flags    bit 0: 0 in a request, 1 in an answer; bits 1 to 7 are reserved and must be 0

answer body = error, and with code 0 the response of the operation
error       = code u16, and unless the code is 0: message string, count u16, count × fact
fact        = name string, type u8, value
value       = type 0: string | type 1: i64 | type 2: bool
\`\`\`

An answer repeats operation, version and correlation id of its request. The client chooses correlation ids, one for each request in
flight. Requests may be sent without waiting for answers, up to the number that Hello told; beyond it they are refused with
TOO_MANY_REQUESTS. Answers may come in another order than the requests: a Fetch that waits holds up nothing else. Produce requests
of one connection to one partition are taken in the order sent.

The layout of \`error\` is the same in every version of every operation, for ever: a client can read the refusal of any broker. Branch
on the code; the message is for people. Fetch, ListOffsets, Metadata, CommitOffset and Replay have an error part for each partition or
topic as well, in the same layout: there the answer as a whole is fine (code 0), and single elements are refused.

The declared length is checked as soon as its four bytes are there. When the stream cannot be followed (a length below 8 or over the
limit, reserved flags), the broker sends one last answer with operation 0, version 1, correlation id 0 and MALFORMED_FRAME or
FRAME_TOO_LARGE, and closes. A request that is refused for any other reason leaves the connection usable.

With TLS the frames are the same inside the TLS stream; there is no upgrade within a connection.
`;

export const NEGOTIATION_TEXT = `
## Versions

Each operation has its own versions; a version that was released never changes. The first request on a connection is Hello, version
1 if in doubt; its answer lists every operation that the broker speaks, with the lowest and highest version of each. For each
operation use the highest version that both sides speak; an operation without one cannot be used with this broker. \`protocol\` in
Hello is the version of the frame layout and of the rules on this page, now 1: the broker answers with the highest one within the
client's range, or refuses with UNSUPPORTED_VERSION.

Anything but Hello before Hello was answered is refused with HELLO_REQUIRED. An operation or version that the broker does not speak is
refused with UNSUPPORTED_OPERATION or UNSUPPORTED_VERSION, before Hello too; the fact \`spoken\` then lists what it speaks as text, for
example \`1:1-1 2:1-3\`: operation number, colon, lowest version, dash, highest version, entries separated by one space. A client whose
Hello is too new reads it there and says Hello again on the same connection.
`;

export const BATCH_TEXT = `
## Record batches

\`\`\`
batch  = base offset i64, batch length i32, leader epoch i32, magic i8 (2), crc u32, attributes i16, last offset delta i32,
         base timestamp i64, max timestamp i64, producer id i64, producer epoch i16, base sequence i32, record count i32, records
record = length varint, attributes i8 (0), timestamp delta varlong, offset delta varint, key length varint, key,
         value length varint, value, header count varint, header count × header
header = key length varint, key (UTF-8), value length varint, value
\`\`\`

- The batch header has 61 bytes. Batch length counts everything behind itself: the size of the batch minus 12.
- \`crc\` is the CRC32C (Castagnoli; reflected polynomial 0x82f63b78, start and final xor 0xffffffff; of the ASCII text \`123456789\` it is
  0xe3069283) of all bytes from \`attributes\` to the end of the batch. Base offset, batch length, leader epoch and magic are outside,
  so that the leader can stamp offset and epoch into a batch without computing it again.
- Attributes: bits 0 to 2 the codec (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd), bit 3 set: the timestamps are those of the append, bit
  5 set: a control batch. All others are 0. A producer sets the codec only.
- With a codec, \`records\` is one compressed block of all records: gzip as in RFC 1952; snappy in the framing of xerial's snappy-java;
  lz4 in the lz4 frame format; zstd in its frame format.
- \`varint\` and \`varlong\` are zigzag: v ≥ 0 becomes 2v, v < 0 becomes −2v − 1, then 7 bits a byte, lowest first, the high bit set on all
  but the last byte; at most 5 and 10 bytes. A record's \`length\` counts what follows it. A length of −1 for key, value or header value
  is null; a header key is never null.
- Offset deltas are 0, 1, 2, … without a gap, and last offset delta is record count − 1: a record's offset is base offset + offset
  delta. Its timestamp is base timestamp + timestamp delta; max timestamp is the largest of the batch.
- A producer sends base offset 0 and leader epoch −1; the leader writes the real ones. Nothing else in a batch is ever changed: it is
  fetched as it was produced, compressed as it was compressed.
- Headers \`event-id\` and \`schema-version\` are what the client library shows as fields of a record.

A control batch is written by the brokers themselves, for example when a leader begins an epoch. It takes offsets like any other.
Consumers must pass over it: go on behind its last offset and show nothing of it to the application.
`;

export const PRODUCE_TEXT = `
## Producing

Send one Produce to the partition's leader with one or more batches, back to back. They are checked as a whole and appended together
or not at all: checksum, structure, size, sequence. \`leader epoch\` is the one from Metadata; −1 skips that check. \`acks\` 2 answers
when the batches are committed: stored under the topic's replication and the broker's fsync policy. 1 answers when the leader
has appended them: they can still be lost with the leader. \`timeout ms\` bounds the wait for the commit; when it has passed the answer
is COMMIT_TIMEOUT and the outcome is unknown.

What an answer means: code 0 with acks 2: committed. An error whose outcome is \`rejected\`: not appended, and never will be by this
request. An error whose outcome is \`unknown\`, a connection that ended, a time-out on the client's side: it may or may not be in the log.

Without repeats becoming duplicates:

1. Ask any broker for an id by InitProducer: without a name for an anonymous producer (name empty, id −1, epoch −1).
2. Put producer id and epoch into each batch. \`base sequence\` counts records per partition: the first batch has 0, each next one the
   base sequence of the one before plus its record count, modulo 2^31.
3. Send batches of a partition in the order of their sequences, up to five requests in flight. After an unknown outcome, and after an
   error that is retriable, send the same bytes again, in the old order, before anything later. The broker knows the last five batches
   of each producer in each partition: a repeat is answered with the offsets of the first time and \`duplicate\` = 1. One from further
   back gets DUPLICATE_SEQUENCE: it is in the log, its offset is not known any more.
4. OUT_OF_ORDER_SEQUENCE: a batch before this one is missing. UNKNOWN_PRODUCER: the broker has no state of this id, and takes only
   sequence 0. Either way nothing was appended. When everything in flight is answered, ask InitProducer for the next epoch (own id and
   epoch in the request), and start at sequence 0.
5. A producer with a name keeps its id for good. Each InitProducer of the name raises the epoch; the older session gets
   PRODUCER_FENCED and must stop.

Batches without a producer id (−1, epoch −1, base sequence −1) are taken too; repeating them after an unknown outcome may store them
twice.
`;

export const KEY_TEXT = `
## Partition of a key

Any choice of partition is allowed. So that a key lands in the same partition whichever client sends it, clients should do as Kafka's
default partitioner does: \`(murmur2(key) & 0x7fffffff) % partitions\`, with this murmur2 (all arithmetic modulo 2^32):

\`\`\`
h = 0x9747b28c xor length(key)
for each whole group of 4 bytes, read little-endian as k:
    k = k × 0x5bd1e995;  k = k xor (k >> 24);  k = k × 0x5bd1e995
    h = (h × 0x5bd1e995) xor k
if 3 bytes are left: h = h xor (third << 16)
if 2 or more are left: h = h xor (second << 8)
if 1 or more are left: h = (h xor first) × 0x5bd1e995
h = h xor (h >> 13);  h = h × 0x5bd1e995;  h = h xor (h >> 15)
\`\`\`

Shifts are unsigned. Records without a key may go anywhere: the client library fills one batch, then goes on to the next partition.
Adding partitions moves keys, which is why AlterTopic wants it confirmed.
`;

export const FETCH_TEXT = `
## Fetching

- Only committed records are given, those below the high watermark. [log start offset, high watermark) is what can be read; log start
  moves up with retention, the high watermark with commits. Offsets are dense: there are no gaps inside that range.
- Batches come whole and as stored. The first one is the one that *holds* the fetch offset, so it may begin before it: pass over records
  below the offset asked for. The next fetch offset is the last offset of the last batch plus 1.
- \`max bytes\`, of a partition and of the whole answer, are soft: the first batch of the answer comes whole even when it is larger, so
  that a reader always gets on. Nothing is cut: what does not fit whole is left for the next fetch.
- Long poll: when less than \`min bytes\` is there, the broker waits up to \`wait ms\` for more, and then answers with what there is, maybe
  nothing. With an error on any partition it answers at once. There is no need to poll faster than answers come; one Fetch in flight
  for each broker, over all its partitions, is enough. Set the client's own time-out above \`wait ms\`.
- Order in the request is order of service: if the answer fills up before the last partitions, put those first the next time.
- \`current leader epoch\`: the epoch that Metadata told. The broker answers FENCED_LEADER_EPOCH when it knows a newer one and
  UNKNOWN_LEADER_EPOCH when it has not heard of it yet. −1 skips the check.
- \`last fetched epoch\`: the leader epoch in the header of the last batch read before the fetch offset, −1 at first and after a jump.
  By it the broker sees that what was read is not what it has: after records were lost (a power failure under a weak fsync policy) the
  same offset may have been given to another record, under a higher epoch. Then it answers LOG_TRUNCATED with \`divergingEpoch\` and
  \`divergingEndOffset\`: what was read from that offset on is gone or different. Tell the application; go on from there if it says so.
- OFFSET_EXPIRED: retention has removed the offset; \`logStart\` and \`highWatermark\` say what is left. OFFSET_BEYOND_END: nothing has that
  offset yet, nor is it the next one. DAMAGED_RANGE: the records from \`damagedFrom\` to before \`damagedTo\` cannot be read from this
  disk. None of these is skipped silently by the broker, and none should be by a client.
- Check the CRC32C of each batch, and bound what you decompress.
- Control batches: pass over them (see above).

ListOffsets finds where to start: \`earliest\` is the log start, \`latest\` the high watermark. By time it names the first batch whose largest
timestamp is at or after the time asked for, by an offset in that batch at or before the record looked for: read from there and pass
over records that are older. When no record is that late the answer is the high watermark with timestamp −1.
`;

export const RETRY_TEXT = `
## When the outcome is not known

A connection ends, a time-out passes, or an error has the outcome \`unknown\`. What to do depends on the operation (see the table of
operations): most can simply be repeated. Produce is repeated with the same bytes, if they carry a producer id. CreateTopic with
\`if not exists\` can be repeated, else the repeat may be answered with TOPIC_EXISTS by its own first attempt. DeleteTopic with the topic's
id can be repeated: UNKNOWN_TOPIC then means that it is gone.

Wait before repeating: \`retryAfterMs\` where the error tells it, otherwise a time that doubles from some 50 ms to a few seconds, with
jitter. \`throttle ms\` in an answer is no error: the request was carried out, and the broker will read nothing more from this connection
for that long.

When a request was not answered in time, close the connection: what else is in flight there waits behind the same trouble.
`;

export const GROUP_TEXT = `
## Groups

A group shares out the partitions of the topics that its members name, one owner for each partition at a time, and remembers how far it
has come. All of its operations go to the coordinator, which is the controller that Metadata names (COORDINATOR_NOT_AVAILABLE: ask
Metadata again). Ids of groups and instances are 1 to 255 bytes of UTF-8 without control characters, member ids 1 to 128 of the
characters \`A-Z a-z 0-9 . _ -\`.

1. JoinGroup, with a member id that the member makes itself at random, so that the request can be repeated; without one the broker
   makes it. A member id serves one membership only: whoever got UNKNOWN_MEMBER, or has left, joins with another.
2. From then on one Heartbeat after the other, each no later than \`heartbeat ms\` after the answer to the one before. With \`wait ms\`
   the broker holds the answer until something changes for the member, but not for longer than a third of its session: so one
   heartbeat that always waits makes rebalances quick and idle ones few.
3. Each answer is the whole truth. \`assigned\`: read these; those that are new start at the committed offset (FetchOffsets, asked
   after that answer), or where the application says when nothing is committed. \`topics to release\`: stop these, finish or drop
   what is in progress, commit, and name them as \`released\` in a Heartbeat with the generation of the latest answer. Anything that
   is in neither list is not the member's: stop it at once and commit nothing. The broker gives a partition to its next owner only
   after that, or when the session of the old one has expired.
4. A member that has not had an answer to a heartbeat for its session timeout, counted from when it sent the last one that was
   answered, must have stopped everything by then: the broker gives its partitions to others. It counts on a clock that does not
   jump. The same after UNKNOWN_MEMBER: stop everything, then join anew.
5. A member that does not release within its rebalance timeout gets UNKNOWN_MEMBER, and its partitions move when its session, which
   is not renewed any more, has expired. A Heartbeat that releases everything in time of that makes it good.
6. LeaveGroup, after stopping and committing, frees everything at once. A member with an instance id that is only being restarted does
   not leave: the new process joins with the same instance id and another member id within the session, and takes over its
   partitions at once; the older member gets INSTANCE_FENCED and must stop.

\`generation\` is the one of the last answer that the member has acted on. It rises with every change of the member's partitions, for
ever; two owners of a partition never have it in the same generation. CommitOffset names it: a commit counts when the member owns the
partition and has owned it since that generation, so a rebalance that leaves a partition where it is refuses no commit for it. The errors
of single partitions: STALE_GENERATION (the member has not heard yet what changed: send a Heartbeat, then commit what is still its own),
COMMIT_NOT_OWNED, COMMIT_BEYOND_END, COMMIT_BACKWARDS, UNKNOWN_TOPIC, UNKNOWN_PARTITION. The same position twice is fine. Going back
needs Replay; except that when the committed records were lost (LOG_TRUNCATED), a commit within the log and of a higher leader epoch is
taken. Commits of several partitions in one request are one write. An error of the answer as a whole, UNKNOWN_MEMBER for one, means that
nothing was committed.

Offsets belong to the topic's id: a topic that is deleted and created anew under its name starts without any.

Replay sets offsets, backwards too, for a group without members. The client turns earliest, latest and times into offsets by ListOffsets.
With \`pause\` the members release everything first, as in any rebalance, with state \`paused\`; then the offsets are set and the partitions
given out again. REBALANCE_IN_PROGRESS: they did not stop within \`timeout ms\`, and nothing was set. An offset outside of what is retained
is refused (OFFSET_EXPIRED, COMMIT_BEYOND_END), and then none of the request is set.
`;
