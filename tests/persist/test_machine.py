"""A shard is what its log says: whatever a handle has cached, whatever checkpoints there are."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from seamark.checkpoints import BlobCheckpoints
from seamark.errors import Corrupt, HoldMismatch, Refused, UpperMismatch
from seamark.persist import Location, Shard, machine
from seamark.persist.collect import delete_shard, sweep_orphans
from seamark.persist.parts import write_part
from tests.persist.rows import SCHEMA, accumulated, new_location, table


@pytest.fixture
def url() -> str:
    return new_location()


def fill(shard: Shard, lower: int, upper: int) -> None:
    for time in range(lower, upper):
        shard.compare_and_append(table([(f"k{time % 7}", time, time, 1)]), time, time + 1)


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_stale_handle_releases_a_lock_that_it_has_not_seen(url: str) -> None:
    place = Location.open(url)
    stale, other = place.create_shard("s", SCHEMA), Location.open(url).open_shard("s")
    epoch = other.acquire("w", "driver")
    stale.release(epoch)
    assert other.refresh().lock is None


def test_a_stale_handle_moves_a_hold_that_it_has_not_seen(url: str) -> None:
    place = Location.open(url)
    stale, other = place.create_shard("s", SCHEMA), place.open_shard("s")
    other.compare_and_append(None, 0, 100)
    assert other.hold("h", 10) == 1
    assert stale.hold("h", 20) == 2
    with pytest.raises(HoldMismatch):
        other.hold("h", 30, token=1)
    assert stale.hold("h", 30, token=2) == 3


def test_creating_twice_gives_one_shard_also_from_a_handle_opened_before(url: str) -> None:
    early = Location.open(url)
    first = early.create_shard("s", SCHEMA)
    second = Location.open(url).create_shard("s", SCHEMA)
    second.compare_and_append(None, 0, 3)
    assert first.refresh().upper == 3
    assert early.logs.open("s").head() == 2


def test_of_two_writers_at_the_same_time_exactly_one_wins(url: str) -> None:
    Location.open(url).create_shard("s", SCHEMA)
    rounds, writers = 20, 4
    outcomes: list[tuple[int, int]] = []
    barrier = threading.Barrier(writers)

    def write(who: int) -> None:
        shard = Location.open(url).open_shard("s")
        for time in range(rounds):
            barrier.wait()
            try:
                shard.compare_and_append(table([(f"w{who}", time, time, 1)]), time, time + 1)
                outcomes.append((time, who))
            except UpperMismatch:
                shard.refresh()

    threads = [threading.Thread(target=write, args=(who,)) for who in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {(f"w{who}", time): 1 for time, who in outcomes}
    assert sorted(time for time, _ in outcomes) == list(range(rounds))
    assert accumulated(Location.open(url).open_shard("s").snapshot(rounds - 1)) == expected


def test_locks_taken_at_the_same_moment_have_different_epochs(url: str) -> None:
    place = Location.open(url)
    place.create_shard("s", SCHEMA)
    epochs: list[int] = []
    handles = [place.open_shard("s") for _ in range(4)]
    threads = [
        threading.Thread(target=lambda shard=shard: epochs.extend(shard.acquire("w", "me") for _ in range(5)))
        for shard in handles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == list(range(1, 21))


def test_a_shard_opens_from_its_checkpoint_and_the_log_after_it(url: str) -> None:
    place = Location.open(url)
    shard = place.create_shard("s", SCHEMA)
    fill(shard, 0, machine.CHECKPOINT_EVERY + 40)
    found = place.checkpoints.newest("s")
    assert found is not None
    assert found.event == machine.CHECKPOINT_EVERY - 1
    place.logs.open("s").truncate(machine.CHECKPOINT_EVERY)
    again = Location.open(url).open_shard("s")
    assert again.state == shard.state
    assert again.snapshot(200).equals(shard.snapshot(200))


@pytest.mark.parametrize("damage", ["newest", "all"])
def test_a_damaged_checkpoint_costs_only_replay(url: str, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CHECKPOINT_EVERY", 4)
    place = Location.open(url)
    shard = place.create_shard("s", SCHEMA)
    fill(shard, 0, 21)
    stored = [info.key for info in place.blobs.list("checkpoints/s/")]
    assert len(stored) == 5
    for key in stored if damage == "all" else stored[-1:]:
        data = bytearray(place.blobs.get(key))
        data[-1] ^= 1
        place.blobs.delete(key)
        place.blobs.put(key, bytes(data))
    assert Location.open(url).open_shard("s").state == shard.state


def test_checkpoints_may_be_kept_elsewhere_and_lost(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CHECKPOINT_EVERY", 4)
    elsewhere = new_location()
    place = Location.open(url, checkpoints=elsewhere)
    shard = place.create_shard("s", SCHEMA)
    fill(shard, 0, 10)
    assert list(place.blobs.list("checkpoints/")) == []
    assert list(Location.open(elsewhere).blobs.list("checkpoints/")) != []
    assert Location.open(url, checkpoints=elsewhere).open_shard("s").state == shard.state
    assert Location.open(url).open_shard("s").state == shard.state


def test_a_checkpoint_ahead_of_the_log_is_corrupt_and_both_are_named(url: str) -> None:
    place = Location.open(url)
    place.create_shard("s", SCHEMA)
    other = Location.open(new_location())
    fill(other.create_shard("s", SCHEMA), 0, machine.CHECKPOINT_EVERY)
    found = other.checkpoints.newest("s")
    assert found is not None
    place.checkpoints.write("s", found.event, found.tree)
    with pytest.raises(Corrupt) as caught:
        place.open_shard("s")
    assert str(caught.value) == (
        "shard s: checkpoint at entry 255 is ahead of the log, whose first free entry is 1; "
        "restore the log, or delete the checkpoint if the log is right"
    )


def test_a_checkpoint_of_a_shard_that_had_the_name_before_is_not_believed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "CHECKPOINT_EVERY", 4)
    place = Location.open(url)
    fill(place.create_shard("s", SCHEMA), 0, 8)
    late = place.checkpoints.newest("s")
    assert late is not None
    delete_shard(place, "s", "test")
    monkeypatch.setattr(machine, "CHECKPOINT_EVERY", 1000)
    shard = place.create_shard("s", SCHEMA)
    for time in range(12):
        shard.compare_and_append(table([("new", time, time, 1)]), time, time + 1)
    place.checkpoints.write("s", late.event, late.tree)
    assert place.open_shard("s").state == shard.state


def test_a_checkpoint_that_cannot_be_written_does_not_fail_the_commit(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machine, "CHECKPOINT_EVERY", 2)

    def refuse(*_: object) -> None:
        raise Refused("no room")

    monkeypatch.setattr(BlobCheckpoints, "write", refuse)
    shard = Location.open(url).create_shard("s", SCHEMA)
    fill(shard, 0, 5)
    assert Location.open(url).open_shard("s").upper == 5
    assert "no checkpoint of s at entry 1: no room" in caplog.text


def test_a_location_opened_read_only_changes_nothing_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CHECKPOINT_EVERY", 2)
    root = tmp_path / "data"
    place = Location.open(f"disk:{root}")
    fill(place.create_shard("s", SCHEMA), 0, 5)
    before = files(root)
    with Location.open(f"disk:{root}", read_only=True) as reading:
        shard = reading.open_shard("s")
        assert shard.snapshot(4).num_rows == 5
        assert sum(step.records.num_rows for step in shard.subscribe(1, timeout=0.0)) == 5
        assert shard.lookup(pa.table({"id": ["k1"]}), 4).num_rows == 1
        for ask in (
            lambda: shard.compare_and_append(None, 5, 6),
            lambda: shard.hold("h", 1),
            lambda: shard.lease(1, 10),
            lambda: shard.acquire("w", "me"),
            lambda: shard.drop(),
            lambda: reading.create_shard("new", SCHEMA),
            lambda: delete_shard(reading, "s", "test"),
            lambda: delete_shard(reading, "nothing", "test"),
            lambda: reading.checkpoints.write("s", 9, b"tree"),
            lambda: write_part(reading.blobs, "s", SCHEMA, table([("a", 1, 0, 1)])),
            lambda: reading.blobs.delete("parts/s/x"),
            lambda: reading.logs.open("s").truncate(1),
        ):
            with pytest.raises(Refused, match="opened read-only"):
                ask()
        assert sweep_orphans(reading, shard) == 0
    assert files(root) == before


def test_opening_what_is_not_there_read_only_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        Location.open(f"disk:{tmp_path}/none", read_only=True).open_shard("s")
    assert list(tmp_path.iterdir()) == []


def test_small_writes_ride_in_the_entry_until_the_shard_carries_enough(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_SHARD", 3000)
    place = Location.open(url)
    shard = place.create_shard("s", SCHEMA)
    fill(shard, 0, 10)
    parts = [part for batch in shard.state.batches for part in batch.parts]
    assert 0 < len(parts) < 10
    assert shard.state.inline_bytes <= 3000
    assert sorted(info.key for info in place.blobs.list("parts/")) == sorted(part.key for part in parts)
    assert shard.snapshot(9).num_rows == 10
