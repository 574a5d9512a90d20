"""Claims about envelopes, against a row-by-row model."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa

from seamark_spark.envelope import add_each, upsert

EVENTS = pa.schema(
    [
        ("k", pa.string()),
        ("j", pa.int64()),
        ("v", pa.float64()),
        ("s", pa.string()),
        ("_time", pa.int64()),
        ("_ordinal", pa.int32()),
        ("_offset", pa.int64()),
        ("_delete", pa.bool_()),
    ]
)
COLUMNS, KEY = ["k", "j", "v", "s"], ["k", "j"]


def table(events: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(EVENTS.names, event, strict=True)) for event in events], schema=EVENTS)


def old(*rows: tuple[Any, ...]) -> pa.Table:
    schema = pa.schema(list(EVENTS)[:4])
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], schema=schema)


def changes(result: pa.Table) -> Counter[str]:
    """As text, where NaN equals NaN."""
    total: Counter[str] = Counter()
    for row in result.to_pylist():
        total[repr(tuple(row[name] for name in (*COLUMNS, "_time")))] += row["_diff"]
    return Counter({key: diff for key, diff in total.items() if diff})


def test_none_adds_every_record_once() -> None:
    events = table([("a", 1, 1.0, None, 5, 0, 0, False), ("a", 1, 1.0, None, 5, 0, 9, False)])
    assert add_each(events, COLUMNS).to_pydict() == {
        "k": ["a", "a"], "j": [1, 1], "v": [1.0, 1.0], "s": [None, None], "_time": [5, 5], "_diff": [1, 1],
    }  # fmt: skip


def test_the_last_record_of_a_key_at_a_time_wins_by_file_and_offset() -> None:
    events = table([
        ("a", 1, 3.0, "x", 5, 1, 0, False),
        ("a", 1, 2.0, "x", 5, 0, 50, False),
        ("a", 1, 1.0, "x", 5, 0, 7, False),
    ])  # fmt: skip
    assert changes(upsert(events, old(), COLUMNS, KEY)) == {"('a', 1, 3.0, 'x', 5)": 1}


def test_each_version_replaces_the_one_before_it() -> None:
    events = table([("a", 1, 1.0, "x", 5, 0, 0, False), ("a", 1, 2.0, "x", 7, 1, 0, False)])
    assert changes(upsert(events, old(("a", 1, 0.5, None)), COLUMNS, KEY)) == {
        "('a', 1, 0.5, None, 5)": -1,
        "('a', 1, 1.0, 'x', 5)": 1,
        "('a', 1, 1.0, 'x', 7)": -1,
        "('a', 1, 2.0, 'x', 7)": 1,
    }


def test_a_delete_only_retracts_and_of_an_absent_key_does_nothing() -> None:
    events = table([("a", 1, None, None, 5, 0, 0, True), ("b", 1, None, None, 5, 0, 9, True)])
    assert changes(upsert(events, old(("a", 1, 0.5, "x")), COLUMNS, KEY)) == {"('a', 1, 0.5, 'x', 5)": -1}


def test_an_equal_version_changes_nothing_nor_do_nulls_and_nans() -> None:
    events = table([("a", 1, float("nan"), None, 5, 0, 0, False), ("b", 1, None, "x", 5, 0, 1, False)])
    result = upsert(events, old(("a", 1, float("nan"), None), ("b", 1, None, "x")), COLUMNS, KEY)
    assert result.num_rows == 0


def test_a_value_that_becomes_null_is_a_change() -> None:
    events = table([("a", 1, None, "x", 5, 0, 0, False)])
    assert sum(abs(n) for n in changes(upsert(events, old(("a", 1, 1.0, "x")), COLUMNS, KEY)).values()) == 2


def test_no_events_no_changes() -> None:
    assert upsert(table([]), old(("a", 1, 1.0, "x")), COLUMNS, KEY).num_rows == 0
    assert add_each(table([]), COLUMNS).num_rows == 0


def model(events: list[tuple[Any, ...]], before: list[tuple[Any, ...]]) -> Counter[str]:
    state = {row[:2]: row for row in before}
    total: Counter[str] = Counter()
    for moment in sorted({event[4] for event in events}):
        start = dict(state)
        for event in sorted((e for e in events if e[4] == moment), key=lambda e: (e[5], e[6])):
            if event[7]:
                state.pop(event[:2], None)
            else:
                state[event[:2]] = event[:4]
        for row in start.values():
            total[repr((*row, moment))] -= 1
        for row in state.values():
            total[repr((*row, moment))] += 1
    return Counter({key: diff for key, diff in total.items() if diff})


def test_upsert_agrees_with_a_row_by_row_model() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(60):
        keys = [(letter, number) for letter in "abcé" for number in (1, 2)]
        before = [(*key, chance.choice([None, 1.0, 2.0]), "x") for key in keys if chance.random() < 0.5]
        events = [
            (
                *chance.choice(keys),
                chance.choice([None, 1.0, 2.0, float("nan")]),
                chance.choice(["x", None]),
                10 + ordinal // 2,
                ordinal,
                offset,
                chance.random() < 0.2,
            )
            for ordinal in range(6)
            for offset in range(chance.randrange(8))
        ]
        chance.shuffle(events)
        assert changes(upsert(table(events), old(*before), COLUMNS, KEY)) == model(events, before)
