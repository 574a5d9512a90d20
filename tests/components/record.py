"""Remembers, across processes, which components a test run used, so that it can end with the list."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = "SEAMARK_COMPONENTS_USED"
"""Environment variable with the run's folder, inherited by its processes. Unset: nothing is recorded."""


@dataclass(frozen=True)
class Component:
    """One part of the world outside: where its program is, which version, and how it came there."""

    name: str
    version: str
    origin: str
    path: Path


def record(component: Component) -> None:
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    final = Path(folder) / f"{component.name}.json"
    if final.exists():
        return
    written = final.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(asdict(component), default=str))
    written.replace(final)


def recorded(folder: Path) -> list[Component]:
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [Component(f["name"], f["version"], f["origin"], Path(f["path"])) for f in found]
