"""A collection: made once, changed by one append at a time, deleted in two steps; each survives being cut short."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from seamark.errors import Dropped, Fenced, Held, NameTaken, NotFound, NotReadable, NotYet, Refused
from seamark.persist import Location, Shard
from seamark.storage import Collection, RunMarker, collection, read_marker, write_marker
from tests.storage.shop import contents, definition, made, new_url, objects, opened, spec, write


@pytest.fixture
def url() -> str:
    return new_url()


class Killed(BaseException):
    """The process ends here."""


def handed_over(url: str) -> tuple[Collection, int]:
    """A collection whose second rendition took over; both are written up to 40."""
    orders = made(url)
    write(orders, "r1", [("a", 1, 10, 1)], 40)
    orders.advance()
    orders.add_rendition("r2", definition(2))
    write(orders, "r2", [("a", 2, 10, 1)], 50)
    return orders, orders.handover("r2", close_old=True)


def die_at(patch: pytest.MonkeyPatch, step: int, *targets: tuple[object, str]) -> list[int]:
    """Let the calls of these methods go through `step` times in all, then end the process."""
    left = [step]

    def cut(method: str, real: object) -> object:
        def call(*args: object, **options: object) -> object:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real(*args, **options)  # type: ignore[operator]

        return call

    for target, method in targets:
        patch.setattr(target, method, cut(method, getattr(target, method)))
    return left


def test_a_collection_begins_with_one_active_rendition(url: str) -> None:
    facts = made(url).describe()
    assert (facts.active, facts.since, facts.upper, facts.owner) == ("r1", 0, 0, "shop/orders/1")
    assert facts.renditions["r1"].role == "active"
    assert [shard.id for shard in facts.renditions["r1"].shards] == [
        "collections/orders/r1/0",
        "collections/orders/r1/1",
    ]
    assert facts.holds == {"retention": 0}
    assert Collection.names(Location.open(url)) == ["orders"]


def test_two_collections_cannot_have_one_name(url: str) -> None:
    made(url)
    before = objects(Location.open(url))
    with pytest.raises(NameTaken) as caught:
        made(url, owner="other/orders/2")
    assert str(caught.value) == (
        f"collection 'orders' in {url} belongs to 'shop/orders/1', 'other/orders/2' asked for it; "
        "two collections cannot write to one name: rename this one or give it another location"
    )
    assert objects(Location.open(url)) == before


def test_making_it_again_changes_nothing_for_its_owner(url: str) -> None:
    write(made(url), "r1", [("a", 1, 3, 1)], 5)
    again = Collection.create(Location.open(url), "orders", definition(9), owner="shop/orders/1")
    again.advance()
    assert contents(again.snapshot(4)) == {("a", 1): 1}
    assert again.describe().renditions["r1"].definition_hash == definition(1).hash


def test_a_collection_that_is_not_there_is_not_found(url: str) -> None:
    made(url, "orders")
    made(url, "sales")
    with pytest.raises(NotFound, match=f"collection 'nothing' does not exist in {url}; there are: orders, sales"):
        opened(url, "nothing")


@pytest.mark.parametrize("name", ["a/b", "", "metadata", "remap-1", ".hidden", "ö"])
def test_names_that_would_mix_with_others_are_refused(url: str, name: str) -> None:
    with pytest.raises(Refused, match="is not allowed: use letters, digits"):
        made(url, name)
    with pytest.raises(Refused, match="is not allowed: use letters, digits"):
        made(url).add_rendition(name, definition(2))
    assert Collection.names(Location.open(url)) == ["orders"]


@pytest.mark.parametrize("step", range(6))
def test_making_a_collection_is_finished_by_the_next_attempt_even_with_another_definition(
    url: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        left = die_at(patch, step, (Location, "create_shard"), (Shard, "hold"), (Shard, "compare_and_append"))
        try:
            made(url)
        except Killed:
            with pytest.raises(NotFound):
                opened(url)
        else:
            assert (step, left[0]) == (5, 0)
    other = definition(columns=[{"name": "id", "type": "string"}], shards=1)
    orders = Collection.create(Location.open(url), "orders", other, owner="shop/orders/1")
    finished = orders.describe().renditions["r1"].definition_hash
    assert finished == (other if step < 5 else definition()).hash
    assert orders.holds == {"retention": 0}
    assert [shard.schema for shard in orders.rendition("r1").shards] == [
        orders.rendition("r1").definition.schema()
    ] * orders.rendition("r1").definition.shards
    mine = {"log collections/orders/metadata", *(f"log {name}" for name in orders.rendition("r1").shard_ids)}
    assert set(objects(Location.open(url))) == mine


@pytest.mark.parametrize("step", range(4))
def test_adding_a_rendition_is_finished_by_the_next_attempt_even_with_another_definition(
    url: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = made(url)
    with monkeypatch.context() as patch:
        die_at(patch, step, (Location, "create_shard"), (Shard, "compare_and_append"))
        try:
            orders.add_rendition("r2", definition(2))
        except Killed:
            pass
        else:
            assert step == 3
    again = opened(url)
    wanted = definition(3, shards=1) if step < 3 else definition(2)
    again.add_rendition("r2", wanted)
    again.add_rendition("r2", wanted)
    assert again.describe().renditions["r2"].definition_hash == wanted.hash
    ids = [name for name in again._location.shard_ids() if "/r2/" in name]
    assert ids == again.rendition("r2").shard_ids
    write(again, "r2", [("a", 1, 0, 1)], 2)


def test_a_rendition_name_has_one_definition(url: str) -> None:
    orders = made(url)
    orders.add_rendition("r2", definition(2))
    with pytest.raises(NameTaken, match="rendition r2 of orders exists with another definition; choose another name"):
        opened(url).add_rendition("r2", definition(3))


def test_a_column_cannot_change_to_a_type_that_readers_cannot_hold_beside_the_old_one(url: str) -> None:
    orders = made(url)
    columns = [{"name": "id", "type": "string"}, {"name": "cents", "type": "string", "expression": "'x'"}]
    with pytest.raises(Refused) as caught:
        orders.add_rendition("r2", definition(columns=columns))
    assert str(caught.value) == (
        "rendition r2 of orders after r1: column 'cents' would change its type from int64 to string, which readers "
        "that cross the handover cannot hold in one column; give the column of the new type another name"
    )
    assert sorted(orders.describe().renditions) == ["r1"]


def test_a_handover_to_a_rendition_that_cannot_be_read_then_is_refused(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [], 40)
    orders.advance()
    orders.add_rendition("r2", definition(2))
    write(orders, "r2", [], 30)
    before = orders.describe()
    with pytest.raises(Refused) as caught:
        orders.handover("r2")
    assert str(caught.value) == (
        "handover of orders to r2 at 41: r2 can be read only at times from 0 up to 30 (exclusive); "
        "wait until it has caught up, or choose a time inside. Nothing changed"
    )
    with pytest.raises(Refused) as caught:
        orders.handover("r2", at=20)
    assert str(caught.value) == (
        "handover of orders to r2 at 20: readers may have passed that time already (metadata upper is 41); "
        "choose 41 or later"
    )
    assert orders.describe() == before


def test_a_handover_waits_for_the_old_rendition_unless_it_is_closed(url: str) -> None:
    orders = made(url)
    orders.add_rendition("r2", definition(2))
    write(orders, "r2", [("a", 2, 10, 1)], 30)
    with pytest.raises(NotYet) as caught:
        orders.handover("r2", at=20)
    assert str(caught.value) == (
        "handover of orders to r2 at 20: the active rendition r1 is written only up to 0; "
        "wait for its writer, or close it if the writer is gone for good"
    )
    writer = opened(url).rendition("r1").shards[0]
    epoch = writer.acquire("ingest", "driver")
    assert orders.handover("r2", at=20, close_old=True) == 20
    with pytest.raises(Fenced):
        writer.compare_and_append(None, 0, 50, epoch=epoch)
    assert contents(orders.snapshot(19)) == {}
    assert contents(orders.snapshot(20)) == {("a", 2): 1}


def test_only_a_candidate_takes_over(url: str) -> None:
    orders, at = handed_over(url)
    assert orders.handover("r2") == at
    with pytest.raises(Refused, match="rendition r1 of orders is retired; only a candidate can take over"):
        orders.handover("r1")
    with pytest.raises(Refused, match="rendition r1 of orders is retired; only a rendition that is building"):
        orders.mark_standby("r1")
    with pytest.raises(Refused, match=re.escape("rendition r2 of orders is active and cannot be abandoned (late)")):
        orders.abandon("r2", "late")
    with pytest.raises(NotFound, match="no rendition 'r9'; there are r1, r2"):
        orders.handover("r9")


@pytest.mark.parametrize("close_old", [False, True])
def test_of_many_who_hand_over_at_once_one_does_and_all_name_its_time(url: str, close_old: bool) -> None:
    orders = made(url)
    orders.add_rendition("r2", definition(2))
    write(orders, "r2", [("a", 2, 10, 1)], 110)
    if not close_old:
        write(orders, "r1", [("a", 1, 10, 1)], 100)
    orders.advance()
    times: list[int] = []
    handles = [opened(url) for _ in range(6)]
    barrier = threading.Barrier(len(handles))

    def hand_over(handle: Collection) -> None:
        barrier.wait()
        times.append(handle.handover("r2", close_old=close_old))

    threads = [threading.Thread(target=hand_over, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == len(handles)
    assert len(set(times)) == 1
    timeline = opened(url).timeline
    assert [change.time for change in timeline.changes if change.row.role == "active"] == [times[0]] * 2


def test_changes_that_race_are_judged_again(url: str) -> None:
    orders, rival = made(url), opened(url)
    orders.add_rendition("r2", definition(2))
    rival.refresh()
    rival.hold("x", 0)
    orders.abandon("r2", "changed its mind")
    rival.hold("y", 0)
    with pytest.raises(Refused, match="rendition r2 of orders is abandoned"):
        rival.mark_standby("r2")
    with pytest.raises(Refused, match="rendition r2 of orders is abandoned"):
        rival.handover("r2")
    rival.abandon("r2", "twice is once")
    assert {name: row.role for name, row in opened(url).timeline.now.items()} == {"r1": "active", "r2": "abandoned"}


def test_many_who_add_and_move_renditions_at_once_leave_one_row_each(url: str) -> None:
    made(url)
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        orders = opened(url)
        barrier.wait()
        for name in ("r2", "r3"):
            orders.add_rendition(name, definition(int(name[1:])))
            orders.mark_standby(name)
            if number % 2:
                orders.abandon(name, "test")

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 2, 4, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    orders = opened(url)
    assert {name: row.role for name, row in orders.timeline.now.items()} == {
        "r1": "active",
        "r2": "standby",
        "r3": "standby",
    }
    rows = orders._metadata.snapshot(orders.describe().metadata_upper - 1).to_pylist()
    assert [row["_diff"] for row in rows] == [1, 1, 1]


def test_a_candidate_that_stands_by_can_always_take_over(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [], 40)
    orders.advance()
    orders.add_rendition("r2", definition(2))
    write(orders, "r2", [], 60)
    orders.mark_standby("r2")
    for upper in (100, 200, 300):
        write(orders, "r1", [], upper)
        assert orders.advance() == 59
    assert orders.handover("r2") == 59
    assert orders.describe().upper == 60


def test_a_hold_keeps_the_old_rendition_and_moving_it_past_lets_it_be_collected(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    monkeypatch.setattr("seamark.persist.machine.CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(collection, "RETENTION_STEP", 1)
    orders, at = handed_over(url)
    write_marker(orders._location, RunMarker("ing-1", "orders", "r1", "ingest", "retired", 40, 1))
    orders.hold("auditor", 15)
    write(orders, "r2", [], 5000)
    orders.advance()
    assert orders.retain(0) == 15
    with pytest.raises(Held) as caught:
        orders.condemn("r1")
    assert str(caught.value) == (
        f"rendition r1 of orders was handed over at {at}, but the collection's since is 15: "
        f"held by auditor and 0 leased reader(s); move these past {at}"
    )
    with pytest.raises(Refused, match="rendition r1 of orders is retired, not condemned; condemn it first"):
        orders.sweep("r1")
    assert contents(orders.snapshot(15)) == {("a", 1): 1}
    orders.hold("auditor", at)
    assert (orders.retain(0), orders.collectable()) == (at, [])
    orders.hold("auditor", at + 1)
    assert (orders.since, orders.collectable()) == (at + 1, ["r1"])
    mine = [name for name in objects(orders._location) if "/r1/" in name]
    assert len(mine) > 4
    orders.condemn("r1")
    assert [name for name in objects(orders._location) if "/r1/" in name] == mine
    assert orders.describe().renditions["r1"].role == "condemned"
    assert orders.sweep("r1") == 2
    assert [name for name in objects(orders._location) if "/r1/" in name] == []
    assert sorted(orders.describe().renditions) == ["r2"]
    assert orders.sweep("r1") == 0
    assert contents(orders.snapshot(at + 1)) == {("a", 2): 1}


def test_a_subscriber_keeps_what_it_needs_until_it_is_killed_and_its_lease_ends(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "RETENTION_STEP", 1)
    clock = [10**6]
    for module in ("holds", "shard"):
        monkeypatch.setattr(f"seamark.persist.{module}.now_millis", lambda: clock[0])
    monkeypatch.setattr(collection, "now_millis", lambda: clock[0])
    orders, _ = handed_over(url)
    reader = opened(url).subscribe(15, lease_seconds=60)
    next(reader)
    write(orders, "r2", [], 5000)
    orders.advance()
    assert orders.retain(0) == 15
    with pytest.raises(Held, match=re.escape("held by no durable hold and 1 leased reader(s)")):
        orders.condemn("r1")
    clock[0] += 60_000
    assert orders.retain(0) == 15
    clock[0] += 1
    assert orders.retain(0) == 4999
    assert orders.collectable() == ["r1"]
    with pytest.raises(NotReadable):
        list(reader)


def test_a_hold_is_where_it_was_put_whatever_a_handle_remembers(url: str) -> None:
    orders, other = made(url), opened(url)
    write(orders, "r1", [], 100)
    orders.advance()
    orders.hold("auditor", 15)
    other.unhold("auditor")
    orders.hold("auditor", 15)
    assert opened(url).holds["auditor"] == 15
    other.hold("auditor", 20)
    with pytest.raises(Refused, match="hold 'auditor' is at 20 and cannot go back to 15; what it released may be gone"):
        orders.hold("auditor", 15)
    orders.unhold("auditor")
    orders.unhold("auditor")
    orders.hold("future", 10**6)
    assert orders.since == 0


def test_history_is_kept_as_long_as_asked(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [("a", 1, 10, 1)], 100_001)
    orders.advance()
    assert orders.retain(30_000) == 70_000
    assert orders.rendition("r1").since == 70_000
    with pytest.raises(NotReadable, match="collection orders: asked for time 69999, but history before 70000"):
        orders.snapshot(69_999)
    assert contents(orders.snapshot(70_000)) == {("a", 1): 1}
    write(orders, "r1", [], 100_500)
    orders.advance()
    assert orders.retain(30_000) == 70_000
    assert orders.retain(10**9) == 70_000


@pytest.mark.parametrize("step", range(9))
def test_a_sweep_cut_short_at_any_step_is_finished_by_the_next(
    url: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    orders = made(url)
    orders.add_rendition("r2", definition(2))
    write(orders, "r2", [(key, 1, 3, 1) for key in "abcdef"], 5)
    write_marker(orders._location, RunMarker("bkf-1", "orders", "r2", "backfill", "failed", 0, 1))
    orders.abandon("r2", "test")
    orders.condemn("r2")
    with monkeypatch.context() as patch:
        place = orders._location
        die_at(
            patch, step, (Shard, "drop"), (place.blobs, "delete"), (place.logs, "drop"), (Shard, "compare_and_append")
        )
        try:
            orders.sweep("r2")
        except Killed:
            pass
        else:
            assert step == 8
    other = opened(url)
    assert set(other.describe().renditions) in ({"r1", "r2"}, {"r1"})
    other.sweep("r2")
    assert sorted(other.describe().renditions) == ["r1"]
    assert [name for name in objects(Location.open(url)) if "/r2/" in name] == []
    assert sorted(orders.describe().renditions) == ["r1"]


@pytest.mark.parametrize("step", range(14))
def test_a_drop_cut_short_at_any_step_is_finished_by_the_next(
    url: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    made(url, "order")
    keep = objects(Location.open(url))
    orders = made(url)
    write(orders, "r1", [(key, 1, 3, 1) for key in "abcdef"], 5)
    orders.remap(definition())
    write_marker(orders._location, RunMarker("ing-1", "orders", "r1", "ingest", "retired", 0, 1))
    place = orders._location
    with monkeypatch.context() as patch:
        die_at(patch, step, (Shard, "drop"), (place.blobs, "delete"), (place.logs, "drop"))
        try:
            orders.drop()
        except Killed:
            pass
        else:
            assert step == 13
    fresh = Location.open(url)
    if "orders" in Collection.names(fresh):
        if step > 0:
            with pytest.raises((NotFound, Dropped)):
                opened(url)
        Collection(fresh, "orders", fresh.open_shard("collections/orders/metadata")).drop()
    assert objects(fresh) == keep
    assert made(url, owner="another/orders/2").describe().upper == 0


def test_a_handle_on_a_collection_that_was_deleted_says_so(url: str) -> None:
    orders, other = made(url), opened(url)
    write(orders, "r1", [("a", 1, 3, 1)], 5)
    orders.advance()
    orders.drop()
    with pytest.raises(Dropped):
        other.snapshot(3)
    with pytest.raises(Dropped):
        other.add_rendition("r2", definition(2))
    assert objects(Location.open(url)) == []


def test_a_read_only_location_reads_subscribes_and_changes_nothing(tmp_path: Path) -> None:
    url = f"disk:{tmp_path}"
    orders, at = handed_over(url)
    write(orders, "r2", [("b", 4, 58, 1)], 60)
    orders.advance()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    reading = opened(url, read_only=True)
    assert contents(reading.snapshot(at)) == {("a", 2): 1}
    steps = list(reading.subscribe(0, timeout=0.0, poll=0.0))
    assert [(step.lower, step.upper) for step in steps] == [(0, 1), (1, at), (at, at + 1), (at + 1, 60)]
    for ask in (
        lambda: reading.hold("h", 5),
        lambda: reading.add_rendition("r3", definition(3)),
        lambda: reading.drop(),
        lambda: Collection.create(reading._location, "new", definition(), owner="me"),
        lambda: write_marker(reading._location, RunMarker("x", "orders", "r1", "ingest", "failed", 0, 1)),
    ):
        with pytest.raises(Refused, match="opened read-only"):
            ask()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_marker_is_written_once_and_the_first_stands(url: str) -> None:
    place = Location.open(url)
    assert read_marker(place, "orders", "r1", "run-1") is None
    first = RunMarker("run-1", "orders", "r1", "ingest", "committed", 40, 2)
    late = RunMarker("run-1", "orders", "r1", "ingest", "failed", 0, 1, "fenced")
    assert write_marker(place, first) == first
    assert write_marker(place, first) == first
    assert write_marker(place, late) == first
    assert read_marker(place, "orders", "r1", "run-1") == first
    assert read_marker(place, "orders", "r1", "run-2") is None


def test_specs_of_tests_are_not_shared() -> None:
    spec()["columns"].clear()
    assert spec()["columns"]
