"""A small collection for tests: two shards, two definitions that differ in one expression, rows as tuples."""

from __future__ import annotations

import copy
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from seamark.persist import Location
from seamark.storage import Collection, Definition, parse_definition

SPEC: dict[str, Any] = {
    "source": {
        "files": {"path": "/data/orders", "format": "jsonl"},
        "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "float64"}],
    },
    "columns": [
        {"name": "id", "type": "string"},
        {"name": "cents", "type": "int64", "expression": "amount"},
    ],
    "key": ["id"],
    "envelope": "upsert",
    "shards": 2,
}
Row = tuple[str, int, int, int]
"""id, cents, time, diff"""
Contents = dict[tuple[Any, ...], int]


def spec(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SPEC), **changes}


def definition(number: int = 1, **changes: Any) -> Definition:
    """The definition of the collection's `number`-th rendition."""
    asked = spec(**changes)
    if "columns" not in changes:
        asked["columns"][1]["expression"] = f"amount * {number}"
    return parse_definition(asked)


def new_url() -> str:
    return f"mem:{uuid.uuid4().hex}"


def made(url: str, name: str = "orders", owner: str = "shop/orders/1") -> Collection:
    return Collection.create(Location.open(url), name, definition(), owner=owner)


def opened(url: str, name: str = "orders", *, read_only: bool = False) -> Collection:
    return Collection.open(Location.open(url, read_only=read_only), name)


def table(rows: Iterable[Row]) -> pa.Table:
    found = list(rows)
    return pa.table(
        {
            "id": pa.array([row[0] for row in found], pa.string()),
            "cents": pa.array([row[1] for row in found], pa.int64()),
            "_time": pa.array([row[2] for row in found], pa.int64()),
            "_diff": pa.array([row[3] for row in found], pa.int64()),
        }
    )


def write(collection: Collection, rendition: str, rows: Iterable[Row], upper: int) -> None:
    """What an ingestion does: every shard of the rendition is appended to, up to `upper`."""
    found = list(rows)
    shards = collection.rendition(rendition).shards
    for index, shard in enumerate(shards):
        lower = shard.refresh().upper
        mine = [row for row in found if zlib.crc32(row[0].encode()) % len(shards) == index]
        if lower < upper:
            shard.compare_and_append(table(mine), lower, upper)


def add(total: Counter[tuple[Any, ...]], records: pa.Table, columns: tuple[str, ...] = ("id", "cents")) -> None:
    for row in records.to_pylist():
        total[tuple(row.get(name) for name in columns)] += row["_diff"]


def present(total: Counter[tuple[Any, ...]]) -> Contents:
    return {row: diff for row, diff in total.items() if diff}


def contents(records: pa.Table, columns: tuple[str, ...] = ("id", "cents")) -> Contents:
    total: Counter[tuple[Any, ...]] = Counter()
    add(total, records, columns)
    return present(total)


def objects(place: Location) -> list[str]:
    """Everything that storage has, as names."""
    return [info.key for info in place.blobs.list()] + [f"log {name}" for name in place.logs.names()]
