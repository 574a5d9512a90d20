"""A writer that is killed: what it was told is durable is there, and nothing is half there."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from seamark.engines import open_engines

ROUNDS = 15


def content(seqno: int) -> bytes:
    """Every size from nothing to several pages, and now and then a large one."""
    rng = random.Random(seqno)
    return rng.randbytes(rng.choice([0, 1, 30, 200, 5000, 300_000 if seqno % 40 == 0 else 9000]))


def write_until_killed(url: str, acknowledged: int) -> None:
    log = open_engines(url).logs.open("l")
    seqno = log.head()
    while True:
        log.append(seqno, content(seqno)).result()
        os.write(acknowledged, b"%d\n" % seqno)
        seqno += 1
        if seqno % 50 == 0:
            log.truncate(seqno - 30)
            os.write(acknowledged, b"floor %d\n" % (seqno - 30))


def test_reopening_after_kill_9_gives_everything_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    url = f"disk:{tmp_path / 'x'}?segment=100000"
    floor = 0
    for _ in range(ROUNDS):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                write_until_killed(url, writing)
            finally:
                os._exit(1)
        os.close(writing)
        time.sleep(rng.uniform(0.005, 0.15))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        with os.fdopen(reading, "rb") as answers:
            told = answers.read().splitlines()
        log = open_engines(url).logs.open("l")
        acknowledged = max((int(line) for line in told if not line.startswith(b"floor")), default=-1)
        floor = max([floor, *(int(line.split()[1]) for line in told if line.startswith(b"floor"))])
        assert log.head() > acknowledged
        assert log.floor() >= floor
        for seqno, data in log.scan(log.floor()):
            assert data == content(seqno)
    assert log.head() > 0


def test_a_killed_put_leaves_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    root = tmp_path / "x"
    data = rng.randbytes(4 << 20)
    for number in range(8):
        child = os.fork()
        if child == 0:
            try:
                open_engines(f"disk:{root}").blobs.put(f"a/{number}", data)
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        blobs = open_engines(f"disk:{root}").blobs
        for info in blobs.list():
            assert blobs.get(info.key) == data
    blobs.put("a/last", b"x")
    for info in list(blobs.list()):
        blobs.delete(info.key)
    assert list(root.iterdir()) == []
