"""Parts are plain Parquet that anyone can read, and no byte of them can change unnoticed."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamark.errors import Corrupt
from seamark.persist import Column, Location, Schema
from seamark.persist.collect import delete_shard, sweep_orphans
from seamark.persist.parts import read_part, write_part
from seamark.persist.schema import TYPES
from tests.persist.rows import SCHEMA, accumulated, new_location, table


@pytest.fixture
def place() -> Location:
    return Location.open(new_location())


def keys(place: Location) -> list[str]:
    return [info.key for info in place.blobs.list()]


def test_every_flipped_byte_of_a_part_is_noticed(place: Location) -> None:
    part = write_part(place.blobs, "s", SCHEMA, table([("a", 1, 0, 1), ("b", 2, 1, 1)]))
    assert part is not None
    shard = place.create_shard("s", SCHEMA)
    shard.compare_and_append(None, 0, 2, parts=[part])
    sound = place.blobs.get(part.key)
    for at in range(len(sound)):
        damaged = bytearray(sound)
        damaged[at] ^= 1 << at % 8
        place.blobs.delete(part.key)
        place.blobs.put(part.key, bytes(damaged))
        with pytest.raises(Corrupt) as caught:
            read_part(place.blobs, part, SCHEMA)
        assert str(caught.value).startswith(f"part {part.key} is damaged: {len(sound)} bytes with digest ")
        assert str(caught.value).endswith("; restore the object from a copy, or rebuild the rendition")
    with pytest.raises(Corrupt, match=re.escape(part.key)):
        shard.snapshot(1)
    for shorter in (b"", sound[:-1], sound + b"\0"):
        place.blobs.delete(part.key)
        place.blobs.put(part.key, shorter)
        with pytest.raises(Corrupt):
            shard.snapshot(1)


def test_a_part_that_is_missing_is_named(place: Location) -> None:
    part = write_part(place.blobs, "s", SCHEMA, table([("a", 1, 0, 1)]))
    assert part is not None
    shard = place.create_shard("s", SCHEMA)
    shard.compare_and_append(None, 0, 1, parts=[part])
    place.blobs.delete(part.key)
    with pytest.raises(Corrupt, match=f"part {re.escape(part.key)} is missing: shard s refers to it"):
        shard.snapshot(0)


def test_parts_carry_page_checksums_that_others_verify(place: Location, tmp_path: Path) -> None:
    part = write_part(place.blobs, "s", SCHEMA, table((f"key{n}", n, 0, 1) for n in range(5000)))
    assert part is not None
    data = bytearray(place.blobs.get(part.key))
    column = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata.row_group(0).column(1)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 0x10
    path = tmp_path / "damaged.parquet"
    path.write_bytes(data)
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        pq.read_table(path, page_checksum_verification=True)


def test_duckdb_and_pyarrow_read_a_part_as_it_is(tmp_path: Path) -> None:
    place = Location.open(f"disk:{tmp_path}")
    records = [("b", 2, 7, 1), ("a", 1, 5, 1), ("a", 1, 5, 1), ("c", 3, 6, 1), ("c", 3, 6, -1)]
    part = write_part(place.blobs, "s", SCHEMA, table(records))
    assert part is not None
    assert (part.rows, part.first, part.last, part.low, part.high) == (2, 5, 7, "a", "b")
    (path,) = tmp_path.rglob("*.parquet")
    expected = [("a", 1, 5, 2), ("b", 2, 7, 1)]
    assert duckdb.sql(f"select * from '{path}'").fetchall() == expected
    assert [tuple(row.values()) for row in pq.read_table(path).to_pylist()] == expected


def test_records_that_cancel_leave_no_part(place: Location) -> None:
    assert write_part(place.blobs, "s", SCHEMA, table([("a", 1, 0, 1), ("a", 1, 0, -1)])) is None
    assert keys(place) == []


VALUES = {
    "bool": [True, False],
    "int32": [-(2**31), 2**31 - 1],
    "int64": [-(2**63), 2**63 - 1],
    "float64": [-0.5, math.nan],
    "string": ["", "snow ☃ \U0001f600"],
    "binary": [b"", b"\x00\xff"],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
        dt.datetime(2262, 4, 12, tzinfo=dt.UTC),
    ],
}


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("type_", TYPES)
def test_every_type_comes_back_as_it_went_and_cancels_exactly(
    place: Location, type_: str, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inline:
        monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    schema = Schema(columns=(Column("k", "int64"), Column("v", type_)), key=("k",))
    arrow = schema.arrow()
    shard = place.create_shard("s", schema)
    values = [*VALUES[type_], None]

    def records(time: int, diff: int) -> pa.Table:
        rows = range(len(values))
        return pa.table(
            [list(rows), values, [time for _ in rows], [diff for _ in rows]],
            schema=arrow,
        )

    shard.compare_and_append(records(0, 1), 0, 1)
    found = shard.snapshot(0).sort_by("k").column("v").to_pylist()
    assert found == values or (type_ == "float64" and str(found) == str(values))
    shard.compare_and_append(records(1, -1), 1, 2)
    assert shard.snapshot(1).num_rows == 0
    looked = shard.lookup(pa.table({"k": [0, 2, 9]}), 0)
    assert sorted(looked.column("k").to_pylist()) == [0, 2]


@pytest.mark.parametrize("type_", [type_ for type_ in TYPES if type_ != "float64"])
def test_rows_are_found_by_a_key_of_every_type(place: Location, type_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    schema = Schema(columns=(Column("k", type_), Column("v", "int64")), key=("k",))
    shard = place.create_shard("s", schema)
    for time, value in enumerate(VALUES[type_]):
        shard.compare_and_append(pa.table([[value], [time], [time], [1]], schema=schema.arrow()), time, time + 1)
    for time, value in enumerate(VALUES[type_]):
        keys_ = pa.table({"k": pa.array([value], schema.arrow().field("k").type)})
        assert shard.lookup(keys_, 1).column("v").to_pylist() == [time]


def test_the_sweep_takes_only_parts_that_no_writer_can_commit_any_more(place: Location) -> None:
    shard = place.create_shard("s", SCHEMA)
    first = shard.acquire("w", "one")
    row = table([("a", 1, 0, 1)])
    committed = write_part(place.blobs, "s", SCHEMA, row, epoch=first)
    orphan = write_part(place.blobs, "s", SCHEMA, row, epoch=first)
    unlocked = write_part(place.blobs, "s", SCHEMA, row)
    nested = write_part(place.blobs, f"s/{first:010d}-x", SCHEMA, row, epoch=first)
    place.blobs.put("parts/s/notes.txt", b"foreign")
    assert committed
    assert orphan
    assert unlocked
    assert nested
    shard.compare_and_append(None, 0, 1, parts=[committed], epoch=first)
    assert sweep_orphans(place, shard) == 0
    second = shard.acquire("w", "two")
    pending = write_part(place.blobs, "s", SCHEMA, row, epoch=second)
    assert pending
    assert sweep_orphans(place, shard) == 1
    left = {committed.key, unlocked.key, nested.key, pending.key, "parts/s/notes.txt"}
    assert set(keys(place)) == left


@pytest.mark.parametrize("engine", ["mem", "disk"])
def test_nothing_is_left_of_a_shard_that_was_deleted_and_nothing_else_is_touched(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    monkeypatch.setattr("seamark.persist.machine.CHECKPOINT_EVERY", 2)
    place = Location.open(f"disk:{tmp_path}" if engine == "disk" else new_location())
    for name in ("a", "a/b", "ab"):
        shard = place.create_shard(name, SCHEMA)
        for time in range(6):
            shard.compare_and_append(table([("a", 1, time, 1)]), time, time + 1)
        write_part(place.blobs, name, SCHEMA, table([("orphan", 1, 0, 1)]))
    assert delete_shard(place, "a", "test") == 7
    assert delete_shard(place, "a", "test") == 0
    assert place.shard_ids() == ["a/b", "ab"]
    assert not [key for key in keys(place) if key.count("/") == 2 and key.split("/")[1] == "a"]
    for name in ("a/b", "ab"):
        assert accumulated(place.open_shard(name).snapshot(5)) == {("a", 1): 6}
        delete_shard(place, name, "test")
    assert keys(place) == []
    assert place.shard_ids() == []
    if engine == "disk":
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("step", range(5))
def test_a_deletion_that_was_interrupted_is_finished_by_the_next(
    place: Location, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    monkeypatch.setattr("seamark.persist.machine.CHECKPOINT_EVERY", 2)
    shard = place.create_shard("s", SCHEMA)
    for time in range(2):
        shard.compare_and_append(table([("a", 1, time, 1)]), time, time + 1)
    with monkeypatch.context() as patch:
        left = [step]

        def dies(key: str, delete: object = place.blobs.delete) -> None:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            delete(key)  # type: ignore[operator]

        patch.setattr(place.blobs, "delete", dies)
        patch.setattr(place.logs, "drop", dies)
        with contextlib.suppress(KeyboardInterrupt):
            delete_shard(place, "s", "test")
    delete_shard(place, "s", "test")
    assert keys(place) == []
    assert place.shard_ids() == []
    again = place.create_shard("s", SCHEMA)
    assert (again.upper, again.epoch) == (0, 0)


def test_a_damaged_shard_can_be_deleted(place: Location) -> None:
    place.create_shard("s", SCHEMA)
    place.logs.open("s").append(1, b"\x01 not an entry").result()
    delete_shard(place, "s", "test")
    assert place.shard_ids() == []
