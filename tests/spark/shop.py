"""A small shop whose orders arrive as JSON lines, and an independent computation of what it must contain."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from seamark.persist import Location
from seamark.storage import Collection, parse_definition
from seamark_spark.driver import Driver, Order, Progress

START = 1_700_000_000_000

Rows = Counter[tuple[Any, ...]]


def spec(folder: Path, **changes: Any) -> dict[str, Any]:
    """Orders, upserted by id, with amounts in cents."""
    return {
        "source": {
            "files": {"path": str(folder), "format": "jsonl"},
            "fields": [
                {"name": "order_id", "type": "string"},
                {"name": "amount", "type": "float64"},
                {"name": "status", "type": "string"},
                {"name": "note", "type": "string"},
            ],
        },
        "columns": [
            {"name": "order_id", "type": "string"},
            {"name": "cents", "type": "int64", "expression": "cast(round(amount * 100) as bigint)"},
            {"name": "status", "type": "string"},
            {"name": "note", "type": "string"},
        ],
        "key": ["order_id"],
        "envelope": "upsert",
        "deleteWhen": "status = 'deleted'",
        "shards": 2,
        **changes,
    }


@dataclass
class Shop:
    """A collection on disk, its source folder, and a journal of what went into the source at which tick."""

    root: Path
    changes: dict[str, Any] = field(default_factory=dict)
    journal: list[tuple[int, str]] = field(default_factory=list)
    tick: int = 0

    def __post_init__(self) -> None:
        self.source.mkdir(parents=True)
        self.location = Location.open(self.url)
        self.collection = Collection.create(
            self.location, "orders", parse_definition(spec(self.source, **self.changes)), owner="me"
        )

    @property
    def source(self) -> Path:
        return self.root / "source"

    @property
    def url(self) -> str:
        return f"disk:{self.root / 'lake'}"

    def time_of(self, tick: int) -> int:
        return START + 1000 * tick

    def arrive(self, file: str, *records: dict[str, Any]) -> None:
        """Records at the end of a file, taken at the next tick."""
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        with (self.source / file).open("a", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in lines)
        self.journal += [(self.tick + 1, line) for line in lines]

    def driver(self, spark: Any, rendition: str = "r1", reentrance_id: str = "me/orders") -> Driver:
        order = Order(self.url, "orders", rendition, "run", f"{reentrance_id}/{rendition}")
        driver = Driver(spark, order, self.location, Collection.open(self.location, "orders"))
        driver.acquire("test")
        return driver

    def ingest(self, driver: Driver) -> list[Progress]:
        """One tick at its own time."""
        self.tick += 1
        return list(driver.catch_up(driver.bind(self.time_of(self.tick))))

    def contents(self, tick: int) -> Rows:
        self.collection.refresh()
        return rows(self.collection.snapshot(self.time_of(tick)))

    def expected(self, tick: int) -> Rows:
        """What the raw lines say, computed by duckdb: the last record of each order, unless it deletes."""
        return expected([line for moment, line in self.journal if moment <= tick])

    def parts(self) -> list[str]:
        return [info.key for info in self.location.blobs.list("parts/")]


def rows(table: Any) -> Rows:
    """A snapshot as a multiset."""
    total: Rows = Counter()
    for row in table.to_pylist():
        diff = row.pop("_diff")
        total[tuple(row.values())] += diff
    return total


def expected(lines: list[str], factor: int = 100) -> Rows:
    """The shop's contents after these lines, by an engine that shares no code with the pipeline."""
    with duckdb.connect() as base:
        base.execute("create table journal (seq bigint, line json)")
        if lines:
            base.executemany("insert into journal values (?, ?)", list(enumerate(lines)))
        found = base.execute(
            f"""
            select line->>'order_id', cast(round(cast(line->>'amount' as double) * {factor}) as bigint),
                   line->>'status', line->>'note'
            from journal
            qualify row_number() over (partition by line->>'order_id' order by seq desc) = 1
                and coalesce(line->>'status', '') <> 'deleted'
            """
        ).fetchall()
    return Counter(found)


NOTES = ["", "Grüße", "日本語", "🦊 'quoted' \"twice\"", "a\\b\ttab", "line\nbreak", None]


def some_orders(chance: random.Random, count: int, keys: int) -> list[dict[str, Any]]:
    """Random orders with repeated keys, deletes, nulls, absent fields and text of all kinds."""
    made: list[dict[str, Any]] = []
    for _ in range(count):
        order: dict[str, Any] = {
            "order_id": f"o-{chance.randrange(keys)}",
            "amount": chance.choice([None, chance.randrange(100_000) / 100]),
            "status": chance.choice(["new", "paid", None, "deleted"]),
        }
        if chance.random() < 0.7:
            order["note"] = chance.choice(
                ["", "Grüße", "日本語", "🦊 'quoted' \"twice\"", "a\\b\ttab", "line\nbreak", None]
            )
        made.append(order)
    return made
