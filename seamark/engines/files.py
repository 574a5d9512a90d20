"""The file system steps that make a change durable and all-or-nothing, in one place for the disk engine."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seamark.errors import Refused, StorageUnavailable

_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBADF}
_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turns what the operating system says into the error tree."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_ALLOWED:
            raise Refused(f"{what}: {error}; give this user the right to read and write there") from error
        if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
            raise Refused(f"{what}: {error}; no name may be a folder of another: use another name") from error
        if error.errno in _FULL:
            raise StorageUnavailable(
                f"{what}: {error}; nothing that was acknowledged is lost: free some space and try again"
            ) from error
        raise StorageUnavailable(f"{what}: {error}; see to the disk, then open it again") from error


def sync_folder(path: Path) -> None:
    """Makes the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folders(path: Path, root: Path) -> None:
    """Makes `path` and what is missing above it, durable from `root` down whoever made them.

    `FileNotFoundError` when another process removed one of them as empty meanwhile: try again.
    """
    missing = []
    for folder in (path, *path.parents):
        if folder != root and root not in folder.parents and folder.exists():
            break
        missing.append(folder)
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir()
        sync_folder(folder.parent)


def prune_folders(path: Path, root: Path) -> None:
    """Removes `path` and the folders above it, below `root`, for as long as they are empty; durable on return."""
    while path != root and root in path.parents:
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            break
        path = path.parent
    with suppress(FileNotFoundError):
        sync_folder(path)


def write_all(fd: int, data: bytes | memoryview, offset: int) -> None:
    """`pwrite` until everything is written: one call takes at most 2 GiB."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written


def read_all(fd: int, size: int, offset: int) -> bytes:
    """`pread` of exactly `size` bytes, fewer only at the end of the file."""
    data = os.pread(fd, size, offset)
    if len(data) == size or not data:
        return data
    pieces = [data]
    while data:
        offset += len(data)
        size -= len(data)
        data = os.pread(fd, size, offset)
        pieces.append(data)
    return b"".join(pieces)


def replace_file(path: Path, data: bytes) -> None:
    """Puts a whole file in place of another: a crash leaves the old one or the new one."""
    temporary = path.with_name(f"~{uuid.uuid4().hex}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write_all(fd, data, 0)
        os.fsync(fd)
    except BaseException:
        temporary.unlink()
        raise
    finally:
        os.close(fd)
    temporary.replace(path)
    sync_folder(path.parent)
