"""Readers cross handovers: what they have accumulated is the old rendition before that time, the new one from it on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from seamark.errors import NotReadable, NotYet
from tests.storage.shop import add, contents, definition, made, new_url, opened, present, write


@pytest.fixture
def url() -> str:
    return new_url()


def test_a_reader_crosses_two_handovers_and_takes_each_away_exactly(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [("a", 1, 5, 1), ("b", 1, 19, 1), ("late", 1, 20, 1)], 30)
    orders.add_rendition("r2", definition(2))
    write(orders, "r2", [("a", 2, 5, 1), ("b", 2, 19, 1), ("c", 2, 20, 1), ("late", 2, 25, 1)], 40)
    assert orders.handover("r2", at=20) == 20
    orders.add_rendition("r3", definition(3))
    write(orders, "r3", [("a", 3, 5, 1), ("d", 3, 25, 1)], 40)
    assert orders.handover("r3", at=25) == 25
    write(orders, "r3", [("e", 3, 45, 1)], 50)
    orders.advance()
    steps = list(opened(url).subscribe(0, timeout=0.0, poll=0.0))
    assert [(step.lower, step.upper) for step in steps] == [(0, 1), (1, 20), (20, 21), (21, 25), (25, 26), (26, 50)]
    total: Counter[tuple[Any, ...]] = Counter()
    seen = []
    for step in steps:
        add(total, step.records)
        seen.append(present(total))
    assert seen == [
        {},
        {("a", 1): 1, ("b", 1): 1},
        {("a", 2): 1, ("b", 2): 1, ("c", 2): 1},
        {("a", 2): 1, ("b", 2): 1, ("c", 2): 1},
        {("a", 3): 1, ("d", 3): 1},
        {("a", 3): 1, ("d", 3): 1, ("e", 3): 1},
    ]
    for frontier in range(1, 50):
        resumed: Counter[tuple[Any, ...]] = Counter(contents(orders.snapshot(frontier - 1)))
        for step in opened(url).subscribe(frontier=frontier, timeout=0.0, poll=0.0):
            add(resumed, step.records)
        assert present(resumed) == seen[-1], frontier


def test_what_two_renditions_have_in_common_is_not_emitted_at_the_handover(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [("same", 7, 5, 1), ("wrong", 1, 5, 1)], 30)
    orders.add_rendition("r2", definition(2))
    write(orders, "r2", [("same", 7, 5, 1), ("wrong", 2, 5, 1)], 30)
    orders.handover("r2", at=20)
    (switch,) = [step for step in orders.subscribe(0, timeout=0.0, poll=0.0) if step.lower == 20]
    assert sorted((row["id"], row["cents"], row["_diff"]) for row in switch.records.to_pylist()) == [
        ("wrong", 1, -1),
        ("wrong", 2, 1),
    ]


def test_columns_may_come_and_go_at_a_handover_and_are_null_where_they_are_not(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [("a", 1, 5, 1)], 30)
    columns = [
        {"name": "id", "type": "string"},
        {"name": "note", "type": "string", "expression": "'n'"},
    ]
    orders.add_rendition("r2", definition(columns=columns, shards=1))
    import pyarrow as pa

    (shard,) = orders.rendition("r2").shards
    shard.compare_and_append(pa.table({"id": ["a"], "note": ["n"], "_time": [5], "_diff": [1]}), 0, 30)
    orders.handover("r2", at=20)
    total: Counter[tuple[Any, ...]] = Counter()
    names = ("id", "cents", "note")
    steps = list(orders.subscribe(10, timeout=0.0, poll=0.0))
    for step in steps:
        add(total, step.records, names)
    assert present(total) == {("a", None, "n"): 1}
    (switch,) = [step for step in steps if step.lower == 20]
    assert switch.records.column_names == ["id", "note", "cents", "_time", "_diff"]
    assert sorted(map(str, switch.records.to_pylist())) == [
        "{'id': 'a', 'note': 'n', 'cents': None, '_time': 20, '_diff': 1}",
        "{'id': 'a', 'note': None, 'cents': 1, '_time': 20, '_diff': -1}",
    ]
    assert contents(orders.snapshot(20), names) == {("a", None, "n"): 1}


def test_a_live_subscriber_follows_writers_and_a_handover(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [("a", 1, 5, 1)], 10)
    orders.advance()
    total: Counter[tuple[Any, ...]] = Counter()
    frontiers: list[int] = []

    def subscribe() -> None:
        for step in opened(url).subscribe(0, timeout=20, poll=0.01, lease_seconds=2):
            add(total, step.records)
            frontiers.append(step.upper)
            if step.upper >= 100:
                return

    reader = threading.Thread(target=subscribe)
    reader.start()
    orders.add_rendition("r2", definition(2))
    for upper in range(20, 60, 10):
        write(orders, "r1", [("x", 1, upper - 1, 1)], upper)
        orders.advance()
        time.sleep(0.02)
    write(orders, "r2", [("a", 2, 5, 1)], 80)
    orders.mark_standby("r2")
    write(orders, "r1", [], 100)
    orders.advance()
    assert orders.handover("r2") == 79
    write(orders, "r2", [("b", 2, 90, 1)], 100)
    orders.advance()
    reader.join()
    assert frontiers == sorted(set(frontiers))
    assert frontiers[-1] == 100
    assert present(total) == {("a", 2): 1, ("b", 2): 1}
    assert opened(url)._metadata.state.leases == {}


def test_a_reader_that_comes_too_late_is_told_where_history_begins(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [("a", 1, 5, 1)], 5000)
    orders.advance()
    orders.retain(0)
    for ask in (
        lambda: orders.snapshot(4998),
        lambda: next(orders.subscribe(4998)),
        lambda: next(orders.subscribe(frontier=4999)),
        lambda: next(orders.subscribe(frontier=0)),
        lambda: next(opened(url, read_only=True).subscribe(frontier=4999)),
        lambda: next(opened(url, read_only=True).subscribe(4998)),
    ):
        with pytest.raises(NotReadable, match=r"history before (4999|5000) may have been compacted"):
            ask()
    assert contents(next(orders.subscribe(4999)).records) == {("a", 1): 1}
    assert contents(next(orders.subscribe()).records) == {("a", 1): 1}


def test_a_time_that_is_not_definite_yet_is_awaited(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [("a", 1, 5, 1)], 10)
    with pytest.raises(NotYet) as caught:
        orders.snapshot(5)
    assert str(caught.value) == (
        "collection orders: asked for time 5, readable up to 1 (exclusive); "
        "wait for ingestion, or read at an earlier time"
    )
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.append(contents(opened(url).snapshot(5, timeout=20))))
    reader.start()
    orders.advance()
    reader.join()
    assert found == [{("a", 1): 1}]


def test_a_reader_from_the_very_beginning_may_resume_at_frontier_0(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [("a", 1, 0, 1)], 3)
    orders.advance()
    for reader in (orders, opened(url, read_only=True)):
        (step,) = reader.subscribe(frontier=0, timeout=0.0, poll=0.0)
        assert (step.lower, step.upper, contents(step.records)) == (0, 3, {("a", 1): 1})


def test_a_closed_subscription_keeps_nothing(url: str) -> None:
    orders = made(url)
    write(orders, "r1", [("a", 1, 0, 1)], 3)
    orders.advance()
    changes = orders.subscribe(0)
    next(changes)
    assert len(orders._metadata.refresh().leases) == 1
    changes.close()
    assert orders._metadata.refresh().leases == {}
