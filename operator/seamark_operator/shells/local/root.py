"""Everything `seamark local` keeps, under one folder; and the one controller that may run over it."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from seamark.errors import Refused
from seamark_operator import settings
from seamark_operator.adapters.local_leases import LocalLeases
from seamark_operator.adapters.local_objects import LocalObjects
from seamark_operator.adapters.local_runner import LocalRunner
from seamark_operator.adapters.local_schema import Schemas
from seamark_operator.control import Controller, Observer, Summary

log = logging.getLogger("seamark.local")


@dataclass(frozen=True)
class Root:
    """The folder, and the adapters over it."""

    path: Path
    schemas: Schemas
    objects: LocalObjects
    leases: LocalLeases

    @classmethod
    def open(cls, path: Path) -> Root:
        path = path.resolve()
        schemas = Schemas(settings.crds())
        return cls(path, schemas, LocalObjects(path, schemas), LocalLeases(path))

    def runner(self, apps: Path | None = None) -> LocalRunner:
        """Without `apps` it can list and stop, which needs no application."""
        return LocalRunner(self.path, apps or Path("/nonexistent"))

    def controller_pid(self) -> int | None:
        """The process that runs the loop over this folder."""
        path = self.path / "controller.lock"
        if not path.exists():
            return None
        with path.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0)
        return None

    @contextmanager
    def sole_controller(self) -> Iterator[None]:
        """The lock ends with the process, however it ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "controller.lock").open("a+") as file:
            if not _locked(file):
                file.seek(0)
                raise Refused(
                    f"a controller runs over {self.path} already (process {file.read().strip()}); "
                    "stop it, or choose another --root"
                )
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield


def _locked(file: IO[str]) -> bool:
    """Tried for a moment: whoever asks if a controller runs holds the lock for that long."""
    for _ in range(10):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.05)
    return False


def run_controller(
    root: Root,
    interval: float,
    stop: threading.Event,
    *,
    stop_runs: bool = True,
    chosen: settings.Settings | None = None,
    observer: Observer | None = None,
    after_step: Callable[[Summary], None] | None = None,
) -> None:
    """Pass after pass until `stop` is set. Runs end with it unless they are to be kept."""
    from seamark_operator.adapters.storage import LibraryStorage

    with root.sole_controller():
        runner = root.runner(settings.spark_apps())
        runner.recover()
        storage = LibraryStorage()
        controller = Controller(root.objects, runner, root.leases, storage, settings=chosen, observer=observer)
        try:
            while not stop.is_set():
                summary = controller.step()
                if after_step is not None:
                    after_step(summary)
                stop.wait(interval)
        finally:
            if stop_runs:
                for run in runner.list():
                    if run.state in ("Pending", "Running"):
                        log.info("stopping run %s", run.name)
                        runner.stop(run.namespace, run.name)
            storage.close()
