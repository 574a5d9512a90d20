"""What can happen to a shard, as values. The log orders them; `state.apply` gives them their meaning."""

from __future__ import annotations

import msgspec

from seamark.persist.schema import Schema

KeyBound = int | float | str | None


class PartRef(msgspec.Struct, frozen=True):
    """A data file: what it holds, and what its bytes must be."""

    key: str
    size: int
    rows: int
    digest: str
    first: int
    """Smallest time inside."""
    last: int
    """Largest time inside."""
    low: KeyBound = None
    """Smallest value of the first key column, where it has an order we can keep here."""
    high: KeyBound = None


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Records for the times `[lower, upper)`: parts in blob storage, or a few rows inside the entry itself."""

    lower: int
    upper: int
    parts: tuple[PartRef, ...]
    inline: bytes
    rows: int
    first: int
    last: int


class Command(msgspec.Struct, frozen=True, tag=True, tag_field="c"):
    """One transition of a shard."""


class Create(Command, frozen=True, tag="create"):
    schema: Schema
    owner: str


class Append(Command, frozen=True, tag="append"):
    """Advance upper from `lower` to `upper` and add what happened in between. `epoch` None: a writer without lock."""

    lower: int
    upper: int
    epoch: int | None
    batch: Batch | None


class SetHold(Command, frozen=True, tag="hold"):
    """Create or move a durable hold; `token` must be the one found (0 for a new hold)."""

    name: str
    time: int
    token: int
    now: int


class DropHold(Command, frozen=True, tag="unhold"):
    name: str
    now: int


class SetLease(Command, frozen=True, tag="lease"):
    """Create, move or renew a leased hold."""

    id: str
    time: int
    expires: int
    now: int
    renew: bool


class DropLease(Command, frozen=True, tag="unlease"):
    id: str
    now: int


class Lock(Command, frozen=True, tag="lock"):
    """Take the write lock; every acquisition raises the epoch."""

    reentrance_id: str
    holder: str
    reason: str
    broke: bool


class Unlock(Command, frozen=True, tag="unlock"):
    epoch: int


class Drop(Command, frozen=True, tag="drop"):
    """The shard's end: nothing can follow."""

    reason: str


AnyCommand = Create | Append | SetHold | DropHold | SetLease | DropLease | Lock | Unlock | Drop
