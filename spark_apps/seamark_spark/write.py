"""Rows to parts: what a task does with the rows of its shards, and what it tells the driver.

Tasks hold no locks and commit nothing. A part that a task wrote is invisible until the driver names it in an append.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamark.engines import Blob, open_engines
from seamark.persist import Location, Schema, Shard
from seamark.persist.parts import write_part
from seamark.persist.schema import TIME
from seamark.persist.shard import INLINE_WRITE
from seamark_spark.envelope import add_each, upsert
from seamark_spark.rows import BUCKET, LINE, OFFSET, ORDINAL, REASON
from seamark_spark.workers import light

SHOWN = 10
"""Refusals that a task reports."""

SPARK_SCHEMA = (
    "shard int, part binary, inline binary, lines bigint, ordinal int, offset bigint, reason string, line string"
)
SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("part", pa.binary()),
        ("inline", pa.binary()),
        ("lines", pa.int64()),
        ("ordinal", pa.int32()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("line", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Target:
    """One shard as the driver saw it: everything a task needs to compute and store its changes."""

    shard_id: str
    lower: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of one run share."""

    url: str
    checkpoints: str | None
    schema: Schema
    envelope: str
    targets: tuple[Target, ...]
    slots: int
    times: tuple[int, ...]
    """The time of each slice, by ordinal."""


@light
def write_rows(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row per part written and per refusal. A task that refuses a row writes nothing."""
    collected = list(batches)
    if not collected:
        return
    rows = pa.Table.from_batches(collected)
    del collected
    if rows.num_rows == 0:
        return
    if rows.column(REASON).null_count < rows.num_rows:
        yield _refusals(rows)
        return
    for number, mine in by_bucket(rows):
        shard = number // job.slots
        changes = changes_of(job, job.targets[shard], mine)
        yield _row(shard=shard, lines=mine.num_rows, **store(job, job.targets[shard], changes))


def by_bucket(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket, in one pass over the rows however many buckets there are."""
    numbers = rows.column(BUCKET).to_numpy()
    if numbers.min() == numbers.max():
        yield int(numbers[0]), rows
        return
    order = np.argsort(numbers, kind="stable")
    rows, numbers = rows.combine_chunks().take(pa.array(order)), numbers[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(numbers)) + 1, [len(numbers)]])
    for start, end in pairwise(starts):
        yield int(numbers[start]), rows.slice(start, end - start)


def changes_of(job: Job, target: Target, rows: pa.Table) -> pa.Table:
    """The changes that `rows` make to a shard at and after its lower."""
    times = pa.array(np.asarray(job.times, dtype=np.int64)).take(rows.column(ORDINAL).combine_chunks())
    events = rows.append_column(TIME, times)
    if job.times and min(job.times) < target.lower:
        events = events.filter(pc.greater_equal(events.column(TIME), target.lower))
    columns = job.schema.names
    if job.envelope != "upsert":
        return add_each(events, columns)
    return upsert(events, present(job, target, events), columns, job.schema.key)


def store(job: Job, target: Target, changes: pa.Table) -> dict[str, bytes]:
    """What the driver appends: a part that is stored already, or a few rows to carry in the entry itself."""
    if changes.num_rows == 0:
        return {}
    if changes.nbytes <= INLINE_WRITE:
        return {"inline": to_ipc(changes)}
    part = write_part(open_blobs(job.url), target.shard_id, job.schema, changes, epoch=target.epoch)
    return {"part": msgspec.json.encode(part)} if part else {}


def present(job: Job, target: Target, events: pa.Table) -> pa.Table:
    """The rows of these keys just before the first time that may change them."""
    if target.lower == 0 or events.num_rows == 0:
        return job.schema.user_arrow().empty_table()
    shard = open_shard(job.url, job.checkpoints, target.shard_id)
    shard.refresh()
    keys = events.select(list(job.schema.key)).group_by(list(job.schema.key), use_threads=False).aggregate([])
    return shard.lookup(keys, as_of=target.lower - 1)


@lru_cache(maxsize=4)
def open_blobs(url: str) -> Blob:
    """The only thing that a task may write to: parts, under names that nobody else has."""
    return open_engines(url).blobs


@lru_cache(maxsize=4)
def open_location(url: str, checkpoints: str | None) -> Location:
    """For reading only. Workers outlive a tick; so does what they opened."""
    return Location.open(url, checkpoints=checkpoints, read_only=True)


@lru_cache(maxsize=64)
def open_shard(url: str, checkpoints: str | None, shard_id: str) -> Shard:
    """A shard's handle, whose state only needs to be refreshed from the log's end."""
    return open_location(url, checkpoints).open_shard(shard_id)


def to_ipc(table: pa.Table) -> bytes:
    """A few rows as bytes."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def from_ipc(data: bytes) -> pa.Table:
    """The rows that `to_ipc` was given."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _refusals(rows: pa.Table) -> pa.RecordBatch:
    bad = rows.filter(pc.is_valid(rows.column(REASON)))
    bad = bad.sort_by([(ORDINAL, "ascending"), (OFFSET, "ascending")]).slice(0, SHOWN).combine_chunks()
    size = bad.num_rows
    names = {"ordinal": ORDINAL, "offset": OFFSET, "reason": REASON, "line": LINE}
    arrays = [
        bad.column(names[field.name]).cast(field.type).combine_chunks()
        if field.name in names
        else pa.nulls(size, field.type)
        for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _row(**values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: [values.get(name)] for name in SCHEMA.names}, schema=SCHEMA)
