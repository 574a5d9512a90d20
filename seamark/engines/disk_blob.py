"""Blobs as files: written under no name, synced, then linked to their name only if it is free."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seamark.engines.files import (
    make_folders,
    prune_folders,
    read_all,
    storage_errors,
    sync_folder,
    write_all,
)
from seamark.engines.names import check_name, check_prefix, check_range
from seamark.engines.ports import BlobInfo
from seamark.errors import Immutable, NotFound

_TEMPORARY = "~"
_NO_NAMELESS_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}


class DiskBlob:
    """The blobs under one folder; a key is a path in it, so that other programs can read the files."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        # Folders whose names this process knows to be durable.
        self._settled: set[Path] = set()

    def put(self, key: str, data: bytes | memoryview) -> None:
        path = self._folder / check_name("blob", key)
        view = memoryview(data).cast("B")
        with storage_errors(f"blob {key}"):
            while True:
                try:
                    if path.parent not in self._settled:
                        make_folders(path.parent, self._root)
                        self._settled.add(path.parent)
                    with _unnamed(path.parent) as (fd, source):
                        write_all(fd, view, 0)
                        os.fsync(fd)
                        # Given src_dir_fd, the call follows the link that stands for a file without a name.
                        os.link(source, path, src_dir_fd=fd)
                except FileExistsError:
                    if not self._is_same(key, path, view):
                        continue
                except FileNotFoundError:
                    # A delete took the empty folder away.
                    self._settled.discard(path.parent)
                    continue
                with suppress(FileNotFoundError):
                    sync_folder(path.parent)
                return

    def _is_same(self, key: str, path: Path, view: memoryview) -> bool:
        """Whether the object that is there is the one offered; False when it was deleted meanwhile."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return False
        with file:
            size = os.fstat(file.fileno()).st_size
            if size != len(view) or file.read() != view:
                raise Immutable(
                    f"blob {key} exists with other bytes ({size}, offered {len(view)}); "
                    "a blob is written once: use a new key"
                )
        return True

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        check_range(key, start, end)
        path = self._folder / check_name("blob", key)
        with storage_errors(f"blob {key}"):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                raise NotFound(f"blob {key} does not exist ({path})") from None
            try:
                size = os.fstat(fd).st_size
                stop = size if end is None else min(end, size)
                return read_all(fd, max(stop - start, 0), start)
            except IsADirectoryError:
                raise NotFound(f"blob {key} does not exist ({path} is a folder)") from None
            finally:
                os.close(fd)

    def delete(self, key: str) -> None:
        path = self._folder / check_name("blob", key)
        with storage_errors(f"blob {key}"):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            self._settled.discard(path.parent)
            prune_folders(path.parent, self._root)

    def list(self, prefix: str = "") -> Iterator[BlobInfo]:
        check_prefix("blob", prefix)
        with storage_errors(f"blobs at {prefix!r}"):
            yield from self._walk(prefix.rpartition("/")[0], prefix)

    def _walk(self, folder: str, prefix: str) -> Iterator[BlobInfo]:
        try:
            with os.scandir(self._folder / folder) as entries:
                # A folder sorts as its name with the slash: that is where its keys belong among the others.
                found = sorted(
                    (f"{folder}/{entry.name}".lstrip("/") + ("/" if entry.is_dir() else ""), entry)
                    for entry in entries
                    if not entry.name.startswith(_TEMPORARY)
                )
        except (FileNotFoundError, NotADirectoryError):
            return
        for key, entry in found:
            if key.endswith("/"):
                if key.startswith(prefix) or prefix.startswith(key):
                    yield from self._walk(key[:-1], prefix)
            elif key.startswith(prefix):
                try:
                    size = entry.stat().st_size
                except FileNotFoundError:
                    continue
                yield BlobInfo(key, size)

    def close(self) -> None:
        pass


@contextmanager
def _unnamed(folder: Path) -> Iterator[tuple[int, str]]:
    """A new file and the path to link it by.

    It has no name where the file system can do that, so that a process that dies leaves nothing; elsewhere it
    has one that no listing shows.
    """
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o644, dir_fd=inside)
        temporary, source = None, f"/proc/self/fd/{fd}"
    except OSError as error:
        # Some file systems say "not permitted" of a folder that was removed meanwhile.
        if error.errno == errno.EPERM and os.fstat(inside).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the folder was removed", str(folder)) from error
        if error.errno not in _NO_NAMELESS_FILES:
            raise
        temporary = folder / f"{_TEMPORARY}{uuid.uuid4().hex}"
        source = str(temporary)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    finally:
        os.close(inside)
    try:
        yield fd, source
    finally:
        os.close(fd)
        if temporary is not None:
            temporary.unlink(missing_ok=True)
