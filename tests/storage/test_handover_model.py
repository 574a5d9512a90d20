"""Whatever the schedule of writers, handovers and readers, every reader sees one definite collection.

The model: the rows of each rendition as plain lists, and which rendition is active from which time on. Contents at t
are those of the rendition active at t, and what a subscriber has accumulated must equal them at every frontier.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seamark.errors import Held, NotReadable, NotYet, Refused
from seamark.storage import Collection, collection
from tests.storage.shop import Contents, Row, add, contents, definition, made, new_url, objects, opened, present, write

rows = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3), st.integers(0, 5)), max_size=4)
GONE = ("retired", "abandoned", "condemned")


class Subscriber:
    def __init__(self, handle: Collection, as_of: int) -> None:
        self.handle = handle
        self.as_of = as_of
        self.frontier: int | None = None
        self.total: Counter[tuple[Any, ...]] = Counter()


class EveryReaderSeesOneCollection(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(collection, "RETENTION_STEP", 1)
        self.patch.setattr(collection, "FOLLOW_STEP", 2)
        self.url = new_url()
        made(self.url)
        self.handles = [opened(self.url), opened(self.url)]
        self.written: dict[str, list[Row]] = {"r1": []}
        self.uppers = {"r1": 0}
        self.roles = {"r1": "active"}
        self.handovers: list[tuple[int, str]] = [(0, "r1")]
        self.upper = 1
        self.since = 0
        self.holds: dict[str, int] = {}
        self.retention = 0
        self.subscribers: list[Subscriber] = []

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            for one in list(self.subscribers):
                self.pump(one, 1000)
            for time in range(self.since, self.readable):
                assert contents(self.handles[0].snapshot(time)) == self.definite(time)
            self.patch.undo()

    @property
    def active(self) -> str:
        return self.handovers[-1][1]

    @property
    def readable(self) -> int:
        return min(self.upper, self.uppers[self.active])

    def definite(self, as_of: int) -> Contents:
        name = [name for time, name in self.handovers if time <= as_of][-1]
        total: Counter[tuple[Any, ...]] = Counter()
        for key, cents, time, diff in self.written[name]:
            if time <= as_of:
                total[key, cents] += diff
        return present(total)

    def living(self) -> list[str]:
        return [name for name, role in self.roles.items() if role not in GONE]

    def candidates(self) -> list[str]:
        return [name for name, role in self.roles.items() if role in ("building", "standby")]

    @rule(who=st.integers(0, 1), data=st.data(), rows=rows, width=st.integers(1, 6))
    def ingest(self, who: int, data: st.DataObject, rows: list[tuple[str, int, int]], width: int) -> None:
        name = data.draw(st.sampled_from(self.living()))
        factor = int(name[1:])
        lower = self.uppers[name]
        found = [(key, cents * factor, lower + at % width, 1) for key, cents, at in rows]
        found += [("every", factor, lower + at, 1) for at in range(width)]
        write(self.handles[who], name, found, lower + width)
        self.written[name] += found
        self.uppers[name] = lower + width

    @rule(who=st.integers(0, 1), width=st.integers(1, 6))
    @precondition(lambda self: len(self.roles) < 6)
    def rebuild(self, who: int, width: int) -> None:
        self.add_rendition(who)
        name = f"r{len(self.roles)}"
        upper = self.upper + width
        found = [("every", int(name[1:]), time, 1) for time in range(upper)]
        write(self.handles[who], name, found, upper)
        self.written[name], self.uppers[name] = found, upper
        self.take_over(name, who, close=True)

    @rule(who=st.integers(0, 1))
    def advance(self, who: int) -> None:
        limits = [self.uppers[name] - 1 for name, role in self.roles.items() if role == "standby"]
        self.upper = max(self.upper, min([self.uppers[self.active], *limits]))
        assert self.handles[who].advance() == self.upper

    @rule(who=st.integers(0, 1))
    @precondition(lambda self: len(self.candidates()) < 2 and len(self.roles) < 6)
    def add_rendition(self, who: int) -> None:
        name = f"r{len(self.roles) + 1}"
        self.handles[who].add_rendition(name, definition(len(self.roles) + 1))
        self.written[name], self.uppers[name], self.roles[name] = [], 0, "building"
        self.upper += 1

    @rule(who=st.integers(0, 1), data=st.data())
    @precondition(lambda self: self.candidates())
    def mark_standby(self, who: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.candidates()))
        self.handles[who].mark_standby(name)
        if self.roles[name] == "building":
            self.roles[name] = "standby"
            self.upper += 1

    @rule(who=st.integers(0, 1), data=st.data(), later=st.integers(0, 3), close=st.booleans())
    @precondition(lambda self: self.candidates())
    def hand_over(self, who: int, data: st.DataObject, later: int, close: bool) -> None:
        name = data.draw(st.sampled_from(self.candidates()))
        at = self.upper + later if later else None
        time = self.upper + later
        if self.uppers[name] <= time:
            with pytest.raises(Refused, match="can be read only at times from"):
                self.handles[who].handover(name, at, close_old=close)
        elif self.uppers[self.active] < time and not close:
            with pytest.raises(NotYet, match="is written only up to"):
                self.handles[who].handover(name, at)
        else:
            self.take_over(name, who, at, close=close)

    def take_over(self, name: str, who: int, at: int | None = None, *, close: bool) -> None:
        time = self.upper if at is None else at
        assert self.handles[who].handover(name, at, close_old=close) == time
        self.uppers[self.active] = max(self.uppers[self.active], time)
        self.roles[self.active], self.roles[name] = "retired", "active"
        self.handovers.append((time, name))
        self.upper = time + 1
        assert self.handles[1 - who].handover(name) == time

    @rule(who=st.integers(0, 1), data=st.data())
    @precondition(lambda self: self.candidates())
    def abandon(self, who: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.candidates()))
        self.handles[who].abandon(name, "test")
        self.roles[name] = "abandoned"
        self.upper += 1

    @rule(who=st.integers(0, 1), time=st.integers(0, 80))
    def read(self, who: int, time: int) -> None:
        if time < self.since:
            with pytest.raises(NotReadable):
                self.handles[who].snapshot(time)
        elif time >= self.readable:
            with pytest.raises(NotYet):
                self.handles[who].snapshot(time)
        else:
            assert contents(self.handles[who].snapshot(time)) == self.definite(time)

    @rule(fresh=st.booleans(), data=st.data())
    @precondition(lambda self: self.readable > self.since and len(self.subscribers) < 4)
    def start_a_subscriber(self, fresh: bool, data: st.DataObject) -> None:
        as_of = data.draw(st.integers(self.since, self.readable - 1))
        handle = opened(self.url, read_only=data.draw(st.booleans())) if fresh else self.handles[0]
        self.subscribers.append(Subscriber(handle, as_of))

    @rule(data=st.data(), most=st.integers(1, 4), fresh=st.booleans())
    @precondition(lambda self: self.subscribers)
    def a_subscriber_goes_on_or_is_killed_and_resumed(self, data: st.DataObject, most: int, fresh: bool) -> None:
        one = data.draw(st.sampled_from(self.subscribers))
        if fresh:
            one.handle = opened(self.url)
        self.pump(one, most)

    def pump(self, one: Subscriber, most: int) -> None:
        if one.frontier is None:
            changes = one.handle.subscribe(one.as_of, timeout=0.0, poll=0.0)
        else:
            changes = one.handle.subscribe(frontier=one.frontier, timeout=0.0, poll=0.0)
        needed = one.as_of if one.frontier is None else one.frontier - 1
        if needed < self.since:
            with pytest.raises(NotReadable):
                next(changes)
            self.subscribers.remove(one)
            return
        for count, step in enumerate(changes, start=1):
            assert step.lower == (one.as_of if one.frontier is None else one.frontier)
            assert all(step.lower <= time < step.upper for time in step.records.column("_time").to_pylist())
            add(one.total, step.records)
            one.frontier = step.upper
            assert present(one.total) == self.definite(one.frontier - 1)
            if count == most:
                changes.close()
                return
        assert one.frontier == max(self.readable, one.as_of + 1)

    @rule(who=st.integers(0, 1), millis=st.integers(0, 20))
    def retain(self, who: int, millis: int) -> None:
        target = max(0, self.readable - 1 - millis)
        free = min([self.retention, *self.holds.values(), self.upper - 1])
        if target > self.retention or free > self.since:
            self.retention = max(target, self.retention, self.since)
            self.since = max(self.since, min([self.retention, *self.holds.values(), self.upper - 1]))
        assert self.handles[who].retain(millis) == self.since

    @rule(who=st.integers(0, 1), data=st.data())
    def hold(self, who: int, data: st.DataObject) -> None:
        time = data.draw(st.integers(max(self.since, self.holds.get("reader", 0)), self.upper + 5))
        moved = self.holds.get("reader") != time
        self.handles[who].hold("reader", time)
        self.holds["reader"] = time
        if moved:
            self.since = max(self.since, min([self.retention, *self.holds.values(), self.upper - 1]))

    @rule(who=st.integers(0, 1))
    def unhold(self, who: int) -> None:
        self.handles[who].unhold("reader")
        if self.holds.pop("reader", None) is not None:
            self.since = max(self.since, min(self.retention, self.upper - 1))

    @rule(who=st.integers(0, 1), data=st.data())
    def collect(self, who: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.roles)))
        role = self.roles[name]
        ended = [time for time, other in self.handovers if self.previous(time) == name]
        if role in ("abandoned",) or (role == "retired" and self.since > ended[-1]):
            self.handles[who].condemn(name)
            self.handles[1 - who].condemn(name)
            self.handles[1 - who].sweep(name)
            assert self.handles[who].sweep(name) == 0
            self.roles[name] = "condemned"
            self.upper += 2
            assert not [found for found in objects(self.handles[0]._location) if f"orders/{name}/" in found]
        elif role != "condemned":
            with pytest.raises(Held):
                self.handles[who].condemn(name)

    def previous(self, time: int) -> str | None:
        before = [name for at, name in self.handovers if at < time]
        return before[-1] if before else None

    @invariant()
    def the_frontiers_are_as_modelled(self) -> None:
        if hasattr(self, "handles"):
            handle = self.handles[0]
            handle.refresh()
            assert (handle.since, handle.upper, handle.timeline.active) == (self.since, self.readable, self.active)


TestEveryReaderSeesOneCollection = EveryReaderSeesOneCollection.TestCase
TestEveryReaderSeesOneCollection.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)
