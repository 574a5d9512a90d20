"""Records as plain tuples, for tests that compare a shard with a list."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from seamark.persist import Column, Schema

SCHEMA = Schema(columns=(Column("id", "string"), Column("n", "int64")), key=("id",))
Record = tuple[str, int, int, int]
"""id, n, time, diff"""


def table(records: Iterable[Record]) -> pa.Table:
    rows = list(records)
    return pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.string()),
            "n": pa.array([row[1] for row in rows], pa.int64()),
            "_time": pa.array([row[2] for row in rows], pa.int64()),
            "_diff": pa.array([row[3] for row in rows], pa.int64()),
        }
    )


def accumulated(records: pa.Table, into: Counter[tuple[str, int]] | None = None) -> dict[tuple[str, int], int]:
    """What the records add up to, without what cancels."""
    total = Counter() if into is None else into
    for row in records.to_pylist():
        total[row["id"], row["n"]] += row["_diff"]
    return present(total)


def present(total: Counter[tuple[str, int]]) -> dict[tuple[str, int], int]:
    return {key: diff for key, diff in total.items() if diff}


def new_location() -> str:
    """The URL of a storage in memory that nobody else has."""
    return f"mem:{uuid.uuid4().hex}"
