"""The library is for small scripts too: importing it is quick and brings no Spark and no Kubernetes."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 0.3
TRIES = 30
"""A busy machine makes single runs slow, never quick: the quickest of several is the import's own time."""
HEAVY = ("pyspark", "kopf", "kubernetes")

PROBE = """
import json, sys, time
started, worked = time.perf_counter(), time.process_time()
import seamark
seconds, cpu = time.perf_counter() - started, time.process_time() - worked
print(json.dumps({"seconds": seconds, "cpu": cpu, "modules": sorted(sys.modules)}))
"""

PUBLIC = sorted(
    ".".join(init.parent.relative_to(ROOT).parts)
    for pattern in ("seamark/__init__.py", "seamark/*/__init__.py")
    for init in ROOT.glob(pattern)
    if "__all__" in init.read_text()
)


def import_in_a_fresh_process() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, cwd="/")
    return dict(json.loads(done.stdout))


def test_importing_seamark_takes_less_than_a_third_of_a_second() -> None:
    best = import_in_a_fresh_process()
    for _ in range(TRIES):
        if best["seconds"] < LIMIT_SECONDS:
            break
        best = min(best, import_in_a_fresh_process(), key=lambda run: float(run["seconds"]))
    assert best["seconds"] < LIMIT_SECONDS, (
        f"best of {TRIES + 1} took {best['seconds']:.3f} s, of which {best['cpu']:.3f} s of processor time; "
        "a large difference means a busy machine rather than a heavy import"
    )


def test_importing_seamark_brings_neither_spark_nor_kubernetes() -> None:
    modules = import_in_a_fresh_process()["modules"]
    assert "seamark" in modules
    assert [name for name in modules if name.split(".")[0] in HEAVY] == []


@pytest.mark.parametrize("package", PUBLIC)
def test_what_a_package_shows_is_what_it_exports(package: str) -> None:
    module = importlib.import_module(package)
    exported = module.__all__
    assert len(exported) == len(set(exported))
    assert [name for name in exported if not hasattr(module, name)] == []
    shown = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert shown - set(exported) == set()
