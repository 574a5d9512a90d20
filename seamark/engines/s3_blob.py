"""Blobs as objects: one conditional PUT each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seamark.engines.names import check_name, check_prefix, check_range
from seamark.engines.ports import BlobInfo
from seamark.errors import Immutable, NotFound

if TYPE_CHECKING:
    from seamark.engines.s3 import Bucket

_FOLDER = "blob/"


class S3Blob:
    """The blobs of one location."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    def put(self, key: str, data: bytes | memoryview) -> None:
        check_name("blob", key)
        view = memoryview(data).cast("B")
        if not self.bucket.put_if_absent(_FOLDER + key, view):
            raise Immutable(
                f"blob {key} exists with other bytes (offered {len(view)}); a blob is written once: use a new key"
            )

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        check_name("blob", key)
        check_range(key, start, end)
        if start == end:
            data = None if self.bucket.size(_FOLDER + key) is None else b""
        else:
            data = self.bucket.get(_FOLDER + key, start, end)
        if data is None:
            raise NotFound(f"blob {key} does not exist")
        return data

    def delete(self, key: str) -> None:
        self.bucket.delete([_FOLDER + check_name("blob", key)])

    def list(self, prefix: str = "") -> Iterator[BlobInfo]:
        check_prefix("blob", prefix)
        for page in self.bucket.pages(_FOLDER + prefix):
            for row in page.rows:
                yield BlobInfo(row.key[len(_FOLDER) :], row.size)

    def close(self) -> None:
        pass
