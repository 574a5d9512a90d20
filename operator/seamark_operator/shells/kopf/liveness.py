"""Whether the operator really works: the probes are answered from here.

A web server that answers proves nothing about the watches. What does: every version of an object that the API
server told us in a list or in the answer to our own write must come by on the watch too. The operator's Lease
is written every few seconds, so there is always something that the watch has to show.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seamark_operator.ports import Object

FORGET_SECONDS = 600.0


@dataclass
class _Awaited:
    version: int
    since: float


class WatchProof:
    """Told what the API server knows and what the watch showed, says how long a watch has hidden something.

    Versions are compared as numbers, as the API promises for one kind.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._shown: dict[str, dict[str, tuple[int, float]]] = {}
        self._awaited: dict[str, dict[str, _Awaited]] = {}

    def known(self, kind: str, objects: Sequence[Object], *, all_of_kind: bool = True) -> None:
        """The server told of these objects; `all_of_kind` when no other object of the kind exists."""
        now = self._clock()
        with self._lock:
            shown, awaited = self._shown.setdefault(kind, {}), self._awaited.setdefault(kind, {})
            listed: set[str] = set()
            for obj in objects:
                uid, version = _identity(obj)
                listed.add(uid)
                if shown.get(uid, (0, 0.0))[0] >= version:
                    continue
                present = awaited.setdefault(uid, _Awaited(version, now))
                present.version = max(present.version, version)
            if all_of_kind:
                # What is gone cannot come by any more. What was shown lately may be newer than this list.
                for uid in [uid for uid in awaited if uid not in listed]:
                    del awaited[uid]
                for uid in [u for u, (_, at) in shown.items() if u not in listed and now - at > FORGET_SECONDS]:
                    del shown[uid]

    def shown(self, kind: str, obj: Any) -> None:
        """The watch showed this object, whatever happened to it."""
        uid, version = _identity(obj)
        now = self._clock()
        with self._lock:
            self._shown.setdefault(kind, {})[uid] = (version, now)
            awaited = self._awaited.setdefault(kind, {})
            present = awaited.get(uid)
            if present is None:
                return
            if version >= present.version:
                del awaited[uid]
            else:  # an older version is a sign of life: it lags, it is not dead
                present.since = now

    def ages(self) -> dict[str, float]:
        """For each kind, how long its watch has hidden something that the server told of; 0 when nothing."""
        now = self._clock()
        with self._lock:
            return {
                kind: max((now - each.since for each in awaited.values()), default=0.0)
                for kind, awaited in self._awaited.items()
            }


@dataclass(frozen=True)
class Verdict:
    """What a probe answers."""

    ok: bool
    reasons: tuple[str, ...]


class Vitals:
    """The signs of life of one operator process."""

    def __init__(
        self,
        watch: WatchProof,
        *,
        watch_dead_seconds: float,
        pass_dead_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watch = watch
        self._watch_dead = watch_dead_seconds
        self._pass_dead = pass_dead_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._leading = False
        self._passes = 0
        self._beat = clock()
        self._doing = "starting"

    def waits(self, doing: str) -> None:
        """Not acting, on purpose, and in touch with the API server."""
        with self._lock:
            self._beat, self._doing = self._clock(), doing

    def leads(self) -> None:
        with self._lock:
            self._leading, self._beat, self._doing = True, self._clock(), "leading"

    def passed(self) -> None:
        """A pass of the controller was completed."""
        with self._lock:
            self._beat, self._passes = self._clock(), self._passes + 1

    def live(self) -> Verdict:
        with self._lock:
            silent, doing, leading = self._clock() - self._beat, self._doing, self._leading
        problems = []
        if silent > self._pass_dead:
            what = "completed a pass" if leading else "reached the API server"
            problems.append(f"{doing}: has not {what} for {silent:.0f} s (bound {self._pass_dead:.0f} s)")
        problems += [
            f"watch of {kind}: a change that the API server told of has not come by for {age:.0f} s "
            f"(bound {self._watch_dead:.0f} s)"
            for kind, age in sorted(self._watch.ages().items())
            if age > self._watch_dead
        ]
        return Verdict(not problems, tuple(problems) or (doing,))

    def ready(self) -> Verdict:
        """Ready to serve when leading after a first pass, or standing by to take over."""
        live = self.live()
        with self._lock:
            if not live.ok or (self._leading and self._passes) or self._doing.startswith("standing by"):
                return live
            return Verdict(False, (f"{self._doing}: no pass has been completed yet",))


def _identity(obj: Any) -> tuple[str, int]:
    metadata = obj["metadata"]
    return str(metadata["uid"]), int(metadata["resourceVersion"])
