"""One file of a disk log: space that is reserved ahead, filled with framed entries from the front.

Reserved space reads as zeros, so the first header of zeros is the end. An entry that a dying process left
half written is told from damage by what follows: bytes are copied in order, so only zeros can follow a half.
Everything here is called under the lock of the log.
"""

from __future__ import annotations

import errno
import os
import struct
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from seamark.engines.files import read_all, replace_file, write_all
from seamark.engines.frames import (
    END,
    HEADER_SIZE,
    OVERHEAD,
    Header,
    checksum64,
    header_at,
    holds,
    unframe,
)
from seamark.errors import Corrupt, NewerFormat

MAGIC = b"SMRKSEGM"
VERSION = 1
SUFFIX = ".segment"
_START = struct.Struct("<8sI4xQQQ")
_FIRST_RESERVE = 1 << 16
_RESERVE = 1 << 20
_WINDOW = 1 << 20
_PAGE = 1 << 12
_ZEROS = bytes(_WINDOW)
_ZERO_HEADER = bytes(HEADER_SIZE)
_RESTORE = "restore the file from a copy of the storage"


def segment_name(first: int) -> str:
    return f"{first:020d}{SUFFIX}"


class Segment:
    """An open segment and where its entries are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = _open(path)
        start = read_all(self._fd, _START.size, 0)
        magic, version, first, roll_at, check = _START.unpack(start.ljust(_START.size, b"\0"))
        if magic != MAGIC or checksum64(start[:-8]) != check:
            raise Corrupt(f"{path}: the first {_START.size} bytes are damaged; {_RESTORE}")
        if version != VERSION:
            raise NewerFormat(str(path), version, VERSION)
        if path.name != segment_name(first):
            raise Corrupt(f"{path}: the file says its first entry is {first}; {_RESTORE}")
        self.first: int = first
        self._roll_at: int = roll_at
        self._offsets = array("Q")
        self._end = _START.size
        self._size = os.fstat(self._fd).st_size
        # Bytes of an entry that was never finished lie in [_end, _torn): erased before the next write.
        self._torn = 0
        # The last entry is whole but its end mark is not there: its writer died one byte before the end.
        self._unmarked = False
        self.catch_up()
        if self._nonzero_from(self._end) and not self._torn:
            raise self._damaged(self._end)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    @classmethod
    def create(cls, folder: Path, first: int, roll_at: int) -> Segment:
        """A new segment, durable under its name on return."""
        body = _START.pack(MAGIC, VERSION, first, roll_at, 0)[:-8]
        path = folder / segment_name(first)
        replace_file(path, body + checksum64(body).to_bytes(8, "little"))
        segment = cls(path)
        segment._reserve(_FIRST_RESERVE)
        return segment

    @property
    def head(self) -> int:
        return self.first + len(self._offsets)

    @property
    def full(self) -> bool:
        """Whether the next entry belongs to the next segment; every process comes to the same answer."""
        return self._end >= self._roll_at

    def catch_up(self) -> bool:
        """Takes in the entries that other handles wrote. True when there were any."""
        self._torn = 0
        if os.pread(self._fd, HEADER_SIZE, self._end) == _ZERO_HEADER:
            return False
        known = len(self._offsets)
        window, base = b"", self._end
        last: Header | None = None
        while True:
            if self._end - base + HEADER_SIZE > len(window):
                window, base = read_all(self._fd, _WINDOW, self._end), self._end
            header = header_at(window, self._end - base, str(self.path))
            if header is None:
                break
            if header.seqno != self.head:
                raise Corrupt(
                    f"{self.path} at byte {self._end}: expected entry {self.head}, found {header.seqno}; {_RESTORE}"
                )
            self._offsets.append(self._end)
            self._end += header.length + OVERHEAD
            last = header
        if last is not None:
            self._judge_last(last)
        if not self._torn and any(window[self._end - base :][:HEADER_SIZE]):
            self._judge_half_header()
        return len(self._offsets) > known

    def _judge_last(self, header: Header) -> None:
        offset, mark = self._offsets[-1], self._end - 1
        payload = read_all(self._fd, header.length, offset + HEADER_SIZE)
        end = os.pread(self._fd, 1, mark)
        if holds(header, payload):
            if end == END:
                self._unmarked = False
                return
            if not self._nonzero_from(mark):
                self._unmarked = True
                return
        elif not self._nonzero_from(mark):
            self._offsets.pop()
            self._end, self._torn = offset, mark + 1
            return
        raise self._damaged(offset)

    def _judge_half_header(self) -> None:
        if self._nonzero_from(self._end + HEADER_SIZE):
            raise self._damaged(self._end)
        self._torn = self._end + HEADER_SIZE

    def _damaged(self, offset: int) -> Corrupt:
        return Corrupt(
            f"{self.path} at byte {offset}: the entry there is damaged, "
            f"and bytes follow that were written after it; {_RESTORE}"
        )

    def _nonzero_from(self, offset: int) -> bool:
        while data := read_all(self._fd, _WINDOW, offset):
            if data != _ZEROS[: len(data)]:
                return True
            offset += len(data)
        return False

    def read(self, seqno: int) -> memoryview:
        """The payload of an entry that is here."""
        offset, end = self._bounds(seqno)
        return self._payload(read_all(self._fd, end - offset, offset), seqno, offset)

    def scan(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The entries in [start, end), read in long pieces."""
        window, base = b"", 0
        for seqno in range(start, end):
            offset, after = self._bounds(seqno)
            if after - base > len(window):
                window, base = read_all(self._fd, max(_WINDOW, after - offset), offset), offset
            yield seqno, bytes(self._payload(window[offset - base : after - base], seqno, offset))

    def _bounds(self, seqno: int) -> tuple[int, int]:
        at = seqno - self.first
        return self._offsets[at], self._offsets[at + 1] if at + 1 < len(self._offsets) else self._end

    def _payload(self, framed: bytes, seqno: int, offset: int) -> memoryview:
        if self._unmarked and seqno == self.head - 1 and framed[-1:] == b"\0":
            framed = framed[:-1] + END
        return unframe(framed, seqno, f"{self.path} at byte {offset}")

    def write(self, frames: list[bytes]) -> None:
        """Entries `head` and following, durable on return. When it fails nothing of them is left."""
        data = b"".join(frames)
        if self._torn:
            self._erase(self._end, self._torn)
            os.fdatasync(self._fd)
            self._torn = 0
        if self._end + len(data) > self._size:
            self._reserve(self._end + len(data))
        if self._unmarked:
            write_all(self._fd, END, self._end - 1)
            self._unmarked = False
        try:
            write_all(self._fd, data, self._end)
            os.fdatasync(self._fd)
        except BaseException:
            self._torn = self._end + len(data)
            with suppress(OSError):
                self._erase(self._end, self._torn)
                os.fdatasync(self._fd)
            raise
        for one in frames:
            self._offsets.append(self._end)
            self._end += len(one)

    def sync(self) -> None:
        """Makes what other handles wrote durable, should one have died between write and sync."""
        os.fdatasync(self._fd)

    def _reserve(self, need: int) -> None:
        """Space ahead: a sync then has no new size to record, and a full disk is met before a write."""
        self._size = os.fstat(self._fd).st_size
        size = need + min(max(self._size, _FIRST_RESERVE), _RESERVE)
        size += -size % _PAGE
        if size > self._size:
            os.posix_fallocate(self._fd, self._size, size - self._size)
            self._size = size

    def _erase(self, start: int, end: int) -> None:
        """From the back, so that what a dying process leaves of it is again a half-written entry."""
        while end > start:
            piece = max(start, end - _PAGE)
            write_all(self._fd, bytes(end - piece), piece)
            end = piece


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS):
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
