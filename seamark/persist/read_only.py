"""Engines that refuse every change, so that opening a location read-only changes nothing by construction."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import NoReturn

from seamark.engines.ports import Blob, BlobInfo, Log, Logs
from seamark.errors import Refused


def _refuse(what: str, url: str) -> NoReturn:
    raise Refused(f"{what}: {url} was opened read-only; open the location for writing")


class ReadOnlyBlob:
    """Another blob engine without `put` and `delete`."""

    def __init__(self, blobs: Blob, url: str) -> None:
        self._blobs = blobs
        self._url = url

    def put(self, key: str, data: bytes | memoryview) -> None:
        _refuse(f"put of {len(data)} bytes at {key}", self._url)

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        return self._blobs.get(key, start, end)

    def delete(self, key: str) -> None:
        _refuse(f"delete of {key}", self._url)

    def list(self, prefix: str = "") -> Iterator[BlobInfo]:
        return self._blobs.list(prefix)

    def close(self) -> None:
        self._blobs.close()


class ReadOnlyLog:
    """Another log without `append` and `truncate`."""

    def __init__(self, log: Log, name: str, url: str) -> None:
        self._log = log
        self._what = f"log {name}"
        self._url = url

    def append(self, seqno: int, payload: bytes) -> Future[None]:
        _refuse(f"{self._what}: append of {len(payload)} bytes at {seqno}", self._url)

    def read(self, seqno: int) -> AbstractContextManager[memoryview]:
        return self._log.read(seqno)

    def scan(self, start: int) -> Iterator[tuple[int, bytes]]:
        return self._log.scan(start)

    def head(self) -> int:
        return self._log.head()

    def floor(self) -> int:
        return self._log.floor()

    def truncate(self, before: int) -> None:
        _refuse(f"{self._what}: truncate before {before}", self._url)

    def close(self) -> None:
        self._log.close()


class ReadOnlyLogs:
    """Another family of logs, of which none can be changed or dropped."""

    def __init__(self, logs: Logs, url: str) -> None:
        self._logs = logs
        self._url = url

    def open(self, name: str, *, start: int = 0) -> Log:
        return ReadOnlyLog(self._logs.open(name, start=start), name, self._url)

    def names(self, prefix: str = "") -> Iterator[str]:
        return self._logs.names(prefix)

    def drop(self, name: str) -> None:
        _refuse(f"log {name}: drop", self._url)

    def close(self) -> None:
        self._logs.close()
