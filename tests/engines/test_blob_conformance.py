"""What a blob store promises, the same for every engine."""

from __future__ import annotations

import pytest

from seamark.engines import BlobInfo, Engines, open_engines
from seamark.errors import Immutable, NotFound, Refused


def test_a_blob_is_read_back_whole_and_in_ranges(engines: Engines, url: str) -> None:
    engines.blobs.put("parts/a.parquet", b"0123456789")
    again = open_engines(url)
    assert again.blobs.get("parts/a.parquet") == b"0123456789"
    for start, end in [(0, 10), (2, 5), (5, None), (9, 10), (3, 3), (8, 99), (10, None), (10, 12), (50, 60)]:
        assert again.blobs.get("parts/a.parquet", start, end) == b"0123456789"[start:end]
    with pytest.raises(Refused, match="not a range"):
        again.blobs.get("parts/a.parquet", 5, 4)
    again.close()


def test_a_blob_is_written_once(engines: Engines) -> None:
    engines.blobs.put("k", b"one")
    engines.blobs.put("k", memoryview(b"one"))
    for other in (b"two", b"", b"one and more"):
        with pytest.raises(Immutable, match=r"blob k exists with other bytes .*: use a new key"):
            engines.blobs.put("k", other)
    assert engines.blobs.get("k") == b"one"


def test_an_empty_blob_is_a_blob(engines: Engines) -> None:
    engines.blobs.put("empty", b"")
    assert engines.blobs.get("empty") == b""
    assert list(engines.blobs.list()) == [BlobInfo("empty", 0)]


def test_a_large_blob_is_kept(engines: Engines) -> None:
    data = bytes(range(256)) * (8 << 12)
    engines.blobs.put("large", data)
    assert engines.blobs.get("large") == data
    assert engines.blobs.get("large", 1 << 20, (1 << 20) + 5) == data[1 << 20 :][:5]


def test_an_absent_blob_is_not_found(engines: Engines) -> None:
    for span in [(0, None), (0, 0), (1, 5)]:
        with pytest.raises(NotFound, match="blob a/b does not exist"):
            engines.blobs.get("a/b", *span)


def test_deleting_is_idempotent_and_the_key_is_free_again(engines: Engines) -> None:
    engines.blobs.delete("a/b/c")
    engines.blobs.put("a/b/c", b"one")
    engines.blobs.delete("a/b/c")
    engines.blobs.delete("a/b/c")
    with pytest.raises(NotFound):
        engines.blobs.get("a/b/c")
    assert list(engines.blobs.list()) == []
    engines.blobs.put("a/b/c", b"two")
    assert engines.blobs.get("a/b/c") == b"two"


def test_a_listing_is_in_order_of_key_with_sizes(engines: Engines) -> None:
    keys = ["a/1", "a/2/x", "a-b/1", "a.b", "ab", "b/c/d/e", "Z", "a/10", "a/1.x", "a/1-x/y"]
    for key in keys:
        engines.blobs.put(key, key.encode())
    listed = list(engines.blobs.list())
    assert listed == [BlobInfo(key, len(key)) for key in sorted(keys)]
    for prefix in ["a", "a/", "a/1", "a/2/", "b/c/d/e", "nothing", "a/2/x/y", "b/c/d/e/"]:
        assert [info.key for info in engines.blobs.list(prefix)] == sorted(
            key for key in keys if key.startswith(prefix)
        )


def test_logs_and_blobs_of_one_name_do_not_meet(engines: Engines) -> None:
    engines.logs.open("x/y").append(0, b"entry").result()
    engines.blobs.put("x/y", b"blob")
    assert [info.key for info in engines.blobs.list()] == ["x/y"]
    engines.blobs.delete("x/y")
    assert list(engines.logs.open("x/y").scan(0)) == [(0, b"entry")]
