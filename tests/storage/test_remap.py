"""Bindings: which bytes of the source belong to which time, agreed on before anything is computed from them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import xxhash

from seamark.errors import NotFound, SourceChanged
from seamark.storage import Collection, Remap
from seamark.storage.sources.files import CHUNK, FileSpan, digest, list_spans, whole_lines
from tests.storage.shop import definition, made, new_url, opened


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    folder.mkdir()
    return folder


@pytest.fixture
def orders() -> Collection:
    return made(new_url())


@pytest.fixture
def remap(orders: Collection) -> Remap:
    return orders.remap(definition())


def ranges(remap: Remap, lower: int = 0) -> list[tuple[str, int, int, int]]:
    found = remap.slices(lower, remap.upper)
    return [(Path(piece.path).name, piece.start, piece.end, piece.time) for piece in found]


def test_what_is_new_is_bound_to_now_and_read_back(source: Path, remap: Remap) -> None:
    (source / "b.jsonl").write_bytes(b"{}\n{}\n")
    (source / "a.jsonl").write_bytes(b"{}\n")
    assert remap.bind(list_spans(str(source)), 1000) == 1001 == remap.upper
    assert ranges(remap) == [("a.jsonl", 0, 3, 1000), ("b.jsonl", 0, 6, 1000)]
    assert [piece.digest for piece in remap.slices(0, 1001)] == [
        xxhash.xxh3_128_hexdigest(b"{}\n"),
        xxhash.xxh3_128_hexdigest(b"{}\n{}\n"),
    ]


def test_time_advances_even_when_nothing_is_new(source: Path, remap: Remap) -> None:
    (source / "a.jsonl").write_bytes(b"{}\n")
    remap.bind(list_spans(str(source)), 1000)
    assert remap.bind(list_spans(str(source)), 2000) == 2001
    assert ranges(remap, 1001) == []


def test_a_clock_that_goes_back_does_not(source: Path, remap: Remap) -> None:
    remap.bind([], 1000)
    (source / "a.jsonl").write_bytes(b"{}\n")
    assert remap.bind(list_spans(str(source)), 500) == 1002
    assert ranges(remap) == [("a.jsonl", 0, 3, 1001)]


def test_a_growing_file_is_taken_line_by_whole_line(source: Path, remap: Remap) -> None:
    path = source / "a.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n"')
    remap.bind(list_spans(str(source)), 10)
    remap.bind(list_spans(str(source)), 20)
    path.write_bytes(b'{"n": 1}\n{"n": 2}\n{')
    remap.bind(list_spans(str(source)), 30)
    assert ranges(remap) == [("a.jsonl", 0, 9, 10), ("a.jsonl", 9, 18, 30)]


def test_a_file_without_a_whole_line_is_left_for_later(source: Path, remap: Remap) -> None:
    (source / "a.jsonl").write_bytes(b"{")
    (source / "b.jsonl").write_bytes(b"")
    remap.bind(list_spans(str(source)), 10)
    assert ranges(remap) == []


def test_a_file_that_shrank_is_refused(source: Path, orders: Collection, remap: Remap) -> None:
    path = source / "a.jsonl"
    path.write_bytes(b"{}\n{}\n")
    remap.bind(list_spans(str(source)), 10)
    path.write_bytes(b"{}\n")
    for binder in (remap, orders.remap(definition())):
        with pytest.raises(SourceChanged) as caught:
            binder.bind(list_spans(str(source)), 20)
        assert str(caught.value) == (
            f"source file {path} has 3 bytes, but 6 were taken before; files may only grow: "
            "restore the file, or give the new contents a new name"
        )
    assert remap.upper == 11


def test_a_file_cut_after_it_was_listed_is_noticed(source: Path, remap: Remap) -> None:
    path = source / "a.jsonl"
    path.write_bytes(b"{}\n")
    with pytest.raises(SourceChanged, match=f"source file {path} has no bytes 3 to 6"):
        digest(str(path), 0, 6)
    path.unlink()
    with pytest.raises(NotFound, match="vanished while it was read; try again"):
        remap.bind([FileSpan(str(path), 3)], 10)


def test_of_two_who_bind_at_once_one_wins_and_both_read_the_same(source: Path) -> None:
    url = new_url()
    made(url)
    for number in range(8):
        (source / f"{number}.jsonl").write_bytes(b"{}\n" * (number + 1))
    binders = [opened(url).remap(definition()) for _ in range(4)]
    barrier = threading.Barrier(len(binders))

    def bind(binder: Remap) -> None:
        for now in range(100, 110):
            barrier.wait()
            binder.bind(list_spans(str(source)), now)

    threads = [threading.Thread(target=bind, args=(binder,)) for binder in binders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    upper = binders[0].upper
    assert all(binder.slices(0, binder.upper) == binders[0].slices(0, upper) for binder in binders)
    assert [(name, start, end) for name, start, end, _ in ranges(binders[0])] == [
        (f"{number}.jsonl", 0, 3 * (number + 1)) for number in range(8)
    ]


def test_renditions_of_one_source_share_its_bindings(source: Path, orders: Collection) -> None:
    (source / "a.jsonl").write_bytes(b"{}\n")
    orders.remap(definition(1)).bind(list_spans(str(source)), 10)
    assert ranges(orders.remap(definition(2))) == [("a.jsonl", 0, 3, 10)]
    elsewhere = {"files": {"path": "/elsewhere"}, "fields": [{"name": "id", "type": "string"}]}
    columns = [{"name": "id", "type": "string"}]
    assert orders.remap(definition(source=elsewhere, columns=columns)).upper == 0


def test_hidden_files_and_folders_are_no_source(source: Path) -> None:
    (source / ".part").write_bytes(b"{}\n")
    (source / "folder").mkdir()
    (source / "b").write_bytes(b"{}\n")
    assert list_spans(str(source)) == [FileSpan(str(source / "b"), 3)]


def test_a_source_that_is_not_there_says_what_to_correct(source: Path) -> None:
    with pytest.raises(NotFound) as caught:
        list_spans(str(source / "none"))
    assert str(caught.value) == (
        f"source folder {source / 'none'} does not exist; create it, or correct spec.source.files.path"
    )


def test_the_last_whole_line_is_found_across_chunks(source: Path) -> None:
    path = source / "long"
    path.write_bytes(b"x\n" + b"y" * (CHUNK + 10))
    assert whole_lines(str(path), 0, path.stat().st_size) == 2
    assert whole_lines(str(path), 2, path.stat().st_size) == 2
    with path.open("ab") as file:
        file.write(b"\nz")
    assert whole_lines(str(path), 2, path.stat().st_size) == CHUNK + 13
