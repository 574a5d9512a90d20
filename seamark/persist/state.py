"""A shard's state and the pure function that moves it: `apply(state, command) -> state`.

Nothing here reads a clock, a random number or storage. A command that is not legal is refused with an error
and leaves the state as it was; the log holds only commands that were legal where they stand.
"""

from __future__ import annotations

from functools import singledispatch

import msgspec
from msgspec.structs import replace

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
from seamark.persist.schema import Schema

MAX_TIME = 2**63 - 1


class Hold(msgspec.Struct, frozen=True, array_like=True):
    """A durable hold: since may not pass `time`. `token` grows with every move, so a stale owner is noticed."""

    time: int
    token: int


class LeasedHold(msgspec.Struct, frozen=True, array_like=True):
    """A hold that lasts only while its process renews it."""

    time: int
    expires: int


class LockHolder(msgspec.Struct, frozen=True, array_like=True):
    reentrance_id: str
    holder: str
    reason: str


class ShardState(msgspec.Struct, frozen=True):
    """The fold of a shard's log."""

    shard: str
    schema: Schema
    owner: str
    since: int = 0
    upper: int = 0
    batches: tuple[c.Batch, ...] = ()
    inline_bytes: int = 0
    holds: dict[str, Hold] = {}
    leases: dict[str, LeasedHold] = {}
    epoch: int = 0
    lock: LockHolder | None = None
    dropped: str | None = None


def create(shard: str, command: c.Create) -> ShardState:
    """The first state."""
    return ShardState(shard=shard, schema=command.schema, owner=command.owner)


def apply(state: ShardState | None, command: c.AnyCommand, shard: str) -> ShardState:
    """The state after `command`, or the error that says why it is refused."""
    if state is None:
        if isinstance(command, c.Create):
            return create(shard, command)
        raise NotFound(f"shard {shard} does not exist; create it first")
    if state.dropped is not None:
        raise Dropped(f"shard {shard} was dropped ({state.dropped}); nothing can be read from it or written to it")
    after = _apply(command, state)
    assert after.since >= state.since
    assert after.upper >= state.upper
    assert after.epoch >= state.epoch
    return after


@singledispatch
def _apply(command: c.Command, state: ShardState) -> ShardState:
    raise Refused(f"shard {state.shard}: unknown command {type(command).__name__}")


@_apply.register
def _(command: c.Create, state: ShardState) -> ShardState:
    if command.owner != state.owner:
        raise NameTaken(
            f"shard {state.shard} belongs to {state.owner!r}, {command.owner!r} asked for it; choose another name"
        )
    if command.schema != state.schema:
        raise SchemaMismatch(
            f"shard {state.shard} was made with columns {_draw(state.schema)}, asked for {_draw(command.schema)}; "
            "a shard's columns are fixed: make a new one"
        )
    return state


@_apply.register
def _(command: c.Append, state: ShardState) -> ShardState:
    if command.epoch is None:
        if state.lock is not None:
            raise Locked(
                f"shard {state.shard} is locked for writing by {state.lock.holder!r} "
                f"(reentrance id {state.lock.reentrance_id!r}, epoch {state.epoch}); acquire the lock first"
            )
    elif command.epoch < state.epoch:
        holder = state.lock.holder if state.lock else "nobody"
        raise Fenced(state.shard, command.epoch, state.epoch, holder)
    elif command.epoch > state.epoch:
        raise Refused(f"shard {state.shard}: epoch {command.epoch} was never given out; the newest is {state.epoch}")
    if command.lower != state.upper:
        raise UpperMismatch(state.shard, command.lower, state.upper)
    if not command.lower <= command.upper <= MAX_TIME:
        raise Refused(
            f"shard {state.shard}: upper {command.upper} is before lower {command.lower}; frontiers only grow"
        )
    batch = command.batch
    if batch is None or batch.rows == 0:
        return replace(state, upper=command.upper)
    if (batch.lower, batch.upper) != (command.lower, command.upper):
        raise Refused(f"shard {state.shard}: batch [{batch.lower}, {batch.upper}) is not the append's interval")
    if batch.first < batch.lower or batch.last >= batch.upper:
        raise Refused(
            f"shard {state.shard}: records have times {batch.first} to {batch.last}, "
            f"outside of the appended [{batch.lower}, {batch.upper})"
        )
    return replace(
        state,
        upper=command.upper,
        batches=(*state.batches, batch),
        inline_bytes=state.inline_bytes + len(batch.inline),
    )


@_apply.register
def _(command: c.SetHold, state: ShardState) -> ShardState:
    present = state.holds.get(command.name, Hold(time=0, token=0))
    if command.token != present.token:
        raise HoldMismatch(state.shard, command.name, command.token, present.token)
    _readable_from(state, command.time)
    if present.token and command.time < present.time:
        raise Refused(
            f"shard {state.shard}: hold {command.name!r} is at {present.time} and cannot go back to {command.time}; "
            "what it released may be gone"
        )
    holds = {**state.holds, command.name: Hold(time=command.time, token=present.token + 1)}
    return _advance_since(replace(state, holds=holds), command.now)


@_apply.register
def _(command: c.DropHold, state: ShardState) -> ShardState:
    holds = {name: hold for name, hold in state.holds.items() if name != command.name}
    return _advance_since(replace(state, holds=holds), command.now)


@_apply.register
def _(command: c.SetLease, state: ShardState) -> ShardState:
    present = state.leases.get(command.id)
    if command.renew and (present is None or present.expires < command.now):
        raise LeaseLost(
            f"shard {state.shard}: lease {command.id} expired before it was renewed; "
            "what it held may be gone: open a new reader at a time that is still readable"
        )
    if present is None:
        _readable_from(state, command.time)
    elif command.time < present.time:
        raise Refused(f"shard {state.shard}: lease {command.id} is at {present.time}, cannot go back to {command.time}")
    leases = {**state.leases, command.id: LeasedHold(time=command.time, expires=command.expires)}
    return _advance_since(replace(state, leases=leases), command.now)


@_apply.register
def _(command: c.DropLease, state: ShardState) -> ShardState:
    leases = {name: lease for name, lease in state.leases.items() if name != command.id}
    return _advance_since(replace(state, leases=leases), command.now)


@_apply.register
def _(command: c.Lock, state: ShardState) -> ShardState:
    held = state.lock
    if held is not None and held.reentrance_id != command.reentrance_id and not command.broke:
        raise Locked(
            f"shard {state.shard} is locked for writing by {held.holder!r} (reentrance id {held.reentrance_id!r}, "
            f"epoch {state.epoch}), {command.holder!r} asked with reentrance id {command.reentrance_id!r}; "
            "wait until it is released, or break the lock with a reason"
        )
    holder = LockHolder(command.reentrance_id, command.holder, command.reason)
    return replace(state, lock=holder, epoch=state.epoch + 1)


@_apply.register
def _(command: c.Unlock, state: ShardState) -> ShardState:
    if command.epoch != state.epoch or state.lock is None:
        return state
    return replace(state, lock=None)


@_apply.register
def _(command: c.Drop, state: ShardState) -> ShardState:
    return replace(state, dropped=command.reason, epoch=state.epoch + 1, lock=None)


def _readable_from(state: ShardState, time: int) -> None:
    if time < state.since:
        raise NotReadable(f"shard {state.shard}", time, state.since)


def releasable(state: ShardState, now: int) -> int:
    """The since that the holds allow at `now`: the meet of all of them.

    Only durable holds let it advance; leases only keep it back, and an expired lease keeps nothing. Without a
    durable hold, since stays: nobody has said that history may go. It stays below upper, whatever the holds
    allow, so that what was readable once always has a time at which it can be read.
    """
    if not state.holds:
        return state.since
    times = [hold.time for hold in state.holds.values()] + [lease.time for lease in _living(state, now).values()]
    return max(state.since, min(*times, state.upper - 1))


def _advance_since(state: ShardState, now: int) -> ShardState:
    return replace(state, leases=_living(state, now), since=releasable(state, now))


def _living(state: ShardState, now: int) -> dict[str, LeasedHold]:
    return {name: lease for name, lease in state.leases.items() if lease.expires >= now}


def _draw(schema: Schema) -> str:
    return "(" + ", ".join(f"{column.name} {column.type}" for column in schema.columns) + ")"
