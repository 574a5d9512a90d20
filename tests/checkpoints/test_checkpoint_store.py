"""Checkpoints are a cache: the newest sound one serves, few are kept, and what is not ours is left alone."""

from __future__ import annotations

import logging
import uuid

import pytest

from seamark.checkpoints import BlobCheckpoints
from seamark.checkpoints.store import FORMAT, HEADER, MAGIC
from seamark.engines import Blob, open_engines


@pytest.fixture
def blobs() -> Blob:
    return open_engines(f"mem:{uuid.uuid4().hex}").blobs


@pytest.fixture
def store(blobs: Blob) -> BlobCheckpoints:
    return BlobCheckpoints(blobs)


def replace(blobs: Blob, key: str, data: bytes) -> None:
    blobs.delete(key)
    blobs.put(key, data)


def key(owner: str, event: int) -> str:
    return f"checkpoints/{owner}/{event:020d}"


def test_an_owner_without_checkpoints_has_none(store: BlobCheckpoints) -> None:
    assert store.newest("nobody") is None


def test_the_newest_is_by_number_and_not_by_spelling(store: BlobCheckpoints) -> None:
    for event in (1000, 999, 5):
        store.write("s", event, f"tree {event}".encode())
    found = store.newest("s")
    assert found is not None
    assert (found.event, found.tree) == (1000, b"tree 1000")


def test_an_empty_tree_is_a_tree(store: BlobCheckpoints) -> None:
    store.write("s", 0, b"")
    found = store.newest("s")
    assert found is not None
    assert found.tree == b""


def test_every_flipped_byte_makes_the_next_older_one_serve(
    blobs: Blob, store: BlobCheckpoints, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    store.write("s", 1, b"older")
    store.write("s", 2, b"newer")
    sound = blobs.get(key("s", 2))
    for at in range(len(sound)):
        damaged = bytearray(sound)
        damaged[at] ^= 1 << at % 8
        replace(blobs, key("s", 2), bytes(damaged))
        found = store.newest("s")
        assert found is not None
        assert (found.event, found.tree) == (1, b"older"), at
    assert "checkpoint 2 of s is damaged: skipped, an older one and more replay serve" in caplog.text


@pytest.mark.parametrize("length", [0, 3, len(MAGIC), HEADER - 1])
def test_a_checkpoint_cut_short_is_damaged(blobs: Blob, store: BlobCheckpoints, length: int) -> None:
    store.write("s", 2, b"tree")
    replace(blobs, key("s", 2), blobs.get(key("s", 2))[:length])
    assert store.newest("s") is None


def test_a_checkpoint_of_a_newer_format_is_skipped_and_said_so(
    blobs: Blob, store: BlobCheckpoints, caplog: pytest.LogCaptureFixture
) -> None:
    store.write("s", 1, b"older")
    store.write("s", 2, b"newer")
    data = bytearray(blobs.get(key("s", 2)))
    data[len(MAGIC)] = FORMAT + 1
    replace(blobs, key("s", 2), bytes(data))
    found = store.newest("s")
    assert found is not None
    assert found.event == 1
    assert "checkpoint 2 of s is of format 2, newer than 1" in caplog.text


def test_only_the_newest_are_kept(blobs: Blob) -> None:
    store = BlobCheckpoints(blobs, keep=3)
    for event in (8, 9, 10, 99, 100):
        store.write("s", event, b"tree")
    assert [info.key for info in blobs.list()] == [key("s", event) for event in (10, 99, 100)]


def test_at_least_two_are_kept_whatever_is_asked(blobs: Blob) -> None:
    store = BlobCheckpoints(blobs, keep=0)
    for event in range(4):
        store.write("s", event, b"tree")
    assert len(list(blobs.list())) == 2


def test_a_second_writer_of_the_same_event_is_success(store: BlobCheckpoints) -> None:
    store.write("s", 7, b"tree")
    store.write("s", 7, b"tree")
    store.write("s", 7, b"the same state in other bytes")
    found = store.newest("s")
    assert found is not None
    assert found.tree == b"tree"


def test_what_is_not_a_checkpoint_is_ignored_and_kept(blobs: Blob) -> None:
    foreign = ["README", "12", f"{3:020d}.bak", f"{4:021d}"]
    for name in foreign:
        blobs.put(f"checkpoints/s/{name}", b"foreign")
    blobs.put("checkpoints/other", b"foreign")
    store = BlobCheckpoints(blobs, keep=2)
    for event in range(5):
        store.write("s", event, b"tree")
    found = store.newest("s")
    assert found is not None
    assert found.event == 4
    kept = {info.key for info in blobs.list()}
    assert {f"checkpoints/s/{name}" for name in foreign} <= kept
    assert {key("s", 3), key("s", 4)} <= kept
    assert key("s", 2) not in kept


def test_owners_do_not_see_or_drop_each_others(blobs: Blob, store: BlobCheckpoints) -> None:
    for owner in ("a", "a/b", "ab"):
        store.write(owner, 3, owner.encode())
    store.drop("a")
    store.drop("a")
    assert store.newest("a") is None
    for owner in ("a/b", "ab"):
        found = store.newest(owner)
        assert found is not None
        assert found.tree == owner.encode()
    store.drop("a/b")
    store.drop("ab")
    assert list(blobs.list()) == []
