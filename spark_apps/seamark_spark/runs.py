"""What a run is to the outside: an exit code, one line of JSON per commit, and a marker in storage: the verdict.

exit 0   done, or retired, or told to stop
exit 1   refused or failed; stderr says why, and so does the marker
exit 2   wrong usage
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from seamark.errors import Dropped, Fenced, Refused, Retryable, SeamarkError
from seamark.persist import Location
from seamark.storage import Collection
from seamark.storage.runs import COMMITTED, FAILED, RETIRED, RunMarker, read_marker, write_marker
from seamark_spark.decode import check_definition
from seamark_spark.driver import Driver, Order, Progress, Retired, check_wanted
from seamark_spark.session import open_session

TRIES = 6
"""How often the same step is tried when its error says that it may succeed later."""


class Stop:
    """Set by SIGTERM and SIGINT: the run ends before its next commit begins."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def listen(self) -> None:
        # After the session exists, because Spark installs a handler of its own when it starts.
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (the signature of handlers)
        self._asked.set()

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        self._asked.wait(max(0.0, seconds))


Work = Callable[[Driver, Stop], bool]
"""Does the run; True when it is done for good, False when it was told to stop before."""


def once(driver: Driver, stop: Stop) -> bool:
    """Everything that the source has at the start."""
    target = driver.bind(now())
    return _steadily(driver, lambda: target, stop)


def continuous(tick_seconds: float) -> Work:
    """Everything, again and again, until told to stop."""

    def work(driver: Driver, stop: Stop) -> bool:
        while not stop.asked:
            began = time.monotonic()
            _steadily(driver, lambda: driver.bind(now()), stop)
            stop.wait(tick_seconds - (time.monotonic() - began))
        return False

    return work


def _steadily(driver: Driver, target: Callable[[], int], stop: Stop) -> bool:
    """Catch up to the target; True when it was reached. Goes on after an error that says to try again."""
    for attempt in range(1, TRIES + 1):
        try:
            for progress in driver.catch_up(target()):
                report(progress)
                if stop.asked:
                    return False
        except Retryable as error:
            if attempt == TRIES:
                raise
            say(f"trying again: {type(error).__name__}: {error}")
            stop.wait(min(8.0, 0.25 * 2**attempt))
            if stop.asked:
                return False
        else:
            return True
    raise AssertionError("the last attempt returns or raises")


def run(order: Order, kind: str, work: Work) -> int:
    """Carry out a run and return its exit code."""
    try:
        with Location.open(order.location, checkpoints=order.checkpoints) as location:
            return _judged(order, kind, work, location)
    except SeamarkError as error:
        say(f"{kind} {order.run_id}: {type(error).__name__}: {error}")
        return 1


def _judged(order: Order, kind: str, work: Work, location: Location) -> int:
    if location.url.startswith("mem:"):
        raise Refused(f"{location.url} lives in one process, and Spark's tasks are others; use disk: or s3:")
    collection = Collection.open(location, order.collection)
    collection.timeline.row(order.rendition)
    verdict = read_marker(location, order.collection, order.rendition, order.run_id)
    if verdict is not None:
        say(f"{kind} {order.run_id} ended before ({verdict.outcome}): {verdict.detail}; start a run with another id")
        return 1 if verdict.outcome == FAILED else 0

    def mark(outcome: str, detail: str, upper: int = 0, epoch: int = 0) -> None:
        write_marker(
            location,
            RunMarker(
                run_id=order.run_id,
                collection=order.collection,
                rendition=order.rendition,
                kind=kind,
                outcome=outcome,
                upper=upper,
                epoch=epoch,
                detail=detail,
            ),
        )

    try:
        driver = _carry_out(order, work, location, collection)
    except Retired as retired:
        say(f"{kind} {order.run_id}: {retired}")
        if retired.lasting:
            mark(RETIRED, str(retired))
        return 0
    except Fenced as fenced:
        # The verdict belongs to the successor.
        say(f"{kind} {order.run_id}: Fenced: {fenced}")
        return 1
    except Dropped as dropped:
        say(f"{kind} {order.run_id}: {dropped}")
        return 0
    except Exception as error:
        detail = f"{type(error).__name__}: {error}"
        with contextlib.suppress(SeamarkError):
            mark(FAILED, detail)
        if not isinstance(error, SeamarkError):
            raise
        say(f"{kind} {order.run_id}: {detail}")
        return 1
    if driver is not None:
        mark(COMMITTED, f"written up to {driver.upper}", driver.upper, max(driver.epochs))
        driver.release()
    return 0


def _carry_out(order: Order, work: Work, location: Location, collection: Collection) -> Driver | None:
    """Do the work; the driver that did it, still holding its locks, or None when it was told to stop."""
    check_wanted(collection, order)
    session = open_session(f"seamark {order.run_id}")
    stop = Stop()
    stop.listen()
    driver = Driver(session, order, location, collection)
    check_definition(session, driver.definition)
    driver.acquire(f"{order.run_id}@{socket.gethostname()}:{os.getpid()}")
    if work(driver, stop):
        return driver
    driver.release()
    return None


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def report(progress: Progress) -> None:
    """One line of JSON on stdout."""
    print(json.dumps(progress.as_dict()), flush=True)


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(text, file=sys.stderr, flush=True)
