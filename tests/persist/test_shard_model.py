"""A shard, with writers that contend and readers that come and go, equals a plain list of records."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from seamark.errors import Fenced, LeaseLost, Locked, NotReadable, NotYet, Refused, UpperMismatch
from seamark.persist import Lease, Location, Shard, holds, machine, shard
from tests.persist.rows import SCHEMA, Record, accumulated, new_location, present, table

HANDLES = 3
handles = st.integers(0, HANDLES - 1)
rows = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 2),
        st.integers(0, 4),
        st.sampled_from((-1, 1, 2)),
    ),
    max_size=6,
)


class Listener:
    def __init__(self, frontier: int, total: Counter[tuple[str, int]]) -> None:
        self.frontier = frontier
        self.total = total


class ShardIsAList(RuleBasedStateMachine):
    """The model: every record, the frontiers, the holds. The shard must agree after every step."""

    @initialize(inline=st.booleans())
    def begin(self, inline: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        self.now = 1000
        for module in (holds, shard):
            self.patch.setattr(module, "now_millis", lambda: self.now)
        self.patch.setattr(machine, "CHECKPOINT_EVERY", 5)
        self.patch.setattr(shard, "INLINE_WRITE", 16_384 if inline else 0)
        self.url = new_location()
        Location.open(self.url).create_shard("s", SCHEMA)
        self.shards: list[Shard] = [self.open() for _ in range(HANDLES)]
        self.records: list[Record] = []
        self.since = self.upper = self.epoch = 0
        self.lock: str | None = None
        self.holds: dict[str, int] = {}
        self.leases: list[tuple[Lease, int]] = []
        self.listeners: list[Listener] = []

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    def open(self) -> Shard:
        return Location.open(self.url).open_shard("s")

    def contents(self, as_of: int) -> dict[tuple[str, int], int]:
        total: Counter[tuple[str, int]] = Counter()
        for key, n, time, diff in self.records:
            if time <= as_of:
                total[key, n] += diff
        return present(total)

    def release(self) -> None:
        if self.holds:
            live = [lease.time for lease, expires in self.leases if expires >= self.now]
            self.since = max(self.since, min([*self.holds.values(), *live, self.upper - 1]))

    @rule(who=handles, rows=rows, width=st.integers(1, 5))
    def append(self, who: int, rows: list[Record], width: int) -> None:
        lower = self.upper
        records = [(key, n, lower + at % width, diff) for key, n, at, diff in rows]
        epoch = self.epoch if self.lock else None
        self.shards[who].compare_and_append(table(records), lower, lower + width, epoch=epoch)
        self.records += records
        self.upper += width

    @rule(who=handles, width=st.integers(0, 3))
    def seal(self, who: int, width: int) -> None:
        self.shards[who].compare_and_append(None, self.upper, self.upper + width, epoch=self.epoch or None)
        self.upper += width

    @rule(who=handles, off=st.sampled_from((-2, -1, 1, 2)), rows=rows)
    def append_at_the_wrong_time(self, who: int, off: int, rows: list[Record]) -> None:
        lower = self.upper + off
        records = [(key, n, lower, diff) for key, n, _, diff in rows]
        with pytest.raises(UpperMismatch) as caught:
            self.shards[who].compare_and_append(table(records), lower, lower + 1, epoch=self.epoch or None)
        assert caught.value.upper == self.upper or lower < (caught.value.upper or 0) <= self.upper

    @rule(who=handles, by=st.sampled_from(("left", "right")), broke=st.booleans())
    def take_the_lock(self, who: int, by: str, broke: bool) -> None:
        if self.lock in (None, by) or broke:
            assert self.shards[who].acquire(by, by, break_lock=broke) == self.epoch + 1
            self.epoch, self.lock = self.epoch + 1, by
        else:
            with pytest.raises(Locked):
                self.shards[who].acquire(by, by)

    @rule(who=handles, back=st.integers(0, 2))
    def give_the_lock_back(self, who: int, back: int) -> None:
        self.shards[who].release(self.epoch - back)
        if back == 0:
            self.lock = None

    @rule(who=handles, back=st.integers(1, 3))
    def append_with_an_older_epoch(self, who: int, back: int) -> None:
        if self.epoch >= back:
            with pytest.raises(Fenced):
                self.shards[who].compare_and_append(None, self.upper, self.upper + 1, epoch=self.epoch - back)

    @rule(who=handles)
    def append_without_the_lock(self, who: int) -> None:
        if self.lock:
            with pytest.raises(Locked):
                self.shards[who].compare_and_append(None, self.upper, self.upper + 1)

    @rule(who=handles, at=st.integers(0, 60))
    def read(self, who: int, at: int) -> None:
        self.shards[who].refresh()
        if at >= self.upper:
            with pytest.raises(NotYet):
                self.shards[who].snapshot(at)
        elif at < self.since:
            with pytest.raises(NotReadable):
                self.shards[who].snapshot(at)
        else:
            assert accumulated(self.shards[who].snapshot(at)) == self.contents(at)

    @rule(who=handles, at=st.integers(0, 60), width=st.integers(0, 20))
    def read_changes(self, who: int, at: int, width: int) -> None:
        self.shards[who].refresh()
        upper = min(at + width, self.upper)
        if self.since < at <= upper or self.since == 0 <= at <= upper:
            wanted: Counter[tuple[str, int, int]] = Counter()
            for key, n, time, diff in self.records:
                if at <= time < upper:
                    wanted[key, n, time] += diff
            found = self.shards[who].changes(at, upper).to_pylist()
            assert {(row["id"], row["n"], row["_time"]): row["_diff"] for row in found} == {
                key: diff for key, diff in wanted.items() if diff
            }

    @rule(who=handles, keys=st.sets(st.sampled_from("abcz"), max_size=3), back=st.integers(1, 8))
    def look_up(self, who: int, keys: set[str], back: int) -> None:
        as_of = self.upper - back
        if self.since <= as_of:
            found = self.shards[who].lookup(table((key, 0, 0, 0) for key in sorted(keys)).select(["id"]), as_of)
            wanted = {row for row in self.contents(as_of) if row[0] in keys}
            assert {(row["id"], row["n"]) for row in found.to_pylist()} == wanted

    @rule(who=handles, name=st.sampled_from(("one", "two")), time=st.integers(0, 60))
    def hold(self, who: int, name: str, time: int) -> None:
        if time < self.since:
            with pytest.raises(NotReadable):
                self.shards[who].hold(name, time)
        elif time < self.holds.get(name, 0):
            with pytest.raises(Refused, match="cannot go back"):
                self.shards[who].hold(name, time)
        else:
            self.shards[who].hold(name, time)
            self.holds[name] = time
            self.release()

    @rule(who=handles, name=st.sampled_from(("one", "two")))
    def unhold(self, who: int, name: str) -> None:
        self.shards[who].unhold(name)
        if self.holds.pop(name, None) is not None:
            self.release()

    @rule(who=handles, time=st.integers(0, 60), seconds=st.integers(1, 5))
    def lease(self, who: int, time: int, seconds: int) -> None:
        if time < self.since:
            with pytest.raises(NotReadable):
                self.shards[who].lease(time, seconds)
        else:
            self.leases.append((self.shards[who].lease(time, seconds), self.now + seconds * 1000))
            self.release()

    @rule(millis=st.integers(500, 3000), data=st.data())
    def time_passes_and_leases_are_renewed_or_lost(self, millis: int, data: st.DataObject) -> None:
        self.now += millis
        for index, (lease, expires) in enumerate(list(self.leases)):
            if not data.draw(st.booleans()):
                continue
            if expires < self.now:
                with pytest.raises(LeaseLost):
                    lease.heartbeat(force=True)
            else:
                lease.heartbeat(force=True)
                self.leases[index] = (lease, self.now + int(lease._seconds * 1000))
                self.release()

    @rule(who=handles)
    def open_again(self, who: int) -> None:
        self.shards[who] = self.open()

    @rule(who=handles)
    def subscribe(self, who: int) -> None:
        if self.upper > 0:
            as_of = self.upper - 1
            total: Counter[tuple[str, int]] = Counter()
            accumulated(self.shards[who].snapshot(as_of), total)
            self.listeners.append(Listener(as_of + 1, total))

    @rule(who=handles)
    def listen(self, who: int) -> None:
        for listener in list(self.listeners):
            try:
                for step in self.shards[who].listen(listener.frontier - 1, timeout=0.0):
                    assert step.lower == listener.frontier
                    accumulated(step.records, listener.total)
                    listener.frontier = step.upper
            except NotReadable:
                assert listener.frontier - 1 < self.since
                self.listeners.remove(listener)
                continue
            assert listener.frontier == self.upper
            assert present(listener.total) == self.contents(listener.frontier - 1)

    @invariant()
    def every_handle_sees_the_same(self) -> None:
        for handle in getattr(self, "shards", [])[:1]:
            state = handle.refresh()
            assert (state.since, state.upper, state.epoch) == (self.since, self.upper, self.epoch)
            assert handle.holds == self.holds


TestShardIsAList = ShardIsAList.TestCase
TestShardIsAList.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
