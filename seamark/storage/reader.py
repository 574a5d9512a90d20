"""Readers of a collection: they follow the active rendition and switch exactly at the time of a handover.

A reader that has consumed everything before the handover time `t` has accumulated the old rendition at `t - 1`.
At `t` it emits that negated, and the new rendition's contents at `t`: what it has accumulated is then the new one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seamark.errors import Dropped, NotFound, NotReadable, NotYet
from seamark.persist import Changes
from seamark.persist.consolidate import consolidate
from seamark.persist.schema import DIFF
from seamark.persist.shard import at_time
from seamark.storage.evolution import joined

if TYPE_CHECKING:
    import pyarrow as pa

    from seamark.persist import Lease, Schema
    from seamark.storage.collection import Collection
    from seamark.storage.rendition import Rendition

WAIT = 0.1
"""Seconds between two looks at storage while a time is awaited."""


def snapshot(collection: Collection, as_of: int, timeout: float, lease: Lease | None = None) -> pa.Table:
    """The contents at `as_of`, waiting up to `timeout` seconds until they are definite; keeps `lease` alive."""
    deadline = time.monotonic() + timeout
    while True:
        collection.refresh()
        if lease is not None:
            lease.heartbeat()
        if as_of < collection.since:
            raise NotReadable(f"collection {collection.name}", as_of, collection.since)
        if as_of < readable_upper(collection, as_of):
            return _read(collection, as_of)
        if time.monotonic() >= deadline:
            raise NotYet(
                f"collection {collection.name}: asked for time {as_of}, readable up to "
                f"{readable_upper(collection, as_of)} (exclusive); wait for ingestion, or read at an earlier time"
            )
        time.sleep(WAIT)


def _read(collection: Collection, as_of: int) -> pa.Table:
    try:
        return collection.rendition(collection.timeline.active_at(as_of)).snapshot(as_of)
    except (Dropped, NotFound) as gone:
        # Without a hold, what is read may be collected meanwhile; the collection's since then says so.
        collection.refresh()
        if as_of < collection.since:
            raise NotReadable(f"collection {collection.name}", as_of, collection.since) from gone
        raise


def readable_upper(collection: Collection, as_of: int) -> int:
    """The first time not readable by a reader who follows the rendition that is active at `as_of`."""
    timeline = collection.timeline
    active = collection.rendition(timeline.active_at(min(as_of, timeline.upper)))
    return min(timeline.upper, active.upper)


def subscribe(
    collection: Collection,
    as_of: int | None,
    frontier: int | None,
    timeout: float | None,
    poll: float,
    lease_seconds: float,
) -> Iterator[Changes]:
    """See `Collection.subscribe`."""
    collection.refresh()
    if frontier is None:
        start = collection.upper - 1 if as_of is None else as_of
        start = max(start, 0)
    else:
        start = frontier - 1
    lease = collection.lease(max(start, 0), lease_seconds)
    try:
        if frontier is None:
            first = snapshot(collection, start, timeout if timeout is not None else float("inf"), lease)
            yield Changes(start, start + 1, at_time(first, start))
        yield from _follow(collection, start + 1, timeout, poll, lease)
    finally:
        if lease is not None:
            lease.release()


def _follow(
    collection: Collection, frontier: int, timeout: float | None, poll: float, lease: Lease | None
) -> Iterator[Changes]:
    waited = time.monotonic()
    while True:
        collection.refresh()
        if lease is not None:
            lease.heartbeat()
        if frontier <= collection.since and collection.since > 0:
            raise NotReadable(f"collection {collection.name}: changes", frontier, collection.since + 1)
        step = next_changes(collection, frontier)
        if step is not None:
            yield step
            frontier = step.upper
            waited = time.monotonic()
            if lease is not None:
                lease.downgrade(frontier - 1)
            continue
        if timeout is not None and time.monotonic() - waited >= timeout:
            return
        time.sleep(poll)


def next_changes(collection: Collection, frontier: int) -> Changes | None:
    """What comes next for a reader who has consumed everything before `frontier`; None when nothing is there yet."""
    timeline = collection.timeline
    if frontier > timeline.upper:
        return None
    before = max(frontier - 1, timeline.start)
    switch = timeline.next_handover(before)
    old = collection.rendition(timeline.active_at(before))
    if switch is not None and switch[0] == frontier:
        new = collection.rendition(switch[1])
        if new.upper <= frontier:
            return None
        return Changes(frontier, frontier + 1, switch_records(old, new, frontier))
    upper = min(timeline.upper, old.upper) if switch is None else min(switch[0], old.upper)
    if upper <= frontier:
        return None
    return Changes(frontier, upper, old.changes(frontier, upper))


def switch_records(old: Rendition, new: Rendition, at: int) -> pa.Table:
    """`-old@(at-1) + new@at`, as records at `at`, in the columns of both; one that a side lacks is null there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    before, after = old.definition.schema(), new.definition.schema()
    schema = after if before.columns == after.columns else joined(before, after, f"handover at {at}")
    gone = old.snapshot(at - 1)
    negated = gone.set_column(gone.schema.get_field_index(DIFF), gone.schema.field(DIFF), pc.negate(gone.column(DIFF)))
    both = [_in_columns(at_time(side, at), schema) for side in (negated, new.snapshot(at))]
    return consolidate(pa.concat_tables(both), schema)


def _in_columns(records: pa.Table, schema: Schema) -> pa.Table:
    import pyarrow as pa

    want = schema.arrow()
    arrays = [
        records.column(field.name).cast(field.type)
        if field.name in records.column_names
        else pa.nulls(records.num_rows, field.type)
        for field in want
    ]
    return pa.Table.from_arrays(arrays, schema=want)
