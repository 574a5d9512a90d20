"""From `apply` to Ready on one machine, taken apart by the times that storage, runs and objects carry themselves."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

import seamark
from benchmarks.harness import Report, Settings, alone, beside, interleave
from benchmarks.ingest import FIELDS, SEED, line
from seamark.persist import Location, entries
from seamark.persist.commands import Append, Lock

ROWS = 1000
PATIENCE = 180.0
SEAMARK = Path(sys.executable).with_name("seamark")
BARE = "from seamark_spark.session import open_session; open_session('bare').range(1).count()"
STEPS = (
    "apply, the command itself",
    "controller starts and launches the run",
    "Spark starts, definition checked, locks taken",
    "first job and its commits",
    "controller sees it and says Ready",
)


def measure(settings: Settings) -> Report:
    rounds = 5 if settings.full else 2
    steps: list[list[float]] = []

    def ours() -> float:
        steps.append(one_start())
        return sum(steps[-1])

    taken = interleave(rounds, {"bare": bare_spark, "ours": ours})
    figures = (
        alone("ready", "a bare Spark process with one job (the reference)", "s", taken["bare"]),
        beside("ready", "apply to Ready", "s", taken["ours"], taken["bare"]),
        *(alone("ready", f"  {name}", "s", [step[n] for step in steps]) for n, name in enumerate(STEPS)),
    )
    note = f"{rounds} rounds, each with an empty root: one collection, {ROWS} records, 2 shards, disk, tick 1 s."
    return Report(figures, (note,))


def bare_spark() -> float:
    begun = time.time()
    subprocess.run([sys.executable, "-c", BARE], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.time() - begun


def one_start() -> list[float]:
    """Seconds of each step."""
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as folder:
        root = Path(folder)
        write_manifests(root)
        begun = time.time()
        subprocess.run(
            [SEAMARK, "local", "apply", "-f", root / "manifests", "--root", root / "root"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        applied = time.time()
        with controller(root):
            ready = wait_ready(root / "root", applied + PATIENCE)
            runs = [json.loads(path.read_text()) for path in (root / "root").glob("runs/*/run.json")]
            launched = min(run["created_at"] for run in runs)
        with seamark.open(f"disk:{root / 'location'}", read_only=True) as location:
            locked, committed = writer_times(location)
        moments = (begun, applied, launched, locked, committed, ready)
        return [later - earlier for earlier, later in itertools.pairwise(moments)]


def write_manifests(root: Path) -> None:
    chance = random.Random(SEED)
    (root / "orders").mkdir()
    (root / "orders" / "orders.jsonl").write_text("".join(line(n, chance) for n in range(ROWS)))
    (root / "manifests").mkdir()
    objects = [
        {"kind": "StorageLocation", "metadata": {"name": "lake"}, "spec": {"url": f"disk:{root / 'location'}"}},
        {
            "kind": "Collection",
            "metadata": {"name": "orders"},
            "spec": {
                "locationRef": {"name": "lake"},
                "source": {
                    "files": {"path": str(root / "orders"), "format": "jsonl"},
                    "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
                },
                "columns": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
                "key": ["order_id"],
                "envelope": "upsert",
                "shards": 2,
                "tickSeconds": 1,
            },
        },
    ]
    text = yaml.safe_dump_all({"apiVersion": "seamark.io/v1alpha1", **one} for one in objects)
    (root / "manifests" / "all.yaml").write_text(text)


@contextmanager
def controller(root: Path) -> Iterator[None]:
    """The controller as a process; it takes its runs with it when it ends."""
    with (root / "controller.log").open("wb") as log:
        process = subprocess.Popen(
            [SEAMARK, "local", "run", "--root", root / "root", "--interval", "0.2"], stdout=log, stderr=log
        )
        try:
            yield
        except BaseException:
            print((root / "controller.log").read_text(), file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait(60)


def wait_ready(root: Path, deadline: float) -> float:
    """The moment at which the collection says Ready, to a few hundredths of a second."""
    from seamark_operator.shells.local.root import Root

    objects = Root.open(root).objects
    while time.time() < deadline:
        found = objects.get("Collection", "default", "orders") or {}
        if found.get("status", {}).get("phase") == "Ready":
            return time.time()
        time.sleep(0.02)
    raise TimeoutError(f"the collection was not Ready after {PATIENCE:.0f} s; the controller's log is above")


def writer_times(location: Location) -> tuple[float, float]:
    """When the last shard was locked, and when the last shard got its first commit: each entry has its writer's clock.

    An empty upper can be committed before data; the first commit that carries rows is the one that counts.
    """
    locked, committed = [], []
    for shard_id in location.shard_ids("collections/orders/r1/"):
        log = location.logs.open(shard_id)
        found = [entries.decode(payload, shard_id) for _, payload in log.scan(0)]
        locked.append(min(one.wall for one in found if isinstance(one.command, Lock)))
        committed.append(min(one.wall for one in found if isinstance(one.command, Append) and one.command.batch))
    return max(locked) / 1000, max(committed) / 1000
