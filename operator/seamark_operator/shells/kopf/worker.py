"""The one thread that runs the controller: events only say what to look at, a pass looks at what is."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection

Key = tuple[str, str]
"""Namespace and name of a Collection."""

log = logging.getLogger(__name__)


class Worker:
    """Collects keys for a moment, then runs one pass over them; over everything once in `resync_seconds`."""

    def __init__(
        self,
        step: Callable[[Collection[Key] | None], object],
        resync_seconds: float,
        *,
        may_act: Callable[[], bool] = lambda: True,
        on_failure: Callable[[BaseException], None] = lambda _error: None,
        debounce_seconds: float = 0.15,
    ) -> None:
        self._step = step
        self._resync = resync_seconds
        self._may_act = may_act
        self._on_failure = on_failure
        self._debounce = debounce_seconds
        self._keys: set[Key] = set()
        self._everything = True
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Let the pass under way end; False when it did not within the time."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def mark(self, key: Key | None) -> None:
        """Look at this collection soon; at everything when None."""
        with self._lock:
            if key is None:
                self._everything = True
            else:
                self._keys.add(key)
        self._wake.set()

    def _run(self) -> None:
        full_pass_due = time.monotonic()
        while not self._stopping.is_set():
            if self._wake.wait(max(0.0, full_pass_due - time.monotonic())):
                self._stopping.wait(self._debounce)
            self._wake.clear()
            with self._lock:
                everything = self._everything or time.monotonic() >= full_pass_due
                keys, self._keys, self._everything = self._keys, set(), False
            if self._stopping.is_set() or not self._may_act():
                continue
            ended = self._pass(None if everything else keys)
            if everything or not ended:
                full_pass_due = time.monotonic() + self._resync

    def _pass(self, keys: Collection[Key] | None) -> bool:
        try:
            self._step(keys)
        except Exception as error:  # whatever it was, the next pass starts from what is
            log.exception("a pass ended early; the next one is in %.0f s at the latest", self._resync)
            self._on_failure(error)
            return False
        return True
