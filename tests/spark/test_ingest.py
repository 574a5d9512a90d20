"""Claims about ingestion, each checked against an independent computation over the raw lines."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from seamark.errors import Fenced, SourceChanged
from seamark.storage import parse_definition
from seamark_spark import lines, pipeline
from tests.spark.shop import Shop, expected, rows, some_orders, spec

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_every_time_reads_as_the_raw_lines_say(shop: Shop, spark: Any) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    driver = shop.driver(spark)
    for _ in range(4):
        for file in sorted(chance.sample(["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"], 2)):
            shop.arrive(file, *some_orders(chance, 60, 40))
        (progress,) = shop.ingest(driver)
        assert progress.lines == 120
    for tick in range(1, 5):
        assert shop.contents(tick) == shop.expected(tick), f"tick {tick}"
    assert shop.contents(1) != shop.contents(4)


def test_only_whole_lines_of_a_growing_file_are_taken(shop: Shop, spark: Any) -> None:
    driver = shop.driver(spark)
    (shop.source / "empty.jsonl").touch()
    shop.arrive("a.jsonl", {"order_id": "1", "amount": 1.0, "status": "new"})
    with (shop.source / "a.jsonl").open("a") as out:
        out.write('\n   \n{"order_id": "2", "amount": 2')
    shop.ingest(driver)
    assert shop.contents(1) == shop.expected(1)
    with (shop.source / "a.jsonl").open("a") as out:
        out.write('.5, "status": "ünïcode"}\n')
    shop.journal.append((2, '{"order_id": "2", "amount": 2.5, "status": "ünïcode"}'))
    shop.ingest(driver)
    assert shop.contents(2) == shop.expected(2)
    assert shop.contents(1) == shop.expected(1)


def test_a_tick_without_new_lines_moves_time_and_starts_no_job(shop: Shop, spark: Any) -> None:
    driver = shop.driver(spark)
    shop.arrive("a.jsonl", {"order_id": "1", "amount": 1.0, "status": "new"})
    shop.ingest(driver)
    # A session that must not be used: any attempt to run a job through it fails.
    driver._session = None  # type: ignore[assignment]
    (progress,) = shop.ingest(driver)
    assert (progress.lines, progress.rows, progress.parts) == (0, 0, 0)
    assert progress.upper == shop.time_of(2) + 1
    assert shop.contents(2) == shop.expected(1)


def test_times_that_were_bound_long_ago_are_replayed_as_they_were(shop: Shop, spark: Any) -> None:
    chance = random.Random(7)
    driver = shop.driver(spark)
    for _ in range(3):
        shop.arrive("a.jsonl", *some_orders(chance, 30, 10))
        shop.tick += 1
        driver.bind(shop.time_of(shop.tick))
    (progress,) = driver.catch_up(shop.time_of(3) + 1)
    assert progress.lines == 90
    for tick in (1, 2, 3):
        assert shop.contents(tick) == shop.expected(tick)


def test_many_parts_per_shard_and_cut_files_give_the_same_contents(
    shop: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "TASK_BYTES", 50_000)
    monkeypatch.setattr(lines, "PIECE", 10_000)
    monkeypatch.setattr(lines, "CHUNK", 5_000)
    driver = shop.driver(spark)
    chance = random.Random(11)
    for _ in range(2):
        shop.arrive("a.jsonl", *some_orders(chance, 3000, 9000))
        shop.ingest(driver)
    (shard, _) = driver.shards
    assert max(len(batch.parts) for batch in shard.state.batches) > 1
    for tick in (1, 2):
        assert shop.contents(tick) == shop.expected(tick)


def test_envelope_none_counts_every_record(tmp_path: Path, spark: Any) -> None:
    shop = Shop(tmp_path, {"envelope": "none", "deleteWhen": None, "key": []})
    driver = shop.driver(spark)
    order = {"order_id": "1", "amount": 1.0, "status": None, "note": "x"}
    shop.arrive("a.jsonl", order, order, {**order, "note": None})
    shop.ingest(driver)
    shop.arrive("b.jsonl", order)
    shop.ingest(driver)
    assert shop.contents(1) == Counter({("1", 100, None, "x"): 2, ("1", 100, None, None): 1})
    assert shop.contents(2) == Counter({("1", 100, None, "x"): 3, ("1", 100, None, None): 1})


def test_every_column_type_survives_the_way(tmp_path: Path, spark: Any) -> None:
    types = ["bool", "int32", "int64", "float64", "string", "binary", "date", "timestamp"]
    fields = [{"name": f"f_{kind}", "type": kind} for kind in types]
    source = {"files": {"path": str(tmp_path / "source"), "format": "jsonl"}, "fields": fields}
    shop = Shop(tmp_path, {"source": source, "columns": fields, "key": ["f_int64", "f_date"], "deleteWhen": "f_bool"})
    driver = shop.driver(spark)
    record = {
        "f_bool": False, "f_int32": -(1 << 31), "f_int64": (1 << 63) - 1, "f_float64": 0.1, "f_string": "é",
        "f_binary": "AP8=", "f_date": "2024-02-29", "f_timestamp": "2024-02-29T12:00:00.000001+02:00",
    }  # fmt: skip
    other = {**dict.fromkeys(record), "f_int64": 5, "f_date": "1969-12-31"}
    shop.arrive("a.jsonl", record, other)
    shop.ingest(driver)
    shop.arrive("a.jsonl", {**record, "f_bool": True})
    shop.ingest(driver)
    shop.collection.refresh()
    first = {row["f_int64"]: row for row in shop.collection.snapshot(shop.time_of(1)).to_pylist()}
    found = first[(1 << 63) - 1]
    assert (found["f_int32"], found["f_float64"], found["f_string"], found["f_binary"]) == (
        -(1 << 31),
        0.1,
        "é",
        b"\0\xff",
    )
    assert found["f_date"].isoformat() == "2024-02-29"
    assert found["f_timestamp"].isoformat() == "2024-02-29T10:00:00.000001+00:00"
    assert {name for name, value in first[5].items() if value is None} == {f"f_{t}" for t in types} - {
        "f_int64",
        "f_date",
    }
    assert [row["f_int64"] for row in shop.collection.snapshot(shop.time_of(2)).to_pylist()] == [5]


def test_a_second_rendition_replays_the_same_times_with_the_new_definition(shop: Shop, spark: Any) -> None:
    chance = random.Random(3)
    driver = shop.driver(spark)
    for _ in range(2):
        shop.arrive("a.jsonl", *some_orders(chance, 50, 30))
        shop.ingest(driver)
    columns = spec(shop.source)["columns"]
    columns[1] = {"name": "cents", "type": "int64", "expression": "cast(round(amount * 1000) as bigint)"}
    shop.collection.add_rendition("r2", parse_definition(spec(shop.source, columns=columns, shards=3)))
    second = shop.driver(spark, "r2")
    shop.ingest(second)
    rendition = shop.collection.rendition("r2")
    rendition.refresh()
    for tick in (1, 2):
        raw = [line for moment, line in shop.journal if moment <= tick]
        assert rows(rendition.snapshot(shop.time_of(tick))) == expected(raw, factor=1000)
        assert shop.contents(tick) == expected(raw)


def test_a_replaced_driver_is_fenced_and_leaves_nothing_behind(shop: Shop, spark: Any) -> None:
    shop.arrive("a.jsonl", *some_orders(random.Random(1), 4000, 4000))
    first = shop.driver(spark)
    target = first.bind(shop.time_of(1))
    second = shop.driver(spark)
    with pytest.raises(Fenced, match="this writer has epoch 1"):
        list(first.catch_up(target))
    assert shop.parts() == []
    list(second.catch_up(target))
    assert shop.contents(1) == shop.expected(1)
    assert len(shop.parts()) == 2


def test_a_driver_that_died_between_two_shards_is_completed_without_doubles(
    shop: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    first = shop.driver(spark)
    shop.arrive("a.jsonl", *some_orders(chance, 100, 50))
    shop.ingest(first)
    shop.arrive("b.jsonl", *some_orders(chance, 100, 50))

    def die(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(first.shards[1], "compare_and_append", die)
    with pytest.raises(KeyboardInterrupt):
        shop.ingest(first)
    second = shop.driver(spark)
    assert second.shards[0].upper > second.shards[1].upper
    shop.arrive("c.jsonl", *some_orders(chance, 100, 50))
    shop.ingest(second)
    for tick in (1, 2, 3):
        assert shop.contents(tick) == shop.expected(tick)


def test_bytes_that_changed_after_they_were_bound_stop_the_run(shop: Shop, spark: Any) -> None:
    shop.arrive("a.jsonl", *some_orders(random.Random(1), 3000, 3000))
    driver = shop.driver(spark)
    target = driver.bind(shop.time_of(1))
    path = shop.source / "a.jsonl"
    path.write_bytes(path.read_bytes().replace(b"o-1", b"o-2", 1))
    with pytest.raises(SourceChanged, match=r"a\.jsonl: the source changed: bytes 0 to \d+: digest"):
        list(driver.catch_up(target))
    assert [shard.refresh().upper for shard in driver.shards] == [0, 0]
    assert shop.parts() == []
