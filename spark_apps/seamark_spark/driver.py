"""The recipe of ingestion: bind, read the binding back, compute from it, append shard by shard, move the frontier.

All that decides the output is in storage before it is used: a driver that dies anywhere is replaced by one that
reads the same bindings and computes the same records. Epochs keep a replaced driver from writing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from seamark.errors import Dropped, Fenced, Gap, SeamarkError, StorageUnavailable
from seamark.persist import Location, PartRef
from seamark.persist.collect import sweep_orphans
from seamark.storage import Collection, Slice
from seamark.storage.metadata import ACTIVE, BUILDING, CONDEMNED, STANDBY
from seamark.storage.sources.files import list_spans
from seamark_spark import pipeline
from seamark_spark.faults import translated
from seamark_spark.pipeline import RecordsRefused, SlicesChanged, Written
from seamark_spark.write import Target

CHUNK_BYTES = 512 << 20
"""Source bytes after which a long catch-up commits what it has, so that a restart does not begin again."""

WRITING = (BUILDING, STANDBY, ACTIVE)
"""Roles of a rendition that is still wanted."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a run was asked to do."""

    location: str
    collection: str
    rendition: str
    run_id: str
    reentrance_id: str
    checkpoints: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """One commit, as it is reported."""

    time: int
    """The last time that was written."""
    lines: int
    """Source records read."""
    rows: int
    """Changes written."""
    parts: int
    upper: int
    """The collection's upper after it."""
    seconds: float

    def as_dict(self) -> dict[str, int | float]:
        return asdict(self)


class Retired(Exception):
    """The rendition is no longer wanted; not a failure.

    `lasting` is False when its files are being deleted: whatever is written beside them would stay for ever.
    """

    def __init__(self, message: str, *, lasting: bool) -> None:
        super().__init__(message)
        self.lasting = lasting


class Driver:
    """One writer of one rendition."""

    def __init__(self, session: SparkSession, order: Order, location: Location, collection: Collection) -> None:
        rendition = collection.rendition(order.rendition)
        self.order = order
        self.definition = rendition.definition
        self.shards = list(rendition.shards)
        self.epochs: list[int] = []
        self._session = session
        self._location = location
        self._collection = collection
        self._remap = collection.remap(self.definition)

    @property
    def upper(self) -> int:
        """Every shard is written up to here, as far as this driver knows."""
        return min(shard.upper for shard in self.shards)

    def acquire(self, holder: str) -> None:
        """Take every shard's write lock; an older driver with the same reentrance id is fenced by this.

        Parts that a killed predecessor wrote and never committed can no longer be: they are deleted.
        """
        reason = f"run {self.order.run_id}"
        self.epochs = [shard.acquire(self.order.reentrance_id, holder, reason=reason) for shard in self.shards]
        for shard in self.shards:
            sweep_orphans(self._location, shard)

    def release(self) -> None:
        """Give the locks back; a successor that took them already keeps them."""
        for shard, epoch in zip(self.shards, self.epochs, strict=True):
            with contextlib.suppress(Fenced):
                shard.release(epoch)

    def bind(self, now: int) -> int:
        """Bind what the source has at `now`; returns the time before which bindings can change no more."""
        check_wanted(self._collection, self.order)
        return self._remap.bind(list_spans(self.definition.source.path), now)

    def catch_up(self, target: int) -> Iterator[Progress]:
        """Write every shard up to `target`, in chunks that are each committed when they are yielded."""
        while True:
            started = time.monotonic()
            lower = min(shard.refresh().upper for shard in self.shards)
            if lower >= target:
                return
            slices, upper = chunk(self._remap.slices(lower, target), target)
            written = self._write(slices, upper)
            reached = self._collection.advance()
            yield Progress(
                time=upper - 1,
                lines=written.lines,
                rows=written.rows,
                parts=len(written.stored),
                upper=reached,
                seconds=round(time.monotonic() - started, 3),
            )

    def _write(self, slices: Sequence[Slice], upper: int) -> Written:
        """Compute and append [a shard's upper, `upper`) for each shard. A shard that is ahead gets what it lacks."""
        targets = [Target(shard.id, shard.upper, epoch) for shard, epoch in zip(self.shards, self.epochs, strict=True)]
        written = Written.nothing(len(targets))
        if slices:
            try:
                with translated():
                    written = pipeline.run(
                        self._session,
                        self.definition,
                        slices,
                        targets,
                        url=self.order.location,
                        checkpoints=self.order.checkpoints,
                    )
            except (RecordsRefused, SlicesChanged) as refused:
                self._discard(refused.written.stored)
                raise
        self._append(targets, written, upper)
        return written

    def _append(self, targets: Sequence[Target], written: Written, upper: int) -> None:
        for number, (shard, target) in enumerate(zip(self.shards, targets, strict=True)):
            if target.lower >= upper:
                continue
            try:
                shard.compare_and_append(
                    written.inline[number],
                    target.lower,
                    upper,
                    parts=written.parts[number],
                    epoch=target.epoch,
                )
            except StorageUnavailable:
                # The entry may be there all the same: what it would refer to must stay.
                raise
            except SeamarkError:
                self._discard([part for some in written.parts[number:] for part in some])
                raise

    def _discard(self, parts: Sequence[PartRef]) -> None:
        """Delete parts that no entry refers to, nor ever will."""
        for part in parts:
            self._location.blobs.delete(part.key)


def check_wanted(collection: Collection, order: Order) -> None:
    """Raise `Retired` when nobody needs the rendition any more."""
    try:
        collection.refresh()
        row = collection.timeline.now.get(order.rendition)
    except (Dropped, Gap) as error:
        raise Retired(f"collection {order.collection} is being deleted: nothing to write", lasting=False) from error
    if row is None:
        raise Retired(
            f"collection {order.collection} has no rendition {order.rendition}: nothing to write", lasting=False
        )
    if row.role not in WRITING:
        message = f"rendition {order.rendition} of {order.collection} is {row.role}: nothing to write"
        raise Retired(message, lasting=row.role != CONDEMNED)


def chunk(slices: Sequence[Slice], target: int, limit: int = CHUNK_BYTES) -> tuple[list[Slice], int]:
    """The slices of as many whole times as fit the limit (at least one), and the upper they reach."""
    by_time: dict[int, list[Slice]] = {}
    for one in slices:
        by_time.setdefault(one.time, []).append(one)
    taken: list[Slice] = []
    size = 0
    for moment in sorted(by_time):
        more = sum(one.end - one.start for one in by_time[moment])
        if taken and size + more > limit:
            return taken, moment
        taken += by_time[moment]
        size += more
    return taken, target
