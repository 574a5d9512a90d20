"""A log as objects: entry N is the object that was PUT under N only if it was absent.

    log/NAME/floor                   the log's identity (its life), the smallest number kept, whether it was dropped
    log/NAME/00000000000000000000    entry 0: a frame over the life and the payload

What an absent object cannot tell is whether it never was, or was and is deleted again: a writer that slept could
write a truncated number anew and believe that it committed. Three rules close that:

- The floor object says that entries go before they go, and goes last.
- An entry is deleted only when it is older than a grace, by the server's clock.
- A writer believes an answered PUT of N at once when, on its own monotonic clock, less than the grace passed since it
  sent its own N - 1: N is younger than that, so it cannot have come and gone in between. Otherwise it reads the floor
  object after the answer, and takes its object back when the log has moved on or is gone.

An ordinary append by the log's busy writer is one PUT.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from seamark.engines.frames import checksum64, frame, unframe
from seamark.engines.names import check_name, check_prefix, check_seqno
from seamark.errors import (
    Conflict,
    Corrupt,
    Dropped,
    Gap,
    NewerFormat,
    NotFound,
    Refused,
    SeamarkError,
    StorageUnavailable,
)

if TYPE_CHECKING:
    from seamark.engines.s3 import Bucket, Page

_FOLDER = "log/"
_FLOOR = "floor"
_FORMAT = 1
_LIFE_SIZE = 16
_TOMBSTONE = b"SMRKGONE"
# Seconds beyond the grace before an entry is deleted: HTTP dates have whole seconds, and clocks of one service differ.
_SLACK = 2.0
# Seconds for which a look at the floor object is taken as fresh before a PUT.
_FRESH = 1.0


class _Floor(msgspec.Struct, frozen=True):
    """The floor object. Each version differs from all others by its nonce."""

    format: int
    life: str
    start: int
    floor: int
    dropped: bool
    nonce: str


class _Prefix:
    """Where the objects of one log are."""

    def __init__(self, bucket: Bucket, name: str) -> None:
        self.bucket = bucket
        self.name = name
        self.folder = f"{_FOLDER}{name}/"
        self.floor_key = self.folder + _FLOOR

    def key(self, seqno: int) -> str:
        return f"{self.folder}{seqno:020d}"

    def seqno(self, key: str) -> int | None:
        word = key[len(self.folder) :]
        return int(word) if len(word) == 20 and word.isdigit() else None

    def pages(self, after: str = "", limit: int = 1000) -> Iterator[Page]:
        return self.bucket.pages(self.folder, after=after, flat=True, limit=limit)

    def read_floor(self) -> tuple[_Floor, str] | None:
        found = self.bucket.get_tagged(self.floor_key)
        if found is None:
            return None
        body, tag = found
        check, _, text = body.partition(b" ")
        if check != b"%016x" % checksum64(text):
            raise Corrupt(f"{self.floor_key}: the checksum does not hold; restore it from a copy of the storage")
        stated = msgspec.json.decode(text, type=dict[str, object]).get("format")
        if isinstance(stated, int) and stated > _FORMAT:
            raise NewerFormat(self.floor_key, stated, _FORMAT)
        return msgspec.json.decode(text, type=_Floor), tag

    def replace_floor(self, old: _Floor, tag: str, *, floor: int, dropped: bool) -> bool:
        new = msgspec.structs.replace(old, floor=floor, dropped=dropped, nonce=uuid.uuid4().hex)
        return self.bucket.replace(self.floor_key, _encode(new), tag)

    def create_floor(self, start: int) -> None:
        """The log's identity; whoever is first gives it."""
        new = _Floor(_FORMAT, uuid.uuid4().hex, start, start, dropped=False, nonce=uuid.uuid4().hex)
        self.bucket.put_if_absent(self.floor_key, _encode(new))


def _encode(floor: _Floor) -> bytes:
    text = msgspec.json.encode(floor)
    return b"%016x " % checksum64(text) + text


class S3Log:
    """A handle on one log. Threads may share it; their appends go one after the other."""

    def __init__(self, prefix: _Prefix, start: int, grace: float) -> None:
        self._at = prefix
        self._name = prefix.name
        self._start = start
        self._grace = grace
        self._mutex = threading.RLock()
        self._closed = False
        self._dropped = False
        self._life: str | None = None
        self._floor = start
        self._head = start
        self._believed_until = 0.0
        self._looked_at = float("-inf")

    def append(self, seqno: int, payload: bytes) -> Future[None]:
        future: Future[None] = Future()
        try:
            with self._mutex:
                self._append(check_seqno(self._name, seqno), payload)
        except SeamarkError as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return future

    def _append(self, seqno: int, payload: bytes) -> None:
        self._check_open()
        if self._life is None or seqno != self._head:
            self._bind()
            self._observe(self._head)
            if seqno < self._head:
                raise Conflict(self._name, seqno, self._head)
            if seqno > self._head:
                raise Gap(self._name, self._head, seqno)
        now = time.monotonic()
        if self._life is None or (now > self._believed_until and now > self._looked_at + _FRESH):
            self._look(create=True)
        assert self._life is not None
        body = frame(seqno, bytes.fromhex(self._life) + payload)
        sent = time.monotonic()
        if not self._at.bucket.put_if_absent(self._at.key(seqno), body):
            self._look()
            self._observe(seqno)
            raise Conflict(self._name, seqno, max(self._head, seqno + 1))
        if time.monotonic() > self._believed_until:
            self._confirm(seqno)
        self._head = seqno + 1
        self._believed_until = sent + self._grace

    def _confirm(self, seqno: int) -> None:
        """Called after an answer that came late: is the entry that was written part of the log?"""
        found = self._at.read_floor()
        here = found is not None and found[0].life == self._life and not found[0].dropped
        if found is not None and here and found[0].floor <= seqno:
            self._looked_at = time.monotonic()
            return
        # Nobody builds on it: it is below the floor, or of a log that is gone. In another log of the same name
        # it is taken back only while nothing follows.
        other = found is not None and found[0].life != self._life
        if not other or self._at.bucket.size(self._at.key(seqno + 1)) is None:
            self._at.bucket.delete([self._at.key(seqno)])
        if not here:
            raise self._gone()
        self._look()
        self._observe(self._head)
        raise Conflict(self._name, seqno, self._head)

    @contextmanager
    def read(self, seqno: int) -> Iterator[memoryview]:
        with self._mutex:
            self._check_open()
            self._bind()
            found = None if self._life is None or seqno < self._floor else self._get(seqno)
            if found is None:
                self._observe(self._head)
                raise NotFound(f"log {self._name}: no entry {seqno}; it has {self._floor} to {self._head - 1}")
        with found as view:
            yield view

    def scan(self, start: int) -> Iterator[tuple[int, bytes]]:
        with self._mutex:
            self._check_open()
            self._bind()
            seqnos = self._observe(start)
            if not seqnos:
                self._observe(self._head)
            floor, end = self._floor, self._head
        if start < floor:
            raise Gap(self._name, start, floor)
        if start > end:
            raise Gap(self._name, end, start)
        for expected, seqno in enumerate(seqnos, start):
            found = self._get(seqno) if seqno == expected else None
            if found is None:
                with self._mutex:
                    self._look()
                raise Gap(self._name, expected, max(seqno, self._floor))
            yield seqno, bytes(found)

    def head(self) -> int:
        with self._mutex:
            self._check_open()
            self._bind()
            self._observe(self._head)
            return self._head

    def floor(self) -> int:
        with self._mutex:
            self._check_open()
            self._look()
            return self._floor

    def truncate(self, before: int) -> None:
        with self._mutex:
            self._check_open()
            self._bind()
            self._observe(self._head)
            if before > self._head:
                raise Gap(self._name, self._head, before)
            if self._life is None:
                return
            while True:
                found = self._at.read_floor()
                if found is None or found[0].life != self._life or found[0].dropped:
                    raise self._gone()
                if found[0].floor >= before or self._at.replace_floor(*found, floor=before, dropped=False):
                    break
            self._floor = max(found[0].floor, before)
            self._delete_below(self._floor)

    def _delete_below(self, floor: int) -> None:
        """Deletes the entries that are old enough; the young ones wait for the next truncation."""
        for page in self._at.pages():
            old = [
                row.key
                for row in page.rows
                if (seqno := self._at.seqno(row.key)) is not None
                and seqno < floor
                and (page.server_time - row.modified).total_seconds() > self._grace + _SLACK
            ]
            self._at.bucket.delete(old)
            if page.rows and page.rows[-1].key >= self._at.key(floor):
                return

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise Refused(f"log {self._name}: this handle is closed; open the log again")
        if self._dropped:
            raise self._gone()

    def _gone(self) -> Dropped:
        self._dropped = True
        return Dropped(f"log {self._name} was deleted; stop writing to it, or open it anew")

    def _bind(self) -> None:
        if self._life is None:
            self._look()

    def _look(self, *, create: bool = False) -> None:
        """Reads the floor object: binds this handle to the log's life, or finds that the log is gone."""
        found = self._at.read_floor()
        if found is None and create and self._life is None:
            self._at.create_floor(self._start)
            found = self._at.read_floor()
        if found is None:
            if self._life is not None or create:
                raise self._gone()
            return
        stated = found[0]
        if stated.dropped or (self._life is not None and stated.life != self._life):
            raise self._gone()
        self._head = stated.floor if self._life is None else max(self._head, stated.floor)
        self._life = stated.life
        self._floor = stated.floor
        self._looked_at = time.monotonic()

    def _observe(self, start: int) -> list[int]:
        """Lists the entries from `start` on, and moves the head. One request while nothing unusual is found."""
        # The entry before is asked for as well: while it is there, the log is.
        after = self._at.key(start - 2) if start >= 2 else ""
        seqnos = [
            seqno
            for page in self._at.pages(after)
            for row in page.rows
            if (seqno := self._at.seqno(row.key)) is not None
        ]
        if self._life is None:
            if seqnos:
                self._look()
                if self._life is not None:
                    return self._observe(start)
                raise Corrupt(
                    f"log {self._name}: there are entries ({seqnos[0]} and on) but no floor object; "
                    "drop the log to remove what an interrupted writer left, or restore the floor object"
                )
            return []
        if start - 1 not in seqnos[:1]:
            self._look()
        kept = [seqno for seqno in seqnos if seqno >= max(start, self._floor)]
        self._head = max(self._head, self._floor, kept[-1] + 1 if kept else 0)
        return kept

    def _get(self, seqno: int) -> memoryview | None:
        key = self._at.key(seqno)
        body = self._at.bucket.get(key)
        if body is None:
            return None
        if body.startswith(_TOMBSTONE):
            raise self._gone()
        content = unframe(body, seqno, key)
        if content[:_LIFE_SIZE].hex() != self._life:
            self._look()
            raise Corrupt(f"{key}: the entry is of another log of this name; restore it from a copy")
        return content[_LIFE_SIZE:]


class S3Logs:
    """The logs of one location."""

    def __init__(self, bucket: Bucket, grace: float) -> None:
        self.bucket = bucket
        self._grace = grace

    def open(self, name: str, *, start: int = 0) -> S3Log:
        return S3Log(_Prefix(self.bucket, check_name("log", name)), check_seqno(name, start), self._grace)

    def names(self, prefix: str = "") -> Iterator[str]:
        check_prefix("log", prefix)
        parent, slash, _ = prefix.rpartition("/")
        yield from sorted(name for name in self._walk(f"{_FOLDER}{parent}{slash}") if name.startswith(prefix))

    def _walk(self, folder: str) -> Iterator[str]:
        at = _Prefix(self.bucket, folder[len(_FOLDER) : -1])
        seen = False
        for page in at.bucket.pages(folder, flat=True):
            seen = seen or any(at.seqno(row.key) is not None for row in page.rows)
            if not seen and any(row.key == at.floor_key for row in page.rows):
                found = at.read_floor()
                seen = found is not None and found[0].floor > found[0].start and not found[0].dropped
            for below in page.folders:
                yield from self._walk(below)
        if seen and at.name:
            yield at.name

    def drop(self, name: str) -> None:
        at = _Prefix(self.bucket, check_name("log", name))
        while True:
            found = at.read_floor()
            if found is None:
                # A new log's floor object comes before its entries: these are what a writer that died left.
                left = self._entries(at)
                if not left:
                    return
                if at.read_floor() is None:
                    self.bucket.delete(left)
            elif not found[0].dropped:
                at.replace_floor(*found, floor=found[0].floor, dropped=True)
            else:
                self._wait_for_believers(at)
                while left := self._entries(at):
                    self.bucket.delete(left)
                self.bucket.delete([at.floor_key])

    def _entries(self, at: _Prefix) -> list[str]:
        return [row.key for page in at.pages() for row in page.rows if at.seqno(row.key) is not None]

    def _wait_for_believers(self, at: _Prefix) -> None:
        """Until no writer can still believe a PUT without reading the floor object, which says `dropped`.

        Such a writer's own last entry is younger than the grace. A tombstone in its way keeps it from adding more:
        at the head, or as far ahead of it as a busy writer makes necessary.
        """
        most = 10 * (self._grace + _SLACK) + 60
        give_up = time.monotonic() + most
        sealed: int | None = None
        distance = 1
        while time.monotonic() < give_up:
            youngest, last = float("inf"), None
            for page in at.pages():
                for row in page.rows:
                    seqno = at.seqno(row.key)
                    if seqno is not None and seqno != sealed:
                        youngest = min(youngest, (page.server_time - row.modified).total_seconds())
                        last = seqno if last is None else max(last, seqno)
            remaining = self._grace + _SLACK - youngest
            if last is None or remaining < 0:
                return
            if sealed is None:
                ahead = last + distance
                distance *= 4
                if not self.bucket.put_if_absent(at.key(ahead), _TOMBSTONE + uuid.uuid4().bytes):
                    continue
                sealed = ahead
            time.sleep(max(0.05, remaining))
        raise StorageUnavailable(
            f"log {at.name}: entries kept coming for {most:.0f} s while it was being deleted; "
            "stop its writers, then drop it again"
        )

    def close(self) -> None:
        self.bucket.client.close()
