"""docs/tutorial.md, done as it says: every command in one bash session, every output compared with the page."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tutorial.page import Step, difference, read_steps, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 900


def test_the_tutorial_does_what_it_shows(tmp_path: Path) -> None:
    steps = read_steps((ROOT / "docs" / "tutorial.md").read_text())
    clone, outputs = tmp_path / "clone", tmp_path / "outputs"
    outputs.mkdir()
    left_out = shutil.ignore_patterns("__pycache__", ".data", ".seamark")
    shutil.copytree(ROOT / "examples" / "shop", clone / "examples" / "shop", ignore=left_out)
    (tmp_path / "tutorial.sh").write_text(script(steps, outputs))

    code = run_session(tmp_path / "tutorial.sh", clone)

    printed = [path.read_text() for path in sorted(outputs.iterdir())]
    meanings: dict[str, str] = {}
    for number, (step, text) in enumerate(zip(steps, printed, strict=False)):
        last = number == len(printed) - 1
        if last and code != 0:
            pytest.fail(told(step, f"ended with {code}, having printed:\n{text}", clone))
        if step.shown is not None and (wrong := difference(step.shown, text, meanings)):
            pytest.fail(told(step, wrong, clone))
    assert int(meanings["before_handover"]) + 1 == int(meanings["handover"]) == int(meanings["after_handover"]) - 1
    assert not (clone / "my-shop").exists(), "the reader is left with nothing to clean up"


def run_session(path: Path, folder: Path) -> int | str:
    """Bash's exit code, or that it took too long; whatever the session started has ended then."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SEAMARK_")}
    search = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    session = subprocess.Popen(
        ["bash", str(path)],
        cwd=folder,
        env={**ours, "PATH": search, "COLUMNS": "160"},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return session.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no end after {PATIENCE} s"
    finally:
        end_group(session)


def end_group(session: subprocess.Popen[bytes]) -> None:
    """SIGTERM first: the controller then stops its runs of Spark."""
    deadline = time.monotonic() + 60
    number = signal.SIGTERM
    try:
        while True:
            os.killpg(session.pid, number)
            time.sleep(0.5)
            session.poll()
            number = signal.SIGKILL if time.monotonic() > deadline else signal.SIGTERM
    except ProcessLookupError:
        return


def told(step: Step, what: str, clone: Path) -> str:
    """Where on the page, what, and what the controller and the runs had to say."""
    shop = clone / "my-shop"
    logs = [shop / "controller.log", *shop.glob(".seamark/runs/*/stderr")]
    tails = [f"--- {path}\n{path.read_text()[-2000:]}" for path in logs if path.exists()]
    return "\n".join([f"docs/tutorial.md, line {step.line}:\n{step.commands}", what, *tails])
