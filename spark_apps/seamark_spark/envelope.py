"""Envelopes: how source records become changes of a collection's contents, as pure functions over Arrow tables.

`none` adds every record once. `upsert` keeps one row per key: the last record of a key at a time wins, and each
version replaces the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamark.persist.schema import DIFF, TIME
from seamark_spark.rows import DELETE, OFFSET, ORDINAL


def add_each(events: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Envelope none: every record is there once more from its time on."""
    ones = pa.array(np.ones(events.num_rows, dtype=np.int64))
    return events.select([*columns, TIME]).append_column(DIFF, ones)


def upsert(events: pa.Table, old: pa.Table, columns: Sequence[str], key: Sequence[str]) -> pa.Table:
    """Envelope upsert: the changes that lead from `old` through all `events`.

    `events` has the columns, `_time`, `_ordinal`, `_offset` and `_delete`; `old` has the columns, at most one row
    per key, and holds the rows of these keys that were there before the first event.
    """
    versions = _versions(events, old, columns, key)
    count = versions.num_rows
    follows = ~_differs(versions, key)
    same = follows & ~_differs(versions, [name for name in columns if name not in key])
    deleted = _numpy(versions.column(DELETE))
    initial = _numpy(versions.column(ORDINAL)) < 0
    before = np.empty(count, dtype=bool)
    if count:
        before[0] = False
        before[1:] = ~deleted[:-1]
    before &= follows
    unchanged = before & ~deleted & same
    retract = np.flatnonzero(before & ~unchanged & ~initial)
    insert = np.flatnonzero(~deleted & ~unchanged & ~initial)
    rows = versions.select(list(columns))
    times = versions.column(TIME)
    # A retraction carries the values of the version before it, at the time of the version that replaces it.
    taken = pa.concat_tables([rows.take(pa.array(retract - 1)), rows.take(pa.array(insert))])
    stamps = pa.chunked_array([*times.take(pa.array(retract)).chunks, *times.take(pa.array(insert)).chunks], pa.int64())
    diffs = np.concatenate([np.full(len(retract), -1, dtype=np.int64), np.ones(len(insert), dtype=np.int64)])
    return taken.append_column(TIME, stamps).append_column(DIFF, pa.array(diffs))


def _versions(events: pa.Table, old: pa.Table, columns: Sequence[str], key: Sequence[str]) -> pa.Table:
    """One row per key and time, by key and then time; a row that was there before comes first of its key."""
    rows = events.select([*columns, TIME, ORDINAL, OFFSET, DELETE])
    if old.num_rows:
        past = old.select(list(columns))
        for name, value in ((TIME, -1), (ORDINAL, -1), (OFFSET, 0), (DELETE, False)):
            past = past.append_column(name, pa.repeat(pa.scalar(value, rows.schema.field(name).type), old.num_rows))
        rows = pa.concat_tables([past.cast(rows.schema), rows])
    by = [(name, "ascending") for name in (*key, TIME, ORDINAL, OFFSET)]
    # One contiguous chunk per column: gathering from many small ones costs more than the sort itself.
    rows = rows.combine_chunks()
    rows = rows.take(pc.sort_indices(rows, sort_keys=by))
    last = np.ones(rows.num_rows, dtype=bool)
    if rows.num_rows:
        last[:-1] = _differs(rows, [*key, TIME])[1:]
    return rows if last.all() else rows.filter(pa.array(last))


def _differs(table: pa.Table, names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each row, whether any of the columns differs from the row above; null equals null, NaN equals NaN."""
    result = np.zeros(table.num_rows, dtype=bool)
    if table.num_rows == 0:
        return result
    result[0] = True
    for name in names:
        column = table.column(name)
        above, here = column.slice(0, len(column) - 1), column.slice(1)
        unequal = pc.not_equal(above, here)
        if column.null_count:
            unequal = pc.if_else(pc.is_valid(unequal), unequal, pc.xor(pc.is_null(above), pc.is_null(here)))
        if pa.types.is_floating(column.type):
            both = pc.fill_null(pc.and_(pc.is_nan(above), pc.is_nan(here)), False)
            unequal = pc.and_not(unequal, both)
        result[1:] |= _numpy(unequal)
    return result


def _numpy(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(column.to_numpy())
