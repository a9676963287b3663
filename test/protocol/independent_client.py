#!/usr/bin/env python3
"""A client written from docs/PROTOCOL.md alone, with Python's standard library alone: it shares no code with the broker.

usage: independent_client.py HOST:PORT [TOPIC]     hello, create topic, produce, fetch; prints one JSON document
       independent_client.py --vectors             checksums, hashes and a batch, to compare with other implementations

Exit status 0: every answer was as documented. 1: not so; the document says where under "error".
"""
import json
import socket
import struct
import sys

TIMEOUT_SECONDS = 15
NO_TOPIC = bytes(16)
HELLO, METADATA, PRODUCE, FETCH, LIST_OFFSETS, INIT_PRODUCER, CREATE_TOPIC = 1, 2, 3, 4, 5, 6, 7


class Refused(Exception):
    def __init__(self, code, message, facts):
        super().__init__("error %d: %s %s" % (code, message, facts))
        self.code, self.message, self.facts = code, message, facts


class Broken(Exception):
    """The broker does not do what its documentation says."""


def expect(condition, message):
    if not condition:
        raise Broken(message)


# ---- Fields ----

def string(text):
    data = text.encode("utf-8")
    return struct.pack(">H", len(data)) + data


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def raw(self, size):
        expect(self.at + size <= len(self.data), "answer ends early")
        part = self.data[self.at:self.at + size]
        self.at += size
        return part

    def number(self, form):
        return struct.unpack(">" + form, self.raw(struct.calcsize(">" + form)))[0]

    def u8(self):
        return self.number("B")

    def u16(self):
        return self.number("H")

    def u32(self):
        return self.number("I")

    def i32(self):
        return self.number("i")

    def i64(self):
        return self.number("q")

    def bool(self):
        value = self.u8()
        expect(value <= 1, "boolean of %d" % value)
        return value == 1

    def string(self):
        return self.raw(self.u16()).decode("utf-8")

    def list(self, read):
        return [read() for _ in range(self.u32())]

    def end(self):
        expect(self.at == len(self.data), "%d trailing bytes" % (len(self.data) - self.at))

    def error(self):
        """None, or (code, message, facts)."""
        code = self.u16()
        if code == 0:
            return None
        message = self.string()
        facts = {}
        for _ in range(self.u16()):
            name = self.string()
            kind = self.u8()
            expect(kind <= 2, "fact of type %d" % kind)
            facts[name] = (self.string, self.i64, self.bool)[kind]()
        return code, message, facts


# ---- Connection ----

class Connection:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), TIMEOUT_SECONDS)
        self.correlation = 0

    def receive(self, size):
        parts = []
        while size > 0:
            part = self.socket.recv(min(size, 65536))
            expect(part, "connection closed by the broker")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def send(self, operation, version, body):
        self.correlation += 1
        self.socket.sendall(struct.pack(">IHBBI", 8 + len(body), operation, version, 0, self.correlation) + body)
        return self.correlation

    def answer(self):
        length = struct.unpack(">I", self.receive(4))[0]
        expect(length >= 8, "frame length %d" % length)
        frame = self.receive(length)
        operation, version, flags, correlation = struct.unpack(">HBBI", frame[:8])
        expect(flags == 1, "flags %d in an answer" % flags)
        return operation, version, correlation, Reader(frame[8:])

    def request(self, operation, version, body):
        sent = self.send(operation, version, body)
        told_operation, told_version, correlation, reader = self.answer()
        expect((told_operation, told_version, correlation) == (operation, version, sent), "an answer to something else")
        error = reader.error()
        if error is not None:
            reader.end()
            raise Refused(*error)
        return reader


# ---- Checksums, hashes, record batches ----

def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ 0x82F63B78 if byte & 1 else byte >> 1
        table.append(byte)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def murmur2(data):
    mask, mix = 0xFFFFFFFF, 0x5BD1E995
    value = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = struct.unpack_from("<I", data, at)[0] * mix & mask
        word = (word ^ (word >> 24)) * mix & mask
        value = (value * mix & mask) ^ word
    rest = data[whole:]
    if rest:
        value ^= int.from_bytes(rest, "little")
        value = value * mix & mask
    value = (value ^ (value >> 13)) * mix & mask
    return value ^ (value >> 15)


def partition_of(key, partitions):
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def varint(value):
    rest = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(data, at):
    value = shift = 0
    while True:
        expect(at < len(data) and shift < 70, "varint does not end")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def nullable(data):
    return varint(-1) if data is None else varint(len(data)) + data


def encode_batch(records, producer=(-1, -1, -1)):
    """records: (timestamp, key, value, [(header key, header value)])"""
    first = records[0][0]
    body = b""
    for delta, (timestamp, key, value, headers) in enumerate(records):
        record = b"\0" + varint(timestamp - first) + varint(delta) + nullable(key) + nullable(value) + varint(len(headers))
        for name, content in headers:
            record += nullable(name.encode("utf-8")) + nullable(content)
        body += varint(len(record)) + record
    latest = max(record[0] for record in records)
    covered = struct.pack(">hiqqqhii", 0, len(records) - 1, first, latest, *producer, len(records)) + body
    return struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, crc32c(covered)) + covered


def decode_batch(data, at):
    """(next position, header, records); the records of an uncompressed batch."""
    expect(len(data) - at >= 61, "%d bytes where a batch was expected" % (len(data) - at))
    base, length, epoch, magic, crc = struct.unpack_from(">qiibI", data, at)
    end = at + 12 + length
    expect(magic == 2 and length >= 49 and end <= len(data), "no whole batch of magic 2")
    expect(crc32c(data[at + 21:end]) == crc, "checksum of the batch at offset %d" % base)
    attributes, last_delta, first, _latest, producer, _epoch, sequence, count = struct.unpack_from(">hiqqqhii", data, at + 21)
    header = {"baseOffset": base, "lastOffset": base + last_delta, "leaderEpoch": epoch, "producerId": producer,
              "baseSequence": sequence, "control": attributes & 0x20 != 0, "codec": attributes & 7}
    expect(count == last_delta + 1, "%d records over %d offsets" % (count, last_delta + 1))
    expect(header["codec"] == 0, "a codec that was not used")
    records, at = [], at + 61
    for index in range(count):
        size, at = read_varint(data, at)
        record_end = at + size
        at += 1
        timestamp_delta, at = read_varint(data, at)
        offset_delta, at = read_varint(data, at)
        expect(offset_delta == index, "offset delta %d at record %d" % (offset_delta, index))
        fields = []
        for _ in range(2):
            size, at = read_varint(data, at)
            fields.append(None if size < 0 else data[at:at + size])
            at += max(size, 0)
        headers = []
        header_count, at = read_varint(data, at)
        for _ in range(header_count):
            pair = []
            for _ in range(2):
                size, at = read_varint(data, at)
                pair.append(None if size < 0 else data[at:at + size])
                at += max(size, 0)
            headers.append((pair[0].decode("utf-8"), pair[1]))
        expect(at == record_end, "record %d ends elsewhere" % index)
        records.append({"offset": base + offset_delta, "timestamp": first + timestamp_delta, "key": fields[0], "value": fields[1], "headers": headers})
    expect(at == end, "records end elsewhere than their batch")
    return end, header, records


# ---- Operations ----

def hello(connection):
    body = struct.pack(">HH", 1, 1) + string("independent") + string("independent_client.py") + string("1") + string("") + struct.pack(">I", 0)
    reader = connection.request(HELLO, 1, body)
    told = {"protocol": reader.u16(), "software": reader.string(), "version": reader.string(), "clusterId": reader.string(),
            "nodeId": reader.i32(), "sessionId": reader.string()}
    told["operations"] = reader.list(lambda: {"operation": reader.u16(), "min": reader.u8(), "max": reader.u8()})
    told["frameBytesMax"], told["batchBytesMax"], told["requestsInFlightMax"] = reader.u32(), reader.u32(), reader.u32()
    reader.end()
    return told


def unsupported(connection):
    """What a broker says to an operation that nobody speaks."""
    try:
        connection.request(65000, 1, b"")
    except Refused as refused:
        return {"code": refused.code, "spoken": refused.facts.get("spoken")}
    raise Broken("operation 65000 was answered")


def create_topic(connection, name, partitions):
    config = [("retention.ms", "3600000")]
    body = string(name) + struct.pack(">IHI", partitions, 1, len(config)) + b"".join(string(key) + string(value) for key, value in config)
    reader = connection.request(CREATE_TOPIC, 1, body + struct.pack(">BBI", 0, 1, 10000))
    told = {"topicId": reader.raw(16).hex(), "created": reader.bool(), "partitions": reader.u32(), "replicas": reader.u16()}
    reader.end()
    return told


def metadata(connection, name):
    reader = connection.request(METADATA, 1, struct.pack(">BI", 1, 1) + string(name) + struct.pack(">BB", 0, 1))
    told = {"clusterId": reader.string(), "controllerId": reader.i32()}
    told["nodes"] = reader.list(lambda: {"nodeId": reader.i32(), "host": reader.string(), "port": reader.u16()})

    def partition():
        return {"partition": reader.u32(), "leader": reader.i32(), "leaderEpoch": reader.i32(),
                "replicas": reader.list(reader.i32), "inSync": reader.list(reader.i32)}

    def topic():
        return {"error": reader.error(), "name": reader.string(), "topicId": reader.raw(16).hex(), "partitions": reader.list(partition),
                "config": reader.list(lambda: {"key": reader.string(), "value": reader.string(), "isDefault": reader.bool()})}

    told["topics"] = reader.list(topic)
    reader.end()
    expect(len(told["topics"]) == 1 and told["topics"][0]["name"] == name, "metadata of another topic")
    if told["topics"][0]["error"] is not None:
        raise Refused(*told["topics"][0]["error"])
    return told


def init_producer(connection):
    reader = connection.request(INIT_PRODUCER, 1, string("") + struct.pack(">qi", -1, -1))
    told = reader.i64(), reader.i32()
    reader.end()
    return told


def produce(connection, topic_id, partition, epoch, batch):
    reader = connection.request(PRODUCE, 1, topic_id + struct.pack(">IiBI", partition, epoch, 2, 10000) + batch)
    told = {"partition": partition, "baseOffset": reader.i64(), "lastOffset": reader.i64(), "leaderEpoch": reader.i32(), "logStart": reader.i64(),
            "throttleMs": reader.u32(), "duplicate": reader.bool()}
    reader.end()
    return told


def list_offsets(connection, topic_id, partition, kind):
    reader = connection.request(LIST_OFFSETS, 1, struct.pack(">I", 1) + topic_id + struct.pack(">IiBq", partition, -1, kind, -1))
    expect(reader.u32() == 1 and reader.raw(16) == topic_id and reader.u32() == partition, "offsets of another partition")
    error = reader.error()
    if error is not None:
        raise Refused(*error)
    offset, _timestamp, _epoch = reader.i64(), reader.i64(), reader.i32()
    reader.end()
    return offset


def fetch(connection, topic_id, partition, offset, last_epoch):
    asked = topic_id + struct.pack(">IqiiI", partition, offset, -1, last_epoch, 1 << 20)
    reader = connection.request(FETCH, 1, struct.pack(">IIIBI", 500, 1, 1 << 20, 0, 1) + asked)
    reader.u32()
    expect(reader.u32() == 1 and reader.raw(16) == topic_id and reader.u32() == partition, "records of another partition")
    error = reader.error()
    if error is not None:
        raise Refused(*error)
    log_start, high_watermark, leader_epoch, size = reader.i64(), reader.i64(), reader.i32(), reader.u32()
    payload = reader.raw(size)
    reader.end()
    return {"logStart": log_start, "highWatermark": high_watermark, "leaderEpoch": leader_epoch}, payload


def read_all(connection, topic_id, partition):
    """Every record from the log start to the high watermark of the last answer."""
    offset, last_epoch, records = list_offsets(connection, topic_id, partition, 0), -1, []
    while True:
        told, payload = fetch(connection, topic_id, partition, offset, last_epoch)
        at = 0
        while at < len(payload):
            at, header, batch = decode_batch(payload, at)
            expect(header["baseOffset"] <= offset <= header["lastOffset"], "a batch that does not hold offset %d" % offset)
            if not header["control"]:
                records += [record for record in batch if record["offset"] >= offset]
            offset, last_epoch = header["lastOffset"] + 1, header["leaderEpoch"]
        if offset >= told["highWatermark"]:
            return records


def shown(record):
    def text(data):
        return None if data is None else data.decode("utf-8", "backslashreplace")
    return {"offset": record["offset"], "timestamp": record["timestamp"], "key": text(record["key"]), "value": text(record["value"]),
            "headers": [[name, text(value)] for name, value in record["headers"]]}


SAMPLE = [(1700000000000, b"k1", b"v1", []), (1700000000005, None, b"", [("event-id", b"e-2"), ("none", None)])]


def run(host, port, topic):
    connection = Connection(host, port)
    told = {"hello": hello(connection), "unsupported": unsupported(connection)}
    told["created"] = create_topic(connection, topic, 2)
    view = metadata(connection, topic)
    told["metadata"] = view
    topic_id = bytes.fromhex(view["topics"][0]["topicId"])
    expect(topic_id.hex() == told["created"]["topicId"] and topic_id != NO_TOPIC, "two ids of one topic")
    partition = partition_of(b"k1", len(view["topics"][0]["partitions"]))
    epoch = view["topics"][0]["partitions"][partition]["leaderEpoch"]
    producer_id, producer_epoch = init_producer(connection)
    batch = encode_batch(SAMPLE, (producer_id, producer_epoch, 0))
    told["produced"] = produce(connection, topic_id, partition, epoch, batch)
    told["repeated"] = produce(connection, topic_id, partition, epoch, batch)
    expect(told["repeated"]["duplicate"] and told["repeated"]["baseOffset"] == told["produced"]["baseOffset"], "a repeat is not recognised")
    records = read_all(connection, topic_id, partition)
    told["fetched"] = [shown(record) for record in records]
    mine = [(r["timestamp"], r["key"], r["value"], r["headers"]) for r in records if r["offset"] >= told["produced"]["baseOffset"]]
    expect(mine == SAMPLE, "what was fetched is not what was produced")
    told["latest"] = list_offsets(connection, topic_id, partition, 1)
    return told


def vectors():
    keys = ["", "a", "abc", "21", "foobar", "a-little-bit-long-string", "a-little-bit-longer-string", "zähler"]
    return {"crc32c": "%08x" % crc32c(b"123456789"), "batch": encode_batch(SAMPLE, (4711, 3, 0)).hex(),
            "murmur2": {key: struct.unpack(">i", struct.pack(">I", murmur2(key.encode("utf-8"))))[0] for key in keys},
            "partition10": {key: partition_of(key.encode("utf-8"), 10) for key in keys}}


def main(arguments):
    if arguments == ["--vectors"]:
        print(json.dumps(vectors()))
        return 0
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    host, _, port = arguments[0].rpartition(":")
    try:
        print(json.dumps(run(host.strip("[]"), int(port), arguments[1] if len(arguments) > 1 else "independent")))
        return 0
    except (Broken, Refused, OSError) as error:
        print(json.dumps({"error": "%s: %s" % (type(error).__name__, error)}))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
