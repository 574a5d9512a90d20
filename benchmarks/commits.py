"""What a durable one-row commit costs beyond the sync or the PUT that any durable commit needs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import seamark
from benchmarks.harness import Figure, Report, Settings, Turn, alone, beside, interleave, percentile
from benchmarks.raw_s3 import BUCKET, raw_puts, s3_server
from seamark.persist import Column, Location, Schema, Shard

SCHEMA = Schema(columns=(Column("order_id", "string"), Column("amount", "int64")), key=("order_id",))


def measure(settings: Settings) -> Report:
    rounds, commits = (15, 400) if settings.full else (7, 120)
    figures, notes = [], []
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as folder:
        root = Path(folder)
        with seamark.open(f"disk:{root / 'location'}") as location:
            size = entry_size(location)
            notes.append(
                f"{rounds} rounds of {commits} commits each; the raw files get {size} bytes a time, as an entry is. "
                "Reference on disk: write + fdatasync into a file whose space is reserved ahead."
            )
            figures += disk(location, root, rounds, commits, size)
        with s3_server(root / "s3") as server:
            if server is None:
                notes.append("S3 is left out: its server is not built yet (`make components` builds it).")
            else:
                with seamark.open(server.url(BUCKET, "commits")) as location:
                    figures += s3(location, raw_puts(server, size), rounds, max(20, commits // 4))
                notes.append(
                    "Reference on S3 (MinIO on this machine): one PUT with If-None-Match of as many bytes, "
                    "with the same client library and settings."
                )
    return Report(tuple(figures), tuple(notes))


@dataclass
class Clock:
    """Times of single commits, kept for the percentiles; a round's figure is commits a second."""

    seconds: list[float] = field(default_factory=list)
    cpu: float = 0.0
    """Seconds that this process computed, which other processes on the machine disturb less."""

    def rate(self, steps: Iterator[None], count: int) -> float:
        begun, computed = time.perf_counter(), time.process_time()
        for _ in range(count):
            start = time.perf_counter()
            next(steps)
            self.seconds.append(time.perf_counter() - start)
        took = time.perf_counter() - begun
        self.cpu += time.process_time() - computed
        return count / took


def disk(location: Location, root: Path, rounds: int, commits: int, size: int) -> list[Figure]:
    clocks = {name: Clock() for name in ("shard", "late", "reserved", "growing")}
    late = past_inline(location)
    with (
        raw_file(root / "reserved", size, reserve=size * commits * rounds) as reserved,
        raw_file(root / "growing", size) as growing,
    ):
        turns: dict[str, Turn] = {
            # A shard of its own each round, so that every round has the same work.
            "shard": lambda: clocks["shard"].rate(appends(new_shard(location)), commits),
            "reserved": lambda: clocks["reserved"].rate(reserved, commits),
            "growing": lambda: clocks["growing"].rate(growing, commits),
            "late": lambda: clocks["late"].rate(late, max(10, commits // 10)),
        }
        taken = interleave(rounds, turns)
    return [
        alone("commits", "disk: raw, space reserved (the reference)", "commits/s", taken["reserved"]),
        alone("commits", "disk: raw, file grows", "commits/s", taken["growing"]),
        beside("commits", "disk: shard", "commits/s", taken["shard"], taken["reserved"]),
        beside("commits", "disk: shard, inline space used up", "commits/s", taken["late"], taken["reserved"]),
        *latencies("disk: shard", clocks["shard"], clocks["reserved"]),
    ]


def s3(location: Location, puts: Iterator[None], rounds: int, commits: int) -> list[Figure]:
    shard, raw = Clock(), Clock()
    steps = appends(new_shard(location))
    taken = interleave(
        rounds,
        {
            "shard": lambda: shard.rate(steps, commits),
            "raw": lambda: raw.rate(puts, commits),
        },
    )
    return [
        alone("commits", "s3: raw conditional PUT (the reference)", "commits/s", taken["raw"]),
        beside("commits", "s3: shard", "commits/s", taken["shard"], taken["raw"]),
        *latencies("s3: shard", shard, raw),
    ]


def latencies(what: str, clock: Clock, reference: Clock) -> Iterator[Figure]:
    for percent in (50, 99):
        value = percentile(clock.seconds, percent) * 1000
        other = percentile(reference.seconds, percent) * 1000
        yield Figure("commits", f"{what}, p{percent}", value, "ms", other, value / other)
    value = clock.cpu / len(clock.seconds) * 1000
    other = reference.cpu / len(reference.seconds) * 1000
    yield Figure("commits", f"{what}, CPU of the process", value, "ms", other, value / other)


def row(stamp: int) -> pa.Table:
    columns = [[f"order-{stamp:09d}"], [stamp], [stamp], [1]]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA.arrow())


def new_shard(location: Location) -> Shard:
    return location.create_shard(f"bench/{time.monotonic_ns()}", SCHEMA)


def appends(shard: Shard) -> Iterator[None]:
    """One row a commit, for ever."""
    while True:
        stamp = shard.upper
        shard.compare_and_append(row(stamp), stamp, stamp + 1)
        yield


def past_inline(location: Location) -> Iterator[None]:
    """Commits to a shard whose entries carry as many rows as they may: each further row becomes a part."""
    shard = new_shard(location)
    wide = pa.Table.from_arrays(
        [pa.array([f"{n:09d}" * 20 for n in range(64)]), *(pa.array([0] * 64) for _ in range(2)), pa.array([1] * 64)],
        schema=SCHEMA.arrow(),
    )
    while not any(batch.parts for batch in shard.state.batches):
        stamp = shard.upper
        moved = wide.set_column(2, SCHEMA.arrow().field("_time"), pa.array([stamp] * wide.num_rows))
        shard.compare_and_append(moved, stamp, stamp + 1)
    return appends(shard)


def entry_size(location: Location) -> int:
    """Bytes of the entry of a one-row commit."""
    shard = new_shard(location)
    next(appends(shard))
    log = location.logs.open(shard.id)
    with log.read(log.head() - 1) as payload:
        return len(payload)


@contextmanager
def raw_file(path: Path, size: int, reserve: int = 0) -> Iterator[Iterator[None]]:
    """Write and sync, and nothing else."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    if reserve:
        os.posix_fallocate(fd, 0, reserve)
        os.fsync(fd)
    data = os.urandom(size)

    def steps() -> Iterator[None]:
        at = 0
        while True:
            os.pwrite(fd, data, at)
            os.fdatasync(fd)
            at += size
            yield

    try:
        yield steps()
    finally:
        os.close(fd)
