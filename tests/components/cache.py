"""The folder where built components are kept: each is built once per version and never seen half done."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.components.progress import say


def root() -> Path:
    """`SEAMARK_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("SEAMARK_CACHE")
    if chosen:
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "seamark"


def obtain(key: str, build: Callable[[Path], None]) -> Path:
    """The folder of `key`; when it is not there, `build(folder)` fills it.

    The final name appears by one rename, after the build succeeded: whoever sees the folder sees all of it,
    and an interrupted build leaves only a temporary folder, which the next one removes.
    """
    final = root() / key
    if final.is_dir():
        return final
    root().mkdir(parents=True, exist_ok=True)
    with _locked(root() / f"{key}.lock", key):
        if final.is_dir():
            return final
        for stale in root().glob(f".{key}.building.*"):
            shutil.rmtree(stale)
        building = root() / f".{key}.building.{os.getpid()}"
        building.mkdir()
        try:
            build(building)
            building.rename(final)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return final


@contextmanager
def _locked(path: Path, key: str) -> Iterator[None]:
    """Hold the file lock; it goes with the process, so a killed builder blocks nobody."""
    with path.open("w") as handle:
        started = time.monotonic()
        said = started
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - said >= 5:
                    said = time.monotonic()
                    say(f"{key}: another process is building it, waiting … {said - started:.0f} s")
                time.sleep(0.2)
        yield
