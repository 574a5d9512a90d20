"""The engine on a local file system: logs and blobs in one folder, for all processes of a machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from seamark.engines.disk_blob import DiskBlob
from seamark.engines.disk_log import LOCK, DiskLog
from seamark.engines.disk_segment import SUFFIX
from seamark.engines.files import make_folders, prune_folders, storage_errors, sync_folder
from seamark.engines.names import check_name, check_prefix, check_seqno
from seamark.engines.registry import Address
from seamark.errors import InvalidLocation

# No name of a log may hold this character, so the folder of a log never is a folder of another log's name.
_LOG_MARK = "@"
_ROLL_AT = 16 << 20


def connect(address: Address) -> tuple[DiskLogs, DiskBlob]:
    """The engines under a folder, which is made with the first write."""
    if address.host or not address.path:
        raise InvalidLocation(
            f"location {address.url}: the disk engine needs a path after its colon: "
            "write disk:PATH, or disk:///PATH for an absolute one"
        )
    root = Path(os.path.abspath(address.path))  # noqa: PTH100  links in the path stay as the user wrote them
    roll_at = int(address.number("segment", _ROLL_AT, least=1))
    return DiskLogs(root, roll_at), DiskBlob(root / "blob", root)


class DiskLogs:
    """The logs under one root."""

    def __init__(self, root: Path, roll_at: int) -> None:
        self._root = root
        self._roll_at = roll_at

    def open(self, name: str, *, start: int = 0) -> DiskLog:
        return DiskLog(self._log_folder(name), self._root, name, check_seqno(name, start), self._roll_at)

    def names(self, prefix: str = "") -> Iterator[str]:
        check_prefix("log", prefix)
        with storage_errors(f"logs at {prefix!r}"):
            yield from self._walk(prefix.rpartition("/")[0], prefix)

    def _walk(self, folder: str, prefix: str) -> Iterator[str]:
        try:
            with os.scandir(self._root / "log" / folder) as entries:
                found = sorted(
                    name[: -len(_LOG_MARK)] if name.endswith(_LOG_MARK) else name + "/"
                    for name in (f"{folder}/{entry.name}".lstrip("/") for entry in entries)
                )
        except FileNotFoundError:
            return
        for name in found:
            if not name.endswith("/"):
                if name.startswith(prefix) and any(self._log_folder(name).glob("*" + SUFFIX)):
                    yield name
            elif name.startswith(prefix) or prefix.startswith(name):
                yield from self._walk(name[:-1], prefix)

    def drop(self, name: str) -> None:
        folder = self._log_folder(name)
        attic = self._root / "dropped"
        with storage_errors(f"log {name}"):
            while (fd := _lock(folder / LOCK)) is not None:
                try:
                    make_folders(attic, self._root)
                    # From here on the log is gone as a whole, whatever happens to this process.
                    folder.rename(attic / uuid.uuid4().hex)
                    sync_folder(folder.parent)
                except FileNotFoundError:
                    continue
                finally:
                    os.close(fd)
            prune_folders(folder, self._root)
            if attic.exists():
                for rest in attic.iterdir():
                    shutil.rmtree(rest, ignore_errors=True)
                prune_folders(attic, self._root)

    def close(self) -> None:
        pass

    def _log_folder(self, name: str) -> Path:
        check_name("log", name)
        return self._root / "log" / (name + _LOG_MARK)


def _lock(path: Path) -> int | None:
    """The lock of the log whose lock file this is at the moment, or None when there is no log."""
    while True:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            if path.stat().st_ino == os.fstat(fd).st_ino:
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)
