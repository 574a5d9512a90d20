"""What a shard refuses, with messages that say what was asked, what was found and what to do."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from seamark.errors import (
    Corrupt,
    Dropped,
    Fenced,
    InvalidDefinition,
    Locked,
    NewerFormat,
    NotFound,
    NotReadable,
    NotYet,
    Refused,
    SchemaMismatch,
    UpperMismatch,
)
from seamark.persist import Column, Location, Schema, Shard, entries
from seamark.persist.collect import delete_shard
from seamark.persist.parts import write_part
from tests.persist.rows import SCHEMA, accumulated, new_location, table


@pytest.fixture
def place() -> Location:
    return Location.open(new_location())


@pytest.fixture
def shard(place: Location) -> Shard:
    return place.create_shard("orders", SCHEMA)


def everything(place: Location) -> tuple[list[tuple[str, bytes]], list[tuple[int, bytes]]]:
    return (
        [(info.key, place.blobs.get(info.key)) for info in place.blobs.list()],
        [entry for name in place.logs.names() for entry in place.logs.open(name).scan(0)],
    )


def test_a_fenced_writer_cannot_append(place: Location, shard: Shard) -> None:
    old = shard.acquire("ingest", "driver-1")
    place.open_shard("orders").acquire("ingest", "driver-2")
    before = everything(place)
    with pytest.raises(Fenced) as caught:
        shard.compare_and_append(table([("a", 1, 0, 1)]), 0, 1, epoch=old)
    assert str(caught.value) == (
        "shard orders: this writer has epoch 1, the shard is at epoch 2 held by 'driver-2'; "
        "stop this writer: its successor has taken over, and nothing of this append was kept"
    )
    assert everything(place) == before


def test_a_fenced_writer_hears_that_and_not_that_it_is_late(place: Location, shard: Shard) -> None:
    old = shard.acquire("ingest", "driver-1")
    successor = place.open_shard("orders")
    epoch = successor.acquire("ingest", "driver-2")
    successor.compare_and_append(None, 0, 10, epoch=epoch)
    shard.refresh()
    with pytest.raises(Fenced):
        shard.compare_and_append(None, 0, 1, epoch=old)


def test_a_second_writer_is_told_where_the_shard_is(place: Location, shard: Shard) -> None:
    place.open_shard("orders").compare_and_append(None, 0, 7)
    with pytest.raises(UpperMismatch) as caught:
        shard.compare_and_append(None, 0, 3)
    assert str(caught.value) == (
        "shard orders: append expected upper 0, found 7; "
        "another writer went ahead: read from 0 and append at the new upper"
    )


def test_a_late_writer_stores_no_part(place: Location, shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    shard.compare_and_append(None, 0, 7)
    with pytest.raises(UpperMismatch):
        shard.compare_and_append(table([("a", 1, 0, 1)]), 0, 3)
    assert list(place.blobs.list("parts/")) == []


def test_an_append_without_the_lock_names_who_has_it(shard: Shard) -> None:
    shard.acquire("ingest", "driver-1")
    with pytest.raises(Locked) as caught:
        shard.compare_and_append(None, 0, 1)
    assert str(caught.value) == (
        "shard orders is locked for writing by 'driver-1' (reentrance id 'ingest', epoch 1); acquire the lock first"
    )


def test_a_time_that_was_released_is_not_readable(shard: Shard) -> None:
    shard.compare_and_append(None, 0, 100)
    shard.hold("retention", 50)
    with pytest.raises(NotReadable) as caught:
        shard.snapshot(49)
    assert str(caught.value) == (
        "shard orders: asked for time 49, but history before 50 may have been compacted; "
        "read at 50 or later, or take a hold before the time is released"
    )
    with pytest.raises(NotReadable):
        shard.changes(50, 60)
    with pytest.raises(NotReadable):
        next(shard.listen(49))
    with pytest.raises(NotReadable):
        shard.lookup(pa.table({"id": ["a"]}), 49)
    assert shard.changes(51, 60).num_rows == 0


def test_a_time_that_is_not_written_is_awaited_for_as_long_as_asked(shard: Shard) -> None:
    shard.compare_and_append(None, 0, 5)
    with pytest.raises(NotYet) as caught:
        shard.snapshot(5, timeout=0.05)
    assert str(caught.value) == (
        "shard orders: asked for time 5, written up to 5 (exclusive); wait for the writer, or read at an earlier time"
    )
    with pytest.raises(NotYet):
        shard.lookup(pa.table({"id": ["a"]}), 5)
    with pytest.raises(NotYet):
        shard.changes(0, 6)


def test_a_negative_time_is_not_readable(shard: Shard) -> None:
    with pytest.raises(NotReadable):
        shard.snapshot(-1)


def test_records_outside_of_the_appended_times_are_refused_before_anything_is_stored(
    place: Location, shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    with pytest.raises(Refused, match=re.escape("records have times 3 to 10, outside of the appended [0, 10)")):
        shard.compare_and_append(table([("a", 1, 3, 1), ("b", 1, 10, 1)]), 0, 10)
    assert list(place.blobs.list("parts/")) == []


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (table([]).drop_columns(["n"]), "column 'n' is missing; the records have _diff, _time, id"),
        (table([]).append_column("m", pa.array([], pa.int64())), "column 'm' is not in the shard; it has id, n, _time"),
        (
            table([("a", 1, 0, 1)]).set_column(1, "n", pa.array(["one"])),
            "column 'n' is int64 in the shard, found string that does not fit",
        ),
        (
            table([("a", 1, 0, 1)]).set_column(0, "id", pa.array([None], pa.string())),
            "column 'id' must not be null, found 1 nulls; drop or fill those records",
        ),
    ],
)
def test_records_that_do_not_fit_are_refused_by_column(shard: Shard, records: pa.Table, message: str) -> None:
    with pytest.raises(SchemaMismatch, match=re.escape(message)):
        shard.compare_and_append(records, 0, 1)
    assert shard.refresh().upper == 0


@pytest.mark.parametrize(
    ("columns", "key", "message"),
    [
        ((), (), "a schema needs at least one column; found none: name the columns"),
        (("a", "decimal"), (), "column 'a' has the unknown type 'decimal'; use one of bool, int32, int64, float64"),
        (("_a", "int64"), (), "column name '_a' is not allowed"),
        (("a", "int64", "a", "string"), (), "column 'a' is defined twice; rename one of them"),
        (("a", "int64"), ("b",), "key column 'b' is not among the columns a"),
    ],
)
def test_columns_that_mean_nothing_are_refused(columns: tuple[str, ...], key: tuple[str, ...], message: str) -> None:
    pairs = zip(columns[::2], columns[1::2], strict=True)
    with pytest.raises(InvalidDefinition, match=re.escape(message)):
        Schema(columns=tuple(Column(*pair) for pair in pairs), key=key)


def test_a_shard_that_is_not_there_is_not_found(place: Location) -> None:
    with pytest.raises(NotFound, match=r"shard nothing does not exist in mem:.*; create it first, or check the URL"):
        place.open_shard("nothing")
    assert place.shard_ids() == []


def test_an_entry_of_a_newer_format_is_refused_and_nothing_is_touched(place: Location, shard: Shard) -> None:
    shard.compare_and_append(table([("a", 1, 0, 1)]), 0, 1)
    log = place.logs.open("orders")
    newer = bytes([entries.FORMAT + 1]) + b"what a later version writes"
    log.append(log.head(), newer).result()
    before = everything(place)
    message = (
        "shard orders: entry 2 has format 2, this Seamark knows up to 1; "
        "upgrade Seamark to read it: nothing was touched"
    )
    for ask in (
        lambda: place.open_shard("orders"),
        lambda: place.create_shard("orders", SCHEMA),
        lambda: shard.compare_and_append(None, 1, 2),
        lambda: shard.hold("h", 0),
        lambda: delete_shard(place, "orders", "test"),
    ):
        with pytest.raises(NewerFormat) as caught:
            ask()
        assert str(caught.value) == message
    assert everything(place) == before


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x01", b"\x01" + b"x" * 40])
def test_an_entry_that_is_not_one_is_corrupt(place: Location, shard: Shard, payload: bytes) -> None:
    place.logs.open("orders").append(1, payload).result()
    with pytest.raises(Corrupt, match=r"shard orders: entry 1 .*; restore it from a copy of the storage"):
        shard.refresh()


def test_an_entry_that_is_not_legal_where_it_stands_is_corrupt(place: Location, shard: Shard) -> None:
    other = place.create_shard("other", SCHEMA)
    other.compare_and_append(None, 0, 5)
    other.compare_and_append(None, 5, 6)
    with place.logs.open("other").read(2) as entry:
        place.logs.open("orders").append(1, bytes(entry)).result()
    with pytest.raises(Corrupt, match=r"entry 1 is not legal where it stands: .*expected upper 5, found 0"):
        shard.refresh()


def test_a_part_of_another_shard_or_epoch_cannot_be_committed(place: Location, shard: Shard) -> None:
    foreign = write_part(place.blobs, "other", SCHEMA, table([("a", 1, 0, 1)]))
    stale = write_part(place.blobs, "orders", SCHEMA, table([("a", 1, 0, 1)]), epoch=3)
    for part in (foreign, stale):
        assert part is not None
        with pytest.raises(Refused, match="was not written for this shard under epoch 0"):
            shard.compare_and_append(None, 0, 1, parts=[part])


def test_a_part_that_is_not_stored_cannot_be_committed(place: Location, shard: Shard) -> None:
    part = write_part(place.blobs, "orders", SCHEMA, table([("a", 1, 0, 1)]))
    assert part is not None
    place.blobs.delete(part.key)
    with pytest.raises(NotFound, match="was handed over, storage has nothing; write the part again"):
        shard.compare_and_append(None, 0, 1, parts=[part])


def test_readers_of_a_dropped_shard_are_told(place: Location, shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    shard.compare_and_append(table([("a", 1, 0, 1)]), 0, 1)
    reader, follower = place.open_shard("orders"), place.open_shard("orders")
    listening = follower.listen(0, timeout=None)
    shard.drop("asked")
    shard.drop("asked twice")
    place.open_shard("orders").drop("by another, who is late")
    with pytest.raises(Dropped, match=re.escape("shard orders was dropped (asked)")):
        next(listening)
    assert accumulated(reader.snapshot(0)) == {("a", 1): 1}
    delete_shard(place, "orders", "test")
    with pytest.raises(Dropped):
        reader.snapshot(0)
    with pytest.raises(Dropped):
        reader.snapshot(5, timeout=60)
    with pytest.raises(Dropped):
        reader.compare_and_append(None, 1, 2)
