"""The bytes of a log entry: a format number, a checksum, then who wrote it and what it does.

    ┌────────┬─────────────┬──────────────────────────────────────────────────┐
    │ format │ xxh3_64     │ MessagePack: session, token, wall, command        │
    │ 1 byte │ 8 bytes, BE │                                                   │
    └────────┴─────────────┴──────────────────────────────────────────────────┘

The format number comes first and is checked first, so that an entry of a newer Seamark is refused with that
reason and not as damage. Session and token make every entry's bytes unique to its writer and attempt.
"""

from __future__ import annotations

import msgspec
import xxhash

from seamark.errors import Corrupt, NewerFormat
from seamark.persist.commands import AnyCommand

FORMAT = 1


class Entry(msgspec.Struct, frozen=True, array_like=True):
    session: str
    token: int
    wall: int
    """Writer's clock in milliseconds, for people; nothing is decided by it."""
    epoch: int
    """Epoch in force when the entry was written."""
    schema_version: int
    command: AnyCommand


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    body = _encoder.encode(entry)
    return bytes([FORMAT]) + xxhash.xxh3_64_digest(body) + body


def checksum(payload: bytes | memoryview) -> bytes:
    """The checksum inside an entry's bytes. No two entries of any log share it: it covers session and token."""
    return bytes(payload[1:9])


def decode(payload: bytes, what: str) -> Entry:
    """The entry, or `NewerFormat`, or `Corrupt`; `what` names it for people."""
    if not payload:
        raise Corrupt(f"{what} is empty; restore it from a copy of the storage")
    if payload[0] > FORMAT:
        raise NewerFormat(what, payload[0], FORMAT)
    body = payload[9:]
    if payload[0] != FORMAT or xxhash.xxh3_64_digest(body) != payload[1:9]:
        raise Corrupt(f"{what} does not match its checksum; restore it from a copy of the storage")
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{what} cannot be decoded though its checksum holds: {error}") from error
