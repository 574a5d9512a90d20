"""A writer killed at any moment: what it was told is durable is there, and nothing is there twice."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from seamark.persist import Location
from seamark.persist.collect import sweep_orphans
from tests.persist import writer_process

ROUNDS = 5


def test_everything_acknowledged_survives_kill_9_and_nothing_is_there_twice(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    url = f"disk:{tmp_path}"
    acknowledged: dict[int, str] = {}
    uppers = [0]
    for who in range(ROUNDS):
        command = [sys.executable, str(Path(writer_process.__file__)), url, str(who)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 40)):
                acknowledged[int(process.stdout.readline())] = str(who)
            time.sleep(chance.random() * 0.01)
            process.kill()
            acknowledged |= {int(line): str(who) for line in process.stdout.read().splitlines() if line}
        shard = Location.open(url, read_only=True).open_shard("s")
        uppers.append(shard.upper)
    found = {row["n"]: (row["id"], row["_diff"]) for row in shard.snapshot(shard.upper - 1).to_pylist()}
    assert {n: found[n] for n in acknowledged} == {n: (who, 1) for n, who in acknowledged.items()}
    assert sorted(found) == list(range(shard.upper))
    assert len(found) - len(acknowledged) <= ROUNDS
    place = Location.open(url)
    writing = place.open_shard("s")
    writing.acquire("writer", "sweeper")
    sweep_orphans(place, writing)
    referenced = {part.key for batch in writing.state.batches for part in batch.parts}
    assert {info.key for info in place.blobs.list("parts/")} == referenced
