"""Rows a second from JSON lines to a readable collection, beside the same Spark writing the same rows as Parquet."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import seamark
from benchmarks.harness import Report, Settings, Turn, alone, beside, interleave
from seamark.storage import Collection, parse_definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark_spark.driver import Driver

SEED = 20
FIELDS = {"order_id": "string", "customer": "int64", "cents": "int64", "status": "string", "placed": "string"}
AMOUNT = "cents / 100.0"
STATES = ("paid", "sent", "open", "returned")
FILES = 4
SMALL = 100
"""Records of the file that arrives after the first commit."""


def measure(settings: Settings) -> Report:
    from seamark_spark.session import open_session

    rows, rounds = (1_000_000, 5) if settings.full else (100_000, 3)
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as folder:
        root = Path(folder)
        source = write_source(root / "orders", rows)
        session = open_session("seamark benchmark")
        small: list[float] = []
        try:
            turns: dict[str, Turn] = {
                "plain": lambda: rows / plain(session, source, root),
                "none": lambda: rows / ingest(session, source, root, "none", rows, []),
                "upsert": lambda: rows / ingest(session, source, root, "upsert", rows, small),
            }
            for warming in ("plain", "upsert"):
                turns[warming]()
            small.clear()
            taken = interleave(rounds, turns)
        finally:
            session.stop()
    figures = (
        alone("ingest", "plain Spark, JSON to Parquet (the reference)", "rows/s", taken["plain"]),
        beside("ingest", "envelope none", "rows/s", taken["none"], taken["plain"]),
        beside("ingest", "envelope upsert", "rows/s", taken["upsert"], taken["plain"]),
        alone("ingest", f"upsert of {SMALL} more records, bind to commit", "s", small),
    )
    note = (
        f"{rows:,} rows of JSON lines in {FILES} files, 2 shards on disk, {rounds} rounds after one to warm up, one "
        f"Spark session, seed {SEED}. Ingest does more than the reference: it digests the source twice, refuses bad "
        "records, places rows by key, sorts, checksums and syncs."
    )
    return Report(figures, (note,))


def write_source(folder: Path, rows: int) -> Path:
    """Files of JSON lines with every order once."""
    folder.mkdir()
    chance = random.Random(SEED)
    for number in range(FILES):
        with (folder / f"orders-{number:03d}.jsonl").open("w") as file:
            file.writelines(line(order, chance) for order in range(number, rows, FILES))
    return folder


def line(order: int, chance: random.Random) -> str:
    record = {
        "order_id": f"order-{order:09d}",
        "customer": chance.randrange(10_000),
        "cents": chance.randrange(1, 100_000),
        "status": chance.choice(STATES),
        "placed": f"2024-{1 + order % 12:02d}-{1 + order % 28:02d}T12:00:00Z",
    }
    return json.dumps(record) + "\n"


def plain(session: SparkSession, source: Path, root: Path) -> float:
    """Seconds in which Spark alone reads the lines, computes the columns and writes Parquet."""
    with own_folder(root) as into:
        begun = time.perf_counter()
        schema = ", ".join(f"{name} {'bigint' if kind == 'int64' else kind}" for name, kind in FIELDS.items())
        rows = session.read.schema(schema).json(str(source))
        columns = [f"{AMOUNT} AS amount" if name == "cents" else name for name in FIELDS]
        rows.selectExpr(*columns).write.option("compression", "zstd").parquet(str(into / "parquet"))
        return time.perf_counter() - begun


def ingest(session: SparkSession, source: Path, root: Path, envelope: str, rows: int, small: list[float]) -> float:
    """Seconds from the look at the source to rows that can be read; `small` gets those of one more small file."""
    with own_folder(root) as into:
        shutil.copytree(source, into / "source")
        with seamark.open(f"disk:{into / 'location'}") as location:
            definition = parse_definition(
                {
                    "source": {
                        "files": {"path": str(into / "source"), "format": "jsonl"},
                        "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
                    },
                    "columns": [
                        {"name": "amount", "type": "float64", "expression": AMOUNT}
                        if name == "cents"
                        else {"name": name, "type": kind}
                        for name, kind in FIELDS.items()
                    ],
                    "key": ["order_id"],
                    "envelope": envelope,
                    "shards": 2,
                }
            )
            collection = Collection.create(location, "orders", definition, owner="benchmark")
            driver = open_driver(session, location, collection)
            took = catch_up(driver)
            collection.refresh()
            found = collection.snapshot(collection.upper - 1).num_rows
            assert found == rows, f"{found} rows where {rows} were written"
            (into / "source" / "later.jsonl").write_text(
                "".join(line(n, random.Random(SEED + 1)) for n in range(SMALL))
            )
            small.append(catch_up(driver))
            driver.release()
            return took


def open_driver(session: SparkSession, location: seamark.Location, collection: Collection) -> Driver:
    from seamark_spark.driver import Driver, Order

    order = Order(
        location=location.url, collection="orders", rendition="r1", run_id="benchmark", reentrance_id="benchmark"
    )
    driver = Driver(session, order, location, collection)
    driver.acquire("benchmark")
    return driver


def catch_up(driver: Driver) -> float:
    begun = time.perf_counter()
    for _ in driver.catch_up(driver.bind(time.time_ns() // 1_000_000)):
        pass
    return time.perf_counter() - begun


@contextmanager
def own_folder(root: Path) -> Iterator[Path]:
    """A folder with a name that no turn had before: Spark's workers remember the locations they have opened."""
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
