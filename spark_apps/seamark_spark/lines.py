"""Bytes to lines: executors read the ranges that a binding names, and prove that they are the bytes that were bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

CHUNK = 8 << 20
"""Bytes per Arrow batch; only a longer line makes a longer batch."""

PIECE = 16 << 20
"""Slices longer than two of these are read by several tasks."""

SCHEMA = pa.schema([("ordinal", pa.int32()), ("offset", pa.int64()), ("line", pa.string()), ("reason", pa.string())])
SPARK_SCHEMA = "ordinal int, offset bigint, line string, reason string"


@dataclass(frozen=True, slots=True)
class Piece:
    """A byte range that begins and ends at a line, with the digest it must have.

    The order of `(ordinal, offset)` is the order of `(time, path, offset)`.
    """

    ordinal: int
    path: str
    start: int
    end: int
    digest: str


def read_pieces(pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
    """The lines of the pieces. What cannot be read becomes a row with a reason: nothing is skipped, and the
    driver sees every refusal at once instead of the first task that failed."""
    for piece in pieces:
        yield from read_piece(piece)


def read_piece(piece: Piece) -> Iterator[pa.RecordBatch]:
    digest = xxhash.xxh3_128()
    try:
        with Path(piece.path).open("rb") as file:
            for offset, block in _blocks(file, piece.start, piece.end):
                digest.update(block)
                yield split_lines(piece.ordinal, offset, block)
    except OSError as error:
        yield changed(piece, f"the file cannot be read: {error.strerror}")
        return
    if digest.hexdigest() != piece.digest:
        yield changed(piece, f"digest {digest.hexdigest()} where {piece.digest} was bound")


def _blocks(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of about CHUNK bytes that end at a newline; the last one ends where the range or the file ends."""
    file.seek(start)
    offset, rest, left = start, b"", end - start
    while left > 0:
        read = file.read(min(CHUNK, left))
        if not read:
            break
        left -= len(read)
        block = rest + read
        cut = len(block) if left == 0 else block.rfind(b"\n") + 1
        if cut:
            yield offset, block[:cut]
        offset, rest = offset + cut, block[cut:]
    if rest:
        yield offset, rest


def split_lines(ordinal: int, offset: int, block: bytes) -> pa.RecordBatch:
    """The lines of a block with their byte offsets, without blank ones."""
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + 1
    if len(ends) == 0 or ends[-1] != len(block):
        ends = np.append(ends, len(block))
    bounds = np.concatenate([[0], ends])
    raw = pa.Array.from_buffers(
        pa.large_binary(), len(ends), [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(block)]
    )
    reasons = pa.nulls(len(ends), pa.string())
    try:
        text = raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        text, reasons = _salvage(raw)
    text = pc.ascii_trim(text.cast(pa.string()), characters=" \t\r\n")
    full = pc.greater(pc.binary_length(text), 0)
    columns = [
        pa.repeat(pa.scalar(ordinal, pa.int32()), len(ends)),
        pa.array(bounds[:-1] + offset, pa.int64()),
        text,
        reasons,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA).filter(full)


def _salvage(raw: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Lines that are not UTF-8 get a reason; only a block that has one comes here, so rows may cost."""
    texts: list[str] = []
    reasons: list[str | None] = []
    for line in raw.to_pylist():
        try:
            texts.append(line.decode())
            reasons.append(None)
        except UnicodeDecodeError as error:
            texts.append(line.decode(errors="replace"))
            reasons.append(f"byte {error.start} of the line is not UTF-8")
    return pa.array(texts, pa.large_string()), pa.array(reasons, pa.string())


CHANGED = "the source changed: "
"""How the reason of a refusal begins when the bytes are not those that were bound."""


def changed(piece: Piece, what: str) -> pa.RecordBatch:
    """One row that says that a piece is not what was bound."""
    reason = f"{CHANGED}bytes {piece.start} to {piece.end}: {what}"
    return pa.RecordBatch.from_pydict(
        {"ordinal": [piece.ordinal], "offset": [piece.start], "line": [""], "reason": [reason]}, schema=SCHEMA
    )


def cut_piece(piece: Piece, size: int = PIECE) -> list[Piece]:
    """The piece as smaller ones with digests of their own, made from bytes that were verified in the same read.

    A piece that is not what was bound stays whole, so that reading it says so.
    """
    whole, cuts = xxhash.xxh3_128(), []
    part, begin, at = xxhash.xxh3_128(), piece.start, piece.start
    try:
        with Path(piece.path).open("rb") as file:
            for offset, block in _blocks(file, piece.start, piece.end):
                whole.update(block)
                part.update(block)
                at = offset + len(block)
                if at - begin >= size:
                    cuts.append(Piece(piece.ordinal, piece.path, begin, at, part.hexdigest()))
                    part, begin = xxhash.xxh3_128(), at
    except OSError:
        return [piece]
    if whole.hexdigest() != piece.digest:
        return [piece]
    if at > begin:
        cuts.append(Piece(piece.ordinal, piece.path, begin, at, part.hexdigest()))
    return cuts


def share_out(pieces: Sequence[Piece], tasks: int) -> list[list[Piece]]:
    """At most `tasks` lists of about equal bytes, longest piece first."""
    shares: list[list[Piece]] = [[] for _ in range(max(1, min(tasks, len(pieces))))]
    loads = [0] * len(shares)
    for piece in sorted(pieces, key=lambda p: (p.start - p.end, p.ordinal, p.start)):
        least = loads.index(min(loads))
        shares[least].append(piece)
        loads[least] += piece.end - piece.start
    return shares
