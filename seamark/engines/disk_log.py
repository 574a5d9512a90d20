"""A log in a folder, for many processes at once: whoever holds the file lock is the writer of that moment.

    NAME@/lock                            the lock; the log is the one whose lock file this is
    NAME@/00000000000000000000.segment    entries from that number on
    NAME@/floor                           the smallest number that is kept, once it was moved

Readers take the lock shared: they see an entry after it is durable and never while it is being written.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

from seamark.engines.disk_segment import SUFFIX, Segment, segment_name
from seamark.engines.files import make_folders, replace_file, storage_errors, sync_folder
from seamark.engines.frames import checksum64, frame
from seamark.engines.names import check_seqno
from seamark.errors import Conflict, Corrupt, Dropped, Gap, NotFound, Refused, SeamarkError

LOCK = "lock"
_FLOOR = "floor"
_Append = tuple[int, bytes, Future[None]]


class DiskLog:
    """A handle on one log. Threads may share it: what they append at the same moment is synced once."""

    def __init__(self, folder: Path, root: Path, name: str, start: int, roll_at: int) -> None:
        self._folder = folder
        self._lock_path = str(folder / LOCK)
        self._floor_path = folder / _FLOOR
        self._floor_name = str(self._floor_path)
        self._root = root
        self._name = name
        self._start = start
        self._roll_at = roll_at
        self._mutex = threading.RLock()
        self._queue: deque[_Append] = deque()
        self._closed = False
        self._seen = False
        self._dropped = False
        self._pid = os.getpid()
        self._lock_fd = -1
        self._lock_id = (0, 0)
        self._segments: list[Segment] = []
        self._floor = start
        self._floor_id: tuple[int, int] | None = None
        self._refresh()

    def __del__(self) -> None:
        self._forget()

    def append(self, seqno: int, payload: bytes) -> Future[None]:
        future: Future[None] = Future()
        self._queue.append((seqno, payload, future))
        # Whoever gets the mutex writes for all who queued meanwhile; the others find their future resolved.
        with self._mutex:
            batch: list[_Append] = []
            while self._queue:
                batch.append(self._queue.popleft())
            if batch:
                self._commit(batch)
        return future

    def _commit(self, batch: list[_Append]) -> None:
        if len(batch) > 1:
            batch.sort(key=lambda one: one[0])
        try:
            head, accepted = self._write(batch)
        except BaseException as error:
            told = self._explained(error) if isinstance(error, OSError) else error
            for _, _, future in batch:
                future.set_exception(told)
            if not isinstance(told, SeamarkError):
                raise
            return
        for future in accepted:
            future.set_result(None)
        for seqno, _, future in batch:
            if not future.done():
                future.set_exception(
                    Gap(self._name, head, seqno) if seqno > head else Conflict(self._name, seqno, head)
                )

    def _write(self, batch: list[_Append]) -> tuple[int, list[Future[None]]]:
        """Writes those of the batch that continue the log; the head after them, and their futures."""
        self._check_open()
        # A refused append makes no log.
        self._lock(create=any(seqno == self._start for seqno, _, _ in batch))
        try:
            self._catch_up(sync=False)
            head = self._head()
            frames: list[bytes] = []
            accepted: list[Future[None]] = []
            for seqno, payload, future in batch:
                if seqno == head + len(frames):
                    frames.append(frame(check_seqno(self._name, seqno), payload))
                    accepted.append(future)
            if frames:
                self._writable_segment(head).write(frames)
                self._seen = True
            return head + len(frames), accepted
        finally:
            self._unlock()

    def _explained(self, error: OSError) -> BaseException:
        try:
            with storage_errors(f"log {self._name}"):
                raise error
        except SeamarkError as told:
            return told

    def _writable_segment(self, head: int) -> Segment:
        if not self._segments or self._segments[-1].full:
            self._segments.append(Segment.create(self._folder, head, self._roll_at))
        return self._segments[-1]

    @contextmanager
    def read(self, seqno: int) -> Iterator[memoryview]:
        with self._mutex:
            self._refresh()
            if not self._floor <= seqno < self._head():
                raise NotFound(f"log {self._name}: no entry {seqno}; it has {self._floor} to {self._head() - 1}")
            segment = next(one for one in reversed(self._segments) if one.first <= seqno)
            with storage_errors(f"log {self._name}"):
                view = segment.read(seqno)
        with view:
            yield view

    def scan(self, start: int) -> Iterator[tuple[int, bytes]]:
        with self._mutex:
            self._refresh()
            end, segments = self._head(), list(self._segments)
            if start < self._floor:
                raise Gap(self._name, start, self._floor)
            if start > end:
                raise Gap(self._name, end, start)
        for segment in segments:
            with storage_errors(f"log {self._name}"):
                yield from segment.scan(max(start, segment.first), min(end, segment.head))

    def head(self) -> int:
        with self._mutex:
            self._refresh()
            return self._head()

    def floor(self) -> int:
        with self._mutex:
            self._refresh()
            return self._floor

    def truncate(self, before: int) -> None:
        with self._mutex, storage_errors(f"log {self._name}"):
            self._check_open()
            with self._locked():
                self._catch_up()
                if before > self._head():
                    raise Gap(self._name, self._head(), before)
                if before > self._floor:
                    text = str(before)
                    replace_file(self._floor_path, f"{text} {checksum64(text.encode()):016x}\n".encode())
                    self._read_floor()
                    self._forget_below_floor()

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            self._forget()

    def _head(self) -> int:
        return max(self._segments[-1].head, self._floor) if self._segments else self._floor

    def _refresh(self) -> None:
        self._check_open()
        with storage_errors(f"log {self._name}"), self._locked(shared=True):
            self._catch_up()

    def _check_open(self) -> None:
        if self._closed:
            raise Refused(f"log {self._name}: this handle is closed; open the log again")

    def _lock(self, *, shared: bool = False, create: bool = False) -> None:
        """Takes the file lock of the log that this handle has seen, or of the one that is there if it saw none."""
        if self._pid != os.getpid():
            # A lock taken before a fork is one lock for both processes: this one needs its own.
            self._forget()
            self._pid = os.getpid()
        while self._lock_fd >= 0 or self._open_lock(create):
            fcntl.flock(self._lock_fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            try:
                found = os.stat(self._lock_path)  # noqa: PTH116  a third of the cost, on every append
                if (found.st_dev, found.st_ino) == self._lock_id:
                    return
            except FileNotFoundError:
                pass
            # Dropped meanwhile. The handle's own file is open, so the number of its inode was not given away.
            self._forget()
            self._dropped = self._seen

    def _unlock(self) -> None:
        if self._lock_fd >= 0:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    @contextmanager
    def _locked(self, *, shared: bool = False) -> Iterator[None]:
        self._lock(shared=shared)
        try:
            yield
        finally:
            self._unlock()

    def _open_lock(self, create: bool) -> bool:
        """False when the log does not exist and need not."""
        while True:
            if self._dropped:
                raise Dropped(f"log {self._name} was deleted; stop writing to it, or open it anew")
            try:
                fd = os.open(self._lock_path, os.O_RDONLY | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
                break
            except FileNotFoundError:
                if self._seen:
                    self._dropped = True
                    continue
                if not create:
                    return False
                with suppress(FileNotFoundError):
                    make_folders(self._folder, self._root)
        found = os.fstat(fd)
        identity = (found.st_dev, found.st_ino)
        if self._seen and identity != self._lock_id:
            os.close(fd)
            self._dropped = True
            return self._open_lock(create)
        self._lock_fd, self._lock_id = fd, identity
        return True

    def _forget(self) -> None:
        if getattr(self, "_lock_fd", -1) >= 0:
            os.close(self._lock_fd)
        self._lock_fd = -1
        self._segments = []

    def _catch_up(self, *, sync: bool = True) -> None:
        """Takes in what other handles did. `sync` unless the caller syncs before it tells anyone."""
        if self._lock_fd < 0:
            return
        if not self._segments:
            self._load()
            fresh = bool(self._segments)
        else:
            fresh = self._segments[-1].catch_up()
        while self._segments and self._segments[-1].full:
            try:
                self._segments.append(Segment(self._folder / segment_name(self._segments[-1].head)))
            except FileNotFoundError:
                break
            fresh = True
        if sync or fresh:
            self._read_floor()
        if fresh:
            self._seen = True
            if sync:
                self._segments[-1].sync()

    def _load(self) -> None:
        firsts = sorted(int(path.name[: -len(SUFFIX)]) for path in self._folder.glob("*" + SUFFIX))
        if not firsts:
            return
        self._read_floor()
        floor = self._floor if self._floor_id else firsts[0]
        begin = max((first for first in firsts if first <= floor), default=None)
        if begin is None:
            raise Gap(self._name, floor, firsts[0])
        self._floor = floor
        segments = [Segment(self._folder / segment_name(begin))]
        for first in firsts:
            if first > begin:
                if first != segments[-1].head or not segments[-1].full:
                    raise Gap(self._name, segments[-1].head, first)
                segments.append(Segment(self._folder / segment_name(first)))
        if segments[-1].head < floor:
            raise Gap(self._name, segments[-1].head, floor)
        self._segments = segments

    def _read_floor(self) -> None:
        path = self._floor_path
        try:
            found = os.stat(self._floor_name)  # noqa: PTH116  a third of the cost, on every read
        except FileNotFoundError:
            return
        if (found.st_ino, found.st_mtime_ns) == self._floor_id:
            return
        text, _, check = path.read_text().strip().partition(" ")
        if check != f"{checksum64(text.encode()):016x}":
            raise Corrupt(f"{path}: the checksum does not hold; restore the file from a copy of the storage")
        self._floor, self._floor_id = int(text), (found.st_ino, found.st_mtime_ns)

    def _forget_below_floor(self) -> None:
        """Deletes the segments that hold nothing at or above the floor; the last one always stays."""
        while len(self._segments) > 1 and self._segments[1].first <= self._floor:
            del self._segments[0]
        for path in self._folder.glob("*" + SUFFIX):
            if int(path.name[: -len(SUFFIX)]) < self._segments[0].first:
                path.unlink(missing_ok=True)
        sync_folder(self._folder)
