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

from examples.shop.story import Story
from tests.cluster.control_plane import ControlPlane
from tests.services.s3 import Minio
from tests.story.stages import Scene, kill_group, kubernetes_scene, local_scene, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if "SEAMARK_KILLS" in os.environ else 1500)]

SHARE = int(os.environ.get("SEAMARK_KILLS", "30"))
"""How often the operator is killed over the three tellings; drivers and subscribers a third as often."""


@dataclass
class Assassin:
    """Kills one kind of process a number of times, at intervals drawn from the seed."""

    what: str
    times: int
    between: tuple[float, float]
    kill: Callable[[random.Random], bool]
    seed: int
    done: int = 0
    trouble: list[BaseException] = field(default_factory=list)
    halt: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed}/{self.what}")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self.done < self.times and not self.halt.wait(self._random.uniform(*self.between)):
            if self.kill(self._random):
                self.done += 1
                print(f"killed the {self.what} ({self.done} of {self.times})", flush=True)

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

    third = -(-SHARE // 9)
    assassins = [
        Assassin("operator", -(-SHARE // 3), (0.5, 9.0), lambda _: scene.operator.kill(), seed),
        Assassin("driver", third, (10.0, 30.0), kill_driver, seed),
        Assassin("subscriber", third, (3.0, 20.0), lambda _: scene.subscriber.kill(), seed),
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
