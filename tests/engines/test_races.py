"""Many processes at one log: each number has exactly one winner, and readers see nothing half done."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest

from seamark.engines import open_engines
from seamark.errors import Conflict

fork = multiprocessing.get_context("fork")


def race(url: str, count: int, who: int, seed: int, wins: Path) -> None:
    """Appends at the head until the log has `count` entries; writes down which numbers it won."""
    rng = random.Random(seed + who)
    log = open_engines(url).logs.open("race/track")
    won, seqno = [], log.head()
    while seqno < count:
        try:
            log.append(seqno, payload(who, seqno, rng.randrange(300))).result()
            won.append(seqno)
            seqno += 1
        except Conflict as conflict:
            seqno = max(conflict.head, seqno + 1)
    wins.write_text(json.dumps(won))


def payload(who: int, seqno: int, size: int) -> bytes:
    return b"%d %d " % (who, seqno) + bytes([who]) * size


def follow(url: str, count: int, done: Path) -> None:
    """Reads everything as it comes: dense, and never damaged."""
    log = open_engines(url).logs.open("race/track")
    seqno = 0
    while seqno < count:
        for found, data in log.scan(seqno):
            assert found == seqno
            assert int(data.split(b" ", 2)[1]) == seqno
            seqno += 1
    done.write_text("read it all")


def run_all(targets: list[tuple[Callable[..., None], tuple[object, ...]]]) -> None:
    processes: list[ForkProcess] = [fork.Process(target=target, args=args) for target, args in targets]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


@pytest.mark.parametrize(
    ("engine", "racers", "count"), [("disk", 8, 400), pytest.param("s3", 8, 60, marks=pytest.mark.slow)]
)
def test_each_number_has_exactly_one_winner(
    engine: str, racers: int, count: int, tmp_path: Path, request: pytest.FixtureRequest, seed: int
) -> None:
    url = f"disk:{tmp_path / 'x'}?segment=8192" if engine == "disk" else request.getfixturevalue("s3_url")
    files = [tmp_path / f"wins-{who}" for who in range(racers)]
    run_all(
        [(race, (url, count, who, seed, files[who])) for who in range(racers)]
        + [(follow, (url, count, tmp_path / "followed"))]
    )
    winner = {seqno: who for who, file in enumerate(files) for seqno in json.loads(file.read_text())}
    assert sum(len(json.loads(file.read_text())) for file in files) == count
    assert sorted(winner) == list(range(count))
    for seqno, data in open_engines(url).logs.open("race/track").scan(0):
        assert int(data.split(b" ", 1)[0]) == winner[seqno]


def first_writer(url: str, who: int) -> None:
    open_engines(url).logs.open("new").append(0, b"%d" % who).exception()


def putter(url: str, who: int, rounds: int) -> None:
    blobs = open_engines(url).blobs
    for number in range(rounds):
        blobs.put(f"shared/deep/{number % 3}", b"same %d" % (number % 3))
        blobs.delete(f"shared/deep/{number % 3}")
        blobs.put(f"own/{who}/{number}", b"x" * number)


def test_processes_that_create_one_log_at_once_make_one_log(tmp_path: Path) -> None:
    for number in range(5):
        url = f"disk:{tmp_path / str(number)}"
        run_all([(first_writer, (url, who)) for who in range(6)])
        assert open_engines(url).logs.open("new").head() == 1


def test_puts_survive_deletes_that_remove_their_folders(tmp_path: Path) -> None:
    url = f"disk:{tmp_path / 'x'}"
    run_all([(putter, (url, who, 40)) for who in range(4)])
    blobs = open_engines(url).blobs
    assert len(list(blobs.list("own/"))) == 160
    for info in list(blobs.list()):
        blobs.delete(info.key)
    assert os.listdir(tmp_path / "x") == []  # noqa: PTH208  the folder itself stays, with nothing in it
