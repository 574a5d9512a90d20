"""Claims about the apps as processes: exit codes, markers, signals, and death at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from seamark.storage import parse_definition, read_marker
from tests.spark.shop import Shop, expected, rows, some_orders, spec

pytestmark = pytest.mark.slow

APPS = Path(__file__).parents[2] / "spark_apps"
PLAIN = [sys.executable]
SUBMIT = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]


def command(app: str, shop: Shop, run_id: str, *more: str, rendition: str = "r1", by: list[str] = PLAIN) -> list[str]:
    return [
        *by, str(APPS / f"{app}.py"), "--location", shop.url, "--collection", "orders", "--rendition", rendition,
        "--run-id", run_id, "--reentrance-id", f"me/orders/{rendition}", *more,
    ]  # fmt: skip


def finish(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=240, env=environment())


def environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable}


def newest(shop: Shop) -> Any:
    shop.collection.refresh()
    if shop.collection.upper == 0:
        return Counter()
    return rows(shop.collection.snapshot(shop.collection.upper - 1))


def raw(shop: Shop) -> Any:
    return expected([line for _, line in shop.journal])


def test_a_run_is_done_once_and_its_marker_says_so(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.arrive("a.jsonl", *some_orders(random.Random(1), 200, 80))
    first = finish(command("ingest", shop, "ing-1", "--once"))
    assert first.returncode == 0, first.stderr
    (progress,) = [json.loads(line) for line in first.stdout.splitlines()]
    assert progress["lines"] == 200
    assert progress["upper"] == progress["time"] + 1
    assert newest(shop) == raw(shop)
    marker = read_marker(shop.location, "orders", "r1", "ing-1")
    assert marker is not None
    assert (marker.outcome, marker.kind, marker.upper) == ("committed", "ingest", progress["upper"])
    assert shop.collection.rendition("r1").shards[0].state.lock is None

    shop.arrive("b.jsonl", {"order_id": "later"})
    again = finish(command("ingest", shop, "ing-1", "--once"))
    assert (again.returncode, again.stdout) == (0, "")
    shop.collection.refresh()
    assert shop.collection.upper == progress["upper"]


def test_spark_submit_runs_the_same_app_and_backfill_equals_ingest(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.arrive("a.jsonl", *some_orders(random.Random(2), 300, 120))
    submitted = finish(command("ingest", shop, "ing-1", "--once", by=SUBMIT))
    assert submitted.returncode == 0, submitted.stderr
    shop.collection.add_rendition("r2", parse_definition(spec(shop.source, shards=3)))
    filled = finish(command("backfill", shop, "bkf-1", rendition="r2"))
    assert filled.returncode == 0, filled.stderr
    second = shop.collection.rendition("r2")
    second.refresh()
    at = shop.collection.rendition("r1").upper - 1
    assert rows(second.snapshot(at)) == rows(shop.collection.rendition("r1").snapshot(at)) == raw(shop)
    marker = read_marker(shop.location, "orders", "r2", "bkf-1")
    assert marker is not None
    assert (marker.outcome, marker.kind) == ("committed", "backfill")


def test_a_refused_record_ends_the_run_with_1_and_a_marker_that_says_why(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    (shop.source / "a.jsonl").write_text("nonsense\n")
    failed = finish(command("ingest", shop, "ing-1", "--tick-seconds", "1"))
    assert failed.returncode == 1
    assert "a.jsonl, byte 0: not one JSON object" in failed.stderr.splitlines()[-1]
    assert "Traceback" not in failed.stderr
    marker = read_marker(shop.location, "orders", "r1", "ing-1")
    assert marker is not None
    assert marker.outcome == "failed"
    assert "a.jsonl, byte 0" in marker.detail
    again = finish(command("ingest", shop, "ing-1", "--once"))
    assert again.returncode == 1
    assert "ended before (failed)" in again.stderr


def test_a_rendition_that_nobody_wants_is_left_alone(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.collection.add_rendition("r2", parse_definition(spec(shop.source, shards=3)))
    shop.collection.abandon("r2", "a test")
    done = finish(command("backfill", shop, "bkf-1", rendition="r2"))
    assert done.returncode == 0
    assert "rendition r2 of orders is abandoned: nothing to write" in done.stderr
    marker = read_marker(shop.location, "orders", "r2", "bkf-1")
    assert marker is not None
    assert marker.outcome == "retired"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--collection", "nosuch"), "collection 'nosuch' does not exist"),
        (("--rendition", "r9"), "no rendition 'r9'; there are r1"),
        (("--location", "mem:x"), "mem:x lives in one process"),
        (("--location", "ftp:x"), "InvalidLocation"),
    ],
)
def test_what_is_not_there_is_refused(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    refused = finish([*command("ingest", shop, "ing-1", "--once"), *change])
    assert refused.returncode == 1
    assert said in refused.stderr


def test_help_teaches_and_wrong_usage_is_2() -> None:
    for app in ("ingest", "backfill"):
        shown = subprocess.run([*PLAIN, str(APPS / f"{app}.py"), "--help"], capture_output=True, text=True, timeout=60)
        assert shown.returncode == 0
        assert "exit codes:" in shown.stdout
        assert "--reentrance-id" in shown.stdout
        wrong = subprocess.run([*PLAIN, str(APPS / f"{app}.py")], capture_output=True, text=True, timeout=60)
        assert wrong.returncode == 2


def test_a_second_driver_takes_over_and_a_continuous_one_ends_cleanly_when_told(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    chance = random.Random(6)
    shop.arrive("a.jsonl", *some_orders(chance, 100, 60))
    with (
        start(command("ingest", shop, "ing-1", "--tick-seconds", "0.2"), tmp_path, "first") as first,
        start(command("ingest", shop, "ing-2", "--tick-seconds", "0.2"), tmp_path, "second") as second,
    ):
        fenced = first_to_end([first, second])
        other = second if fenced is first else first
        assert fenced.wait(60) == 1
        for file in ("b.jsonl", "c.jsonl"):
            shop.arrive(file, *some_orders(chance, 100, 60))
            wait_for(lambda: newest(shop) == raw(shop), other)
        other.send_signal(signal.SIGTERM)
        assert other.wait(60) == 0
    errors = [(tmp_path / f"{name}.err").read_text() for name in ("first", "second")]
    assert sum("Fenced: " in text for text in errors) == 1
    assert "Traceback" not in "".join(errors)
    assert [read_marker(shop.location, "orders", "r1", run_id) for run_id in ("ing-1", "ing-2")] == [None, None]
    assert shop.collection.rendition("r1").shards[0].refresh().lock is None
    assert newest(shop) == raw(shop)


def test_a_driver_killed_at_any_moment_is_replaced_without_loss_or_doubles(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    shop = Shop(tmp_path)
    for life in range(3):
        upper = shop.collection.upper
        with start(command("ingest", shop, "ing-1", "--tick-seconds", "0.05"), tmp_path, f"{life}") as running:
            shop.arrive(f"{life}.jsonl", *some_orders(chance, 400, 150))
            # Killed while it computes or commits, not while Spark starts.
            wait_for(lambda: shop.collection.refresh() or shop.collection.upper > upper, running)  # noqa: B023
            until = time.monotonic() + chance.uniform(0.0, 3.0)
            print(f"life {life}: killed {until - time.monotonic():.2f} s after its first commit")
            while time.monotonic() < until:
                shop.arrive(f"{life}.jsonl", *some_orders(chance, 200, 150))
                time.sleep(0.1)
            running.kill()
            running.wait(60)
    last = finish(command("ingest", shop, "ing-2", "--once"))
    assert last.returncode == 0, last.stderr
    assert newest(shop) == raw(shop)


@contextmanager
def start(arguments: list[str], folder: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    """A run in the background, which does not outlive the test."""
    with (folder / f"{name}.out").open("a") as out, (folder / f"{name}.err").open("a") as err:
        running = subprocess.Popen(arguments, stdout=out, stderr=err, text=True, env=environment())
    try:
        yield running
    finally:
        running.kill()
        running.wait(60)


def first_to_end(running: list[subprocess.Popen[str]], seconds: float = 240.0) -> subprocess.Popen[str]:
    """Of several runs, the one that ends by itself."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for run in running:
            if run.poll() is not None:
                return run
        time.sleep(0.1)
    raise AssertionError("no run ended")


def wait_for(condition: Any, running: subprocess.Popen[str], seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert running.poll() is None, "the run ended by itself"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)
