"""The state machine of a shard is a pure function: what each command does, and what it refuses."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import (
    Dropped,
    Fenced,
    HoldMismatch,
    LeaseLost,
    Locked,
    NameTaken,
    NotFound,
    NotReadable,
    Refused,
    SchemaMismatch,
    UpperMismatch,
)
from seamark.persist import commands as c
from seamark.persist.schema import Column, Schema
from seamark.persist.state import ShardState, apply, releasable
from tests.persist.rows import SCHEMA

EMPTY = ShardState(shard="s", schema=SCHEMA, owner="me")


def after(*commands: c.AnyCommand, state: ShardState | None = EMPTY) -> ShardState:
    for command in commands:
        state = apply(state, command, "s")
    assert state is not None
    return state


def advance(lower: int, upper: int, epoch: int | None = None) -> c.Append:
    return c.Append(lower=lower, upper=upper, epoch=epoch, batch=None)


def lock(who: str, *, broke: bool = False) -> c.Lock:
    return c.Lock(reentrance_id=who, holder=f"{who}-1", reason="", broke=broke)


def batch(lower: int, upper: int, first: int, last: int) -> c.Append:
    return c.Append(lower=lower, upper=upper, epoch=None, batch=c.Batch(lower, upper, (), b"x", 1, first, last))


def test_nothing_happens_to_a_shard_that_was_not_created() -> None:
    with pytest.raises(NotFound, match="shard s does not exist; create it first"):
        apply(None, advance(0, 1), "s")


def test_creating_again_is_nothing_for_the_same_owner_and_columns() -> None:
    assert apply(EMPTY, c.Create(schema=SCHEMA, owner="me"), "s") is EMPTY


def test_a_shard_belongs_to_its_owner() -> None:
    with pytest.raises(NameTaken, match="shard s belongs to 'me', 'you' asked for it; choose another name"):
        apply(EMPTY, c.Create(schema=SCHEMA, owner="you"), "s")


def test_the_columns_of_a_shard_are_fixed() -> None:
    other = Schema(columns=(Column("id", "string"),), key=("id",))
    message = "made with columns (id string, n int64), asked for (id string); a shard's columns are fixed"
    with pytest.raises(SchemaMismatch, match=re.escape(message)):
        apply(EMPTY, c.Create(schema=other, owner="me"), "s")


def test_an_append_must_begin_where_the_shard_ends() -> None:
    state = after(advance(0, 5))
    with pytest.raises(UpperMismatch) as caught:
        apply(state, advance(4, 6), "s")
    assert caught.value.upper == 5


def test_frontiers_only_grow() -> None:
    with pytest.raises(Refused, match="upper 2 is before lower 5; frontiers only grow"):
        apply(after(advance(0, 5)), advance(5, 2), "s")


@pytest.mark.parametrize(("first", "last"), [(4, 6), (5, 10), (5, 12)])
def test_records_outside_of_the_appended_interval_are_refused(first: int, last: int) -> None:
    with pytest.raises(Refused, match=f"records have times {first} to {last}, outside"):
        apply(after(advance(0, 5)), batch(5, 10, first, last), "s")


def test_a_locked_shard_takes_only_what_its_holder_appends() -> None:
    state = after(lock("a"))
    with pytest.raises(Locked, match=re.escape("locked for writing by 'a-1' (reentrance id 'a', epoch 1)")):
        apply(state, advance(0, 1), "s")
    assert apply(state, advance(0, 1, epoch=1), "s").upper == 1


def test_another_reentrance_id_waits_or_breaks_the_lock() -> None:
    state = after(lock("a"))
    with pytest.raises(Locked, match="wait until it is released, or break the lock with a reason"):
        apply(state, lock("b"), "s")
    broken = apply(state, lock("b", broke=True), "s")
    assert (broken.epoch, broken.lock and broken.lock.reentrance_id) == (2, "b")


def test_the_same_reentrance_id_takes_the_lock_again_and_fences_its_former_self() -> None:
    state = after(lock("a"), lock("a"))
    with pytest.raises(Fenced):
        apply(state, advance(0, 1, epoch=1), "s")
    assert apply(state, advance(0, 1, epoch=2), "s").upper == 1


def test_an_epoch_that_was_never_given_out_is_refused() -> None:
    with pytest.raises(Refused, match="epoch 7 was never given out; the newest is 0"):
        apply(EMPTY, advance(0, 1, epoch=7), "s")


@pytest.mark.parametrize("epoch", [1, 3])
def test_only_its_own_epoch_releases_a_lock(epoch: int) -> None:
    state = after(lock("a"), lock("a"))
    assert apply(state, c.Unlock(epoch=epoch), "s") is state
    assert apply(state, c.Unlock(epoch=2), "s").lock is None


def test_a_hold_moves_with_the_token_that_is_found_and_only_forward() -> None:
    state = after(advance(0, 100), c.SetHold(name="h", time=10, token=0, now=0))
    with pytest.raises(HoldMismatch) as caught:
        apply(state, c.SetHold(name="h", time=20, token=0, now=0), "s")
    assert caught.value.token == 1
    wider = apply(state, c.SetHold(name="other", time=10, token=0, now=0), "s")
    moved = apply(wider, c.SetHold(name="h", time=20, token=1, now=0), "s")
    with pytest.raises(Refused, match="hold 'h' is at 20 and cannot go back to 15"):
        apply(moved, c.SetHold(name="h", time=15, token=2, now=0), "s")


def test_a_hold_below_since_is_refused() -> None:
    state = after(advance(0, 100), c.SetHold(name="h", time=10, token=0, now=0))
    with pytest.raises(NotReadable, match="asked for time 9, but history before 10 may have been compacted"):
        apply(state, c.SetHold(name="late", time=9, token=0, now=0), "s")


def test_releasing_the_last_hold_releases_no_history() -> None:
    state = after(advance(0, 100), c.SetHold(name="h", time=10, token=0, now=0), c.DropHold(name="h", now=0))
    assert (state.since, state.holds) == (10, {})


def test_a_hold_in_the_future_leaves_the_newest_time_readable() -> None:
    state = after(advance(0, 100), c.SetHold(name="h", time=5000, token=0, now=0))
    assert state.since == 99


def test_a_lease_keeps_history_until_it_expires() -> None:
    lease = c.SetLease(id="l", time=3, expires=1000, now=0, renew=False)
    state = after(advance(0, 100), lease, c.SetHold(name="h", time=50, token=0, now=1000))
    assert state.since == 3
    assert releasable(state, 1001) == 50
    assert apply(state, c.SetHold(name="h", time=50, token=1, now=1001), "s").since == 50


def test_a_lease_that_expired_is_lost_even_if_nobody_noticed() -> None:
    state = after(c.SetLease(id="l", time=0, expires=1000, now=0, renew=False))
    with pytest.raises(LeaseLost, match="lease l expired before it was renewed"):
        apply(state, c.SetLease(id="l", time=0, expires=3000, now=1001, renew=True), "s")


def test_leases_alone_release_no_history() -> None:
    state = after(advance(0, 100), c.SetLease(id="l", time=50, expires=9, now=0, renew=False))
    assert state.since == 0


def test_nothing_follows_a_drop() -> None:
    state = after(c.Drop(reason="asked"))
    with pytest.raises(Dropped, match=re.escape("shard s was dropped (asked)")):
        apply(state, advance(0, 1), "s")
    assert state.epoch == 1


times = st.integers(0, 30)
commands = st.one_of(
    st.builds(advance, times, times, st.none() | st.integers(0, 3)),
    st.builds(c.SetHold, name=st.sampled_from("ab"), time=times, token=st.integers(0, 2), now=times),
    st.builds(c.DropHold, name=st.sampled_from("ab"), now=times),
    st.builds(c.SetLease, id=st.sampled_from("xy"), time=times, expires=times, now=times, renew=st.booleans()),
    st.builds(c.DropLease, id=st.sampled_from("xy"), now=times),
    st.builds(lock, st.sampled_from("pq"), broke=st.booleans()),
    st.builds(c.Unlock, epoch=st.integers(0, 3)),
)


@given(st.lists(commands, max_size=30))
def test_whatever_comes_the_invariants_hold_and_a_refusal_changes_nothing(history: list[c.AnyCommand]) -> None:
    state, legal = EMPTY, []
    for command in history:
        try:
            following = apply(state, command, "s")
        except (Refused, Fenced, UpperMismatch, HoldMismatch, LeaseLost):
            continue
        assert following.since >= state.since
        assert following.upper >= state.upper
        assert following.epoch >= state.epoch
        assert following.since <= max(0, following.upper - 1)
        assert all(hold.time >= following.since for hold in following.holds.values())
        state = following
        legal.append(command)
    assert after(*legal) == state
    encoded = msgspec.msgpack.encode(state)
    assert msgspec.msgpack.decode(encoded, type=ShardState) == state
