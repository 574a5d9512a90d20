"""The engine in the memory of one process, for tests and trials: every promise but durability."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field

from seamark.engines.names import check_name, check_prefix, check_range, check_seqno
from seamark.engines.ports import BlobInfo
from seamark.engines.registry import Address
from seamark.errors import Conflict, Dropped, Gap, Immutable, InvalidLocation, NotFound, Refused, SeamarkError


@dataclass
class _Entries:
    """One log that exists. Dropping replaces the object, so a stale handle is known by identity."""

    floor: int
    entries: list[bytes] = field(default_factory=list)
    dropped: bool = False

    @property
    def head(self) -> int:
        return self.floor + len(self.entries)


@dataclass
class _Store:
    lock: threading.RLock = field(default_factory=threading.RLock)
    logs: dict[str, _Entries] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)


_STORES: dict[str, _Store] = {}
_STORES_LOCK = threading.Lock()


def connect(address: Address) -> tuple[MemLogs, MemBlob]:
    """The store of that name; the same name is the same store in the whole process."""
    if address.host or not address.path:
        raise InvalidLocation(f"location {address.url}: the mem engine needs a name: write mem:NAME")
    with _STORES_LOCK:
        store = _STORES.setdefault(address.path, _Store())
    return MemLogs(store), MemBlob(store)


class MemLog:
    """A handle on one log."""

    def __init__(self, store: _Store, name: str, start: int) -> None:
        self._store = store
        self._name = name
        self._start = start
        self._seen: _Entries | None = None
        self._closed = False
        with store.lock:
            self._current()

    def append(self, seqno: int, payload: bytes) -> Future[None]:
        future: Future[None] = Future()
        try:
            self._append(seqno, payload)
        except SeamarkError as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return future

    def _append(self, seqno: int, payload: bytes) -> None:
        check_seqno(self._name, seqno)
        with self._store.lock:
            if self._closed:
                raise Refused(f"log {self._name}: this handle is closed; open the log again")
            entries = self._current() or _Entries(self._start)
            if seqno < entries.head:
                raise Conflict(self._name, seqno, entries.head)
            if seqno > entries.head:
                raise Gap(self._name, entries.head, seqno)
            entries.entries.append(bytes(payload))
            self._seen = self._store.logs[self._name] = entries

    @contextmanager
    def read(self, seqno: int) -> Iterator[memoryview]:
        with self._store.lock:
            entries = self._current() or _Entries(self._start)
            if not entries.floor <= seqno < entries.head:
                raise NotFound(f"log {self._name}: no entry {seqno}; it has {entries.floor} to {entries.head - 1}")
            view = memoryview(entries.entries[seqno - entries.floor])
        with view:
            yield view

    def scan(self, start: int) -> Iterator[tuple[int, bytes]]:
        with self._store.lock:
            entries = self._current() or _Entries(self._start)
            floor, end = entries.floor, entries.head
        if start < floor:
            raise Gap(self._name, start, floor)
        if start > end:
            raise Gap(self._name, end, start)
        for seqno in range(start, end):
            with self._store.lock:
                entries = self._current() or _Entries(self._start)
                if seqno < entries.floor:
                    raise Gap(self._name, seqno, entries.floor)
                payload = entries.entries[seqno - entries.floor]
            yield seqno, payload

    def head(self) -> int:
        with self._store.lock:
            entries = self._current()
            return self._start if entries is None else entries.head

    def floor(self) -> int:
        with self._store.lock:
            entries = self._current()
            return self._start if entries is None else entries.floor

    def truncate(self, before: int) -> None:
        with self._store.lock:
            entries = self._current() or _Entries(self._start)
            if before > entries.head:
                raise Gap(self._name, entries.head, before)
            if before > entries.floor:
                del entries.entries[: before - entries.floor]
                entries.floor = before

    def close(self) -> None:
        self._closed = True

    def _current(self) -> _Entries | None:
        """The log, or None before its first entry. `Dropped` once the one this handle saw is gone."""
        if self._seen is None:
            self._seen = self._store.logs.get(self._name)
        if self._seen is not None and self._seen.dropped:
            raise Dropped(f"log {self._name} was deleted; stop writing to it, or open it anew")
        return self._seen


class MemLogs:
    """The logs of one store."""

    def __init__(self, store: _Store) -> None:
        self._store = store

    def open(self, name: str, *, start: int = 0) -> MemLog:
        return MemLog(self._store, check_name("log", name), check_seqno(name, start))

    def names(self, prefix: str = "") -> Iterator[str]:
        check_prefix("log", prefix)
        with self._store.lock:
            found = sorted(name for name in self._store.logs if name.startswith(prefix))
        yield from found

    def drop(self, name: str) -> None:
        check_name("log", name)
        with self._store.lock:
            entries = self._store.logs.pop(name, None)
            if entries is not None:
                entries.dropped = True

    def close(self) -> None:
        pass


class MemBlob:
    """The blobs of one store."""

    def __init__(self, store: _Store) -> None:
        self._store = store

    def put(self, key: str, data: bytes | memoryview) -> None:
        check_name("blob", key)
        value = bytes(data)
        with self._store.lock:
            old = self._store.blobs.get(key)
            if old is None:
                self._store.blobs[key] = value
                insort(self._store.keys, key)
            elif old != value:
                raise Immutable(
                    f"blob {key} exists with other bytes ({len(old)}, offered {len(value)}); "
                    "a blob is written once: use a new key"
                )

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        check_name("blob", key)
        check_range(key, start, end)
        with self._store.lock:
            value = self._store.blobs.get(key)
        if value is None:
            raise NotFound(f"blob {key} does not exist")
        return value[start:end]

    def delete(self, key: str) -> None:
        check_name("blob", key)
        with self._store.lock:
            if self._store.blobs.pop(key, None) is not None:
                del self._store.keys[bisect_left(self._store.keys, key)]

    def list(self, prefix: str = "") -> Iterator[BlobInfo]:
        check_prefix("blob", prefix)
        with self._store.lock:
            first = bisect_left(self._store.keys, prefix)
            found = []
            for key in self._store.keys[first:]:
                if not key.startswith(prefix):
                    break
                found.append(BlobInfo(key, len(self._store.blobs[key])))
        yield from found

    def close(self) -> None:
        pass
