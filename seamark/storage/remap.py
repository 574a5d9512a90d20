"""Reclocking: which bytes of the source belong to which time, recorded before anything is computed from them.

The remap shard holds *slices*: byte ranges of files, each at the time it became part of the collection. It is
written by compare-and-append, so of two ingestions one wins; both then read back what won and agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seamark.errors import NotFound, SourceChanged, UpperMismatch
from seamark.persist import Column, Location, Schema, Shard
from seamark.persist.schema import DIFF, TIME
from seamark.storage.sources.files import FileSpan, digest, whole_lines

SCHEMA = Schema(
    columns=(
        Column("path", "string"),
        Column("start", "int64"),
        Column("end", "int64"),
        Column("digest", "string"),
    ),
    key=("path", "start"),
)


@dataclass(frozen=True)
class Slice:
    """Bytes `[start, end)` of a file: whole lines that entered the collection at `time`."""

    path: str
    start: int
    end: int
    digest: str
    time: int


class Remap:
    """The bindings of one source."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._covered: dict[str, int] = {}
        self._read_to = 0

    @classmethod
    def open(cls, location: Location, shard_id: str, *, owner: str) -> Remap:
        if location.read_only:
            return cls(location.open_shard(shard_id))
        return cls(location.create_shard(shard_id, SCHEMA, owner=owner))

    @property
    def upper(self) -> int:
        return self._shard.refresh().upper

    def bind(self, listing: Sequence[FileSpan], now: int) -> int:
        """Bind what is new in the listing to a time near `now`; returns the upper after it.

        Losing a race is no failure: the winner's bindings are as good as ours, and the next call covers the rest.
        """
        import pyarrow as pa

        self._catch_up()
        found = [part for span in listing if (part := self._new_slice(span)) is not None]
        lower = self._shard.upper
        time = max(now, lower)
        records = None
        if found:
            records = pa.table(
                {
                    "path": pa.array([item[0] for item in found], pa.string()),
                    "start": pa.array([item[1] for item in found], pa.int64()),
                    "end": pa.array([item[2] for item in found], pa.int64()),
                    "digest": pa.array([item[3] for item in found], pa.string()),
                    TIME: pa.array([time] * len(found), pa.int64()),
                    DIFF: pa.array([1] * len(found), pa.int64()),
                }
            )
        try:
            self._shard.compare_and_append(records, lower, time + 1)
        except UpperMismatch:
            self._shard.refresh()
        return self._shard.upper

    def slices(self, lower: int, upper: int) -> list[Slice]:
        """What was bound to the times `[lower, upper)`, read back, in the order of time, path and offset."""
        table = self._shard.changes(lower, upper)
        found = [
            Slice(item["path"], item["start"], item["end"], item["digest"], item[TIME]) for item in table.to_pylist()
        ]
        return sorted(found, key=lambda piece: (piece.time, piece.path, piece.start))

    def _catch_up(self) -> None:
        upper = self._shard.refresh().upper
        if upper > self._read_to:
            for piece in self.slices(self._read_to, upper):
                self._covered[piece.path] = max(self._covered.get(piece.path, 0), piece.end)
            self._read_to = upper

    def _new_slice(self, span: FileSpan) -> tuple[str, int, int, str] | None:
        start = self._covered.get(span.path, 0)
        if span.size < start:
            raise SourceChanged(
                f"source file {span.path} has {span.size} bytes, but {start} were taken before; files may only grow: "
                "restore the file, or give the new contents a new name"
            )
        try:
            end = whole_lines(span.path, start, span.size)
            return (span.path, start, end, digest(span.path, start, end)) if end > start else None
        except FileNotFoundError as error:
            raise NotFound(f"source file {span.path} vanished while it was read; try again") from error
