"""Which rendition a collection is at each time, as a pure value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import NotFound, Refused
from seamark.storage.metadata import (
    ABANDONED,
    ACTIVE,
    BUILDING,
    CONDEMNED,
    RETIRED,
    STANDBY,
    Change,
    Row,
    Timeline,
    collectable,
    moves,
    to_records,
    to_timeline,
)

R1, R2 = Row("r1", ACTIVE, 0, "one"), Row("r2", STANDBY, 5, "two")


def begun() -> Timeline:
    return Timeline(0, 10, frozenset({R1}), (Change(5, R2, +1),))


def moved(timeline: Timeline, to: dict[str, str | None], time: int) -> Timeline:
    changes = tuple(Change(time, row, diff) for row, diff in moves(timeline, to, time))
    return Timeline(timeline.start, time + 1, timeline.first, (*timeline.changes, *changes))


def test_a_handover_takes_effect_at_its_time_and_not_before() -> None:
    timeline = moved(begun(), {"r1": RETIRED, "r2": ACTIVE}, 20)
    assert [timeline.active_at(time) for time in (0, 19, 20, 99)] == ["r1", "r1", "r2", "r2"]
    assert timeline.active == "r2"
    assert timeline.next_handover(0) == timeline.next_handover(19) == (20, "r2")
    assert timeline.next_handover(20) is None
    assert timeline.handed_over_at("r1") == 20
    assert timeline.handed_over_at("r2") is None


def test_the_same_rendition_may_be_active_again() -> None:
    timeline = moved(begun(), {"r1": RETIRED, "r2": ACTIVE}, 20)
    back = moved(timeline, {"r2": RETIRED, "r1": ACTIVE}, 30)
    assert [back.active_at(time) for time in (19, 20, 29, 30)] == ["r1", "r2", "r2", "r1"]
    assert (back.next_handover(19), back.next_handover(20)) == ((20, "r2"), (30, "r1"))


@pytest.mark.parametrize("to", [{"r1": RETIRED}, {"r2": ACTIVE}, {"r1": None}])
def test_exactly_one_rendition_stays_active(to: dict[str, str | None]) -> None:
    with pytest.raises(Refused, match="exactly one rendition must be active, this would leave"):
        moves(begun(), to, 20)


def test_a_rendition_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match="no rendition 'r9'; there are r1, r2"):
        begun().row("r9")


def test_every_candidate_that_stands_by_is_known() -> None:
    third = Change(6, Row("r3", STANDBY, 6, "three"), +1)
    timeline = Timeline(0, 10, frozenset({R1}), (*begun().changes, third))
    assert timeline.standby() == ["r2", "r3"]


def test_what_readers_may_still_need_is_not_collectable() -> None:
    timeline = moved(begun(), {"r1": RETIRED, "r2": ACTIVE}, 20)
    assert [collectable(timeline, "r1", since) for since in (0, 19, 20, 21)] == [False, False, False, True]
    assert not collectable(timeline, "r2", 10**9)


def test_what_was_never_read_is_collectable_at_once() -> None:
    assert not collectable(begun(), "r2", 10**9)
    assert collectable(moved(begun(), {"r2": ABANDONED}, 20), "r2", 0)


def test_a_condemned_rendition_remembers_when_it_ceased_to_be_read() -> None:
    timeline = moved(begun(), {"r1": RETIRED, "r2": ACTIVE}, 20)
    timeline = moved(timeline, {"r1": CONDEMNED}, 40)
    assert timeline.handed_over_at("r1") == 20
    gone = moved(timeline, {"r1": None}, 50)
    assert sorted(gone.now) == ["r2"]
    assert gone.handed_over_at("r1") is None


steps = st.lists(
    st.tuples(st.sampled_from(("add", "standby", "handover", "abandon", "condemn", "gone")), st.integers(0, 4)),
    max_size=20,
)


@given(steps, st.integers(0, 40))
def test_there_is_one_active_rendition_at_every_time_wherever_history_begins(
    history: list[tuple[str, int]], start: int
) -> None:
    timeline = Timeline(0, 1, frozenset({R1}), ())
    roles = {"standby": STANDBY, "abandon": ABANDONED, "condemn": CONDEMNED, "gone": None}
    for number, (step, gap) in enumerate(history):
        time = timeline.upper + gap
        others = sorted(set(timeline.now) - {timeline.active})
        if step == "add":
            row = Row(f"r{number + 2}", BUILDING, time, "")
            change = (Change(time, row, +1),)
            timeline = Timeline(0, time + 1, timeline.first, (*timeline.changes, *change))
        elif others and step == "handover":
            timeline = moved(timeline, {timeline.active: RETIRED, others[-1]: ACTIVE}, time)
        elif others:
            timeline = moved(timeline, {others[0]: roles[step]}, time)
    start = min(start, timeline.upper - 1)
    first = to_records([(row, 1) for row in timeline.at(start)], start).drop_columns(["_time"])
    later = [change for change in timeline.changes if change.time > start]
    import pyarrow as pa

    empty = to_records([], 0)
    changes = pa.concat_tables([empty, *(to_records([(c.row, c.diff)], c.time) for c in reversed(later))])
    cut = to_timeline(first, changes, start, timeline.upper)
    for time in range(start, timeline.upper + 2):
        assert sum(row.role == ACTIVE for row in cut.at(time)) == 1
        assert cut.at(time) == timeline.at(time)
        assert cut.next_handover(time) == timeline.next_handover(time)
