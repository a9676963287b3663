"""An independent reader of the files of a data directory, written from docs/FORMAT.md and the public specification of the
record batch: prints what every fixture holds, as JSON. Uses nothing but the standard library.

    python3 verify.py            reads the fixtures beside this file
    python3 verify.py --make     writes batch-by-hand.bin
"""
import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent


def crc32c(data):
    """Castagnoli, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283, "check value of RFC 3720"


def uvarint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def varint(data, at):
    value, at = uvarint(data, at)
    return (value >> 1) ^ -(value & 1), at


def nullable(data, at):
    length, at = varint(data, at)
    if length < 0:
        return None, at
    return data[at:at + length], at + length


def hexed(data):
    return None if data is None else data.hex()


HEADER = struct.Struct(">qiibIhiqqqhii")
assert HEADER.size == 61


def batch(data, at=0):
    (base, length, epoch, magic, crc, attributes, last_delta, first_ts, max_ts, producer, producer_epoch, sequence,
     count) = HEADER.unpack_from(data, at)
    end = at + 12 + length
    assert magic == 2 and end <= len(data)
    assert crc32c(data[at + 21:end]) == crc, "checksum of the batch"
    assert attributes & 7 == 0, "not compressed"
    records = []
    where = at + 61
    for index in range(count):
        size, where = varint(data, where)
        stop = where + size
        assert data[where] == 0
        ts_delta, where = varint(data, where + 1)
        delta, where = varint(data, where)
        assert delta == index
        key, where = nullable(data, where)
        value, where = nullable(data, where)
        headers = []
        header_count, where = varint(data, where)
        for _ in range(header_count):
            name, where = nullable(data, where)
            content, where = nullable(data, where)
            headers.append([name.decode(), hexed(content)])
        assert where == stop
        records.append([base + delta, first_ts + ts_delta, hexed(key), hexed(value), headers])
    assert where == end and last_delta == count - 1
    return end, {"baseOffset": base, "leaderEpoch": epoch, "crc": crc, "attributes": attributes, "baseTimestamp": first_ts,
                 "maxTimestamp": max_ts, "producerId": producer, "producerEpoch": producer_epoch, "baseSequence": sequence,
                 "recordCount": count, "records": records}


def one_batch(data):
    end, value = batch(data)
    assert end == len(data)
    return value


def segment(data):
    at, batches = 0, []
    while at < len(data) and any(data[at:at + 61]):
        at, value = batch(data, at)
        batches.append(value)
    assert not any(data[at:])
    return {"size": at, "batches": batches}


def sealed(data):
    (crc,) = struct.unpack(">I", data[-4:])
    assert crc32c(data[:-4]) == crc, "checksum at the end"
    return data[:-4]


def epochs(data, at):
    (count,) = struct.unpack_from(">I", data, at)
    at += 4
    return [list(struct.unpack_from(">iq", data, at + 12 * index)) for index in range(count)], at + 12 * count


SUMMARY = struct.Struct(">qIqqii")


def summary(data, at):
    names = ["recordCount", "batchCount", "firstTimestamp", "maxTimestamp", "firstEpoch", "lastEpoch"]
    return dict(zip(names, SUMMARY.unpack_from(data, at))), at + SUMMARY.size


def seal(data):
    body = sealed(data)
    magic, version, flags, base, following, size, crc = struct.unpack_from(">4sHHqqII", body)
    assert magic == b"RVSL" and version == 1
    facts, at = summary(body, 32)
    (rolled,) = struct.unpack_from(">q", body, at)
    entries, at = epochs(body, at + 8)
    assert at == len(body)
    return {"flags": flags, "baseOffset": base, "nextOffset": following, "size": size, "crc": crc, "rolledMs": rolled,
            "epochs": entries, **facts}


def slots(data, read):
    assert len(data) == 8192
    return [read(sealed(data[:4096])), read(sealed(data[4096:]))]


def checkpoint(body):
    magic, version, flags, sequence, point, base, position, start, watermark = struct.unpack_from(">4sHHqqqIqq", body)
    assert magic == b"RVCP" and version == 1
    facts, at = summary(body, 52)
    crc, known = struct.unpack_from(">IB", body, at)
    entries, at = epochs(body, at + 5)
    assert not any(body[at:])
    return {"flags": flags, "sequence": sequence, "recoveryPoint": point, "segmentBase": base, "segmentPosition": position,
            "logStart": start, "highWatermark": watermark, "crc": crc, "crcKnown": known, "epochs": entries, **facts}


def sync_mark(body):
    magic, version, flags, sequence, base, synced, position = struct.unpack_from(">4sHHqqqI", body)
    assert magic == b"RVSM" and version == 1 and flags == 0 and not any(body[44:])
    return {"sequence": sequence, "segmentBase": base, "syncedOffset": synced, "syncedPosition": position}


def superblock(body):
    magic, version, flags, sequence, term, vote, incarnation, size = struct.unpack_from(">4sHHqqiqH", body)
    assert magic == b"RVSB" and version == 1
    assert not any(body[38 + size:])
    return {"flags": flags, "sequence": sequence, "term": term, "vote": vote, "incarnation": incarnation,
            "bootId": body[38:38 + size].decode()}


def owner_snapshot(data):
    magic, crc = struct.unpack_from(">4sI", data)
    assert magic == b"RVOS" and crc32c(data[8:]) == crc
    return {"content": data[8:].hex()}


def metadata_snapshot(data):
    magic, version, crc = struct.unpack_from(">4sBI", data)
    assert magic == b"RVMS" and version == 1 and crc32c(data[9:]) == crc
    index, count = struct.unpack_from(">qI", data, 9)
    at, rows = 21, {}
    for _ in range(count):
        (size,) = struct.unpack_from(">H", data, at)
        key = data[at + 2:at + 2 + size].decode()
        at += 2 + size
        (size,) = struct.unpack_from(">I", data, at)
        rows[key] = data[at + 4:at + 4 + size].hex()
        at += 4 + size
    assert at == len(data)
    return {"index": index, "rows": rows}


def store_file(data):
    value = json.loads(data)
    claimed = value.pop("crc32c")
    assert "%08x" % crc32c(json.dumps(value, separators=(",", ":")).encode()) == claimed
    return value


def entries(layout):
    form = struct.Struct(layout)
    return lambda data: [list(entry) for entry in form.iter_unpack(data)]


READERS = {
    "batch-by-hand.bin": one_batch, "batch-two-records.bin": one_batch, "batch-least.bin": one_batch,
    "batch-epoch-start.bin": one_batch, "segment.bin": segment, "seal.bin": seal,
    "sync-marks.bin": lambda data: [sync_mark(sealed(slot)) for slot in (data[:4096], data[4096:]) if any(slot)],
    "checkpoint.bin": lambda data: slots(data, checkpoint), "superblock.bin": lambda data: slots(data, superblock),
    "owner-snapshot.bin": owner_snapshot, "metadata-snapshot.bin": metadata_snapshot, "store-json.bin": store_file,
    "index.bin": entries(">II"), "timeindex.bin": entries(">qI"),
}


def by_hand():
    """Offset 1000, epoch 7, producer 1 of epoch 0 at sequence 3: a key "a" with no value, and two bytes of value with a header."""
    first = bytes([0x10, 0x00, 0x00, 0x00, 0x02, 0x61, 0x01, 0x00])
    first = bytes([(len(first) - 1) * 2]) + first[1:]
    second = bytes([0x00, 0xC8, 0x01, 0x02, 0x01, 0x04, 0xDE, 0xAD, 0x02, 0x02, 0x68, 0x02, 0x76])
    second = bytes([len(second) * 2]) + second
    covered = struct.pack(">hiqqqhii", 0, 1, 1600000000000, 1600000000100, 1, 0, 3, 2) + first + second
    return struct.pack(">qiibI", 1000, 9 + len(covered), 7, 2, crc32c(covered)) + covered


if "--make" in sys.argv:
    (HERE / "batch-by-hand.bin").write_bytes(by_hand())
else:
    print(json.dumps({name: read((HERE / name).read_bytes()) for name, read in READERS.items()}))
