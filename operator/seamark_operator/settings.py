"""What can be set about the control plane, apart from what manifests say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seamark.errors import NotFound
from seamark_operator.core.observed import Policy

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Settings:
    """Of the shared part; each shell has its own options beside it."""

    policy: Policy = field(default_factory=Policy)
    """The numbers of the decisions: back-off, deadlines, rates."""
    probe_seconds: float = 30
    """How often a StorageLocation or CheckpointStore is probed."""
    rounds: int = 5
    """In one pass, how often a collection whose plan opened a next step is looked at again."""
    retry_first_seconds: float = 1
    """How long a collection whose pass failed is left alone; doubles with each failure in a row."""
    retry_cap_seconds: float = 60


def spark_apps(environ: Mapping[str, str] | None = None) -> Path:
    """The folder with `ingest.py` and `backfill.py`: SEAMARK_SPARK_APPS, or the repository's own."""
    environ = os.environ if environ is None else environ
    folder = Path(environ.get("SEAMARK_SPARK_APPS") or REPOSITORY / "spark_apps")
    if not (folder / "ingest.py").is_file():
        raise NotFound(f"no ingest.py in {folder}; set SEAMARK_SPARK_APPS to the folder with the Spark applications")
    return folder


def crds(environ: Mapping[str, str] | None = None) -> Path | None:
    """The folder with the CRDs: SEAMARK_CRDS, or the repository's own; None when neither is there."""
    environ = os.environ if environ is None else environ
    folder = Path(environ.get("SEAMARK_CRDS") or REPOSITORY / "crds")
    return folder if folder.is_dir() else None
