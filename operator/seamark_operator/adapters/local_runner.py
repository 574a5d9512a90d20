"""The port `SparkRunner` over child processes, which outlive the controller and are found again by it.

<root>/runs/<name>/run.json   what was asked for; its presence is the run
                   pid        the supervisor: process number and start time
                   exit       how the command ended
                   stdout, stderr
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from seamark_operator.adapters import local_supervisor
from seamark_operator.adapters.local_files import locked, read_json, write_json
from seamark_operator.ports import Run, RunSpec, RunState

_TAIL = 2000


class LocalRunner:
    """Spark in local mode: `python <apps>/<kind>.py ARGUMENTS`, one process group a run."""

    def __init__(
        self,
        root: Path,
        apps: Path,
        clock: Callable[[], float] = time.time,
        *,
        grace_seconds: float = 10,
    ) -> None:
        self._runs = root / "runs"
        self._apps = apps
        self._clock = clock
        self._grace = grace_seconds
        self._children: list[subprocess.Popen[bytes]] = []

    def launch(self, spec: RunSpec) -> None:
        folder = self._runs / spec.name
        self._runs.mkdir(parents=True, exist_ok=True)
        with locked(self._runs / ".lock"):
            if (folder / "pid").exists() or (folder / "exit").exists():
                return
            if not (folder / "run.json").exists():
                command = [sys.executable, str(self._apps / f"{spec.kind}.py"), *spec.arguments]
                asked = {"spec": msgspec.to_builtins(spec), "command": command, "created_at": self._clock()}
                write_json(folder / "run.json", asked)
            self._start(folder)

    def list(self) -> Sequence[Run]:
        self._reap()
        found = []
        for path in sorted(self._runs.glob("[!.]*/run.json")):
            asked = read_json(path)
            if asked is not None:
                found.append(_run(path.parent, asked))
        return found

    def stop(self, namespace: str, name: str) -> None:
        del namespace  # run names are unique across namespaces
        folder = self._runs / name
        if not folder.is_dir():
            return
        self._end(folder)
        # Renamed first: a half deleted folder must not look like a run.
        with locked(self._runs / ".lock"):
            trash = self._runs / f".trash-{name}"
            shutil.rmtree(trash, ignore_errors=True)
            folder.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)

    def recover(self) -> None:
        """After a crash: finish what was being deleted, start what was asked for and never started."""
        for trash in self._runs.glob(".trash-*"):
            shutil.rmtree(trash, ignore_errors=True)
        for path in self._runs.glob("[!.]*/run.json"):
            folder = path.parent
            if not (folder / "pid").exists() and not (folder / "exit").exists():
                self._start(folder)

    def _start(self, folder: Path) -> None:
        """A second supervisor of the same run finds the lock taken and leaves."""
        child = subprocess.Popen(
            [sys.executable, "-S", str(Path(local_supervisor.__file__)), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._children.append(child)

    def _end(self, folder: Path) -> None:
        """SIGTERM to the group, SIGKILL after the grace; a supervisor that is just starting is awaited."""
        deadline = time.monotonic() + self._grace
        while not (folder / "pid").exists() and not (folder / "exit").exists():
            self._reap()
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        if not _alive(folder):
            return
        group = int((folder / "pid").read_text())
        _signal(group, signal.SIGTERM)
        while _alive(folder) and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.02)
        while _alive(folder):
            _signal(group, signal.SIGKILL)
            self._reap()
            time.sleep(0.02)

    def _reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]


def _run(folder: Path, asked: Mapping[str, Any]) -> Run:
    spec = asked["spec"]
    state, message = _state(folder)
    return Run(
        name=spec["name"],
        namespace=spec["namespace"],
        kind=spec["kind"],
        attempt=spec["attempt"],
        collection=spec["collection"],
        rendition=spec["rendition"],
        state=state,
        message=message,
        created_at=asked["created_at"],
    )


def _state(folder: Path) -> tuple[RunState, str]:
    ended = read_json(folder / "exit")
    if ended is None and (folder / "pid").exists() and not _alive(folder):
        # It may have ended between the two looks.
        ended = read_json(folder / "exit") or {"code": None}
    if ended is None:
        return ("Running", "") if (folder / "pid").exists() else ("Pending", "the process is being started")
    if ended["code"] == 0:
        return "Succeeded", ""
    how = "was killed" if ended["code"] is None else f"ended with exit code {ended['code']}"
    return "Failed", f"run {folder.name} {how}; its log ends: {_tail(folder / 'stderr')}"


def _tail(path: Path) -> str:
    try:
        text = path.read_bytes()[-_TAIL:].decode(errors="replace").strip()
    except FileNotFoundError:
        text = ""
    return text or "(empty)"


def _alive(folder: Path) -> bool:
    """Asked only once the supervisor has its lock, so that asking never keeps it from taking it."""
    with (folder / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
