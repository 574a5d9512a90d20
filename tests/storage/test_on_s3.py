"""The story of a shard and of a collection, on a real S3 server."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from typing import Any

import pytest

from seamark.errors import Corrupt, Dropped, Fenced, NameTaken, UpperMismatch
from seamark.persist import Location
from seamark.persist.collect import delete_shard
from seamark.storage import collection
from tests.persist import rows
from tests.services.s3 import Minio
from tests.storage.shop import add, contents, definition, made, objects, opened, present, write

pytestmark = pytest.mark.slow


@pytest.fixture
def url(minio: Minio) -> str:
    return minio.url(minio.make_bucket(f"storage-{uuid.uuid4().hex[:12]}"), "some/prefix", grace=1)


def test_a_shard_keeps_its_promises_on_s3(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    monkeypatch.setattr("seamark.persist.machine.CHECKPOINT_EVERY", 4)
    with Location.open(url) as place, Location.open(url) as elsewhere:
        shard = place.create_shard("s", rows.SCHEMA)
        rival = elsewhere.open_shard("s")
        epoch = shard.acquire("w", "one")
        for time in range(6):
            shard.compare_and_append(rows.table([("a", time, time, 1)]), time, time + 1, epoch=epoch)
        with pytest.raises(UpperMismatch):
            rival.compare_and_append(None, 0, 1, epoch=epoch)
        successor = rival.acquire("w", "two")
        with pytest.raises(Fenced):
            shard.compare_and_append(None, 6, 7, epoch=epoch)
        rival.compare_and_append(rows.table([("a", 0, 6, -1)]), 6, 7, epoch=successor)
        with Location.open(url, read_only=True) as again:
            assert again.checkpoints.newest("s") is not None
            assert again.open_shard("s").state == rival.refresh()
            assert rows.accumulated(again.open_shard("s").snapshot(6)) == {("a", n): 1 for n in range(1, 6)}
        key = next(iter(place.blobs.list("parts/s/"))).key
        data = bytearray(place.blobs.get(key))
        data[len(data) // 2] ^= 1
        place.blobs.delete(key)
        place.blobs.put(key, bytes(data))
        with pytest.raises(Corrupt, match=key):
            rival.snapshot(6)
        assert delete_shard(place, "s", "test") == 7
        assert objects(place) == []
        with pytest.raises(Dropped):
            rival.compare_and_append(None, 7, 8, epoch=successor)


def test_locks_taken_at_the_same_moment_have_different_epochs_on_s3(url: str) -> None:
    Location.open(url).create_shard("s", rows.SCHEMA)
    epochs: list[int] = []

    def take() -> None:
        shard = Location.open(url).open_shard("s")
        epochs.extend(shard.acquire("w", "me") for _ in range(4))

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == list(range(1, 13))


def test_a_collection_is_rebuilt_handed_over_and_collected_on_s3(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamark.persist.shard.INLINE_WRITE", 0)
    monkeypatch.setattr(collection, "RETENTION_STEP", 1)
    orders = made(url)
    with pytest.raises(NameTaken):
        made(url, owner="other/orders/2")
    write(orders, "r1", [("a", 1, 10, 1), ("b", 1, 15, 1)], 40)
    orders.advance()
    total: Counter[tuple[Any, ...]] = Counter()
    reader = opened(url).subscribe(12, timeout=30.0, poll=0.05)
    add(total, next(reader).records)
    add(total, next(reader).records)
    assert present(total) == {("a", 1): 1, ("b", 1): 1}
    orders.hold("auditor", 12)
    orders.add_rendition("r2", definition(2))
    write(orders, "r2", [("a", 2, 10, 1), ("b", 2, 15, 1)], 60)
    orders.mark_standby("r2")
    write(orders, "r1", [], 100)
    assert orders.advance() == 59
    assert orders.handover("r2") == 59
    write(orders, "r2", [("c", 2, 70, 1)], 5000)
    orders.advance()
    upper = 0
    while upper < 5000:
        step = next(reader)
        add(total, step.records)
        upper = step.upper
    reader.close()
    assert present(total) == contents(opened(url).snapshot(4999)) == {("a", 2): 1, ("b", 2): 1, ("c", 2): 1}
    assert contents(opened(url).snapshot(58)) == {("a", 1): 1, ("b", 1): 1}
    assert (orders.retain(0), orders.collectable()) == (12, [])
    orders.hold("auditor", 60)
    orders.retain(0)
    assert orders.collectable() == ["r1"]
    orders.condemn("r1")
    orders.sweep("r1")
    assert [name for name in objects(orders._location) if "/r1/" in name] == []
    orders.drop()
    assert objects(Location.open(url)) == []
