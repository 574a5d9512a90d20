"""The shop's story, whole: on this machine, and on a real Kubernetes API server with data on a real S3 server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.shop.story import Story
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import ROOT
from tests.services.s3 import Minio
from tests.story.stages import Scene, kubernetes_scene, local_scene, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

TRANSCRIPT = ROOT / "docs" / "transcript.md"


def test_the_story_on_this_machine(tmp_path: Path) -> None:
    with local_scene(tmp_path, print) as scene:
        tell(scene)


def test_the_story_on_kubernetes(tmp_path: Path, fresh_cluster: ControlPlane, minio: Minio) -> None:
    shown: list[tuple[str, str]] = []
    with kubernetes_scene(tmp_path, fresh_cluster, minio, print) as scene:
        scene.stage.transcript = lambda title, text: shown.append((title, text))
        tell(scene)
    written = "".join(f"## {title}\n\n```\n{text.rstrip()}\n```\n\n" for title, text in shown)
    if "SEAMARK_TRANSCRIPT" in os.environ:
        TRANSCRIPT.write_text(OPENING + written.rstrip() + "\n")
    headings = [f"## {title}" for title, _ in shown]
    assert [line for line in TRANSCRIPT.read_text().splitlines() if line.startswith("## ")] == headings


OPENING = """# The story as kubectl shows it

Written by `tests/story/test_shop.py` (`make transcript`) while it tells the story of `examples/shop` on a real
Kubernetes API server: `kubectl get collections,renditions,shards,readholds,sparkapplications` at each step.

"""


def tell(scene: Scene) -> None:
    """The story, then the end of the collection: with `deletionPolicy: Delete`, nothing remains."""
    Story(scene.stage).run()
    names = [name for event, name in scene.starts() if event == "start"]
    assert len(names) == len(set(names)) == 3, f"one ingest, one backfill, one ingest: {names}"
    scene.subscriber.stop()
    scene.delete()
    wait_until(lambda: not scene.leftovers(), 120, lambda: f"left behind: {scene.leftovers()}")
