"""The story of a shop's orders, told step by step and checked at every step, whatever it runs on.

The same telling serves the demo on this machine and the tests on a real Kubernetes API server: only `Control`
differs, which says how a manifest is applied and an object is seen.
"""

from __future__ import annotations

import datetime
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

import seamark
from examples.shop import check
from examples.shop.orders import Till
from examples.shop.subscriber import fingerprint
from seamark.errors import Retryable, SeamarkError
from seamark.storage import Collection, Slice

Tell = Callable[[str], None]


class Control(Protocol):
    """How the story's characters talk to the control plane."""

    def apply(self, path: Path) -> None: ...

    def get(self, kind: str, name: str) -> dict[str, Any] | None: ...

    def show(self) -> str:
        """What a person would see at this moment."""
        ...


@dataclass
class Stage:
    """Where one telling takes place."""

    control: Control
    manifests: Path
    """A copy of examples/shop whose urls and paths fit this stage."""
    location: str
    incoming: Path
    memory: Path
    """The subscriber's SQLite file."""
    tell: Tell
    patience: float = 180.0
    transcript: Callable[[str, str], None] = field(default=lambda _title, _text: None)


@dataclass
class Outcome:
    """The times that the story turned on."""

    first: int
    second: int
    handover: int
    last: int
    rows: int
    steps: int


class Story:
    """Eight steps. Each says what happens, waits until it is so, and checks every number against the raw files."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.till = Till(stage.incoming)
        self._place = seamark.open(stage.location)
        self._collection: Collection | None = None

    def run(self) -> Outcome:
        tell = self.stage.tell
        tell("1. Two files of orders lie in a folder. We apply three manifests: where data lives, the collection")
        tell("   `orders`, and a hold for the auditor, who wants to be able to read the past.")
        self.till.deliver()
        self.till.deliver()
        self.stage.control.apply(self.stage.manifests)
        first = self._wait_ingested()
        self._wait(lambda: self._status("Collection", "orders").get("phase") == "Ready", "orders is Ready")
        self._say_contents("   Spark has read them", first, check.WRONG)
        self._show("after the first files")

        tell("2. More orders arrive; some change earlier ones, some cancel them. Nobody restarts anything.")
        self.till.deliver()
        second = self._wait_ingested()
        before, after = self._check(first, check.WRONG), self._check(second, check.WRONG)
        assert before != after, "the two times must differ"
        tell(f"   The same collection, read at two times: {len(before)} orders at {clock(first)},")
        tell(f"   {len(after)} orders at {clock(second)}. Both answers are exact, and will stay so.")
        self._show("after more orders")

        tell("3. Somebody looks at the sums: `amount_cents` holds dollars. The manifest is corrected and applied.")
        tell("   Seamark builds the collection a second time, beside the first: a second *rendition*.")
        self.stage.control.apply(self.stage.manifests / "fixed" / "20-orders.yaml")
        self._wait(lambda: self.stage.control.get("Rendition", "orders-r2") is not None, "orders-r2 exists")
        self._show("while the second rendition is built")
        tell("4. Orders keep coming while it is built, and readers keep reading the first one.")
        self.till.deliver()
        self._wait(lambda: self._facts().active == "r2", "r2 is active", patience=self.stage.patience * 2)
        self._wait(lambda: self._handover() is not None, "the handover is in the status")
        handover = self._handover()
        assert handover is not None
        tell(f"5. The second rendition has caught up. At exactly {clock(handover)} it takes over: every reader")
        tell("   sees the old numbers before that time, and the new ones from it on.")
        self._show("after the handover")
        self.till.deliver()
        last = self._wait_ingested()
        self._check(first, check.WRONG)
        self._check(handover - 1, check.WRONG)
        self._check(handover, check.RIGHT)
        self._say_contents("   Now", last, check.RIGHT)

        steps = self._check_subscriber(last, handover)
        tell(f"6. A live reader was listening all the while. Its {steps} steps add up, each one, to the first")
        tell("   rendition before the handover and to the second from it on.")

        tell("7. The auditor still holds the past, so the first rendition is kept:")
        assert "r1" in self._facts().renditions
        kept = self._objects_of("r1")
        assert kept, "the held rendition must have files"
        self._show("while the auditor holds the first rendition")
        tell(f"   {len(kept)} stored objects. The auditor lets go of everything before the handover ...")
        self._move_hold(handover + 1)
        self._wait(lambda: "r1" not in self._facts().renditions, "r1 is collected")
        self._wait(lambda: self.stage.control.get("Rendition", "orders-r1") is None, "orders-r1 is gone")
        left = self._objects_of("r1")
        assert not left, f"these objects were left behind: {left}"
        tell("   ... and its files are gone: 0 stored objects.")
        self._show("after the first rendition was collected")
        tell("8. The past before the handover can no longer be read, and the answer says so:")
        tell(f"   {self._refusal(first)}")
        rows = len(self._check(last, check.RIGHT))
        for line in timeline(first, second, handover, last):
            tell(line)
        tell(
            f"Proved: {rows} orders, {steps} live steps and 2 renditions equal an independent computation over the raw "
            "files, before, at and after the handover; nothing of the old rendition is left."
        )
        return Outcome(first, second, handover, last, rows, steps)

    def more(self, handover: int) -> None:
        """Life goes on: one more file, the same checks."""
        self.till.deliver()
        last = self._wait_ingested()
        self._check(last, check.RIGHT)
        self._check_subscriber(last, handover)

    def slices(self) -> list[Slice]:
        """Every binding of bytes to times."""
        collection = self._open()
        remap = collection.remap(collection.rendition(collection.timeline.active).definition)
        return remap.slices(0, remap.upper)

    def _open(self) -> Collection:
        if self._collection is None:
            self._collection = Collection.open(self._place, "orders")
        return self._collection

    def _facts(self) -> Any:
        return self._open().describe()

    def _status(self, kind: str, name: str) -> dict[str, Any]:
        return (self.stage.control.get(kind, name) or {}).get("status") or {}

    def _handover(self) -> int | None:
        at = (self._status("Collection", "orders").get("lastHandover") or {}).get("at")
        return None if at is None else int(at)

    def _wait_ingested(self) -> int:
        """Wait until every delivered byte is readable; returns the newest readable time."""
        total = {str(path): path.stat().st_size for path in self.stage.incoming.glob("[!.]*")}

        def done() -> bool:
            slices = self.slices()
            covered = {path: max((s.end for s in slices if s.path == path), default=0) for path in total}
            collection = self._open()
            collection.refresh()
            return covered == total and collection.upper > max(s.time for s in slices)

        self._wait(done, "every delivered line is readable")
        return self._open().upper - 1

    def _check(self, as_of: int, amount: str) -> check.Contents:
        """The collection's contents at a time, equal to the independent computation."""
        have = check.found(self._open().snapshot(as_of, timeout=30))
        want = check.expected(self.slices(), as_of, amount)
        assert have == want, f"at {as_of}: {len(have)} rows found, {len(want)} expected, and they differ"
        return have

    def _check_subscriber(self, last: int, handover: int) -> int:
        def progress() -> list[tuple[int, str]]:
            with sqlite3.connect(f"file:{self.stage.memory}?mode=ro", uri=True) as memory:
                return memory.execute("select frontier, fingerprint from progress order by frontier").fetchall()

        self._wait(lambda: progress()[-1][0] > last, "the live reader has seen the newest orders")
        slices, known = self.slices(), {}
        steps = progress()
        frontiers = [frontier for frontier, _ in steps]
        assert {handover, handover + 1} <= set(frontiers), "the live reader must switch in one step, at the handover"
        for frontier, print_ in steps:
            as_of = frontier - 1
            amount = check.WRONG if as_of < handover else check.RIGHT
            key = (tuple(s for s in slices if s.time <= as_of), amount)
            if key not in known:
                want = check.expected(slices, as_of, amount)
                known[key] = fingerprint([(order, *rest, 1) for order, rest in want.items()])
            assert print_ == known[key], f"the live reader's sum at {as_of} is not the collection's contents"
        return len(steps)

    def _objects_of(self, rendition: str) -> list[str]:
        marks = (f"parts/collections/orders/{rendition}/", f"runs/orders/{rendition}/")
        blobs = [info.key for prefix in marks for info in self._place.blobs.list(prefix)]
        return blobs + list(self._place.logs.names(f"collections/orders/{rendition}/"))

    def _move_hold(self, as_of: int) -> None:
        path = self.stage.manifests / "30-auditor.yaml"
        manifest = yaml.safe_load(path.read_text())
        manifest["spec"]["asOf"] = as_of
        path.write_text(yaml.safe_dump(manifest))
        self.stage.control.apply(path)

    def _refusal(self, as_of: int) -> str:
        deadline = time.monotonic() + self.stage.patience
        while time.monotonic() < deadline:
            try:
                self._open().snapshot(as_of)
            except SeamarkError as error:
                return str(error)
            time.sleep(0.3)
        raise AssertionError(f"time {as_of} can still be read though every hold has passed it")

    def _say_contents(self, opening: str, as_of: int, amount: str) -> None:
        contents = self._check(as_of, amount)
        cents = sum(amount_cents for _, amount_cents, _ in contents.values())
        self.stage.tell(f"{opening}: {len(contents)} orders, amount_cents adds up to {cents:,} as of {clock(as_of)}.")

    def _show(self, title: str) -> None:
        self.stage.transcript(title, self.stage.control.show())

    def _wait(self, done: Callable[[], bool], what: str, patience: float | None = None) -> None:
        deadline = time.monotonic() + (patience or self.stage.patience)
        trouble: Exception | None = None
        while time.monotonic() < deadline:
            try:
                if done():
                    return
            except (Retryable, SeamarkError, ValueError, IndexError, sqlite3.OperationalError) as error:
                trouble = error
            time.sleep(0.3)
        raise TimeoutError(f"waited in vain until {what}; last trouble: {trouble!r}\n{self.stage.control.show()}")


def clock(millis: int) -> str:
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.UTC).strftime("%H:%M:%S.%f")[:-3]


def timeline(first: int, second: int, handover: int, last: int) -> list[str]:
    """The story drawn on one line of time."""
    width = 64
    begin, end = first - (last - first) // 8, last
    at = {
        name: 2 + (when - begin) * width // (end - begin)
        for name, when in {"first": first, "second": second, "handover": handover, "last": last}.items()
    }
    r1 = " " * 2 + "━" * (at["handover"] - 2) + "┫ r1: built with the bug, then collected"
    r2 = " " * at["handover"] + "┣" + "━" * (at["last"] - at["handover"]) + "▶ r2: corrected"
    axis = ["─"] * (width + 4)
    for name in at:
        axis[min(at[name], width + 3)] = "┴"
    labels = [" "] * (width + 30)
    for name, label in (("first", "read 1"), ("second", "read 2"), ("handover", "handover"), ("last", "now")):
        spot = at[name]
        while any(c != " " for c in labels[max(0, spot - 1) : spot + len(label) + 1]):
            spot += 1
        labels[spot : spot + len(label)] = label
    return ["", "    " + r1, "    " + r2, "    " + "".join(axis), "    " + "".join(labels).rstrip(), ""]
