"""Claims about the function that assigns keys to shards: stored data depends on it for ever."""

from __future__ import annotations

import datetime
import struct
from typing import Any

import pytest
import xxhash
from pyspark.sql import functions as fn

from seamark_spark.sharding import bucket, shard_of

pytestmark = pytest.mark.slow

SCHEMA = "s string, b binary, l bigint, i int, t boolean, d date, ts timestamp, f double"
EPOCH = datetime.datetime(1970, 1, 1)
ROWS: list[tuple[Any, ...]] = [
    ("", b"", 0, 0, False, datetime.date(1970, 1, 1), EPOCH, 0.0),
    ("o-1", b"\x00\xff", 1, -1, True, datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 456), 1.5),
    ("Ünïcødé ☃ 🦊", bytes(range(100)), -(1 << 63), 1 << 30, True, datetime.date(1900, 1, 1), EPOCH, -0.0),
    ("x" * 1000, None, (1 << 63) - 1, None, None, None, None, float("inf")),
    (None, None, None, None, None, None, None, None),
]


def as_bytes(row: tuple[Any, ...]) -> list[bytes | None]:
    s, b, l, i, t, d, ts, f = row  # noqa: E741 (named as the columns)
    return [
        None if s is None else s.encode(),
        b,
        None if l is None else struct.pack("<q", l),
        None if i is None else struct.pack("<i", i),
        None if t is None else struct.pack("<i", t),
        None if d is None else struct.pack("<i", (d - EPOCH.date()).days),
        None if ts is None else struct.pack("<q", (ts - EPOCH) // datetime.timedelta(microseconds=1)),
        None if f is None else struct.pack("<d", f + 0.0),
    ]


def test_spark_computes_the_published_hash_for_every_type(spark: Any) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    keys = [["s", "l"], frame.columns, *([name] for name in frame.columns)]
    cases = [(columns, shards) for columns in keys for shards in (1, 2, 7, 1024)]
    found = frame.select(*(bucket(columns, shards, 1).alias(f"c{n}") for n, (columns, shards) in enumerate(cases)))
    for row, shown in zip(ROWS, found.collect(), strict=True):
        for number, (columns, shards) in enumerate(cases):
            key = [as_bytes(row)[frame.columns.index(name)] for name in columns]
            assert shown[number] == shard_of(key, shards), (columns, shards)


def test_the_shards_of_these_keys_never_change(spark: Any) -> None:
    keys = [("o-1", 1), ("o-2", 1), ("o-1", 2), ("", 0), ("Ünïcødé", -5)]
    frame = spark.createDataFrame(keys, "s string, l bigint")
    found = [row[0] for row in frame.select(bucket(["s", "l"], 1000, 1)).collect()]
    assert found == [715, 484, 763, 441, 997]
    assert xxhash.xxh64_intdigest(b"o-1", 42) == 3793849554139455576


def test_slots_divide_a_shard_and_never_mix_two(spark: Any) -> None:
    frame = spark.range(4000).select(fn.col("id").cast("string").alias("k"))
    rows = frame.select(bucket(["k"], 3, 1).alias("shard"), bucket(["k"], 3, 4).alias("bucket")).collect()
    assert all(row.bucket // 4 == row.shard for row in rows)
    counts = [sum(row.bucket == number for row in rows) for number in range(12)]
    assert min(counts) > 200
