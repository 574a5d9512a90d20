"""Every error Seamark raises on purpose, as one tree, so that a caller can tell what to do from the type.

    SeamarkError
    ├── Retryable                  the same call may succeed later
    │   ├── Conflict               another writer took that sequence number; names the head
    │   ├── UpperMismatch          the shard is not at the time the writer believed; names the upper
    │   ├── HoldMismatch           a durable hold moved under its owner; names the fencing token found
    │   ├── NotYet                 the time asked for has not been written in the time allowed
    │   └── StorageUnavailable     the storage did not answer
    └── Terminal                   the same call will never succeed
        ├── Refused                the request is wrong as asked; nothing was changed
        │   ├── InvalidDefinition  a manifest or definition that cannot mean anything
        │   ├── InvalidLocation    a URL or an option that no engine knows
        │   ├── NotFound           no such shard, rendition, collection, object or entry
        │   ├── NameTaken          the name belongs to another owner
        │   ├── Immutable          a write-once object exists with other bytes
        │   ├── NotReadable        the time is outside [since, upper) for good
        │   ├── SchemaMismatch     records do not fit the shard's columns
        │   ├── Held               something still needs what would be deleted
        │   └── Locked             another reentrance id holds the write lock
        ├── Fenced                 a newer epoch exists: this writer has been replaced
        ├── LeaseLost              a leased hold expired; what it protected may be gone
        ├── Dropped                the shard or log was deleted
        ├── Diverged               two writers computed different data for the same time
        ├── SourceChanged          raw input differs from what was bound to a time
        ├── Corrupt                stored bytes are not what was written; names the object
        ├── Gap                    a log has a hole; names expected and found
        └── NewerFormat            written by a newer Seamark; says to upgrade, touches nothing

Each message says what was asked, what was found, and what to do next.
"""

from __future__ import annotations


class SeamarkError(Exception):
    """The root. Catch it to handle everything that Seamark raises on purpose."""


class Retryable(SeamarkError):
    """The same call may succeed later."""


class Terminal(SeamarkError):
    """The same call will never succeed."""


class Conflict(Retryable):
    """Another writer has the sequence number; `head` is the first free one."""

    def __init__(self, log: str, seqno: int, head: int) -> None:
        super().__init__(
            f"log {log}: entry {seqno} exists already (the first free one is {head}); "
            f"read the entries before {head} and try again there"
        )
        self.head = head


class UpperMismatch(Retryable):
    """A compare-and-append named a lower that is not the shard's upper; `upper` is what was found."""

    def __init__(self, shard: str, expected: int, upper: int | None) -> None:
        found = "closed" if upper is None else str(upper)
        super().__init__(
            f"shard {shard}: append expected upper {expected}, found {found}; "
            f"another writer went ahead: read from {expected} and append at the new upper"
        )
        self.upper = upper


class HoldMismatch(Retryable):
    """A durable hold carries another fencing token than the caller knew; `token` is what was found."""

    def __init__(self, shard: str, hold: str, expected: int, token: int) -> None:
        super().__init__(
            f"shard {shard}: hold {hold!r} has token {token}, the caller expected {expected}; "
            "another owner moved it: read it again before moving it"
        )
        self.token = token


class NotYet(Retryable):
    """The time asked for has not been written within the timeout."""


class StorageUnavailable(Retryable):
    """The storage did not answer, or answered with a transient error."""


class Refused(Terminal):
    """The request is wrong as asked; nothing was changed."""


class InvalidDefinition(Refused):
    """A manifest or definition that cannot mean anything."""


class InvalidLocation(Refused):
    """A URL or an option that no engine knows."""


class NotFound(Refused):
    """No such shard, rendition, collection, object or entry."""


class NameTaken(Refused):
    """The name belongs to another owner."""


class Immutable(Refused):
    """A write-once object exists with other bytes."""


class NotReadable(Refused):
    """The time is below since; `since` is the smallest time that can be read."""

    def __init__(self, what: str, as_of: int, since: int) -> None:
        super().__init__(
            f"{what}: asked for time {as_of}, but history before {since} may have been compacted; "
            f"read at {since} or later, or take a hold before the time is released"
        )
        self.since = since


class SchemaMismatch(Refused):
    """Records do not fit the shard's columns."""


class Held(Refused):
    """Something still needs what would be deleted."""


class Locked(Refused):
    """Another reentrance id holds the write lock."""


class Fenced(Terminal):
    """A newer epoch exists: this writer has been replaced."""

    def __init__(self, shard: str, epoch: int, current: int, holder: str) -> None:
        super().__init__(
            f"shard {shard}: this writer has epoch {epoch}, the shard is at epoch {current} held by {holder!r}; "
            "stop this writer: its successor has taken over, and nothing of this append was kept"
        )
        self.epoch = epoch
        self.current = current


class LeaseLost(Terminal):
    """A leased hold expired; what it protected may be gone."""


class Dropped(Terminal):
    """The shard or log was deleted."""


class Diverged(Terminal):
    """Two writers computed different data for the same time."""


class SourceChanged(Terminal):
    """Raw input differs from what was bound to a time."""


class Corrupt(Terminal):
    """Stored bytes are not what was written; the message names the object."""


class Gap(Terminal):
    """A log has a hole; names expected and found."""

    def __init__(self, log: str, expected: int, found: int | None) -> None:
        seen = "nothing" if found is None else str(found)
        super().__init__(
            f"log {log}: expected entry {expected}, found {seen}; "
            "an entry is missing: restore it from a copy of the storage, nothing was skipped"
        )
        self.expected = expected
        self.found = found


class NewerFormat(Terminal):
    """Written by a newer Seamark; nothing was touched."""

    def __init__(self, what: str, found: int, known: int) -> None:
        super().__init__(
            f"{what} has format {found}, this Seamark knows up to {known}; "
            "upgrade Seamark to read it: nothing was touched"
        )
        self.found = found
        self.known = known
