"""How one log entry is framed in bytes, so that damage is seen and a newer format is refused.

    offset  bytes  what
    0       4      magic "SMRK"
    4       1      version
    5       3      zero
    8       4      length of the payload
    12      8      seqno
    20      8      xxh3_64 of the payload, seeded with the seqno
    28      4      xxh32 of the 28 bytes before
    32      n      payload
    32 + n  1      end mark

Numbers are little-endian. The first 32 bytes keep this layout in every version: a version is believed only
when the header's own checksum holds, so that a flipped bit never passes for a newer format.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import xxhash

from seamark.errors import Corrupt, NewerFormat, Refused

MAGIC = b"SMRK"
VERSION = 1
HEADER_SIZE = 32
END = b"\xa5"
OVERHEAD = HEADER_SIZE + len(END)
MAX_PAYLOAD = 2**32 - 1

_BODY = struct.Struct("<4sB3xIQQ")
_CHECK = struct.Struct("<I")
_HEADER = struct.Struct("<4sB3sIQQI")

checksum32 = xxhash.xxh32_intdigest
checksum64 = xxhash.xxh3_64_intdigest


class Header(NamedTuple):
    """What a frame says of its payload."""

    length: int
    seqno: int
    check: int


def frame(seqno: int, payload: bytes) -> bytes:
    """One entry as it is stored."""
    if len(payload) > MAX_PAYLOAD:
        raise Refused(f"entry {seqno} has {len(payload)} bytes, a log takes up to {MAX_PAYLOAD}: put it in a blob")
    body = _BODY.pack(MAGIC, VERSION, len(payload), seqno, checksum64(payload, seqno))
    return b"".join((body, _CHECK.pack(checksum32(body)), payload, END))


def header_at(data: bytes | memoryview, offset: int, what: str) -> Header | None:
    """The header at `offset`, or None when those bytes are not a whole header. Newer formats are refused."""
    if len(data) - offset < HEADER_SIZE:
        return None
    magic, version, zero, length, seqno, check, header_check = _HEADER.unpack_from(data, offset)
    if magic != MAGIC or checksum32(data[offset : offset + HEADER_SIZE - 4]) != header_check:
        return None
    if version != VERSION:
        raise NewerFormat(what, version, VERSION)
    if zero != b"\0\0\0":
        return None
    return Header(length, seqno, check)


def holds(header: Header, payload: bytes | memoryview) -> bool:
    """Whether `payload` is what was written under that header."""
    return len(payload) == header.length and bool(checksum64(payload, header.seqno) == header.check)


def unframe(data: bytes, seqno: int, what: str) -> memoryview:
    """The payload of a stored frame that must be entry `seqno` and nothing else."""
    view = memoryview(data)
    header = header_at(view, 0, what)
    if header is None:
        raise Corrupt(f"{what}: the header is damaged; restore it from a copy of the storage")
    payload = view[HEADER_SIZE : HEADER_SIZE + header.length]
    if header.seqno != seqno or len(view) != header.length + OVERHEAD or view[-1:] != END:
        raise Corrupt(
            f"{what}: expected entry {seqno} in {header.length + OVERHEAD} bytes, found entry {header.seqno} "
            f"in {len(view)}; restore it from a copy of the storage"
        )
    if not holds(header, payload):
        raise Corrupt(f"{what}: the payload's checksum does not hold; restore it from a copy of the storage")
    return payload
