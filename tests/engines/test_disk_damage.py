"""The bytes of a disk log: halves are told from damage, and damage is never passed over."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from seamark.engines import Engines, open_engines
from seamark.engines.frames import frame
from seamark.errors import Conflict, Corrupt, Gap, NewerFormat, SeamarkError

START = 40


def make(root: Path, payloads: list[bytes], options: str = "") -> Engines:
    engines = open_engines(f"disk:{root}{options}")
    log = engines.logs.open("l")
    for seqno, payload in enumerate(payloads):
        log.append(seqno, payload).result()
    return engines


def segment(root: Path, first: int = 0) -> Path:
    return root / "log" / "l@" / f"{first:020d}.segment"


def contents(root: Path) -> list[bytes]:
    log = open_engines(f"disk:{root}").logs.open("l")
    return [payload for _, payload in log.scan(log.floor())]


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize("payload", [b"", b"third entry", b"zeros at the end" + bytes(9), bytes(20)])
def test_an_entry_cut_off_at_any_byte_is_as_if_never_written(tmp_path: Path, payload: bytes) -> None:
    root = tmp_path / "x"
    make(root, [b"first", b"second"])
    tail = START + len(frame(0, b"first")) + len(frame(1, b"second"))
    whole = frame(2, payload)
    # The end mark says nothing about the payload: from the payload's last byte on, the entry is all there.
    needed = len(frame(2, payload.rstrip(b"\0"))) - 1 if payload.strip(b"\0") else len(whole) - len(payload) - 1
    for cut in range(len(whole) + 1):
        copy = tmp_path / f"cut-{cut}"
        shutil.copytree(root, copy)
        overwrite(segment(copy), tail, whole[:cut])
        kept = [b"first", b"second"] + ([payload] if cut >= needed else [])
        assert contents(copy) == kept
        log = open_engines(f"disk:{copy}").logs.open("l")
        log.append(len(kept), b"next").result()
        assert contents(copy) == [*kept, b"next"]
        shutil.rmtree(copy)


def test_a_long_half_is_erased_before_a_short_entry_is_written(tmp_path: Path) -> None:
    make(tmp_path, [b"first"])
    half = frame(1, os.urandom(50_000))[:40_000]
    overwrite(segment(tmp_path), START + len(frame(0, b"first")), half)
    log = open_engines(f"disk:{tmp_path}").logs.open("l")
    assert log.head() == 1
    log.append(1, b"short").result()
    assert contents(tmp_path) == [b"first", b"short"]


def test_every_flipped_byte_is_detected(tmp_path: Path) -> None:
    payloads = [b"first", b"", b"third \0\0"]
    make(tmp_path, payloads)
    path = segment(tmp_path)
    end = START + sum(len(frame(0, payload)) for payload in payloads)
    original = path.read_bytes()
    for offset in range(end):
        for mask in (0x01, 0x80, 0xFF):
            overwrite(path, offset, bytes([original[offset] ^ mask]))
            with pytest.raises((Corrupt, NewerFormat)) as caught:
                contents(tmp_path)
            assert path.name in str(caught.value)
        overwrite(path, offset, original[offset : offset + 1])
    assert contents(tmp_path) == payloads


def test_every_byte_that_became_zero_is_detected_or_harmless(tmp_path: Path) -> None:
    payloads = [b"first", b"", b"third \0\0"]
    make(tmp_path, payloads)
    path = segment(tmp_path)
    end = START + sum(len(frame(0, payload)) for payload in payloads)
    original = path.read_bytes()
    for offset in range(end):
        overwrite(path, offset, b"\0")
        try:
            assert contents(tmp_path) == payloads
            assert original[offset] == 0 or offset == end - 1
        except Corrupt:
            pass
        overwrite(path, offset, original[offset : offset + 1])


def test_a_page_of_zeros_in_the_middle_is_not_taken_for_the_end(tmp_path: Path) -> None:
    make(tmp_path, [b"x" * 1000] * 20)
    overwrite(segment(tmp_path), 4096, bytes(4096))
    with pytest.raises(Corrupt, match=r"00000000000000000000\.segment at byte"):
        contents(tmp_path)


def test_damage_names_file_and_offset_and_what_to_do(tmp_path: Path) -> None:
    make(tmp_path, [b"first", b"second", b"third"])
    offset = START + len(frame(0, b"first"))
    overwrite(segment(tmp_path), offset + 33, b"?")
    log = open_engines(f"disk:{tmp_path}").logs.open("l")
    with pytest.raises(Corrupt) as caught, log.read(1):
        pass
    assert str(caught.value) == (
        f"{segment(tmp_path)} at byte {offset}: the payload's checksum does not hold; "
        "restore it from a copy of the storage"
    )
    with log.read(2) as view:
        assert view == b"third"


def test_an_append_after_damage_is_refused_and_destroys_nothing(tmp_path: Path) -> None:
    make(tmp_path, [b"first", b"second"])
    overwrite(segment(tmp_path), START + 33, b"?")
    last = START + len(frame(0, b"first"))
    overwrite(segment(tmp_path), last + 3, b"?")
    before = segment(tmp_path).read_bytes()
    with pytest.raises(Corrupt):
        open_engines(f"disk:{tmp_path}").logs.open("l")
    assert segment(tmp_path).read_bytes() == before


def test_an_entry_of_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, [b"first"])
    monkeypatch.setattr("seamark.engines.frames.VERSION", 2)
    newer = frame(1, b"from the future")
    monkeypatch.undo()
    overwrite(segment(tmp_path), START + len(frame(0, b"first")), newer)
    with pytest.raises(NewerFormat) as caught:
        contents(tmp_path)
    assert str(caught.value) == (
        f"{segment(tmp_path)} has format 2, this Seamark knows up to 1; upgrade Seamark to read it: nothing was touched"
    )


def test_a_missing_segment_is_a_gap(tmp_path: Path) -> None:
    make(tmp_path, [b"x" * 100] * 10, "?segment=300")
    names = sorted(path.name for path in segment(tmp_path).parent.glob("*.segment"))
    assert len(names) == 5
    assert contents(tmp_path) == [b"x" * 100] * 10
    segment(tmp_path, 4).unlink()
    with pytest.raises(Gap) as caught:
        contents(tmp_path)
    assert (caught.value.expected, caught.value.found) == (4, 6)


def test_truncation_deletes_whole_segments_below_the_floor(tmp_path: Path) -> None:
    engines = make(tmp_path, [b"x" * 100] * 10, "?segment=300")
    engines.logs.open("l").truncate(7)
    names = sorted(path.name for path in segment(tmp_path).parent.glob("*.segment"))
    assert names == [segment(tmp_path, 6).name, segment(tmp_path, 8).name]
    assert contents(tmp_path) == [b"x" * 100] * 3


def test_a_damaged_floor_is_detected(tmp_path: Path) -> None:
    make(tmp_path, [b"x"] * 5).logs.open("l").truncate(3)
    path = tmp_path / "log" / "l@" / "floor"
    original = path.read_bytes()
    for offset in range(len(original) - 1):
        path.write_bytes(original[:offset] + bytes([original[offset] ^ 1]) + original[offset + 1 :])
        with pytest.raises((Corrupt, Gap)):
            contents(tmp_path)


def test_an_entry_of_many_megabytes_is_kept(tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * 48
    make(tmp_path, [b"before", data, b"after"])
    assert contents(tmp_path) == [b"before", data, b"after"]


def test_dropping_leaves_no_file(tmp_path: Path) -> None:
    engines = make(tmp_path / "x", [b"x"] * 5)
    engines.logs.open("deep/er/log").append(0, b"x").result()
    engines.blobs.put("a/b", b"x")
    engines.blobs.delete("a/b")
    engines.logs.drop("l")
    engines.logs.drop("deep/er/log")
    assert list((tmp_path / "x").iterdir()) == []


def test_a_drop_that_was_interrupted_is_finished_by_the_next(tmp_path: Path) -> None:
    engines = make(tmp_path, [b"x"] * 5)
    (tmp_path / "dropped").mkdir()
    (tmp_path / "log" / "l@").rename(tmp_path / "dropped" / "interrupted")
    assert list(engines.logs.names()) == []
    engines.logs.drop("l")
    assert list(tmp_path.iterdir()) == []


def test_threads_that_append_at_once_share_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make(tmp_path, [b"first"]).logs.open("l")
    syncs, go = [], threading.Event()
    real = os.fdatasync

    def slow(fd: int) -> None:
        syncs.append(fd)
        go.wait()
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    futures = {}
    threads = []
    for seqno in range(1, 9):
        thread = threading.Thread(target=lambda n=seqno: futures.update({n: log.append(n, b"%d" % n)}))
        thread.start()
        threads.append(thread)
        time.sleep(0.02)
    assert len(syncs) == 1
    go.set()
    for thread in threads:
        thread.join()
    assert [future.exception() for future in futures.values()] == [None] * 8
    assert len(syncs) == 2
    assert contents(tmp_path) == [b"first", *(b"%d" % n for n in range(1, 9))]


def test_threads_that_append_one_number_at_once_have_one_winner(tmp_path: Path) -> None:
    log = make(tmp_path, [b"first"]).logs.open("l")
    answers = []
    for seqno in range(1, 40):
        threads = [
            threading.Thread(target=lambda n=seqno, w=who: answers.append(log.append(n, b"%d" % w))) for who in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(answer.exception() is None for answer in answers) == 39
    assert {type(answer.exception()) for answer in answers} == {type(None), Conflict}
    assert len(contents(tmp_path)) == 40


def test_a_refused_append_makes_no_log(tmp_path: Path) -> None:
    log = open_engines(f"disk:{tmp_path / 'x'}").logs.open("l")
    assert isinstance(log.append(3, b"x").exception(), Gap)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_sync_is_not_acknowledged_and_leaves_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make(tmp_path, [b"first"]).logs.open("l")

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    error = log.append(1, b"lost").exception()
    monkeypatch.undo()
    assert isinstance(error, SeamarkError)
    assert "Input/output error" in str(error)
    assert contents(tmp_path) == [b"first"]
    log.append(1, b"kept").result()
    assert contents(tmp_path) == [b"first", b"kept"]


def test_a_handle_used_after_a_fork_still_excludes_its_parent(tmp_path: Path) -> None:
    log = make(tmp_path, [b"first"]).logs.open("l")
    child = os.fork()
    if child == 0:
        try:
            seqno = log.head()
            for _ in range(50):
                while log.append(seqno, b"child").exception():
                    seqno = log.head()
                seqno += 1
        finally:
            os._exit(0)
    won, seqno = 0, log.head()
    while won < 50:
        if log.append(seqno, b"parent").exception() is None:
            won += 1
        seqno = log.head()
    os.waitpid(child, 0)
    assert sorted(contents(tmp_path)) == [b"child"] * 50 + [b"first"] + [b"parent"] * 50
