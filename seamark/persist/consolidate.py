"""Sums of diffs: the one operation that gives records their meaning, vectorised over Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamark.persist.schema import DIFF, TIME, Schema

if TYPE_CHECKING:
    import pyarrow as pa


def consolidate(records: pa.Table, schema: Schema) -> pa.Table:
    """Equal rows at equal times become one record; records that cancel vanish. In canonical order."""
    return _sum(records, [*schema.names, TIME], schema.arrow())


def contents(records: pa.Table, schema: Schema) -> pa.Table:
    """What the records accumulate to, whatever their times: user columns and diff, in canonical order."""
    import pyarrow as pa

    want = pa.schema([*schema.user_arrow(), pa.field(DIFF, pa.int64(), False)])
    return _sum(records, schema.names, want)


def _sum(records: pa.Table, by: Sequence[str], want: pa.Schema) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if records.num_rows > 1:
        grouped = records.group_by(list(by), use_threads=False).aggregate([(DIFF, "sum")])
        grouped = grouped.rename_columns([DIFF if name == f"{DIFF}_sum" else name for name in grouped.column_names])
    else:
        grouped = records
    if grouped.num_rows:
        grouped = grouped.filter(pc.not_equal(grouped.column(DIFF), 0))
    if grouped.num_rows > 1:
        grouped = grouped.sort_by([(name, "ascending") for name in by])
    return pa.Table.from_arrays([grouped.column(name).cast(want.field(name).type) for name in want.names], schema=want)
