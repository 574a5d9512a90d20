"""The story while its actors are killed with SIGKILL at moments drawn from a seed: the same end all the same."""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import seamark
from examples.shop.story import Story
from seamark.persist.parts import prefix_of
from seamark.storage import Collection
from tests.cluster.control_plane import ControlPlane
from tests.services.s3 import Minio
from tests.story.stages import Scene, kill_group, kubernetes_scene, local_scene, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if "SEAMARK_KILLS" in os.environ else 1500)]

SHARE = int(os.environ.get("SEAMARK_KILLS", "30"))
"""How often the operator is killed over the three tellings; drivers and subscribers a third as often."""


@dataclass
class Assassin:
    """Kills one kind of process a number of times, in chapters of the story and at moments drawn from the seed."""

    what: str
    times: int
    chapters: tuple[int, ...]
    """Chapters in which it strikes, the long ones several times."""
    delay: tuple[float, float]
    kill: Callable[[random.Random], bool]
    chapter: Callable[[], int]
    seed: int
    done: int = 0
    halt: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed}/{self.what}")
        self._points = sorted(self._random.choices(self.chapters, k=self.times))
        print(f"the {self.what} is to be killed in chapters {self._points}", flush=True)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for point in self._points:
            while self.chapter() < point and not self.halt.wait(0.1):
                pass
            while not self.halt.wait(self._random.uniform(*self.delay)):
                if self.kill(self._random):
                    self.done += 1
                    print(f"killed the {self.what} ({self.done} of {self.times})", flush=True)
                    break

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self.halt.set()
        self._thread.join()


def test_killed_on_this_machine(tmp_path: Path, seed: int) -> None:
    with local_scene(tmp_path, print, patience=400) as scene:
        tell_under_fire(scene, seed)


@pytest.mark.parametrize("telling", [1, 2])
def test_killed_on_kubernetes(
    telling: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, minio: Minio, seed: int
) -> None:
    with (
        ControlPlane(tmp_path_factory.mktemp("plane")) as plane,
        kubernetes_scene(tmp_path, plane, minio, print, patience=400) as scene,
    ):
        tell_under_fire(scene, seed + telling)


def tell_under_fire(scene: Scene, seed: int) -> None:
    def kill_driver(chance: random.Random) -> bool:
        running = scene.drivers()
        return bool(running) and kill_group(chance.choice(running))

    reached = [0]

    def tell(text: str) -> None:
        reached[0] = max(reached[0], int(text[0]) if text[:1].isdigit() else 0)
        print(text, flush=True)

    def chapter() -> int:
        return reached[0]

    scene.stage.tell = tell
    few, many = -(-SHARE // 9), -(-SHARE // 3)
    everywhere = (1, 1, 2, 3, 4, 4, 4, 5, 7, 7)
    assassins = [
        Assassin("operator", many, everywhere, (0.1, 6.0), lambda _: scene.operator.kill(), chapter, seed),
        Assassin("driver", few, (1, 2, 4, 4, 5), (2.0, 12.0), kill_driver, chapter, seed),
        Assassin("subscriber", few, everywhere, (0.1, 8.0), lambda _: scene.subscriber.kill(), chapter, seed),
    ]
    try:
        story = Story(scene.stage)
        outcome = story.run()
        while any(assassin.alive for assassin in assassins):
            story.more(outcome.handover)
    finally:
        for assassin in assassins:
            assassin.stop()
    story.more(outcome.handover)
    for assassin in assassins:
        assert assassin.done == assassin.times, f"{assassin.what}: {assassin.done} kills of {assassin.times}"
    no_work_was_started_twice(scene)
    no_part_was_orphaned(scene)
    scene.subscriber.stop()
    scene.delete()
    wait_until(lambda: not scene.leftovers(), 120, lambda: f"left behind: {scene.leftovers()}")


def no_work_was_started_twice(scene: Scene) -> None:
    """Each run was started once, and the next attempt at the same work only after the one before had ended."""
    events = scene.starts()
    names = [name for event, name in events if event == "start"]
    assert len(names) == len(set(names)), f"started twice: {names}"
    ended: set[str] = set()
    for event, name in events:
        if event in ("end", "killed"):
            ended.add(name)
        found = re.fullmatch(r"(.*)-a(\d+)", name)
        assert found, name
        if event == "start" and int(found[2]) > 1 and ended:
            assert f"{found[1]}-a{int(found[2]) - 1}" in ended, f"{name} began before the attempt before it had ended"


def no_part_was_orphaned(scene: Scene) -> None:
    """What killed drivers wrote and never committed is gone; what the living one is about to commit may be there."""
    with seamark.open(scene.stage.location) as place:
        rendition = Collection.open(place, "orders").rendition("r2")
        for shard in rendition.shards:
            referenced = {part.key for batch in shard.state.batches for part in batch.parts}
            stored = {info.key for info in place.blobs.list(prefix_of(shard.id))}
            old = {key for key in stored - referenced if int(key.rsplit("/", 1)[1].split("-")[0]) < shard.epoch}
            assert not old, f"orphans: {old}"
