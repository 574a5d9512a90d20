"""Runs as child processes: launched once, outliving the controller, found again, stopped for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seamark_operator.adapters.local_runner import LocalRunner
from seamark_operator.ports import Run, RunSpec

APP = """
import signal, subprocess, sys, time
word = sys.argv[1]
open(sys.argv[2], "a").write("started\\n")
if word == "stay":
    time.sleep(600)
if word == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
if word == "family":
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
if word == "fail":
    sys.exit("in/1.jsonl, byte 17: not JSON")
"""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[LocalRunner]:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "ingest.py").write_text(APP)
    made = make(tmp_path)
    yield made
    for run in made.list():
        made.stop(run.namespace, run.name)


def make(tmp_path: Path) -> LocalRunner:
    return LocalRunner(tmp_path, tmp_path / "apps", grace_seconds=1)


def spec(tmp_path: Path, word: str, name: str = "ing-0123456789-a1") -> RunSpec:
    log = str(tmp_path / f"{name}.log")
    return RunSpec(name, "default", "ingest", 1, "orders", "orders-r1", "uid", (word, log))


def wait(runner: LocalRunner, holds: Callable[[Run], bool]) -> Run:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        (run,) = runner.list()
        if holds(run):
            return run
        time.sleep(0.02)
    raise AssertionError(f"still {run}")


def started(tmp_path: Path, name: str = "ing-0123456789-a1") -> int:
    path = tmp_path / f"{name}.log"
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_started(tmp_path: Path) -> None:
    deadline = time.monotonic() + 30
    while not started(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_how_a_run_ended_is_told(tmp_path: Path, runner: LocalRunner) -> None:
    runner.launch(spec(tmp_path, "work"))
    run = wait(runner, lambda run: run.state == "Succeeded")
    assert (run.kind, run.attempt, run.collection, run.rendition) == ("ingest", 1, "orders", "orders-r1")
    assert abs(run.created_at - time.time()) < 60
    runner.stop("default", run.name)
    runner.launch(spec(tmp_path, "fail"))
    failed = wait(runner, lambda run: run.state == "Failed")
    assert "exit code 1" in failed.message
    assert failed.message.endswith("in/1.jsonl, byte 17: not JSON")


def test_a_name_is_launched_once(tmp_path: Path, runner: LocalRunner) -> None:
    for _ in range(3):
        runner.launch(spec(tmp_path, "work"))
    wait(runner, lambda run: run.state == "Succeeded")
    runner.launch(spec(tmp_path, "work"))
    time.sleep(0.3)
    assert started(tmp_path) == 1


def test_a_restarted_controller_finds_the_living_run_and_starts_no_second(tmp_path: Path, runner: LocalRunner) -> None:
    runner.launch(spec(tmp_path, "stay"))
    wait_started(tmp_path)
    again = make(tmp_path)
    again.recover()
    again.launch(spec(tmp_path, "stay"))
    (run,) = again.list()
    assert run.state == "Running"
    time.sleep(0.3)
    assert started(tmp_path) == 1
    again.stop("default", run.name)
    assert runner.list() == []


def test_a_run_outlives_the_process_that_launched_it_and_still_writes_its_end(tmp_path: Path) -> None:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "ingest.py").write_text(APP.replace("time.sleep(600)", "time.sleep(1)"))
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from seamark_operator.adapters.local_runner import LocalRunner\n"
        "from seamark_operator.ports import RunSpec\n"
        "root = Path(sys.argv[1])\n"
        "arguments = ('stay', str(root / 'ing-0123456789-a1.log'))\n"
        "spec = RunSpec('ing-0123456789-a1', 'default', 'ingest', 1, 'orders', 'orders-r1', 'uid', arguments)\n"
        "LocalRunner(root, root / 'apps').launch(spec)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    run = wait(make(tmp_path), lambda run: run.state == "Succeeded")
    assert started(tmp_path) == 1
    make(tmp_path).stop("default", run.name)


def test_a_launch_that_was_interrupted_is_finished_once(tmp_path: Path, runner: LocalRunner) -> None:
    runner.launch(spec(tmp_path, "work"))
    wait(runner, lambda run: run.state == "Succeeded")
    folder = tmp_path / "runs" / "ing-0123456789-a1"
    for name in ("pid", "exit"):
        (folder / name).unlink()
    assert [run.state for run in runner.list()] == ["Pending"]
    again = make(tmp_path)
    again.recover()
    again.recover()
    wait(again, lambda run: run.state == "Succeeded")
    assert started(tmp_path) == 2


@pytest.mark.parametrize("word", ["stay", "stubborn", "family"])
def test_a_stopped_run_leaves_no_process_and_no_folder(tmp_path: Path, runner: LocalRunner, word: str) -> None:
    runner.launch(spec(tmp_path, word))
    wait_started(tmp_path)
    wait(runner, lambda run: run.state == "Running")
    group = int((tmp_path / "runs" / "ing-0123456789-a1" / "pid").read_text())
    runner.stop("default", "ing-0123456789-a1")
    runner.stop("default", "ing-0123456789-a1")
    assert runner.list() == []
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".lock"]
    deadline = time.monotonic() + 10
    while _group_lives(group):
        assert time.monotonic() < deadline, "processes of the run are left"
        time.sleep(0.05)


def test_a_supervisor_that_is_killed_does_not_hide_its_living_command(tmp_path: Path, runner: LocalRunner) -> None:
    runner.launch(spec(tmp_path, "stay"))
    wait_started(tmp_path)
    supervisor = int((tmp_path / "runs" / "ing-0123456789-a1" / "pid").read_text())
    os.kill(supervisor, signal.SIGKILL)
    time.sleep(0.2)
    assert [run.state for run in runner.list()] == ["Running"]
    os.killpg(supervisor, signal.SIGKILL)
    run = wait(runner, lambda run: run.state == "Failed")
    assert "was killed" in run.message


def _group_lives(group: int) -> bool:
    """Zombies that nobody has reaped yet do not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False
