"""The two ports that everything above is built on. An engine is an implementation of one or both.

A log is a dense sequence of entries that are written only if absent; a blob is an immutable object.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """One row of a listing."""

    key: str
    size: int


class Log(Protocol):
    """A dense sequence of entries, numbered by unsigned 64-bit integers that every call names.

    Payloads carry a session id and a token of their writer, so that no two writers ever offer equal bytes:
    after a lost answer an engine reads the entry back and compares, and no outcome stays unknown.
    """

    def append(self, seqno: int, payload: bytes) -> Future[None]:
        """Write entry `seqno` only if it is absent and its predecessor is present.

        The future resolves when the entry is durable, or to `Conflict` (names the head) when another writer
        has it, `Gap` when `seqno` is beyond the head, `Dropped` when the log was deleted.
        """
        ...

    def read(self, seqno: int) -> AbstractContextManager[memoryview]:
        """The entry's bytes, valid inside the `with` block only.

        `NotFound` when absent, `Corrupt` when damaged.
        """
        ...

    def scan(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Every entry from `start` to the head, in order. A hole is `Gap`, never skipped.

        `start` equal to the head yields nothing; `start` below the floor is `Gap` naming the floor.
        """
        ...

    def head(self) -> int:
        """The first free sequence number; equal to `floor()` when the log is empty."""
        ...

    def floor(self) -> int:
        """The smallest sequence number that is kept."""
        ...

    def truncate(self, before: int) -> None:
        """Forget every entry below `before` (at most the head). Idempotent."""
        ...

    def close(self) -> None:
        """Finish what was accepted, refuse more. Idempotent."""
        ...


class Logs(Protocol):
    """A family of named logs under one root. Names are `/`-separated words of `[A-Za-z0-9._-]`."""

    def open(self, name: str, *, start: int = 0) -> Log:
        """The log of that name; it begins to exist with its first entry, which is `start`."""
        ...

    def names(self, prefix: str = "") -> Iterator[str]:
        """The logs that exist, in order of name."""
        ...

    def drop(self, name: str) -> None:
        """Delete the whole log. Idempotent. A stale writer's later append is refused with `Dropped`."""
        ...

    def close(self) -> None: ...


class Blob(Protocol):
    """Immutable objects by key. No partial object is ever visible."""

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Write once, durable on return. Equal bytes again succeed; other bytes are `Immutable`."""
        ...

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """The object, or the half-open byte range of it. `NotFound` when absent."""
        ...

    def delete(self, key: str) -> None:
        """Idempotent."""
        ...

    def list(self, prefix: str = "") -> Iterator[BlobInfo]:
        """Every object whose key begins with `prefix`, in order of key, fetched in pages."""
        ...

    def close(self) -> None: ...
